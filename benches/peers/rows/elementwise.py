"""Functions of single elements, of a million of them."""

from libraries import F, jax, jnp, torch
from row import both, normal, uniform

million = normal(1_000_000)
positive = uniform(0.1, 3, 1_000_000)

both("elementwise/add", million, million, torch=lambda x, y: x + y, jax=lambda x, y: x + y)
both("elementwise/multiply", million, million, torch=lambda x, y: x * y, jax=lambda x, y: x * y)
both("elementwise/divide", million, positive, torch=lambda x, y: x / y, jax=lambda x, y: x / y)
both(
    "elementwise/add-row",
    normal(1024, 1024),
    normal(1024),
    torch=lambda x, y: x + y,
    jax=lambda x, y: x + y,
)
both(
    "elementwise/add-column",
    normal(1024, 1024),
    normal(1024, 1),
    torch=lambda x, y: x + y,
    jax=lambda x, y: x + y,
)
polynomial = lambda x: ((0.5 * x + 1) * x - 2) * x + 3
both("elementwise/polynomial", million, torch=polynomial, jax=polynomial)
for name, argument, in_torch, in_jax in (
    ("relu", million, lambda x: torch.relu(x), lambda x: jax.nn.relu(x)),
    ("sigmoid", million, lambda x: torch.sigmoid(x), lambda x: jax.nn.sigmoid(x)),
    ("tanh", million, lambda x: torch.tanh(x), lambda x: jnp.tanh(x)),
    ("gelu", million, lambda x: F.gelu(x), lambda x: jax.nn.gelu(x, approximate=False)),
    ("silu", million, lambda x: F.silu(x), lambda x: jax.nn.silu(x)),
    ("mish", million, lambda x: F.mish(x), lambda x: jax.nn.mish(x)),
    ("softplus", million, lambda x: F.softplus(x), lambda x: jax.nn.softplus(x)),
    ("erf", million, lambda x: torch.erf(x), lambda x: jax.scipy.special.erf(x)),
    ("exp", million, lambda x: torch.exp(x), lambda x: jnp.exp(x)),
    ("log", positive, lambda x: torch.log(x), lambda x: jnp.log(x)),
    ("sqrt", positive, lambda x: torch.sqrt(x), lambda x: jnp.sqrt(x)),
    ("sin", million, lambda x: torch.sin(x), lambda x: jnp.sin(x)),
    ("power-2.5", positive, lambda x: x**2.5, lambda x: x**2.5),
):
    both(f"elementwise/{name}", argument, torch=in_torch, jax=in_jax)
both("elementwise/power", positive, million, torch=lambda x, y: x**y, jax=lambda x, y: x**y)
