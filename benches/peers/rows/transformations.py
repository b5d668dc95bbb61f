"""Derivatives of functions, and functions of numbers that are small beside the cost of calling."""

import math

import numpy

from layers import tanh
from libraries import jax, jnp, torch
from row import constant, forward, gradient, normal, uniform

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


# The joints of a robot's arm: the length of what follows each, and its twist.
JOINTS = ((0.3, 1.5), (0.4, 0.0), (0.2, 0.1), (0.1, 1.5), (0.1, -1.5), (0.05, 0.0))


def hand_of(sin, cos, stack):
    """The place and the orientation of the hand, [4, 4], for the angles of the joints."""

    def turn(angle, length, twist):
        s, c, up, along = sin(angle), cos(angle), math.sin(twist), math.cos(twist)
        zero = 0 * angle
        rows = (c, -s * along, s * up, c * length, s, c * along, -c * up, s * length)
        last = (zero, zero + up, zero + along, zero + 0.1 * length, zero, zero, zero, zero + 1)
        return stack(rows + last).reshape(4, 4)

    def hand(angles):
        place = turn(angles[0], *JOINTS[0])
        for i, joint in enumerate(JOINTS[1:], 1):
            place = place @ turn(angles[i], *joint)
        return place

    return hand


forward(
    "transformations/robot-arm",
    uniform(-1.5, 1.5, len(JOINTS)),
    # Forward mode makes doubles of single numbers there, which it does not multiply with floats.
    torch=lambda x: torch.func.jacrev(hand_of(torch.sin, torch.cos, torch.stack))(x),
    jax=lambda x: jax.jacfwd(hand_of(jnp.sin, jnp.cos, jnp.stack))(x),
    tolerance=1e-4,
)


def residual(points, weights, vmap, hessian):
    """The mean square of a small network's second derivatives by its two inputs."""

    def u(point):
        h = point
        for i in range(0, len(weights), 2):
            h = weights[i] @ h + weights[i + 1]
            h = tanh(h) if i + 2 < len(weights) else h
        return h.sum()

    return (vmap(hessian(u))(points) ** 2).mean()


# A step of a network that is informed by physics: the gradient of what its second derivatives are.
forward(
    "transformations/physics-informed",
    normal(128, 2),
    normal(64, 2),
    normal(64, scale=0.1),
    normal(64, 64, scale=0.125),
    normal(64, scale=0.1),
    normal(1, 64, scale=0.125),
    normal(1, scale=0.1),
    torch=lambda x, *w: torch.func.grad(
        lambda w: residual(x, w, torch.func.vmap, torch.func.hessian)
    )(w),
    jax=lambda x, *w: jax.grad(lambda w: residual(x, w, jax.vmap, jax.hessian))(w),
    tolerance=1e-3,
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
