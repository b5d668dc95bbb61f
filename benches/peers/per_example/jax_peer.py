"""Gradients of examples in JAX: vmap(grad), and a loop, all jitted.

Pictures have their channels last here, as XLA's convolutions on a CPU want them.
"""

from functools import partial

import jax
import numpy
from jax import lax
from jax import numpy as jnp
from safetensors.numpy import load_file

from worker import serve
from workloads import CIFAR_CHANNELS, CONVOLUTIONS, RESNET_BLOCKS


def conv(x, w, stride=1, padding=0, dilation=1, groups=1):
    return lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        [(padding, padding)] * 2,
        rhs_dilation=(dilation, dilation),
        feature_group_count=groups,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def conv_layer(p, name, x, **options):
    return conv(x, p[f"{name}/weight"], **options) + p[f"{name}/bias"]


def linear(p, name, x):
    return x @ p[f"{name}/weight"].T + p[f"{name}/bias"]


def windows(x, operation, initial, stride):
    return lax.reduce_window(x, initial, operation, (1, 2, 2, 1), (1, stride, stride, 1), "VALID")


def max_pool(x, stride):
    return windows(x, lax.max, -jnp.inf, stride)


def flatten(x):
    return x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1)


def normalize(x, axes):
    mean = x.mean(axes, keepdims=True)
    variance = jnp.square(x - mean).mean(axes, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5)


def layer_norm(p, name, x):
    return normalize(x, -1) * p[f"{name}/gamma"] + p[f"{name}/beta"]


def group_norm(p, name, x):
    groups = normalize(x.reshape(*x.shape[:3], 8, -1), (1, 2, 4)).reshape(x.shape)
    return groups * p[f"{name}/gamma"] + p[f"{name}/beta"]


relu = jax.nn.relu


def mlp(p, x):
    h = linear(p, "layers/0", x)
    h = linear(p, "layers/1", relu(h))
    return linear(p, "layers/2", relu(h))


def mnist(p, x):
    h = max_pool(relu(conv_layer(p, "conv1", x, stride=2, padding=3)), 1)
    h = max_pool(relu(conv_layer(p, "conv2", h, stride=2)), 1)
    return linear(p, "linear2", relu(linear(p, "linear1", flatten(h))))


def simple(p, x):
    h = relu(conv_layer(p, "conv2", relu(conv_layer(p, "conv1", x))))
    return linear(p, "linear2", relu(linear(p, "linear1", flatten(max_pool(h, 2)))))


def cifar(p, h):
    for i in range(len(CIFAR_CHANNELS) - 1):
        if i:
            h = relu(h)
        if i and i % 2 == 0:
            h = windows(h, lax.add, 0.0, 2) / 4
        h = conv_layer(p, f"convs/{i}", h, padding=1)
    return h.mean((1, 2))


def embedding(p, words):
    return linear(p, "linear", p["table/weight"][words].mean(1))


def lstm(p, x):
    def step(state, step):
        h, c = state
        i, f, g, o = jnp.split(step + linear(p, "hidden", h), 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[0], 100), x.dtype)
    _, outputs = lax.scan(step, (zero, zero), linear(p, "input", x).swapaxes(0, 1))
    return linear(p, "head", outputs.mean(0))


def transformer(p, x):
    y = layer_norm(p, "norm1", x)
    names = ("query", "key", "value")
    q, k, v = (linear(p, name, y).reshape(*y.shape[:2], 4, 32) for name in names)
    weights = jax.nn.softmax(jnp.einsum("nqhd,nkhd->nhqk", q, k) / 32**0.5)
    x = x + linear(p, "output", jnp.einsum("nhqk,nkhd->nqhd", weights, v).reshape(x.shape))
    x = x + linear(p, "down", relu(linear(p, "up", layer_norm(p, "norm2", x))))
    return linear(p, "head", x.mean(1))


def resnet(p, x):
    h = relu(group_norm(p, "norm", conv(x, p["stem/weight"], padding=1)))
    for i, (inputs, outputs, stride) in enumerate(RESNET_BLOCKS):
        block = f"blocks/{i}"
        y = relu(group_norm(p, f"{block}/norm1", conv(h, p[f"{block}/conv1/weight"], stride, 1)))
        y = group_norm(p, f"{block}/norm2", conv(y, p[f"{block}/conv2/weight"], 1, 1))
        h = relu(y + (h if inputs == outputs else conv(h, p[f"{block}/shortcut/weight"], stride)))
    return linear(p, "linear", h.mean((1, 2)))


MODELS = {
    model.__name__: model
    for model in (mlp, mnist, simple, cifar, embedding, transformer, lstm, resnet)
}


def channels_last(x):
    return x.transpose(0, 2, 3, 1)


def weights_in(w):
    """From [o, i, h, w] to JAX's [h, w, i, o]."""
    return w.transpose(2, 3, 1, 0)


def weights_out(w):
    """And back, behind other axes."""
    return numpy.moveaxis(numpy.asarray(w), (-1, -2), (-4, -3))


def training(name, tensors):
    tensors = dict(tensors)
    x, t = tensors.pop("x"), jnp.asarray(tensors.pop("t"))
    bound = tensors.pop("bound", None)
    kernels = {name for name, w in tensors.items() if w.ndim == 4}
    parameters = {
        name: jnp.asarray(weights_in(w) if name in kernels else w) for name, w in tensors.items()
    }
    x = jnp.asarray(channels_last(x) if x.ndim == 4 else x)
    examples = [(x[i : i + 1], t[i : i + 1]) for i in range(len(t))]
    model = MODELS[name]

    def loss(p, x, t):
        scores = jax.nn.log_softmax(model(p, x))
        return -jnp.take_along_axis(scores, t[:, None], 1).sum()

    def loss_of_one(p, x, t):
        return loss(p, x[None], t[None])

    of_batch = jax.grad(loss)
    of_each = jax.vmap(jax.grad(loss_of_one), (None, 0, 0))

    def square(gradient):
        return sum(jnp.square(g).sum() for g in gradient.values())

    def factors(norms):
        return jnp.minimum(1, bound / norms)

    def clipped(p, x, t):
        rows = of_each(p, x, t)
        norms = jnp.sqrt(jax.vmap(square)(rows))
        c = factors(norms)
        return {"norms": norms} | {name: jnp.tensordot(c, g, 1) for name, g in rows.items()}

    def add_clipped(total, p, x, t):
        gradient = of_batch(p, x, t)
        norm = jnp.sqrt(square(gradient))
        return {name: total[name] + factors(norm) * g for name, g in gradient.items()}, norm

    of_batch_jitted = jax.jit(of_batch)

    def loop():
        rows = [of_batch_jitted(parameters, x, t) for x, t in examples]
        return jax.block_until_ready(rows)

    add_clipped = jax.jit(add_clipped, donate_argnums=0)

    def clipped_loop():
        total, norms = {name: jnp.zeros_like(p) for name, p in parameters.items()}, []
        for x, t in examples:
            total, norm = add_clipped(total, parameters, x, t)
            norms.append(norm)
        return jax.block_until_ready({"norms": jnp.stack(norms)} | total)

    def whole(function):
        function = jax.jit(function)
        return lambda: jax.block_until_ready(function(parameters, x, t))

    def arrays(gradients):
        return {
            name: weights_out(g) if name in kernels else numpy.asarray(g)
            for name, g in gradients.items()
        }

    def joined(examples):
        return arrays(
            {name: numpy.stack([numpy.asarray(g[name]) for g in examples]) for name in parameters}
        )

    modes = {"ordinary": (whole(of_batch), arrays)}
    if bound is None:
        return modes | {"loop": (loop, joined), "vmap": (whole(of_each), arrays)}
    return modes | {"loop": (clipped_loop, arrays), "vmap": (whole(clipped), arrays)}


def convolution(tensors):
    stride, padding, dilation, groups = tensors["geometry"].tolist()
    w = jnp.asarray(weights_in(tensors["w"]))
    x, gy = (jnp.asarray(channels_last(tensors[name])) for name in ("x", "gy"))
    examples = [(x[i : i + 1], gy[i : i + 1]) for i in range(len(x))]
    forward = partial(conv, stride=stride, padding=padding, dilation=dilation, groups=groups)

    def of_batch(x, gy):
        (gradient,) = jax.linear_transpose(lambda w: forward(x, w), w)(gy)
        return gradient

    def whole(function):
        function = jax.jit(function)
        return lambda: jax.block_until_ready(function(x, gy))

    jitted = jax.jit(of_batch)

    def loop():
        return jax.block_until_ready([jitted(x, gy) for x, gy in examples])

    of_each = jax.vmap(lambda x, gy: of_batch(x[None], gy[None]))
    array = lambda g: {"w": weights_out(g)}
    return {
        "ordinary": (whole(of_batch), array),
        "loop": (loop, lambda rows: array(numpy.stack([numpy.asarray(g) for g in rows]))),
        "vmap": (whole(of_each), array),
    }


def load(workload, file):
    tensors = load_file(file)
    if workload in CONVOLUTIONS:
        return convolution(tensors)
    return training(workload.removesuffix("-clipped"), tensors)


if __name__ == "__main__":
    serve(load)
