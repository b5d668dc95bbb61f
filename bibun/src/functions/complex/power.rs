//! Powers of complex numbers, with their limits at zero.

use bibun_array::{Array, ops};

use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::sum_of;
use crate::functions::{conj, equal, greater_equal, log, logical_and, real, where_};
use crate::variable::Variable;

/// `xᵉ` of one shape and dtype: `exp(e log x)`, and at zero its limit.
#[derive(Clone, Copy, Debug)]
pub(in crate::functions) struct Power;

impl Power {
    #[track_caller]
    pub(in crate::functions) fn of(x: Variable, exponent: Variable) -> Variable {
        let [y] = crate::apply(Self, [x, exponent]);
        y
    }

    /// `e xᵉ⁻¹`, which is zero where e is.
    fn by_base(cx: &Context<'_>) -> Variable {
        let (x, e) = (cx.input(0), cx.input(1));
        let is_zero = equal(&e, 0.0);
        let power = Self::of(x, where_(&is_zero, 1.0, &e - 1.0));
        where_(is_zero, 0.0, e * power)
    }

    /// `xᵉ log x`, which is zero where x is, and the real part of e is not negative.
    fn by_exponent(cx: &Context<'_>) -> Variable {
        let (x, e) = (cx.input(0), cx.input(1));
        let is_limit = logical_and(equal(&x, 0.0), greater_equal(real(e), 0.0));
        let log = log(where_(&is_limit, 1.0, x));
        where_(is_limit, 0.0, cx.output(0) * log)
    }
}

impl Function for Power {
    type Inputs = Fixed<2>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "pow"
    }

    fn saves(&self, needs: Needs<'_>) -> Saved {
        let inputs = Saved::NOTHING.input(0).input(1);
        inputs.and(Saved::NOTHING.output(0).only_if(needs[1]))
    }

    fn takes_complex(&self) -> bool {
        true
    }

    fn shape(&self, [x, e]: [&Spec; 2]) -> Result<[Spec; 1], Mismatch> {
        match x == e {
            true => Ok([x.clone()]),
            false => Err(Mismatch::new(&[("x", x), ("e", e)], "both must be equal")),
        }
    }

    fn forward(&self, [x, e]: [Array; 2]) -> [Array; 1] {
        [ops::pow(x, e)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 2] {
        let gx = cx.needs(0).then(|| &gy * conj(Self::by_base(cx)));
        let ge = cx.needs(1).then(|| gy * conj(Self::by_exponent(cx)));
        [gx, ge]
    }

    fn jvp(&self, cx: &Context<'_>, [dx, de]: [Option<Variable>; 2]) -> [Option<Variable>; 1] {
        let of_base = dx.map(|dx| dx * Self::by_base(cx));
        [sum_of(of_base, de.map(|de| de * Self::by_exponent(cx)))]
    }

    fn batch(&self, inputs: [Batched; 2]) -> [Batched; 1] {
        Batched::of_elements(self, inputs)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 2] {
        gy.pull_back(|gy| self.vjp(cx, [gy]))
    }
}

#[cfg(test)]
mod tests {
    use bibun_array::Complex;

    use crate::functions::{pow, real};
    use crate::{Variable, grad, jvp};

    type C = Complex<f64>;

    #[test]
    fn limits_at_zero() {
        let exponents = [
            C::ZERO,
            C::ONE,
            C::new(2.0, 0.0),
            C::new(2.5, 0.0),
            C::new(1.5, 1.0),
        ];
        let e = Variable::new(exponents);
        let x = Variable::new([C::ZERO; 5]);
        let y = pow(&x, &e).to_vec::<C>();
        assert_eq!(y, [C::ONE, C::ZERO, C::ZERO, C::ZERO, C::ZERO]);
        let (gx, ge) = grad(
            |(x, e): &(Variable, Variable)| real(pow(x, e)).sum(..),
            &(x.clone(), e.clone()),
        );
        let gx = gx.to_vec::<C>();
        assert_eq!(gx, [C::ZERO, C::ONE, C::ZERO, C::ZERO, C::ZERO]);
        assert_eq!(ge.to_vec::<C>(), [C::ZERO; 5]);
        // 2 x has the derivative 2.
        let slope = |x: &Variable| grad(|x| real(pow(x, &e)).sum(..), x);
        let ones = Variable::constant([C::ONE; 5]);
        let (_, second) = jvp(slope, &x, &ones);
        assert_eq!(
            second.to_vec::<C>()[..3],
            [C::ZERO, C::ZERO, C::new(2.0, 0.0)]
        );
        // As a number, the exponent is the same.
        for (k, e) in exponents.into_iter().enumerate() {
            let y = pow(&x, e).to_vec::<C>()[0];
            assert_eq!(y, C::from(f64::from(k == 0)));
        }
        let y = pow(&x, 2.5);
        assert_eq!(y.to_vec::<C>()[0], C::ZERO);
        let gx = grad(|x| real(pow(x, 2.5)).sum(..), &x).to_vec::<C>();
        assert_eq!(gx, [C::ZERO; 5]);
        // There is no limit.
        let gx = grad(|x| real(pow(x, 0.5)).sum(..), &x).to_vec::<C>();
        assert!(!gx[0].re.is_finite());
    }

    #[test]
    fn negative_powers_of_large_numbers_and_zero() {
        let x = Variable::new([C::new(1e200, 1e200)]);
        let e = Variable::constant([C::new(-2.0, 0.0)]);
        for call in [
            |x: &Variable, _: &Variable| pow(x, -2),
            |x: &Variable, e: &Variable| pow(x, e),
        ] {
            assert_eq!(call(&x, &e).to_vec::<C>(), [C::ZERO]);
            let gx = grad(|x| real(call(x, &e)).sum(..), &x).to_vec::<C>();
            assert_eq!(gx, [C::ZERO]);
            // As PyTorch and JAX have it.
            let zero = Variable::constant([C::ZERO]);
            assert_eq!(call(&zero, &e).to_vec::<C>()[0].re, f64::INFINITY);
        }
    }
}
