//! Values whose elements are hidden by transformations.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bibun_array::DType;

use crate::apply::Call;
use crate::function::{AnyFunction, Items, Spec};
use crate::scope::Level;
use crate::variable::{Value, Variable};

/// The value that a transformation puts in the place of elements, made of Variables of the level
/// below.
///
/// `apply`, the Variable and the walks use hidden values only through this trait, so a new kind of
/// hidden value needs only a file of its own.
pub(crate) trait Hidden: Any + fmt::Debug + Send + Sync {
    /// Returns the level of the transformation.
    fn level(&self) -> Level;

    /// Returns the shape and the dtype as seen at this level.
    fn spec(&self) -> Spec;

    /// Returns the dtype, which is needed more often than the spec.
    fn dtype(&self) -> DType;

    /// Returns the transformation's name, and advice to a caller who asks for the elements.
    fn hidden_by(&self) -> (&'static str, &'static str);

    /// Returns the Variables of the level below that the value is made of. The one with its elements,
    /// if there is any, comes first.
    fn parts(&self) -> Items<&Variable>;

    /// Returns whether the value has a derivative of its own.
    fn is_differentiated(&self) -> bool;

    /// Returns the same value with a derivative of zero.
    fn detach(&self) -> Variable;

    /// Runs a function on inputs of which this one, and maybe others, are hidden by this
    /// transformation, and none by an inner one. It computes with Variables of the level below, with
    /// their history there, so that an outer walk finds its way through.
    fn run(
        &self,
        function: &dyn AnyFunction,
        inputs: Items<Variable>,
        call: &Call<'_>,
    ) -> Items<Arc<Value>>;
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;
    use crate::links::{BatchNorm, Link};
    use crate::{Error, attempt, grad, jvp, scope, vmap};

    type Tape = Arc<Mutex<Vec<&'static str>>>;

    /// A third kind of hidden value, unknown outside this module: it lists the functions that ran.
    #[derive(Debug)]
    struct Traced {
        level: Level,
        spec: Spec,
        tape: Tape,
    }

    impl Hidden for Traced {
        fn level(&self) -> Level {
            self.level
        }
        fn spec(&self) -> Spec {
            self.spec.clone()
        }
        fn dtype(&self) -> DType {
            self.spec.dtype
        }
        fn hidden_by(&self) -> (&'static str, &'static str) {
            ("trace", "there are none yet")
        }
        fn parts(&self) -> Items<&Variable> {
            Items::new()
        }
        fn is_differentiated(&self) -> bool {
            false
        }
        fn detach(&self) -> Variable {
            self.like(&self.spec)
        }
        fn run(
            &self,
            function: &dyn AnyFunction,
            _: Items<Variable>,
            call: &Call<'_>,
        ) -> Items<Arc<Value>> {
            let mut tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
            tape.push(function.name());
            let specs = call
                .output_specs
                .expect("shapes that are known without running");
            specs
                .iter()
                .map(|spec| self.like(spec).into_value())
                .collect()
        }
    }

    impl Traced {
        fn like(&self, spec: &Spec) -> Variable {
            let (level, spec, tape) = (self.level, spec.clone(), Arc::clone(&self.tape));
            Variable::from_value(Value::hiding(Self { level, spec, tape }))
        }
    }

    /// Returns the names of the functions that `f` calls on an input `[4, 2]` without elements.
    fn trace(f: impl FnOnce(&Variable) -> Variable) -> (Variable, Vec<&'static str>) {
        let tape = Tape::default();
        let y = scope::nested(|level| {
            let (spec, tape) = (Spec::new([4, 2], DType::F32), Arc::clone(&tape));
            f(&Variable::from_value(Value::hiding(Traced {
                level,
                spec,
                tape,
            })))
        });
        let names = tape.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (y, names)
    }

    #[test]
    fn a_third_kind_of_hidden_value_needs_nothing_but_this() {
        let (y, names) = trace(|x| x.tanh().exp().sum(0));
        assert_eq!(
            (y.spec(), names),
            (Spec::new([2], DType::F32), vec!["tanh", "exp", "sum"])
        );
        let error = attempt(|| y.array()).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Hidden {
                    transformation: "trace",
                    ..
                }
            ),
            "{error}"
        );
        let error = attempt(|| trace(|x| x.greater(0.0).piecewise(x, |x| x.exp(), |x| x.abs())));
        assert!(matches!(error, Err(Error::Hidden { .. })));
        // Other transformations work inside it, because no rule asks for elements.
        let (y, names) = trace(|x| grad(|x| x.tanh().sum(..), x));
        let seen = vec!["watch", "tanh", "sum", "tanh gradient"];
        assert_eq!((y.shape().to_vec(), names), (vec![4, 2], seen));
        let (y, names) = trace(|x| vmap(|x| jvp(Variable::tanh, x, x).1, x));
        assert_eq!((y.shape().to_vec(), names[0]), (vec![4, 2], "tanh"));
        // Updates of buffers are seen, too, and the buffers have not changed.
        let layer = BatchNorm::new(2);
        let (_, names) = trace(|x| layer.forward(x));
        let updates = names.iter().filter(|&&name| name == "update_buffer");
        assert_eq!(
            (updates.count(), layer.running_mean.get().to_vec::<f32>()),
            (2, vec![0.0; 2])
        );
    }
}
