//! Files for TensorBoard.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message;

use super::histograms::Counts;
use crate::links::Chain;
use crate::training::{BoxError, Entry, Extension, Session, Trigger};

/// Writes all logged values, and histograms of parameters and gradients if they are wanted, to a
/// file that TensorBoard shows: `tensorboard --logdir FOLDER`.
///
/// A training that is resumed writes a new file, whose first event tells TensorBoard to forget what
/// older ones say of later steps.
///
/// Source: the messages `Event`, `Summary` and `HistogramProto` and the record format of TensorFlow.
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
}

impl TensorBoard {
    /// All logged values.
    pub fn new() -> Self {
        Self {
            trigger: Trigger::Never,
            file: None,
        }
    }

    /// Histograms of all parameters and their gradients, too.
    #[must_use]
    pub fn histograms(mut self, trigger: Trigger) -> Self {
        self.trigger = trigger;
        self
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        let Some((_, file)) = &mut self.file else {
            return Ok(());
        };
        write_record(file, &event.encode_to_vec())?;
        file.flush()
    }
}

impl Default for TensorBoard {
    fn default() -> Self {
        Self::new()
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |time| time.as_secs_f64())
}

/// A record: its length, a checksum of that, the bytes, and a checksum of these.
fn write_record(writer: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    /// A checksum of data that hold checksums is bad; so it is turned and moved.
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

    fn trigger(&self) -> &Trigger {
        &self.trigger
    }

    fn start(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        let folder = session.folder()?.join("tensorboard");
        fs::create_dir_all(&folder)?;
        // TensorBoard reads files in the order of their names.
        let mut seconds = now() as u64;
        let (path, file) = loop {
            let path = folder.join(format!("events.out.tfevents.{seconds:010}.bibun"));
            match File::create_new(&path) {
                Ok(file) => break (path, BufWriter::new(file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => seconds += 1,
                Err(error) => return Err(error.into()),
            }
        };
        self.file = Some((path, file));
        let step = session.clock().iteration() as i64;
        self.write(&Event::of(What::FileVersion("brain.Event:2".to_owned()), 0))?;
        if step > 0 {
            let start = SessionLog {
                status: SessionLog::START,
            };
            self.write(&Event::of(What::SessionLog(start), step + 1))?;
        }
        Ok(())
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
        let step = session.clock().iteration() as i64;
        Ok(self.write(&Event::of(What::Summary(Summary { values }), step))?)
    }

    fn logged(&mut self, entry: &Entry, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        let values = entry.iter().filter(|(name, _)| *name != "iteration");
        let values = values.map(|(name, value)| Summarized {
            tag: name.to_owned(),
            value: Some(Measured::Scalar(value as f32)),
        });
        let values = values.collect();
        let step = session.clock().iteration() as i64;
        Ok(self.write(&Event::of(What::Summary(Summary { values }), step))?)
    }

    fn finish(&mut self, _: &mut Session<'_, M>) -> Result<(), BoxError> {
        self.file = None;
        Ok(())
    }
}

// The messages, as far as they are used here.

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

impl Event {
    fn of(what: What, step: i64) -> Self {
        Self {
            wall_time: now(),
            step,
            what: Some(what),
        }
    }
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
