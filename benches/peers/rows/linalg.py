"""Factorisations: one matrix of some sizes, and many small ones.

Signs of vectors differ between libraries, so absolute values are compared.
"""

import numpy
from libraries import jnp, torch
from row import forward, normal


def positive(*shape, dtype):
    def make(random):
        a = random.standard_normal(shape)
        return (a @ a.swapaxes(-1, -2) + shape[-1] * numpy.eye(shape[-1])).astype(dtype)

    return make


for dtype, suffix in ((numpy.float32, ""), (numpy.float64, "-f64")):
    for shape, size in (
        ((64, 64), "64"),
        ((256, 256), "256"),
        ((1024, 1024), "1024"),
        ((10_000, 3, 3), "10000-of-3"),
        ((10_000, 8, 8), "10000-of-8"),
        ((10_000, 16, 16), "10000-of-16"),
    ):
        column = (*shape[:-1], 1)
        for name, inputs, of_torch, of_jax in (
            ("cholesky", [positive(*shape, dtype=dtype)], lambda a: torch.linalg.cholesky(a), lambda a: jnp.linalg.cholesky(a)),
            (
                "solve",
                [positive(*shape, dtype=dtype), normal(*column, dtype=dtype)],
                lambda a, b: torch.linalg.solve(a, b),
                lambda a, b: jnp.linalg.solve(a, b),
            ),
            ("inv", [positive(*shape, dtype=dtype)], lambda a: torch.linalg.inv(a), lambda a: jnp.linalg.inv(a)),
            ("logdet", [positive(*shape, dtype=dtype)], lambda a: torch.linalg.slogdet(a)[1], lambda a: jnp.linalg.slogdet(a)[1]),
            ("qr", [normal(*shape, dtype=dtype)], lambda a: torch.linalg.qr(a)[1].abs(), lambda a: jnp.abs(jnp.linalg.qr(a)[1])),
            ("eigh", [positive(*shape, dtype=dtype)], lambda a: torch.linalg.eigh(a)[0], lambda a: jnp.linalg.eigh(a)[0]),
            (
                "svd",
                [normal(*shape, dtype=dtype)],
                lambda a: torch.linalg.svd(a, full_matrices=False)[1],
                lambda a: jnp.linalg.svd(a, full_matrices=False)[1],
            ),
        ):
            forward(f"linalg/{name}-{size}{suffix}", *inputs, torch=of_torch, jax=of_jax, tolerance=1e-3)
