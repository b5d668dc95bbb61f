"""Elements moved, picked, compared and put in order."""

from libraries import F, jnp, lax, torch
from row import both, flags, forward, integers, normal

table = normal(1024, 1024)
parts = [normal(256, 1024)] * 4
indices = integers(1024, 1024, 1024)

for name, shape, axes in (
    ("transposed-1024x1024", (1024, 1024), (1, 0)),
    ("transposed-4096x64", (4096, 64), (1, 0)),
    ("channels-last", (32, 64, 28, 28), (0, 2, 3, 1)),
    ("heads-first", (8, 128, 8, 64), (0, 2, 1, 3)),
):
    forward(
        f"arrays/{name}",
        normal(*shape),
        torch=lambda x, axes=axes: x.permute(axes).reshape(-1),
        jax=lambda x, axes=axes: x.transpose(axes).reshape(-1),
    )
both(
    "arrays/slice",
    table,
    torch=lambda x: x[:, 256:768].reshape(-1),
    jax=lambda x: x[:, 256:768].reshape(-1),
)
both(
    "arrays/pad",
    normal(32, 64, 28, 28),
    torch=lambda x: F.pad(x, (1, 1, 1, 1)),
    jax=lambda x: jnp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))),
)
both("arrays/concat-rows", *parts, torch=lambda *x: torch.cat(x), jax=lambda *x: jnp.concat(x))
both(
    "arrays/concat-columns",
    *parts,
    torch=lambda *x: torch.cat(x, 1),
    jax=lambda *x: jnp.concat(x, axis=1),
)
both("arrays/stack", *parts, torch=lambda *x: torch.stack(x, 1), jax=lambda *x: jnp.stack(x, 1))
both(
    "arrays/where",
    flags(1024, 1024),
    table,
    table,
    torch=lambda condition, x, y: torch.where(condition, x, y),
    jax=lambda condition, x, y: jnp.where(condition, x, y),
)
forward("arrays/greater", table, table, torch=lambda x, y: x > y, jax=lambda x, y: x > y)
both(
    "arrays/gather",
    table,
    indices,
    torch=lambda x, indices: x.gather(1, indices),
    jax=lambda x, indices: jnp.take_along_axis(x, indices, 1),
)
both(
    "arrays/scatter-add",
    table,
    indices,
    table,
    torch=lambda x, indices, y: x.scatter_add(1, indices, y),
    jax=lambda x, indices, y: x.at[jnp.arange(1024)[:, None], indices].add(y),
)
both(
    "arrays/take-rows",
    table,
    integers(1024, 4096),
    torch=lambda x, indices: x.index_select(0, indices),
    jax=lambda x, indices: x[indices],
)
both(
    "arrays/embedding",
    normal(10_000, 256),
    integers(10_000, 32, 64),
    torch=lambda table, words: F.embedding(words, table),
    jax=lambda table, words: table[words],
)
both(
    "arrays/cumsum-rows",
    table,
    torch=lambda x: x.cumsum(1),
    jax=lambda x: x.cumsum(1),
    tolerance=1e-4,
)
both(
    "arrays/cumsum-columns",
    table,
    torch=lambda x: x.cumsum(0),
    jax=lambda x: x.cumsum(0),
    tolerance=1e-4,
)
forward("arrays/sort-rows", table, torch=lambda x: x.sort(1)[0], jax=lambda x: jnp.sort(x, 1))
forward(
    "arrays/sort-vector",
    normal(1_000_000),
    torch=lambda x: x.sort()[0],
    jax=lambda x: jnp.sort(x),
)
forward("arrays/top-10", table, torch=lambda x: tuple(x.topk(10)), jax=lambda x: lax.top_k(x, 10))
forward("arrays/argmax-rows", table, torch=lambda x: x.argmax(1), jax=lambda x: x.argmax(1))
forward("arrays/argmax-columns", table, torch=lambda x: x.argmax(0), jax=lambda x: x.argmax(0))
