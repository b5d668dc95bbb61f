//! Max pooling with windows of random positions, and its inverse.

use bibun_array::{Array, DType, Generator, Shape};

use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::functions::pooling::window::last_sizes;
use crate::functions::{
    broadcast_to, cast, expand_dims, floor, gather, in_accumulator, max, maximum, random_uniform,
    reshape, scatter_add, split, to_float, to_indices, where_,
};
use crate::variable::Variable;

/// Computes the maxima of windows of the sizes `kernel`, as many as `size` along each of the last axes,
/// whose distances are random: two neighbouring whole numbers, of which the mean is any number (B.
/// Graham, Fractional max-pooling, 2014). Each channel of each example has its own positions.
///
/// Shapes: x `[.., h, w]` → `[.., size]`, over one, two or more axes.
/// Types: floats; integers give f64.
/// Gradient: `gy` of each window to its maximum; equal maxima share it.
///
/// # Panics
/// Panics if `kernel` and `size` do not have one number for each of the same axes, x has too few axes, or more windows
/// than positions: `size + kernel - 1` must not exceed the size of x; or if a size of the kernel is 0.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::{functions::fractional_max_pool, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0, 4.0, 5.0]);
/// let y = fractional_max_pool(&x, [2], [3], &mut Generator::new(0)).to_vec::<f64>();
/// assert!(y[0] == 2.0 && (y[1] == 3.0 || y[1] == 4.0) && y[2] == 5.0);
/// ```
#[track_caller]
pub fn fractional_max_pool(
    x: impl Into<Variable>,
    kernel: impl Into<Shape>,
    size: impl Into<Shape>,
    generator: &mut Generator,
) -> Variable {
    let function = "fractional_max_pool";
    let _whole = composite(function);
    let (x, kernel, size) = (to_float(x.into()), kernel.into(), size.into());
    let axes = size.rank();
    if kernel.rank() != axes {
        let what = format!("kernel = {kernel} and size = {size} must have the same number of axes");
        raise(Error::argument(function, what));
    }
    let sizes = last_sizes(function, &x, axes);
    if kernel.contains(&0) {
        raise(Error::argument(
            function,
            format!("kernel = {kernel} must be positive"),
        ));
    }
    for axis in 0..axes {
        if size[axis] > 0 && size[axis].saturating_add(kernel[axis] - 1) > sizes[axis] {
            let must_hold = format!("there is no room for {size} windows of {kernel} elements");
            mismatch(function, &[("x", &x.spec())], must_hold)
        }
    }
    let front = x.rank() - axes;
    let shape = x.shape();
    let shape: Shape = shape.iter().take(front).copied().chain([axes]).collect();
    let starts = random_uniform(shape, 0.0, 1.0, DType::F64, generator).to(x.device());
    maxima(x, &kernel, &size, &starts)
}

/// Computes the maxima of windows whose positions along axis `a` follow from numbers between 0 and 1, the
/// elements `a` of `starts`, `[.., axes]`.
#[track_caller]
fn maxima(mut x: Variable, kernel: &[usize], size: &[usize], starts: &Variable) -> Variable {
    let device = x.device();
    let axes = size.len();
    let front = x.rank() - axes;
    for (axis, start) in split(starts, axes, -1).into_iter().enumerate() {
        let (kernel, size, shape) = (kernel[axis], size[axis], x.shape());
        let room = shape[front + axis].saturating_sub(kernel);
        let distance = room as f64 / size.saturating_sub(1).max(1) as f64;
        let ramp = |size: usize| {
            let ramp = Array::arange(0, size as i64).cast(DType::F64);
            Variable::constant(ramp).to(device)
        };
        let windows = ramp(size);
        let begin = floor((&windows + &start) * distance) - floor(start * distance);
        let begin = where_(windows.equal(size as f64 - 1.0), room as f64, begin);
        // The elements of each window, one behind the other.
        let places = expand_dims(begin, -1) + ramp(kernel);
        let mut own: Vec<usize> = shape.to_vec();
        own[front..].fill(1);
        own[front + axis] = size * kernel;
        let places = reshape(cast(places, DType::I64), &own[..]);
        let all = shape.replaced(front + axis, size * kernel);
        x = gather(x, broadcast_to(places, all), (front + axis) as isize);
    }
    let shape = x.shape();
    let parts = size
        .iter()
        .zip(kernel)
        .flat_map(|(&size, &kernel)| [size, kernel]);
    let parted: Shape = shape.iter().take(front).copied().chain(parts).collect();
    let within: Vec<isize> = (0..axes)
        .map(|axis| (front + 2 * axis + 1) as isize)
        .collect();
    max(reshape(x, parted), &within[..])
}

/// Puts maxima back to the positions that
/// [`max_pool_with_indices`](crate::functions::max_pool_with_indices) found them at, among zeros. Several
/// elements with one position, which windows that overlap have, give their mean.
///
/// Shapes: x, positions of one shape `[.., h, w]` → `[.., size]`, over one, two or more axes.
/// Types: x floats; integers give f64; positions integers.
/// Gradient: `gy` at its position to each element of x, divided by the number of elements there.
/// Source: M. D. Zeiler and R. Fergus, Visualizing and understanding convolutional networks, 2014.
///
/// # Panics
/// Panics if the shapes differ, x has too few axes, or a position is outside of `size`.
///
/// ```
/// use bibun::{functions::{max_pool_with_indices, max_unpool}, Variable};
/// let x = Variable::new([[1.0, 2.0, 0.0, 3.0], [5.0, 0.0, 1.0, 2.0]]);
/// let (y, positions) = max_pool_with_indices(&x, [2, 2]);
/// let back = max_unpool(&y, &positions, [2, 4]).to_vec::<f64>();
/// assert_eq!(back, [0.0, 0.0, 0.0, 3.0, 5.0, 0.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn max_unpool(
    x: impl Into<Variable>,
    positions: impl Into<Variable>,
    size: impl Into<Shape>,
) -> Variable {
    let function = "max_unpool";
    let _whole = composite(function);
    let (x, positions, size) = (to_float(x.into()), to_indices(positions), size.into());
    let (x_spec, spec) = (x.spec(), positions.spec());
    if x_spec.shape != spec.shape || spec.dtype != DType::I64 {
        let inputs = [("x", &x_spec), ("positions", &spec)];
        mismatch(
            function,
            &inputs,
            "shapes must be equal, positions integers",
        )
    }
    let windows: usize = last_sizes(function, &x, size.rank()).iter().product();
    let front = || {
        let count = x_spec.shape.rank() - size.rank();
        x_spec.shape.iter().take(count).copied()
    };
    let flat: Shape = front().chain([windows]).collect();
    let all: Shape = front().chain(size.iter().copied()).collect();
    let all = all.addressable(function);
    let plane: Shape = front().chain([size.iter().product()]).collect();
    in_accumulator(x, |x| {
        let nothing = Variable::constant(Array::zeros(&plane, x.dtype()));
        let positions = reshape(positions, &flat);
        let found = scatter_add(&nothing, &positions, -1, reshape(x, &flat));
        let count = scatter_add(nothing, positions, -1, 1.0);
        reshape(found / maximum(count, 1.0), all)
    })
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    // Each of the two rows has its own windows; the stream starts anew with every call.
    let fractional = Sample::new(
        "fractional_max_pool",
        |x| {
            vec![fractional_max_pool(
                &x[0],
                [2, 1],
                [3, 2],
                &mut Generator::new(5),
            )]
        },
        |x| {
            let starts = Generator::new(5)
                .uniform([2, 2], 0.0, 1.0, DType::F64)
                .to_vec::<f64>();
            let mut y = Vec::new();
            for block in 0..2 {
                let begin = |axis: usize, i: usize, room: f64, size: usize| {
                    let (start, distance) = (starts[block * 2 + axis], room / (size as f64 - 1.0));
                    let begin =
                        ((i as f64 + start) * distance).floor() - (start * distance).floor();
                    if i == size - 1 {
                        room as usize
                    } else {
                        begin as usize
                    }
                };
                for (i, j) in (0..6).map(|i| (i / 2, i % 2)) {
                    let (row, column) = (begin(0, i, 4.0, 3), begin(1, j, 3.0, 2));
                    let at = |row: usize| x[0].element(&[block, row, column]).to_f64();
                    y.push(at(row).max(at(row + 1)));
                }
            }
            vec![Array::from_vec(y, [2, 3, 2])]
        },
    );
    let positions = Variable::constant([[[0i64, 5], [5, 2]], [[1, 0], [4, 3]]]);
    let back = Sample::new(
        "max_unpool",
        move |x| vec![max_unpool(&x[0], beside(x, &positions), [2, 3])],
        |x| {
            let x = x[0].to_vec::<f64>();
            let mean = (x[1] + x[2]) / 2.0;
            let y = vec![
                x[0], 0.0, x[3], 0.0, 0.0, mean, x[5], x[4], 0.0, x[7], x[6], 0.0,
            ];
            vec![Array::from_vec(y, [2, 2, 3])]
        },
    );
    vec![
        fractional.input([2, 6, 4], -2.0..2.0),
        back.input([2, 2, 2], -2.0..2.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    /// The numbers are PyTorch's, whose random numbers are for the last axis first.
    #[test]
    fn fractions_as_in_pytorch() {
        let values = (0..126)
            .map(|i| ((i * 37 % 101) as f64 - 50.5) / 25.0)
            .collect();
        let x = Variable::new(Array::from_vec(values, [1, 2, 7, 9]));
        let starts = Variable::constant([[[0.25, 0.9], [0.6, 0.1]]]);
        let y = maxima(x, &[2, 3], &[4, 5], &starts);
        let expected = [
            0.94, 0.94, 1.34, 1.34, 1.74, 1.86, 1.98, 1.98, 1.18, 1.3, 1.7, 1.98, 1.98, 0.9, 1.3,
            1.42, 1.54, 1.82, 1.94, 1.94, 1.26, 1.26, 1.66, 1.66, 1.78, 0.98, 1.1, 1.38, 1.5, 1.78,
            1.9, 0.82, 1.22, 1.22, 1.62, 1.74, 1.86, 1.86, 1.06, 1.18,
        ];
        assert_eq!(y.to_vec::<f64>(), expected);
    }

    #[test]
    fn mistakes_are_named() {
        let x = Variable::new([[1.0, 2.0, 3.0]]);
        let generator = &mut Generator::new(0);
        let error = attempt(|| fractional_max_pool(&x, [2], [3], generator)).unwrap_err();
        assert!(
            error.to_string().contains("no room for [3] windows of [2]"),
            "{error}"
        );
        let error = attempt(|| max_unpool(&x, [[0i64, 1]], [4])).unwrap_err();
        assert!(
            error.to_string().contains("positions = [1, 2] i64"),
            "{error}"
        );
        assert!(attempt(|| max_unpool(&x, [[0i64, 1, 4]], [4])).is_err());
    }

    /// Axes may be as many as are known at run time.
    #[test]
    fn axes_are_as_many_as_sizes() {
        let x = Variable::new([[1.0, 3.0, 2.0], [4.0, 0.0, 5.0]]);
        for (axes, expected) in [(1, &[3.0, 5.0][..]), (2, &[5.0])] {
            let kernel = [2, 3][2 - axes..].to_vec();
            let y = fractional_max_pool(&x, kernel, vec![1; axes], &mut Generator::new(0));
            assert_eq!(y.to_vec::<f64>(), expected);
        }
        let (y, positions) = crate::functions::max_pool_with_indices(&x, vec![2, 3]);
        let back = max_unpool(y, positions, vec![2, 3]).to_vec::<f64>();
        assert_eq!(back, [0.0, 0.0, 0.0, 0.0, 0.0, 5.0]);
        let generator = &mut Generator::new(0);
        let error = attempt(|| fractional_max_pool(&x, [2], [1, 1], generator)).unwrap_err();
        let must = "kernel = [2] and size = [1, 1] must have the same number of axes";
        assert!(error.to_string().contains(must), "{error}");
    }

    #[test]
    fn windows_may_be_one_or_none() {
        let x = Variable::new([[1.0, 3.0, 2.0]]);
        let y = fractional_max_pool(&x, [2], [1], &mut Generator::new(0));
        assert_eq!(y.to_vec::<f64>(), [3.0]);
        let y = fractional_max_pool(&x, [2], [0], &mut Generator::new(0));
        assert_eq!(y.shape(), [1, 0]);
    }
}
