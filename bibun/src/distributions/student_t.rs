//! Student's t distribution.

use bibun_array::{Generator, Shape};

use super::parameters::{described_by, normals, parameterized};
use super::quantiles::root;
use super::{Distribution, Reparameterized, Statistic, Support};
use crate::functions::{
    betainc, betaincinv, betaln, broadcast_to, logical_or, polygamma_difference, random_log_gamma,
    where_,
};
use crate::variable::Variable;

parameterized! {
    /// Student's t distribution: that of a normal number by the root of the mean of ν squares of others. Its
    /// mean is NaN for `ν ≤ 1`, and its variance infinite for `1 < ν ≤ 2` and NaN below.
    ///
    /// ```
    /// use bibun::distributions::{Distribution, StudentT};
    /// let x = StudentT::new([1.5, 4.0], 0.0, 1.0);
    /// assert_eq!(x.variance().to_vec::<f64>(), [f64::INFINITY, 2.0]);
    /// ```
    StudentT {
        /// The degrees of freedom ν.
        df: expect_positive,
        /// The median, which is the mode, too.
        loc: expect_finite,
        /// The scale, which is not the standard deviation.
        scale: expect_positive,
    }
}

impl StudentT {
    /// The logarithm of the density at the median, for `scale` 1.
    fn log_peak(&self) -> Variable {
        -betaln(0.5 * &self.df, 0.5) - 0.5 * self.df.log()
    }
}

impl Distribution for StudentT {
    described_by!(StudentT, loc);

    fn support(&self) -> Support {
        Support::Real
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let half = 0.5 * &self.df;
        let x = normals(&self.loc, shape, generator);
        let log = random_log_gamma(broadcast_to(&half, shape), generator);
        &self.loc + &self.scale * x * (0.5 * (half.log() - log)).exp()
    }

    fn log_density(&self, x: &Variable) -> Variable {
        let (df, z) = (&self.df, (x - &self.loc) / &self.scale);
        self.log_peak() - self.scale.log() - 0.5 * (df + 1.0) * (z.square() / df).log1p()
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        let (df, z) = (&self.df, (x - &self.loc) / &self.scale);
        // Of the two arguments that mean the same, the one that is small keeps its digits. Where one is not
        // taken, its function gets a number at which it has derivatives.
        let square = z.square();
        let far = square.greater(df);
        let [part, rest] = [&square / (df + &square), df / (df + &square)];
        let of_far = 0.5 * betainc(0.5 * df, 0.5, where_(&far, rest, 0.5));
        // At the median the incomplete function has none, and its series begins like this.
        let middle = ((df + 1.0) * &square / df).less(1e-5);
        let taken = logical_or(&far, &middle);
        let of_near = 0.5 - 0.5 * betainc(0.5, 0.5 * df, where_(taken, 0.5, part));
        let tail = where_(far, of_far, of_near);
        let outer = where_(z.less(0.0), &tail, 1.0 - &tail);
        let third = (df + 1.0) * square / (6.0 * df);
        let inner = 0.5 + self.log_peak().exp() * &z * (1.0 - third);
        Some(where_(middle, inner, outer))
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        let (df, p_value) = (self.df.detach(), p.detach());
        let is_lower = p_value.less(0.5);
        let both_tails = 2.0 * where_(&is_lower, &p_value, 1.0 - &p_value);
        // Of z² / (ν + z²) and ν / (ν + z²), the one that is small keeps its digits.
        let part = betaincinv(0.5, 0.5 * &df, 1.0 - &both_tails);
        let rest = betaincinv(0.5 * &df, 0.5, both_tails);
        let quotient = where_(part.less(0.5), &part / (1.0 - &part), (1.0 - &rest) / &rest);
        let distance = &self.scale * (df.sqrt() * quotient.sqrt());
        let shift = where_(is_lower, -&distance, distance);
        root(self, &(&self.loc + shift), p)
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let df = &self.df;
        Some(match statistic {
            Statistic::Mean => where_(df.greater(1.0), &self.loc, f64::NAN),
            Statistic::Mode => self.loc.clone(),
            Statistic::Variance => {
                let is_finite = df.greater(2.0);
                let divisor = where_(&is_finite, df - 2.0, 1.0);
                let missing = where_(df.greater(1.0), f64::INFINITY, f64::NAN);
                where_(is_finite, self.scale.square() * df / divisor, missing)
            }
            Statistic::Entropy => {
                let difference = polygamma_difference(0, &(0.5 * df), 0.5);
                self.scale.log() - 0.5 * (df + 1.0) * difference - self.log_peak()
            }
        })
    }
}

impl Reparameterized for StudentT {}
