//! The probability of one of two outcomes.

use bibun_array::{DType, Shape};

use super::parameters::{expect_probability, parameter, times};
use crate::Tree;
use crate::functions::condition::expect_everywhere;
use crate::functions::{
    Operand, entr, is_inf, is_nan, log_sigmoid, logical_not, logical_or, sigmoid, where_,
};
use crate::variable::Variable;

/// The probability p of the outcome 1 and not 0, as it was given: p has derivatives at 0 and 1, where the logit is
/// infinite, and the logit where p is rounded to them.
#[derive(Clone, Debug, Tree)]
pub(super) enum Chance {
    Probs(Variable),
    /// The logarithm of `p / (1 - p)`.
    Logits(Variable),
}

use Chance::{Logits, Probs};

impl Chance {
    /// Takes probabilities after a check.
    #[track_caller]
    pub(super) fn from_probs(name: &'static str, probs: Operand) -> Self {
        let p = parameter(name, probs);
        expect_probability(name, "probs", &p);
        Probs(p)
    }

    /// Takes logits after a check.
    #[track_caller]
    pub(super) fn from_logits(name: &'static str, logits: Operand) -> Self {
        let x = parameter(name, logits);
        expect_everywhere(name, "logits", &x, &logical_not(is_nan(&x)), "a number");
        Logits(x)
    }

    /// What was given, in whatever form.
    pub(super) fn given(&self) -> &Variable {
        match self {
            Probs(x) | Logits(x) => x,
        }
    }

    /// The same in another shape or dtype.
    pub(super) fn replaced(&self, given: Variable) -> Self {
        match self {
            Probs(_) => Probs(given),
            Logits(_) => Logits(given),
        }
    }

    pub(super) fn shape(&self) -> Shape {
        self.given().shape()
    }

    pub(super) fn dtype(&self) -> DType {
        self.given().dtype()
    }

    /// The probability of 1.
    pub(super) fn probs(&self) -> Variable {
        match self {
            Probs(p) => p.clone(),
            Logits(x) => sigmoid(x),
        }
    }

    /// The probability of 0.
    pub(super) fn of_zero(&self) -> Variable {
        match self {
            Probs(p) => 1.0 - p,
            Logits(x) => sigmoid(-x),
        }
    }

    /// The logarithm of `p / (1 - p)`.
    pub(super) fn logits(&self) -> Variable {
        match self {
            Probs(p) => p.log() - (-p).log1p(),
            Logits(x) => x.clone(),
        }
    }

    /// The logarithm of the probability of 0.
    pub(super) fn log_of_zero(&self) -> Variable {
        match self {
            Probs(p) => (-p).log1p(),
            Logits(x) => log_sigmoid(-x),
        }
    }

    /// Where an outcome is certain, and the chances with others in place of these, at which everything is finite.
    pub(super) fn uncertain(&self) -> (Variable, Self) {
        match self {
            Probs(p) => {
                let is_certain = logical_or(p.equal(0.0), p.equal(1.0));
                let held = where_(&is_certain, 0.5, p);
                (is_certain, Probs(held))
            }
            Logits(x) => {
                let is_certain = is_inf(x);
                let held = where_(&is_certain, 0.0, x);
                (is_certain, Logits(held))
            }
        }
    }

    /// `ones log p + zeros log(1 - p)`, where none of something counts as 0.
    pub(super) fn log_likelihood(&self, ones: &Variable, zeros: &Variable) -> Variable {
        match self {
            Probs(p) => {
                let of_ones = ones * where_(ones.equal(0.0), 1.0, p).log();
                of_ones + zeros * (-where_(zeros.equal(0.0), 0.0, p)).log1p()
            }
            Logits(x) => times(ones, &log_sigmoid(x)) + times(zeros, &log_sigmoid(-x)),
        }
    }

    /// The entropy. That of given probabilities has an infinite slope at 0 and 1.
    pub(super) fn entropy(&self) -> Variable {
        match self {
            Probs(p) => {
                // The probability of 0 is rounded where that of 1 is small.
                let is_small = p.less(0.5);
                let small = where_(&is_small, p, 0.0);
                let near_one = -((1.0 - &small) * (-&small).log1p());
                entr(p) + where_(is_small, near_one, entr(1.0 - p))
            }
            Logits(_) => -self.log_likelihood(&self.probs(), &self.of_zero()),
        }
    }

    /// The divergence from another chance.
    pub(super) fn kl_to(&self, q: &Self) -> Variable {
        if let (Logits(p), Logits(q)) = (self, q) {
            let of_ones = log_sigmoid(p) - log_sigmoid(q);
            let of_zeros = log_sigmoid(-p) - log_sigmoid(-q);
            return times(&sigmoid(p), &of_ones) + times(&sigmoid(-p), &of_zeros);
        }
        -self.entropy() - q.log_likelihood(&self.probs(), &self.of_zero())
    }
}
