//! Files for TensorBoard.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use prost::Message;

use super::histograms::Counts;
use crate::links::Chain;
use crate::serializers::{State, StateError};
use crate::training::{BoxError, Entry, Extension, Session, TrainingError, Trigger};

/// An extension that writes all logged values, and optionally histograms of parameters and
/// gradients, to a file that TensorBoard shows: `tensorboard --logdir FOLDER`.
///
/// Requires the feature `tensorboard`.
///
/// A resumed training writes a new file, which tells TensorBoard to discard the later steps in
/// older files. These files therefore stay in place even when training goes back. The order of the
/// files and the times in them are correct even if the system clock is changed: if it was set back,
/// the times continue from the last one.
///
/// Source: the messages `Event`, `Summary` and `HistogramProto` and the record format of
/// TensorFlow.
///
/// ```
/// use bibun::training::{TensorBoard, Trigger};
/// let events = TensorBoard::new().histograms(Trigger::Epochs(1.0));
/// # let _ = events;
/// ```
#[derive(Debug)]
pub struct TensorBoard {
    trigger: Trigger,
    file: Option<(PathBuf, BufWriter<File>)>,
    times: Times,
}

impl TensorBoard {
    /// Creates an extension that writes all logged values.
    pub fn new() -> Self {
        Self {
            trigger: Trigger::Never,
            file: None,
            times: Times::after(0.0),
        }
    }

    /// Adds histograms of all parameters and their gradients, when this trigger is due.
    ///
    /// # Panics
    /// Panics if a period in epochs is not more than 0.
    #[must_use]
    #[track_caller]
    pub fn histograms(mut self, trigger: Trigger) -> Self {
        trigger.expect("histograms");
        self.trigger = trigger;
        self
    }

    fn write(&mut self, what: What, step: u64) -> Result<(), BoxError> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let event = Event {
            wall_time: self.times.next(),
            step: step as i64,
            what: Some(what),
        };
        let written = write_record(file, &event.encode_to_vec()).and_then(|()| file.flush());
        Ok(written.map_err(TrainingError::io(&*path))?)
    }
}

impl Default for TensorBoard {
    fn default() -> Self {
        Self::new()
    }
}

/// Times that never go back.
#[derive(Debug)]
struct Times {
    /// The last time, in seconds since 1970.
    last: f64,
    /// The moment at which it was returned, by a monotonic clock.
    at: Instant,
}

impl Times {
    fn after(last: f64) -> Self {
        let at = Instant::now();
        Self { last, at }
    }

    fn next(&mut self) -> f64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0.0, |time| time.as_secs_f64());
        let passed = self.last + self.at.elapsed().as_secs_f64();
        *self = Self::after(now.max(passed));
        self.last
    }
}

/// The prefix of the names of event files, by which TensorBoard recognizes them.
const PREFIX: &str = "events.out.tfevents.";

/// Returns a number for a file that comes after all those in the folder, because TensorBoard reads
/// files in the order of their names. It is the time, unless there are files with a later one.
fn number_of_next(folder: &Path, time: f64) -> io::Result<u64> {
    // All numbers have ten digits, so that the names sort like the numbers.
    let mut number = (time as u64).min(9_000_000_000);
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let digits = rest.and_then(|rest| rest.get(..10));
        if let Some(taken) = digits.and_then(|digits| digits.parse::<u64>().ok()) {
            number = number.max(taken + 1);
        }
    }
    Ok(number)
}

/// Writes a record: its length, a checksum of the length, the bytes, and a checksum of the bytes.
fn write_record(writer: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    /// Checksums of data that contain checksums are weak, so the checksum is rotated and offset.
    fn masked(bytes: &[u8]) -> [u8; 4] {
        let sum = crc32c::crc32c(bytes);
        sum.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
    }
    let length = (bytes.len() as u64).to_le_bytes();
    writer.write_all(&length)?;
    writer.write_all(&masked(&length))?;
    writer.write_all(bytes)?;
    writer.write_all(&masked(bytes))
}

impl<M: Chain> Extension<M> for TensorBoard {
    fn name(&self) -> &str {
        "tensorboard"
    }

    fn is_for_first(&self) -> bool {
        true
    }

    fn trigger(&self) -> &Trigger {
        &self.trigger
    }

    fn start(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        let folder = session.folder()?.join("tensorboard");
        fs::create_dir_all(&folder).map_err(TrainingError::io(&folder))?;
        let number = number_of_next(&folder, self.times.next());
        let number = number.map_err(TrainingError::io(&folder))?;
        let path = folder.join(format!("{PREFIX}{number:010}.bibun"));
        let file = File::create_new(&path).map_err(TrainingError::io(&path))?;
        self.file = Some((path, BufWriter::new(file)));
        let step = session.clock().iteration();
        self.write(What::FileVersion("brain.Event:2".to_owned()), 0)?;
        // From here on, the contents of older files are void. TensorBoard takes the first such
        // event that it sees as the beginning, so all files have one.
        let start = SessionLog {
            status: SessionLog::START,
        };
        self.write(What::SessionLog(start), step + 1)
    }

    fn run(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        let mut values = Vec::new();
        for (name, parameter) in session.model().parameters() {
            let arrays = [
                ("parameters", Some(parameter.array())),
                (
                    "gradients",
                    parameter.grad().map(|gradient| gradient.array()),
                ),
            ];
            for (kind, array) in arrays {
                let counts = array.and_then(|array| Counts::of(&array, 30));
                values.extend(counts.map(|counts| Summarized {
                    tag: format!("{kind}/{name}"),
                    value: Some(Measured::Histogram(Histogram::of(&counts))),
                }));
            }
        }
        let step = session.clock().iteration();
        self.write(What::Summary(Summary { values }), step)
    }

    fn logged(&mut self, entry: &Entry, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        let values = entry.iter().filter(|(name, _)| *name != "iteration");
        let values = values.map(|(name, value)| Summarized {
            tag: name.to_owned(),
            value: Some(Measured::Scalar(value as f32)),
        });
        let values = values.collect();
        let step = session.clock().iteration();
        self.write(What::Summary(Summary { values }), step)
    }

    fn finish(&mut self, _: &mut Session<'_, M>) -> Result<(), BoxError> {
        self.file = None;
        Ok(())
    }

    fn state(&self) -> State {
        [("last_time", self.times.last)].into_iter().collect()
    }

    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        let last = state.number("last_time")?;
        self.times = Times::after(last.max(self.times.last));
        Ok(())
    }
}

// The parts of the messages that are used here.

#[derive(Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(oneof = "What", tags = "3, 5, 7")]
    what: Option<What>,
}

#[derive(prost::Oneof)]
enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
    #[prost(message, tag = "7")]
    SessionLog(SessionLog),
}

#[derive(Message)]
struct SessionLog {
    #[prost(int32, tag = "1")]
    status: i32,
}

impl SessionLog {
    const START: i32 = 1;
}

#[derive(Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    values: Vec<Summarized>,
}

#[derive(Message)]
struct Summarized {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(oneof = "Measured", tags = "2, 5")]
    value: Option<Measured>,
}

#[derive(prost::Oneof)]
enum Measured {
    #[prost(float, tag = "2")]
    Scalar(f32),
    #[prost(message, tag = "5")]
    Histogram(Histogram),
}

#[derive(Message)]
struct Histogram {
    #[prost(double, tag = "1")]
    min: f64,
    #[prost(double, tag = "2")]
    max: f64,
    #[prost(double, tag = "3")]
    count: f64,
    #[prost(double, tag = "4")]
    sum: f64,
    #[prost(double, tag = "5")]
    sum_of_squares: f64,
    #[prost(double, repeated, tag = "6")]
    upper_limits: Vec<f64>,
    #[prost(double, repeated, tag = "7")]
    counts: Vec<f64>,
}

impl Histogram {
    fn of(counts: &Counts) -> Self {
        Self {
            min: counts.min,
            max: counts.max,
            count: counts.counts.iter().sum::<u64>() as f64,
            sum: counts.sum,
            sum_of_squares: counts.sum_of_squares,
            upper_limits: counts.upper_limits().collect(),
            counts: counts.counts.iter().map(|&count| count as f64).collect(),
        }
    }
}
