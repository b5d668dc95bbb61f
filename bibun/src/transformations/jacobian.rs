//! All derivatives at once: a walk for each row or column, in one run.

use bibun_array::{Array, Index, Shape, allocating};

use super::container::Container;
use super::float_leaves;
use super::gradient::{Pullback, grad, vjp};
use super::tangent::{jvp, push_forward};
use crate::batch;
use crate::call::calling;
use crate::error::{Error, raise};
use crate::scope;
use crate::tree::{Leaves, Mapper, Role, Tree, Visitor};
use crate::variable::Variable;

/// Computes the Jacobian of `f` at `x`, by the cheaper kind of walk: one forwards for each element of
/// `x`, or one backwards for each element of the result, all at once.
///
/// Shapes: for a result of shape `s` and a leaf of shape `t` the derivatives are `[s.., t..]`. They
/// have the structure of the result, with a container like `x` in place of each Variable: the
/// Jacobian of a Variable with respect to a Variable is a Variable. Types: derivatives have the dtype
/// of their leaf.
///
/// `f` is run once, and its history saves all values ([`jacobian_reverse`] and [`jacobian_forward`]
/// save fewer).
///
/// ```
/// use bibun::{jacobian, Variable};
/// let x = Variable::constant([1.0, 2.0, 3.0]);
/// let j = jacobian(|x| (x * x).slice(bibun::s![..2]), &x);
/// assert_eq!(j.shape(), [2, 3]);
/// assert_eq!(j.to_vec::<f64>(), [2.0, 0.0, 0.0, 0.0, 4.0, 0.0]);
///
/// let xy = (Variable::constant(2.0), Variable::constant(3.0));
/// let (by_x, by_y) = jacobian(|(x, y)| x * y, &xy);
/// assert_eq!((by_x.item::<f64>(), by_y.item::<f64>()), (3.0, 2.0));
/// ```
///
/// # Panics
/// Panics if `x` has no Variable or has one that is not a float, or if a result is not a float. (Complex
/// numbers are two floats each: see `view_as_real`.)
#[track_caller]
pub fn jacobian<A: Tree, Y: Container>(f: impl FnOnce(&A) -> Y, x: &A) -> Y::Of<A> {
    let _called = calling("jacobian");
    refuse_complex("jacobian", "argument", &float_leaves("jacobian", x));
    let (y, run) = vjp(|x| scope::retain(|| f(x)), x);
    check_outputs("jacobian", run.outputs());
    if total(run.leaves()) > total(run.outputs()) {
        return by_rows(&y, &run, x);
    }
    let nodes = run.paths().nodes();
    let columns = batch::vmap(
        |tangents| push_forward(&run, &nodes, tangents),
        &units(run.leaves()),
        &vec![Some(0); run.leaves().variables.len()],
    );
    from_columns(&y, run.outputs(), run.leaves(), columns, x)
}

/// Computes the [`jacobian`] by forward walks, one for each element of `x`, all in one run of `f`
/// that records nothing.
///
/// ```
/// use bibun::{jacobian_forward, Variable};
/// let j = jacobian_forward(|x| x * x, &Variable::constant([1.0, 2.0]));
/// assert_eq!(j.to_vec::<f64>(), [2.0, 0.0, 0.0, 4.0]);
/// ```
///
/// # Panics
/// Panics in the same cases as [`jacobian`].
#[track_caller]
pub fn jacobian_forward<A: Tree, Y: Container>(f: impl FnOnce(&A) -> Y, x: &A) -> Y::Of<A> {
    let _called = calling("jacobian_forward");
    let leaves = float_leaves("jacobian_forward", x);
    refuse_complex("jacobian_forward", "argument", &leaves);
    columns("jacobian_forward", f, x, leaves)
}

#[track_caller]
fn columns<A: Tree, Y: Container>(
    function: &'static str,
    f: impl FnOnce(&A) -> Y,
    x: &A,
    leaves: Leaves,
) -> Y::Of<A> {
    let mut result = None;
    let push = |tangents: &[Variable]| {
        let (y, dy) = jvp(f, x, &leaves.replaced(x, tangents));
        result = Some(y);
        Leaves::of(&dy).variables
    };
    let axes = vec![Some(0); leaves.variables.len()];
    let columns = batch::vmap(push, &units(&leaves), &axes);
    let y = result.expect("the function has run");
    let outputs = Leaves::of(&y);
    check_outputs(function, &outputs);
    from_columns(&y, &outputs, &leaves, columns, x)
}

/// Computes the [`jacobian`] by backward walks, one for each element of the result, all at once. `f`
/// is run once.
///
/// ```
/// use bibun::{jacobian_reverse, Variable};
/// let j = jacobian_reverse(|x| x * x, &Variable::constant([1.0, 2.0]));
/// assert_eq!(j.to_vec::<f64>(), [2.0, 0.0, 0.0, 4.0]);
/// ```
///
/// # Panics
/// Panics in the same cases as [`jacobian`].
#[track_caller]
pub fn jacobian_reverse<A: Tree, Y: Container>(f: impl FnOnce(&A) -> Y, x: &A) -> Y::Of<A> {
    let _called = calling("jacobian_reverse");
    refuse_complex(
        "jacobian_reverse",
        "argument",
        &float_leaves("jacobian_reverse", x),
    );
    let (y, run) = vjp(f, x);
    check_outputs("jacobian_reverse", run.outputs());
    by_rows(&y, &run, x)
}

fn by_rows<A: Tree, Y: Container>(y: &Y, run: &Pullback<A, Y>, x: &A) -> Y::Of<A> {
    let (leaves, outputs) = (run.leaves(), run.outputs());
    let rows = match outputs.variables.len() {
        0 => Vec::new(),
        count => batch::vmap(
            |cotangents| run.call_flat(cotangents.iter().cloned().map(Some).collect()),
            &units(outputs),
            &vec![Some(0); count],
        ),
    };
    let mut start = 0;
    let blocks = outputs.variables.iter().map(|y| {
        let end = start + y.size();
        let of_one = leaves.variables.iter().zip(&rows).map(|(x, rows)| {
            let rows = rows.slice(bibun_array::s![start..end]);
            rows.reshape(joined(&y.shape(), &x.shape()))
        });
        let block = leaves.derivatives(x, &of_one.collect::<Vec<_>>());
        start = end;
        block
    });
    filled(y, x, blocks.collect())
}

/// Fills the structure of the result with a block for each output. An absent gradient has no block.
fn filled<A: Tree, Y: Container>(y: &Y, x: &A, blocks: Vec<A>) -> Y::Of<A> {
    let mut absent = Vec::new();
    y.visit(&mut Visitor::new(&mut |_, y, _| absent.push(y.is_absent())));
    let nothing = || {
        x.map(&mut Mapper::new(&mut |x, role| match role {
            Role::Buffer => x.clone(),
            Role::Argument | Role::Parameter => x.absent(),
        }))
    };
    let (mut absent, mut blocks) = (absent.into_iter(), blocks.into_iter());
    y.fill(&mut || match absent.next() {
        Some(true) => nothing(),
        Some(false) | None => blocks.next().expect("a block for each output"),
    })
}

/// Returns the blocks of the Jacobian. The tangents of the outputs have the elements of `x` along
/// their first axis.
fn from_columns<A: Tree, Y: Container>(
    y: &Y,
    outputs: &Leaves,
    leaves: &Leaves,
    columns: Vec<Variable>,
    x: &A,
) -> Y::Of<A> {
    let blocks = outputs.variables.iter().zip(columns).map(|(y, columns)| {
        let mut start = 0;
        let of_one = leaves.variables.iter().map(|x| {
            let end = start + x.size();
            let columns = columns.slice(bibun_array::s![start..end]);
            start = end;
            columns
                .moveaxis(0, -1)
                .reshape(joined(&y.shape(), &x.shape()))
                .cast(x.dtype())
        });
        let of_one: Vec<Variable> = of_one.collect();
        leaves.derivatives(x, &of_one)
    });
    filled(y, x, blocks.collect())
}

/// Returns the unit tangents of each leaf: one batch element for each element of all leaves together,
/// which is one at that element and zero elsewhere.
fn units(leaves: &Leaves) -> Vec<Variable> {
    let total = total(leaves);
    let mut start = 0;
    let unit = |x: &Variable| {
        let size = x.size();
        let shape = joined(&Shape::from([total]), &x.shape()).addressable("jacobian");
        let mut batch = Array::zeros([total, size], x.dtype());
        let own = [Index::from(start..start + size)];
        allocating("jacobian", || {
            batch.assign(&own, &Array::eye(size, x.dtype()))
        });
        start += size;
        Variable::constant(batch.reshape(shape).to(x.device()))
    };
    leaves.variables.iter().map(unit).collect()
}

fn total(leaves: &Leaves) -> usize {
    leaves.variables.iter().map(Variable::size).sum()
}

fn joined(a: &Shape, b: &Shape) -> Shape {
    let sizes: Vec<usize> = a.iter().chain(b.iter()).copied().collect();
    Shape::from(sizes)
}

#[track_caller]
fn check_outputs(function: &'static str, outputs: &Leaves) {
    refuse_complex(function, "result", outputs);
    for (name, y) in outputs.names.iter().zip(&outputs.variables) {
        if !y.dtype().is_float() {
            let of = if name.is_empty() { "" } else { " at " };
            let what = format!(
                "the result{of}{name} is {}, and only floats have derivatives",
                y.spec()
            );
            raise(Error::argument(function, what));
        }
    }
}

/// A complex number has two parts, by each of which there is a derivative.
#[track_caller]
fn refuse_complex(function: &'static str, what: &str, leaves: &Leaves) {
    for (name, x) in leaves.names.iter().zip(&leaves.variables) {
        if x.dtype().is_complex() {
            let of = if name.is_empty() { "" } else { " at " };
            let what = format!(
                "the {what}{of}{name} is {}; derivatives are those by real parts: let the function \
                 take and return these, by `view_as_complex` and `view_as_real` (jvp and vjp take \
                 complex numbers)",
                x.spec()
            );
            raise(Error::argument(function, what));
        }
    }
}

/// Computes all second derivatives of `f` at `x`, forwards over backwards, in one run of `f`.
///
/// Shapes: for leaves of shapes `s` and `t` they are `[s.., t..]`. For a Variable the result is a
/// Variable; for a pair `(x, y)` it is `((xx, xy), (yx, yy))`.
///
/// ```
/// use bibun::{hessian, Variable};
/// let h = hessian(|x| (x * x * x).sum(..), &Variable::constant([1.0, 2.0]));
/// assert_eq!(h.to_vec::<f64>(), [6.0, 0.0, 0.0, 12.0]);
/// ```
///
/// # Panics
/// Panics in the same cases as [`grad`], and if a Variable is complex: take the parts, by `view_as_complex`.
#[track_caller]
pub fn hessian<A: Container>(f: impl FnOnce(&A) -> Variable, x: &A) -> A::Of<A> {
    let _called = calling("hessian");
    let leaves = float_leaves("hessian", x);
    refuse_complex("hessian", "argument", &leaves);
    columns("hessian", |x| grad(f, x), x, leaves)
}

/// Computes the gradient of `f` at `x` and its derivative along `tangent`: the product of the Hessian
/// with a vector, without the Hessian itself, at the cost of a few runs (Pearlmutter 1994, "Fast
/// exact multiplication by the Hessian").
///
/// For many vectors at one point, `linearize(|x| grad(f, x), x)` runs `f` once for all of them.
///
/// ```
/// use bibun::{hvp, Variable};
/// let (x, v) = (Variable::constant([1.0, 2.0]), Variable::constant([1.0, 10.0]));
/// let (gradient, product) = hvp(|x| (x * x * x).sum(..), &x, &v);
/// assert_eq!(gradient.to_vec::<f64>(), [3.0, 12.0]);
/// assert_eq!(product.to_vec::<f64>(), [6.0, 120.0]);
/// ```
///
/// # Panics
/// Panics in the same cases as [`grad`] and [`jvp`].
#[track_caller]
pub fn hvp<A: Tree>(f: impl FnOnce(&A) -> Variable, x: &A, tangent: &A) -> (A, A) {
    let _called = calling("hvp");
    jvp(|x| grad(f, x), x, tangent)
}
