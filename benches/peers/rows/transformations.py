"""Derivatives of functions, and functions of numbers that are small beside the cost of calling."""

import numpy

from layers import tanh
from libraries import jax, jnp, torch
from row import constant, forward, gradient, normal

energy = lambda w, x: (tanh(w @ x) ** 2).sum()


def hvp_in_torch(w, x, v):
    of_x = lambda x: energy(w, x)
    return torch.func.jvp(torch.func.grad(of_x), (x,), (v,))[1]


def hvp_in_jax(w, x, v):
    return jax.jvp(jax.grad(lambda x: energy(w, x)), (x,), (v,))[1]


for n in (100, 1000):
    forward(
        f"transformations/hvp-{n}",
        normal(n, n, scale=n**-0.5),
        normal(n),
        normal(n),
        torch=hvp_in_torch,
        jax=hvp_in_jax,
        tolerance=1e-4,
    )


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


forward(
    "transformations/hessian-30",
    normal(30),
    torch=lambda x: torch.func.hessian(rosenbrock)(x),
    jax=lambda x: jax.hessian(rosenbrock)(x),
    tolerance=1e-4,
)
for inputs, outputs, in_torch, in_jax in (
    (10, 1000, lambda *f: torch.func.jacfwd(*f), lambda *f: jax.jacfwd(*f)),
    (1000, 10, lambda *f: torch.func.jacrev(*f), lambda *f: jax.jacrev(*f)),
):
    forward(
        f"transformations/jacobian-{inputs}-to-{outputs}",
        normal(outputs, inputs, scale=inputs**-0.5),
        normal(inputs),
        torch=lambda w, x, f=in_torch: f(lambda x: tanh(w @ x))(x),
        jax=lambda w, x, f=in_jax: f(lambda x: tanh(w @ x))(x),
        tolerance=1e-4,
    )
forward(
    "transformations/vmap-grad-128",
    normal(100, 100, scale=0.1),
    normal(128, 100),
    torch=lambda w, xs: torch.func.vmap(torch.func.grad(lambda x: energy(w, x)))(xs),
    jax=lambda w, xs: jax.vmap(jax.grad(lambda x: energy(w, x)))(xs),
    tolerance=1e-4,
)


def goldstein_price(x, y):
    """The function of Goldstein and Price, at each element."""
    a = 19 - 14 * x + 3 * x**2 - 14 * y + 6 * x * y + 3 * y**2
    b = 18 - 32 * x + 12 * x**2 + 48 * y - 36 * x * y + 27 * y**2
    return (1 + (x + y + 1) ** 2 * a) * (30 + (2 * x - 3 * y) ** 2 * b)


for name, *point in (
    ("point", constant(0.5), constant(0.25)),
    ("10^6", normal(1_000_000), normal(1_000_000)),
):
    gradient(
        f"transformations/goldstein-price-{name}",
        *point,
        torch=goldstein_price,
        jax=goldstein_price,
        tolerance=1e-4,
    )


def means_in_torch(points, centers):
    nearest = ((centers**2).sum(1) - 2 * points @ centers.T).argmin(1)
    sums = torch.zeros_like(centers).index_add(0, nearest, points)
    counts = torch.bincount(nearest, minlength=len(centers))
    return sums / counts.clamp(min=1)[:, None]


def means_in_jax(points, centers):
    nearest = ((centers**2).sum(1) - 2 * points @ centers.T).argmin(1)
    sums = jnp.zeros_like(centers).at[nearest].add(points)
    counts = jnp.bincount(nearest, length=len(centers))
    return (sums / jnp.maximum(counts, 1)[:, None]).astype(numpy.float32)


forward(
    "transformations/k-means",
    normal(10_000, 16),
    normal(64, 16),
    torch=means_in_torch,
    jax=means_in_jax,
    tolerance=1e-3,
)
