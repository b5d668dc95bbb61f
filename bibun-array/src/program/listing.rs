//! Programs as text.

use std::fmt;
use std::time::Duration;

use super::{Planned, Program};
use crate::trace::Operand;
use crate::{DType, Location, Shape};

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.listing(None))
    }
}

impl Program {
    /// Returns the text of [`Display`](fmt::Display), with the time of each step in front of it.
    pub fn listing_with(&self, times: &[Duration]) -> String {
        self.listing(Some(times))
    }

    fn listing(&self, times: Option<&[Duration]>) -> String {
        let mut text = String::new();
        // A String takes everything.
        let _ = self.list(times, &mut text);
        text
    }

    fn list(&self, times: Option<&[Duration]>, f: &mut dyn fmt::Write) -> fmt::Result {
        let spec = |dtype: DType, shape: &Shape| format!("{dtype} {shape}");
        let operand = |operand: &Operand| match operand {
            Operand::Slot(slot, layout) => {
                let own = &self.slots[*slot];
                match own.layout.shape == layout.shape && own.layout.has_steps_of(layout) {
                    true => format!("%{slot}"),
                    false => format!("%{slot} as {}", layout.shape),
                }
            }
            Operand::Constant(x) => match x.inline() {
                Some(element) => element.to_string(),
                None => spec(x.dtype(), x.shape()),
            },
        };
        let list = |operands: &[Operand]| -> String {
            operands.iter().map(operand).collect::<Vec<_>>().join(", ")
        };
        let at = |(function, location): &(&str, Location)| {
            format!("{function} at {}:{}", location.file(), location.line())
        };
        let made = |work: &Planned| -> String {
            let outputs = work.outputs().into_iter().map(|slot| {
                let own = &self.slots[slot];
                format!("%{slot}: {}", spec(own.dtype, &own.layout.shape))
            });
            outputs.collect::<Vec<_>>().join(", ")
        };
        for &i in &self.inputs {
            let slot = &self.slots[i];
            writeln!(f, "%{i}: input {}", spec(slot.dtype, &slot.layout.shape))?;
        }
        for (i, item) in self.items.iter().enumerate() {
            if let Some(time) = times.and_then(|times| times.get(i)) {
                write!(f, "{:9.1} us  ", time.as_secs_f64() * 1e6)?;
            }
            let outputs = made(&item.work);
            if let Planned::Rows { rows, .. } = &item.work {
                writeln!(f, "{outputs} = {rows}:")?;
            }
            for part in item.work.parts() {
                let (outputs, indent) = match &item.work {
                    Planned::Rows { .. } => (made(part), "    "),
                    Planned::Fused { .. } | Planned::Call { .. } => (outputs.clone(), ""),
                };
                write!(f, "{indent}{outputs} = ")?;
                match part {
                    Planned::Fused {
                        fused,
                        operands,
                        origins,
                        ..
                    } => {
                        writeln!(f, "{fused} of {}", list(operands))?;
                        for origin in origins {
                            writeln!(f, "{indent}    {}", at(origin))?;
                        }
                    }
                    Planned::Call {
                        name,
                        operands,
                        origin,
                        ..
                    } => {
                        writeln!(f, "{name}({})", list(operands))?;
                        writeln!(f, "{indent}    {}", at(origin))?;
                    }
                    Planned::Rows { .. } => unreachable!("rows are not inside of rows"),
                }
            }
        }
        writeln!(f, "returns {}", list(&self.outputs))?;
        write!(
            f,
            "{} recorded calls in {} steps, at most {} bytes at a time",
            self.recorded,
            self.items.len(),
            self.peak_bytes
        )
    }
}
