"""How a row runs in JAX, under `jit`."""

import jax
import numpy
from jax import numpy as jnp

import optimizers

jax.config.update("jax_enable_x64", True)


def listed(y):
    return list(y) if isinstance(y, (tuple, list)) else [y]


def numbered(ys):
    return {str(i): numpy.asarray(y) for i, y in enumerate(listed(ys))}


def prepare(row, arrays, _):
    """A function that runs the row, and one that makes named arrays of its result."""
    if row.jax is None and row.kind != "update":
        raise NotImplementedError("the row has no function in JAX")
    put = {name: jnp.array(array) for name, array in arrays.items()}
    inputs = [put[str(i)] for i in range(len(row.inputs))]
    part = lambda name: {
        key.removeprefix(f"{name}/"): x for key, x in put.items() if key.startswith(f"{name}/")
    }
    waiting = lambda function, *arguments: lambda: jax.block_until_ready(function(*arguments))
    match row.kind:
        case "forward":
            return waiting(jax.jit(row.jax), *inputs), numbered
        case "gradient":
            is_float = [jnp.issubdtype(x.dtype, jnp.floating) for x in inputs]

            @jax.jit
            def with_gradient(inputs, cotangent):
                def of_floats(floats):
                    floats = iter(floats)
                    return row.jax(*(next(floats) if of else x for x, of in zip(inputs, is_float)))

                floats = [x for x, of in zip(inputs, is_float) if of]
                y, pullback = jax.vjp(of_floats, floats)
                return y, *pullback(cotangent)[0]

            return waiting(with_gradient, inputs, put["cotangent"]), numbered
        case "inference":
            return waiting(jax.jit(row.jax), part("parameters"), *inputs), numbered
        case "training":
            start, change = optimizers.in_jax(row.optimizer)
            state = (part("parameters"), start(part("parameters")))

            def step(state, *inputs):
                parameters, moments = state
                loss, gradient = jax.value_and_grad(row.jax)(parameters, *inputs)
                return loss, change(parameters, gradient, moments)

            return stepping(step, state, *inputs)
        case "update":
            start, change = optimizers.in_jax(row.optimizer)
            state = (part("parameters"), start(part("parameters")))
            step = lambda state, gradient: (0.0, change(state[0], gradient, state[1]))
            run, outputs = stepping(step, state, part("gradients"))
            return run, lambda result: {k: x for k, x in outputs(result).items() if k != "loss"}


def stepping(step, state, *inputs):
    """A step that gives the memory of its state away."""
    compiled = jax.jit(step, donate_argnums=0)

    def run():
        nonlocal state
        loss, state = jax.block_until_ready(compiled(state, *inputs))
        return loss

    # The state is given away by the next run.
    copied = lambda loss: {name: numpy.array(x) for name, x in {"loss": loss, **state[0]}.items()}
    return run, copied
