//! What bibun has for PyTorch's losses and functions of networks.

use bibun::functions::{self as f, *};
use bibun::links::{Linear, Link, SpectralNorm};
use bibun::{Variable, gradients, s};

use super::*;

pub(super) fn losses(cases: &mut Cases) {
    let (x, y, images) = (wave([2, 3], 0), wave([2, 3], 1), wave([2, 4, 5, 6], 0));
    let classes = Variable::constant([2i64, 0]);
    let (one, class) = (x.slice(s![0]), Variable::constant(2i64));
    let pixels = (0..60).map(|i| i % 4).collect::<Vec<i64>>();
    let pixels = Variable::constant(Array::from_vec(pixels, [2, 5, 6]));
    let found = [
        f::softmax_cross_entropy(&x, &classes),
        f::softmax_cross_entropy(&one, &class),
        f::softmax_cross_entropy(&images, pixels),
        f::softmax_cross_entropy(&x, y.softmax(1)),
    ];
    cases.row("F.cross_entropy", found);
    cases.row("F.nll_loss", [f::nll_loss(&x, &classes)]);
    let options = |reduction| CrossEntropyOptions {
        reduction,
        class_weight: Some(wave(3, 0).abs()),
        ..Default::default()
    };
    let of_four = |reduction| {
        let t = Variable::constant([2i64, 0, -1, 1]);
        f::softmax_cross_entropy_with(wave([4, 3], 0), t, options(reduction))
    };
    let found = [
        of_four(Reduction::None),
        of_four(Reduction::Sum),
        of_four(Reduction::Mean),
        f::softmax_cross_entropy_with(&x, y.softmax(1), options(Reduction::Mean)),
        f::nll_loss_with(&x, &classes, options(Reduction::Mean)),
    ];
    cases.row("`weight=`, `ignore_index=` of the cross entropies", found);
    let chances = y.sigmoid();
    cases.row(
        "F.binary_cross_entropy_with_logits",
        [f::sigmoid_cross_entropy(&x, &chances)],
    );
    let with = |x: &Variable, t: &Variable| {
        let options = BinaryCrossEntropyOptions::new().weight(wave(3, 4).abs());
        f::sigmoid_cross_entropy_with(x, t, options.pos_weight(wave(3, 5).abs()))
    };
    let found = both(|x| with(&x[0], &x[1]), &[&x, &chances]);
    cases.row(
        "`pos_weight=`, `weight=` of the binary cross entropies",
        found,
    );
    let smooth = |classes: &Variable, weight: Option<Variable>| {
        let options = CrossEntropyOptions {
            class_weight: weight,
            ..CrossEntropyOptions::new().label_smoothing(0.1)
        };
        f::softmax_cross_entropy_with(wave([4, 3], 0), classes, options)
    };
    let of_four = Variable::constant([2i64, 0, -1, 1]);
    let found = [
        smooth(&of_four, None),
        smooth(&of_four, Some(wave(3, 0).abs())),
        smooth(&wave([4, 3], 1).softmax(1), Some(wave(3, 0).abs())),
    ];
    cases.row("`label_smoothing=` of `F.cross_entropy`", found);
    cases.row("F.mse_loss", [f::mean_squared_error(&x, &y)]);
    cases.row("F.l1_loss", [f::mean_absolute_error(&x, &y)]);
    cases.row("F.huber_loss", [f::huber_loss(&x, &y, 0.7)]);
    let all = |reduction| {
        vec![
            f::mean_squared_error_with(&x, &y, reduction),
            f::mean_absolute_error_with(&x, &y, reduction),
            f::huber_loss_with(&x, &y, 1.0, reduction),
            f::softmax_cross_entropy_with(&x, &classes, reduction),
            f::sigmoid_cross_entropy_with(&x, &chances, reduction),
        ]
    };
    let mut each = all(Reduction::None);
    each.insert(
        4,
        f::softmax_cross_entropy_with(&one, &class, Reduction::None),
    );
    cases.row(r#"reduction="none""#, each);
    cases.row(r#""sum""#, all(Reduction::Sum));

    let probabilities = (&x * 0.5).sigmoid().detach();
    let found = both(
        |x| f::binary_cross_entropy(&x[0], &x[1]),
        &[&probabilities, &chances],
    );
    cases.row("F.binary_cross_entropy", found);
    let (log_p, log_t) = (x.log_softmax(1).detach(), y.log_softmax(1).detach());
    let logarithms = |reduction| KlDivOptions::from(reduction).log_target(true);
    let mut found = both(
        |x| f::kl_div(&x[0], &x[1]),
        &[&log_p, &log_t.exp().detach()],
    );
    found.extend(both(
        |x| f::kl_div_with(&x[0], &x[1], logarithms(Reduction::Sum)) / 2.0,
        &[&log_p, &log_t],
    ));
    cases.row("F.kl_div", found);
    let signs = Variable::constant([[1.0, -1.0, -1.0], [1.0, 1.0, -1.0]]);
    let pair = [&x, &y];
    let found = both(|x| f::soft_margin_loss(&x[0], &signs), &pair[..1]);
    cases.row("F.soft_margin_loss", found);
    let found = both(|x| f::hinge_embedding_loss(&x[0], &signs, 0.7), &pair[..1]);
    cases.row("F.hinge_embedding_loss", found);
    let found = both(|x| f::margin_ranking_loss(&x[0], &x[1], &signs, 0.3), &pair);
    cases.row("F.margin_ranking_loss", found);
    let t = Variable::constant([1i64, -1]);
    let found = both(|x| f::cosine_embedding_loss(&x[0], &x[1], &t, -0.5), &pair);
    cases.row("F.cosine_embedding_loss", found);
    let z = wave([2, 3], 2);
    let options = TripletMarginOptions::new().margin(3.0).p(3.0).swap(true);
    let triplet = [&x, &y, &z];
    let mut found = both(|x| f::triplet_margin_loss(&x[0], &x[1], &x[2]), &triplet);
    found.extend(both(
        |x| f::triplet_margin_loss_with(&x[0], &x[1], &x[2], &options),
        &triplet,
    ));
    cases.row("F.triplet_margin_loss", found);
    let options = MultiMarginOptions::new().p(2).margin(0.5);
    let options = options.class_weight(wave(3, 0).abs());
    let mut found = both(|x| f::multi_margin_loss(&x[0], &classes), &pair[..1]);
    found.extend(both(
        |x| f::multi_margin_loss_with(&x[0], &classes, &options),
        &pair[..1],
    ));
    cases.row("F.multi_margin_loss", found);
    let labels = Variable::constant([[2i64, 0, -1], [1, -1, 0]]);
    let found = both(|x| f::multilabel_margin_loss(&x[0], &labels), &pair[..1]);
    cases.row("F.multilabel_margin_loss", found);
    let options = MultilabelSoftMarginOptions::new().class_weight(wave(3, 0).abs());
    let found = both(
        |x| f::multilabel_soft_margin_loss_with(&x[0], &x[1], &options),
        &[&x, &chances],
    );
    cases.row("F.multilabel_soft_margin_loss", found);
    let counts = Variable::constant([[0.0, 1.0, 2.0], [3.0, 0.0, 5.0]]);
    let options = PoissonNllOptions::new().full(true);
    let mut found = both(|x| f::poisson_nll_loss(&x[0], &counts), &pair[..1]);
    found.extend(both(
        |x| f::poisson_nll_loss_with(&x[0], &counts, &options),
        &pair[..1],
    ));
    found.extend(both(
        |x| f::poisson_nll_loss_with(&x[0], &counts, options.clone().log_input(false)),
        &[&(x.abs() + 0.5).detach()],
    ));
    cases.row("F.poisson_nll_loss", found);
    let variance = wave([2, 3], 2).abs().detach();
    let options = GaussianNllOptions::new().full(true).eps(0.3);
    let mut found = both(
        |x| f::gaussian_nll_loss(&x[0], &x[1], &x[2]),
        &[&x, &y, &variance],
    );
    found.extend(both(
        |x| f::gaussian_nll_loss_with(&x[0], &x[1], &x[2], &options),
        &[&x, &y, &variance],
    ));
    cases.row("F.gaussian_nll_loss", found);
    let scores = wave([2, 6, 4], 0);
    let labels = Variable::constant([[1i64, 2, 2], [3, 1, 0]]);
    let options = CtcOptions::new().input_lengths([6i64, 5]);
    let options = options.target_lengths([3i64, 2]);
    let of_three = Variable::constant([[1i64, 0, 2], [2, 1, 0]]);
    let last = CtcOptions::from(Reduction::None).blank(3);
    let mut found = both(
        |x| f::ctc_loss_with(x[0].log_softmax(-1), &labels, &options),
        &[&scores],
    );
    found.extend(both(
        |x| f::ctc_loss_with(x[0].log_softmax(-1), &of_three, &last),
        &[&scores],
    ));
    cases.row("F.ctc_loss", found);
}

pub(super) fn distances(cases: &mut Cases) {
    let (x, y) = (wave([2, 3], 0), wave([2, 3], 1));
    let found = both(|x| f::cosine_similarity(&x[0], &x[1], 1), &[&x, &y]);
    cases.row("F.cosine_similarity", found);
    let found = both(|x| f::pairwise_distance(&x[0], &x[1], 2.0), &[&x, &y]);
    cases.row("F.pairwise_distance", found);
    let (a, b) = (wave([4, 3], 0), wave([3, 3], 0).sin().detach());
    let orders = [0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY];
    let found = orders.map(|p| both(|x| f::cdist(&x[0], &x[1], p), &[&a, &b]));
    cases.row("torch.cdist", found.concat());
}

pub(super) fn activations(cases: &mut Cases) {
    let (x, long) = (wave([2, 3], 0), wave([3, 4], 0));
    cases.row("F.softmin", both(|x| f::softmin(&x[0], 1), &[&x]));
    cases.row("F.glu", both(|x| f::glu(&x[0], 1), &[&long]));
}

pub(super) fn attention(cases: &mut Cases) {
    let (query, bias) = (wave([2, 6, 3, 4], 0), wave([3, 3], 3));
    let [key, value] = [1, 2].map(|seed| wave([2, 2, 3, 4], seed));
    let options = AttentionOptions::new().grouped_queries(true);
    let mut found = both(
        |x| f::attention_with(&x[0], &x[1], &x[2], &x[3], options.scale(0.3)),
        &[&query, &key, &value, &bias],
    );
    found.extend(both(
        |x| f::attention_with(&x[0], &x[1], &x[2], None, options.causal(true)),
        &[&query, &key, &value],
    ));
    let name = "`enable_gqa=`, `scale=`, `is_causal=` of `F.scaled_dot_product_attention`";
    cases.row(name, found);
}

pub(super) fn pooling(cases: &mut Cases) {
    let images = wave([2, 4, 5, 6], 0);
    let resized = [
        ([7, 4], Interpolation::CUBIC),
        ([7, 4], Interpolation::CUBIC_ALIGN_CORNERS),
        ([7, 4], Interpolation::NearestExact),
        ([3, 4], Interpolation::LinearAntialiased),
        ([3, 4], Interpolation::CubicAntialiased),
    ];
    let resized = resized.map(|(size, mode)| f::interpolate(&images, size, mode));
    let scaled = [
        Interpolation::Nearest,
        Interpolation::NearestExact,
        Interpolation::LINEAR,
        Interpolation::CUBIC,
    ];
    let scaled = scaled.map(|mode| f::interpolate_by(&images, [1.3, 0.55], mode));
    let name = "`scale_factor=`, `antialias=`, `mode=\"bicubic\"` of `F.interpolate`";
    cases.row(name, [&resized[..], &scaled[..]].concat());

    let places = (wave([2, 3, 4, 2], 3) * 0.8).detach();
    let mut found = Vec::new();
    for mode in [GridMode::Nearest, GridMode::Linear, GridMode::Cubic] {
        let paddings = [
            GridPadding::Zeros,
            GridPadding::Border,
            GridPadding::Reflection,
        ];
        for padding in paddings {
            for align_corners in [false, true] {
                let options = GridSampleOptions::new().mode(mode).padding(padding);
                let options = options.align_corners(align_corners);
                let sample = |x: &[Variable]| f::grid_sample(&x[0], &x[1], options);
                found.extend(both(sample, &[&images, &places]));
            }
        }
    }
    let volumes = wave([2, 1, 3, 4, 5], 0);
    let places = (wave([2, 6, 1, 1, 3], 3) * 0.6).detach();
    let sample = |x: &[Variable]| f::grid_sample(&x[0], &x[1], GridSampleOptions::new());
    found.extend(both(sample, &[&volumes, &places]));
    cases.row("F.grid_sample", found);
    let (plane, space) = (wave([2, 2, 3], 0), wave([2, 3, 4], 0));
    let mut found = both(|x| f::affine_grid(&x[0], [3, 4], false), &[&plane]);
    found.extend(both(|x| f::affine_grid(&x[0], [2, 3, 4], true), &[&space]));
    cases.row("F.affine_grid", found);
    let windows = Pooling::new([2, 3]).stride([1, 2]);
    let sizes = images.abs().detach();
    cases.row(
        "F.lp_pool2d",
        both(|x| f::lp_pool(&x[0], 3.0, windows.clone()), &[&sizes]),
    );
    let (pooled, at) = f::max_pool_with_indices(&images, [2, 2]);
    let found = both(|x| f::max_unpool(&x[0], &at, [5, 6]), &[&pooled.detach()]);
    cases.row("F.max_unpool2d", found);
    let response = |x: &Variable, size: usize, k, alpha: f64, beta| {
        f::local_response_normalization(x, size, k, alpha / size as f64, beta)
    };
    let mut found = both(|x| response(&x[0], 3, 1.5, 0.3, 0.7), &[&images]);
    found.extend(both(|x| response(&x[0], 2, 1.0, 0.2, 0.75), &[&images]));
    cases.row("F.local_response_norm", found);
}

pub(super) fn links(cases: &mut Cases) {
    let generator = &mut random();
    let linear = Linear::builder(3, 4).dtype(DType::F64).build(generator);
    let layer = SpectralNorm::new(waves(linear), generator).power_iterations(200);
    let x = wave([2, 3], 0);
    let y = layer.forward(&x);
    let slope = gradients(&[&y.square().sum(..)], &[&layer.link.weight]);
    let slope = slope[0].clone().expect("a gradient");
    cases.row("spectral_norm", [y.detach(), slope]);
}

/// A result and the gradients of its sum, which are zero where there is no way.
fn both(call: impl Fn(&[Variable]) -> Variable, inputs: &[&Variable]) -> Vec<Variable> {
    let inputs: Vec<Variable> = inputs.iter().map(|x| Variable::new(x.array())).collect();
    let y = call(&inputs);
    let wanted: Vec<&Variable> = inputs.iter().collect();
    let found = gradients(&[&y.sum(..)], &wanted).into_iter().zip(&inputs);
    let found = found.map(|(gradient, x)| gradient.unwrap_or_else(|| f::zeros_like(x)));
    std::iter::once(y.detach()).chain(found).collect()
}
