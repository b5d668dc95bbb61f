//! Numbers with derivatives, for functions that are computed by series and fractions: the derivative is that
//! of each step.
//!
//! Source: Fike and Alonso, "The development of hyper-dual numbers for exact second-derivative calculations"
//! (2011).

use std::ops::{Add, Div, Mul, Sub};

/// A number, or a number with derivatives.
pub(super) trait Smooth:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// A constant.
    fn of(x: f64) -> Self;

    /// The number without its derivatives.
    fn value(self) -> f64;

    /// A function of two numbers: its value, and its derivatives by a, b, aa, ab and bb, which are computed if
    /// they are needed.
    fn function(a: Self, b: Self, value: f64, derivatives: impl FnOnce() -> [f64; 5]) -> Self;

    /// Whether a term changes a sum by less than its rounding error.
    fn is_negligible(self, sum: Self) -> bool;

    /// Whether a factor changes a product by about as much as its rounding error, which that of its own factor
    /// `part` causes.
    fn is_one(self, product: Self, part: Self) -> bool;
}

impl Smooth for f64 {
    fn of(x: f64) -> Self {
        x
    }

    fn value(self) -> f64 {
        self
    }

    fn function(_: Self, _: Self, value: f64, _: impl FnOnce() -> [f64; 5]) -> Self {
        value
    }

    fn is_negligible(self, sum: Self) -> bool {
        self.abs() <= 1e-17 * sum.abs()
    }

    fn is_one(self, _: Self, _: Self) -> bool {
        (self - 1.0).abs() <= 1e-15
    }
}

/// `x + d[0] e + d[1] f + d[2] e f`, where `e² = f² = 0`: with `e` and `f` added to arguments, the last part is a
/// second derivative.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hyperdual {
    x: f64,
    d: [f64; 3],
}

impl Hyperdual {
    /// An argument, to which the two infinitesimal numbers are added or not.
    pub(super) const fn argument(x: f64, added: [bool; 2]) -> Self {
        let [e, f] = added;
        Self {
            x,
            d: [e as u8 as f64, f as u8 as f64, 0.0],
        }
    }

    /// The derivative by what the first number was added to, and by what both were.
    pub(super) const fn derivatives(self) -> [f64; 2] {
        [self.d[0], self.d[2]]
    }
}

impl Add for Hyperdual {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            x: self.x + other.x,
            d: std::array::from_fn(|i| self.d[i] + other.d[i]),
        }
    }
}
impl Sub for Hyperdual {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self {
            x: self.x - other.x,
            d: std::array::from_fn(|i| self.d[i] - other.d[i]),
        }
    }
}
impl Mul for Hyperdual {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let ([a, b, c], [u, v, w]) = (self.d, other.d);
        Self {
            x: self.x * other.x,
            d: [
                a * other.x + self.x * u,
                b * other.x + self.x * v,
                c * other.x + a * v + b * u + self.x * w,
            ],
        }
    }
}
impl Div for Hyperdual {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        // From self = quotient · other, part by part.
        let ([a, b, c], [u, v, w]) = (self.d, other.d);
        let x = self.x / other.x;
        let (e, f) = ((a - x * u) / other.x, (b - x * v) / other.x);
        Self {
            x,
            d: [e, f, (c - e * v - f * u - x * w) / other.x],
        }
    }
}

impl Smooth for Hyperdual {
    fn of(x: f64) -> Self {
        Self::argument(x, [false; 2])
    }

    fn value(self) -> f64 {
        self.x
    }

    fn function(a: Self, b: Self, value: f64, derivatives: impl FnOnce() -> [f64; 5]) -> Self {
        let [by_a, by_b, by_aa, by_ab, by_bb] = derivatives();
        let first = |i: usize| by_a * a.d[i] + by_b * b.d[i];
        let mixed = by_aa * a.d[0] * a.d[1]
            + by_ab * (a.d[0] * b.d[1] + a.d[1] * b.d[0])
            + by_bb * b.d[0] * b.d[1];
        Self {
            x: value,
            d: [first(0), first(1), first(2) + mixed],
        }
    }

    fn is_negligible(self, sum: Self) -> bool {
        let pairs = self.d.iter().zip(sum.d);
        self.x.is_negligible(sum.x) && pairs.into_iter().all(|(d, sum)| d.is_negligible(sum))
    }

    fn is_one(self, product: Self, part: Self) -> bool {
        let relative = |of: Self| of.d.map(|d| (d / of.x).abs());
        let ([a, b, c], [u, v, w]) = (relative(product), relative(part));
        let sizes = [a + u, b + v, c + w + a * b + u * v];
        let small = |(d, size): (&f64, f64)| d.abs() <= 2e-15 * size;
        self.x.is_one(product.x, part.x) && self.d.iter().zip(sizes).all(small)
    }
}
