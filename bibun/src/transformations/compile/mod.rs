//! The transformation that turns a function into a program.

mod back;
mod function;
#[cfg(feature = "training")]
mod loss;
#[cfg(feature = "pictures")]
mod page;
mod partial;
mod programs;
mod shown;
mod structure;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use bibun_array::{Array, is_traced};

use self::function::{CompiledCall, Core, Form, Forward, note};
#[cfg(feature = "training")]
pub(crate) use self::loss::LossPrograms;
use self::programs::Counts;
use self::shown::{Shown, Text};
use self::structure::Structure;
use super::derived::shared_array;
use rustc_hash::FxHashMap;

use crate::call::calling;
use crate::error::{Error, caller, raise};
use crate::hooks;
use crate::locks::lock;
use crate::rules::Rules;
use crate::scope;
use crate::surroundings::Surroundings;
use crate::tree::{Held, Leaves, Part, Role, Tree, Visitor, arrays_of, tree_map};
use crate::variable::Variable;

/// Compiles a function: its first call with arguments of some shapes traces it, and later calls run
/// the program that was traced. Elementwise functions that follow each other are computed in one
/// pass over memory, equal computations once, and those that nothing needs not at all. Results have
/// the same bits as those of `f`.
///
/// A compiled function can be differentiated any number of times, backwards and forwards, and mapped
/// by [`vmap`](crate::vmap); its derivatives are compiled as well. Inside of `compile`, all
/// transformations may be used, so a whole training step can be compiled.
///
/// While it is traced, `f` computes with Variables that have shapes and no elements, so what it does
/// may depend on shapes and not on values. To read a value is an error; so is a branch on a value,
/// for which there is [`where_`](crate::functions::where_). Values that `f` captures are constants of
/// the program: a captured Variable that has history is an error, and a number that changes outside
/// keeps its old value. Plain fields of the argument (numbers, options, variants of an enum, lengths)
/// are part of what a program is for: `f` is traced again when one of them changes. An
/// [`Array`](crate::array::Array) in the argument is an input like a Variable, and so is the position of a
/// [`Generator`](crate::array::Generator), which draws anew in every run.
/// [Buffers](crate::links::Buffer) are read and changed in every run, so batch normalisation and
/// [`Dropout`](crate::links::Dropout) train as usual; to draw from a generator that is not part of the
/// argument is an error. With hooks, replaced [`Rules`] or
/// [`detect_anomaly`](crate::detect_anomaly) around the call, and on other devices than the CPU, `f`
/// itself runs.
///
/// ```
/// use bibun::{compile, grad, Variable};
/// let f = compile(|x: &Variable| (x.sin() * x.exp()).sum(..));
/// let x = Variable::constant([0.5, 1.0]);
/// let eager = (x.sin() * x.exp()).sum(..);
/// assert_eq!(f.call(&x).item::<f64>(), eager.item::<f64>());
/// let g = grad(|x| f.call(x), &x);
/// assert_eq!(g.to_vec::<f64>(), grad(|x| (x.sin() * x.exp()).sum(..), &x).to_vec::<f64>());
/// // Other shapes are traced anew.
/// f.call(&Variable::constant([1.0, 2.0, 3.0]));
/// println!("{f}");
/// ```
pub fn compile<A, Y>(f: impl Fn(&A) -> Y + Send + Sync + 'static) -> Compiled<A, Y>
where
    A: Tree + Send + Sync + 'static,
    Y: Tree + Send + 'static,
{
    Compiled {
        function: Arc::new(f),
        structures: Mutex::default(),
        counts: Arc::default(),
    }
}

/// The number of structures of arguments whose programs are kept.
const STRUCTURES: usize = 32;

/// Returns the same function of lists, run as a program.
pub(super) fn compiled(forward: Arc<Forward>) -> Arc<Forward> {
    let core = Arc::new(Core::new(forward, Arc::default()));
    Arc::new(move |inputs| CompiledCall::call(&core, inputs.to_vec(), caller()).0)
}

/// The function for each structure of an argument, the latest last.
type Structures = Vec<Arc<Known>>;

/// The function for one structure.
struct Known {
    structure: Structure,
    core: Arc<Core>,
}

/// A function that is run as a program; see [`compile`].
pub struct Compiled<A, Y> {
    function: Arc<dyn Fn(&A) -> Y + Send + Sync>,
    /// The function in terms of leaves, for each structure that an argument had.
    structures: Mutex<Arc<Structures>>,
    counts: Arc<Counts>,
}

/// The structure of a result.
struct ResultForm<Y> {
    tree: Mutex<Y>,
    leaves: Leaves,
    /// For each leaf the first one that is the same Variable.
    first: Vec<usize>,
    /// Whether there are plain Variables in it and nothing else.
    is_of_arguments: bool,
}

impl<A, Y> Compiled<A, Y>
where
    A: Tree + Send + Sync + 'static,
    Y: Tree + Send + 'static,
{
    /// Computes the function.
    ///
    /// # Panics
    /// Panics if `f` does while it is traced, if it reads a value, captures a Variable that has
    /// history or is hidden by a transformation, or draws from a generator that is not part of the argument, and if it would have to be
    /// traced more often than the [`limit`](Self::limit) allows.
    #[track_caller]
    pub fn call(&self, x: &A) -> Y {
        let _called = calling("compile");
        if is_attended() {
            return (self.function)(x);
        }
        if let Some(y) = self.call_known(x) {
            return y;
        }
        let (core, inputs) = self.core(x);
        let (outputs, form) = CompiledCall::call(&core, inputs, caller());
        result(outputs.into_iter(), form.as_ref())
    }

    /// Computes the function of an argument that is given away: the memory of arrays that nobody else
    /// holds can become that of results. The steps of optimizers and elementwise passes take it, so a train
    /// step that takes and returns a model and its optimizer does not hold them twice. The results have no
    /// history.
    ///
    /// # Panics
    /// Panics in the same cases as [`call`](Self::call), if the argument was computed with history (leaves are
    /// no such values), because no gradient would get to it, and if another thread changes a buffer while the
    /// program runs, because it could not run again.
    ///
    /// ```
    /// use bibun::{compile, Variable};
    /// use bibun::optimizers::MomentumSgd;
    /// let step = compile(|(w, sgd): &(Variable, MomentumSgd)| sgd.minimized(w, |w| w.square().sum(..)));
    /// let (mut w, mut sgd) = (Variable::new(vec![1.0; 1000]), MomentumSgd::new(0.1, 0.9));
    /// for _ in 0..10 {
    ///     (_, w, sgd) = step.call_donated((w, sgd));
    /// }
    /// assert!(w.to_vec::<f64>()[0] < 0.5);
    /// ```
    #[track_caller]
    pub fn call_donated(&self, x: A) -> Y {
        let _called = calling("compile");
        if is_attended() {
            expect_no_history(&Leaves::of(&x).variables);
            // The function may ask for gradients by leaves of the argument.
            let without_history = |y: &Variable| match y.is_leaf() {
                true => y.clone(),
                false => y.detach(),
            };
            return tree_map(without_history, &(self.function)(&x));
        }
        let (core, inputs) = self.core(&x);
        expect_no_history(&inputs);
        drop(x);
        let (outputs, form) = CompiledCall::call_donated(&core, inputs, caller());
        result(outputs.into_iter(), form.as_ref())
    }

    /// Computes the function of an argument without history by a program that is there and sees nothing else.
    fn call_known(&self, x: &A) -> Option<Y> {
        let known = Arc::clone(&lock(&self.structures));
        let mut found = known.iter().rev();
        let found = found.find_map(|known| Some((&known.core, known.structure.arrays(x)?)));
        let (core, inputs) = found?;
        let (outputs, traced) = core.run_known(inputs)?;
        let outputs = outputs.into_iter().map(Variable::constant);
        Some(result(outputs, traced.notes.form.as_ref()))
    }

    /// The function in terms of the leaves of `x`, and these.
    fn core(&self, x: &A) -> (Arc<Core>, Vec<Variable>) {
        loop {
            // No lock is held while a Tree is walked.
            let known = Arc::clone(&lock(&self.structures));
            let mut found = known.iter().rev();
            let found = found.find_map(|known| Some((&known.core, known.structure.inputs(x)?)));
            if let Some((core, inputs)) = found {
                return (Arc::clone(core), inputs);
            }
            let (structure, inputs, argument) = Argument::of(x);
            let names = argument.names();
            let function = Arc::clone(&self.function);
            let forward = move |inputs: &[Variable]| noted(&function(&argument.with(inputs)));
            let core = Core::new(Arc::new(forward), Arc::clone(&self.counts));
            let core = Arc::new(core.with_names(names));
            let mut structures = lock(&self.structures);
            // Another thread may have added the same.
            if !Arc::ptr_eq(&structures, &known) {
                continue;
            }
            drop(known);
            let all = Arc::make_mut(&mut structures);
            if all.len() == STRUCTURES {
                all.remove(0);
            }
            let added = Known {
                structure,
                core: Arc::clone(&core),
            };
            all.push(Arc::new(added));
            return (core, inputs);
        }
    }

    /// Returns how often the function, or one of its derivatives, has been traced so far.
    ///
    /// ```
    /// use bibun::{compile, Variable};
    /// let double = compile(|x: &Variable| 2.0 * x);
    /// for x in [1.0, 2.0, 3.0] {
    ///     double.call(&Variable::constant(x));
    /// }
    /// assert_eq!(double.traces(), 1);
    /// ```
    pub fn traces(&self) -> usize {
        self.counts.traces.load(Ordering::Relaxed)
    }

    /// Makes more than this number of [`traces`](Self::traces) an error. Threads that trace the same at once count
    /// once. Defaults to no limit.
    #[must_use]
    pub fn limit(self, traces: usize) -> Self {
        self.counts.limit.store(traces, Ordering::Relaxed);
        self
    }

    /// Returns the number of bytes of the values that a call with such an argument holds at most at a
    /// time, beside the argument itself and temporary memory inside of products and the like. Traces
    /// the function if necessary, and does not run it.
    ///
    /// # Panics
    /// Panics in the same cases as [`call`](Self::call).
    ///
    /// ```
    /// use bibun::{compile, Variable};
    /// let f = compile(|x: &Variable| (x.sin() + 1.0).exp());
    /// // The result alone: what is in between never is in memory.
    /// assert_eq!(f.peak_bytes(&Variable::constant([0.0f32; 1000])), 4000);
    /// ```
    #[track_caller]
    pub fn peak_bytes(&self, x: &A) -> usize {
        let _called = calling("compile");
        let (core, inputs) = self.core(x);
        core.program_of(&inputs).0.program.peak_bytes()
    }

    /// Returns the machine code of the program for such an argument, as text; it is empty where there
    /// is no assembler.
    ///
    /// # Panics
    /// Panics in the same cases as [`call`](Self::call).
    ///
    /// ```
    /// use bibun::{compile, Variable};
    /// let f = compile(|x: &Variable| 2.0 * x + 1.0);
    /// println!("{}", f.assembly(&Variable::constant([1.0; 100])));
    /// ```
    #[track_caller]
    pub fn assembly(&self, x: &A) -> String {
        let _called = calling("compile");
        let (core, inputs) = self.core(x);
        core.program_of(&inputs).0.program.assembly()
    }

    /// Runs the program and returns its steps as text, as `println!` shows them, with the time that
    /// each took. Buffers do not change.
    ///
    /// # Panics
    /// Panics in the same cases as [`call`](Self::call).
    ///
    /// ```
    /// use bibun::{compile, Variable};
    /// let f = compile(|x: &Variable| x.sin().sum(..) * 2.0);
    /// println!("{}", f.profile(&Variable::constant([1.0; 100])));
    /// ```
    #[track_caller]
    pub fn profile(&self, x: &A) -> String {
        let _called = calling("compile");
        let (core, inputs) = self.core(x);
        let (traced, inputs) = core.program_of(&inputs);
        traced.profile(inputs);
        traced.listing().to_string()
    }

    /// Writes the programs that were used last to a file, in the format given by its extension: a page
    /// (`.html`), a picture (`.svg`), or the text of `println!` (`.txt`). Pages and pictures require the
    /// feature `pictures`.
    ///
    /// On the page, the steps are boxes with the bytes that they read and write. A pass over memory
    /// that computes several operations is one box, and a click opens it. Pointing at a box shows what
    /// it reads and writes, your lines, and its time in the last [`profile`](Self::profile).
    ///
    /// # Errors
    /// Returns an error if the extension is another one, or if the file cannot be written.
    ///
    /// ```
    /// use bibun::{compile, Variable};
    /// let f = compile(|x: &Variable| (x.sin() * x.exp()).sum(..));
    /// f.call(&Variable::constant([1.0, 2.0]));
    /// let error = f.save("step.jpeg").unwrap_err();
    /// assert!(error.to_string().contains(".html"));
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        shown::save(&self.programs(), path.as_ref())
    }

    /// Compares the program with the function itself: computes both and compares all bits (all NaNs count as one). Both see the
    /// same buffers and the same masks of dropout, and buffers change once.
    ///
    /// # Errors
    /// Returns an error that names the first leaf of the result that differs.
    ///
    /// # Panics
    /// Panics in the same cases as [`call`](Self::call).
    ///
    /// ```
    /// use bibun::{compile, Variable};
    /// let f = compile(|x: &Variable| x.tanh() / (1.0 + x.square()));
    /// assert!(f.check(&Variable::constant([-1.0, 0.0, 1e300])).is_ok());
    /// ```
    #[track_caller]
    pub fn check(&self, x: &A) -> Result<(), Error> {
        let _called = calling("compile");
        // Both see the same buffers and draws, and change them once.
        let (eager, seen) = Surroundings::record(|| (self.function)(x));
        let compiled = seen.again(|| self.call(x));
        let [eager, compiled] = [eager, compiled].map(|y| values(&y));
        for ((name, a), (_, b)) in eager.iter().zip(&compiled) {
            if !a.has_same_bits(b) {
                let name = if name.is_empty() { "the result" } else { name };
                let what = format!("{name} differs from that of the function itself");
                return Err(Error::argument("compile", what));
            }
        }
        Ok(())
    }
}

/// An argument without its values.
struct Argument<A> {
    leaves: Leaves,
    /// The input that each leaf is. Leaves that are one Variable are one input.
    inputs: Vec<usize>,
    form: A,
}

impl<A: Tree> Argument<A> {
    /// Returns the structure of an argument, its values, and the rest of it.
    #[track_caller]
    fn of(x: &A) -> (Structure, Vec<Variable>, Self) {
        let structure = Structure::of(x);
        let inputs = structure.inputs(x).expect("it is the structure of `x`");
        let mut leaves = Leaves::of(x);
        let mut known = FxHashMap::default();
        let roles = leaves.structure().map(|(_, is_parameter, _)| is_parameter);
        let of_leaves = leaves.variables.iter().zip(roles);
        let of_leaves = of_leaves.map(|(x, is_parameter)| {
            let next = known.len();
            *known.entry((x.identity(), is_parameter)).or_insert(next)
        });
        let of_leaves: Vec<usize> = of_leaves.collect();
        // Only the structure of `x`: its current values and their history are not held.
        let empty = |_: &Variable| Variable::constant(0.0);
        leaves.variables = leaves.variables.iter().map(empty).collect();
        let arrays = vec![Array::scalar(0.0); arrays_of(x).len()];
        let form = leaves.replaced_all(x, leaves.variables.iter().cloned(), &arrays);
        let argument = Self {
            leaves,
            inputs: of_leaves,
            form,
        };
        (structure, inputs, argument)
    }

    fn with(&self, inputs: &[Variable]) -> A {
        let count = self.inputs.iter().max().map_or(0, |last| last + 1);
        let (variables, arrays) = inputs.split_at(count);
        let variables = self.inputs.iter().map(|&i| variables[i].clone());
        let arrays: Vec<Array> = arrays.iter().map(shared_array).collect();
        self.leaves.replaced_all(&self.form, variables, &arrays)
    }

    /// The name of each input that is a leaf.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (&i, name) in self.inputs.iter().zip(&self.leaves.names) {
            if i == names.len() {
                names.push(name.clone());
            }
        }
        names
    }
}

/// Returns the leaves and arrays of a result, and notes its structure.
fn noted<Y: Tree + Send + 'static>(y: &Y) -> Vec<Variable> {
    let outputs = Leaves::of(y);
    let arrays = arrays_of(y).into_iter().map(Variable::constant);
    let all = outputs.variables.iter().cloned().chain(arrays).collect();
    expect_returned(y);
    let names = outputs.names.clone();
    note(form_of(y, outputs), names.into());
    all
}

/// The result with these leaves and arrays.
fn result<Y: Tree + Send + 'static>(
    mut outputs: impl Iterator<Item = Variable>,
    form: Option<&Form>,
) -> Y {
    let form = form.and_then(|form| form.downcast_ref::<ResultForm<Y>>());
    let form = form.expect("the function has run, or was traced");
    let leaves = &form.leaves.variables;
    if form.is_of_arguments {
        return Leaves::filled(&*lock(&form.tree), outputs);
    }
    let of_leaves = outputs.by_ref().take(leaves.len()).zip(leaves);
    let of_leaves = of_leaves.map(|(output, y)| match (y.is_leaf(), y.is_frozen()) {
        (false, false) => output,
        (_, is_frozen) => match output.plain_array() {
            // What the function has made leaves are leaves, whose history begins here. Frozen
            // parameters were recorded with the others, but no gradient goes through them.
            Some(array) => {
                let leaf = Variable::new(array);
                leaf.set_requires_grad(!is_frozen);
                leaf
            }
            None if is_frozen => output.detach(),
            None => output,
        },
    });
    let mut of_leaves: Vec<Variable> = of_leaves.collect();
    for (i, &first) in form.first.iter().enumerate() {
        if first < i {
            of_leaves[i] = of_leaves[first].clone();
        }
    }
    let arrays: Vec<Array> = outputs.map(|y| shared_array(&y)).collect();
    let tree = lock(&form.tree);
    form.leaves.replaced_all(&*tree, of_leaves, &arrays)
}

/// The values of a result, by name.
fn values<Y: Tree>(y: &Y) -> Vec<(String, Array)> {
    let leaves = Leaves::of(y);
    let names = leaves.names.iter().cloned();
    let values = names.zip(leaves.variables.iter().map(Variable::array));
    let arrays = arrays_of(y).into_iter().enumerate();
    values
        .chain(arrays.map(|(i, x)| (format!("array {i} of the result"), x)))
        .collect()
}

/// Refuses a result whose values are not among its leaves, because they would stay in the trace.
fn expect_returned<Y: Tree>(y: &Y) {
    y.visit(&mut Visitor::of_everything(&mut |name, part| {
        let is_traced = |x: &Variable| x.plain_array().is_some_and(|x| is_traced(&x));
        let what = match part {
            // Buffers are changed behind the run, and a result has them as they are.
            Part::Held(Held::Variable(x), Role::Buffer) if is_traced(x) => format!(
                "`{name}` of the result is a constant in a model, which is no result of a function; \
                 make it a parameter (`Variable::new(x.array())`), or return it beside the model"
            ),
            Part::Skipped(x) if is_traced(x) => format!(
                "`{name}` of the result is in a field that its Tree leaves out, which is no result of \
                 a function"
            ),
            _ => return,
        };
        raise(Error::argument("compile", what));
    }));
}

fn form_of<Y: Tree + Send + 'static>(y: &Y, mut leaves: Leaves) -> Form {
    let mut known = FxHashMap::default();
    let of_leaves = leaves.variables.iter().enumerate();
    let first = of_leaves.map(|(i, y)| match y.is_leaf() {
        true => *known.entry(y.identity()).or_insert(i),
        false => i,
    });
    let first = first.collect();
    // Without the values, which exist in the trace alone.
    let empty = leaves.variables.iter().map(|y| match y.is_leaf() {
        true => {
            let leaf = Variable::new(0.0);
            leaf.set_requires_grad(!y.is_frozen());
            leaf
        }
        false if y.is_frozen() => Variable::constant(0.0).as_frozen(),
        false => Variable::constant(0.0),
    });
    leaves.variables = empty.collect();
    let arrays = vec![Array::scalar(0.0); arrays_of(y).len()];
    let tree = leaves.replaced_all(y, leaves.variables.iter().cloned(), &arrays);
    let is_plain = |y: &Variable| !(y.is_leaf() || y.is_frozen());
    let is_of_arguments =
        leaves.are_arguments() && leaves.variables.iter().all(is_plain) && arrays.is_empty();
    Arc::new(ResultForm {
        tree: Mutex::new(tree),
        leaves,
        first,
        is_of_arguments,
    })
}

/// Refuses values whose gradients would be lost.
#[track_caller]
fn expect_no_history(inputs: &[Variable]) {
    let is_computed = |x: &Variable| x.has_history() && !x.is_leaf();
    if scope::is_recording() && inputs.iter().any(is_computed) {
        let what = "an argument has history, as under `grad`, and the results of `call_donated` have none, so \
                    that no gradient would get to it; use `call`, or hand over `x.detach()`";
        raise(Error::argument("call_donated", what));
    }
}

/// Whether every call of a function is to be seen, so that the function itself has to run.
fn is_attended() -> bool {
    scope::is_attended()
        && (hooks::are_any() || hooks::detects_anomaly() || !Rules::in_force().is_empty())
}

impl<A, Y> Compiled<A, Y> {
    /// The programs that were used last, for each structure of an argument and each derivative.
    fn programs(&self) -> Vec<Shown> {
        let structures = Arc::clone(&lock(&self.structures));
        let each = structures.iter().flat_map(|known| known.core.programs());
        each.collect()
    }
}

impl<A, Y> fmt::Display for Compiled<A, Y> {
    /// Lists the steps of the programs that were used last, one for each structure of an argument and
    /// each derivative: the values that a step reads and makes, their bytes, and your lines. Behind them
    /// are the calls that were left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Text(&self.programs()).fmt(f)
    }
}

impl<A, Y> fmt::Debug for Compiled<A, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled")
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}
