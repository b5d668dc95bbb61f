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
        for &i in &self.inputs {
            let slot = &self.slots[i];
            writeln!(f, "%{i}: input {}", spec(slot.dtype, &slot.layout.shape))?;
        }
        for (i, item) in self.items.iter().enumerate() {
            if let Some(time) = times.and_then(|times| times.get(i)) {
                write!(f, "{:9.1} us  ", time.as_secs_f64() * 1e6)?;
            }
            let outputs: Vec<String> = item
                .work
                .outputs()
                .iter()
                .map(|&slot| {
                    let own = &self.slots[slot];
                    format!("%{slot}: {}", spec(own.dtype, &own.layout.shape))
                })
                .collect();
            let outputs = outputs.join(", ");
            match &item.work {
                Planned::Fused {
                    fused,
                    operands,
                    origins,
                    ..
                } => {
                    writeln!(f, "{outputs} = {fused} of {}", list(operands))?;
                    for origin in origins {
                        writeln!(f, "    {}", at(origin))?;
                    }
                }
                Planned::Call {
                    name,
                    operands,
                    origin,
                    ..
                } => {
                    writeln!(f, "{outputs} = {name}({})", list(operands))?;
                    writeln!(f, "    {}", at(origin))?;
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
