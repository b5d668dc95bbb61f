"""The numbers of Chainer for the names in the tables of the chapter from-chainer.md; tests/bibun/tables/mod.rs
holds them against bibun's.

    python of_chainer.py
"""

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer import initializers as I
from chainer import optimizer_hooks as hooks
from chainer import optimizers as O
from chainer.training import extensions

from common import row, wave, write

chainer.config.dtype = np.float64


def t(*shape, seed=0):
    return chainer.Variable(wave(*shape, seed=seed))


x, y = t(2, 3), t(2, 3, seed=1)
f = lambda x: F.sum(F.sin(x) * x)

# Idioms
w = t(2, 3)
F.sum(w**3).backward()
F.sum(w**2).backward()
row("x.grad", w.grad)
row("x.array", x.array)
h = (w * 2)
F.sum(h**2).backward(retain_grad=True)
row("retain_grad=True", h.grad)
(g,) = chainer.grad([F.sum(w**3)], [w], enable_double_backprop=True)
row("chainer.grad", g.array)
row("enable_double_backprop=True", chainer.grad([F.sum(g)], [w])[0].array)
w = t(2, 3)
F.sum(F.forget(lambda w: F.exp(F.sin(w)), w)).backward()
row("F.forget", w.grad)

# Functions
images = t(2, 4, 5, 6)
a = lambda *shape, seed=0: wave(*shape, seed=seed)
row("F.convolution_2d", F.convolution_2d(images, a(6, 2, 3, 3, seed=1), a(6), (2, 1), 1, groups=2).array)
row("F.deconvolution_2d", F.deconvolution_2d(images, a(4, 3, 3, 3, seed=1), a(3), 2, 1).array)
row("F.dilated_convolution_2d", F.dilated_convolution_2d(images, a(6, 4, 3, 3, seed=1), a(6), 1, 2, 2).array)
row("F.im2col", F.im2col(images, (2, 3), 2, 1).array)
row("F.max_pooling_2d", F.max_pooling_2d(images, 3, 2, 1, cover_all=False).array, F.max_pooling_2d(images, 3).array)
row("F.max_pooling_nd", F.max_pooling_nd(t(1, 2, 3, 4, 5), 2, 1, cover_all=False).array)
row("F.average_pooling_2d", F.average_pooling_2d(images, 3, 2, 1).array)
row("F.average_pooling_nd", F.average_pooling_nd(t(1, 2, 3, 4, 5), 2, 1).array)
single = images.array.astype(np.float32)
row("F.resize_images", F.resize_images(single, (7, 4)).array, F.resize_images(single, (7, 4), align_corners=False).array)
row("F.depth2space", F.depth2space(t(2, 8, 2, 3), 2).array)
row("F.space2depth", F.space2depth(t(2, 2, 4, 6), 2).array)
row("F.embed_id", F.embed_id(np.array([1, 0, 1], "i"), x).array)
row("F.transpose(x, axes)", F.transpose(images, (2, 0, 3, 1)).array)
row("F.swapaxes", F.swapaxes(images, 1, -1).array)
row("F.moveaxis", F.moveaxis(images, 1, -1).array)
row("F.get_item", F.get_item(x, (slice(None), slice(1, 3))).array, F.get_item(x, np.array([1, 0, 1])).array)
row("F.split_axis", *(z.array for z in F.split_axis(t(6, 2), 3, 0)), *(z.array for z in F.split_axis(t(6, 2), [1, 4], 0)))
row("F.where", F.where(x.array > 0, x, y).array)
row("F.batch_matmul", F.batch_matmul(a(2, 3, 4).astype("f"), a(2, 4, 2).astype("f")).array)
row("F.absolute", F.absolute(x).array)
row("F.fix", F.fix(x).array)
row("F.fmod", F.fmod(x * 3, y).array)
row("F.log_softmax", F.log_softmax(x).array)
row("F.softmax", F.softmax(x).array)
row("F.arctan2", F.arctan2(x, y).array)
row("F.sum", F.sum(x, axis=1).array)
row("axis=None", F.sum(x, axis=None).array)
row("F.hard_sigmoid", F.hard_sigmoid(x * 2).array)
row("F.huber_loss", F.huber_loss(x, y, 0.7).array, F.huber_loss(x, y, 0.7, reduce="no").array)
classes = np.array([2, 0, -1, 1], "i")
weight = np.abs(a(3))
row("`class_weight=` of `F.softmax_cross_entropy`", F.softmax_cross_entropy(t(4, 3), classes, class_weight=weight).array,
    F.softmax_cross_entropy(t(4, 3), classes, class_weight=weight, reduce="no").array,
    F.softmax_cross_entropy(t(4, 3), classes).array)


# Links
def weights(link):
    for i, (_, p) in enumerate(sorted(link.namedparams())):
        p.array[...] = wave(*p.shape, seed=i + 5)
    return link


row("L.Linear", weights(L.Linear(3, 4))(x).array)
row("L.Convolution2D", weights(L.Convolution2D(4, 6, 3, 2, 1))(images).array)
row("L.Deconvolution2D", weights(L.Deconvolution2D(4, 6, 3, 2, 1))(images).array)
row("L.DepthwiseConvolution2D", weights(L.DepthwiseConvolution2D(4, 2, 3, 2, 1))(images).array)
row("L.EmbedID", weights(L.EmbedID(5, 3))(np.array([[1, 4], [0, 1]], "i")).array)
norm = weights(L.BatchNormalization(3, eps=1e-5))
first = norm(x)
row("L.BatchNormalization", first.array, norm.avg_mean, norm.avg_var)
row("L.LayerNormalization", weights(L.LayerNormalization(3, eps=1e-5))(x).array)
row("L.GroupNormalization", weights(L.GroupNormalization(2, 4))(images).array)
cell = weights(L.LSTM(2, 4))
row("L.LSTM", *(cell(t(3, 2, seed=step)).array for step in range(2)))
sequences = [t(3, 2), t(3, 2, seed=1)]
zeros = lambda layers: np.zeros((layers, 2, 4))
for name, link, directions in [("L.NStepLSTM", L.NStepLSTM, 1), ("L.NStepBiLSTM", L.NStepBiLSTM, 2)]:
    outputs = weights(link(1, 2, 4, 0.0))(zeros(directions), zeros(directions), sequences)[2]
    row(name, *(y.array for y in outputs))
for name, link in [("L.NStepGRU", L.NStepGRU), ("L.NStepRNNTanh", L.NStepRNNTanh), ("L.NStepRNNReLU", L.NStepRNNReLU)]:
    row(name, *(y.array for y in weights(link(1, 2, 4, 0.0))(zeros(1), sequences)[1]))
row("L.Maxout", weights(L.Maxout(3, 2, 4))(x).array)
row("L.Highway", weights(L.Highway(3))(x).array)
row("L.Parameter", L.Parameter(a(2, 3))().array)


# Optimizers: five steps down a bowl.
class Bowl(chainer.Link):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.w = chainer.Parameter(wave(4))


def steps(optimizer, count=5, *added):
    link = Bowl()
    optimizer.setup(link)
    for hook in added:
        optimizer.add_hook(hook)
    for _ in range(count):
        link.cleargrads()
        F.sum((link.w - 0.3) ** 2 * (1.0 + np.arange(4.0))).backward()
        optimizer.update()
    return link.w.array


row("SGD", steps(O.SGD(0.05)))
row("MomentumSGD", steps(O.MomentumSGD(0.05, 0.9)))
row("NesterovAG", steps(O.NesterovAG(0.05, 0.9)))
row("AdaGrad", steps(O.AdaGrad(0.1)))
row("AdaDelta", steps(O.AdaDelta(0.95)))
row("RMSprop", steps(O.RMSprop(0.1)))
row("RMSpropGraves", steps(O.RMSpropGraves(0.01)))
row("SMORMS3", steps(O.SMORMS3(0.1)))
row("Adam", steps(O.Adam(0.1)))
row("AMSGrad", steps(O.AMSGrad(0.1)))
row("AdamW", steps(O.AdamW(0.1, weight_decay_rate=0.01, eta=1.0)))
row("WeightDecay", steps(O.SGD(0.05), 5, hooks.WeightDecay(0.1)))
row("Lasso", steps(O.SGD(0.05), 5, hooks.Lasso(0.1)))
row("GradientClipping", steps(O.SGD(0.05), 5, hooks.GradientClipping(1.0)))
row("GradientHardClipping", steps(O.SGD(0.05), 5, hooks.GradientHardClipping(-1.0, 1.0)))


def spread(initializer):
    np.random.seed(0)
    w = np.empty((400, 300))
    initializer(w)
    return [w.std()]


row("LeCunNormal", spread(I.LeCunNormal()))
row("GlorotUniform", spread(I.GlorotUniform()))
row("HeNormal", spread(I.HeNormal()))
row("Normal", spread(I.Normal(0.05)))
row("Uniform", spread(I.Uniform(0.05)))
w = np.empty((3, 5))
I.Orthogonal()(w)
row("Orthogonal", w @ w.T)
for name, initializer in [("Identity", I.Identity(2.0)), ("Constant", I.Constant(0.5)), ("Zero", I.Zero()), ("One", I.One())]:
    w = np.empty((3, 3))
    initializer(w)
    row(name, w)
w = np.empty((2, 2, 4, 4))
I.UpsamplingDeconvFilter()(w)
row("UpsamplingDeconvFilter", w)


# Schedules: the rate of ten steps.
class Trainer:
    def __init__(self, optimizer):
        self.optimizer = optimizer


for name, make in [
    ("ExponentialShift", lambda o: extensions.ExponentialShift("lr", 0.9, optimizer=o)),
    ("LinearShift", lambda o: extensions.LinearShift("lr", (1.0, 0.25), (0, 8), optimizer=o)),
    ("PolynomialShift", lambda o: extensions.PolynomialShift("lr", 2.0, 10, optimizer=o)),
    ("StepShift", lambda o: extensions.StepShift("lr", 0.5, 4, optimizer=o)),
    ("WarmupShift", lambda o: extensions.WarmupShift("lr", 0.2, 4, 1.0, optimizer=o)),
]:
    optimizer = O.SGD(1.0)
    optimizer.setup(Bowl())
    extension = make(optimizer)
    extension.initialize(Trainer(optimizer))
    found = []
    for _ in range(10):
        found.append(optimizer.lr)
        extension(Trainer(optimizer))
    row(name, found)

write("chainer.json", {"chainer": chainer.__version__, "numpy": np.__version__})
