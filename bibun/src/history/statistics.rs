//! Statistics of values.

use std::fmt;

use bibun_array::DType;

use crate::variable::Variable;

/// Statistics of the elements of an array. Extremes, mean and standard deviation are those of the
/// finite elements.
pub(super) struct Statistics {
    count: usize,
    non_finite: usize,
    minimum: f64,
    maximum: f64,
    mean: f64,
    deviation: f64,
    only: Option<f64>,
}

impl Statistics {
    /// Computes the statistics, or returns `None` where a transformation hides the elements.
    pub(super) fn of(x: &Variable) -> Option<Self> {
        let elements = x.plain_array()?.cast(DType::F64).to_vec::<f64>();
        let finite = || elements.iter().copied().filter(|x| x.is_finite());
        let count = finite().count();
        let mean = finite().map(|x| x / count as f64).sum::<f64>();
        let squares: f64 = finite().map(|x| (x - mean).powi(2) / count as f64).sum();
        Some(Self {
            count: elements.len(),
            non_finite: elements.len() - count,
            minimum: finite().fold(f64::INFINITY, f64::min),
            maximum: finite().fold(f64::NEG_INFINITY, f64::max),
            mean,
            deviation: squares.sqrt(),
            only: (elements.len() == 1).then(|| elements[0]),
        })
    }

    /// Returns the value of a single element, or mean and standard deviation, in a few characters.
    pub(super) fn short(&self) -> String {
        match self.only {
            Some(x) => number(x),
            None if self.count == self.non_finite => "no finite".to_owned(),
            None => format!("{} ± {}", brief(self.mean), brief(self.deviation)),
        }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(x) = self.only {
            return f.write_str(&number(x));
        }
        if self.count > self.non_finite {
            write!(
                f,
                "min {}, max {}, mean {}, standard deviation {}, ",
                number(self.minimum),
                number(self.maximum),
                number(self.mean),
                number(self.deviation),
            )?;
        }
        write!(f, "{} of {} non-finite", self.non_finite, self.count)
    }
}

/// Formats a number with four significant digits.
fn number(x: f64) -> String {
    significant(x, 4)
}

/// Formats a number with two significant digits.
fn brief(x: f64) -> String {
    significant(x, 2)
}

fn significant(x: f64, digits: usize) -> String {
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    // Rounding may reach the next power of ten, so it comes first.
    let scientific = format!("{x:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("an integer");
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match exponent {
        -3..=4 => {
            let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
            without_zeros(&format!("{x:.decimals$}"))
        }
        _ => format!("{}e{exponent}", without_zeros(mantissa)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_round() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (-0.25, "-0.25"),
            (0.123449, "0.1234"),
            (123456.0, "1.235e5"),
            (99999.9, "1e5"),
            (1e-7, "1e-7"),
            (12345.0, "12345"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (x, text) in cases {
            assert_eq!(number(x), text);
        }
    }

    #[test]
    fn statistics_leave_out_what_is_not_finite() {
        let x = Variable::constant([1.0, f64::NAN, 3.0, f64::INFINITY]);
        let text = "min 1, max 3, mean 2, standard deviation 1, 2 of 4 non-finite";
        assert_eq!(Statistics::of(&x).unwrap().to_string(), text);
        assert_eq!(Statistics::of(&x).unwrap().short(), "2 ± 1");
        let none = Statistics::of(&Variable::constant([f64::NAN; 2])).unwrap();
        assert_eq!(none.to_string(), "2 of 2 non-finite");
        let empty = Variable::constant(bibun_array::Array::zeros([0], DType::F32));
        assert_eq!(
            Statistics::of(&empty).unwrap().to_string(),
            "0 of 0 non-finite"
        );
        let yes = Statistics::of(&Variable::constant(true)).unwrap();
        assert_eq!(yes.to_string(), "1");
    }
}
