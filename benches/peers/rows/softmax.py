"""Softmax, its losses, and attention."""

from libraries import F, jax, jnp, torch
from row import both, flags, gradient, integers, normal

for n, classes in ((1024, 1024), (2048, 64)):
    shape = f"{n}x{classes}"
    both(
        f"softmax/softmax-{shape}",
        normal(n, classes),
        torch=lambda x: torch.softmax(x, -1),
        jax=lambda x: jax.nn.softmax(x),
    )
    both(
        f"softmax/log-softmax-{shape}",
        normal(n, classes),
        torch=lambda x: torch.log_softmax(x, -1),
        jax=lambda x: jax.nn.log_softmax(x),
    )
    gradient(
        f"softmax/cross-entropy-{shape}",
        normal(n, classes),
        integers(classes, n),
        torch=lambda x, t: F.cross_entropy(x, t),
        jax=lambda x, t: -jnp.take_along_axis(jax.nn.log_softmax(x), t[:, None], 1).mean(),
    )


def jax_attention(q, k, v, **how):
    """JAX has the heads behind the positions."""
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    return jnp.swapaxes(jax.nn.dot_product_attention(q, k, v, **how), 1, 2)


# Examples, heads, positions, width.
for n, heads, length, width in ((8, 4, 64, 32), (2, 4, 512, 64), (1, 2, 2048, 64)):
    tensors = [normal(n, heads, length, width)] * 3
    flops = 4 * n * heads * length**2 * width
    both(
        f"attention/full-{length}",
        *tensors,
        torch=lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        jax=jax_attention,
        flops=flops,
        tolerance=1e-4,
    )
    both(
        f"attention/causal-{length}",
        *tensors,
        torch=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        jax=lambda q, k, v: jax_attention(q, k, v, is_causal=True),
        flops=flops / 2,
        tolerance=1e-4,
    )
both(
    "attention/masked-512",
    *[normal(2, 4, 512, 64)] * 3,
    flags(512, 512),
    torch=lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
    jax=lambda q, k, v, mask: jax_attention(q, k, v, mask=mask[None, None]),
    flops=4 * 2 * 4 * 512**2 * 64,
    tolerance=1e-4,
)
