"""Convolutions and pooling, over one to three axes.

The channels come before the positions in all libraries.
"""

import math

from layers import conv, max_pool
from libraries import F, jnp, lax
from row import both, normal

# Examples, input channels, output channels, sizes, kernel, then stride, padding, dilation, groups.
for name, n, inputs, outputs, sizes, kernel, stride, padding, dilation, groups in (
    ("1x1", 32, 64, 128, (28, 28), 1, 1, 0, 1, 1),
    ("3x3", 32, 64, 64, (28, 28), 3, 1, 1, 1, 1),
    ("3x3-of-3", 32, 3, 32, (32, 32), 3, 1, 1, 1, 1),
    ("3x3-small", 32, 128, 128, (8, 8), 3, 1, 1, 1, 1),
    ("3x3-stride-2", 32, 64, 128, (28, 28), 3, 2, 1, 1, 1),
    ("5x5", 32, 32, 32, (28, 28), 5, 1, 2, 1, 1),
    ("7x7-stride-2", 4, 3, 64, (112, 112), 7, 2, 3, 1, 1),
    ("depthwise", 32, 64, 64, (28, 28), 3, 1, 1, 1, 64),
    ("grouped", 32, 64, 64, (28, 28), 3, 1, 1, 1, 8),
    ("dilated", 32, 32, 32, (28, 28), 3, 1, 2, 2, 1),
    ("transposed", 16, 64, 32, (14, 14), 4, 2, 1, 1, 1),
    ("1-axis", 16, 64, 64, (512,), 5, 1, 2, 1, 1),
    ("3-axes", 4, 16, 32, (16, 16, 16), 3, 1, 1, 1, 1),
):
    how = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    window = (kernel,) * len(sizes)
    weights = (outputs, inputs // groups, *window)
    function = lambda x, w, how=how: conv(x, w, **how)
    places = math.prod(
        (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for size in sizes
    )
    in_torch = in_jax = function
    if name == "transposed":
        weights, places = (inputs, outputs, *window), math.prod(sizes)
        around = kernel - 1 - padding
        in_torch = lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1)
        in_jax = lambda x, w: lax.conv_general_dilated(
            x,
            jnp.flip(w, (2, 3)).swapaxes(0, 1),
            (1, 1),
            [(around, around)] * 2,
            lhs_dilation=(2, 2),
        )
    both(
        f"convolutions/{name}",
        normal(n, inputs, *sizes),
        normal(*weights),
        torch=in_torch,
        jax=in_jax,
        flops=2 * n * places * math.prod(weights),
        tolerance=1e-4,
    )


images = normal(32, 64, 28, 28)
both(
    "pooling/max-2x2",
    images,
    torch=lambda x: max_pool(x, 2, 2),
    jax=lambda x: max_pool(x, 2, 2),
)
both(
    "pooling/max-3x3-stride-2",
    images,
    torch=lambda x: max_pool(x, 3, 2, 1),
    jax=lambda x: max_pool(x, 3, 2, 1),
)
both(
    "pooling/average-2x2",
    images,
    torch=lambda x: F.avg_pool2d(x, 2),
    jax=lambda x: x.reshape(32, 64, 14, 2, 14, 2).mean((3, 5)),
)
both(
    "pooling/average-global",
    images,
    torch=lambda x: x.mean((2, 3)),
    jax=lambda x: x.mean((2, 3)),
)
