"""Chains of a thousand functions of one number: the cost of a call and of its place in history."""

from libraries import jnp, lax, torch
from row import both, constant


def chain(f):
    def function(x):
        for _ in range(1000):
            x = f(x)
        return x

    return function


def loop(f):
    """JAX would compile a thousand functions one by one."""
    return lambda x: lax.fori_loop(0, 1000, lambda _, x: f(x), x)


for name, in_torch, in_jax in (
    ("multiply", lambda x: x * 1.0001, lambda x: x * 1.0001),
    ("sin", lambda x: torch.sin(x), lambda x: jnp.sin(x)),
    ("tanh", lambda x: torch.tanh(x), lambda x: jnp.tanh(x)),
):
    both(f"scalars/{name}", constant(1e-4), torch=chain(in_torch), jax=loop(in_jax))
