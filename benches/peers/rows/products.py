"""Products of matrices, in all sizes and orders in memory."""

import math

from libraries import F, jnp, torch
from row import both, forward, normal

for n in (64, 128, 256, 512, 1024):
    for kind, product in (
        ("nn", lambda a, b: a @ b),
        ("nt", lambda a, b: a @ b.T),
        ("tn", lambda a, b: a.T @ b),
        ("tt", lambda a, b: a.T @ b.T),
    ):
        forward(
            f"products/{kind}-{n}",
            normal(n, n),
            normal(n, n),
            torch=product,
            jax=product,
            flops=2 * n**3,
        )
for name, a, b in (
    ("32x256x1024", (32, 256), (256, 1024)),
    ("1024x8x1024", (1024, 8), (8, 1024)),
    ("8x1024x1024", (8, 1024), (1024, 1024)),
    ("1024x1024x8", (1024, 1024), (1024, 8)),
    ("4096x64x64", (4096, 64), (64, 64)),
    ("64-of-64x64x32", (64, 64, 64), (64, 64, 32)),
    ("512-of-16x16x16", (512, 16, 16), (512, 16, 16)),
    ("matrix-vector-1024", (1024, 1024), (1024,)),
    ("vector-matrix-1024", (1024,), (1024, 1024)),
):
    both(
        f"products/{name}",
        normal(*a),
        normal(*b),
        torch=lambda a, b: a @ b,
        jax=lambda a, b: a @ b,
        flops=2 * math.prod(a) * (b[-1] if len(b) > 1 else 1),
    )
for n, inputs, outputs in ((128, 784, 100), (1, 128, 128)):
    both(
        f"products/linear-{n}x{inputs}x{outputs}",
        normal(n, inputs),
        normal(outputs, inputs),
        normal(outputs),
        torch=lambda x, w, b: F.linear(x, w, b),
        jax=lambda x, w, b: x @ w.T + b,
        flops=2 * n * inputs * outputs,
    )
both(
    "products/einsum-bilinear",
    normal(64, 64),
    normal(32, 64, 64),
    normal(64, 64),
    torch=lambda x, w, y: torch.einsum("bi,oij,bj->bo", x, w, y),
    jax=lambda x, w, y: jnp.einsum("bi,oij,bj->bo", x, w, y),
    tolerance=1e-4,
)
