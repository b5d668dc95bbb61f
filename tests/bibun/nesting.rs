//! Every transformation inside of every other, three deep, and what may be confused there.
//!
//! The reference is another kind of derivative altogether: numbers with infinitesimal parts, of
//! which each derivative takes one of its own by name, so that nothing can be confused. They are
//! exact at any order, where finite differences of a sixth derivative would be noise.

use std::collections::BTreeMap;

use bibun::array::{Array, DType, Generator};
use bibun::functions::{argmax, concat, greater, sin, split_at, stack, take, watch};
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::{Adam, MomentumSgd, Optimizer};
use bibun::{
    Custom, Error, GradOptions, Variable, VmapOptions, attempt, checkpoint, custom,
    custom_gradient, grad, gradients, gradients_with, hessian, hvp, jacobian, jacobian_forward,
    jacobian_reverse, jvp, linearize, no_grad, value_and_grad, vjp, vmap, vmap_with,
};

/// The length of all vectors.
const N: usize = 2;

// ----- the reference

/// A sum of products of infinitesimals, each of which is zero when squared: coefficient `m` is that
/// of the product of those whose bits are set in `m`.
#[derive(Clone, Debug)]
struct Number(Vec<f64>);

impl Number {
    /// `self + infinitesimal`, which occurs nowhere yet.
    fn moved(&self, infinitesimal: usize) -> Self {
        let mut parts = self.padded(2 << infinitesimal);
        parts[1 << infinitesimal] += 1.0;
        Self(parts)
    }

    /// What stands before an infinitesimal: the derivative along it.
    fn part(&self, infinitesimal: usize) -> Self {
        let bit = 1 << infinitesimal;
        let parts = (0..self.0.len()).map(|mask| match mask & bit {
            0 => self.0.get(mask | bit).copied().unwrap_or(0.0),
            _ => 0.0,
        });
        Self(parts.collect())
    }

    fn padded(&self, length: usize) -> Vec<f64> {
        let mut parts = self.0.clone();
        parts.resize(length.max(parts.len()), 0.0);
        parts
    }

    fn plus(&self, other: &Self) -> Self {
        let mut parts = self.padded(other.0.len());
        parts.iter_mut().zip(&other.0).for_each(|(a, b)| *a += b);
        Self(parts)
    }

    fn times(&self, other: &Self) -> Self {
        let mut parts = vec![0.0; self.0.len().max(other.0.len())];
        let present = |number: &Self| -> Vec<(usize, f64)> {
            let parts = number.0.iter().copied().enumerate();
            parts.filter(|&(_, part)| part != 0.0).collect()
        };
        let others = present(other);
        for (i, a) in present(self) {
            for &(j, b) in others.iter().filter(|(j, _)| i & j == 0) {
                parts[i | j] += a * b;
            }
        }
        Self(parts)
    }

    /// By Taylor's series, which ends where every infinitesimal has been used.
    fn sine(&self) -> Self {
        let (sine, cosine) = self.0[0].sin_cos();
        let mut small = self.clone();
        small.0[0] = 0.0;
        let mut sum = Self(vec![sine]);
        let mut power = Self(vec![1.0]);
        for order in 1..=self.0.len().ilog2() {
            power = power
                .times(&small)
                .times(&Self(vec![f64::from(order).recip()]));
            let derivative = [sine, cosine, -sine, -cosine][order as usize % 4];
            sum = sum.plus(&power.times(&Self(vec![derivative])));
        }
        sum
    }
}

/// What the functions below are made of.
trait Vector: Clone {
    fn plus(&self, other: &Self) -> Self;
    fn times(&self, other: &Self) -> Self;
    fn scaled(&self, factor: f64) -> Self;
    fn shifted(&self, by: f64) -> Self;
    fn sine(&self) -> Self;
    /// The elements in the other order.
    fn turned(&self) -> Self;
}

impl Vector for Vec<Number> {
    fn plus(&self, other: &Self) -> Self {
        self.iter().zip(other).map(|(a, b)| a.plus(b)).collect()
    }
    fn times(&self, other: &Self) -> Self {
        self.iter().zip(other).map(|(a, b)| a.times(b)).collect()
    }
    fn scaled(&self, factor: f64) -> Self {
        let factor = Number(vec![factor]);
        self.iter().map(|a| a.times(&factor)).collect()
    }
    fn shifted(&self, by: f64) -> Self {
        let by = Number(vec![by]);
        self.iter().map(|a| a.plus(&by)).collect()
    }
    fn sine(&self) -> Self {
        self.iter().map(Number::sine).collect()
    }
    fn turned(&self) -> Self {
        self.iter().rev().cloned().collect()
    }
}

impl Vector for Variable {
    fn plus(&self, other: &Self) -> Self {
        self + other
    }
    fn times(&self, other: &Self) -> Self {
        self * other
    }
    fn scaled(&self, factor: f64) -> Self {
        self * factor
    }
    fn shifted(&self, by: f64) -> Self {
        self + by
    }
    fn sine(&self) -> Self {
        sin(self)
    }
    fn turned(&self) -> Self {
        self.flip(0)
    }
}

// ----- one function, transformed three times

/// The innermost function: of its own argument and of those of all levels around it.
fn body<V: Vector>(captured: &[V], y: &V) -> V {
    let start = y.times(&y.turned()).plus(&y.scaled(0.7)).sine();
    captured.iter().zip(1..).fold(start, |sum, (x, k)| {
        let bent = x.times(y).shifted(0.3 * f64::from(k)).sine();
        sum.plus(&bent.times(&x.turned()))
    })
}

/// Where a level takes its derivative: it moves with the argument of the level around it.
fn point<V: Vector>(x: &V) -> V {
    x.turned()
        .scaled(0.8)
        .shifted(0.1)
        .sine()
        .plus(&x.scaled(0.5))
}

/// Tangents and cotangents: they move with it too.
fn weight<V: Vector>(x: &V) -> V {
    x.times(x).scaled(0.6).shifted(-0.4)
}

/// Turns a function of vectors into another.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Wrapper {
    Grad,
    ValueAndGrad,
    Vjp,
    Jvp,
    Linearize,
    Jacobian,
    JacobianForward,
    JacobianReverse,
    Hessian,
    Hvp,
    Vmap,
    VmapOfArgument,
    Checkpoint,
    Custom,
    CustomVjp,
    CustomJvp,
}

use Wrapper::*;

const ALL: [Wrapper; 16] = [
    Grad,
    ValueAndGrad,
    Vjp,
    Jvp,
    Linearize,
    Jacobian,
    JacobianForward,
    JacobianReverse,
    Hessian,
    Hvp,
    Vmap,
    VmapOfArgument,
    Checkpoint,
    Custom,
    CustomVjp,
    CustomJvp,
];

/// `body` in the wrappers, the first outermost.
fn transformed(wrappers: &[Wrapper], captured: &[Variable], x: &Variable) -> Variable {
    let Some((&wrapper, rest)) = wrappers.split_first() else {
        return body(captured, x);
    };
    let seen = [captured, &[x.clone()]].concat();
    let f = |y: &Variable| transformed(rest, &seen, y);
    let loss = |y: &Variable| (f(y) * x).sum(..);
    let (p, w) = (point(x), weight(x));
    let times_weight = |matrix: Variable| (matrix * &w).sum(1);
    match wrapper {
        Grad => grad(loss, &p),
        ValueAndGrad => {
            let of_both = |y: &Variable| {
                let y = f(y);
                ((&y * x).sum(..), y)
            };
            let ((_, y), g) = value_and_grad(of_both, &p);
            y + g
        }
        Vjp => {
            let (y, pullback) = vjp(f, &p);
            pullback.call(&w) + y
        }
        Jvp => {
            let (y, dy) = jvp(f, &p, &w);
            y + dy
        }
        Linearize => {
            let (y, linear) = linearize(f, &p);
            y + linear.call(&w)
        }
        Jacobian => times_weight(jacobian(f, &p)),
        JacobianForward => times_weight(jacobian_forward(f, &p)),
        JacobianReverse => times_weight(jacobian_reverse(f, &p)),
        Hessian => times_weight(hessian(loss, &p)),
        Hvp => hvp(loss, &p, &w).1,
        Vmap => (vmap(f, &stack([&p, &w], 0)) * x).sum(0),
        // The argument itself differs between batch elements.
        VmapOfArgument => {
            let f = |(x, y): &(Variable, Variable)| {
                let seen = [captured, &[x.clone()]].concat();
                transformed(rest, &seen, y) * x
            };
            vmap(f, &(stack([x, &p], 0), stack([&p, &w], 1).transpose())).sum(0)
        }
        Checkpoint => {
            let rest = rest.to_vec();
            let f = move |(seen, y): &(Vec<Variable>, Variable)| transformed(&rest, seen, y);
            checkpoint(f, &(seen.clone(), p))
        }
        Custom | CustomVjp | CustomJvp => {
            // All that would be captured is handed in, in a row.
            let apart = |all: &Variable| {
                let ends: Vec<usize> = (1..all.size() / N).map(|i| i * N).collect();
                let mut parts = split_at(all, &ends, 0);
                let y = parts.pop().expect("an argument");
                (parts, y)
            };
            let rest = rest.to_vec();
            let f = move |all: &Variable| {
                let (seen, y) = apart(all);
                transformed(&rest, &seen, &y)
            };
            let function = custom("transformed", {
                let f = f.clone();
                move |[all]| f(all)
            });
            let function = match wrapper {
                CustomVjp => function.vjp(move |[all], _, gy| [vjp(&f, all).1.call(gy)]),
                CustomJvp => function.jvp(move |[all], _, [d]| jvp(&f, all, d).1),
                _ => function,
            };
            let all: Vec<&Variable> = seen.iter().chain([&p]).collect();
            function.call([&concat(&all, 0)])
        }
    }
}

/// The same by numbers; infinitesimals from `next` on are not used yet.
fn expected(
    wrappers: &[Wrapper],
    captured: &[Vec<Number>],
    x: &Vec<Number>,
    next: usize,
) -> Vec<Number> {
    let Some((&wrapper, rest)) = wrappers.split_first() else {
        return body(captured, x);
    };
    let seen = [captured, &[x.clone()]].concat();
    let f = |y: &Vec<Number>, next| expected(rest, &seen, y, next);
    let moved = |y: &Vec<Number>, j: usize, infinitesimal| {
        let mut y = y.clone();
        y[j] = y[j].moved(infinitesimal);
        y
    };
    let zero = || vec![Number(vec![0.0]); N];
    let total = |list: Vec<Number>| list.iter().fold(Number(vec![0.0]), |sum, a| sum.plus(a));
    let (p, w) = (point(x), weight(x));
    // Column j of the Jacobian.
    let column = |j: usize| -> Vec<Number> {
        let y = f(&moved(&p, j, next), next + 1);
        y.iter().map(|y| y.part(next)).collect()
    };
    let pulled = |w: &Vec<Number>| {
        (0..N)
            .map(|j| total(column(j).times(w)))
            .collect::<Vec<_>>()
    };
    let pushed = |w: &Vec<Number>| {
        (0..N).fold(zero(), |sum, j| {
            let column: Vec<Number> = column(j).iter().map(|a| a.times(&w[j])).collect();
            sum.plus(&column)
        })
    };
    match wrapper {
        Grad => pulled(x),
        ValueAndGrad => pulled(x).plus(&f(&p, next)),
        Vjp => pulled(&w).plus(&f(&p, next)),
        Jvp | Linearize => pushed(&w).plus(&f(&p, next)),
        Jacobian | JacobianForward | JacobianReverse => pushed(&w),
        Hessian | Hvp => {
            let second = |j, k| {
                let y = f(&moved(&moved(&p, j, next), k, next + 1), next + 2);
                let parts: Vec<Number> = y.iter().map(|y| y.part(next).part(next + 1)).collect();
                total(parts.times(x))
            };
            let row = |j| total((0..N).map(|k| second(j, k).times(&w[k])).collect());
            (0..N).map(row).collect()
        }
        Vmap => f(&p, next).plus(&f(&w, next)).times(x),
        VmapOfArgument => {
            let element = |x: &Vec<Number>, y: &Vec<Number>| {
                let seen = [captured, &[x.clone()]].concat();
                expected(rest, &seen, y, next).times(x)
            };
            element(x, &p).plus(&element(&p, &w))
        }
        Checkpoint | Custom | CustomVjp | CustomJvp => f(&p, next),
    }
}

fn compare(wrappers: &[Wrapper]) {
    let start = [0.4, -0.9];
    let found = transformed(wrappers, &[], &Variable::constant(start)).to_vec::<f64>();
    let start = start.map(|x| Number(vec![x])).to_vec();
    let expected: Vec<f64> = expected(wrappers, &[], &start, 0)
        .iter()
        .map(|x| x.0[0])
        .collect();
    let size = expected.iter().fold(1.0f64, |size, x| size.max(x.abs()));
    for (found, expected) in found.iter().zip(&expected) {
        let error = (found - expected).abs();
        assert!(
            error <= 1e-11 * size,
            "{wrappers:?}: {found}, not {expected}"
        );
    }
}

/// Nothing is wrong with the reference: its numbers are differences of its values.
#[test]
fn the_reference_is_finite_differences() {
    let at = |x: f64| vec![Number(vec![x]), Number(vec![-0.9])];
    for wrapper in ALL {
        let value = |x| expected(&[wrapper, Vjp], &[], &at(x), 0)[0].0[0];
        let step = 1e-3;
        let central = |step: f64| (value(0.4 + step) - value(0.4 - step)) / (2.0 * step);
        let extrapolated = (4.0 * central(step) - central(2.0 * step)) / 3.0;
        let mut x = at(0.4);
        x[0] = x[0].moved(0);
        let exact = expected(&[wrapper, Vjp], &[], &x, 1)[0].part(0).0[0];
        let error = (exact - extrapolated).abs();
        assert!(
            error < 1e-8 * (1.0 + exact.abs()),
            "{wrapper:?}: {exact}, {extrapolated}"
        );
    }
}

/// The first wrappers of all nestings, in parts that run at the same time.
fn three_deep(outer: &[Wrapper]) {
    for &first in outer {
        for second in ALL {
            for third in ALL {
                compare(&[first, second, third]);
            }
        }
    }
}

#[test]
fn one_and_two_deep() {
    compare(&[]);
    for first in ALL {
        compare(&[first]);
        for second in ALL {
            compare(&[first, second]);
        }
    }
}

#[test]
fn three_deep_in_reverse() {
    three_deep(&[Grad, ValueAndGrad, Vjp, JacobianReverse]);
}

#[test]
fn three_deep_in_forward() {
    three_deep(&[Jvp, Linearize, JacobianForward, Jacobian]);
}

#[test]
fn three_deep_in_second_derivatives() {
    three_deep(&[Hessian, Hvp]);
}

#[test]
fn three_deep_in_batch_elements_and_calls() {
    three_deep(&[
        Vmap,
        VmapOfArgument,
        Checkpoint,
        Custom,
        CustomVjp,
        CustomJvp,
    ]);
}

// ----- what may be confused

/// The derivative of a function of a scalar, in every way there is.
type Derivative = fn(&dyn Fn(&Variable) -> Variable, &Variable) -> Variable;

const DERIVATIVES: [(&str, Derivative); 10] = [
    ("grad", |f, x| grad(f, x)),
    ("value_and_grad", |f, x| value_and_grad(f, x).1),
    ("vjp", |f, x| vjp(f, x).1.call(&one())),
    ("jvp", |f, x| jvp(f, x, &one()).1),
    ("linearize", |f, x| linearize(f, x).1.call(&one())),
    ("jacobian", |f, x| jacobian(f, x)),
    ("jacobian_forward", |f, x| jacobian_forward(f, x)),
    ("jacobian_reverse", |f, x| jacobian_reverse(f, x)),
    ("grad of vmap", |f, x| {
        grad(|x| vmap(f, &stack([x], 0)).sum(..), x)
    }),
    ("gradients", |f, x| {
        let x = watch(x);
        let options = GradOptions::new().create_graph();
        let gradient = gradients_with(&[&f(&x)], &[&x], &options).remove(0);
        gradient.unwrap_or_else(|| Variable::constant(0.0))
    }),
];

fn one() -> Variable {
    Variable::constant(1.0)
}

/// Asserts what a function of two derivatives gives at 3, alone and in a batch, for each pair.
fn for_each_pair(expected: f64, f: impl Fn(Derivative, Derivative, &Variable) -> Variable) {
    let x = Variable::constant(3.0);
    let batch = Variable::constant([3.0, 3.0]);
    for (outer_name, outer) in DERIVATIVES {
        for (inner_name, inner) in DERIVATIVES {
            let alone = f(outer, inner, &x).item::<f64>();
            let in_batch = vmap(|x| f(outer, inner, x), &batch).to_vec::<f64>();
            for found in [alone, in_batch[0], in_batch[1]] {
                let error = (found - expected).abs();
                assert!(
                    error < 1e-12,
                    "{outer_name} of {inner_name}: {found}, not {expected}"
                );
            }
        }
    }
}

#[test]
fn inner_and_outer_variables_are_told_apart() {
    // d/dx [x · d/dy (x + y)] = 1
    for_each_pair(1.0, |outer, inner, x| {
        outer(&|x| x * inner(&|y| x + y, &one()), x)
    });
    // d/dx [x · d/dy (x y)] = 2 x
    for_each_pair(6.0, |outer, inner, x| {
        outer(&|x| x * inner(&|y| x * y, &one()), x)
    });
    // The inner derivative is taken at x itself: d/dx [x · d/dy (x y²)] = d/dx 2 x³ = 6 x²
    for_each_pair(54.0, |outer, inner, x| {
        outer(&|x| x * inner(&|y| x * y * y, x), x)
    });
    // Nothing but the inner derivative depends on x, and that only by what it captures.
    for_each_pair(1.0, |outer, inner, x| {
        outer(&|x| inner(&|y| x * y, &one()), x)
    });
    // Only by where it is taken: d/dx sin'(x) = - sin x
    for_each_pair(-3f64.sin(), |outer, inner, x| {
        outer(&|x| inner(&|y| sin(y), x), x)
    });
    // The inner function is constant in its argument, but not in what it captures.
    for_each_pair(0.0, |outer, inner, x| {
        outer(&|x| x * inner(&|_| x * x, &one()), x)
    });
    for_each_pair(0.0, |outer, inner, x| {
        outer(&|x| x * inner(&|_| one(), x), x)
    });
    // The outer function is.
    for_each_pair(0.0, |outer, inner, x| outer(&|_| inner(&|y| x * y, x), x));
}

#[test]
fn variables_two_levels_up_are_told_apart() {
    let x = Variable::constant(1.5);
    for (_, outer) in DERIVATIVES {
        for (_, middle) in DERIVATIVES {
            for (name, inner) in DERIVATIVES {
                // d/dx [x · d/dy [y · d/dz (x + z)]] = 1
                let sums = outer(
                    &|x| x * middle(&|y| y * inner(&|z| x + z, &one()), &one()),
                    &x,
                );
                assert_eq!(sums.item::<f64>(), 1.0, "{name}");
                // d/dx [x · d/dy [y · d/dz (x y z)]] at y = x² is d/dx 2 x⁴.
                let products = outer(
                    &|x| x * middle(&|y| y * inner(&|z| x * y * z, y), &(x * x)),
                    &x,
                );
                let error = (products.item::<f64>() - 8.0 * 1.5f64.powi(3)).abs();
                assert!(error < 1e-12, "{name}: {products:?}");
            }
        }
    }
}

#[test]
fn derivatives_in_no_grad_are_those_outside() {
    let x = Variable::new(3.0);
    for (outer_name, outer) in DERIVATIVES {
        for (inner_name, inner) in DERIVATIVES {
            if [outer_name, inner_name].contains(&"gradients") {
                // It takes derivatives of history, and under no_grad there is none.
                continue;
            }
            let second = no_grad(|| outer(&|x| inner(&|x| x * x * x, x), &x));
            assert_eq!(second.item::<f64>(), 18.0, "{outer_name} of {inner_name}");
            assert!(!second.requires_grad(), "{outer_name} of {inner_name}");
        }
    }
}

#[test]
fn results_of_no_grad_are_constants() {
    let x = Variable::constant(3.0);
    for (name, inner) in DERIVATIVES {
        let f = |x: &Variable| x * no_grad(|| inner(&|y| x * y, &one()));
        if name != "gradients" {
            assert_eq!(grad(f, &x).item::<f64>(), 3.0, "{name}");
        }
    }
}

#[test]
fn one_variable_twice_in_an_argument_is_two() {
    let f = |(a, b): &(Variable, Variable)| a * a * b;
    for x in [
        Variable::constant(3.0),
        Variable::new(3.0),
        Variable::new(1.5) * 2.0,
    ] {
        let twice = (x.clone(), x.clone());
        let (da, db) = grad(f, &twice);
        assert_eq!((da.item::<f64>(), db.item::<f64>()), (18.0, 9.0));
        let (da, db) = vjp(f, &twice).1.call(&one());
        assert_eq!((da.item::<f64>(), db.item::<f64>()), (18.0, 9.0));
        let along = [(1.0, 0.0), (0.0, 1.0)].map(|(a, b)| (Variable::from(a), Variable::from(b)));
        let pushed = along.clone().map(|v| jvp(f, &twice, &v).1.item::<f64>());
        assert_eq!(pushed, [18.0, 9.0]);
        let linear = linearize(f, &twice).1;
        assert_eq!(along.map(|v| linear.call(&v).item::<f64>()), [18.0, 9.0]);
        for jacobian in [jacobian(f, &twice), jacobian_forward(f, &twice)] {
            assert_eq!(
                (jacobian.0.item::<f64>(), jacobian.1.item::<f64>()),
                (18.0, 9.0)
            );
        }
        let ((aa, ab), (ba, bb)) = hessian(f, &twice);
        assert_eq!(
            [aa, ab, ba, bb].map(|h| h.item::<f64>()),
            [6.0, 6.0, 6.0, 0.0]
        );
        // Both move with what they were made of: d/dx 2 x² = 4 x
        let second = grad(|x| grad(f, &(x.clone(), x.clone())).0, &x);
        assert_eq!(second.item::<f64>(), 12.0);
    }
    let xs = Variable::constant([1.0, 2.0]);
    let options = VmapOptions::new().in_axes((0, None));
    let y = vmap_with(|(a, b)| (a * b).sum(..), &(xs.clone(), xs), &options);
    assert_eq!(y.to_vec::<f64>(), [3.0, 6.0]);
}

#[test]
fn captured_leaves_keep_gradients_and_arguments_are_values() {
    let (x, w) = (Variable::new(3.0), Variable::new(5.0));
    for (name, derivative) in DERIVATIVES {
        let dx = derivative(&|x| x * x * &w * &w, &x);
        assert_eq!(dx.item::<f64>(), 150.0, "{name}");
        let gradients = gradients(&[&dx], &[&w]);
        let dw = gradients[0].as_ref().expect("a gradient");
        assert_eq!(dw.item::<f64>(), 60.0, "{name}");
        assert!(x.grad().is_none() && w.grad().is_none(), "{name}");
    }
}

#[test]
fn gradients_of_gradients_reach_captured_leaves() {
    let value = |w: f64, x: f64| {
        let (w, x) = (Variable::constant(w), Variable::constant(x));
        grad(|x| (x * &w).sin() * x, &x).square().item::<f64>()
    };
    let w = Variable::new(0.7);
    grad(|x| (x * &w).sin() * x, &Variable::constant(1.2))
        .square()
        .backward();
    let step = 1e-5;
    let expected = (value(0.7 + step, 1.2) - value(0.7 - step, 1.2)) / (2.0 * step);
    assert!((w.grad().expect("a gradient").item::<f64>() - expected).abs() < 1e-8);
}

#[test]
fn pullbacks_and_linear_maps_are_functions_like_others() {
    let x = Variable::constant([0.3, -0.8]);
    let (_, pullback) = vjp(|x| x.sin(), &x);
    let (_, linear) = linearize(|x| x.sin(), &x);
    let cosines = x
        .array()
        .to_vec::<f64>()
        .iter()
        .map(|x| x.cos())
        .collect::<Vec<_>>();
    let square = |v: &[f64]| v.iter().map(|v| v * v).collect::<Vec<_>>();
    let w = Variable::constant([1.0, 1.0]);
    let maps: [&dyn Fn(&Variable) -> Variable; 2] = [&|w| pullback.call(w), &|w| linear.call(w)];
    for map in maps {
        assert_eq!(map(&w).to_vec::<f64>(), cosines);
        // Twice in a row, in a batch, and differentiated.
        let twice = map(&map(&w)).to_vec::<f64>();
        assert_eq!(twice, square(&cosines));
        let batch = vmap(map, &stack([&w, &(&w * 2.0)], 0)).to_vec::<f64>();
        assert_eq!(batch[..2], cosines[..]);
        assert_eq!(batch[2] / 2.0, cosines[0]);
        assert_eq!(grad(|w| map(w).sum(..), &w).to_vec::<f64>(), cosines);
        assert_eq!(jvp(map, &w, &w).1.to_vec::<f64>(), cosines);
        let of_leaf = Variable::new([1.0, 1.0]);
        map(&of_leaf).sum(..).backward();
        assert_eq!(of_leaf.grad().expect("a gradient").to_vec::<f64>(), cosines);
    }
}

/// `x`, and a reverse rule that uses something from outside.
fn steepened(slope: &Variable) -> Custom<1> {
    let slope = slope.clone();
    custom_gradient(|[x]| x.clone(), move |_, _, gy| [gy * &slope])
}

#[test]
fn captures_of_a_rule_are_not_lost() {
    let x = Variable::constant(3.0);
    for (outer_name, outer) in DERIVATIVES {
        for (inner_name, inner) in DERIVATIVES {
            // d/ds [s²] at 5.
            let f = |s: &Variable| inner(&|x| steepened(&(s * s)).call([x]), &x);
            let found = outer(&f, &Variable::constant(5.0)).item::<f64>();
            assert_eq!(found, 10.0, "{outer_name} of {inner_name}");
        }
    }
}

#[test]
fn escaped_batch_elements_are_refused_elsewhere() {
    let xs = Variable::constant([1.0, 2.0]);
    let mut escaped = None;
    let _ = vmap(
        |x| {
            escaped = Some(x.clone());
            x.clone()
        },
        &xs,
    );
    let escaped = escaped.expect("f has run");
    // Were it taken for a batch element of this run, values would be wrong without a word.
    let product = attempt(|| vmap(|x| x * &escaped, &xs).to_vec::<f64>());
    assert!(product.is_err(), "{product:?}");
    let product = attempt(|| jvp(|x| x * &escaped, &xs, &xs).1.to_vec::<f64>());
    assert!(product.is_err(), "{product:?}");
}

// ----- models

#[derive(Chain, Clone)]
struct Tied {
    w: Variable,
    again: Variable,
    other: Variable,
    mean: Variable,
}

impl Tied {
    fn new() -> Self {
        let w = Variable::new([0.5, -1.5]);
        Self {
            again: w.clone(),
            w,
            other: Variable::new([2.0, 0.25]),
            mean: Variable::constant([0.1, 0.2]),
        }
    }

    fn loss(&self, x: &Variable) -> Variable {
        let hidden = (x * &self.w - &self.mean).sin() * &self.other;
        (hidden * &self.again).sum(..)
    }
}

#[test]
fn tied_parameters_have_one_gradient_and_buffers_none() {
    let model = Tied::new();
    let x = Variable::constant([0.7, 0.9]);
    model.loss(&x).backward();
    let expected = model
        .parameters()
        .into_iter()
        .map(|(_, p)| p.grad().expect("a gradient"));
    let expected: Vec<Vec<f64>> = expected.map(|gradient| gradient.to_vec()).collect();

    let g = grad(|model: &Tied| model.loss(&x), &model);
    assert_eq!(g.w.to_vec::<f64>(), expected[0]);
    assert_eq!(g.again.to_vec::<f64>(), expected[0]);
    assert_eq!(g.other.to_vec::<f64>(), expected[1]);
    assert_eq!(g.mean.to_vec::<f64>(), [0.1, 0.2]);
    assert_eq!(g.parameters().len(), 2);

    // Along a tangent, once for both places; buffers do not move.
    let mut v = g.clone();
    v.mean = Variable::constant([1e3, 1e3]);
    let dot = |a: &Tied, b: &Tied| {
        (&a.w * &b.w).sum(..).item::<f64>() + (&a.other * &b.other).sum(..).item::<f64>()
    };
    let along = dot(&g, &v);
    for tangent in [
        jvp(|model: &Tied| model.loss(&x), &model, &v).1,
        linearize(|model: &Tied| model.loss(&x), &model).1.call(&v),
    ] {
        assert!((tangent.item::<f64>() - along).abs() < 1e-12);
    }

    // The second derivative, by differences of gradients along v.
    let (gradient, product) = hvp(|model: &Tied| model.loss(&x), &model, &v);
    assert_eq!(gradient.other.to_vec::<f64>(), expected[1]);
    let step = 1e-5;
    let moved = |sign: f64| {
        let w = Variable::new((&model.w + sign * step * &v.w).array());
        let other = Variable::new((&model.other + sign * step * &v.other).array());
        let model = Tied {
            again: w.clone(),
            w,
            other,
            mean: model.mean.clone(),
        };
        grad(|model: &Tied| model.loss(&x), &model)
    };
    let (up, down) = (moved(1.0), moved(-1.0));
    for (product, up, down) in [
        (&product.w, &up.w, &down.w),
        (&product.other, &up.other, &down.other),
    ] {
        let expected = ((up - down) / (2.0 * step)).to_vec::<f64>();
        for (product, expected) in product.to_vec::<f64>().iter().zip(expected) {
            assert!(
                (product - expected).abs() < 1e-8,
                "{product}, not {expected}"
            );
        }
    }
}

#[test]
fn many_models_in_a_batch() {
    let models = Tied {
        w: Variable::new([[0.5, -1.5], [0.4, 0.3]]),
        again: Variable::new([[0.5, -1.5], [0.4, 0.3]]),
        other: Variable::new([[2.0, 0.25], [1.0, -1.0]]),
        mean: Variable::constant([0.1, 0.2]),
    };
    let x = Variable::constant([0.7, 0.9]);
    let loss = |model: &Tied| model.loss(&x);
    // The buffer is nobody's batch element: all have the whole of it.
    let in_batch = vmap(|model| grad(loss, model), &models);
    let losses = vmap(loss, &models).to_vec::<f64>();
    for (i, found) in losses.into_iter().enumerate() {
        let row = |x: &Variable| Variable::new(x.slice(bibun::s![i]).array());
        let model = Tied {
            w: row(&models.w),
            again: row(&models.again),
            other: row(&models.other),
            mean: models.mean.clone(),
        };
        assert!((found - loss(&model).item::<f64>()).abs() < 1e-14);
        let expected = grad(loss, &model);
        for (found, expected) in [
            (&in_batch.w, &expected.w),
            (&in_batch.again, &expected.again),
            (&in_batch.other, &expected.other),
        ] {
            let found = found.slice(bibun::s![i]).to_vec::<f64>();
            for (found, expected) in found.iter().zip(expected.to_vec::<f64>()) {
                assert!((found - expected).abs() < 1e-14, "{found}, not {expected}");
            }
        }
    }
}

#[derive(Chain, Clone)]
struct Couple {
    a: Variable,
    b: Variable,
}

/// Two parameters of a result that are the same value by accident are still two: ⟨w, J v⟩ = ⟨Jᵀ w, v⟩.
#[test]
fn results_that_are_alike_are_not_tied() {
    let couple = |a: f64, b: f64| Couple {
        a: Variable::new(a),
        b: Variable::new(b),
    };
    // The gradient of (a + b)² has the same Variable in both places.
    let f = |x: &Couple| grad(|x: &Couple| (&x.a + &x.b).square(), x);
    let (_, pullback) = vjp(f, &couple(1.0, 2.0));
    let g = pullback.call(&couple(3.0, 5.0));
    // The Hessian is of twos.
    assert_eq!((g.a.item::<f64>(), g.b.item::<f64>()), (16.0, 16.0));
    let f = |x: &Variable| Couple {
        a: x * 2.0,
        b: x * 2.0,
    };
    let g = vjp(f, &one()).1.call(&couple(3.0, 5.0));
    assert_eq!(g.item::<f64>(), 16.0);
    // What is one Variable in the result has one cotangent.
    let f = |x: &Variable| {
        let y = x * 2.0;
        Couple { a: y.clone(), b: y }
    };
    let (_, pullback) = vjp(f, &one());
    assert_eq!(pullback.call(&couple(3.0, 3.0)).item::<f64>(), 6.0);
    let message = attempt(|| pullback.call(&couple(3.0, 5.0)))
        .expect_err("an error")
        .to_string();
    assert!(
        message.contains("`b` of the result is one Variable with an earlier one"),
        "{message}"
    );
}

/// A tangent that pulls the places of one parameter apart is none.
#[test]
fn tied_parameters_have_one_tangent() {
    let model = Tied::new();
    let x = Variable::constant([0.7, 0.9]);
    let mut v = grad(|model: &Tied| model.loss(&x), &model);
    v.again = Variable::constant([1.0, 0.0]);
    let loss = |model: &Tied| model.loss(&x);
    let ways: [&dyn Fn() -> Variable; 2] = [&|| jvp(loss, &model, &v).1, &|| {
        linearize(loss, &model).1.call(&v)
    }];
    for way in ways {
        let message = attempt(way).expect_err("an error").to_string();
        assert!(
            message.contains("`again` of the argument is one Variable"),
            "{message}"
        );
    }
}

#[derive(Chain, Clone)]
struct Mlp {
    first: Linear,
    second: Linear,
}

impl Mlp {
    fn loss(&self, x: &Variable, t: &Variable) -> Variable {
        let y = self.second.forward(&self.first.forward(x).tanh());
        (y - t).square().mean(..)
    }
}

#[test]
fn training_by_value_and_grad_is_training_by_backward() {
    let optimizers: [fn() -> Box<dyn Optimizer>; 2] = [
        || Box::new(Adam::new(0.05)),
        || Box::new(MomentumSgd::new(0.1, 0.9)),
    ];
    for optimizer in optimizers {
        let model = || {
            let g = &mut Generator::new(1);
            Mlp {
                first: Linear::new(3, 4, g),
                second: Linear::new(4, 2, g),
            }
        };
        let (a, b) = (model(), model());
        let [mut by_backward, mut by_grad] = [optimizer(), optimizer()];
        let g = &mut Generator::new(2);
        for _ in 0..20 {
            let x = Variable::constant(g.normal([8, 3], 0.0, 1.0, DType::F32));
            let t = x.slice(bibun::s![.., ..2]).sin();
            a.clear_grads();
            let loss = a.loss(&x, &t);
            loss.backward();
            by_backward.update(&a);

            let ((other, y), gradients) =
                value_and_grad(|b: &Mlp| (b.loss(&x, &t), b.first.forward(&x)), &b);
            assert!(!other.requires_grad() && !y.requires_grad());
            assert!(b.parameters().iter().all(|(_, p)| p.is_leaf()));
            b.set_gradients(&gradients);
            by_grad.update(&b);
            assert_eq!(loss.item::<f32>(), other.item::<f32>());
        }
        for ((name, a), (_, b)) in a.parameters().iter().zip(b.parameters()) {
            assert_eq!(a.to_vec::<f32>(), b.to_vec::<f32>(), "{name}");
        }
    }
}

// ----- edges

#[test]
fn integers_go_along_in_batch_elements() {
    let x = Variable::constant([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]]);
    let i = Variable::constant([2i64, 0]);
    let square_of = |(x, i): &(Variable, Variable)| take(x, i, 0).square();
    let both = (x.clone(), i.clone());
    assert_eq!(vmap(square_of, &both).to_vec::<f64>(), [16.0, 64.0]);
    let g = vmap(
        |(x, i)| grad(|x| square_of(&(x.clone(), i.clone())), x),
        &both,
    );
    assert_eq!(g.to_vec::<f64>(), [0.0, 0.0, 8.0, 16.0, 0.0, 0.0]);
    let g = grad(|x| vmap(square_of, &(x.clone(), i.clone())).sum(..), &x);
    assert_eq!(g.to_vec::<f64>(), [0.0, 0.0, 8.0, 16.0, 0.0, 0.0]);
    // Results that are integers or bools come along with those that are differentiated.
    let f = |x: &Variable| (x.square(), argmax(x, 0), greater(x, 3.0));
    let (y, best, large) = vmap(f, &x);
    assert_eq!(y.shape(), [2, 3]);
    assert_eq!(best.to_vec::<i64>(), [2, 2]);
    assert_eq!(
        large.to_vec::<bool>(),
        [false, false, true, true, true, true]
    );
    let row = Variable::constant([1.0, 2.0, 4.0]);
    let ((y, best, _), (dy, ..)) = jvp(f, &row, &row);
    assert_eq!(
        (best.item::<i64>(), dy.to_vec::<f64>()),
        (2, (2.0 * y).to_vec::<f64>())
    );
    let (result, pullback) = vjp(f, &row);
    assert_eq!(pullback.call(&result).to_vec::<f64>(), [2.0, 16.0, 128.0]);
    let (result, linear) = linearize(f, &row);
    assert_eq!(
        linear.call(&row).0.to_vec::<f64>(),
        (2.0 * result.0).to_vec::<f64>()
    );
    let integers = checkpoint(
        |(x, i): &(Variable, Variable)| take(x, i, 0),
        &(row, 1i64.into()),
    );
    assert_eq!(integers.item::<f64>(), 2.0);
}

#[test]
fn containers_with_nothing_in_them() {
    let x = Variable::constant([1.0, 2.0]);
    let argument = (x.clone(), Vec::<Variable>::new(), None::<Variable>, ());
    let f = |(x, none, ..): &(Variable, Vec<Variable>, Option<Variable>, ())| {
        (
            x.square(),
            none.clone(),
            BTreeMap::<String, Variable>::new(),
        )
    };
    assert_eq!(vmap(f, &argument).0.to_vec::<f64>(), [1.0, 4.0]);
    assert_eq!(jvp(f, &argument, &argument).1.0.to_vec::<f64>(), [2.0, 8.0]);
    let (y, pullback) = vjp(f, &argument);
    assert_eq!(pullback.call(&y).0.to_vec::<f64>(), [2.0, 16.0]);
    for (block, none, map) in [jacobian(f, &argument), jacobian_forward(f, &argument)] {
        assert_eq!(block.0.to_vec::<f64>(), [2.0, 0.0, 0.0, 4.0]);
        assert!(none.is_empty() && map.is_empty());
    }
    let nothing = |_: &Variable| Vec::<Variable>::new();
    assert!(jacobian(nothing, &x).is_empty());
    assert!(jacobian_forward(nothing, &x).is_empty());
    assert!(jacobian_reverse(nothing, &x).is_empty());
    assert!(vmap(nothing, &x).is_empty());
    assert!(jvp(nothing, &x, &x).1.is_empty());
    assert_eq!(vjp(nothing, &x).1.call(&vec![]).to_vec::<f64>(), [0.0, 0.0]);
    assert!(linearize(nothing, &x).1.call(&x).is_empty());
    assert!(checkpoint(nothing, &x).is_empty());
}

const JACOBIANS: [Derivative; 3] = [
    |f, x| jacobian(f, x),
    |f, x| jacobian_forward(f, x),
    |f, x| jacobian_reverse(f, x),
];

#[test]
fn no_batch_elements_and_no_elements() {
    let none = Variable::constant(Array::zeros([0, 3], DType::F64));
    let w = Variable::constant([1.0, 2.0, 3.0]);
    let f = |x: &Variable| (x * &w).sin().sum(..);
    assert_eq!(vmap(f, &none).shape(), [0]);
    assert_eq!(vmap(|x| grad(f, x), &none).shape(), [0, 3]);
    assert_eq!(vmap(|x| hessian(f, x), &none).shape(), [0, 3, 3]);
    assert_eq!(vmap(|x| jvp(f, x, &w).1, &none).shape(), [0]);
    assert_eq!(
        grad(|w| vmap(|x| (x * w).sum(..), &none).sum(..), &w).to_vec::<f64>(),
        [0.0; 3]
    );
    assert_eq!(
        vmap_with(f, &none, VmapOptions::new().in_axes(0).chunk_size(2)).shape(),
        [0]
    );
    assert_eq!(vmap(|x| vmap(|x| x.sin(), x), &none).shape(), [0, 3]);
    assert_eq!(
        vmap(|x| vmap(|x| x.sin(), x), &none.transpose()).shape(),
        [3, 0]
    );
    assert_eq!(
        vmap(|x| checkpoint(|x: &Variable| x.sin(), x), &none).shape(),
        [0, 3]
    );
    let sine = custom("sine", |[x]| x.sin()).vjp(|[x], _, gy| [gy * x.cos()]);
    assert_eq!(
        vmap(|x| grad(|x| sine.call([x]).sum(..), x), &none).shape(),
        [0, 3]
    );

    let empty = Variable::constant(Array::zeros([0], DType::F64));
    let sum = |x: &Variable| x.sin().sum(..);
    assert_eq!(grad(sum, &empty).shape(), [0]);
    assert_eq!(hessian(sum, &empty).shape(), [0, 0]);
    for jacobian in JACOBIANS {
        assert_eq!(jacobian(&|x| x.sin(), &empty).shape(), [0, 0]);
        assert_eq!(
            jacobian(&|x| stack([&sum(x), &sum(x)], 0), &empty).shape(),
            [2, 0]
        );
    }
    for jacobian in JACOBIANS {
        assert_eq!(jacobian(&|x| x.slice(bibun::s![..0]), &w).shape(), [0, 3]);
    }
}

#[test]
fn derivatives_have_the_precision_of_their_input() {
    let x = Variable::constant([0.5f32, -1.0]);
    let f = |x: &Variable| (x.sin() * x).sum(..);
    assert_eq!(grad(f, &x).dtype(), DType::F32);
    assert_eq!(jvp(f, &x, &x).1.dtype(), DType::F32);
    assert_eq!(linearize(f, &x).1.call(&x).dtype(), DType::F32);
    assert_eq!(hessian(f, &x).dtype(), DType::F32);
    assert_eq!(vmap(|x| grad(|x| x.sin(), x), &x).dtype(), DType::F32);
    assert_eq!(jacobian(|x: &Variable| x.sin(), &x).dtype(), DType::F32);
    assert_eq!(grad(|_| Variable::constant(1.0f32), &x).dtype(), DType::F32);

    // Each leaf in its own, whatever the result is in.
    let both = (x, Variable::constant([2.0, 3.0]));
    let f = |(a, b): &(Variable, Variable)| a.cast(DType::F64) * b.square();
    for jacobian in [
        jacobian(f, &both),
        jacobian_forward(f, &both),
        jacobian_reverse(f, &both),
    ] {
        assert_eq!(
            (jacobian.0.dtype(), jacobian.1.dtype()),
            (DType::F32, DType::F64)
        );
        assert_eq!(jacobian.0.to_vec::<f32>(), [4.0, 0.0, 0.0, 9.0]);
        assert_eq!(jacobian.1.to_vec::<f64>(), [2.0, 0.0, 0.0, -6.0]);
    }
    let ((_, ab), (ba, bb)) = hessian(|x| f(x).sum(..), &both);
    assert_eq!(ab.cast(DType::F64).to_vec::<f64>(), [4.0, 0.0, 0.0, 6.0]);
    assert_eq!(ba.cast(DType::F64).to_vec::<f64>(), [4.0, 0.0, 0.0, 6.0]);
    assert_eq!(bb.to_vec::<f64>(), [1.0, 0.0, 0.0, -2.0]);
}

// ----- control flow

/// `x⁴` where x is large, `x³` elsewhere; the loop is as long as the value says.
fn by_value(x: &Variable, value: f64) -> Variable {
    let turns = if value > 1.0 { 4 } else { 3 };
    (1..turns).fold(x.clone(), |y, _| y * x)
}

#[test]
fn control_flow_sees_values_where_there_are_values() {
    let large = Variable::constant(2.0);
    let small = Variable::constant(0.5);
    let f = |x: &Variable| by_value(x, x.item());
    let reverse: [Derivative; 6] = [
        |f, x| grad(f, x),
        |f, x| vjp(f, x).1.call(&one()),
        |f, x| linearize(f, x).1.call(&one()),
        |f, x| jacobian(f, x),
        |f, x| jacobian_reverse(f, x),
        |f, x| value_and_grad(f, x).1,
    ];
    for outer in reverse {
        assert_eq!(outer(&f, &large).item::<f64>(), 32.0);
        assert_eq!(outer(&f, &small).item::<f64>(), 0.75);
        for inner in reverse {
            assert_eq!(outer(&|x| inner(&f, x), &large).item::<f64>(), 48.0);
            assert_eq!(outer(&|x| inner(&f, x), &small).item::<f64>(), 3.0);
        }
    }
    // Forwards the value is asked for without its tangent.
    let f = |x: &Variable| by_value(x, x.detach().item());
    for (outer_name, outer) in DERIVATIVES {
        for (inner_name, inner) in DERIVATIVES {
            if [outer_name, inner_name].contains(&"grad of vmap") {
                continue;
            }
            let second = outer(&|x| inner(&f, x), &large).item::<f64>();
            assert_eq!(second, 48.0, "{outer_name} of {inner_name}");
        }
    }
    assert_eq!(hessian(f, &small).item::<f64>(), 3.0);
    // A function that is run again goes the same way.
    let f = |x: &Variable| by_value(x, x.item());
    assert_eq!(grad(|x| checkpoint(f, x), &large).item::<f64>(), 32.0);
    assert_eq!(
        grad(|x| grad(|x| checkpoint(f, x), x), &small).item::<f64>(),
        3.0
    );
    // In a batch and with tangents, what does not depend on the argument can be read.
    let batch = Variable::constant([2.0, 3.0]);
    let f = |x: &Variable| by_value(x, (&large * 2.0).item());
    assert_eq!(vmap(f, &batch).to_vec::<f64>(), [16.0, 81.0]);
    assert_eq!(vmap(|x| grad(f, x), &batch).to_vec::<f64>(), [32.0, 108.0]);
    assert_eq!(jvp(f, &small, &one()).1.item::<f64>(), 0.5);
}

#[test]
fn control_flow_on_batched_values_names_its_line() {
    let batch = Variable::constant([2.0, 3.0]);
    let line = line!() + 1;
    let f = |x: &Variable| by_value(x, x.item());
    let ways: [&dyn Fn() -> Variable; 6] = [
        &|| vmap(f, &batch),
        &|| vmap(|x| grad(f, x), &batch),
        &|| grad(|x| vmap(f, x).sum(..), &batch),
        &|| vmap(|x| vjp(f, x).1.call(x), &batch),
        &|| vmap(|x| checkpoint(f, x), &batch),
        &|| vmap(|x| custom("f", move |[x]| f(x)).call([x]), &batch),
    ];
    for (i, way) in ways.iter().enumerate() {
        let error = attempt(way).expect_err("an error").to_string();
        assert!(error.contains("hidden by vmap"), "{i}: {error}");
        assert!(
            error.contains(&format!("{}:{line}:", file!())),
            "{i}: {error}"
        );
    }
    let ways: [&dyn Fn() -> Variable; 4] = [
        &|| jvp(f, &one(), &one()).1,
        &|| jacobian_forward(f, &one()),
        &|| hessian(f, &one()),
        &|| hvp(f, &one(), &one()).1,
    ];
    for (i, way) in ways.iter().enumerate() {
        let error = attempt(way).expect_err("an error").to_string();
        assert!(error.contains("hidden by jvp"), "{i}: {error}");
        assert!(
            error.contains(&format!("{}:{line}:", file!())),
            "{i}: {error}"
        );
    }
}

/// `no_grad` inside of a function makes constants for walks in both directions.
#[test]
fn no_grad_stops_all_walks() {
    let x = Variable::constant(3.0);
    let f = |x: &Variable| x * no_grad(|| x * x);
    for (name, derivative) in DERIVATIVES {
        assert_eq!(derivative(&f, &x).item::<f64>(), 9.0, "{name}");
    }
    assert_eq!(hessian(f, &x).item::<f64>(), 0.0);
    // Derivatives taken inside are not touched, and outer ones do not see into them.
    let transformations = DERIVATIVES.iter().filter(|(name, _)| *name != "gradients");
    for (name, derivative) in transformations {
        let inner = |x: &Variable| no_grad(|| derivative(&|y| y * y * x, x));
        assert_eq!(inner(&x).item::<f64>(), 18.0, "{name}");
        for (outer_name, outer) in DERIVATIVES {
            let slope = outer(&|x| x * inner(x), &x).item::<f64>();
            assert_eq!(slope, 18.0, "{outer_name} of {name}");
        }
    }
}

/// What the function itself captures is a constant; where it cannot be, it is an error.
#[test]
fn captures_of_custom_functions_are_right_or_refused() {
    let times = |w: &Variable| {
        let (w, again) = (w.clone(), w.clone());
        custom("times", move |[x]| x * &w).vjp(move |_, _, gy| [gy * &again])
    };
    let (xs, ws) = (
        Variable::constant([2.0, 3.0]),
        Variable::constant([5.0, 7.0]),
    );
    type Way<'a> = (&'static str, &'a dyn Fn() -> Variable, [f64; 2]);
    let ways: [Way<'_>; 4] = [
        (
            "vmap",
            &|| vmap(|(x, w)| times(w).call([x]), &(xs.clone(), ws.clone())),
            [10.0, 21.0],
        ),
        (
            "vmap of grad",
            &|| {
                vmap(
                    |(x, w)| grad(|x| times(w).call([x]), x),
                    &(xs.clone(), ws.clone()),
                )
            },
            [5.0, 7.0],
        ),
        (
            "vmap of what is captured",
            &|| vmap(|w| times(w).call([&one()]), &ws),
            [5.0, 7.0],
        ),
        (
            "jvp of what is captured",
            &|| jvp(|w| times(w).call([&xs]), &ws, &xs).1,
            [4.0, 9.0],
        ),
    ];
    for (name, way, expected) in ways {
        match attempt(|| way().to_vec::<f64>()) {
            Ok(found) => assert_eq!(found, expected, "{name}"),
            Err(error) => assert!(error.to_string().contains("hidden"), "{name}: {error}"),
        }
    }
}

/// A gradient by the value of a leaf is a constant to nobody who asks for the derivative by that leaf:
/// it is an error, or right.
#[test]
fn gradients_by_the_value_of_a_leaf_are_not_overlooked() {
    let cube = |w: &Variable| w * w * w;
    let refused = |name: &str, f: &dyn Fn(&Variable) -> Variable| {
        let w = Variable::new(2.0);
        let mixed = f(&w) + &w;
        for error in [
            attempt(|| mixed.backward()),
            attempt(|| f(&w).backward()),
            attempt(|| drop(gradients(&[&mixed], &[&w]))),
        ] {
            let error = error.expect_err(name);
            assert!(matches!(error, Error::LeafLost { .. }), "{name}: {error}");
            let place = error.location();
            assert_eq!(place.file(), file!(), "{name}: {error}");
        }
        // As a constant it may take part.
        (f(&w).detach() * &w).backward();
        assert_eq!(
            w.grad().unwrap().item::<f64>(),
            f(&w).item::<f64>(),
            "{name}"
        );
    };
    refused("grad", &|w| grad(cube, w).square());
    refused("value", &|w| value_and_grad(cube, w).0 * 2.0);
    refused("vjp", &|w| vjp(cube, w).1.call(&one()).exp());
    refused("reverse", &|w| jacobian_reverse(cube, w) + 1.0);
    refused("jacobian", &|w| jacobian(cube, w).square());
    refused("linearize", &|w| linearize(cube, w).1.call(&one()) * 3.0);
    refused("batch", &|w| {
        let xs = Variable::constant([1.0, 2.0]);
        vmap(|x| grad(|w| cube(w) * x, w), &xs).square().sum(..)
    });
    // Forwards the history of a leaf goes on; and so it does where something else has history.
    let second = |f: &dyn Fn(&Variable) -> Variable| {
        let w = Variable::new(2.0);
        (f(&w) + &w).backward();
        w.grad().unwrap().item::<f64>()
    };
    assert_eq!(second(&|w| jvp(cube, w, &one()).1), 13.0);
    assert_eq!(second(&|w| jacobian_forward(cube, w)), 13.0);
    assert_eq!(second(&|w| hessian(cube, w)), 7.0);
    assert_eq!(second(&|w| hvp(cube, w, &one()).1), 7.0);
    // A rule that captures something with history.
    let slope = Variable::new(5.0);
    let captured = slope.clone();
    let steep = custom_gradient(|[x]| x * x, move |[x], _, gy| [gy * x * &captured]);
    assert_eq!(second(&|w| grad(|w| steep.call([w]), w)), 6.0);
    assert_eq!(slope.grad().unwrap().item::<f64>(), 2.0);
    let v = Variable::new(3.0);
    assert_eq!(second(&|w| grad(|w| cube(w) * &v, w)), 37.0);
    assert_eq!(v.grad().unwrap().item::<f64>(), 12.0);
    assert_eq!(
        second(&|w| grad(|(w, x)| cube(w) * x, &(w.clone(), w * 1.0)).0),
        24.0 + 12.0 + 1.0
    );
    // Averages over gradients hold nothing.
    let w = Variable::new(2.0);
    let mean = (0..10).fold(Variable::constant(0.0), |mean, _| {
        0.9 * mean + grad(cube, &w)
    });
    assert!(!mean.requires_grad() && mean.creator().is_none());
}
