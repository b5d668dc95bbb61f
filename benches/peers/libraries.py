"""The library of this process.

Rows say what they compute in PyTorch and in JAX, side by side, but a process imports only one of the
two, so that neither its memory nor its threads disturb the other. The environment variable PEER names
it; in a process without one, both are None.
"""

import os

torch = F = jax = jnp = lax = None

match os.environ.get("PEER"):
    case "torch":
        import torch
        from torch.nn import functional as F
    case "jax":
        import jax
        from jax import lax
        from jax import numpy as jnp

__all__ = ["F", "jax", "jnp", "lax", "torch"]
