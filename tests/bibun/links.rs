//! Chains, initializers and links.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;

use bibun::array::{Array, DType, Generator, Shape, matmul};
use bibun::initializers::*;
use bibun::links::{self, Chain, Embedding, Linear, Link, Mlp};
use bibun::{
    Error, GradientCheckOptions, Mapper, Tree as _, Variable, assert_gradients, attempt,
    checkpoint, functions, grad, hvp, jvp, s, value_and_grad, vmap,
};

fn names(chain: &dyn Chain) -> Vec<String> {
    chain
        .parameters()
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

fn leaf() -> Variable {
    Variable::new([1.0, 2.0])
}

/// A type that is no Tree.
#[derive(Clone)]
struct Opaque;

#[derive(Chain)]
struct Everything<T, U> {
    plain: Variable,
    list: Vec<(Variable, Option<T>)>,
    boxed: Box<Pair<Variable>>,
    array: [Variable; 2],
    map: BTreeMap<String, Variable>,
    shared: Rc<Variable>,
    r#type: Pair<Variable>,
    unit: Unit,
    rate: f64,
    name: String,
    on: bool,
    phantom: PhantomData<U>,
    #[chain(skip)]
    opaque: Opaque,
    #[chain(skip)]
    hidden: Variable,
}

#[derive(Chain)]
struct Pair<T>(T, T);

#[derive(Chain)]
struct Wrapper<T>(T);

#[derive(Chain)]
struct Unit;

#[derive(Chain)]
struct Tree<T> {
    value: T,
    children: Vec<Tree<T>>,
}

#[derive(Chain)]
enum Layer {
    Linear(Linear),
    Scale {
        factor: Variable,
        #[chain(skip)]
        opaque: Opaque,
    },
    Pair(Variable, #[chain(skip)] Opaque, Variable),
    Flatten,
}

trait Family {
    type Member;
}
struct Variables;
impl Family for Variables {
    type Member = Variable;
}

#[derive(Chain)]
struct Associated<F: Family> {
    member: F::Member,
    members: Vec<F::Member>,
    family: PhantomData<F>,
}

#[test]
fn names_are_paths() {
    let chain = Everything::<Wrapper<Variable>, Opaque> {
        plain: leaf(),
        list: vec![(leaf(), None), (leaf(), Some(Wrapper(leaf())))],
        boxed: Box::new(Pair(leaf(), leaf())),
        array: [leaf(), leaf()],
        map: [("k".to_owned(), leaf())].into(),
        shared: Rc::new(leaf()),
        r#type: Pair(leaf(), Variable::constant(1.0)),
        unit: Unit,
        rate: 0.5,
        name: "x".to_owned(),
        on: true,
        phantom: PhantomData,
        opaque: Opaque,
        hidden: leaf(),
    };
    let expected = [
        "plain", "list/0/0", "list/1/0", "list/1/1", "boxed/0", "boxed/1", "array/0", "array/1",
        "map/k", "shared", "type/0",
    ];
    assert_eq!(names(&chain), expected);
    let buffers: Vec<_> = chain.buffers().into_iter().map(|(name, _)| name).collect();
    assert_eq!(buffers, ["type/1"]);
    assert_eq!(chain.parameter_count(), 2 * expected.len());
    assert!(chain.hidden.is_leaf() && chain.on && chain.rate > 0.0 && chain.name == "x");
    let Opaque = chain.opaque;
}

#[test]
fn recursive_and_associated_types() {
    let tree = Tree {
        value: leaf(),
        children: vec![Tree {
            value: leaf(),
            children: vec![],
        }],
    };
    assert_eq!(names(&tree), ["value", "children/0/value"]);
    let associated = Associated::<Variables> {
        member: leaf(),
        members: vec![leaf()],
        family: PhantomData,
    };
    assert_eq!(names(&associated), ["member", "members/0"]);
}

#[test]
fn variants_and_wrappers_are_transparent() {
    let layers = vec![
        Layer::Linear(Linear::new(2, 2, &mut Generator::new(0))),
        Layer::Flatten,
        Layer::Scale {
            factor: leaf(),
            opaque: Opaque,
        },
        Layer::Pair(leaf(), Opaque, leaf()),
    ];
    let expected = ["0/weight", "0/bias", "2/factor", "3/0", "3/2"];
    assert_eq!(names(&Wrapper(layers)), expected);
}

#[test]
fn shared_parameters_count_once() {
    let w = leaf();
    let pair = Pair(w.clone(), w.clone());
    assert_eq!(names(&pair), ["0"]);
    assert_eq!(pair.parameter_count(), 2);
    (&pair.0 * &pair.1).sum(..).backward();
    assert!(w.grad().is_some());
    pair.clear_grads();
    assert!(w.grad().is_none());
}

#[derive(Chain)]
struct Scale {
    factor: Variable,
    mean: Variable,
    tied: Variable,
    layers: Vec<Box<dyn Link>>,
}

impl Link for Scale {
    fn compute(&self, x: &Variable) -> Variable {
        let y = (x - &self.mean) * &self.factor * &self.tied;
        self.layers.iter().fold(y, |y, layer| layer.forward(&y))
    }
}

fn scale() -> Scale {
    let g = &mut Generator::new(5);
    let factor = leaf();
    let linear = Linear::builder(2, 2).dtype(DType::F64).build(g);
    Scale {
        tied: factor.clone(),
        factor,
        mean: Variable::constant([0.5, 0.25]),
        layers: vec![Box::new(linear)],
    }
}

#[test]
fn parameters_and_buffers_are_the_same_inside_of_transformations() {
    let model = scale();
    let x = Variable::constant([[1.0, -1.0], [2.0, 3.0]]);
    let parameters = ["factor", "layers/0/weight", "layers/0/bias"];
    let loss = |model: &Scale| {
        assert_eq!(names(model), parameters);
        assert_eq!(model.buffers()[0].0, "mean");
        assert_eq!(model.buffers().len(), 1);
        let squares = model
            .parameters()
            .into_iter()
            .map(|(_, w)| w.square().sum(..));
        let decay = squares.reduce(|a, b| a + b).unwrap();
        model.forward(&x).square().sum(..) + decay
    };
    loss(&model).backward();
    let (value, gradient) = value_and_grad(loss, &model);
    assert_eq!(value.item::<f64>(), loss(&model).item::<f64>());
    assert_eq!(names(&gradient), parameters);
    for ((name, w), (_, gw)) in model.parameters().iter().zip(gradient.parameters()) {
        assert_eq!(
            w.grad().unwrap().to_vec::<f64>(),
            gw.to_vec::<f64>(),
            "{name}"
        );
    }
    // A tied parameter has its whole gradient in both places; a buffer stays what it is.
    assert_eq!(
        gradient.tied.to_vec::<f64>(),
        gradient.factor.to_vec::<f64>()
    );
    assert_eq!(gradient.mean.to_vec::<f64>(), [0.5, 0.25]);
    // The derivative along the gradient is its squared length, from within any transformation.
    let squared: f64 = (gradient.parameters().iter())
        .map(|(_, g)| g.square().sum(..).item::<f64>())
        .sum();
    let (_, tangent) = jvp(loss, &model, &gradient);
    assert!((tangent.item::<f64>() / squared - 1.0).abs() < 1e-12);
    let (again, product) = hvp(loss, &model, &gradient);
    assert_eq!(names(&product), parameters);
    assert_eq!(
        again.factor.to_vec::<f64>(),
        gradient.factor.to_vec::<f64>()
    );
    // Losses of two models at once.
    let two = Scale {
        factor: stack([&model.factor, &gradient.factor]),
        tied: stack([&model.factor, &gradient.factor]),
        mean: model.mean.clone(),
        layers: Vec::new(),
    };
    let one = |model: &Scale| {
        assert_eq!(names(model), ["factor", "tied"]);
        model.forward(&x).square().sum(..)
    };
    assert_eq!(vmap(one, &two).shape(), [2]);
    // And a checkpoint.
    let g = grad(
        |(model, x)| {
            checkpoint(
                penalty,
                &(
                    model.map(&mut Mapper::new(&mut |x, _| x.clone())),
                    x.clone(),
                ),
            )
        },
        &(scale(), x.clone()),
    );
    let plain = grad(penalty, &(scale(), x.clone()));
    assert_eq!(g.0.factor.to_vec::<f64>(), plain.0.factor.to_vec::<f64>());
    assert_eq!(g.1.to_vec::<f64>(), plain.1.to_vec::<f64>());
}

fn penalty((model, x): &(Scale, Variable)) -> Variable {
    assert_eq!(names(model), ["factor", "layers/0/weight", "layers/0/bias"]);
    let squares = model
        .parameters()
        .into_iter()
        .map(|(_, w)| w.square().sum(..));
    model.forward(x).sum(..) + squares.reduce(|a, b| a + b).unwrap()
}

fn stack(parts: [&Variable; 2]) -> Variable {
    Variable::new(functions::stack(parts, 0).array())
}

fn statistics(initializer: &dyn Initializer, shape: &[usize], dtype: DType) -> (f64, f64, f64) {
    let w = initializer.initialize(&shape.into(), dtype, &mut Generator::new(7));
    assert_eq!((w.shape(), w.dtype()), (&Shape::from(shape), dtype));
    let w = w.cast(DType::F64).to_vec::<f64>();
    let mean = w.iter().sum::<f64>() / w.len() as f64;
    let variance = w.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / w.len() as f64;
    let largest = w.iter().fold(0.0, |largest: f64, w| largest.max(w.abs()));
    (mean, variance, largest)
}

#[test]
fn variances_follow_the_fans() {
    // fan_in = 30 * 6, fan_out = 200 * 6.
    let shape = [200, 30, 2, 3];
    let cases: [(&dyn Initializer, &dyn Initializer, f64); 3] = [
        (&LeCunNormal, &LeCunUniform, 1.0 / 180.0),
        (&GlorotNormal, &GlorotUniform, 2.0 / 1380.0),
        (&HeNormal, &HeUniform, 2.0 / 180.0),
    ];
    for dtype in [DType::F32, DType::F64] {
        for (normal, uniform, expected) in cases {
            for initializer in [normal, uniform] {
                let (mean, variance, largest) = statistics(initializer, &shape, dtype);
                assert!(
                    mean.abs() < 0.02 * expected.sqrt(),
                    "{initializer:?}: mean {mean}"
                );
                let ratio = variance / expected;
                assert!((ratio - 1.0).abs() < 0.03, "{initializer:?}: {ratio}");
                // Normal numbers go far beyond three standard deviations, uniform ones end at √3.
                let spread = largest / expected.sqrt();
                let is_uniform = format!("{initializer:?}").ends_with("Uniform");
                assert_eq!(
                    is_uniform,
                    spread < 3f64.sqrt() + 1e-6,
                    "{initializer:?}: {spread}"
                );
            }
        }
    }
}

#[test]
fn plain_initializers() {
    let (mean, variance, _) = statistics(
        &Normal {
            mean: 3.0,
            std: 0.5,
        },
        &[20_000],
        DType::F64,
    );
    assert!((mean - 3.0).abs() < 0.02 && (variance - 0.25).abs() < 0.01);
    let (mean, variance, _) = statistics(
        &Uniform {
            low: 1.0,
            high: 3.0,
        },
        &[20_000],
        DType::F32,
    );
    assert!((mean - 2.0).abs() < 0.02 && (variance - 1.0 / 3.0).abs() < 0.01);
    assert_eq!(statistics(&Zero, &[3, 2], DType::F32), (0.0, 0.0, 0.0));
    assert_eq!(statistics(&One, &[3, 2], DType::F64), (1.0, 0.0, 1.0));
    assert_eq!(
        statistics(&Constant(-2.5), &[3], DType::F32),
        (-2.5, 0.0, 2.5)
    );
}

#[test]
fn orthogonal_rows_or_columns() {
    for (shape, dtype, tolerance) in [
        ([6, 9], DType::F64, 1e-13),
        ([9, 6], DType::F64, 1e-13),
        ([64, 64], DType::F64, 1e-12),
        ([7, 7], DType::F32, 1e-5),
    ] {
        let w = Orthogonal { gain: 3.0 }.initialize(&shape.into(), dtype, &mut Generator::new(1));
        let w = w.cast(DType::F64);
        let product = if shape[0] <= shape[1] {
            matmul(&w, &w.transpose())
        } else {
            matmul(&w.transpose(), &w)
        };
        let size = shape[0].min(shape[1]);
        for (i, x) in product.to_vec::<f64>().into_iter().enumerate() {
            let expected = if i % (size + 1) == 0 { 9.0 } else { 0.0 };
            assert!(
                (x - expected).abs() < 9.0 * tolerance,
                "{shape:?}: {x} for {expected}"
            );
        }
    }
    let w = Orthogonal { gain: 1.0 };
    let w = w.initialize(&[4, 2, 3, 3].into(), DType::F32, &mut Generator::new(1));
    assert_eq!(w.shape(), &[4, 2, 3, 3][..]);
    let empty =
        Orthogonal { gain: 1.0 }.initialize(&[0, 5].into(), DType::F32, &mut Generator::new(1));
    assert_eq!(empty.size(), 0);
}

#[test]
fn initializers_refuse_what_is_no_weight() {
    for initializer in [&HeNormal as &dyn Initializer, &GlorotUniform] {
        let error =
            attempt(|| initializer.initialize(&[5].into(), DType::F32, &mut Generator::new(0)));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("the shape is [5], expected the one of a weight"),
            "{error}"
        );
    }
    let empty = HeNormal.initialize(&[3, 0].into(), DType::F32, &mut Generator::new(0));
    assert_eq!(empty.size(), 0);
}

#[test]
fn linear_is_a_product_and_a_sum() {
    let g = &mut Generator::new(0);
    let layer = Linear::builder(3, 2)
        .bias_initializer(Constant(0.5))
        .dtype(DType::F64)
        .build(g);
    let x = Array::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let y = layer.forward(&Variable::constant(x.clone()));
    let expected = matmul(&x, &layer.weight.array().transpose()) + 0.5;
    for (y, expected) in y.to_vec::<f64>().iter().zip(expected.to_vec::<f64>()) {
        assert!((y - expected).abs() < 1e-14);
    }
    assert_eq!(names(&layer), ["weight", "bias"]);
    assert_eq!(
        names(&Linear::builder(3, 2).without_bias().build(g)),
        ["weight"]
    );
    let again = Linear::new(3, 2, &mut Generator::new(0));
    assert_eq!(
        again.weight.to_vec::<f32>(),
        Linear::new(3, 2, &mut Generator::new(0))
            .weight
            .to_vec::<f32>()
    );
}

#[test]
fn linear_names_both_shapes() {
    let layer = Linear::new(4, 5, &mut Generator::new(0));
    let error = attempt(|| layer.forward(&Variable::constant([[1f32, 2.0, 3.0]]))).unwrap_err();
    let here = (file!(), line!() - 1);
    let Error::Mismatch {
        what,
        location: place,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert!(
        what.contains("[1, 3]") && what.contains("[5, 4]"),
        "{error}"
    );
    assert_eq!((place.file(), place.line()), here, "{error}");
    let error = attempt(|| {
        Linear::builder(1, 1)
            .dtype(DType::I64)
            .build(&mut Generator::new(0))
    });
    assert!(error.unwrap_err().to_string().contains("the dtype is i64"));
}

#[test]
fn patterns_are_what_they_say() {
    let g = &mut Generator::new(0);
    let double = Identity { gain: 2.0 }.initialize(&[3, 3].into(), DType::F32, g);
    let expected = Array::eye(3, DType::F32) * 2.0;
    assert_eq!(double.to_vec::<f32>(), expected.to_vec::<f32>());
    let message = |initializer: &dyn Initializer, shape: &[usize]| {
        let g = &mut Generator::new(0);
        let error = attempt(|| initializer.initialize(&shape.into(), DType::F32, g));
        error.unwrap_err().to_string()
    };
    assert!(message(&Identity { gain: 1.0 }, &[2, 3]).contains("the shape is [2, 3]"));
    assert!(message(&Dirac { groups: 2 }, &[3, 1, 3]).contains("o a multiple of 2"));
    assert!(message(&LinearUpsampling, &[3, 1, 3]).contains("[3, 1, 3]"));
    assert!(
        message(
            &Sparse {
                sparsity: 0.5,
                std: 1.0
            },
            &[3]
        )
        .contains("of a matrix")
    );
    // Two groups of two channels over two axes pass on what they get; a third output gets nothing.
    let layer = links::Conv2d::builder(4, 4, [3, 5])
        .padding([1, 2])
        .groups(2)
        .initializer(Dirac { groups: 2 })
        .build(g);
    let x = Variable::constant(g.normal([2, 4, 6, 7], 0.0, 1.0, DType::F32));
    assert_eq!(layer.forward(&x).to_vec::<f32>(), x.to_vec::<f32>());
    let wide = Dirac { groups: 1 }.initialize(&[3, 2, 1].into(), DType::F64, g);
    assert_eq!(wide.to_vec::<f64>(), [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    // A plane enlarged twice and three times is the same plane, away from the borders.
    for (stride, kernel, padding) in [(2, 4, 1), (3, 5, 1)] {
        let layer = links::ConvTranspose2d::builder(2, 2, kernel)
            .stride(stride)
            .padding(padding)
            .dtype(DType::F64)
            .build(g);
        layer
            .weight
            .set_array(LinearUpsampling.initialize(&layer.weight.shape(), DType::F64, g));
        let plane = |i: usize| [3.0, 0.5][i / 25] * (i % 25 / 5) as f64 + (i % 5) as f64;
        let x = Array::from_vec((0..50).map(plane).collect::<Vec<_>>(), [1, 2, 5, 5]);
        let y = layer
            .forward(&Variable::constant(x))
            .slice(s![0, 0, 2..8, 2..8]);
        let y = y.to_vec::<f64>();
        let (down, right) = (3.0 / stride as f64, 1.0 / stride as f64);
        for i in 0..30 {
            assert!((y[i + 6] - y[i] - down).abs() < 1e-12, "{stride}: {y:?}");
        }
        for i in (0..35).filter(|i| i % 6 < 5) {
            assert!((y[i + 1] - y[i] - right).abs() < 1e-12, "{stride}: {y:?}");
        }
    }
}

#[test]
fn truncated_and_sparse_numbers() {
    let within = |low: f64, high: f64| TruncatedNormal {
        mean: 1.0,
        std: 2.0,
        low,
        high,
    };
    for dtype in [DType::F32, DType::F64] {
        // Cut at two standard deviations the variance is 0.7737 of what it was.
        let (mean, variance, _) = statistics(&within(-3.0, 5.0), &[40_000], dtype);
        assert!((mean - 1.0).abs() < 0.04 && (variance / 4.0 - 0.7737).abs() < 0.02);
    }
    // Not cut at all, and cut far out, where the mean is that of the tail beyond 6.
    let (mean, variance, _) = statistics(&within(f64::NEG_INFINITY, 1e9), &[40_000], DType::F64);
    assert!((mean - 1.0).abs() < 0.05 && (variance / 4.0 - 1.0).abs() < 0.04);
    let (mean, _, _) = statistics(&within(13.0, f64::INFINITY), &[20_000], DType::F64);
    assert!(((mean - 1.0) / 2.0 - 6.1584).abs() < 0.01, "{mean}");
    let empty =
        attempt(|| within(2.0, 2.0).initialize(&[1].into(), DType::F64, &mut Generator::new(0)));
    assert!(empty.unwrap_err().to_string().contains("TruncatedNormal"));
    let sparse = Sparse {
        sparsity: 0.25,
        std: 0.5,
    };
    let w = sparse.initialize(&[10, 300].into(), DType::F64, &mut Generator::new(3));
    let (columns, mut squares) = (w.transpose().to_vec::<f64>(), 0.0);
    for column in columns.chunks(10) {
        assert_eq!(column.iter().filter(|&&w| w == 0.0).count(), 3);
        squares += column.iter().map(|w| w * w).sum::<f64>();
    }
    assert!((squares / 2100.0 / 0.25 - 1.0).abs() < 0.1);
}

#[test]
fn variances_of_ones_own() {
    // fan_in = 30 * 6, fan_out = 200 * 6.
    let shape = [200, 30, 2, 3];
    let fans = [(Fan::In, 180.0), (Fan::Out, 1200.0), (Fan::Average, 690.0)];
    let spreads = [
        (Spread::Normal, 3.5..9.0),
        (Spread::Uniform, 1.7..1.733),
        (Spread::TruncatedNormal, 2.2..2.275),
    ];
    for (fan, count) in fans {
        for (spread, range) in &spreads {
            let leaky = Nonlinearity::LeakyRelu(0.5);
            let kaiming = VarianceScaling::kaiming(leaky, fan, *spread);
            let (mean, variance, largest) = statistics(&kaiming, &shape, DType::F32);
            let expected: f64 = 2.0 / 1.25 / count;
            assert!(mean.abs() < 0.02 * expected.sqrt(), "{kaiming:?}");
            assert!(
                (variance / expected - 1.0).abs() < 0.03,
                "{kaiming:?}: {variance}"
            );
            assert!(range.contains(&(largest / expected.sqrt())), "{kaiming:?}");
        }
    }
    let (_, variance, largest) = statistics(&FanInUniform, &shape, DType::F32);
    assert!((variance * 3.0 * 180.0 - 1.0).abs() < 0.03 && largest <= (1.0 / 180f64.sqrt()) + 1e-9);
    // The same as those that have names.
    let he = VarianceScaling::kaiming(Nonlinearity::Relu, Fan::In, Spread::Uniform);
    let glorot = VarianceScaling::xavier(1.0, Spread::Normal);
    for (own, named) in [
        (he, &HeUniform as &dyn Initializer),
        (glorot, &GlorotNormal),
    ] {
        let [own, named] = [&own as &dyn Initializer, named].map(|initializer| {
            let w = initializer.initialize(&shape.into(), DType::F64, &mut Generator::new(1));
            w.to_vec::<f64>()
        });
        assert!(own.iter().zip(named).all(|(a, b)| (a - b).abs() < 1e-15));
    }
}

#[test]
fn sequences_of_links() {
    let g = &mut Generator::new(0);
    let model = links::Sequential::new()
        .then(Linear::builder(3, 4).dtype(DType::F64).build(g))
        .then_function(Variable::tanh)
        .then(links::Sequential::new().then(Linear::builder(4, 2).dtype(DType::F64).build(g)));
    assert_eq!(
        names(&model),
        ["0/weight", "0/bias", "2/0/weight", "2/0/bias"]
    );
    assert!(format!("{model:?}").contains("2/0/weight"));
    let x = Variable::constant([[1.0, -1.0, 0.5]]);
    let y = model.forward(&x);
    let w = |i: usize| model.parameters()[i].1.clone();
    let hidden = functions::linear(&x, w(0), Some(&w(1))).tanh();
    assert_eq!(
        y.to_vec::<f64>(),
        functions::linear(hidden, w(2), Some(&w(3))).to_vec::<f64>()
    );
    // It is mapped like any model.
    let (_, gradient) = value_and_grad(|model| model.forward(&x).square().sum(..), &model);
    assert_eq!(names(&gradient), names(&model));
    let error = attempt(|| model.forward(&Variable::constant([[1.0, 2.0]]))).unwrap_err();
    assert!(error.to_string().contains("w [o, i] = [4, 3]"), "{error}");
    let x = Variable::constant([1.0]);
    assert!(links::Sequential::new().forward(&x).is_same(&x));
}

#[test]
fn perceptrons_are_layers_with_activations() {
    let g = &mut Generator::new(0);
    let model = links::Mlp::builder(&[3, 5, 4, 2])
        .activation(Variable::tanh)
        .bias_initializer(Constant(0.25))
        .dtype(DType::F64)
        .build(g);
    let x = Variable::new([[1.0, -1.0, 0.5]]);
    let [a, b, c] = &model.layers[..] else {
        panic!("three layers")
    };
    let expected = c.forward(&b.forward(&a.forward(&x).tanh()).tanh());
    assert_eq!(model.forward(&x).to_vec::<f64>(), expected.to_vec::<f64>());
    assert_eq!(names(&model).len(), 6);
    let dropping = links::Mlp::builder(&[3, 50, 2])
        .dropout(0.5)
        .without_bias()
        .build(g);
    let x = Variable::constant([[1.0f32, -1.0, 0.5]]);
    let [a, b] = [(); 2].map(|()| dropping.forward(&x).to_vec::<f32>());
    assert_ne!(a, b);
    assert_eq!(names(&dropping), ["layers/0/weight", "layers/1/weight"]);
    let error = attempt(|| links::Mlp::new(&[3], g))
        .unwrap_err()
        .to_string();
    assert!(error.contains("Mlp: the sizes are [3]"), "{error}");
}

#[test]
fn maxout_and_highway_by_loops() {
    let g = &mut Generator::new(2);
    let x = Variable::constant(g.normal([4, 3], 0.0, 1.0, DType::F64));
    let layer = links::Maxout::builder(3, 2, 3).dtype(DType::F64).build(g);
    let all = layer.linear.forward(&x).to_vec::<f64>();
    let greatest = all
        .chunks(3)
        .map(|pool| pool.iter().copied().fold(f64::MIN, f64::max));
    assert_eq!(
        layer.forward(&x).to_vec::<f64>(),
        greatest.collect::<Vec<_>>()
    );
    assert_eq!(names(&layer), ["linear/weight", "linear/bias"]);
    assert!(attempt(|| links::Maxout::new(3, 2, 0, g)).is_err());
    let layer = links::Highway::builder(3).dtype(DType::F64).build(g);
    let [plain, gate] =
        [&layer.plain, &layer.transform].map(|part| part.forward(&x).to_vec::<f64>());
    let y = layer.forward(&x).to_vec::<f64>();
    for (i, x) in x.to_vec::<f64>().into_iter().enumerate() {
        let t = 1.0 / (1.0 + (-gate[i]).exp());
        assert!((y[i] - (t * plain[i].max(0.0) + (1.0 - t) * x)).abs() < 1e-14);
    }
    assert_eq!(
        names(&layer),
        [
            "plain/weight",
            "plain/bias",
            "transform/weight",
            "transform/bias"
        ]
    );
    assert_eq!(layer.transform.bias.unwrap().to_vec::<f64>(), [-1.0; 3]);
    assert!(attempt(|| links::Parameter::new([1i64])).is_err());
}

#[test]
fn weights_of_length_and_direction() {
    let g = &mut Generator::new(2);
    let conv = links::Conv2d::builder(2, 3, 2).dtype(DType::F64).build(g);
    let layer = links::WeightNorm::new(conv.clone());
    assert_eq!(names(&layer), ["g", "link/weight", "link/bias"]);
    let x = Variable::new(g.normal([2, 2, 4, 4], 0.0, 1.0, DType::F64));
    let close = |a: &Variable, b: &Variable| {
        let pairs = a.to_vec::<f64>().into_iter().zip(b.to_vec::<f64>());
        a.shape() == b.shape() && pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-12)
    };
    assert!(close(&layer.forward(&x), &conv.forward(&x)));
    // The length of v does not matter, that of w is g.
    layer.g.set_array([1.0, 2.0, 3.0].into());
    let before = layer.weight();
    layer.link.weight.update(|v| v * 7.0);
    assert!(close(&layer.weight(), &before));
    assert!(close(&layer.fused().forward(&x), &layer.forward(&x)));
    for (i, w) in before.unstack(0).into_iter().enumerate() {
        let length = w.square().sum(..).sqrt().item::<f64>();
        assert!((length - (i + 1) as f64).abs() < 1e-12);
    }
    // Gradients of everything, and that of v is at a right angle to it.
    let (vector, unravel) = bibun::ravel_tree(&layer);
    let inputs = [Variable::new(vector.array()), x.clone()];
    let call = |x: &[Variable]| unravel(&x[0]).forward(&x[1]);
    assert_gradients(call, &inputs, GradientCheckOptions::new().order(2));
    let gradient = grad(|layer| layer.forward(&x).square().sum(..), &layer);
    let along = (&gradient.link.weight * &layer.link.weight)
        .sum([1, 2, 3])
        .to_vec::<f64>();
    assert!(along.iter().all(|along| along.abs() < 1e-9), "{along:?}");
}

#[test]
fn impossible_sizes_name_the_line_of_the_link() {
    let g = &mut Generator::new(0);
    let made: [(u32, String); 3] = [
        (line!(), message(|| Linear::new(1 << 31, 1 << 31, g))),
        (line!(), message(|| Embedding::new(1 << 61, 2, g))),
        (line!(), message(|| Mlp::new(&[1 << 31, 1 << 31, 2], g))),
    ];
    for (line, message) in made {
        assert!(
            message.contains(&format!("called at {}:{line}:", file!())),
            "{message}"
        );
    }
}

fn message<T>(make: impl FnOnce() -> T) -> String {
    match attempt(make) {
        Ok(_) => String::from("no error"),
        Err(error) => error.to_string(),
    }
}
