//! The patches of images that a window reads, and the images back from them.

use bibun_array::{Array, Index, Shape, Window};

use crate::batch::Batched;
use crate::error::{Error, mismatch, raise};
use crate::examples::Examples;
use crate::function::{Mismatch, Spec};
use crate::functions::Padding;
use crate::functions::convolution::conv::expect_positive;
use crate::functions::families::{Linear, LinearRule};
use crate::functions::per_axis::window_setters;
use crate::variable::Variable;

/// Options of [`unfold`] and [`fold`].
///
/// ```
/// use bibun::functions::UnfoldOptions;
/// assert_eq!(UnfoldOptions::new().stride(2).dilation, [1, 1]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnfoldOptions {
    /// The distance between neighbouring positions of the window. Defaults to 1.
    pub stride: [usize; 2],
    /// The padding of the image with zeros. Defaults to none.
    pub padding: Padding<2>,
    /// The distance between the elements of a window. Defaults to 1.
    pub dilation: [usize; 2],
}

impl Default for UnfoldOptions {
    fn default() -> Self {
        Self {
            stride: [1, 1],
            padding: Padding::Valid,
            dilation: [1, 1],
        }
    }
}

impl UnfoldOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    window_setters!(2, stride: "Defaults to 1.", padding: "Defaults to none.");
}

impl From<&Self> for UnfoldOptions {
    fn from(options: &Self) -> Self {
        *options
    }
}

/// Returns the patches of images that a window of size `kernel` reads (im2col): one column for each
/// position, with the elements of each channel one after another.
///
/// Shapes: x `[n, c, h, w]` → `[n, c·kh·kw, ph·pw]` with `ph`, `pw` positions along the axes, as many
/// as a [`conv2d`](crate::functions::conv2d) has. Types: all.
/// Gradient: [`fold`] of gy.
///
/// # Panics
/// Panics if x does not have four axes, the window does not fit, or a size of it, a stride or a
/// dilation is 0.
///
/// ```
/// use bibun::{functions::{unfold, UnfoldOptions}, Variable};
/// let x = Variable::new([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]).reshape([1, 1, 2, 3]);
/// let y = unfold(&x, [2, 2], UnfoldOptions::new());
/// assert_eq!(y.shape(), [1, 4, 2]);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 5.0, 6.0]);
/// ```
#[track_caller]
pub fn unfold(
    x: impl Into<Variable>,
    kernel: [usize; 2],
    options: impl Into<UnfoldOptions>,
) -> Variable {
    let x = x.into();
    let Some([_, _, h, w]) = x.shape().dims() else {
        let x = [("x [n, c, h, w]", &x.spec())];
        mismatch("unfold", &x, "x must have four axes")
    };
    let patches = Patches::new("unfold", [h, w], kernel, options.into());
    Linear::of(Unfold(patches), x)
}

/// Adds each patch to an image of a size at the position of its window (col2im): the transpose of
/// [`unfold`].
///
/// Shapes: x `[n, c·kh·kw, ph·pw]` → `[n, c, h, w]` with `[h, w] = size`. Types: floats and integers.
/// Gradient: [`unfold`] of gy.
///
/// # Panics
/// Panics where [`unfold`] does, or if x does not have the shape of its result for images of this size.
///
/// ```
/// use bibun::{functions::{fold, unfold, UnfoldOptions}, Variable};
/// let x = Variable::new([1.0, 1.0, 1.0]).reshape([1, 1, 1, 3]);
/// let options = UnfoldOptions::new();
/// let y = fold(unfold(&x, [1, 2], options), [1, 3], [1, 2], options);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 2.0, 1.0]);
/// ```
#[track_caller]
pub fn fold(
    x: impl Into<Variable>,
    size: [usize; 2],
    kernel: [usize; 2],
    options: impl Into<UnfoldOptions>,
) -> Variable {
    let x = x.into();
    let patches = Patches::new("fold", size, kernel, options.into());
    Linear::of(Fold(patches), x)
}

/// The positions of the patches of images.
#[derive(Clone, Debug)]
struct Patches {
    size: [usize; 2],
    windows: [Window; 2],
    positions: [usize; 2],
}

impl Patches {
    #[track_caller]
    fn new(
        function: &'static str,
        size: [usize; 2],
        kernel: [usize; 2],
        options: UnfoldOptions,
    ) -> Self {
        let UnfoldOptions {
            stride,
            padding,
            dilation,
        } = options;
        let settings: [(&str, &[usize]); 3] = [
            ("kernel", &kernel),
            ("stride", &stride),
            ("dilation", &dilation),
        ];
        expect_positive(function, &settings);
        let windows = [0, 1].map(|axis| {
            padding.window(axis, size[axis], kernel[axis], stride[axis], dilation[axis])
        });
        let [Some(rows), Some(columns)] = [0, 1].map(|i| windows[i].positions(size[i])) else {
            let reach = windows.map(|window| window.extent());
            let padded = [0, 1].map(|i| windows[i].padded(size[i]));
            let what = format!(
                "a window that reaches over {reach:?} elements does not fit into images of \
                 {size:?}, {padded:?} with padding"
            );
            raise(Error::argument(function, what))
        };
        let padded = Shape::from([0, 1].map(|i| windows[i].padded(size[i])));
        let _ = padded.addressable(function);
        Self {
            size,
            windows,
            positions: [rows, columns],
        }
    }

    fn stencil(&self) -> usize {
        self.windows[0]
            .kernel
            .saturating_mul(self.windows[1].kernel)
    }

    fn count(&self) -> usize {
        self.positions[0].saturating_mul(self.positions[1])
    }

    /// Returns zeros for images with their padding.
    fn padded(&self, n: usize, channels: usize, like: &Array) -> Array {
        let [h, w] = [0, 1].map(|i| self.windows[i].padded(self.size[i]));
        Array::zeros([n, channels, h, w], like.dtype())
    }

    /// Returns the index of the images between their padding.
    fn inner(&self) -> [Index; 4] {
        let [rows, columns] = [0, 1].map(|i| {
            let start = self.windows[i].padding[0];
            Index::from(start..start + self.size[i])
        });
        [Index::ALL, Index::ALL, rows, columns]
    }

    /// Returns, for each element of the window, the index of the padded images that it reads at all
    /// positions.
    fn seen(&self) -> impl Iterator<Item = [Index; 4]> {
        let along = |axis: usize, tap: usize| {
            let window = self.windows[axis];
            let start = tap * window.dilation;
            let end = start + (self.positions[axis] - 1) * window.stride + 1;
            Index::from(start..end).step_by(window.stride as isize)
        };
        let [rows, columns] = self.windows.map(|window| window.kernel);
        (0..rows).flat_map(move |i| {
            (0..columns).map(move |j| [Index::ALL, Index::ALL, along(0, i), along(1, j)])
        })
    }
}

#[derive(Clone, Debug)]
struct Unfold(Patches);

impl LinearRule for Unfold {
    fn name(&self) -> &'static str {
        "unfold"
    }

    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        let fit = (x.shape.dims()).filter(|&[_, _, h, w]: &[usize; 4]| [h, w] == self.0.size);
        let Some([n, c, _, _]) = fit else {
            let must_hold = format!("h and w must be {:?}", self.0.size);
            return Err(Mismatch::new(&[("x [n, c, h, w]", x)], must_hold));
        };
        let depth = c.saturating_mul(self.0.stencil());
        Ok(Spec::new([n, depth, self.0.count()], x.dtype))
    }

    fn takes_complex(&self) -> bool {
        false
    }

    fn forward(&self, x: Array) -> Array {
        let patches = &self.0;
        let [n, c, ..] = x.shape().dims::<4>().expect("checked by the shape rule");
        let mut padded = patches.padded(n, c, &x);
        padded.assign(&patches.inner(), &x);
        // All memory is allocated before the first patch is made.
        let [rows, columns] = patches.positions;
        let mut y = Array::zeros([n, c, patches.stencil(), rows, columns], x.dtype());
        for (tap, part) in patches.seen().enumerate() {
            let one = [Index::ALL, Index::ALL, Index::from(tap)];
            y.assign(&one, &padded.slice(&part));
        }
        y.reshape([n, c * patches.stencil(), patches.count()])
    }

    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        Linear::of(Fold(self.0.clone()), gy)
    }

    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let [y] = Batched::as_examples(Linear(self.clone()), [Batched::along(x, axis)]);
        y
    }

    fn examples(&self, _: &Spec, y: &Examples) -> Option<Examples> {
        (y.axis() == 0).then(|| y.clone())
    }
}

#[derive(Clone, Debug)]
struct Fold(Patches);

impl LinearRule for Fold {
    fn name(&self) -> &'static str {
        "fold"
    }

    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        let (stencil, count) = (self.0.stencil(), self.0.count());
        let fit = x
            .shape
            .dims()
            .filter(|&[_, d, p]| d % stencil == 0 && p == count);
        let Some([n, depth, _]) = fit else {
            let must_hold = format!(
                "there must be {stencil} elements for each channel and {count} positions, {:?}",
                self.0.positions
            );
            return Err(Mismatch::new(&[("x [n, c·kh·kw, ph·pw]", x)], must_hold));
        };
        let [h, w] = self.0.size;
        Ok(Spec::new([n, depth / stencil, h, w], x.dtype))
    }

    fn takes_complex(&self) -> bool {
        false
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn forward(&self, x: Array) -> Array {
        let patches = &self.0;
        let [n, depth, _] = x.shape().dims::<3>().expect("checked by the shape rule");
        let (stencil, [rows, columns]) = (patches.stencil(), patches.positions);
        let mut padded = patches.padded(n, depth / stencil, &x);
        let x = x.reshape([n, depth / stencil, stencil, rows, columns]);
        for (tap, part) in patches.seen().enumerate() {
            let one = x.slice(&[Index::ALL, Index::ALL, Index::from(tap)]);
            let sum = padded.slice(&part) + one;
            padded.assign(&part, &sum);
        }
        padded.slice(&patches.inner())
    }

    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        Linear::of(Unfold(self.0.clone()), gy)
    }

    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let [y] = Batched::as_examples(Linear(self.clone()), [Batched::along(x, axis)]);
        y
    }

    fn examples(&self, _: &Spec, y: &Examples) -> Option<Examples> {
        (y.axis() == 0).then(|| y.clone())
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    let options = UnfoldOptions {
        stride: [2, 1],
        padding: Padding::Pairs([(1, 0), (1, 2)]),
        dilation: [1, 2],
    };
    // Calls `each` with the places in images [2, 2, 4, 3] and in patches [2, 2·6, 2·2] that are one.
    fn meetings(mut each: impl FnMut(usize, usize)) {
        for image in 0..4 {
            for (k, l) in (0..3).flat_map(|k| (0..2).map(move |l| (k, l))) {
                for (i, j) in (0..2).flat_map(|i| (0..4).map(move |j| (i, j))) {
                    let (row, column) = (2 * i + k, j + 2 * l);
                    if (1..5).contains(&row) && (1..4).contains(&column) {
                        let patch = (image * 6 + k * 2 + l) * 8 + i * 4 + j;
                        each(image * 12 + (row - 1) * 3 + column - 1, patch);
                    }
                }
            }
        }
    }
    vec![
        Sample::new(
            "unfold",
            move |x| vec![unfold(&x[0], [3, 2], options)],
            |x| {
                let (x, mut y) = (x[0].to_vec::<f64>(), vec![0.0; 2 * 12 * 8]);
                meetings(|i, j| y[j] = x[i]);
                vec![Array::from_vec(y, [2, 12, 8])]
            },
        )
        .input([2, 2, 4, 3], -2.0..2.0),
        Sample::new(
            "fold",
            move |x| vec![fold(&x[0], [4, 3], [3, 2], options)],
            |x| {
                let (x, mut y) = (x[0].to_vec::<f64>(), vec![0.0; 2 * 2 * 12]);
                meetings(|i, j| y[i] += x[j]);
                vec![Array::from_vec(y, [2, 2, 4, 3])]
            },
        )
        .input([2, 12, 8], -2.0..2.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    #[test]
    fn mistakes_are_named() {
        let x = Variable::new([1.0, 2.0]).reshape([1, 1, 1, 2]);
        let options = UnfoldOptions::new();
        let message = |kernel, options| {
            attempt(|| unfold(&x, kernel, options))
                .unwrap_err()
                .to_string()
        };
        assert!(message([2, 2], options).contains("[2, 2] elements does not fit"));
        let still = UnfoldOptions {
            stride: [0, 1],
            ..options
        };
        assert!(message([1, 1], still).contains("stride is [0, 1]"));
        let message = attempt(|| fold(&x, [1, 2], [1, 1], options))
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("x [n, c·kh·kw, ph·pw] = [1, 1, 1, 2] f64"),
            "{message}"
        );
    }
}
