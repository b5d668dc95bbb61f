"""The numbers of PyTorch for the names in the tables of the chapter from-pytorch.md; tests/bibun/tables/mod.rs
holds them against bibun's.

    python of_pytorch.py
"""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim import lr_scheduler as lrs

from common import row, wave, write

torch.set_default_dtype(torch.float64)


def t(*shape, seed=0):
    return torch.tensor(wave(*shape, seed=seed))


def n(x):
    return x.detach().numpy()


def both(f, *inputs):
    """A result and the gradients of its sum."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    y = f(*inputs)
    return [n(y), *map(n, torch.autograd.grad(y.sum(), inputs))]


x, y = t(2, 3), t(2, 3, seed=1)

# Idioms
w = x.clone().requires_grad_()
(w**3).sum().backward()
(w**2).sum().backward()
row("x.grad", n(w.grad))
row("x.item()", x[0, 1].item())
row("x.tolist()", x.tolist())
p = nn.Parameter(x.clone())
(p**2).sum().backward()
optim.SGD([p], lr=0.1).step()
row("loss.backward(); optimizer.step()", n(p))
w = x.clone().requires_grad_()
(g,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
row("torch.autograd.grad", n(g))
row("create_graph=True", n(torch.autograd.grad(g.sum(), w)[0]))
w = x.clone().requires_grad_()
h = w * 2
h.register_hook(lambda g: g * 10)
h.retain_grad()
(h**2).sum().backward()
row("x.register_hook", n(w.grad))
row("x.retain_grad", n(h.grad))
w = x.clone().requires_grad_()
torch.utils.checkpoint.checkpoint(lambda w: w.sin().exp(), w, use_reentrant=False).sum().backward()
row("torch.utils.checkpoint", n(w.grad))
f = lambda x: (x.sin() * x).sum()
row("torch.func.grad", n(torch.func.grad(f)(x)))
row("vmap", n(torch.func.vmap(f)(x)))
row("jvp", *map(n, torch.func.jvp(f, (x,), (y,))))
value, pull = torch.func.vjp(lambda x: x.exp(), x)
row("vjp", n(value), n(pull(y)[0]))
g = lambda x: torch.stack([x.sin().sum(), (x * x).sum()])
row("torch.func.jacrev", n(torch.func.jacrev(g)(x)))
row("jacfwd", n(torch.func.jacfwd(g)(x)))
row("hessian", n(torch.func.hessian(lambda x: (x**3).sum() * x[0])(t(3))))

# Modules
def weights(module):
    with torch.no_grad():
        for i, (_, p) in enumerate(module.named_parameters()):
            p.copy_(t(*p.shape, seed=i + 5))
    return module


row("nn.Linear", n(weights(nn.Linear(3, 4))(x)))
images = t(2, 4, 5, 6)
conv = weights(nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2))
row("nn.Conv2d", n(conv(images)))
conv = weights(nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1))
row("nn.ConvTranspose2d", n(conv(images)))
row("nn.Embedding", n(weights(nn.Embedding(5, 3))(torch.tensor([[1, 4], [0, 1]]))))
for name, norm, z in [("nn.BatchNorm1d", nn.BatchNorm1d(3), x), ("2d", nn.BatchNorm2d(4), images),
                      ("3d", nn.BatchNorm3d(2), t(3, 2, 1, 2, 3))]:
    weights(norm)
    first, second = norm(z), norm(z + 1)
    row(name, n(first), n(norm.running_mean), n(norm.running_var), n(norm.eval()(z)))
row("nn.LayerNorm", n(weights(nn.LayerNorm(3))(x)))
row("nn.GroupNorm", n(weights(nn.GroupNorm(2, 4))(images)))
row("nn.InstanceNorm2d", n(weights(nn.InstanceNorm2d(4, affine=True))(images)))
row("nn.RMSNorm", n(weights(nn.RMSNorm(3, eps=1e-5))(x)))
sequence = t(2, 3, 2)
for name, kind in [("nn.RNN", nn.RNN), ("nn.LSTM", nn.LSTM), ("nn.GRU", nn.GRU)]:
    net = weights(kind(2, 4, batch_first=True))
    row(name, n(net(sequence)[0]))
cell = weights(nn.LSTMCell(2, 4))
row("nn.LSTMCell", *map(n, cell(sequence[:, 0], cell(sequence[:, 1]))))
cell = weights(nn.GRUCell(2, 4))
row("nn.GRUCell", n(cell(sequence[:, 0], cell(sequence[:, 1]))))
attention = weights(nn.MultiheadAttention(4, 2, batch_first=True))
z = t(2, 3, 4)
row("nn.MultiheadAttention", n(attention(z, z, z)[0]))
layer = weights(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True))
row("nn.TransformerEncoderLayer", n(layer(z)))
row("nn.Sequential", n(nn.Sequential(weights(nn.Linear(3, 4)), nn.ReLU(), weights(nn.Linear(4, 2)))(x)))
layer = torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))
with torch.no_grad():
    layer.bias.copy_(t(4, seed=7))
    layer.parametrizations.weight.original0.copy_(t(4, 1, seed=5))
    layer.parametrizations.weight.original1.copy_(t(4, 3, seed=6))
row("weight_norm", n(layer(x)))
layer = weights(nn.Linear(3, 4))
w = layer.weight
layer = torch.nn.utils.parametrizations.spectral_norm(layer, n_power_iterations=200)
row("spectral_norm", n(layer(x)), n(torch.autograd.grad((layer(x) ** 2).sum(), w)[0]))

# Functions
for name in ["relu", "gelu", "silu", "elu", "softplus", "hardsigmoid", "hardswish"]:
    w = (x * 2).requires_grad_()
    z = getattr(F, name)(w)
    row("F." + name, n(z), n(torch.autograd.grad(z.sum(), w)[0]))
row('F.gelu(approximate="tanh")', n(F.gelu(x, approximate="tanh")))
row("F.leaky_relu(x, 0.01)", n(F.leaky_relu(x, 0.01)))
row("F.softmax(x, dim)", n(F.softmax(x, 1)))
row("F.log_softmax", n(F.log_softmax(x, 1)))
row("F.softmin", *both(lambda x: F.softmin(x, 1), x))
row("F.glu", *both(lambda x: F.glu(x, 1), t(3, 4)))
classes = torch.tensor([2, 0])
row("F.cross_entropy", n(F.cross_entropy(x, classes)), n(F.cross_entropy(x[0], classes[0])),
    n(F.cross_entropy(images, torch.arange(60).reshape(2, 5, 6) % 4)), n(F.cross_entropy(x, y.softmax(1))))
row("F.nll_loss", n(F.nll_loss(x, classes)))
row("`weight=`, `ignore_index=` of the cross entropies", *(n(F.cross_entropy(t(4, 3), torch.tensor([2, 0, -1, 1]), ignore_index=-1, weight=t(3).abs(),
                                  reduction=reduction)) for reduction in ["none", "sum", "mean"]),
    n(F.cross_entropy(x, y.softmax(1), weight=t(3).abs())),
    n(F.nll_loss(x, classes, weight=t(3).abs())))
row("F.binary_cross_entropy_with_logits", n(F.binary_cross_entropy_with_logits(x, y.sigmoid())))
row("F.mse_loss", n(F.mse_loss(x, y)))
row("F.l1_loss", n(F.l1_loss(x, y)))
row("F.huber_loss", n(F.huber_loss(x, y, delta=0.7)))
row('reduction="none"', n(F.mse_loss(x, y, reduction="none")), n(F.l1_loss(x, y, reduction="none")),
    n(F.huber_loss(x, y, reduction="none")), n(F.cross_entropy(x, classes, reduction="none")),
    n(F.cross_entropy(x[0], classes[0], reduction="none")),
    n(F.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction="none")))
row('"sum"', n(F.mse_loss(x, y, reduction="sum")), n(F.l1_loss(x, y, reduction="sum")),
    n(F.huber_loss(x, y, reduction="sum")), n(F.cross_entropy(x, classes, reduction="sum")),
    n(F.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction="sum")))
row("`pos_weight=`, `weight=` of the binary cross entropies", *both(
    lambda x, c: F.binary_cross_entropy_with_logits(x, c, t(3, seed=4).abs(), pos_weight=t(3, seed=5).abs()), x, y.sigmoid()))
smooth = lambda classes, **more: n(F.cross_entropy(t(4, 3), classes, ignore_index=-1, label_smoothing=0.1, **more))
row("`label_smoothing=` of `F.cross_entropy`", smooth(torch.tensor([2, 0, -1, 1])),
    smooth(torch.tensor([2, 0, -1, 1]), weight=t(3).abs()), smooth(t(4, 3, seed=1).softmax(1), weight=t(3).abs()))
row("F.binary_cross_entropy", *both(F.binary_cross_entropy, (x * 0.5).sigmoid(), y.sigmoid()))
row("F.kl_div", *both(F.kl_div, x.log_softmax(1), y.softmax(1)),
    *both(lambda x, t: F.kl_div(x, t, reduction="batchmean", log_target=True), x.log_softmax(1), y.log_softmax(1)))
signs = torch.tensor([[1.0, -1, -1], [1, 1, -1]])
row("F.soft_margin_loss", *both(lambda x: F.soft_margin_loss(x, signs), x))
row("F.hinge_embedding_loss", *both(lambda x: F.hinge_embedding_loss(x, signs, 0.7), x))
row("F.margin_ranking_loss", *both(lambda x, y: F.margin_ranking_loss(x, y, signs, 0.3), x, y))
row("F.cosine_embedding_loss", *both(lambda x, y: F.cosine_embedding_loss(x, y, torch.tensor([1, -1]), -0.5), x, y))
triplet = x, y, t(2, 3, seed=2)
row("F.triplet_margin_loss", *both(lambda a, p, n: F.triplet_margin_loss(a, p, n, eps=0), *triplet),
    *both(lambda a, p, n: F.triplet_margin_loss(a, p, n, margin=3, p=3, swap=True, eps=0), *triplet))
row("F.multi_margin_loss", *both(lambda x: F.multi_margin_loss(x, classes), x),
    *both(lambda x: F.multi_margin_loss(x, classes, p=2, margin=0.5, weight=t(3).abs()), x))
labels = torch.tensor([[2, 0, -1], [1, -1, 0]])
row("F.multilabel_margin_loss", *both(lambda x: F.multilabel_margin_loss(x, labels), x))
row("F.multilabel_soft_margin_loss", *both(
    lambda x, c: F.multilabel_soft_margin_loss(x, c, weight=t(3).abs()), x, y.sigmoid()))
counts = torch.tensor([[0.0, 1, 2], [3, 0, 5]])
row("F.poisson_nll_loss", *both(lambda x: F.poisson_nll_loss(x, counts), x),
    *both(lambda x: F.poisson_nll_loss(x, counts, full=True), x),
    *both(lambda x: F.poisson_nll_loss(x, counts, full=True, log_input=False), x.abs() + 0.5))
row("F.gaussian_nll_loss", *both(F.gaussian_nll_loss, x, y, t(2, 3, seed=2).abs()),
    *both(lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=True, eps=0.3), x, y, t(2, 3, seed=2).abs()))
of_time = lambda x: x.log_softmax(-1).transpose(0, 1)
row("F.ctc_loss", *both(lambda x: F.ctc_loss(of_time(x), torch.tensor([[1, 2, 2], [3, 1, 0]]), [6, 5], [3, 2]), t(2, 6, 4)),
    *both(lambda x: F.ctc_loss(of_time(x), torch.tensor([[1, 0, 2], [2, 1, 0]]), [6, 6], [3, 3], blank=3,
                               reduction="none"), t(2, 6, 4)))
row("F.cosine_similarity", *both(F.cosine_similarity, x, y))
row("F.pairwise_distance", *both(lambda x, y: F.pairwise_distance(x, y, eps=0), x, y))
row("torch.cdist", *(v for p in [0.5, 1, 1.5, 2, 3, float("inf")] for v in both(lambda a, b: torch.cdist(a, b, p), t(4, 3), t(3, 3).sin())))
row("F.conv2d", n(F.conv2d(images, t(6, 2, 3, 3, seed=1), t(6), stride=(2, 1), padding=1, dilation=(1, 2), groups=2)))
row("F.conv_transpose2d", n(F.conv_transpose2d(images, t(4, 3, 3, 3, seed=1), t(3), stride=2, padding=1)))
patches = F.unfold(images, (2, 3), padding=1, stride=2)
row("F.unfold", n(patches))
row("F.fold", n(F.fold(patches, (5, 6), (2, 3), padding=1, stride=2)))
row("F.max_pool2d", n(F.max_pool2d(images, 3, stride=2, padding=1)), n(F.max_pool2d(images, 2, ceil_mode=True)))
row("F.avg_pool2d", n(F.avg_pool2d(images, 3, stride=2, padding=1)))
row("F.adaptive_avg_pool2d", n(F.adaptive_avg_pool2d(images, (2, 4))))
row("F.adaptive_max_pool2d", n(F.adaptive_max_pool2d(images, (2, 4))))
row("F.interpolate", n(F.interpolate(images, scale_factor=2)), n(F.interpolate(images, (7, 4), mode="bilinear")),
    n(F.interpolate(images, (7, 4), mode="bilinear", align_corners=True)))
resized = [((7, 4), dict(mode="bicubic")), ((7, 4), dict(mode="bicubic", align_corners=True)),
           ((7, 4), dict(mode="nearest-exact")), ((3, 4), dict(mode="bilinear", antialias=True)),
           ((3, 4), dict(mode="bicubic", antialias=True))]
scaled = [dict(mode=mode) for mode in ["nearest", "nearest-exact", "bilinear", "bicubic"]]
row('`scale_factor=`, `antialias=`, `mode="bicubic"` of `F.interpolate`',
    *(n(F.interpolate(images, size, **more)) for size, more in resized),
    *(n(F.interpolate(images, scale_factor=(1.3, 0.55), **more)) for more in scaled))
places = t(2, 3, 4, 2, seed=3) * 0.8
sampled = [v for mode in ["nearest", "bilinear", "bicubic"] for padding in ["zeros", "border", "reflection"] for corners in [False, True]
           for v in both(lambda x, g: F.grid_sample(x, g, mode, padding, corners), images, places)]
volumes = t(2, 1, 3, 4, 5), t(2, 6, 1, 1, 3, seed=3) * 0.6
row("F.grid_sample", *sampled, *both(lambda x, g: F.grid_sample(x, g, align_corners=False), *volumes))
row("F.affine_grid", *both(lambda x: F.affine_grid(x, (2, 1, 3, 4), align_corners=False), t(2, 2, 3)),
    *both(lambda x: F.affine_grid(x, (2, 1, 2, 3, 4), align_corners=True), t(2, 3, 4)))
row("F.lp_pool2d", *both(lambda x: F.lp_pool2d(x, 3.0, (2, 3), stride=(1, 2)), images.abs()))
pooled, at = F.max_pool2d(images, 2, return_indices=True)
row("F.max_unpool2d", *both(lambda x: F.max_unpool2d(x, at, 2, output_size=(5, 6)), pooled))
row("F.local_response_norm", *both(lambda x: F.local_response_norm(x, 3, alpha=0.3, beta=0.7, k=1.5), images),
    *both(lambda x: F.local_response_norm(x, 2, alpha=0.2), images))
row("F.pixel_shuffle", n(F.pixel_shuffle(images, 2)))
q, k, v = t(2, 3, 4), t(2, 5, 4, seed=1), t(2, 5, 2, seed=2)
mask = t(3, 5, seed=3) > 0
row("F.scaled_dot_product_attention", n(F.scaled_dot_product_attention(q, k, v)),
    n(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)),
    n(F.scaled_dot_product_attention(q, k, v, attn_mask=t(3, 5, seed=4))),
    n(F.scaled_dot_product_attention(q, k, v, attn_mask=torch.tensor([0.0, float("-inf"), 0, 0, 1]))))
heads = t(2, 6, 3, 4), t(2, 2, 3, 4, seed=1), t(2, 2, 3, 4, seed=2)
row("`enable_gqa=`, `scale=`, `is_causal=` of `F.scaled_dot_product_attention`", *both(
    lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3, enable_gqa=True), *heads, t(3, 3, seed=3)),
    *both(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), *heads))
row("F.embedding", n(F.embedding(torch.tensor([1, 0, 1]), x)))
row("F.one_hot", n(F.one_hot(torch.tensor([1, 0, 3]), 4)))
row("torch.cat", n(torch.cat([x, y], 1)))
row("stack", n(torch.stack([x, y], 1)))
long = t(5, 2)
row("x.split([2, 3])", *map(n, long.split([2, 3])))
row("x.chunk(4)", *map(n, long.chunk(4)), *map(n, long.chunk(2)), *map(n, t(2, 9).chunk(3, 1)), *map(n, t(3).chunk(5)))
row("unbind", *map(n, x.unbind(1)))
row("x.view", n(x.view(3, 2)))
row("permute", n(images.permute(2, 0, 3, 1)))
row("transpose(a, b)", n(images.transpose(1, -1)))
row("unsqueeze", n(x.unsqueeze(1)))
row("x.expand", n(x.expand(4, 2, 3)))
row("repeat", n(x.repeat(2, 3)))
row("repeat_interleave", n(x.repeat_interleave(2, 1)))
row("torch.where", n(torch.where(x > 0, x, y)))
row("gather", n(torch.gather(x, 1, torch.tensor([[2, 0], [1, 1]]))))
row("index_select", n(torch.index_select(x, 1, torch.tensor([2, 0, 2]))))
row("scatter_add", n(torch.scatter_add(x, 1, torch.tensor([[2, 0, 2], [1, 1, 1]]), y)))
row("torch.scatter_reduce", *[
    n(torch.scatter_reduce(t(2, 3), 0, torch.tensor([[1, 0, 1], [1, 1, 1]]), y, reduce, include_self=include))
    for reduce in ["sum", "prod", "mean", "amax", "amin"] for include in [True, False]
])
row("scatter", n(torch.scatter(x, 1, torch.tensor([[2, 0]]), y[:1, :2])))
w, v = x.clone().requires_grad_(), y.clone().requires_grad_()
at = (torch.tensor([[1], [0]]), torch.tensor([2, 0, 2]))
put = w.index_put(at, v, accumulate=True)
row("x[i, j]", n(x[at]), n(images[:, torch.tensor([1, 0]), :, torch.tensor([3, -1])]), n(x[x > 0]))
row("index_put", n(put), *map(n, torch.autograd.grad((put * put).sum(), (w, v))))
row("index_copy", n(x.index_copy(1, torch.tensor([2, 0]), y[:, :2])))
row("index_fill", n(x.index_fill(1, torch.tensor([2, 0]), 0.5)))
row("masked_fill", n(x.masked_fill(x > 0, 0.5)))
row("masked_scatter", n(x.masked_scatter(x > 0, y)))
row("masked_select", n(x.masked_select(x > 0)))
row("nonzero", n(torch.nonzero(x > 0)))
row("select_scatter", n(x.select_scatter(y[0], 0, 1)))
row("diagonal_scatter", n(x.diagonal_scatter(y[0, :2], 1)))
numbers = torch.tensor([3, 1, 3, 0])
row("x.bincount", n(numbers.bincount()), n(numbers.bincount(t(4), minlength=6)))
row("unique", *map(n, torch.unique(numbers, return_inverse=True, return_counts=True)))
edges = torch.tensor([-1.0, 0.0, 0.5])
row("searchsorted", n(torch.searchsorted(edges, x)), n(torch.searchsorted(edges, edges, right=True)))
row("bucketize", n(torch.bucketize(edges, edges)), n(torch.bucketize(x, edges, right=True)))
row("torch.matmul", n(torch.matmul(images, t(4, 6, 2))))
row("einsum", n(torch.einsum("ij,kj->ik", x, y)))
row("tensordot", n(torch.tensordot(images, t(6, 3, 5), ([2, 3], [2, 0]))))
row("outer", n(torch.outer(x[0], y[1])))
w = torch.tensor([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]], requires_grad=True)
row("x.amax", n(w.amax(1)), n(torch.autograd.grad(w.amax(1).sum(), w)[0]))
row("x.max(dim)", *map(n, w.max(1)))
row("x.topk", *map(n, x.topk(2, 1)))
row("sort", n(x.sort(1)[0]))
row("cumsum", n(x.cumsum(1)))
row("cummax", *map(n, x.cummax(1)))
row("cummin", *map(n, x.cummin(1)))
row("logcumsumexp", n(x.logcumsumexp(1)))
row("diff", n(torch.diff(x, n=2)), n(torch.diff(x, dim=0, append=y[:1])))
row("torch.gradient", n(torch.gradient(x, spacing=0.5, dim=1)[0]))
row("trapezoid", n(torch.trapezoid(x, dx=0.5)), n(torch.cumulative_trapezoid(x, torch.tensor([0.0, 1, 3]))))
row("quantile", n(x.quantile(0.3, 1)), n(x.quantile(torch.tensor([0.1, 0.9]), 0)))
row("x.mode", *map(n, torch.tensor([[2.0, 1, 2, 1, 3]]).mode(1)))
row("nansum", n(torch.tensor([1.0, np.nan, 2]).nansum()))
row("nanmean", n(torch.tensor([1.0, np.nan, 2]).nanmean()))
row("bitwise_and", n(numbers & 2), n(numbers | 4), n(numbers ^ 1), n(~numbers), n(numbers << 3), n(numbers >> 1))
row('F.pad(mode="reflect")', n(F.pad(images, (1, 2, 2, 1), mode="reflect")))
row('F.pad(mode="replicate")', n(F.pad(images, (1, 2, 2, 1), mode="replicate")))
row('F.pad(mode="circular")', n(F.pad(images, (1, 2, 2, 1), mode="circular")))
row("logsumexp", n(x.logsumexp(1)))
row("x.clamp", n(x.clamp(-0.5, 1)))

# Optimizers: five steps down a bowl, each from the same place.
def steps(optimizer, count=5, before=None, **settings):
    p = nn.Parameter(t(4))
    optimizer = optimizer([p], **settings)
    for _ in range(count):
        optimizer.zero_grad()
        ((p - 0.3) ** 2 * (1 + torch.arange(4))).sum().backward()
        if before:
            before(p)
        optimizer.step()
    return n(p)


row("`SGD(lr)`, with `momentum`, with `nesterov`", steps(optim.SGD, lr=0.05),
    steps(optim.SGD, lr=0.05, momentum=0.9), steps(optim.SGD, lr=0.05, momentum=0.9, nesterov=True))
row("Adam", steps(optim.Adam, lr=0.1))
row("AdamW", steps(optim.AdamW, lr=0.1, weight_decay=0.1))
row("Adam(amsgrad=True)", steps(optim.Adam, lr=0.1, amsgrad=True))
row("Adagrad", steps(optim.Adagrad, lr=0.1))
row("Adadelta", steps(optim.Adadelta, lr=1.0, rho=0.95))
row("RMSprop", steps(optim.RMSprop, lr=0.1))
row("Rprop", steps(optim.Rprop, lr=0.1, step_sizes=(0.05, 0.2)))
p = nn.Parameter(t(4))
lbfgs = optim.LBFGS([p], lr=1, max_iter=50, tolerance_grad=1e-10, line_search_fn="strong_wolfe")


def closure():
    lbfgs.zero_grad()
    loss = ((p - 0.3) ** 2 * (1 + torch.arange(4)) + (p - 0.3) ** 4).sum()
    loss.backward()
    return loss


lbfgs.step(closure)
row("LBFGS", n(p))
row("`weight_decay=` of SGD and Adam", steps(optim.SGD, lr=0.05, weight_decay=0.1), steps(optim.Adam, lr=0.1, weight_decay=0.1))
row("clip_grad_norm_", steps(optim.SGD, lr=0.05, before=lambda p: nn.utils.clip_grad_norm_([p], 1.0)))
row("clip_grad_value_", steps(optim.SGD, lr=0.05, before=lambda p: nn.utils.clip_grad_value_([p], 1.0)))


def rates(scheduler, count=20, lr=1.0):
    optimizer = optim.SGD([nn.Parameter(t(1))], lr=lr, momentum=0.9)
    scheduler = scheduler(optimizer)
    found = []
    for _ in range(count):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


row("StepLR", rates(lambda o: lrs.StepLR(o, 4, 0.5)))
row("MultiStepLR", rates(lambda o: lrs.MultiStepLR(o, [3, 7], 0.1)))
row("ExponentialLR", rates(lambda o: lrs.ExponentialLR(o, 0.9)))
row("CosineAnnealingLR", rates(lambda o: lrs.CosineAnnealingLR(o, 20, eta_min=0.1)))
row("CosineAnnealingWarmRestarts", rates(lambda o: lrs.CosineAnnealingWarmRestarts(o, 3, 2)))
row("OneCycleLR", rates(lambda o: lrs.OneCycleLR(o, 1.0, total_steps=20)))
row("LinearLR", rates(lambda o: lrs.LinearLR(o, 1 / 5, 1.0, 4)), rates(lambda o: lrs.LinearLR(o, 1.0, 0.25, 8)))
row("PolynomialLR", rates(lambda o: lrs.PolynomialLR(o, 10, 2.0)))
row("SequentialLR", rates(lambda o: lrs.SequentialLR(
    o, [lrs.ExponentialLR(o, 0.9), lrs.StepLR(o, 4, 0.5)], [5])))
row("ChainedScheduler", rates(lambda o: lrs.ChainedScheduler(
    [lrs.ExponentialLR(o, 0.9), lrs.StepLR(o, 4, 0.5)])))
optimizer = optim.SGD([nn.Parameter(t(1))], lr=1.0)
plateau = lrs.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
found = []
for metric in [3, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1]:
    plateau.step(metric)
    found.append(optimizer.param_groups[0]["lr"])
row("ReduceLROnPlateau", found)

# Initializers: how far the weights [400, 300] are spread, and the largest of uniform ones.
def spread(f, shape=(400, 300)):
    torch.manual_seed(0)
    w = torch.empty(shape)
    f(w)
    return [w.std().item()]


tanh = nn.init.calculate_gain("tanh")
row("kaiming_normal_", spread(lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu")),
    spread(lambda w: nn.init.kaiming_normal_(w, a=0.2, mode="fan_out")))
row("kaiming_uniform_", spread(lambda w: nn.init.kaiming_uniform_(w, nonlinearity="relu")),
    spread(lambda w: nn.init.kaiming_uniform_(w, a=0.2, mode="fan_out")))
row("xavier_normal_", spread(nn.init.xavier_normal_), spread(lambda w: nn.init.xavier_normal_(w, gain=tanh)))
row("xavier_uniform_", spread(nn.init.xavier_uniform_), spread(lambda w: nn.init.xavier_uniform_(w, gain=tanh)))
row("trunc_normal_", spread(nn.init.trunc_normal_))
row("sparse_", spread(lambda w: nn.init.sparse_(w, 0.3)))
w = torch.empty(3, 5)
nn.init.orthogonal_(w)
row("orthogonal_", n(w @ w.T))
row("dirac_", n(nn.init.dirac_(torch.empty(4, 2, 3, 3))))
layer = nn.Linear(300, 400)
row("the default of `nn.Linear`", [layer.weight.std().item()], [layer.bias.std().item()])

write("pytorch.json", {"torch": torch.__version__, "numpy": np.__version__})
