//! Rows in burn, on its backend for CPUs in Rust.

use std::collections::BTreeMap;
use std::error::Error;

use burn::tensor::activation::{
    gelu, log_softmax, mish, relu, sigmoid, silu, softmax, tanh,
};
use burn::tensor::module::{attention, conv2d};
use burn::tensor::ops::{AttentionModuleOptions, ConvOptions};
use burn::tensor::{Device, Int, Tensor, TensorData};
use candle_core::{DType, Device as Host, Tensor as Stored};

use crate::Work;

/// A tensor of any rank.
#[derive(Clone)]
enum Value {
    One(Tensor<1>),
    Two(Tensor<2>),
    Three(Tensor<3>),
    Four(Tensor<4>),
    Indices(Tensor<1, Int>),
    IndexTable(Tensor<2, Int>),
}

/// Does the same with a float tensor of any rank; other values stay.
macro_rules! with_floats {
    ($value:expr, $x:ident => $result:expr) => {
        match $value {
            Value::One($x) => Value::One($result),
            Value::Two($x) => Value::Two($result),
            Value::Three($x) => Value::Three($result),
            Value::Four($x) => Value::Four($result),
            value @ (Value::Indices(_) | Value::IndexTable(_)) => value,
        }
    };
}

impl Value {
    fn of(stored: &Stored, device: &Device) -> Result<Self, Box<dyn Error>> {
        let shape = stored.dims().to_vec();
        if stored.dtype().is_int() {
            let elements = stored.to_dtype(DType::I64)?.flatten_all()?.to_vec1::<i64>()?;
            let data = TensorData::new(elements, shape.clone());
            return Ok(match shape.len() {
                1 => Self::Indices(Tensor::from_data(data, device)),
                2 => Self::IndexTable(Tensor::from_data(data, device)),
                rank => return Err(format!("indices of {rank} axes").into()),
            });
        }
        let data = TensorData::new(stored.flatten_all()?.to_vec1::<f32>()?, shape.clone());
        Ok(match shape.len() {
            1 => Self::One(Tensor::from_data(data, device)),
            2 => Self::Two(Tensor::from_data(data, device)),
            3 => Self::Three(Tensor::from_data(data, device)),
            4 => Self::Four(Tensor::from_data(data, device)),
            rank => return Err(format!("a tensor of {rank} axes").into()),
        })
    }

    fn stored(&self) -> Result<Stored, Box<dyn Error>> {
        let data = match self.clone() {
            Self::One(x) => x.into_data(),
            Self::Two(x) => x.into_data(),
            Self::Three(x) => x.into_data(),
            Self::Four(x) => x.into_data(),
            Self::Indices(_) | Self::IndexTable(_) => return Err("no row returns indices".into()),
        };
        let shape: Vec<usize> = data.shape().iter().copied().collect();
        let elements: Vec<f32> = data.iter::<f32>().collect();
        Ok(Stored::from_vec(elements, shape, &Host::Cpu)?)
    }

    fn is_float(&self) -> bool {
        !matches!(self, Self::Indices(_) | Self::IndexTable(_))
    }

    fn one(&self) -> Tensor<1> {
        match self {
            Self::One(x) => x.clone(),
            _ => panic!("a vector was expected"),
        }
    }

    fn two(&self) -> Tensor<2> {
        match self {
            Self::Two(x) => x.clone(),
            _ => panic!("a matrix was expected"),
        }
    }

    fn three(&self) -> Tensor<3> {
        match self {
            Self::Three(x) => x.clone(),
            _ => panic!("three axes were expected"),
        }
    }

    fn four(&self) -> Tensor<4> {
        match self {
            Self::Four(x) => x.clone(),
            _ => panic!("four axes were expected"),
        }
    }

    fn indices(&self) -> Tensor<1, Int> {
        match self {
            Self::Indices(x) => x.clone(),
            _ => panic!("indices were expected"),
        }
    }

    fn index_table(&self) -> Tensor<2, Int> {
        match self {
            Self::IndexTable(x) => x.clone(),
            _ => panic!("a table of indices was expected"),
        }
    }
}

type Function = fn(&[Value]) -> Value;

fn conv(x: &[Value], stride: usize, padding: usize, dilation: usize, groups: usize) -> Value {
    let options = ConvOptions::new([stride; 2], [padding; 2], [dilation; 2], groups);
    Value::Four(conv2d(x[0].four(), x[1].four(), None, options))
}

/// The function of a row.
fn function(name: &str) -> Option<Function> {
    let x: Function = match name {
        "softmax/softmax-1024x1024" | "softmax/softmax-2048x64" => {
            |x| Value::Two(softmax(x[0].two(), 1))
        }
        "softmax/log-softmax-1024x1024" | "softmax/log-softmax-2048x64" => {
            |x| Value::Two(log_softmax(x[0].two(), 1))
        }
        "attention/full-64" | "attention/full-512" | "attention/full-2048" => |x| {
            let options = AttentionModuleOptions::default();
            let [query, key, value] = [0, 1, 2].map(|i| x[i].four());
            Value::Four(attention(query, key, value, None, None, options))
        },
        "elementwise/relu" => |x| with_floats!(x[0].clone(), x => relu(x)),
        "elementwise/sigmoid" => |x| with_floats!(x[0].clone(), x => sigmoid(x)),
        "elementwise/tanh" => |x| with_floats!(x[0].clone(), x => tanh(x)),
        "elementwise/gelu" => |x| with_floats!(x[0].clone(), x => gelu(x)),
        "elementwise/silu" => |x| with_floats!(x[0].clone(), x => silu(x)),
        "elementwise/mish" => |x| with_floats!(x[0].clone(), x => mish(x)),
        "elementwise/erf" => |x| with_floats!(x[0].clone(), x => x.erf()),
        "elementwise/exp" => |x| with_floats!(x[0].clone(), x => x.exp()),
        "elementwise/log" => |x| with_floats!(x[0].clone(), x => x.log()),
        "elementwise/sqrt" => |x| with_floats!(x[0].clone(), x => x.sqrt()),
        "elementwise/sin" => |x| with_floats!(x[0].clone(), x => x.sin()),
        "elementwise/power-2.5" => |x| with_floats!(x[0].clone(), x => x.powf_scalar(2.5)),
        "reductions/sum-rows" => |x| Value::One(x[0].two().sum_dim(1).squeeze_dim(1)),
        "reductions/sum-columns" => |x| Value::One(x[0].two().sum_dim(0).squeeze_dim(0)),
        "reductions/max-rows" => |x| Value::One(x[0].two().max_dim(1).squeeze_dim(1)),
        "reductions/max-columns" => |x| Value::One(x[0].two().max_dim(0).squeeze_dim(0)),
        "arrays/gather" => |x| Value::Two(x[0].two().gather(1, x[1].index_table())),
        "arrays/take-rows" => |x| Value::Two(x[0].two().select(0, x[1].indices())),
        "arrays/concat-rows" => |x| Value::Two(Tensor::cat(x.iter().map(Value::two).collect(), 0)),
        "arrays/concat-columns" => {
            |x| Value::Two(Tensor::cat(x.iter().map(Value::two).collect(), 1))
        }
        "arrays/sort-rows" => |x| Value::Two(x[0].two().sort(1)),
        "arrays/cumsum-rows" => |x| Value::Two(x[0].two().cumsum(1)),
        "arrays/cumsum-columns" => |x| Value::Two(x[0].two().cumsum(0)),
        "convolutions/1x1" => |x| conv(x, 1, 0, 1, 1),
        "convolutions/3x3" | "convolutions/3x3-of-3" | "convolutions/3x3-small" => {
            |x| conv(x, 1, 1, 1, 1)
        }
        "convolutions/3x3-stride-2" => |x| conv(x, 2, 1, 1, 1),
        "convolutions/5x5" => |x| conv(x, 1, 2, 1, 1),
        "convolutions/7x7-stride-2" => |x| conv(x, 2, 3, 1, 1),
        "convolutions/depthwise" => |x| conv(x, 1, 1, 1, 64),
        "convolutions/dilated" => |x| conv(x, 1, 2, 2, 1),
        name if name.starts_with("limits/copy") => |x| with_floats!(x[0].clone(), x => x * 2.0),
        name if name.starts_with("products/nt-") => {
            |x| Value::Two(x[0].two().matmul(x[1].two().transpose()))
        }
        name if name.starts_with("products/tn-") => {
            |x| Value::Two(x[0].two().transpose().matmul(x[1].two()))
        }
        name if name.starts_with("products/tt-") => {
            |x| Value::Two(x[0].two().transpose().matmul(x[1].two().transpose()))
        }
        name if name.starts_with("products/linear") => {
            |x| Value::Two(linear(x[0].two(), &x[1], &x[2]))
        }
        name if name == "limits/product"
            || name.starts_with("products/")
                && !name.contains("einsum")
                && !name.contains("vector") =>
        {
            |x| match &x[0] {
                Value::Three(a) => Value::Three(a.clone().matmul(x[1].three())),
                _ => Value::Two(x[0].two().matmul(x[1].two())),
            }
        }
        _ => return None,
    };
    Some(x)
}

fn linear(x: Tensor<2>, w: &Value, b: &Value) -> Tensor<2> {
    x.matmul(w.two().transpose()) + b.one().unsqueeze()
}

/// The layers of a perceptron with ReLUs between.
fn mlp(p: &BTreeMap<String, Value>, x: &Value) -> Tensor<2> {
    let mut x = x.two();
    for i in 0..p.len() / 2 {
        let [w, b] = ["weight", "bias"].map(|part| &p[&format!("layers/{i}/{part}")]);
        x = linear(if i == 0 { x } else { relu(x) }, w, b);
    }
    x
}

/// A row with its inputs.
enum Row {
    Forward(Function, Vec<Value>),
    Gradient {
        function: Function,
        inputs: Vec<Value>,
        cotangent: Value,
    },
    Inference(BTreeMap<String, Value>, Value),
}

pub(crate) fn load(row: &str, file: &str) -> Result<Box<dyn Work>, Box<dyn Error>> {
    let device = Device::flex();
    let mut stored = candle_core::safetensors::load(file, &Host::Cpu)?;
    let inputs = (0..).map_while(|i| stored.remove(&i.to_string()));
    let inputs: Vec<Value> = inputs.map(|x| Value::of(&x, &device)).collect::<Result<_, _>>()?;
    let missing = "burn has no such row here";
    if row == "networks/mlp-4-128-128-2-one" {
        let parameters = stored.iter().filter_map(|(name, x)| {
            let name = name.strip_prefix("parameters/")?.to_owned();
            Some(Value::of(x, &device).map(|x| (name, x)))
        });
        let parameters = parameters.collect::<Result<_, _>>()?;
        return Ok(Box::new(Row::Inference(parameters, inputs[0].clone())));
    }
    let function = function(row.trim_end_matches("/gradient")).ok_or(missing)?;
    let Some(cotangent) = stored.get("cotangent") else {
        return Ok(Box::new(Row::Forward(function, inputs)));
    };
    let leaf = |x: Value| with_floats!(x, x => x.autodiff().require_grad());
    let cotangent = Value::of(cotangent, &device)?;
    Ok(Box::new(Row::Gradient {
        function,
        inputs: inputs.into_iter().map(leaf).collect(),
        cotangent: with_floats!(cotangent, x => x.autodiff()),
    }))
}

impl Row {
    fn outputs(&self) -> Result<Vec<Value>, Box<dyn Error>> {
        match self {
            Self::Forward(function, inputs) => Ok(vec![function(inputs)]),
            Self::Inference(parameters, x) => Ok(vec![Value::Two(mlp(parameters, x))]),
            Self::Gradient {
                function,
                inputs,
                cotangent,
            } => {
                let y = function(inputs);
                let gradients = match (y.clone(), cotangent.clone()) {
                    (Value::One(y), Value::One(g)) => (y * g).sum().backward(),
                    (Value::Two(y), Value::Two(g)) => (y * g).sum().backward(),
                    (Value::Three(y), Value::Three(g)) => (y * g).sum().backward(),
                    (Value::Four(y), Value::Four(g)) => (y * g).sum().backward(),
                    _ => return Err("the cotangent has another rank".into()),
                };
                let mut outputs = vec![with_floats!(y, y => y.inner())];
                for x in inputs.iter().filter(|x| x.is_float()) {
                    let missing = "an input has no gradient in burn";
                    outputs.push(with_floats!(x.clone(), x => x.grad(&gradients).ok_or(missing)?));
                }
                Ok(outputs)
            }
        }
    }
}

impl Work for Row {
    fn run(&self) -> Result<(), Box<dyn Error>> {
        self.outputs().map(drop)
    }

    fn write_outputs(&self, file: &str) -> Result<(), Box<dyn Error>> {
        let outputs = self.outputs()?.into_iter().enumerate();
        let outputs = outputs.map(|(i, y)| Ok((i.to_string(), y.stored()?)));
        let outputs: std::collections::HashMap<String, Stored> =
            outputs.collect::<Result<_, Box<dyn Error>>>()?;
        Ok(candle_core::safetensors::save(&outputs, file)?)
    }
}
