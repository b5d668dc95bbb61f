"""Recurrent networks over 64 steps, with the weights in the order of PyTorch and of bibun."""

from layers import cross_entropy, linear
from libraries import jax, jnp, lax, torch
from row import inference, integers, normal, training

N, LENGTH, INPUTS, UNITS = 32, 64, 64, 128


def names(part):
    return f"layers/0/forward/{part}"


def shapes(gates, inputs=INPUTS, units=UNITS, **more):
    return {
        names("weight_ih"): (gates * units, inputs),
        names("weight_hh"): (gates * units, units),
        names("bias"): (gates * units,),
        **{names(name): shape for name, shape in more.items()},
    }


def weights(p, *parts):
    return [p[names(part)] for part in ("weight_ih", "weight_hh", "bias", *parts)]


def lstm_in_torch(p, x):
    w_x, w_h, b = weights(p)
    zeros = x.new_zeros(1, len(x), w_h.shape[1])
    state, parameters = (zeros, zeros), [w_x, w_h, b, torch.zeros_like(b)]
    return torch.lstm(x, state, parameters, True, 1, 0.0, False, False, True)[0]


def lstm_in_jax(p, x):
    w_x, w_h, b = weights(p)

    def step(state, projected):
        h, c = state
        i, f, g, o = jnp.split(projected + h @ w_h.T, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((len(x), w_h.shape[1]), x.dtype)
    return lax.scan(step, (zeros, zeros), (x @ w_x.T + b).swapaxes(0, 1))[1].swapaxes(0, 1)


def gru_in_torch(p, x):
    w_x, w_h, b, b_n = weights(p, "bias_hn")
    b_h = torch.cat([b_n.new_zeros(2 * UNITS), b_n])
    state = x.new_zeros(1, N, UNITS)
    return torch.gru(x, state, [w_x, w_h, b, b_h], True, 1, 0.0, False, False, True)[0]


def gru_in_jax(p, x):
    w_x, w_h, b, b_n = weights(p, "bias_hn")

    def step(h, projected):
        r, z, n = jnp.split(projected, 3, -1)
        r_h, z_h, n_h = jnp.split(h @ w_h.T, 3, -1)
        r, z = jax.nn.sigmoid(r + r_h), jax.nn.sigmoid(z + z_h)
        n = jnp.tanh(n + r * (n_h + b_n))
        h = (1 - z) * n + z * h
        return h, h

    zeros = jnp.zeros((N, UNITS), x.dtype)
    return lax.scan(step, zeros, (x @ w_x.T + b).swapaxes(0, 1))[1].swapaxes(0, 1)


for name, gates, more, in_torch, in_jax in (
    ("lstm", 4, {}, lstm_in_torch, lstm_in_jax),
    ("gru", 3, {"bias_hn": (UNITS,)}, gru_in_torch, gru_in_jax),
):
    parameters = shapes(gates, **more)
    flops = 2 * N * LENGTH * gates * UNITS * (INPUTS + UNITS)
    sequence = normal(N, LENGTH, INPUTS)
    inference(
        f"recurrent/{name}-forward",
        sequence,
        torch=in_torch,
        jax=in_jax,
        parameters=parameters,
        flops=flops,
    )
    training(
        f"recurrent/{name}",
        sequence,
        torch=lambda p, x, f=in_torch: f(p, x).square().mean(),
        jax=lambda p, x, f=in_jax: (f(p, x) ** 2).mean(),
        parameters=parameters,
        optimizer="sgd-fast",
        flops=flops,
    )


WORDS, WIDTH, DEEP = 1000, 128, 256


def language_model(p, words, following, lstm):
    inner = {k.removeprefix("lstm/"): w for k, w in p.items() if k.startswith("lstm/")}
    h = lstm(inner, p["words/weight"][words])
    scores = linear(h, p["head/weight"], p["head/bias"])
    return cross_entropy(scores.reshape(-1, WORDS), following)


training(
    "recurrent/lstm-language-model",
    integers(WORDS, 16, 32),
    integers(WORDS, 16 * 32),
    torch=lambda *x: language_model(*x, lstm_in_torch),
    jax=lambda *x: language_model(*x, lstm_in_jax),
    parameters={
        "words/weight": (WORDS, WIDTH),
        **{f"lstm/{name}": shape for name, shape in shapes(4, WIDTH, DEEP).items()},
        "head/weight": (WORDS, DEEP),
        "head/bias": (WORDS,),
    },
    optimizer="adam",
    flops=2 * 16 * 32 * (4 * DEEP * (WIDTH + DEEP) + DEEP * WORDS),
)
