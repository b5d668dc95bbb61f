//! Links that normalise: what they learn, what they remember, and what transformations see of it.

use bibun::array::{Array, DType, Generator};
use std::cell::RefCell;
use std::rc::Rc;

use bibun::functions::random_normal;
use bibun::links::{
    BatchNorm, Buffer, Chain, Dropout, Embedding, FunctionLink, GroupNorm, InstanceNorm, LayerNorm,
    Link, RmsNorm, Sequential,
};
use bibun::{Variable, attempt, checkpoint, eval_mode, grad, jvp, vmap, with_hook};

fn layer() -> BatchNorm {
    let builder = BatchNorm::builder(2).momentum(0.25).epsilon(0.0);
    builder.dtype(DType::F64).build()
}

fn batch() -> Variable {
    Variable::constant([[1.0, 10.0], [3.0, 30.0]])
}

/// Running mean and variance.
fn running(layer: &BatchNorm) -> [Vec<f64>; 2] {
    [&layer.running_mean, &layer.running_variance].map(|buffer| buffer.get().to_vec())
}

/// What they are after one batch from 0 and 1: a quarter of means 2 and 20, of unbiased variances 2
/// and 200.
const ONCE: [[f64; 2]; 2] = [[0.5, 5.0], [1.25, 50.75]];

#[test]
fn running_statistics_are_updated_in_training_only() {
    let layer = layer();
    let y = eval_mode(|| layer.forward(&batch()));
    assert_eq!(y.to_vec::<f64>(), batch().to_vec::<f64>());
    assert_eq!(running(&layer), [[0.0, 0.0], [1.0, 1.0]]);
    let y = layer.forward(&batch());
    assert_eq!(y.to_vec::<f64>(), [-1.0, -1.0, 1.0, 1.0]);
    assert_eq!(running(&layer), ONCE);
    layer.forward(&batch());
    assert_eq!(running(&layer)[0], [0.875, 8.75]);
    let y = eval_mode(|| layer.forward(&batch())).to_vec::<f64>();
    let [mean, variance] = running(&layer);
    assert!((y[3] - (30.0 - mean[1]) / variance[1].sqrt()).abs() < 1e-15);
}

#[test]
fn statistics_are_buffers_and_never_parameters() {
    let layer = layer();
    let names = |list: Vec<(String, Variable)>| -> Vec<String> {
        list.into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(layer.parameters()), ["gamma", "beta"]);
    let buffers = ["running_mean", "running_variance"];
    assert_eq!(names(layer.buffers()), buffers);
    layer.forward(&Variable::new(batch().array()));
    assert_eq!(names(layer.parameters()), ["gamma", "beta"]);
    let of_batch = layer.buffers();
    assert_eq!(names(of_batch.clone()), buffers);
    // The Variable that was handed out stays what it was.
    layer.forward(&batch());
    assert_eq!(of_batch[0].1.to_vec::<f64>(), ONCE[0]);
    assert!(of_batch.iter().all(|(_, x)| !x.requires_grad()));
}

#[test]
fn gradients_update_the_statistics_of_their_model() {
    let layer = layer();
    let gradient = grad(|layer| (layer.forward(&batch()) * batch()).sum(..), &layer);
    assert_eq!(running(&layer), ONCE);
    assert_eq!(gradient.gamma.expect("scales").to_vec::<f64>(), [2.0, 20.0]);
    assert_eq!(gradient.beta.expect("shifts").to_vec::<f64>(), [4.0, 40.0]);
}

#[test]
fn statistics_of_batch_elements_are_refused() {
    let layer = layer();
    let still = [[0.0, 0.0], [1.0, 1.0]];
    let stacked = Variable::constant([[[1.0, 10.0], [3.0, 30.0]], [[2.0, 0.0], [4.0, 1.0]]]);
    let model = Sequential::new()
        .then(FunctionLink::new(Variable::abs))
        .then(layer.clone());
    let refused = |run: &dyn Fn() -> Variable, path: &str| {
        let error = attempt(run).unwrap_err();
        let message = error.to_string();
        let expected =
            "BatchNorm: a buffer holds one value, and every batch element of vmap has another";
        assert!(
            message.starts_with(&format!("{path}{expected}")),
            "{message}"
        );
        assert_eq!(running(&layer), still);
        error.location()
    };
    let (line, run) = (line!(), || vmap(|x| layer.forward(x), &stacked));
    let location = refused(&run, "");
    assert_eq!((location.file(), location.line()), (file!(), line));
    let (line, run) = (line!(), || vmap(|x| model.forward(x), &stacked));
    let location = refused(&run, "in 1: ");
    assert_eq!((location.file(), location.line()), (file!(), line));
    refused(
        &|| vmap(|x| grad(|x| layer.forward(x).sum(..), x), &stacked),
        "",
    );
    refused(
        &|| vmap(|x| jvp(|x| layer.forward(x), x, &batch()).0, &stacked),
        "",
    );
    refused(
        &|| jvp(|x| vmap(|x| layer.forward(x), x), &stacked, &stacked).0,
        "",
    );
    // In use they serve all batch elements.
    let y = eval_mode(|| vmap(|x| layer.forward(x), &stacked));
    assert_eq!(y.to_vec::<f64>(), stacked.to_vec::<f64>());
    // What no transformation hides is plain inside of it too.
    vmap(|x| x * layer.forward(&batch()).sum(..), &stacked);
    assert_eq!(running(&layer), ONCE);
    // A tangent does not hide the value, and a checkpoint makes no difference.
    let [plain, forgetful] = [(); 2].map(|()| self::layer());
    jvp(|x| plain.forward(x), &batch(), &batch());
    assert_eq!(running(&plain), ONCE);
    let shared = forgetful.clone();
    let block = move |x: &Variable| shared.forward(x);
    forgetful.freeze();
    jvp(|x| checkpoint(block.clone(), x), &batch(), &batch());
    assert_eq!(running(&forgetful), ONCE);
}

#[test]
fn a_buffer_takes_the_value_and_no_more() {
    let buffer = Buffer::new([0.0, 0.0]);
    let x = Variable::constant([1.0, 2.0]);
    let f = |x: &Variable| {
        buffer.set(x * 2.0);
        (x * x * buffer.get()).sum(..)
    };
    let held = |gradient: Variable, expected: [f64; 2]| {
        assert_eq!(gradient.to_vec::<f64>(), expected);
        assert_eq!(buffer.get().to_vec::<f64>(), [2.0, 4.0]);
        assert!(!buffer.get().requires_grad());
        buffer.set([0.0, 0.0]);
    };
    // As in x² c: what the buffer holds is a constant of every derivative.
    held(grad(f, &x), [4.0, 16.0]);
    held(
        jvp(
            |x| {
                x * x * {
                    buffer.set(x * 2.0);
                    buffer.get()
                }
            },
            &x,
            &x,
        )
        .1,
        [4.0, 32.0],
    );
    held(
        jvp(|x| grad(f, x), &x, &Variable::constant([1.0, 1.0])).1,
        [4.0, 8.0],
    );
    let batch = Variable::constant([[1.0, 2.0], [3.0, 4.0]]);
    let error = attempt(|| vmap(f, &batch)).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("Buffer::set: a buffer holds one value"),
        "{error}"
    );
    assert_eq!(error.location().file(), file!());
    // The same value for all batch elements is one value.
    vmap(
        |y| {
            y * {
                buffer.set(&x);
                buffer.get()
            }
        },
        &batch,
    );
    assert_eq!(buffer.get().to_vec::<f64>(), [1.0, 2.0]);
    vmap(
        |y| {
            buffer.update([&x], |old, [x]| old + x);
            y.clone()
        },
        &batch,
    );
    assert_eq!(buffer.get().to_vec::<f64>(), [2.0, 4.0]);
}

#[test]
fn hooks_see_draws_and_changes_of_buffers() {
    let told = |f: &dyn Fn()| {
        let names = Rc::new(RefCell::new(Vec::new()));
        let memory = Rc::clone(&names);
        let hook = move |event: &bibun::FunctionEvent<'_>| {
            assert_eq!(event.location.file(), file!());
            memory.borrow_mut().push(event.name);
        };
        with_hook(hook, f);
        names.take()
    };
    let (layer, x) = (layer(), batch());
    let names = told(&|| drop(layer.forward(&x)));
    assert_eq!(
        names
            .iter()
            .filter(|&&name| name == "update_buffer")
            .count(),
        2
    );
    let link = Dropout::new(0.5, &mut Generator::new(0));
    let names = told(&|| drop(link.forward(&x)));
    assert_eq!(names[..2], ["update_buffer", "random_bernoulli"]);
    assert!(!told(&|| drop(eval_mode(|| link.forward(&x)))).contains(&"update_buffer"));
    let g = RefCell::new(Generator::new(0));
    let draw = || {
        drop(random_normal(
            [2],
            0.0,
            1.0,
            DType::F32,
            &mut g.borrow_mut(),
        ))
    };
    assert_eq!(told(&draw), ["random_normal"]);
    // Once as each batch element sees it, and once for all of them.
    let batch = || {
        drop(vmap(
            |x| x + random_normal([2], 0.0, 1.0, DType::F64, &mut g.borrow_mut()),
            &x,
        ))
    };
    assert_eq!(
        told(&batch),
        ["random_normal", "random_normal", "add", "add"]
    );
}

#[test]
fn a_checkpoint_gives_the_same_gradient() {
    let loss = |(layer, x): &(BatchNorm, Variable)| (layer.forward(x) * batch()).square().sum(..);
    let plain = grad(loss, &(layer(), batch()));
    let input = (layer(), batch());
    let saved = grad(|input| checkpoint(loss, input), &input);
    assert_eq!(saved.1.to_vec::<f64>(), plain.1.to_vec::<f64>());
    // Run twice, seen once.
    assert_eq!(running(&input.0), ONCE);
}

#[test]
fn clones_share_and_empty_batches_say_nothing() {
    let layer = layer();
    let clone = layer.clone();
    layer.forward(&batch());
    assert_eq!(running(&clone), ONCE);
    let nothing = Variable::constant(Array::zeros([0, 2], DType::F64));
    assert_eq!(layer.forward(&nothing).shape(), [0, 2]);
    assert_eq!(running(&layer), ONCE);
    // One element cannot be normalised, and says nothing either.
    let one = attempt(|| layer.forward(&Variable::constant([[0.5, 5.0]])));
    assert!(one.unwrap_err().to_string().contains("more than one value"));
    assert_eq!(running(&layer), ONCE);
}

#[test]
fn channels_are_normalised_at_every_rank() {
    for shape in [&[6, 3][..], &[6, 3, 5], &[6, 3, 2, 5], &[2, 3, 3, 2, 5]] {
        let x = Generator::new(1).normal(shape, 4.0, 3.0, DType::F32);
        let layer = BatchNorm::new(3);
        let y = layer.forward(&Variable::constant(x)).moveaxis(1, 0);
        let y = y.reshape([3, y.size() / 3]);
        assert!(y.mean(1).abs().max(..).item::<f32>() < 1e-5, "{shape:?}");
        assert!(
            (y.var(1, 0) - 1.0).abs().max(..).item::<f32>() < 1e-4,
            "{shape:?}"
        );
        assert_eq!(layer.running_mean.get().dtype(), DType::F32);
    }
}

#[test]
fn links_have_their_parameters_and_refuse_wrong_shapes() {
    let links: Vec<(Box<dyn Link>, usize)> = vec![
        (Box::new(BatchNorm::new(4)), 8),
        (Box::new(LayerNorm::new([4, 3])), 24),
        (Box::new(RmsNorm::new([4, 3])), 12),
        (Box::new(GroupNorm::new(2, 4)), 8),
        (Box::new(InstanceNorm::builder(4).without_beta().build()), 4),
    ];
    let x = Variable::constant(Generator::new(2).normal([2, 4, 3], 0.0, 1.0, DType::F32));
    let wrong = Variable::constant(Array::zeros([2, 5, 3], DType::F32));
    for (link, parameters) in &links {
        assert_eq!(link.parameter_count(), *parameters);
        let y = link.forward(&x);
        assert_eq!(y.shape(), [2, 4, 3]);
        y.square().sum(..).backward();
        assert!(link.parameters().iter().all(|(_, p)| p.grad().is_some()));
        let message = attempt(|| link.forward(&wrong))
            .expect_err("an error")
            .to_string();
        let named = ["[2, 5, 3] f32", "4"]
            .iter()
            .all(|part| message.contains(part))
            || message.contains("multiple");
        assert!(named, "{message}");
    }
    assert!(attempt(|| GroupNorm::new(3, 4)).is_err());
    assert!(attempt(|| LayerNorm::builder(2).epsilon(-1.0).build()).is_err());
    assert!(attempt(|| BatchNorm::builder(2).momentum(1.5).build()).is_err());
    assert!(attempt(|| BatchNorm::builder(2).dtype(DType::I64).build()).is_err());
}

#[test]
fn a_buffer_keeps_its_shape() {
    let buffer = Buffer::new([1.0, 2.0]);
    buffer.set([3.0, 4.0]);
    assert_eq!(buffer.get().to_vec::<f64>(), [3.0, 4.0]);
    let message = attempt(|| buffer.set([1.0]))
        .expect_err("an error")
        .to_string();
    assert!(
        message.contains("the buffer is [2] f64, the value [1] f64"),
        "{message}"
    );
    assert_eq!(buffer.get().to_vec::<f64>(), [3.0, 4.0]);
}

#[test]
fn dropout_draws_anew_per_call_batch_element_and_thread() {
    let link = Dropout::new(0.5, &mut Generator::new(0));
    let x = Variable::constant([1.0; 64]);
    let draw = || link.forward(&x).to_vec::<f64>();
    let from_threads = std::thread::scope(|scope| {
        let threads = [scope.spawn(draw), scope.spawn(draw)];
        threads.map(|thread| thread.join().expect("no panic"))
    });
    assert_ne!(from_threads[0], from_threads[1]);
    assert_ne!(draw(), draw());
    let batch = Variable::constant(Array::ones([2, 64], DType::F64));
    let y = vmap(|x| link.forward(x), &batch).to_vec::<f64>();
    assert_ne!(y[..64], y[64..]);
    let again = Dropout::new(0.5, &mut Generator::new(0));
    assert_eq!(again.forward(&x).to_vec::<f64>().len(), 64);
    // A copy that a transformation makes goes on in the same stream.
    let weighted = (link.clone(), Variable::new(x.array()));
    let loss = |(link, w): &(Dropout, Variable)| link.forward(w).sum(..);
    let gradients = [(); 2].map(|()| grad(loss, &weighted).1.to_vec::<f64>());
    assert_ne!(gradients[0], gradients[1]);
    assert!(attempt(|| Dropout::new(1.0, &mut Generator::new(0))).is_err());
}

#[test]
fn an_embedding_learns_the_rows_it_is_asked_for() {
    let builder = Embedding::builder(3, 2).padding(1).dtype(DType::F64);
    let table = builder.build(&mut Generator::new(0));
    assert_eq!(table.weight.to_vec::<f64>()[2..4], [0.0, 0.0]);
    let y = table.forward(&Variable::constant([0i64, 1, 0]));
    assert_eq!(y.shape(), [3, 2]);
    y.sum(..).backward();
    let gradient = table.weight.grad().expect("a gradient");
    assert_eq!(gradient.to_vec::<f64>(), [2.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
    assert!(attempt(|| table.forward(&Variable::constant([3i64]))).is_err());
    assert!(attempt(|| table.forward(&Variable::constant([0.5]))).is_err());
}
