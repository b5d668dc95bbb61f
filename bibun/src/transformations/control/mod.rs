//! Branches and loops as functions of Trees, with a program's body in place of many recorded calls.
//!
//! Each is a loop of Rust over Variables, in terms of the leaves of its Trees. A [`ControlCall`] makes
//! a function with all rules of it.

mod call;
mod cond;
mod loops;
mod scan;

pub use cond::cond;
pub use loops::{fori_loop, while_loop};
pub use scan::{ScanOptions, scan, scan_with};

use std::sync::{Arc, Mutex};

use bibun_array::{Array, is_traced};

use self::call::{ControlCall, Forward};
use super::compile::compiled;
use super::derived::shared_array;
use crate::batch::Batched;
use crate::error::{Error, raise, refuse};
use crate::function::Spec;
use crate::functions::where_;
use crate::locks::lock;
use crate::tree::{Leaves, Tree, arrays_of};
use crate::variable::Variable;

/// The structure of a Tree, without its values and their history. Behind its leaves are its arrays, to
/// which the position of a generator belongs.
struct Form<T> {
    tree: T,
    leaves: Leaves,
    /// The shape and dtype of each array.
    arrays: Vec<Spec>,
}

impl<T: Tree> Form<T> {
    /// Returns the structure of a Tree, and its leaves and arrays.
    fn of(tree: &T) -> (Self, Vec<Variable>) {
        let mut leaves = Leaves::of(tree);
        let zeros = |x: &Variable| Variable::zeros(&x.spec());
        let zeros: Vec<Variable> = leaves.variables.iter().map(zeros).collect();
        let arrays: Vec<Variable> = arrays_of(tree)
            .into_iter()
            .map(Variable::constant)
            .collect();
        let specs: Vec<Spec> = arrays.iter().map(Variable::spec).collect();
        let none = specs
            .iter()
            .map(|spec| Array::zeros(&spec.shape, spec.dtype));
        let tree = leaves.replaced_all(tree, zeros.iter().cloned(), &none.collect::<Vec<_>>());
        let variables = std::mem::replace(&mut leaves.variables, zeros);
        let form = Self {
            tree,
            leaves,
            arrays: specs,
        };
        (form, [variables, arrays].concat())
    }

    fn len(&self) -> usize {
        self.leaves.variables.len() + self.arrays.len()
    }

    /// Returns the Tree with these leaves and arrays.
    fn with(&self, variables: &[Variable]) -> T {
        let (leaves, arrays) = variables.split_at(self.leaves.variables.len());
        let arrays: Vec<Array> = arrays.iter().map(shared_array).collect();
        self.leaves
            .replaced_all(&self.tree, leaves.iter().cloned(), &arrays)
    }

    /// Returns the Tree with these leaves, which a function has returned: those in place of frozen
    /// parameters are recorded with the others, but no gradient goes through them.
    fn returned(&self, variables: &[Variable]) -> T {
        let frozen = self.leaves.structure().map(|(_, _, frozen)| frozen);
        let frozen = frozen.chain(self.arrays.iter().map(|_| false));
        let variables = frozen.zip(variables).map(|(frozen, x)| match frozen {
            true => x.detach(),
            false => x.clone(),
        });
        self.with(&variables.collect::<Vec<_>>())
    }

    /// Returns the leaves and arrays of another Tree of this structure.
    ///
    /// # Panics
    /// Panics if the structure, or the shape or dtype of a leaf or an array, differs.
    #[track_caller]
    fn matching(&self, function: &'static str, what: [&str; 2], other: &T) -> Vec<Variable> {
        let mut found = self.leaves.matching(function, what, other);
        let arrays: Vec<Variable> = arrays_of(other)
            .into_iter()
            .map(Variable::constant)
            .collect();
        let specs: Vec<Spec> = arrays.iter().map(Variable::spec).collect();
        if specs != self.arrays {
            let [this, that] = what;
            let list = |specs: &[Spec]| {
                let texts: Vec<String> = specs.iter().map(Spec::to_string).collect();
                format!("({})", texts.join(", "))
            };
            let (own, other) = (list(&self.arrays), list(&specs));
            let what = format!(
                "the arrays of {this} are {own}, and those of {that} {other}; they must be alike"
            );
            raise(Error::argument(function, what));
        }
        found.extend(arrays);
        found
    }
}

/// The structure of a result, known once a function has run.
struct ResultForm<T> {
    function: &'static str,
    /// The first result and a later one, for errors.
    what: [&'static str; 2],
    form: Mutex<Option<Arc<Form<T>>>>,
}

impl<T: Tree> ResultForm<T> {
    fn new(function: &'static str, what: [&'static str; 2]) -> Arc<Self> {
        Arc::new(Self {
            function,
            what,
            form: Mutex::default(),
        })
    }

    /// Returns the leaves of a result, which has the structure of the first one.
    ///
    /// # Panics
    /// Panics if it has not.
    #[track_caller]
    fn leaves(&self, y: &T) -> Vec<Variable> {
        let known = lock(&self.form).clone();
        match known {
            Some(form) => form.matching(self.function, self.what, y),
            None => {
                let (form, leaves) = Form::of(y);
                *lock(&self.form) = Some(Arc::new(form));
                leaves
            }
        }
    }

    /// Returns the result with these leaves.
    fn returned(&self, variables: &[Variable]) -> T {
        self.form().returned(variables)
    }

    fn form(&self) -> Arc<Form<T>> {
        let form = lock(&self.form).clone();
        form.expect("the function has run")
    }
}

/// Returns whether a program is being traced that computes one of these values.
fn are_traced(values: &[Variable]) -> bool {
    values.iter().any(|x| is_traced(&Batched::all(x)))
}

/// Runs a branch or a loop made of some functions, which become programs if the values are traced. `once` runs each of them one time, and returns values of the shapes of the outputs.
fn run<const N: usize>(
    name: &'static str,
    functions: [Arc<Forward>; N],
    inputs: Vec<Variable>,
    once: impl FnOnce(&[Arc<Forward>; N], &[Variable]) -> Vec<Variable>,
    whole: impl FnOnce([Arc<Forward>; N]) -> Arc<Forward>,
) -> Vec<Variable> {
    if !are_traced(&inputs) {
        let steps = functions.map(|f| ControlCall::step(name, f));
        return ControlCall::call(name, whole(steps), inputs, None);
    }
    let specs = call::trace_once(name, &inputs, |x| once(&functions, x));
    ControlCall::call(name, whole(functions.map(compiled)), inputs, Some(specs))
}

/// The batch elements for which a condition holds.
enum Holds {
    Everywhere,
    /// None, or there are no batch elements.
    Nowhere,
    Somewhere,
}

impl Holds {
    /// Reads a condition: a single bool, or one for each batch element of the transformations around.
    ///
    /// # Panics
    /// Panics if it is something else.
    #[track_caller]
    fn read(function: &'static str, what: &str, condition: &Variable) -> Self {
        expect_bool(function, what, condition);
        let all = Batched::all(condition);
        if is_traced(&all) {
            let what = format!(
                "{what} depends on a value of `compile` that the function captures; hand it in as \
                 part of the argument"
            );
            refuse(Error::argument(function, what));
        }
        let elements = all.to_vec::<bool>();
        match (elements.contains(&true), elements.contains(&false)) {
            (true, false) => Self::Everywhere,
            (false, _) => Self::Nowhere,
            (true, true) => Self::Somewhere,
        }
    }
}

/// Panics unless a condition is a single bool.
#[track_caller]
fn expect_bool(function: &'static str, what: &str, condition: &Variable) {
    let spec = condition.spec();
    if spec != Spec::new((), bibun_array::DType::Bool) {
        let what = format!("{what} is {spec}; it must be a single bool ([] bool)");
        raise(Error::argument(function, what));
    }
}

/// Returns the values as a function sees them whose results count for some batch elements only. No
/// gradient leaves it for the others, where it may be NaN.
fn guarded(condition: &Variable, values: &[Variable]) -> Vec<Variable> {
    let guard = |x: &Variable| match x.dtype().is_differentiable() {
        true => where_(condition, x, x.detach()),
        false => x.clone(),
    };
    values.iter().map(guard).collect()
}

/// Chooses between lists for each batch element. The last `arrays` are not Variables.
///
/// # Panics
/// Panics if there are arrays, of which all batch elements have one.
#[track_caller]
fn choose(
    function: &'static str,
    condition: &Variable,
    [a, b]: [&[Variable]; 2],
    arrays: usize,
) -> Vec<Variable> {
    if arrays > 0 {
        let what = "batch elements go different ways, and an `Array` or a `Generator` that the function \
                    returns is one for all of them; use a Variable, or a generator outside";
        raise(Error::argument(function, what));
    }
    let pairs = a.iter().zip(b);
    pairs.map(|(a, b)| where_(condition, a, b)).collect()
}
