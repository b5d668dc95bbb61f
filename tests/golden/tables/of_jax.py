"""The numbers of JAX, Flax and Optax for the names in the tables of the chapter from-jax.md;
tests/bibun/tables/mod.rs holds them against bibun's.

    python of_jax.py
"""

import functools

import jax

jax.config.update("jax_enable_x64", True)

import flax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import lax

from common import row, wave, write


def t(*shape, seed=0):
    return jnp.array(wave(*shape, seed=seed))


x, y = t(2, 3), t(2, 3, seed=1)
f = lambda x: (jnp.sin(x) * x).sum()
g = lambda x: jnp.stack([jnp.sin(x).sum(), (x * x).sum()])

# Transformations
row("jax.grad(f)(x)", jax.grad(f)(x))
row("jax.value_and_grad(f)(x)", *jax.value_and_grad(f)(x))
(value, aux), gradient = jax.value_and_grad(lambda x: (f(x), x.max()), has_aux=True)(x)
row("has_aux=True", value, aux, gradient)
value, pull = jax.vjp(jnp.exp, x)
row("jax.vjp(f, x)", value, pull(y)[0])
row("jax.jvp(f, (x,), (v,))", *jax.jvp(jnp.exp, (x,), (y,)))
value, push = jax.linearize(jnp.exp, x)
row("jax.linearize(f, x)", value, push(y))
row("jax.jacobian", jax.jacobian(g)(x))
row("jacrev", jax.jacrev(g)(x))
row("jacfwd", jax.jacfwd(g)(x))
cubes = lambda x: (x**3).sum() * x[0]
row("jax.hessian", jax.hessian(cubes)(t(3)))
row("`jvp` of `grad`", jax.jvp(jax.grad(cubes), (t(3),), (t(3, seed=1),))[1])
row("jax.vmap(f)(x)", jax.vmap(f)(x))
row("in_axes", jax.vmap(lambda a, b: a * b.sum(), in_axes=(1, None))(x, y))
row("out_axes", jax.vmap(lambda a: a * 2, out_axes=1)(x))
row("lax.map(batch_size=..)", lax.map(f, t(5, 3), batch_size=2))
row("jax.checkpoint", jax.grad(lambda x: jax.checkpoint(lambda x: jnp.exp(jnp.sin(x)))(x).sum())(x))
row("lax.stop_gradient", jax.grad(lambda x: (x * lax.stop_gradient(x)).sum())(x))


@jax.custom_vjp
def doubled(x):
    return jnp.sin(x)


doubled.defvjp(lambda x: (jnp.sin(x), x), lambda x, gy: (2 * gy * jnp.cos(x),))
row("jax.custom_vjp", jax.grad(lambda x: doubled(x).sum())(x))


@jax.custom_jvp
def tripled(x):
    return jnp.sin(x)


tripled.defjvp(lambda primals, tangents: (jnp.sin(primals[0]), 3 * jnp.cos(primals[0]) * tangents[0]))
row("jax.custom_jvp", jax.jvp(tripled, (x,), (y,))[1])
row("`vmap(grad(f))` for each example", jax.vmap(jax.grad(f))(x))
row("jnp.where", jnp.where(x > 0, x, y))

# Trees
tree = {"a": x, "b": (y, t(2))}
row("jax.tree.map(f, x)", *jax.tree.leaves(jax.tree.map(lambda x: x * 2, tree)))
row("jax.tree.map(f, x, y)", *jax.tree.leaves(jax.tree.map(lambda x, y: x * y, tree, tree)))
row("ravel_pytree", jax.flatten_util.ravel_pytree(tree)[0])

# Functions
images = t(2, 4, 5, 6)
row("jnp.dot", jnp.dot(x, y.T), jnp.dot(x[0], y[0]))
row("jnp.matmul", jnp.matmul(images, t(4, 6, 2)))
row("jnp.einsum", jnp.einsum("ij,kj->ik", x, y))
row("jnp.concatenate", jnp.concatenate([x, y], 1))
row("jnp.stack", jnp.stack([x, y], 1))
row("jnp.split", *jnp.split(t(6, 2), 3))
row("jnp.take", jnp.take(x, jnp.array([2, 0, 2]), 1))
row("take_along_axis", jnp.take_along_axis(x, jnp.array([[2, 0], [1, 1]]), 1))
row("x.at[i].add(v)", t(4, 3).at[jnp.array([1, 3, 1])].add(t(3, 3, seed=1)))
rows, columns = jnp.array([[1], [0]]), jnp.array([2, 0, 2])
row("x[i, j]", x[rows, columns])
row("x.at[i, j].set(v)", x.at[rows[:, 0], columns[:2]].set(y[0, :2]))
row("x.at[i, j].multiply(v)", *[getattr(x.at[rows, columns], name)(y) for name in ["multiply", "max", "min"]])
ids = jnp.array([2, 0, 2, 2])
row(
    "jax.ops.segment_sum",
    *[getattr(jax.ops, f"segment_{name}")(t(4, 3), ids, 3)[::2] for name in ["sum", "prod", "max", "min"]],
)
row("jnp.histogram", *jnp.histogram(x, 4))
row("jnp.median", jnp.median(t(2, 4), 1), jnp.nanmedian(jnp.array([1.0, jnp.nan, 3.0, 4.0, 9.0])))
row("jnp.nanquantile", jnp.nanquantile(jnp.array([1.0, jnp.nan, 3.0, 4.0, 9.0]), 0.3))
row("jnp.nanvar", jnp.nanvar(jnp.array([1.0, jnp.nan, 3.0]), ddof=1), jnp.nanstd(jnp.array([1.0, jnp.nan, 3.0])))
row("jnp.linspace", jnp.linspace(0.5, 2.0, 4), jnp.logspace(0.5, 2.0, 4))
row("jnp.repeat", jnp.repeat(x, jnp.array([2, 0, 1]), 1))
row("x[1:, None]", x[1:, None])
row("jnp.clip", jnp.clip(x, -0.5, 1))
row("jnp.maximum", jnp.maximum(x, y))
row("jnp.piecewise", jnp.piecewise(x, [x > 0], [lambda x: x + 0.5, lambda x: x * 3]))
row("jax.nn.relu", jax.nn.relu(x), jax.grad(lambda x: jax.nn.relu(x).sum())(jnp.array([-1.0, 0.0, 1.0])))
row("gelu", jax.nn.gelu(x))
row("silu", jax.nn.silu(x))
row("softplus", jax.nn.softplus(x))
row("hard_sigmoid", jax.nn.hard_sigmoid(x * 2))
row("hard_swish", jax.nn.hard_swish(x * 2))
row("jax.nn.softmax", jax.nn.softmax(x, 1))
row("log_softmax", jax.nn.log_softmax(x, 1))
row("logsumexp", jax.nn.logsumexp(x, 1))
row("jax.nn.one_hot", jax.nn.one_hot(jnp.array([1, 0, 3]), 4))
row("lax.conv_general_dilated",
    lax.conv_general_dilated(images, t(6, 4, 3, 3, seed=1), (2, 1), [(1, 1), (1, 1)], rhs_dilation=(1, 2)),
    lax.conv_general_dilated(t(2, 4, 7), t(3, 4, 3, seed=1), (2,), [(1, 1)],
                             dimension_numbers=("NCH", "OIH", "NCH")),
    lax.conv_general_dilated(t(1, 2, 3, 4, 5), t(3, 2, 2, 2, 2, seed=1), (1, 1, 1), "VALID",
                             dimension_numbers=("NCDHW", "OIDHW", "NCDHW")))
q, k, v = t(2, 3, 2, 4), t(2, 5, 2, 4, seed=1), t(2, 5, 2, 4, seed=2)
mask = t(3, 5, seed=3) > 0
heads = lambda z: jnp.swapaxes(z, 1, 2)
row("jax.nn.dot_product_attention", heads(jax.nn.dot_product_attention(q, k, v)),
    heads(jax.nn.dot_product_attention(q, k, v, bias=t(1, 1, 3, 5, seed=4))),
    heads(jax.nn.dot_product_attention(q, k, v, mask=(mask | (jnp.arange(5) == 0))[None, None])))
row("jax.lax.top_k", *lax.top_k(x, 2))

# Flax
wide = dict(dtype=jnp.float64, param_dtype=jnp.float64, rngs=nnx.Rngs(0))


def set_to(module, **values):
    for name, seed in values.items():
        part = functools.reduce(getattr, name.split("."), module)
        part[...] = t(*part[...].shape, seed=seed)
    return module


row("nnx.Linear", set_to(nnx.Linear(3, 4, **wide), kernel=5, bias=6)(x))
conv = set_to(nnx.Conv(4, 6, (3, 3), strides=2, padding=1, **wide), kernel=5, bias=6)
row("nnx.Conv", jnp.moveaxis(conv(jnp.moveaxis(images, 1, -1)), -1, 1))
norm = set_to(nnx.BatchNorm(3, epsilon=1e-5, momentum=0.9, **wide), scale=5, bias=6)
first = norm(x)
row("nnx.BatchNorm", first, norm.mean[...])
row("nnx.LayerNorm", set_to(nnx.LayerNorm(3, epsilon=1e-5, **wide), scale=5, bias=6)(x))
row("nnx.RMSNorm", set_to(nnx.RMSNorm(3, epsilon=1e-5, **wide), scale=5)(x))
sequence = t(2, 3, 2)
plain = nnx.LSTMCell(2, 4, **wide)
for i, gate in enumerate(["i", "f", "g", "o"]):
    into = "if_" if gate == "f" else f"i{gate}"
    set_to(plain, **{f"{into}.kernel": 5 + i, f"h{gate}.kernel": 15 + i, f"h{gate}.bias": 25 + i})
row("nnx.LSTMCell", plain((t(2, 4, seed=2), t(2, 4, seed=3)), x[:, :2])[1])
row("nnx.RNN", nnx.RNN(plain)(sequence))
gru = nnx.GRUCell(2, 4, **wide)
set_to(gru, **{"dense_i.kernel": 5, "dense_i.bias": 6, "dense_h.kernel": 7})
row("nnx.GRUCell", gru(t(2, 4, seed=2), x[:, :2])[1])
attention = nnx.MultiHeadAttention(2, 4, decode=False, **wide)
for i, part in enumerate(["query", "key", "value", "out"]):
    set_to(attention, **{f"{part}.kernel": 5 + i, f"{part}.bias": 15 + i})
row("nnx.MultiHeadAttention", attention(t(2, 3, 4)))


# Optax: five steps down a bowl.
def steps(optimizer, count=5):
    p = t(4)
    state = optimizer.init(p)
    loss = lambda p: ((p - 0.3) ** 2 * (1 + jnp.arange(4))).sum()
    for _ in range(count):
        value, gradient = jax.value_and_grad(loss)(p)
        updates, state = optimizer.update(gradient, state, p, value=value, grad=gradient, value_fn=loss) \
            if isinstance(optimizer, optax.GradientTransformationExtraArgs) else optimizer.update(gradient, state, p)
        p = optax.apply_updates(p, updates)
    return p


row("optax.sgd", steps(optax.sgd(0.05)))
row("adam", steps(optax.adam(0.1)))
row("adamw", steps(optax.adamw(0.1, weight_decay=0.1)))
row("lion", steps(optax.lion(0.1, weight_decay=0.1)))
row("lamb", steps(optax.lamb(0.1, eps=1e-6, weight_decay=0.1)))
row("lbfgs", steps(optax.lbfgs(), 20))
row("optax.chain(clip_by_global_norm(1), ..)", steps(optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.05))))
cosine = optax.cosine_decay_schedule(1.0, 10)
row("optax.cosine_decay_schedule", [cosine(i) for i in range(15)])
warm = optax.warmup_cosine_decay_schedule(0.25, 1.0, 3, 13)
row("warmup_cosine_decay_schedule", [warm(i) for i in range(15)])
labels = jnp.array([2, 0])
row("softmax_cross_entropy_with_integer_labels", optax.softmax_cross_entropy_with_integer_labels(x, labels))
row("optax.sigmoid_binary_cross_entropy", optax.sigmoid_binary_cross_entropy(x, jax.nn.sigmoid(y)))
row("optax.squared_error", optax.squared_error(x, y))
row("optax.huber_loss", optax.huber_loss(x, y, delta=0.7))
per_example = jax.vmap(jax.grad(lambda w, x: jnp.sin(x @ w).sum()), (None, 0))(t(3), t(4, 3, seed=1))
clipped, _ = optax.per_example_global_norm_clip([per_example], 0.5)
row("optax.per_example_global_norm_clip", clipped[0])

write("jax.json", {"jax": jax.__version__, "flax": flax.__version__, "optax": optax.__version__})
