//! Every message of the core, provoked once: its words, its type, and the caller's line in it.

use bibun::array::{Array, DType, s};
use bibun::functions::{broadcast_to, greater, reshape, sum, tanh};
use bibun::{
    BatchAxes, Batched, Context, Error, ExampleCotangent, ExampleGradient, Fixed, Function,
    GradOptions, Mismatch, Needs, Saved, Spec, Variable, VmapOptions, apply, attempt, checkpoint,
    grad, gradient_check, gradients, gradients_with, is_recording, is_training, jacobian, jvp,
    linearize, no_grad, no_rule, ravel_tree, retain, value_and_grad, vjp, vmap, vmap_with,
};
use rayon::prelude::*;

/// The error that the code raises, and the message with this line in place of `{here}`. Messages
/// end with the column, which says nothing more and is left out.
macro_rules! raises {
    ($code:expr, $message:expr) => {{
        let error = attempt(|| {
            let _ = $code;
        })
        .expect_err("an error");
        // The code may take several lines.
        let found = (line!()..line!() + 12).fold(without_columns(&error), |found, line| {
            found.replace(&format!("{}:{line}", file!()), "{here}")
        });
        assert_eq!(found, $message.to_owned());
        error
    }};
}

/// The message without the columns of places in this file.
fn without_columns(error: &Error) -> String {
    let message = error.to_string();
    let mut parts = message.split(file!());
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // ":line:column" and what follows.
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).count();
        let line = 1 + digits(&part[1..]);
        let column = 1 + digits(&part[line + 1..]);
        kept = kept + file!() + &part[..line] + &part[line + column..];
    }
    kept
}

fn leaf(elements: &[f64]) -> Variable {
    Variable::new(Array::from(elements.to_vec()))
}

// ----- calls that do not fit

#[test]
fn shapes_that_do_not_fit() {
    let (a, b) = (leaf(&[1.0, 2.0]), leaf(&[1.0, 2.0, 3.0]));
    let message = "add: inputs do not fit: a = [2] f64, b = [3] f64 \
                   (sizes must be equal or 1, counted from the last axis), called at {here}";
    let error = raises!(&a + &b, message);
    assert!(matches!(
        error,
        Error::Mismatch {
            function: "add",
            ..
        }
    ));
    let message = "reshape: inputs do not fit: x = [3] f64 \
                   (the sizes differ: x [3] and shape [2, 2]), called at {here}";
    raises!(reshape(&b, [2, 2]), message);
    raises!(b.reshape([2, 2]), message);
    let message = "broadcast_to: inputs do not fit: x = [2] f64 \
                   (it cannot be repeated to the shape [3]), called at {here}";
    raises!(broadcast_to(&a, 3), message);
}

#[test]
fn arguments_of_functions() {
    let x = leaf(&[1.0, 2.0]);
    let message = "permute: [] does not name every axis of x = [2] f64, called at {here}";
    let error = raises!(x.permute(&[]), message);
    assert!(matches!(
        error,
        Error::Argument {
            function: "permute",
            ..
        }
    ));
    let message = "sum: axis 1 is outside of the rank 1, called at {here}";
    let error = raises!(sum(&x, 1), message);
    assert!(matches!(error, Error::Array(_)));
    let message = "sum: axis -1 is named twice in [0, -1], called at {here}";
    raises!(x.sum([0, -1]), message);
}

#[test]
fn mistakes_with_arrays() {
    let x = leaf(&[1.0, 2.0]);
    let message = "to_vec: the dtype is f64, expected f32, called at {here}";
    let error = raises!(x.array().to_vec::<f32>(), message);
    assert!(matches!(
        error,
        Error::Array(bibun::array::Error::DType { .. })
    ));
    let error = attempt(|| x.array().slice(s![5])).expect_err("an error");
    assert!(matches!(error, Error::Array(_)));
    raises!(x.to_vec::<f32>(), message);
}

// ----- gradients

#[test]
fn backward_without_a_leaf() {
    let y = Variable::constant(1.0) * 2.0;
    let message = "backward: no leaf took part in this Variable, so it has no gradient, \
                   called at {here}";
    let error = raises!(y.backward(), message);
    assert!(matches!(
        error,
        Error::Argument {
            function: "backward",
            ..
        }
    ));
}

#[test]
fn outputs_without_cotangents() {
    let x = leaf(&[1.0, 2.0]);
    let y = &x * 2.0;
    let message = "backward: the output is [2] f64; \
                   without a cotangent it must have a single element, called at {here}";
    raises!(y.backward(), message);
    let message = message.replace("backward", "gradients");
    raises!(gradients(&[&y], &[&x]), message);
}

#[test]
fn cotangents_that_do_not_fit() {
    let x = leaf(&[1.0, 2.0]);
    let y = &x * 2.0;
    let options = GradOptions::new().cotangents(&[&Variable::constant([1.0, 2.0, 3.0])]);
    let message = "backward: the output is [2] f64, its cotangent [3] f64, called at {here}";
    raises!(y.backward_with(&options), message);
    let message = message.replace("backward", "gradients");
    raises!(gradients_with(&[&y], &[&x], &options), message);
    let message = "gradients: 2 outputs, but 1 cotangents, called at {here}";
    raises!(gradients_with(&[&y, &y], &[&x], &options), message);
}

#[test]
fn gradients_that_do_not_fit() {
    let x = leaf(&[1.0, 2.0]);
    let message = "set_grad: the Variable is [2] f64, the gradient [] f64, called at {here}";
    raises!(x.set_grad(&Variable::constant(1.0)), message);
    let y = &x * 2.0;
    let message = "set_grad: not a leaf, and retain_grad was not called (a computed model gets leaves \
                   by tree_map(|w| Variable::new(w.array()), &model)), called at {here}";
    raises!(y.set_grad(&x), message);
}

// ----- leaves

#[test]
fn values_that_do_not_fit_a_leaf() {
    let x = leaf(&[1.0, 2.0]);
    let message = "set_array: the leaf is [2] f64, the value [] f64, called at {here}";
    raises!(x.set_array(Array::from(1.0)), message);
    // Nothing has happened to the leaf.
    assert_eq!(x.to_vec::<f64>(), [1.0, 2.0]);
    x.set_array(Array::from([3.0, 4.0]));
    assert_eq!(x.to_vec::<f64>(), [3.0, 4.0]);
    let message = "set_array: only a leaf's value can be replaced, called at {here}";
    raises!((&x * 2.0).set_array(Array::from([1.0, 2.0])), message);
    let message = "update: only a leaf's value can be replaced, called at {here}";
    raises!(Variable::constant(1.0).update(|x| x), message);
    let message = "update: the leaf is [2] f64, the value [2] f32, called at {here}";
    raises!(x.update(|x| x.cast(DType::F32)), message);
}

#[test]
fn constants_have_no_names() {
    let message = "set_name: a constant has no name; make it a leaf by Variable::new, \
                   called at {here}";
    raises!(Variable::constant(1.0).set_name("x"), message);
    raises!(Variable::constant(1.0).named("x"), message);
}

// ----- transformations

#[test]
fn arguments_of_vmap() {
    let x = [leaf(&[1.0, 2.0]), leaf(&[1.0, 2.0, 3.0])];
    let f = <[Variable; 2]>::clone;
    let with = |axes: BatchAxes| VmapOptions::new().in_axes(axes);
    let message = "vmap: there is no axis for `1` of the argument, called at {here}";
    raises!(vmap_with(f, &x, with([0].into())), message);
    let message = "vmap: there is an axis for `2`, but the argument has no such part, \
                   called at {here}";
    raises!(vmap_with(f, &x, with((0, 0, 0).into())), message);
    let message = "vmap: no part of the argument has a batch axis, called at {here}";
    raises!(vmap_with(f, &x, with(None.into())), message);
    let message = "vmap: the argument has 2 batch elements at `0` and 3 at `1` (VmapOptions has an axis, or None, \
                   for each part), called at {here}";
    raises!(vmap(f, &x), message);
    let message = "vmap: the argument at 1 is a single number and has no batch axis (None in \
                   VmapOptions says that it is the same for all batch elements), called at {here}";
    raises!(
        vmap(
            <[Variable; 2]>::clone,
            &[x[0].clone(), Variable::constant(1.0)]
        ),
        message
    );
    let message = "vmap: axis 1 is outside of the rank 1, called at {here}";
    raises!(vmap_with(f, &x, with((1, None).into())), message);
    let message =
        "vmap: the result `0` differs between batch elements; it needs an axis, called at {here}";
    raises!(
        vmap_with(f, &x, with((0, None).into()).out_axes((None, 0))),
        message
    );
    let message = "vmap: axis 2 is outside of the rank 1, called at {here}";
    raises!(
        vmap_with(f, &x, with((0, None).into()).out_axes(2)),
        message
    );
    let message = "vmap: a chunk has no batch elements, called at {here}";
    raises!(
        vmap_with(f, &x, with((0, None).into()).chunk_size(0)),
        message
    );
}

#[test]
fn arguments_of_jvp() {
    let (x, v) = (Variable::constant(1.0), Variable::constant(1.0f32));
    let error = attempt(|| jvp(Variable::clone, &x, &v)).expect_err("an error");
    assert!(matches!(
        error,
        Error::Argument {
            function: "jvp",
            ..
        }
    ));
    let message = "jvp: the argument is [] f64, the tangent [] f32; \
                   they must be alike, called at {here}";
    raises!(jvp(Variable::clone, &x, &v), message);
    let message = "jvp: the argument has `1` and the tangent has not; they must be alike, \
                   called at {here}";
    let all = |x: &Vec<Variable>| x.clone();
    raises!(
        jvp(all, &vec![x.clone(), x.clone()], &vec![x.clone()]),
        message
    );
    let message = "jvp: the tangent has `1` and the argument has not; they must be alike, \
                   called at {here}";
    raises!(
        jvp(all, &vec![x.clone()], &vec![x.clone(), x.clone()]),
        message
    );
    raises!(
        linearize(all, &vec![x.clone()]).1.call(&vec![]),
        "linearize: the argument has `0` and \
            the tangent has not; they must be alike, called at {here}"
    );
}

#[test]
fn arguments_of_gradients() {
    let x = leaf(&[1.0, 2.0]);
    let message = "grad: the function gives [2] f64; to have a gradient it must give a single \
                   float (jacobian and vjp are for others), called at {here}";
    raises!(grad(Variable::clone, &x), message);
    let message = message.replace("grad:", "value_and_grad:");
    raises!(value_and_grad(Variable::clone, &x), message);
    let message = "value_and_grad: the function gives [] i64; to have a gradient it must give a \
                   single float (jacobian and vjp are for others), called at {here}";
    raises!(value_and_grad(|_| Variable::constant(1i64), &x), message);
    let pair = (x.clone(), Variable::constant([1i64]));
    let message = "grad: the argument at 1 is [1] i64, and there is no derivative by integers or \
                   bools; let the function capture it, called at {here}";
    raises!(grad(|(x, _)| x.sum(..), &pair), message);
    let message = "jvp: the argument is [1] i64, and there is no derivative by integers or \
                   bools; let the function capture it, called at {here}";
    raises!(jvp(Variable::clone, &pair.1, &pair.1), message);
    let message = "grad: there is no Variable in the argument to differentiate by, \
                   called at {here}";
    raises!(grad(|&x| Variable::constant(x), &3.0), message);
    let pullback = vjp(|x| vec![x * x], &x).1;
    let message = "vjp: the result is [2] f64, the cotangent [] f64; \
                   they must be alike, called at {here}";
    raises!(
        pullback.call(&vec![Variable::constant(1.0)]),
        message
            .replace("the result is", "`0` of the result is")
            .replace("the cotangent", "`0` of the cotangent")
    );
    raises!(
        vjp(Variable::clone, &x).1.call(&Variable::constant(1.0)),
        message
    );
    let message = "vjp: the cotangent has `1` and the result has not; they must be alike, \
                   called at {here}";
    raises!(pullback.call(&vec![x.clone(), x.clone()]), message);
    let message = "jacobian: the result is [2] bool, and only floats have derivatives, \
                   called at {here}";
    raises!(jacobian(|x: &Variable| greater(x, 0.0), &x), message);
    let message = "ravel_tree: one leaf is f64, `1` is i64; cast to one dtype, called at {here}";
    raises!(ravel_tree(&pair), message);
    raises!(
        ravel_tree(&()),
        "ravel_tree: there is no Variable in here, called at {here}"
    );
    let message =
        "ravel_tree: the way back is for 2 elements, the vector is [3] f64, called at {here}";
    raises!(ravel_tree(&x).1(&leaf(&[1.0, 2.0, 3.0])), message);
}

#[test]
fn a_checkpoint_must_not_capture_history() {
    let (x, w) = (leaf(&[1.0, 2.0]), leaf(&[3.0, 4.0]));
    let captured = w.clone();
    let error = attempt(|| checkpoint(move |x| x * &captured, &x)).expect_err("an error");
    let here = (file!(), line!() - 1);
    let message = "checkpoint: the function captures a Variable that has history, and its gradient \
                   would be lost; hand it in as part of the argument (multiply uses it), or `detach` it if it is a constant here, called at ";
    assert!(error.to_string().starts_with(message), "{error}");
    let location = error.location();
    assert_eq!((location.file(), location.line()), here, "{error}");
    let hidden = |w: &Variable| {
        let (w, x) = (w.clone(), Variable::constant(1.0));
        checkpoint(move |x| x * &w, &x)
    };
    let error = attempt(|| vmap(hidden, &w.detach())).expect_err("an error");
    assert!(
        error
            .to_string()
            .contains("a Variable that is hidden by a transformation"),
        "{error}"
    );
    // Handed in it is right, and what is differentiated inside is no capture.
    let f = |(x, w): &(Variable, Variable)| grad(|x| (x * x * w).sum(..), x);
    let y = checkpoint(f, &(x, w.clone()));
    y.sum(..).backward();
    assert_eq!(w.grad().expect("a gradient").to_vec::<f64>(), [2.0, 4.0]);
}

#[test]
fn hidden_elements() {
    let x = leaf(&[1.0, 2.0]);
    let message = "array: the elements of this Variable are hidden by vmap \
                   (choose by where_ instead of by the values of one batch element), asked for at {here}";
    let error = attempt(|| vmap(|x| Variable::constant(x.array()), &x)).expect_err("an error");
    assert!(matches!(
        error,
        Error::Hidden {
            transformation: "vmap",
            ..
        }
    ));
    raises!(
        vmap(|x: &Variable| Variable::constant(x.array()), &x),
        message
    );
    // Control flow that depends on the data of a batch element.
    let message = "item: the elements of this Variable are hidden by vmap \
                   (choose by where_ instead of by the values of one batch element), asked for at {here}";
    raises!(
        vmap(
            |x: &Variable| if x.item::<f64>() > 0.0 {
                x.exp()
            } else {
                x.clone()
            },
            &x
        ),
        message
    );
    let message = "array: the elements of this Variable are hidden by jvp \
                   (use detach if its derivative may be dropped), asked for at {here}";
    raises!(
        jvp(|x: &Variable| Variable::constant(x.array()), &x, &x),
        message
    );
}

// ----- rules

/// `2 x`, with rules that are missing or wrong.
#[derive(Clone, Debug)]
enum Double {
    /// Has only a forward rule.
    Bare,
    /// Its rules forget an axis.
    Flattening,
    /// Its reverse rule reads the input without keeping it.
    Dishonest,
    /// Its reverse rule calls a function that does not fit.
    Misfit,
}

fn flat(x: Variable) -> Variable {
    let size = x.size();
    reshape(x, size)
}

impl Function for Double {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;
    fn name(&self) -> &'static str {
        "double"
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }
    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        Ok([x.clone()])
    }
    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        [x * 2.0]
    }
    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        [Some(match self {
            Self::Bare => no_rule("double", "vjp", "use a product"),
            Self::Flattening => flat(gy * 2.0),
            Self::Dishonest => gy * cx.input(0),
            Self::Misfit => gy * Variable::constant([1.0, 2.0, 3.0]),
        })]
    }
    fn jvp(&self, _: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        match self {
            Self::Flattening => [dx.map(flat)],
            _ => no_rule("double", "jvp", "use a product"),
        }
    }
    fn batch(&self, [x]: [Batched; 1]) -> [Batched; 1] {
        match self {
            Self::Flattening => [Batched::along(flat(x.value), 0)],
            _ => no_rule("double", "batch", "use a product"),
        }
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 1] {
        gy.pull_back(|gy| self.vjp(cx, [gy]))
    }
}

fn matrix() -> Variable {
    Variable::new([[1.0, 2.0], [3.0, 4.0]])
}

#[test]
fn missing_rules() {
    let x = [matrix()];
    let f = |[x]: &[Variable; 1]| apply(Double::Bare, [x.clone()]);
    // The place is that of the call in `f`, wherever the rule was asked for.
    let called = line!() - 2;
    let location = format!("called at {}:{called}", file!());
    let error = attempt(|| jvp(f, &x, &x)).expect_err("an error");
    let message = format!("double: there is no jvp rule (use a product), {location}");
    assert_eq!(without_columns(&error), message);
    assert!(matches!(error, Error::MissingRule { rule: "jvp", .. }));
    let error = attempt(|| vmap(f, &x)).expect_err("an error");
    assert_eq!(without_columns(&error), message.replace("jvp", "batch"));
    // In a gradient: the place of the call, and that of the rule.
    let y = f(&x);
    let error = attempt(|| gradients(&[&y[0].sum(..)], &[&x[0]])).expect_err("an error");
    let Error::InGradient {
        function, source, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*function, "double");
    assert!(matches!(**source, Error::MissingRule { rule: "vjp", .. }));
    let start = format!("in the gradient of double, which was {location}: double: there is no vjp");
    assert!(without_columns(&error).starts_with(&start), "{error}");
}

#[test]
fn wrong_rules() {
    let x = [matrix()];
    let f = |[x]: &[Variable; 1]| apply(Double::Flattening, [x.clone()]);
    let location = format!("{}:{}", file!(), line!() - 1);
    let y = f(&x)[0].sum(..);
    let error = attempt(|| y.backward()).expect_err("an error");
    let message = format!(
        "in the gradient of double, which was called at {location}: \
         double: the vjp rule gave [4] f64 for input 0, which is [2, 2] f64, called at {location}"
    );
    assert_eq!(without_columns(&error), message);
    let error = attempt(|| jvp(f, &x, &x)).expect_err("an error");
    let message = "double: the jvp rule gave [4] f64 for output 0, which is [2, 2] f64";
    assert_eq!(
        without_columns(&error),
        format!("{message}, called at {location}")
    );
    assert!(matches!(error, Error::WrongRule { rule: "jvp", .. }));
    let error = attempt(|| vmap(f, &x)).expect_err("an error");
    let message = "double: the batch rule gave [] f64 for output 0, which is [2] f64";
    assert_eq!(
        without_columns(&error),
        format!("{message}, called at {location}")
    );
}

#[test]
fn values_that_were_not_kept() {
    let x = matrix();
    let [y] = apply(Double::Dishonest, [x]);
    let location = format!("{}:{}", file!(), line!() - 1);
    let error = attempt(|| y.sum(..).backward()).expect_err("an error");
    let message = format!(
        "in the gradient of double, which was called at {location}: \
         double: a rule reads input 0, which the function does not keep, called at {location}"
    );
    assert_eq!(without_columns(&error), message);
    let Error::InGradient { source, .. } = error else {
        panic!("{error}")
    };
    assert!(matches!(*source, Error::NotKept { .. }));
}

#[test]
fn errors_inside_of_rules() {
    let x = matrix();
    let [y] = apply(Double::Misfit, [x]);
    let location = format!("{}:{}", file!(), line!() - 1);
    let error = attempt(|| y.sum(..).backward()).expect_err("an error");
    let start = format!(
        "in the gradient of double, which was called at {location}: \
         multiply: inputs do not fit: a = [2, 2] f64, b = [3] f64"
    );
    assert!(without_columns(&error).starts_with(&start), "{error}");
}

// ----- attempt and scopes

#[test]
fn other_panics_go_through_attempt() {
    let other = || attempt(|| std::panic::resume_unwind(Box::new(5)));
    let payload = std::panic::catch_unwind(|| drop(other())).expect_err("a panic");
    assert_eq!(payload.downcast_ref::<i32>(), Some(&5));
}

#[test]
fn attempts_nest() {
    let (a, b) = (leaf(&[1.0, 2.0]), leaf(&[1.0, 2.0, 3.0]));
    let outer = attempt(|| {
        assert!(attempt(|| &a + &b).is_err());
        &a + &a
    });
    assert_eq!(outer.expect("a sum").to_vec::<f64>(), [2.0, 4.0]);
}

#[test]
fn errors_outside_of_attempt_panic_with_the_same_message() {
    let (a, b) = (leaf(&[1.0, 2.0]), leaf(&[1.0, 2.0, 3.0]));
    let error = attempt(|| &a + &b).expect_err("an error").to_string();
    let sum = std::panic::AssertUnwindSafe(|| &a + &b);
    let payload = std::panic::catch_unwind(sum).expect_err("a panic");
    let message = payload.downcast_ref::<String>().expect("a message");
    let words = |text: &str| text.split(", called at").next().map(str::to_owned);
    assert_eq!(words(message), words(&error));
}

#[test]
fn scopes_close_when_a_panic_passes() {
    let (a, b) = (leaf(&[1.0, 2.0]), leaf(&[1.0, 2.0, 3.0]));
    assert!(attempt(|| no_grad(|| bibun::eval_mode(|| retain(|| &a + &b)))).is_err());
    assert!(is_recording() && is_training());
    bibun::eval_mode(|| {
        assert!(attempt(|| bibun::train_mode(|| &a + &b)).is_err());
        assert!(!is_training());
    });
    // Not retaining: the sum keeps nothing.
    let y = &a + 1.0;
    assert_eq!(y.creator().expect("a sum").kept_bytes(), 0);
    // Not inside of vmap, jvp or a walk: elements can be read and functions are recorded.
    let f = |_: &Variable| &a + &b;
    assert!(attempt(|| vmap(f, &a)).is_err());
    assert!(attempt(|| jvp(f, &a, &a)).is_err());
    assert!(attempt(|| grad(f, &a)).is_err());
    let sealed = |x: &Variable| x + Variable::constant([1.0, 2.0, 3.0]);
    assert!(attempt(|| checkpoint(sealed, &leaf(&[1.0, 2.0]))).is_err());
    let [y] = apply(Double::Bare, [matrix()]);
    assert!(attempt(|| y.sum(..).backward()).is_err());
    assert!(is_recording());
    let y = vmap(|x: &Variable| tanh(x), &a);
    assert_eq!(y.to_vec::<f64>(), tanh(&a).to_vec::<f64>());
    y.sum(..).backward();
    assert!(a.grad().is_some());
}

#[test]
fn gradients_are_checked_in_f64() {
    let x = [Variable::new([1.0f32])];
    let message =
        "gradient_check: input 0 is f32; finite differences need f64 or c128, called at {here}";
    let same = <[Variable]>::to_vec;
    raises!(
        gradient_check(same, &x, bibun::GradientCheckOptions::new()),
        message
    );
}

#[test]
fn a_mistake_on_a_thread_of_a_pool_reaches_the_attempt_around_it() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2);
    let pool = pool.build().expect("threads start");
    let (a, b) = (leaf(&[1.0, 2.0]), leaf(&[1.0, 2.0, 3.0]));
    let expect_mismatch = |found: Result<(), Error>, line: u32| match found {
        Err(Error::Mismatch {
            function: "add",
            location,
            ..
        }) => assert_eq!((location.file(), location.line()), (file!(), line)),
        other => panic!("{other:?}"),
    };
    let sum = || drop(&a + &b);
    let line = line!() - 1;
    expect_mismatch(attempt(|| pool.install(sum)), line);
    let all = || (0..4).into_par_iter().for_each(|_| sum());
    expect_mismatch(attempt(|| pool.install(all)), line);
    let within = || pool.install(|| attempt(sum));
    expect_mismatch(within(), line);
    // What is no mistake of ours stays what it is.
    let other = || pool.install(|| panic!("another"));
    let attempted = std::panic::AssertUnwindSafe(|| attempt::<()>(other));
    let caught = std::panic::catch_unwind(attempted).expect_err("a panic");
    assert_eq!(caught.downcast_ref(), Some(&"another"));
}
