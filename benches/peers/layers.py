"""Layers in the library of this process: of the same form in PyTorch and in JAX, so that a network is
written once for both."""

import math

from libraries import F, jax, jnp, lax, torch

EPSILON = 1e-5


if torch:
    relu = torch.relu
    tanh = torch.tanh
    exp = torch.exp
    gelu = F.gelu
    clip = torch.clip
    minimum = torch.minimum
    concat = torch.cat
    cross_entropy = F.cross_entropy

    def log_softmax(x):
        return F.log_softmax(x, -1)

    def picked(x, t):
        return x.gather(1, t[:, None])[:, 0]

    def gradient_to(f, x):
        """The gradient of f at x, which can be differentiated again."""
        x = x.detach().requires_grad_()
        return torch.autograd.grad(f(x), x, create_graph=True)[0]

    def linear(x, w, b=None):
        return F.linear(x, w, b)

    def conv(x, w, b=None, **how):
        function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[w.ndim]
        return function(x, w, b, **how)

    def conv_transpose(x, w, b, stride):
        return F.conv_transpose2d(x, w, b, stride)

    def layer_norm(x, gamma, beta):
        return F.layer_norm(x, gamma.shape, gamma, beta, EPSILON)

    def batch_norm(x, gamma, beta):
        return F.batch_norm(x, None, None, gamma, beta, training=True, eps=EPSILON)

    def fixed_batch_norm(x, gamma, beta):
        """In evaluation, with the statistics that a new layer has."""
        zeros, ones = torch.zeros_like(beta), torch.ones_like(gamma)
        return F.batch_norm(x, zeros, ones, gamma, beta, training=False, eps=EPSILON)

    def group_norm(x, gamma, beta, groups):
        return F.group_norm(x, groups, gamma, beta, EPSILON)

    def max_pool(x, kernel, stride, padding=0):
        return F.max_pool2d(x, kernel, stride, padding)

    def attention(q, k, v, is_causal=False):
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


if jax:
    relu = jax.nn.relu
    tanh = jnp.tanh
    exp = jnp.exp
    clip = jnp.clip
    minimum = jnp.minimum
    concat = jnp.concatenate
    log_softmax = jax.nn.log_softmax
    gelu = lambda x: jax.nn.gelu(x, approximate=False)

    def cross_entropy(x, t):
        return -jnp.take_along_axis(jax.nn.log_softmax(x), t[:, None], 1).mean()

    def picked(x, t):
        return jnp.take_along_axis(x, t[:, None], 1)[:, 0]

    def gradient_to(f, x):
        """The gradient of f at x, which can be differentiated again."""
        return jax.grad(f)(x)

    def linear(x, w, b=None):
        y = x @ w.T
        return y if b is None else y + b

    def conv(x, w, b=None, stride=1, padding=0, dilation=1, groups=1):
        axes = w.ndim - 2
        y = lax.conv_general_dilated(
            x,
            w,
            (stride,) * axes,
            [(padding, padding)] * axes,
            rhs_dilation=(dilation,) * axes,
            feature_group_count=groups,
        )
        return y if b is None else y + b.reshape(-1, *[1] * axes)

    def conv_transpose(x, w, b, stride):
        """Of kernels as large as the stride, whose results do not overlap."""
        n, _, *sizes = x.shape
        parts = jnp.einsum("nihw,ioab->nohawb", x, w)
        return parts.reshape(n, -1, *(stride * size for size in sizes)) + b.reshape(-1, 1, 1)

    def normalized(x, axes):
        mean = x.mean(axes, keepdims=True)
        return (x - mean) * lax.rsqrt(x.var(axes, keepdims=True) + EPSILON)

    def by_channel(x, gamma, beta):
        return x * gamma.reshape(-1, 1, 1) + beta.reshape(-1, 1, 1)

    def layer_norm(x, gamma, beta):
        return normalized(x, -1) * gamma + beta

    def batch_norm(x, gamma, beta):
        if x.ndim == 2:
            return normalized(x, 0) * gamma + beta
        return by_channel(normalized(x, (0, 2, 3)), gamma, beta)

    def fixed_batch_norm(x, gamma, beta):
        """In evaluation, with the statistics that a new layer has."""
        return by_channel(x / math.sqrt(1 + EPSILON), gamma, beta)

    def group_norm(x, gamma, beta, groups):
        groups = x.reshape(x.shape[0], groups, -1)
        return by_channel(normalized(groups, 2).reshape(x.shape), gamma, beta)

    def max_pool(x, kernel, stride, padding=0):
        around = ((0, 0), (0, 0), (padding, padding), (padding, padding))
        window, steps = (1, 1, kernel, kernel), (1, 1, stride, stride)
        return lax.reduce_window(x, -jnp.inf, lax.max, window, steps, around)

    def attention(q, k, v, is_causal=False):
        """JAX has the heads behind the positions."""
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        return jax.nn.dot_product_attention(q, k, v, is_causal=is_causal).swapaxes(1, 2)


if not (torch or jax):
    # Only the rows' inputs are looked at.
    def __getattr__(name):
        return None
