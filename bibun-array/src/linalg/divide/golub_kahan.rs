//! Singular vectors of small bidiagonal matrices.
//!
//! Source: the implicit method of G. Golub and W. Kahan, "Calculating the singular values and pseudo-inverse of a matrix"
//! (1965), with the shift of G. Golub and C. Reinsch, "Singular value decomposition and least squares solutions" (1970).

use pulp::NullaryFnOnce;

use super::ql::norm;
use crate::linalg::batch::Large;
use crate::linalg::numbers::Numbers;

/// More rotations of the whole than any singular value needs.
const TURNS: usize = 60;

/// Makes an upper bidiagonal matrix diagonal. `left` and `right`, identities at first, become the singular vectors, each in
/// a row; the elements beside the diagonal, of which the last counts for nothing, are lost. Values that are not found are
/// NaN.
pub(super) struct GolubKahan<'a, T> {
    pub(super) diagonal: &'a mut [T],
    pub(super) beside: &'a mut [T],
    pub(super) left: &'a mut [T],
    pub(super) right: &'a mut [T],
}

/// Neighbouring rows and columns, perhaps from the last to the first: then what is left and what is right change places,
/// for it is the transpose that is upper bidiagonal.
struct Block<'a, T> {
    first: usize,
    last: usize,
    backwards: bool,
    diagonal: &'a mut [T],
    beside: &'a mut [T],
    left: &'a mut [T],
    right: &'a mut [T],
}

impl<T: Large> NullaryFnOnce for GolubKahan<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self {
            diagonal,
            beside,
            left,
            right,
        } = self;
        let (zero, n) = (T::of(0.0), diagonal.len());
        let half = T::of(0.5) * T::epsilon();
        let mut largest = zero;
        for &x in diagonal.iter().chain(&beside[..n - 1]) {
            largest = Numbers::max(largest, Numbers::abs(x));
        }
        if largest == zero {
            return;
        }
        let unit = Numbers::max(largest.binade(), T::least() * T::epsilon());
        diagonal.iter_mut().for_each(|x| *x /= unit);
        beside.iter_mut().for_each(|x| *x /= unit);
        let least = half * largest / unit;
        let mut last = n - 1;
        for _ in 0..TURNS * n {
            let is_apart = |i: usize, diagonal: &[T], beside: &[T]| {
                let sizes = Numbers::abs(diagonal[i]) + Numbers::abs(diagonal[i + 1]);
                Numbers::abs(beside[i]) <= half * sizes + T::epsilon() * least
            };
            while last > 0 && is_apart(last - 1, diagonal, beside) {
                last -= 1;
            }
            if last == 0 {
                break;
            }
            let mut first = last - 1;
            while first > 0 && !is_apart(first - 1, diagonal, beside) {
                first -= 1;
            }
            let nothing = (first..=last)
                .rev()
                .find(|&i| Numbers::abs(diagonal[i]) <= least);
            let large = Numbers::abs(diagonal[first]) < Numbers::abs(diagonal[last]);
            let (first, end, backwards) = match nothing {
                Some(i) if i == last => (first, last, false),
                Some(i) => (i, last, true),
                None => (first, last, large),
            };
            let mut block = Block {
                first,
                last: end,
                backwards,
                diagonal: &mut *diagonal,
                beside: &mut *beside,
                left: &mut *left,
                right: &mut *right,
            };
            match nothing {
                Some(_) => block.clear(),
                None => block.turn(),
            }
        }
        if last > 0 {
            diagonal.fill(T::of(f64::NAN));
        }
        for (x, row) in diagonal.iter_mut().zip(right.chunks_exact_mut(n)) {
            if *x < zero {
                *x = -*x;
                row.iter_mut().for_each(|x| *x = -*x);
            }
            *x = *x * unit;
        }
    }
}

impl<T: Large> Block<'_, T> {
    #[inline(always)]
    fn diagonal(&mut self, i: usize) -> &mut T {
        match self.backwards {
            true => &mut self.diagonal[self.first + self.last - i],
            false => &mut self.diagonal[i],
        }
    }

    /// The element between two of the diagonal.
    #[inline(always)]
    fn beside(&mut self, i: usize) -> &mut T {
        match self.backwards {
            true => &mut self.beside[self.first + self.last - 1 - i],
            false => &mut self.beside[i],
        }
    }

    /// Rotates two vectors, the first of which comes before the second.
    #[inline(always)]
    fn rotate(&mut self, is_left: bool, [i, j]: [usize; 2], [cosine, sine]: [T; 2]) {
        let n = self.diagonal.len();
        let rows = match is_left != self.backwards {
            true => &mut *self.left,
            false => &mut *self.right,
        };
        let (i, j, sine) = match self.backwards {
            true => (
                self.first + self.last - j,
                self.first + self.last - i,
                -sine,
            ),
            false => (i, j, sine),
        };
        let (upper, lower) = rows.split_at_mut(j * n);
        for (x, y) in upper[i * n..][..n].iter_mut().zip(&mut lower[..n]) {
            (*x, *y) = (cosine * *x + sine * *y, cosine * *y - sine * *x);
        }
    }

    /// Clears the last column, whose element on the diagonal is nothing.
    #[inline(always)]
    fn clear(&mut self) {
        let (first, last, zero) = (self.first, self.last, T::of(0.0));
        *self.diagonal(last) = zero;
        let mut rest = *self.beside(last - 1);
        *self.beside(last - 1) = zero;
        for i in (first..last).rev() {
            if rest == zero {
                break;
            }
            let own = *self.diagonal(i);
            let length = norm(own, rest);
            if length == zero {
                break;
            }
            let [cosine, sine] = [own / length, rest / length];
            *self.diagonal(i) = length;
            self.rotate(false, [i, last], [cosine, sine]);
            if i > first {
                let beside = self.beside(i - 1);
                rest = -sine * *beside;
                *beside = cosine * *beside;
            }
        }
    }

    /// Rotates once from both sides, with a shift near the smallest singular value.
    #[inline(always)]
    fn turn(&mut self) {
        let (first, last, one) = (self.first, self.last, T::of(1.0));
        let mut head = *self.diagonal(first);
        let corner = [last - 1, last].map(|i| Numbers::abs(*self.diagonal(i)));
        let shift = smaller(corner, Numbers::abs(*self.beside(last - 1)));
        let ratio = shift / head;
        // A shift that rounding hides leaves the first rotation without meaning.
        let mut bulge = match ratio * ratio < T::epsilon() {
            true => head,
            false => (Numbers::abs(head) - shift) * (head.sign() + ratio),
        };
        let [mut cosine, mut sine] = [one, one];
        for i in first..last {
            let (side, next) = (*self.beside(i), *self.diagonal(i + 1));
            let (above, own) = (sine * side, cosine * side);
            [cosine, sine] = {
                let length = norm(bulge, above);
                if i > first {
                    *self.beside(i - 1) = length;
                }
                direction(bulge, above, length)
            };
            self.rotate(false, [i, i + 1], [cosine, sine]);
            let turned = head * cosine + own * sine;
            let own = own * cosine - head * sine;
            let below = next * sine;
            let next = next * cosine;
            let length = norm(turned, below);
            *self.diagonal(i) = length;
            [cosine, sine] = direction(turned, below, length);
            self.rotate(true, [i, i + 1], [cosine, sine]);
            bulge = cosine * own + sine * next;
            head = cosine * next - sine * own;
        }
        *self.beside(last - 1) = bulge;
        *self.diagonal(last) = head;
    }
}

/// The smaller singular value of an upper triangle of order two (LAPACK's `las2`).
#[inline(always)]
fn smaller<T: Large>([a, b]: [T; 2], beside: T) -> T {
    let (zero, one) = (T::of(0.0), T::of(1.0));
    let (low, high) = match a < b {
        true => (a, b),
        false => (b, a),
    };
    if low == zero {
        return zero;
    }
    let (sum, difference) = (one + low / high, (high - low) / high);
    if beside < high {
        let square = (beside / high) * (beside / high);
        let roots =
            Numbers::sqrt(sum * sum + square) + Numbers::sqrt(difference * difference + square);
        return low * (T::of(2.0) / roots);
    }
    let ratio = high / beside;
    let root = |x: T| Numbers::sqrt(one + (x * ratio) * (x * ratio));
    T::of(2.0) * ((low / (root(sum) + root(difference))) * ratio)
}

/// The cosine and the sine of a vector.
#[inline(always)]
fn direction<T: Large>(x: T, y: T, length: T) -> [T; 2] {
    match length > T::of(0.0) {
        true => [x / length, y / length],
        false => [T::of(1.0), T::of(0.0)],
    }
}
