//! Messages from one process to another.

use bibun_array::{Array, Shape};

use super::run;
use crate::apply;
use crate::batch::Batched;
use crate::call::calling;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::{batch_in_front, broadcast_to, cast};
use crate::parallel::Communicator;
use crate::variable::Variable;

/// Sends x to another process, which calls [`receive`]. Returns a zero that stands for what the other makes
/// of x: add it to the loss of this process, so that the gradient comes back.
///
/// Shapes: x any → `[]`.
/// Types: all; the zero has the dtype of x.
/// Gradient: the gradient that the other process sends back.
///
/// Messages between two processes arrive in the order in which they are sent.
///
/// ```
/// use bibun::functions::{receive, send};
/// use bibun::{parallel::local, Spec, Variable};
/// local::run(2, |world| {
///     let w = Variable::new(3.0);
///     let loss = match world.rank() {
///         0 => send(&w * 2.0, 1, &world),
///         _ => receive(&w, w.spec(), 0, &world).square(),
///     };
///     loss.backward();
///     // (2 w)², of which the first process has the inner part.
///     let expected = [8.0 * 3.0, 0.0][world.rank()];
///     assert_eq!(w.grad().unwrap().item::<f64>(), expected);
/// });
/// ```
///
/// # Panics
/// Panics if there is no such process or it is this one. If the other does not come, its end or the timeout
/// is reported by the next collective, or by the gradient.
#[track_caller]
pub fn send(x: impl Into<Variable>, to: usize, processes: &Communicator) -> Variable {
    let _called = calling("send");
    processes.expect_other("send", to);
    let processes = processes.clone();
    let [zero] = apply(Send { to, processes }, [x.into()]);
    zero
}

/// Returns the x of this shape and dtype that another process [`send`]s.
///
/// The `token` says what the gradient is taken of, for there is no x here that the result depends on: a
/// parameter, or whatever on this process leads to one. Its value is not looked at, and it gets a gradient of
/// zeros.
///
/// Shapes: token any → the shape of `spec`.
/// Types: token a float, for there to be a gradient; the result has the dtype of `spec`.
/// Gradient: gy goes back to the other process; zeros for the token.
///
/// ```
/// use bibun::functions::{receive, send};
/// use bibun::{array::DType, parallel::local, Spec, Variable};
/// local::run(2, |world| match world.rank() {
///     0 => drop(send(&Variable::constant([1.0, 2.0]), 1, &world)),
///     _ => {
///         let token = Variable::constant(0.0);
///         let y = receive(token, Spec::new([2], DType::F64), 0, &world);
///         assert_eq!(y.to_vec::<f64>(), [1.0, 2.0]);
///     }
/// });
/// ```
///
/// # Panics
/// Panics if there is no such process or it is this one, it sends another shape or dtype, or it does not send
/// anything.
#[track_caller]
pub fn receive(
    token: impl Into<Variable>,
    spec: Spec,
    from: usize,
    processes: &Communicator,
) -> Variable {
    let _called = calling("receive");
    processes.expect_other("receive", from);
    let processes = processes.clone();
    let receive = Receive {
        spec,
        from,
        processes,
    };
    let [x] = apply(receive, [token.into()]);
    x
}

#[derive(Clone, Debug)]
struct Send {
    to: usize,
    processes: Communicator,
}

impl Function for Send {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "send"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        Ok([Spec::new((), x.dtype)])
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        let (to, processes, dtype) = (self.to, self.processes.clone(), x.dtype());
        [run("send", x, Spec::new((), dtype), move |x| {
            processes.send(x, to);
            Array::zeros((), dtype)
        })]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        let spec = cx.input_spec(0).clone();
        [Some(receive(gy, spec, self.to, &self.processes))]
    }

    fn jvp(&self, _: &Context<'_>, dx: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        dx.map(|dx| dx.map(|dx| send(dx, self.to, &self.processes)))
    }

    /// All batch elements travel as one message.
    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let (x, axis) = Batched::mapped(x);
        let zero = send(batch_in_front(x, axis), self.to, &self.processes);
        [Batched {
            value: zero,
            axis: None,
        }]
    }

    fn per_example(
        &self,
        _: &Context<'_>,
        _: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 1] {
        [Some(ExampleGradient::Unknown)]
    }
}

#[derive(Clone, Debug)]
struct Receive {
    spec: Spec,
    from: usize,
    processes: Communicator,
}

impl Function for Receive {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "receive"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }

    fn shape(&self, _: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        Ok([self.spec.clone()])
    }

    fn forward(&self, [token]: [Array; 1]) -> [Array; 1] {
        let Self {
            spec,
            from,
            processes,
        } = self.clone();
        let received = spec.clone();
        [run("receive", token, spec, move |_| {
            processes.receive(&received, from)
        })]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        let token = cx.input_spec(0);
        let zero = send(gy, self.from, &self.processes);
        [Some(broadcast_to(cast(zero, token.dtype), &token.shape))]
    }

    fn jvp(&self, _: &Context<'_>, token: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        let tangent = |token| receive(token, self.spec.clone(), self.from, &self.processes);
        token.map(|token| token.map(tangent))
    }

    /// All batch elements travel as one message.
    fn batch(&self, [token]: [Batched; 1]) -> [Batched; 1] {
        let count = token.count().unwrap_or(1);
        let sizes: Shape = [count]
            .iter()
            .chain(self.spec.shape.iter())
            .copied()
            .collect();
        let spec = Spec::new(sizes, self.spec.dtype);
        let received = receive(token.value, spec, self.from, &self.processes);
        [Batched::along(received, 0)]
    }

    fn per_example(
        &self,
        _: &Context<'_>,
        _: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 1] {
        [Some(ExampleGradient::Unknown)]
    }
}
