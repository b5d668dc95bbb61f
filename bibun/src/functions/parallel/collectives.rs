//! Collectives of one array from each process.

use bibun_array::{Array, DType};

use super::run;
use crate::batch::Batched;
use crate::call::calling;
use crate::examples::Examples;
use crate::function::{Mismatch, Spec};
use crate::functions::families::{Linear, LinearRule};
use crate::functions::moveaxis;
use crate::parallel::Communicator;
use crate::variable::Variable;

/// Returns the sum of x over all processes, on each of them.
///
/// Shapes: x any, the same on all processes → the same.
/// Types: all but bool; 16-bit floats are added in f32.
/// Gradient: the sum of gy over all processes. For per-example gradients, what is at the same place belongs to
/// the same example on all processes.
///
/// ```
/// use bibun::{functions::all_reduce, parallel::local, Variable};
/// local::run(2, |world| {
///     let x = Variable::new(1.0 + world.rank() as f64);
///     let y = all_reduce(&x, &world);
///     assert_eq!(y.item::<f64>(), 3.0);
///     // Both losses depend on both values.
///     (&y * &y).backward();
///     assert_eq!(x.grad().unwrap().item::<f64>(), 2.0 * 2.0 * 3.0);
/// });
/// ```
///
/// # Panics
/// Panics if x is bool, or the processes do not come together ([`Error::Communication`](crate::Error)).
#[track_caller]
pub fn all_reduce(x: impl Into<Variable>, processes: &Communicator) -> Variable {
    let _called = calling("all_reduce");
    of(Kind::AllReduce, x.into(), processes)
}

/// Returns the arrays of all processes, one behind the other along the first axis.
///
/// Shapes: x `[k, ..]`, the same on all `n` processes → `[n k, ..]`.
/// Types: all.
/// Gradient: the part of this process in the sum of gy over all processes ([`reduce_scatter`]).
///
/// ```
/// use bibun::{functions::all_gather, parallel::local, Variable};
/// local::run(2, |world| {
///     let x = Variable::new([world.rank() as f64]);
///     assert_eq!(all_gather(&x, &world).to_vec::<f64>(), [0.0, 1.0]);
/// });
/// ```
///
/// # Panics
/// Panics if x has no axes, or the processes do not come together.
#[track_caller]
pub fn all_gather(x: impl Into<Variable>, processes: &Communicator) -> Variable {
    let _called = calling("all_gather");
    of(Kind::AllGather, x.into(), processes)
}

/// Returns one part of the sum of x over all processes: of as many parts along the first axis as there are
/// processes, that at the rank of this one.
///
/// Shapes: x `[n k, ..]`, the same on all `n` processes → `[k, ..]`.
/// Types: all but bool; 16-bit floats are added in f32.
/// Gradient: gy of all processes ([`all_gather`]).
///
/// ```
/// use bibun::{functions::reduce_scatter, parallel::local, Variable};
/// let parts = local::run(2, |world| {
///     let x = Variable::new([1.0, 10.0]);
///     reduce_scatter(&x, &world).to_vec::<f64>()
/// });
/// assert_eq!(parts, [[2.0], [20.0]]);
/// ```
///
/// # Panics
/// Panics if the first axis cannot be divided into `n` equal parts, x is bool, or the processes do not come
/// together.
#[track_caller]
pub fn reduce_scatter(x: impl Into<Variable>, processes: &Communicator) -> Variable {
    let _called = calling("reduce_scatter");
    of(Kind::ReduceScatter, x.into(), processes)
}

/// Sends each process one part of x along the first axis, and returns the parts that all have for this one,
/// in the order of the ranks.
///
/// Shapes: x `[n k, ..]`, the same on all `n` processes → the same.
/// Types: all.
/// Gradient: each part of gy goes back to where it came from, which is the same function.
///
/// ```
/// use bibun::{functions::all_to_all, parallel::local, Variable};
/// let parts = local::run(2, |world| {
///     let first = 10.0 * world.rank() as f64;
///     all_to_all(&Variable::new([first, first + 1.0]), &world).to_vec::<f64>()
/// });
/// assert_eq!(parts, [[0.0, 10.0], [1.0, 11.0]]);
/// ```
///
/// # Panics
/// Panics if the first axis cannot be divided into `n` equal parts, or the processes do not come together.
#[track_caller]
pub fn all_to_all(x: impl Into<Variable>, processes: &Communicator) -> Variable {
    let _called = calling("all_to_all");
    of(Kind::AllToAll, x.into(), processes)
}

/// Returns the x of the process `root`, on all processes.
///
/// Shapes: x any, the same on all processes → the same.
/// Types: all.
/// Gradient: the sum of gy over all processes at `root`, zero elsewhere ([`reduce`]).
///
/// ```
/// use bibun::{functions::broadcast, parallel::local, Variable};
/// local::run(2, |world| {
///     let x = Variable::new(world.rank() as f64);
///     let y = broadcast(&x, 1, &world);
///     assert_eq!(y.item::<f64>(), 1.0);
///     y.backward();
///     assert_eq!(x.grad().unwrap().item::<f64>(), [0.0, 2.0][world.rank()]);
/// });
/// ```
///
/// # Panics
/// Panics if there is no such process, or the processes do not come together.
#[track_caller]
pub fn broadcast(x: impl Into<Variable>, root: usize, processes: &Communicator) -> Variable {
    let _called = calling("broadcast");
    processes.expect_rank("broadcast", root);
    of(Kind::Broadcast(root), x.into(), processes)
}

/// Returns the sum of x over all processes on the process `root`, and zeros on the others.
///
/// Shapes: x any, the same on all processes → the same.
/// Types: all but bool; 16-bit floats are added in f32.
/// Gradient: the gy of `root` ([`broadcast`]).
///
/// ```
/// use bibun::{functions::reduce, parallel::local, Variable};
/// let sums = local::run(2, |world| reduce(&Variable::new(2.0), 1, &world).item::<f64>());
/// assert_eq!(sums, [0.0, 4.0]);
/// ```
///
/// # Panics
/// Panics if there is no such process, x is bool, or the processes do not come together.
#[track_caller]
pub fn reduce(x: impl Into<Variable>, root: usize, processes: &Communicator) -> Variable {
    let _called = calling("reduce");
    processes.expect_rank("reduce", root);
    of(Kind::Reduce(root), x.into(), processes)
}

#[track_caller]
fn of(kind: Kind, x: Variable, processes: &Communicator) -> Variable {
    let processes = processes.clone();
    Linear::of(Collective { kind, processes }, x)
}

/// A linear map of the values of all processes.
#[derive(Clone, Debug)]
struct Collective {
    kind: Kind,
    processes: Communicator,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast(usize),
    Reduce(usize),
}

impl Kind {
    /// Returns whether the first axis is divided among the processes.
    fn divides(self) -> bool {
        match self {
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => true,
            Self::AllReduce | Self::Broadcast(_) | Self::Reduce(_) => false,
        }
    }

    fn adds(self) -> bool {
        match self {
            Self::AllReduce | Self::ReduceScatter | Self::Reduce(_) => true,
            Self::AllGather | Self::AllToAll | Self::Broadcast(_) => false,
        }
    }
}

impl LinearRule for Collective {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::AllReduce => "all_reduce",
            Kind::AllGather => "all_gather",
            Kind::ReduceScatter => "reduce_scatter",
            Kind::AllToAll => "all_to_all",
            Kind::Broadcast(_) => "broadcast",
            Kind::Reduce(_) => "reduce",
        }
    }

    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        let mut sizes = x.shape.to_vec();
        let processes = self.processes.size();
        if self.kind.adds() && x.dtype == DType::Bool {
            return Err(Mismatch::new(&[("x", x)], "truths are not added"));
        }
        if self.kind.divides() {
            let Some(first) = sizes.first_mut() else {
                return Err(Mismatch::new(
                    &[("x [k, ..]", x)],
                    "there must be a first axis",
                ));
            };
            match self.kind {
                Kind::AllGather => *first *= processes,
                _ if !first.is_multiple_of(processes) => {
                    let must_hold =
                        format!("n must divide into {processes} equal parts, one for each process");
                    return Err(Mismatch::new(&[("x [n, ..]", x)], must_hold));
                }
                Kind::ReduceScatter => *first /= processes,
                _ => {}
            }
        }
        Ok(Spec::new(sizes, x.dtype))
    }

    fn forward(&self, x: Array) -> Array {
        let spec = Spec::new(x.shape(), x.dtype());
        let y = self.shape(&spec).expect("the shapes have been checked");
        let (kind, processes) = (self.kind, self.processes.clone());
        run(self.name(), x, y, move |x| match kind {
            Kind::AllReduce => processes.all_reduce(x),
            Kind::AllGather => processes.all_gather(x),
            Kind::ReduceScatter => processes.reduce_scatter(x),
            Kind::AllToAll => processes.all_to_all(x),
            Kind::Broadcast(root) => processes.broadcast(x, root),
            Kind::Reduce(root) => processes.reduce(x, root),
        })
    }

    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        let transposed = match self.kind {
            Kind::AllReduce => Kind::AllReduce,
            Kind::AllGather => Kind::ReduceScatter,
            Kind::ReduceScatter => Kind::AllGather,
            Kind::AllToAll => Kind::AllToAll,
            Kind::Broadcast(root) => Kind::Reduce(root),
            Kind::Reduce(root) => Kind::Broadcast(root),
        };
        of(transposed, gy, &self.processes)
    }

    /// The batch axis goes to the end, so that the first axis is that of the function.
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let last = x.rank() - 1;
        let x = moveaxis(x, axis as isize, -1);
        Batched::along(Linear::of(self.clone(), x), last)
    }

    fn examples(&self, _: &Spec, y: &Examples) -> Option<Examples> {
        let is_moved = self.kind.divides() && y.axis() == 0;
        (!is_moved).then(|| y.clone())
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use crate::parallel::local;
    type Call = fn(&Variable, &Communicator) -> Variable;
    // One process alone; more of them are tested from outside, where each has its own part.
    let calls: [(&'static str, Call); 6] = [
        ("all_reduce", |x, all| all_reduce(x, all)),
        ("all_gather", |x, all| all_gather(x, all)),
        ("reduce_scatter", |x, all| reduce_scatter(x, all)),
        ("all_to_all", |x, all| all_to_all(x, all)),
        ("broadcast", |x, all| broadcast(x, 0, all)),
        ("reduce", |x, all| reduce(x, 0, all)),
    ];
    let sample = |(name, call): (&'static str, Call)| {
        let alone = local::alone();
        let call = move |x: &[Variable]| vec![call(&x[0], &alone)];
        Sample::new(name, call, |x| vec![x[0].clone()]).input([2, 3], -2.0..2.0)
    };
    calls.into_iter().map(sample).collect()
}
