//! The steps of a [`Program`], to be shown.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{Planned, Program};
use crate::formula;
use crate::trace::{Operand, SlotSpec};
use crate::{DType, Location, Shape};

/// The steps of a [`Program`], to be shown. `Display` writes them as text.
///
/// ```
/// use bibun_array::{Array, Tracer};
/// let tracer = Tracer::new("halve");
/// let x = tracer.input(&Array::from([1.0, 2.0]));
/// let y = tracer.run(|| vec![&x / 2.0]);
/// let listing = tracer.finish(&y).listing();
/// assert_eq!(listing.steps[0].bytes_read, 16);
/// assert!(listing.to_string().contains("16 bytes in, 16 bytes out"));
/// ```
#[derive(Clone, Debug)]
pub struct Listing {
    /// The values that are in memory at some time, by number.
    pub values: Vec<Value>,
    /// The numbers of the inputs.
    pub inputs: Vec<usize>,
    /// The steps in the order in which they run.
    pub steps: Vec<Step>,
    /// The results.
    pub outputs: Vec<Read>,
    /// The calls that are left out because an earlier one computes the same.
    pub repeated: Vec<Origin>,
    /// The calls that are left out because no result needs them.
    pub unneeded: Vec<Origin>,
    /// The number of recorded calls.
    pub recorded: usize,
    /// The number of bytes of the values that a run holds at most at a time.
    pub peak_bytes: usize,
    /// The time that each step took in a profiled run, or nothing.
    pub times: Vec<Duration>,
}

/// A value that is in memory.
#[derive(Clone, Debug)]
pub struct Value {
    /// The type of its elements.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
    /// The number of bytes that it takes.
    pub bytes: usize,
}

/// A step of a program.
#[derive(Clone, Debug)]
pub struct Step {
    /// A description of a pass over memory, or the name of a call.
    pub name: String,
    /// What kind of step it is.
    pub kind: Kind,
    /// The arrays that it reads.
    pub reads: Vec<Read>,
    /// The numbers of its results.
    pub results: Vec<usize>,
    /// The number of bytes that it reads, with each element counted once.
    pub bytes_read: usize,
    /// The number of bytes of its results.
    pub bytes_written: usize,
    /// The operations that it computes: those of a pass, or a single one.
    pub operations: Vec<Operation>,
    /// The steps that go through some rows at a time together.
    pub parts: Vec<Self>,
}

/// A kind of step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A pass over memory, which computes operations element by element.
    Pass,
    /// A call of the CPU.
    Call,
    /// Steps that go through some rows at a time together.
    Rows,
}

/// An operation of a step.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The operation with its function and line.
    pub origin: Origin,
    /// What it reads; empty for a call, which reads what its step reads.
    pub sources: Vec<Source>,
    /// The number of the value that it writes to memory, if it writes one.
    pub result: Option<usize>,
}

/// An input of an operation of a pass over memory.
#[derive(Clone, Debug)]
pub enum Source {
    /// An array that the step reads, by its position.
    Read(usize),
    /// The result of an earlier operation of the step.
    Operation(usize),
    /// A number.
    Number(String),
}

/// The call that an operation comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// The name of the operation.
    pub operation: &'static str,
    /// The function that the user called.
    pub function: &'static str,
    /// The line of that call.
    pub location: Location,
}

/// An array that is read.
#[derive(Clone, Debug)]
pub enum Read {
    /// The value with this number.
    Value(usize),
    /// A view of the value with this number.
    View(usize, Shape),
    /// A number that was known when the program was traced.
    Number(String),
    /// An array that was known when the program was traced.
    Constant(DType, Shape),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operation,
            function,
            location,
        } = self;
        f.write_str(function)?;
        if operation != function {
            write!(f, " ({operation})")?;
        }
        write!(f, " at {}:{}", location.file(), location.line())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.dtype, self.shape)
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "%{value}"),
            Self::View(value, shape) => write!(f, "%{value} as {shape}"),
            Self::Number(number) => f.write_str(number),
            Self::Constant(dtype, shape) => write!(f, "{dtype} {shape}"),
        }
    }
}

impl Program {
    /// Returns the steps, to be shown.
    pub fn listing(&self) -> Listing {
        let values = self.slots.iter().map(|slot| Value {
            dtype: slot.dtype,
            shape: slot.layout.shape.clone(),
            bytes: slot.bytes(),
        });
        Listing {
            values: values.collect(),
            inputs: self.inputs.clone(),
            steps: self
                .items
                .iter()
                .map(|item| self.listed(&item.work))
                .collect(),
            outputs: self.outputs.iter().map(|y| self.read(y)).collect(),
            repeated: self.repeated.clone(),
            unneeded: self.unneeded.clone(),
            recorded: self.recorded,
            peak_bytes: self.peak_bytes,
            times: Vec::new(),
        }
    }

    fn listed(&self, work: &Planned) -> Step {
        let results = work.outputs();
        let (name, kind, operations) = match work {
            Planned::Fused {
                fused, operations, ..
            } => {
                let listed = operations.iter().map(|(origin, sources, result)| {
                    let sources = sources.iter().map(|source| match source {
                        formula::Source::Input(i) => Source::Read(*i),
                        formula::Source::Member(i) => Source::Operation(*i),
                        formula::Source::Constant(x) => Source::Number(x.to_string()),
                    });
                    Operation {
                        origin: origin.clone(),
                        sources: sources.collect(),
                        result: result.map(|i| results[i]),
                    }
                });
                (fused.to_string(), Kind::Pass, listed.collect())
            }
            Planned::Call { name, origin, .. } => {
                let operation = Operation {
                    origin: origin.clone(),
                    sources: Vec::new(),
                    result: results.first().copied(),
                };
                ((*name).to_owned(), Kind::Call, vec![operation])
            }
            Planned::Rows { rows, .. } => (rows.to_string(), Kind::Rows, Vec::new()),
        };
        let operands = work.operands();
        let mut reads: Vec<Read> = operands.iter().map(|operand| self.read(operand)).collect();
        if kind == Kind::Rows {
            // Several parts may read the same array.
            let mut known = std::collections::BTreeSet::new();
            reads.retain(|read| known.insert(read.to_string()));
        }
        let parts = match work {
            Planned::Rows { items, .. } => items.iter().map(|part| self.listed(part)).collect(),
            Planned::Fused { .. } | Planned::Call { .. } => Vec::new(),
        };
        Step {
            name,
            kind,
            reads,
            bytes_read: self.bytes_read(operands),
            bytes_written: results.iter().map(|&slot| self.slots[slot].bytes()).sum(),
            results,
            operations,
            parts,
        }
    }

    fn read(&self, operand: &Operand) -> Read {
        match operand {
            Operand::Slot(slot, layout) => {
                let own = &self.slots[*slot].layout;
                match own.shape == layout.shape && own.has_steps_of(layout) {
                    true => Read::Value(*slot),
                    false => Read::View(*slot, layout.shape.clone()),
                }
            }
            Operand::Constant(x) => match x.inline() {
                Some(element) => Read::Number(element.to_string()),
                None => Read::Constant(x.dtype(), x.shape().clone()),
            },
        }
    }

    /// The bytes of the elements that some operands show. Those of overlapping views are counted once
    /// where they are all of a value.
    fn bytes_read(&self, operands: &[Operand]) -> usize {
        let mut of_slots: BTreeMap<usize, usize> = BTreeMap::new();
        let mut bytes = 0;
        for operand in operands {
            let layout = operand.layout();
            let axes = layout.shape.iter().zip(layout.strides.iter());
            let seen: usize = axes
                .map(|(&size, &step)| if step == 0 { size.min(1) } else { size })
                .product();
            match operand {
                Operand::Slot(slot, _) => {
                    *of_slots.entry(*slot).or_default() += seen * self.slots[*slot].dtype.size();
                }
                Operand::Constant(x) => bytes += x.memory_bytes().min(seen * x.dtype().size()),
            }
        }
        let each = of_slots.iter();
        let each = each.map(|(&slot, &seen)| seen.min(SlotSpec::bytes(&self.slots[slot])));
        bytes + each.sum::<usize>()
    }
}

fn list(reads: &[Read]) -> String {
    let reads: Vec<String> = reads.iter().map(Read::to_string).collect();
    reads.join(", ")
}

impl Listing {
    fn write_step(&self, step: &Step, indent: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let results = step.results.iter();
        let results = results.map(|result| format!("%{result}: {}", self.values[*result]));
        let results = results.collect::<Vec<_>>().join(", ");
        write!(f, "{indent}{results} = {}", step.name)?;
        match step.kind {
            Kind::Pass | Kind::Rows => write!(f, " of {}", list(&step.reads))?,
            Kind::Call => write!(f, "({})", list(&step.reads))?,
        }
        let (read, written) = (step.bytes_read, step.bytes_written);
        writeln!(f, "; {read} bytes in, {written} bytes out")?;
        let indent = format!("{indent}    ");
        let origins = step.operations.iter().map(|operation| &operation.origin);
        write_origins(&indent, origins, "", f)?;
        let mut parts = step.parts.iter();
        parts.try_for_each(|part| self.write_step(part, &indent, f))
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &i in &self.inputs {
            writeln!(f, "%{i}: input {}", self.values[i])?;
        }
        for (i, step) in self.steps.iter().enumerate() {
            if let Some(time) = self.times.get(i) {
                write!(f, "{:9.1} us  ", time.as_secs_f64() * 1e6)?;
            }
            self.write_step(step, "", f)?;
        }
        write_origins(
            "removed: ",
            &self.repeated,
            ", which was computed before",
            f,
        )?;
        write_origins("removed: ", &self.unneeded, ", which no result needs", f)?;
        writeln!(f, "returns {}", list(&self.outputs))?;
        write!(
            f,
            "{} recorded calls in {} steps, at most {} bytes at a time",
            self.recorded,
            self.steps.len(),
            self.peak_bytes
        )
    }
}

/// Writes one line for each origin, and for those that follow each other and are alike.
fn write_origins<'a>(
    before: &str,
    origins: impl IntoIterator<Item = &'a Origin>,
    after: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut origins = origins.into_iter().peekable();
    while let Some(origin) = origins.next() {
        let mut count = 1;
        while origins.next_if_eq(&origin).is_some() {
            count += 1;
        }
        write!(f, "{before}{origin}")?;
        if count > 1 {
            write!(f, ", {count} times")?;
        }
        writeln!(f, "{after}")?;
    }
    Ok(())
}
