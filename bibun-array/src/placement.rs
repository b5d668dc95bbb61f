//! The choice of the device that computes: the one that holds the inputs, else the settled one, else
//! the CPU.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cpu::CPU;
use crate::{Array, DType, Device, Error, Shape, raise, record_call};

/// Returns the CPU.
pub fn cpu() -> &'static dyn Device {
    &CPU
}

thread_local! {
    static SETTLED: Cell<Option<&'static dyn Device>> = const { Cell::new(None) };
}

/// Whether there has ever been memory on a device other than the CPU.
static IS_ANOTHER: AtomicBool = AtomicBool::new(false);

/// Returns whether a device other than the CPU has been used in this program.
#[inline]
pub fn is_another_device() -> bool {
    IS_ANOTHER.load(Ordering::Relaxed)
}

/// Notes that there is memory on a device.
pub(crate) fn is_used(device: &'static dyn Device) {
    if device != cpu() && !device.takes_constants() {
        IS_ANOTHER.store(true, Ordering::Relaxed);
    }
}

/// Makes computations whose inputs are all repeated single values, which are on every device, run
/// on this device until the result is dropped. Otherwise they run on the CPU.
///
/// For libraries built on this one: a gradient that is the same everywhere is put into zeros on the
/// device of the array that it is the gradient of.
///
/// ```
/// use bibun_array::{cpu, settle, Array, DType};
/// let _here = settle(cpu());
/// assert!(Array::ones(3, DType::F64).cumsum(0).device() == cpu());
/// ```
pub fn settle(device: &'static dyn Device) -> Settled {
    Settled(SETTLED.replace(Some(device)))
}

/// A choice of a device, in force until this is dropped; see [`settle`].
#[derive(Debug)]
#[must_use = "it is over when this is dropped"]
pub struct Settled(Option<&'static dyn Device>);

impl Drop for Settled {
    fn drop(&mut self) {
        SETTLED.set(self.0);
    }
}

/// Puts the [settled](settle) device aside until the result is dropped.
pub(crate) fn put_aside() -> Settled {
    Settled(SETTLED.take())
}

/// The one device that holds all of the inputs. Arrays of a single repeated value are on every
/// device.
#[track_caller]
pub(crate) fn common<'a>(
    function: &'static str,
    inputs: impl IntoIterator<Item = &'a Array>,
) -> &'static dyn Device {
    let mut device: Option<&'static dyn Device> = None;
    for input in inputs {
        if let Some(memory) = input.memory() {
            let other = memory.device();
            device = match device {
                None => Some(other),
                Some(device) if device == other => Some(device),
                Some(device) if device.takes_constants() && other == cpu() => Some(device),
                Some(device) if other.takes_constants() && device == cpu() => Some(other),
                Some(device) => raise(Error::invalid(
                    function,
                    format!(
                        "the arrays are on two devices, {} and {}; bring them together with \
                         `to(device)`",
                        device.name(),
                        other.name()
                    ),
                )),
            };
        }
    }
    device.or_else(|| SETTLED.get()).unwrap_or_else(cpu)
}

/// Computes, or writes down, what only the CPU computes, and brings the results of these shapes and dtypes to
/// where the inputs are.
#[track_caller]
pub(crate) fn on_cpu(
    function: &'static str,
    inputs: &[&Array],
    outputs: &[(Shape, DType)],
    compute: impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static,
) -> Vec<Array> {
    common(function, inputs.iter().copied());
    let run = move |x: Vec<Array>| {
        // Not where the inputs are when this is written down.
        let device = common(function, &x);
        let x: Vec<Array> = x.iter().map(|x| x.to(cpu())).collect();
        compute(&x).into_iter().map(|y| y.to(device)).collect()
    };
    let inputs: Vec<Array> = inputs.iter().map(|&x| x.clone()).collect();
    record_call(function, &inputs, outputs, run)
}
