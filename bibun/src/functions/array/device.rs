//! Moving between devices.

use bibun_array::{Array, Device};

use crate::function::Spec;
use crate::functions::families::{Linear, LinearRule};
use crate::variable::Variable;

/// Moves x to a device; returns x itself if it is there already.
///
/// Shapes: x any → the same. Types: all. Gradient: `gy`, on the device that x is on. A single repeated
/// value is on every device, and counts as being on the CPU.
///
/// ```
/// use bibun::{array::cpu, functions::to, Variable};
/// let x = Variable::new([1.0, 2.0]);
/// let y = to(&x, cpu());
/// assert!(y.device() == cpu());
/// ```
#[track_caller]
pub fn to(x: impl Into<Variable>, device: &'static dyn Device) -> Variable {
    let x = x.into();
    let home = x.device();
    match home == device {
        true => x,
        false => moved(x, home, device),
    }
}

/// Calls [`to`] for a value that belongs to a device even if it is on all of them, as a repeated value
/// is; its gradient is moved back there.
#[track_caller]
pub(crate) fn moved(
    x: Variable,
    home: &'static dyn Device,
    device: &'static dyn Device,
) -> Variable {
    Linear::of(To { home, device }, x)
}

impl Variable {
    /// Calls [`functions::to`](crate::functions::to) of this Variable. Values computed from the result
    /// are computed on the device.
    #[must_use]
    #[track_caller]
    pub fn to(&self, device: &'static dyn Device) -> Self {
        to(self, device)
    }
}

#[derive(Clone, Debug)]
struct To {
    home: &'static dyn Device,
    device: &'static dyn Device,
}

impl LinearRule for To {
    fn name(&self) -> &'static str {
        "to"
    }
    fn forward(&self, x: Array) -> Array {
        x.to(self.device)
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        moved(gy, self.device, self.home)
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::cpu;
    // There and back, because the checks are on the CPU.
    vec![
        Sample::new(
            "to",
            |x| vec![to(to(&x[0], &test_device::BARE) * 2.0, cpu())],
            |x| vec![&x[0] * 2.0],
        )
        .input([2, 3], -2.0..2.0),
    ]
}
