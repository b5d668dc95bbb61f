//! Chainer's own function tests as data: values, gradients, tangents and second derivatives of its
//! functions for given inputs. The data lies beside the project; where it is absent the test says
//! so and passes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bibun::array::{Array, Axes, DType, Index, Shape, keep_dims};
use bibun::functions as f;
use bibun::{GradOptions, Variable, gradients_with, jvp};
use serde_json::Value;

/// Relative to the largest element of what is compared.
const TOLERANCE: f64 = 1e-6;

struct Cases {
    floats: Vec<f64>,
    integers: Vec<i64>,
    bools: Vec<bool>,
    cases: Vec<Value>,
}

impl Cases {
    fn read(folder: &Path) -> Self {
        let index = std::fs::read_to_string(folder.join("chainer.index.json")).expect("the index");
        let index: Value = serde_json::from_str(&index).expect("JSON");
        let bytes = std::fs::read(folder.join("chainer.safetensors")).expect("the tensors");
        let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
        let data = |dtype| {
            let (_, tensor) = tensors
                .iter()
                .find(|(_, tensor)| tensor.dtype() == dtype)
                .expect("the tensor");
            tensor.data()
        };
        let words = |dtype| {
            data(dtype)
                .chunks_exact(8)
                .map(|word| word.try_into().expect("eight"))
        };
        Self {
            floats: words(safetensors::Dtype::F64)
                .map(f64::from_le_bytes)
                .collect(),
            integers: words(safetensors::Dtype::I64)
                .map(i64::from_le_bytes)
                .collect(),
            bools: data(safetensors::Dtype::U8)
                .iter()
                .map(|&byte| byte != 0)
                .collect(),
            cases: index["cases"].as_array().expect("cases").clone(),
        }
    }

    /// An array named as `[kind, offset, shape]`.
    fn array(&self, name: &Value) -> Array {
        let shape: Shape = name[2]
            .as_array()
            .expect("a shape")
            .iter()
            .map(size)
            .collect();
        let range = size(&name[1])..size(&name[1]) + shape.size();
        match name[0].as_str() {
            Some("f") => Array::from_slice(&self.floats[range], shape),
            Some("i") => Array::from_slice(&self.integers[range], shape),
            _ => Array::from_slice(&self.bools[range], shape),
        }
    }

    fn arrays(&self, names: &Value) -> Vec<Array> {
        names
            .as_array()
            .expect("arrays")
            .iter()
            .map(|name| self.array(name))
            .collect()
    }
}

fn size(value: &Value) -> usize {
    value.as_u64().expect("a size") as usize
}

/// The arguments of one call, positional and by name.
struct Call<'a> {
    cases: &'a Cases,
    inputs: &'a [Variable],
    list: Vec<Value>,
    named: Value,
}

impl Call<'_> {
    fn value(&self, position: usize, name: &str) -> &Value {
        self.list.get(position).unwrap_or(&self.named[name])
    }

    fn variable(&self, value: &Value) -> Option<Variable> {
        if let Some(i) = value["in"].as_u64() {
            return Some(self.inputs[i as usize].clone());
        }
        value["a"]
            .is_array()
            .then(|| Variable::constant(self.cases.array(&value["a"])))
    }

    fn x(&self, position: usize) -> Option<Variable> {
        self.variable(self.list.get(position)?)
    }

    fn xs(&self, position: usize) -> Option<Vec<Variable>> {
        let list = self.list.get(position)?["list"].as_array()?;
        list.iter().map(|value| self.variable(value)).collect()
    }

    fn number(&self, position: usize, name: &str, default: f64) -> Option<f64> {
        match self.value(position, name) {
            Value::Null => Some(default),
            Value::Number(x) => x.as_f64(),
            other => Some(self.variable(other)?.item()),
        }
    }

    fn axis(&self, position: usize, name: &str, default: isize) -> Option<isize> {
        Some(self.number(position, name, default as f64)? as isize)
    }

    fn integers(&self, position: usize, name: &str) -> Option<Vec<isize>> {
        integers(self.value(position, name))
    }

    /// `axis` and `keepdims`.
    fn axes(&self, position: usize) -> Option<Axes> {
        let axes = match self.value(position, "axis") {
            Value::Null => Axes::from(..),
            value => Axes::new(&integers(value)?),
        };
        let keep = self
            .list
            .get(position + 1)
            .unwrap_or(&self.named["keepdims"]);
        Some(if keep.as_bool() == Some(true) {
            keep_dims(axes)
        } else {
            axes
        })
    }

    fn flag(&self, name: &str) -> bool {
        self.named[name].as_bool() == Some(true)
    }
}

fn integers(value: &Value) -> Option<Vec<isize>> {
    match value {
        Value::Number(x) => Some(vec![x.as_i64()? as isize]),
        other => {
            let list = other["list"].as_array()?;
            list.iter().map(|x| Some(x.as_i64()? as isize)).collect()
        }
    }
}

/// A basic index: integers and slices only.
fn index(value: &Value) -> Option<Vec<Index>> {
    let parts = match value["list"].as_array() {
        Some(parts) => parts.clone(),
        None => vec![value.clone()],
    };
    if parts.is_empty() {
        return None; // an index by a list of no elements
    }
    let bound = |x: &Value| x.as_i64().map(|x| x as isize);
    parts
        .iter()
        .map(|part| match part {
            Value::Null => Some(Index::NewAxis),
            Value::Number(at) => Some(Index::At(at.as_i64()? as isize)),
            part => {
                let slice = part["slice"].as_array()?;
                let (start, stop) = (bound(&slice[0]), bound(&slice[1]));
                Some(Index::Range {
                    start,
                    stop,
                    step: bound(&slice[2]).unwrap_or(1),
                })
            }
        })
        .collect()
}

/// What is added before and after each axis: one number, one pair, or a pair for each axis.
fn pad_widths(value: &Value, rank: usize) -> Option<Vec<(usize, usize)>> {
    let pair = |value: &Value| match integers(value)?[..] {
        [both] => Some((both as usize, both as usize)),
        [before, after] => Some((before as usize, after as usize)),
        _ => None,
    };
    match integers(value) {
        Some(_) => Some(vec![pair(value)?; rank]),
        None => value["list"].as_array()?.iter().map(pair).collect(),
    }
}

/// Pooling over the last axes, as many as the kernel has numbers or x has behind its channels.
fn pool(name: &str, call: &Call<'_>) -> Option<Variable> {
    let x = call.x(0)?;
    match x.rank() - 2 {
        1 => pool_over::<1>(name, call, x),
        2 => pool_over::<2>(name, call, x),
        3 => pool_over::<3>(name, call, x),
        4 => pool_over::<4>(name, call, x),
        _ => None,
    }
}

fn pool_over<const N: usize>(name: &str, call: &Call<'_>, x: Variable) -> Option<Variable> {
    let sizes = |position, name| -> Option<[usize; N]> {
        let list = call.integers(position, name)?;
        let each = |axis| match list[..] {
            [all] => all as usize,
            _ => list[axis] as usize,
        };
        Some(std::array::from_fn(each))
    };
    let mut pooling = f::Pooling::new(sizes(1, "ksize")?);
    if let Some(stride) = sizes(2, "stride") {
        pooling = pooling.stride(stride);
    }
    if let Some(padding) = sizes(3, "pad") {
        pooling = pooling.padding(padding);
    }
    if name.starts_with("max") {
        let cover_all = call.value(4, "cover_all").as_bool().unwrap_or(true);
        return Some(f::max_pool(x, pooling.ceil_mode(cover_all)));
    }
    // Padding is zeros that count, unless an n-dimensional average is told that it is nothing.
    let counts = call.list.len() <= 4 || !call.list[4].is_null();
    Some(f::avg_pool(x, pooling.count_include_pad(counts)))
}

/// A number for each of `N` axes, from one for all or a list.
fn per_axis<const N: usize>(value: &Value, default: usize) -> Option<[usize; N]> {
    if value.is_null() {
        return Some([default; N]);
    }
    match integers(value)?[..] {
        [all] => Some([all as usize; N]),
        ref list => <[isize; N]>::try_from(list)
            .ok()
            .map(|list| list.map(|size| size as usize)),
    }
}

type Conv<const N: usize> =
    fn(Variable, Variable, Option<&Variable>, f::ConvOptions<N>) -> Variable;

fn convolution<const N: usize>(call: &Call<'_>, conv: Conv<N>) -> Option<Variable> {
    let (x, w) = (call.x(0)?, call.x(1)?);
    let stride: [usize; N] = per_axis(call.value(3, "stride"), 1)?;
    let padding: [usize; N] = per_axis(call.value(4, "pad"), 0)?;
    // To cover everything is to have that many more zeros at the end.
    let more = match call.value(5, "cover_all").as_bool() {
        Some(true) => stride.map(|stride| stride - 1),
        _ => [0; N],
    };
    let options = f::ConvOptions {
        stride,
        padding: f::Padding::Pairs(std::array::from_fn(|i| (padding[i], padding[i] + more[i]))),
        dilation: per_axis(&call.named["dilate"], 1)?,
        groups: call.named["groups"].as_u64().unwrap_or(1) as usize,
    };
    Some(conv(x, w, call.x(2).as_ref(), options))
}

type ConvTranspose<const N: usize> =
    fn(Variable, Variable, Option<&Variable>, f::ConvTransposeOptions<N>) -> Variable;

fn deconvolution<const N: usize>(call: &Call<'_>, conv: ConvTranspose<N>) -> Option<Variable> {
    let (x, w) = (call.x(0)?, call.x(1)?);
    let stride: [usize; N] = per_axis(call.value(3, "stride"), 1)?;
    let padding: [usize; N] = per_axis(call.value(4, "pad"), 0)?;
    let dilation: [usize; N] = per_axis(&call.named["dilate"], 1)?;
    let smallest: [usize; N] = std::array::from_fn(|i| {
        (x.shape()[i + 2] - 1) * stride[i] + (w.shape()[i + 2] - 1) * dilation[i] + 1
            - 2 * padding[i]
    });
    let output_padding = match &call.named["outsize"] {
        Value::Null => [0; N],
        sizes => {
            let sizes: [usize; N] = per_axis(sizes, 0)?;
            std::array::from_fn(|i| sizes[i] - smallest[i])
        }
    };
    let options = f::ConvTransposeOptions {
        stride,
        padding: padding.into(),
        output_padding,
        dilation,
        groups: call.named["groups"].as_u64().unwrap_or(1) as usize,
    };
    Some(conv(x, w, call.x(2).as_ref(), options))
}

/// The call in bibun's functions; `None` where bibun has no such function or option yet.
fn evaluate(name: &str, call: &Call<'_>) -> Option<Vec<Variable>> {
    let x = || call.x(0);
    let one = |y: Variable| Some(vec![y]);
    let references = |xs: &[Variable], g: &dyn Fn(&[&Variable]) -> Variable| {
        one(g(&xs.iter().collect::<Vec<_>>()))
    };
    match name {
        "relu" => one(f::relu(x()?)),
        "relu6" => one(f::relu6(x()?)),
        "clipped_relu" => one(f::clipped_relu(x()?, call.number(1, "z", 20.0)?)),
        "leaky_relu" => one(f::leaky_relu(x()?, call.number(1, "slope", 0.2)?)),
        "elu" => one(f::elu(x()?, call.number(1, "alpha", 1.0)?)),
        "hard_sigmoid" => one(f::clip(0.2 * x()? + 0.5, 0.0, 1.0)),
        "sigmoid" => one(f::sigmoid(x()?)),
        "tanh" => one(f::tanh(x()?)),
        "softplus" => one(f::softplus(x()?, call.number(1, "beta", 1.0)?)),
        "prelu" => one(f::prelu(x()?, call.x(1)?)),
        "crelu" => one(f::crelu(x()?, call.axis(1, "axis", 1)?)),
        "maxout" => one(f::maxout(
            x()?,
            call.axis(1, "pool_size", 0)? as usize,
            call.axis(2, "axis", 1)?,
        )),
        "tile" => {
            let repeats = call.integers(1, "reps")?;
            one(f::tile(
                x()?,
                &repeats.iter().map(|&n| n as usize).collect::<Vec<_>>(),
            ))
        }
        "rollaxis" => one(f::rollaxis(
            x()?,
            call.axis(1, "axis", 0)?,
            call.axis(2, "start", 0)?,
        )),
        "swish" => {
            // Chainer's has one beta for each channel.
            let (x, beta) = (x()?, call.variable(call.value(1, "beta"))?);
            let mut shape = vec![1; x.rank()];
            shape[1..=beta.rank()].copy_from_slice(&beta.shape());
            one(f::swish(x, beta.reshape(&shape[..])))
        }
        "softmax" => one(f::softmax(x()?, call.axis(1, "axis", 1)?)),
        "log_softmax" => one(f::log_softmax(x()?, call.axis(1, "axis", 1)?)),
        "concat" => references(&call.xs(0)?, &|xs| {
            f::concat(xs, call.axis(1, "axis", 1).unwrap_or(1))
        }),
        "hstack" => references(&call.xs(0)?, &|xs| f::hstack(xs)),
        "vstack" => references(&call.xs(0)?, &|xs| f::vstack(xs)),
        "dstack" => references(&call.xs(0)?, &|xs| f::dstack(xs)),
        "expand_dims" => one(f::expand_dims(x()?, call.axis(1, "axis", 0)?)),
        "flatten" => one(f::flatten(x()?)),
        "flip" => one(f::flip(x()?, call.axis(1, "axis", 0)?)),
        "fliplr" => one(f::fliplr(x()?)),
        "flipud" => one(f::flipud(x()?)),
        "get_item" => one(f::slice(x()?, &index(call.value(1, "slices"))?)),
        "moveaxis" => match (
            &call.integers(1, "source")?[..],
            &call.integers(2, "destination")?[..],
        ) {
            (&[from], &[to]) => one(f::moveaxis(x()?, from, to)),
            (from, to) => {
                let x = x()?;
                let rank = x.rank() as isize;
                let normal = |axis: &isize| axis.rem_euclid(rank);
                let (from, to): (Vec<_>, Vec<_>) = (
                    from.iter().map(normal).collect(),
                    to.iter().map(normal).collect(),
                );
                let mut rest = (0..rank).filter(|axis| !from.contains(axis));
                let source = |axis| match to.iter().position(|&to| to == axis) {
                    Some(moved) => from[moved],
                    None => rest.next().expect("an axis that stays"),
                };
                one(f::permute(x, &(0..rank).map(source).collect::<Vec<_>>()))
            }
        },
        "reshape" => {
            let sizes = call.integers(1, "shape")?;
            let x = x()?;
            let known: isize = sizes.iter().filter(|&&size| size >= 0).product();
            let open = x.size() as isize / known.max(1);
            let fill = |size: &isize| {
                if *size < 0 {
                    open as usize
                } else {
                    *size as usize
                }
            };
            one(f::reshape(x, sizes.iter().map(fill).collect::<Shape>()))
        }
        "separate" => Some(f::unstack(x()?, call.axis(1, "axis", 0)?)),
        "split_axis" => {
            let positions = call.integers(1, "indices_or_sections")?;
            let axis = call.axis(2, "axis", 0)?;
            match call.value(1, "indices_or_sections") {
                Value::Number(sections) => {
                    Some(f::split(x()?, size(&Value::Number(sections.clone())), axis))
                }
                _ => {
                    let positions: Vec<usize> = positions.iter().map(|&at| at as usize).collect();
                    Some(f::split_at(x()?, &positions, axis))
                }
            }
        }
        "squeeze" => match call.value(1, "axis") {
            Value::Null => one(f::squeeze(x()?, ..)),
            axes => one(f::squeeze(x()?, Axes::new(&integers(axes)?))),
        },
        "swapaxes" => one(f::swapaxes(
            x()?,
            call.axis(1, "axis1", 0)?,
            call.axis(2, "axis2", 0)?,
        )),
        "transpose" => match call.list.get(1) {
            None | Some(Value::Null) => one(f::transpose(x()?)),
            Some(axes) => one(f::permute(x()?, &integers(axes)?)),
        },
        "where" => one(f::where_(x()?, call.x(1)?, call.x(2)?)),
        "absolute_error" => one(f::absolute_error(x()?, call.x(1)?)),
        "squared_error" | "squared_difference" => one(f::squared_error(x()?, call.x(1)?)),
        "mean_absolute_error" => one(f::mean_absolute_error(x()?, call.x(1)?)),
        "mean_squared_error" => one(f::mean_squared_error(x()?, call.x(1)?)),
        "softmax_cross_entropy" => {
            let plain = call.named["reduce"].as_str() == Some("mean") && call.flag("normalize");
            let options = f::CrossEntropyOptions {
                reduction: f::Reduction::Sum,
                class_weight: call.variable(&call.named["class_weight"]),
                ..Default::default()
            };
            plain.then_some(())?;
            // Chainer's mean is over the examples, whatever their weights.
            let t = call.x(1)?;
            let count = f::maximum(f::sum(t.not_equal(-1), ..), 1);
            one(f::softmax_cross_entropy_with(x()?, &t, &options) / count)
        }
        "cumsum" => match call.value(1, "axis") {
            Value::Null => one(f::cumsum(f::flatten(x()?), 0)),
            _ => one(f::cumsum(x()?, call.axis(1, "axis", 0)?)),
        },
        "cumprod" => match call.value(1, "axis") {
            Value::Null => one(f::cumprod(f::flatten(x()?), 0)),
            _ => one(f::cumprod(x()?, call.axis(1, "axis", 0)?)),
        },
        "exp" => one(f::exp(x()?)),
        "expm1" => one(f::expm1(x()?)),
        "log" => one(f::log(x()?)),
        "log2" => one(f::log2(x()?)),
        "log10" => one(f::log10(x()?)),
        "log1p" => one(f::log1p(x()?)),
        "cosh" => one(f::cosh(x()?)),
        "sinh" => one(f::sinh(x()?)),
        "average" => {
            // The axes stand around the weights here.
            let axes = match call.value(1, "axis") {
                Value::Null => Axes::from(..),
                value => Axes::new(&integers(value)?),
            };
            let axes = match call.value(3, "keepdims").as_bool() {
                Some(true) => keep_dims(axes),
                _ => axes,
            };
            match call.variable(call.value(2, "weights")) {
                Some(weights) => one(f::average(x()?, axes, weights)),
                None => one(f::mean(x()?, axes)),
            }
        }
        "batch_l2_norm_squared" => one(f::batch_l2_norm_squared(x()?)),
        "diagonal" => one(f::diagonal(
            x()?,
            call.axis(1, "offset", 0)?,
            [call.axis(2, "axis1", 0)?, call.axis(3, "axis2", 1)?],
        )),
        "pad" => {
            let x = x()?;
            let plain = call.value(2, "mode").as_str() == Some("constant");
            let value = match &call.named["constant_values"] {
                Value::Null => 0.0,
                value => value.as_f64()?,
            };
            plain.then_some(())?;
            one(f::pad(
                &x,
                &pad_widths(call.value(1, "pad_width"), x.rank())?,
                value,
            ))
        }
        "permutate" => {
            let (axis, order) = (call.axis(2, "axis", 0)?, call.x(1)?);
            let order = match call.flag("inv") {
                true => f::argsort(order, 0),
                false => order,
            };
            one(f::take(x()?, order, axis))
        }
        "average_pooling_2d" | "average_pooling_nd" | "max_pooling_2d" | "max_pooling_nd" => {
            one(pool(name, call)?)
        }
        "tensordot" => {
            let (a, b) = (x()?, call.x(1)?);
            let [of_a, of_b] = match call.value(2, "axes") {
                Value::Number(count) => {
                    let count = count.as_i64()? as isize;
                    [(-count..0).collect(), (0..count).collect::<Vec<_>>()]
                }
                axes => [integers(&axes["list"][0])?, integers(&axes["list"][1])?],
            };
            one(f::tensordot(a, b, &of_a, &of_b))
        }
        "embed_id" => {
            let padding = call.value(2, "ignore_label").as_i64();
            one(f::embedding(x()?, call.x(1)?, padding))
        }
        "layer_normalization" => {
            let (gamma, beta) = (call.x(1), call.x(2));
            let epsilon = call.number(3, "eps", 1e-5)?;
            one(f::layer_normalization(
                x()?,
                -1,
                gamma.as_ref(),
                beta.as_ref(),
                epsilon,
            ))
        }
        "group_normalization" => {
            let (gamma, beta) = (call.x(2), call.x(3));
            let groups = call.axis(1, "groups", 1)? as usize;
            let epsilon = call.number(4, "eps", 1e-5)?;
            one(f::group_normalization(
                x()?,
                groups,
                gamma.as_ref(),
                beta.as_ref(),
                epsilon,
            ))
        }
        "local_response_normalization" => one(f::local_response_normalization(
            x()?,
            call.axis(1, "n", 5)? as usize,
            call.number(2, "k", 2.0)?,
            call.number(3, "alpha", 1e-4)?,
            call.number(4, "beta", 0.75)?,
        )),
        "convolution_2d" => one(convolution(call, |x, w, b, options| {
            f::conv2d(x, w, b, options)
        })?),
        "convolution_nd" => match x()?.rank() {
            3 => one(convolution(call, |x, w, b, options| {
                f::conv1d(x, w, b, options)
            })?),
            4 => one(convolution(call, |x, w, b, options| {
                f::conv2d(x, w, b, options)
            })?),
            _ => one(convolution(call, |x, w, b, options| {
                f::conv3d(x, w, b, options)
            })?),
        },
        "deconvolution_2d" => one(deconvolution(call, |x, w, b, options| {
            f::conv_transpose2d(x, w, b, options)
        })?),
        "deconvolution_nd" => match x()?.rank() {
            3 => one(deconvolution(call, |x, w, b, options| {
                f::conv_transpose1d(x, w, b, options)
            })?),
            4 => one(deconvolution(call, |x, w, b, options| {
                f::conv_transpose2d(x, w, b, options)
            })?),
            _ => one(deconvolution(call, |x, w, b, options| {
                f::conv_transpose3d(x, w, b, options)
            })?),
        },
        "fmod" => one(f::fmod(x()?, call.x(1)?)),
        "maximum" => one(f::maximum(x()?, call.x(1)?)),
        "minimum" => one(f::minimum(x()?, call.x(1)?)),
        "logsumexp" => one(f::logsumexp(x()?, call.axes(1)?)),
        "max" => one(f::max(x()?, call.axes(1)?)),
        "min" => one(f::min(x()?, call.axes(1)?)),
        "prod" => one(f::prod(x()?, call.axes(1)?)),
        "sum" => one(f::sum(x()?, call.axes(1)?)),
        "matmul" => {
            let transposed = |x: Variable, name| match call.flag(name) && x.rank() > 1 {
                true => f::swapaxes(x, -1, -2),
                false => x,
            };
            one(f::matmul(
                transposed(x()?, "transa"),
                transposed(call.x(1)?, "transb"),
            ))
        }
        _ => None,
    }
}

fn close(what: &str, found: &[Variable], expected: &[Array], failures: &mut Vec<String>) {
    if found.len() != expected.len() {
        failures.push(format!(
            "{what}: {} arrays instead of {}",
            found.len(),
            expected.len()
        ));
        return;
    }
    for (found, expected) in found.iter().zip(expected) {
        let (found, expected) = (found.array().cast(DType::F64), expected.cast(DType::F64));
        if found.shape() != expected.shape() {
            failures.push(format!(
                "{what}: {} instead of {}",
                found.shape(),
                expected.shape()
            ));
            continue;
        }
        let (found, expected) = (found.to_vec::<f64>(), expected.to_vec::<f64>());
        let scale = expected
            .iter()
            .fold(1.0, |scale: f64, x| scale.max(x.abs()));
        let error = found
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max);
        if error.is_nan() || error > TOLERANCE * scale {
            failures.push(format!("{what}: off by {error:e} at size {scale:e}"));
        }
    }
}

/// Checks one case; false where bibun lacks the function.
fn check(cases: &Cases, case: &Value, failures: &mut Vec<String>) -> bool {
    let id = case["id"].as_str().expect("an id");
    let inputs: Vec<Variable> = cases
        .arrays(&case["in"])
        .into_iter()
        .map(Variable::new)
        .collect();
    let [name, list, named] = &case["calls"][0].as_array().expect("a call")[..] else {
        panic!("{id}: a call has three parts")
    };
    let run = |inputs: &[Variable]| {
        let list = list["list"].as_array().expect("arguments").clone();
        let call = Call {
            cases,
            inputs,
            list,
            named: named["dict"].clone(),
        };
        evaluate(name.as_str().expect("a name"), &call)
    };
    let Some(outputs) = run(&inputs) else {
        return false;
    };
    close(
        &format!("{id}: value"),
        &outputs,
        &cases.arrays(&case["out"]),
        failures,
    );

    let grad = &case["grad"];
    if grad.is_null() {
        return true;
    }
    let positions: Vec<usize> = (grad["wrt"].as_array().expect("wrt").iter())
        .map(|name| {
            let name = name.as_str().expect("a name");
            name["in[".len()..name.len() - 1]
                .parse()
                .expect("a position")
        })
        .collect();
    let wrt: Vec<&Variable> = positions.iter().map(|&i| &inputs[i]).collect();
    let outputs: Vec<&Variable> = grad["out"]
        .as_array()
        .expect("out")
        .iter()
        .map(|i| &outputs[size(i)])
        .collect();
    let constants = |name: &str| {
        cases
            .arrays(&grad[name])
            .into_iter()
            .map(Variable::constant)
            .collect()
    };
    let cotangents: Vec<Variable> = constants("v");
    let directions: Vec<Variable> = constants("u");
    let filled = |gradients: Vec<Option<Variable>>| -> Vec<Variable> {
        let zeros = |x: &Variable| Variable::constant(Array::zeros(x.shape(), DType::F64));
        gradients
            .into_iter()
            .zip(&wrt)
            .map(|(g, x)| g.unwrap_or_else(|| zeros(x)))
            .collect()
    };
    let options = GradOptions {
        cotangents,
        create_graph: true,
        ..GradOptions::new()
    };
    let first = filled(gradients_with(&outputs, &wrt, &options));
    close(
        &format!("{id}: vjp"),
        &first,
        &cases.arrays(&grad["vjp"]),
        failures,
    );
    // Of fmod by two arguments the file has the tangent by the second only.
    if grad["jvp"].is_array() && case["op"] != "fmod" {
        let primals: Vec<Variable> = wrt.iter().map(|x| x.detach()).collect();
        let (_, tangents) = jvp(
            |duals| {
                let mut inputs = inputs.clone();
                for (&i, dual) in positions.iter().zip(duals) {
                    inputs[i] = dual.clone();
                }
                let outputs = run(&inputs).expect("it ran above");
                grad["out"]
                    .as_array()
                    .expect("out")
                    .iter()
                    .map(|i| outputs[size(i)].clone())
                    .collect::<Vec<Variable>>()
            },
            &primals,
            &directions,
        );
        close(
            &format!("{id}: jvp"),
            &tangents,
            &cases.arrays(&grad["jvp"]),
            failures,
        );
    }
    if grad["hvp_x"].is_array() {
        let products: Vec<Variable> = first
            .iter()
            .zip(&directions)
            .map(|(g, u)| (g * u).sum(..))
            .collect();
        let total = products
            .into_iter()
            .reduce(|a, b| a + b)
            .expect("something to differentiate");
        let second = match total.requires_grad() {
            true => gradients_with(&[&total], &wrt, GradOptions::new()),
            false => wrt.iter().map(|_| None).collect(),
        };
        close(
            &format!("{id}: second"),
            &filled(second),
            &cases.arrays(&grad["hvp_x"]),
            failures,
        );
    }
    true
}

#[test]
fn chainer_cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/chainer-cases");
    if !folder.exists() {
        println!("skipped: the folder of Chainer's cases is not beside the project");
        return;
    }
    let cases = Cases::read(&folder);
    let mut failures = Vec::new();
    let (mut passed, mut names, mut missing) = (0, BTreeSet::new(), BTreeMap::new());
    for case in &cases.cases {
        let flags = case["flags"].as_array().expect("flags");
        let op = case["op"].as_str().expect("a name").to_owned();
        if !flags.is_empty() || case["calls"].as_array().expect("calls").len() != 1 {
            continue;
        }
        if check(&cases, case, &mut failures) {
            passed += 1;
            names.insert(op);
        } else {
            *missing.entry(op).or_insert(0) += 1;
        }
    }
    println!(
        "{passed} cases of {} functions checked; not here yet: {missing:?}",
        names.len()
    );
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(passed > 200, "only {passed} cases ran");
}
