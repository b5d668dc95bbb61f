"""Normalisation: to mean 0 and variance 1 along some axes."""

from layers import batch_norm, group_norm, layer_norm
from libraries import F, jnp, lax
from row import both, normal

for n, width in ((1024, 1024), (4096, 768)):
    both(
        f"normalization/layer-{n}x{width}",
        normal(n, width),
        normal(width),
        normal(width),
        torch=layer_norm,
        jax=layer_norm,
    )
    both(
        f"normalization/rms-{n}x{width}",
        normal(n, width),
        normal(width),
        torch=lambda x, gamma: F.rms_norm(x, gamma.shape, gamma, 1e-5),
        jax=lambda x, gamma: x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * gamma,
    )
for n, width in ((128, 512), (4096, 256)):
    table = (normal(n, width), normal(width), normal(width))
    both(f"normalization/batch-{n}x{width}", *table, torch=batch_norm, jax=batch_norm)
for size in (8, 28):
    images = (normal(32, 64, size, size), normal(64), normal(64))
    both(f"normalization/batch-32x64x{size}x{size}", *images, torch=batch_norm, jax=batch_norm)
    both(
        f"normalization/group-32x64x{size}x{size}",
        *images,
        torch=lambda *x: group_norm(*x, groups=8),
        jax=lambda *x: group_norm(*x, groups=8),
    )
