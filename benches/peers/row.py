"""Rows of the table: inputs, and what is computed from them in PyTorch and in JAX.

What bibun computes stands under the same names in benches/serve.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy


def normal(*shape, scale=1.0, dtype=numpy.float32):
    return lambda random: (scale * random.standard_normal(shape)).astype(dtype)


def uniform(low, high, *shape, dtype=numpy.float32):
    return lambda random: random.uniform(low, high, shape).astype(dtype)


def integers(high, *shape):
    return lambda random: random.integers(0, high, shape)


def flags(*shape):
    """Truths, of which every other is true."""
    return lambda random: random.random(shape) < 0.5


def constant(value):
    return lambda random: numpy.array(value)


@dataclass(frozen=True)
class Row:
    name: str
    # "forward", "gradient", "inference", "training" or "update".
    kind: str
    # Each a function of a random generator.
    inputs: tuple[Callable, ...] = ()
    torch: Callable | None = None
    jax: Callable | None = None
    # The shapes of a model's parameters, by name.
    parameters: dict[str, tuple[int, ...]] = field(default_factory=dict)
    # A name of optimizers.py.
    optimizer: str | None = None
    # Largest difference of the outputs, relative to the largest element of each, or of steps of
    # training, relative to their length.
    tolerance: float = 2e-5
    # Multiplications and additions.
    flops: float = 0.0

    @property
    def group(self):
        return self.name.split("/")[0]

    def arrays(self):
        """The inputs by name, the same in every run."""
        random = numpy.random.default_rng(0)
        arrays = {str(i): make(random) for i, make in enumerate(self.inputs)}
        for name, shape in self.parameters.items():
            arrays[f"parameters/{name}"] = initial(name, shape, random)
        if self.kind == "update":
            for name, shape in self.parameters.items():
                arrays[f"gradients/{name}"] = normal(*shape)(random)
        return {name: numpy.array(array, order="C") for name, array in arrays.items()}


def initial(name, shape, random):
    """A parameter as it is before training."""
    values = random.standard_normal(shape)
    match name.rsplit("/", 1)[-1]:
        case "gamma":
            values = 1 + 0.1 * values
        case "beta" | "bias" | "bias_hn":
            values = 0.1 * values
        case _:
            values = values / numpy.prod(shape[1:]) ** 0.5
    return values.astype(numpy.float32)


ROWS: dict[str, Row] = {}


def add(row):
    assert row.name not in ROWS, row.name
    ROWS[row.name] = row


def forward(name, *inputs, **how):
    """A function of the inputs."""
    add(Row(name, "forward", inputs, **how))


def gradient(name, *inputs, flops=0.0, **how):
    """The output of a function, and from its cotangent those of all inputs that are floats."""
    add(Row(name, "gradient", inputs, flops=3 * flops, **how))


def both(name, *inputs, **how):
    """Two rows: a function, and the function with its gradient."""
    forward(name, *inputs, **how)
    gradient(f"{name}/gradient", *inputs, **how)


def inference(name, *inputs, **how):
    """A function of a model's parameters and of inputs."""
    add(Row(name, "inference", inputs, **how))


def training(name, *inputs, flops=0.0, tolerance=1e-2, **how):
    """A step of training with a loss; the outputs are the loss and the new parameters."""
    add(Row(name, "training", inputs, flops=3 * flops, tolerance=tolerance, **how))


def update(name, parameters, optimizer):
    """A step of an optimizer by gradients that are there; the outputs are the new parameters."""
    add(Row(name, "update", parameters=parameters, optimizer=optimizer, tolerance=1e-3))
