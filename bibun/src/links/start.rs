//! The parameters of a layer before they are drawn.

use std::sync::Arc;

use bibun_array::{Array, DType, Generator, Shape};

use crate::error::{Error, raise};
use crate::initializers::{Initializer, Zero};
use crate::variable::Variable;

/// The initializers and the dtype of a layer's parameters.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) weight: Arc<dyn Initializer>,
    /// `None` for a layer without biases.
    pub(super) bias: Option<Arc<dyn Initializer>>,
    pub(super) dtype: DType,
}

impl Start {
    /// Parameters in f32 with biases of zero.
    pub(super) fn new(weight: impl Initializer + 'static) -> Self {
        Self {
            weight: Arc::new(weight),
            bias: Some(Arc::new(Zero)),
            dtype: DType::F32,
        }
    }

    /// Draws a weight of this shape, and a bias for each of its outputs, which are its first axis.
    pub(super) fn draw(
        &self,
        shape: Shape,
        generator: &mut Generator,
    ) -> (Array, Option<Variable>) {
        let weight = self.weight.initialize(&shape, self.dtype, generator);
        let bias = (self.bias.as_ref())
            .map(|bias| bias.initialize(&shape[0].into(), self.dtype, generator));
        (weight, bias.map(Variable::new))
    }
}

/// Refuses a dtype that parameters cannot have.
#[track_caller]
pub(super) fn expect_float(link: &'static str, dtype: DType) {
    if !dtype.is_float() {
        let what = format!("the dtype is {dtype}, parameters must be floats");
        raise(Error::argument(link, what));
    }
}

/// Declares the setters of a builder with a [`Start`] in a field, whose weights start as `$weight`.
macro_rules! start_setters {
    ($($start:ident).+, $weight:ident) => {
        #[doc = concat!(
            "Sets the initializer of the weights. Defaults to [`", stringify!($weight),
            "`](crate::initializers::", stringify!($weight), ")."
        )]
        pub fn initializer(mut self, weight: impl $crate::initializers::Initializer + 'static) -> Self {
            self.$($start).+.weight = std::sync::Arc::new(weight);
            self
        }

        /// Sets the initializer of the biases. Defaults to [`Zero`](crate::initializers::Zero).
        pub fn bias_initializer(mut self, bias: impl $crate::initializers::Initializer + 'static) -> Self {
            self.$($start).+.bias = Some(std::sync::Arc::new(bias));
            self
        }

        /// Leaves out the biases.
        pub fn without_bias(mut self) -> Self {
            self.$($start).+.bias = None;
            self
        }

        /// Sets the dtype of the parameters. Defaults to `f32`.
        pub fn dtype(mut self, dtype: bibun_array::DType) -> Self {
            self.$($start).+.dtype = dtype;
            self
        }
    };
}

pub(super) use start_setters;
