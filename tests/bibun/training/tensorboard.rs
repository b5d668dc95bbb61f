//! Event files, read by a reader that shares nothing with the writer.

use std::fs;
use std::path::PathBuf;

use bibun::optimizers::Adam;
use bibun::serializers::{load_snapshot, save_snapshot};
use bibun::training::{Snapshots, TensorBoard, Trainer, Trigger, Until};

use super::points::{Folder, Net, Points, loss};

/// CRC-32C bit by bit (Castagnoli's polynomial, reflected).
fn crc32c(bytes: &[u8]) -> u32 {
    let mut sum = !0u32;
    for &byte in bytes {
        sum ^= u32::from(byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 {
                (sum >> 1) ^ 0x82f6_3b78
            } else {
                sum >> 1
            };
        }
    }
    !sum
}

fn unmasked(masked: &[u8]) -> u32 {
    let masked = u32::from_le_bytes(masked.try_into().expect("four bytes"));
    masked.wrapping_sub(0xa282_ead8).rotate_left(15)
}

/// The records of a file.
fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_at(8);
        let (length_sum, rest) = rest.split_at(4);
        assert_eq!(unmasked(length_sum), crc32c(length));
        let length = u64::from_le_bytes(length.try_into().expect("eight bytes")) as usize;
        let (record, rest) = rest.split_at(length);
        let (sum, rest) = rest.split_at(4);
        assert_eq!(unmasked(sum), crc32c(record));
        records.push(record.to_vec());
        bytes = rest;
    }
    records
}

/// A field of a message.
#[derive(Debug)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message by their numbers.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn number(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (&byte, rest) = bytes.split_first().expect("a byte");
            *bytes = rest;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                break;
            }
        }
        value
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = number(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(number(&mut bytes)),
            kind => {
                let length = match kind {
                    1 => 8,
                    5 => 4,
                    2 => number(&mut bytes) as usize,
                    other => panic!("no field is of kind {other}"),
                };
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(content)
            }
        };
        fields.push((key >> 3, field));
    }
    fields
}

fn bytes_of<'a>(fields: &'a [(u64, Field<'a>)], wanted: u64) -> Option<&'a [u8]> {
    fields.iter().find_map(|(number, field)| match field {
        Field::Bytes(bytes) if *number == wanted => Some(*bytes),
        _ => None,
    })
}

fn double(bytes: &[u8]) -> f64 {
    f64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// What the events of a file say.
struct Events {
    /// The step, a tag, and a number (of a histogram, its count).
    said: Vec<(u64, String, f64)>,
    /// The step from which on older files are void.
    restarted: Option<u64>,
    times: Vec<f64>,
}

fn events(file: &PathBuf) -> Events {
    let records = records(&fs::read(file).expect("a file"));
    let (mut said, mut times) = (Vec::new(), Vec::new());
    let mut restarted = None;
    for (i, record) in records.iter().enumerate() {
        let event = fields(record);
        times.push(double(bytes_of(&event, 1).expect("a time")));
        let step = event.iter().find_map(|(number, field)| match field {
            Field::Number(step) if *number == 2 => Some(*step),
            _ => None,
        });
        let step = step.unwrap_or(0);
        if i == 0 {
            assert_eq!(bytes_of(&event, 3), Some(&b"brain.Event:2"[..]));
        }
        if let Some(session) = bytes_of(&event, 7) {
            assert!(matches!(fields(session)[..], [(1, Field::Number(1))]));
            restarted = Some(step);
        }
        for (_, value) in fields(bytes_of(&event, 5).unwrap_or_default()) {
            let Field::Bytes(value) = value else {
                panic!("values are messages")
            };
            let value = fields(value);
            let tag =
                String::from_utf8(bytes_of(&value, 1).expect("a tag").to_vec()).expect("words");
            let number = match (bytes_of(&value, 2), bytes_of(&value, 5)) {
                (Some(scalar), None) => {
                    f32::from_le_bytes(scalar.try_into().expect("four bytes")).into()
                }
                (None, Some(histogram)) => {
                    let histogram = fields(histogram);
                    let doubles = |wanted: u64| -> Vec<f64> {
                        let packed = bytes_of(&histogram, wanted).unwrap_or_default();
                        packed.chunks(8).map(double).collect()
                    };
                    let (limits, counts) = (doubles(6), doubles(7));
                    assert_eq!(limits.len(), counts.len());
                    assert!(limits.is_sorted());
                    let count = doubles(3)[0];
                    assert_eq!(counts.iter().sum::<f64>(), count);
                    let [min, max] =
                        [1, 2].map(|wanted| doubles(wanted).first().copied().unwrap_or(0.0));
                    assert!(min <= max && limits.last() == Some(&max));
                    count
                }
                other => panic!("{other:?}"),
            };
            said.push((step, tag, number));
        }
    }
    assert!(times[0] > 1.7e9 && times.is_sorted());
    Events {
        said,
        restarted,
        times,
    }
}

/// The files that TensorBoard reads, in its order.
fn event_files(folder: &Folder) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.path().join("tensorboard")).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = paths.collect();
    files.sort();
    files
}

#[test]
fn event_files_say_what_the_log_says() {
    let folder = Folder::new("tensorboard");
    let make = |steps| {
        Trainer::new(Net::new(0), Points::new(60, 20), Adam::new(0.01), loss)
            .until(Until::Iterations(steps))
            .folder(folder.path())
            .log_every(Trigger::Iterations(2))
            .snapshots(Snapshots::every(Trigger::Iterations(2)))
            .extend(TensorBoard::new().histograms(Trigger::Iterations(3)))
    };
    make(6).run().expect("no trouble");
    let mut trainer = make(8);
    trainer.resume().expect("a snapshot");
    trainer.run().expect("no trouble");

    let files = event_files(&folder);
    assert_eq!(files.len(), 2);
    let [first, second] = [events(&files[0]), events(&files[1])];
    // TensorBoard takes the first it sees for no restart.
    assert_eq!((first.restarted, second.restarted), (Some(1), Some(7)));
    let said: Vec<(u64, String, f64)> = first.said.into_iter().chain(second.said).collect();
    for entry in trainer.log().entries() {
        for (name, value) in entry.iter().filter(|(name, _)| *name != "iteration") {
            let step = entry.get("iteration").expect("always there") as u64;
            let found = said.iter().find(|(at, tag, _)| *at == step && tag == name);
            let found = found.unwrap_or_else(|| panic!("{name} at {step}")).2;
            assert_eq!(found as f32, value as f32, "{name}");
        }
    }
    let counts: Vec<(u64, f64)> = (said.iter())
        .filter(|(_, tag, _)| tag == "gradients/l1/weight")
        .map(|(step, _, count)| (*step, *count))
        .collect();
    assert_eq!(counts, [(3, 32.0), (6, 32.0)]);
    if let Some(keep) = std::env::var_os("BIBUN_KEEP_PICTURES") {
        for file in files {
            let name = file.file_name().expect("a name");
            fs::copy(&file, std::path::Path::new(&keep).join(name)).expect("copied");
        }
    }
}

#[test]
fn a_clock_that_was_set_back_changes_no_order() {
    let folder = Folder::new("clock");
    let make = |steps| {
        Trainer::new(Net::new(0), Points::new(60, 20), Adam::new(0.01), loss)
            .until(Until::Iterations(steps))
            .folder(folder.path())
            .log_every(Trigger::Iterations(1))
            .snapshots(Snapshots::every(Trigger::Iterations(1)).keep(9))
            .extend(TensorBoard::new())
    };
    make(3).run().expect("no trouble");
    // What was written in 2096, by this training and somebody else's.
    let first = event_files(&folder).remove(0);
    let events_folder = first.parent().expect("a folder");
    let late = 4_000_000_000.0;
    let future = events_folder.join("events.out.tfevents.4000000000.bibun");
    fs::rename(&first, &future).expect("renamed");
    let theirs = events_folder.join("events.out.tfevents.4000000007.host.1.0.v2");
    fs::write(&theirs, "").expect("written");
    let snapshot = folder.path().join("snapshot_00000003.npz");
    let mut state = load_snapshot(&snapshot).expect("a snapshot");
    state.insert("extensions/tensorboard/last_time", late);
    save_snapshot(&snapshot, &state).expect("saved");

    for steps in [4, 5, 6] {
        let mut trainer = make(steps);
        trainer.resume().expect("a snapshot");
        trainer.run().expect("no trouble");
    }
    // And back to the third step: what comes now is the last word.
    let mut trainer = make(5);
    trainer.resume_from(&snapshot).expect("a snapshot");
    trainer.run().expect("no trouble");

    let files = event_files(&folder);
    assert_eq!(files[..2], [future, theirs]);
    let read: Vec<Events> = files[2..].iter().map(events).collect();
    let restarted: Vec<_> = read.iter().map(|events| events.restarted).collect();
    assert_eq!(restarted, [Some(4), Some(5), Some(6), Some(4)]);
    for events in &read {
        assert!(
            events.times[0] >= late && events.times[0] < late + 600.0,
            "{:?}",
            events.times
        );
    }
    assert!(read[..3].is_sorted_by(|a, b| a.times.last() <= b.times.first()));
}
