"""Optimizers by name, with the settings that benches/serve gives bibun's."""

from libraries import jax, jnp, torch

# The rule, its learning rate, and the norm that gradients are clipped to.
SETTINGS = {
    "sgd": ("sgd", 1e-3, None),
    "sgd-fast": ("sgd", 0.05, None),
    "momentum": ("momentum", 1e-3, None),
    "adam": ("adam", 1e-3, None),
    "adamw": ("adamw", 1e-3, None),
    "adam-clipped": ("adam", 1e-3, 1.0),
}
BETAS = (0.9, 0.999)
EPSILON = 1e-8
DECAY = 0.01


class Clipped:
    """An optimizer that shortens the gradient to a norm first."""

    def __init__(self, optimizer, parameters, norm):
        self.optimizer, self.parameters, self.norm = optimizer, parameters, norm
        self.zero_grad = optimizer.zero_grad

    def step(self):
        torch.nn.utils.clip_grad_norm_(self.parameters, self.norm)
        self.optimizer.step()


def in_torch(name, parameters):
    rule, rate, norm = SETTINGS[name]
    optim = torch.optim
    optimizer = {
        "sgd": lambda: optim.SGD(parameters, rate),
        "momentum": lambda: optim.SGD(parameters, rate, momentum=0.9),
        "adam": lambda: optim.Adam(parameters, rate),
        "adamw": lambda: optim.AdamW(parameters, rate, weight_decay=DECAY),
    }[rule]()
    return optimizer if norm is None else Clipped(optimizer, parameters, norm)


def in_jax(name):
    """The state at the start, and the step: new parameters and state by a gradient."""
    rule, rate, norm = SETTINGS[name]
    tree_map = jax.tree.map
    zeros = lambda parameters: tree_map(jnp.zeros_like, parameters)

    def clipped(gradient):
        if norm is None:
            return gradient
        squares = sum(jnp.vdot(g, g) for g in jax.tree.leaves(gradient))
        factor = jnp.minimum(1.0, norm / jnp.sqrt(squares)).astype(jnp.float32)
        return tree_map(lambda g: factor * g, gradient)

    def sgd(w, g, _):
        return tree_map(lambda w, g: w - rate * g, w, g), ()

    def momentum(w, g, v):
        v = tree_map(lambda v, g: 0.9 * v + g, v, g)
        return tree_map(lambda w, v: w - rate * v, w, v), v

    def adam(w, g, state, decay=0.0):
        step, m, v = state
        step += 1
        g = clipped(g)
        m = tree_map(lambda m, g: BETAS[0] * m + (1 - BETAS[0]) * g, m, g)
        v = tree_map(lambda v, g: BETAS[1] * v + (1 - BETAS[1]) * g * g, v, g)
        of_m, of_v = (1 - beta ** step.astype(jnp.float32) for beta in BETAS)

        def change(w, m, v):
            return w * (1 - rate * decay) - rate * (m / of_m) / (jnp.sqrt(v / of_v) + EPSILON)

        return tree_map(change, w, m, v), (step, m, v)

    moments = lambda parameters: (jnp.int32(0), zeros(parameters), zeros(parameters))
    return {
        "sgd": (lambda _: (), sgd),
        "momentum": (zeros, momentum),
        "adam": (moments, adam),
        "adamw": (moments, lambda w, g, state: adam(w, g, state, DECAY)),
    }[rule]
