"""Sums, extremes and variances, along each axis."""

from libraries import jax, torch
from row import both, forward, normal

for name, in_torch, in_jax in (
    ("sum", lambda x, axes: x.sum(axes), lambda x, axes: x.sum(axes)),
    ("mean", lambda x, axes: x.mean(axes), lambda x, axes: x.mean(axes)),
    ("max", lambda x, axes: x.amax(axes), lambda x, axes: x.max(axes)),
    ("variance", lambda x, axes: x.var(axes, correction=0), lambda x, axes: x.var(axes)),
    (
        "logsumexp",
        lambda x, axes: torch.logsumexp(x, axes),
        lambda x, axes: jax.nn.logsumexp(x, axes),
    ),
):
    for kind, axes in (("rows", (1,)), ("columns", (0,)), ("all", (0, 1))):
        both(
            f"reductions/{name}-{kind}",
            normal(1024, 1024),
            torch=lambda x, f=in_torch, axes=axes: f(x, axes),
            jax=lambda x, f=in_jax, axes=axes: f(x, axes),
            tolerance=1e-4,
        )
for name, axes in (("middle", (1,)), ("outer", (0, 2))):
    forward(
        f"reductions/sum-{name}",
        normal(64, 128, 128),
        torch=lambda x, axes=axes: x.sum(axes),
        jax=lambda x, axes=axes: x.sum(axes),
        tolerance=1e-4,
    )
