"""The workloads: weights and examples, written once to a file that every library reads.

Parameters have bibun's names and layouts: `weight` [outputs, inputs, ..] and `bias` of layers, `gamma` and
`beta` of normalisations.
"""

import numpy
from safetensors.numpy import save_file


def linear(name, inputs, outputs):
    return [(f"{name}/weight", (outputs, inputs)), (f"{name}/bias", (outputs,))]


def conv(name, inputs, outputs, kernel, bias=True):
    w = [(f"{name}/weight", (outputs, inputs, kernel, kernel))]
    return w + [(f"{name}/bias", (outputs,))] if bias else w


def norm(name, channels):
    return [(f"{name}/gamma", (channels,)), (f"{name}/beta", (channels,))]


def pairs(sizes):
    return enumerate(zip(sizes, sizes[1:]))


CIFAR_CHANNELS = (3, 32, 32, 64, 64, 128, 128, 256, 10)
# Inputs, outputs and stride of each block.
RESNET_BLOCKS = ((16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1))


def mlp():
    return [p for i, (a, b) in pairs((784, 256, 256, 10)) for p in linear(f"layers/{i}", a, b)]


def mnist():
    convs = conv("conv1", 1, 16, 8) + conv("conv2", 16, 32, 4)
    return convs + linear("linear1", 512, 32) + linear("linear2", 32, 10)


def simple():
    convs = conv("conv1", 1, 32, 3) + conv("conv2", 32, 64, 3)
    return convs + linear("linear1", 9216, 128) + linear("linear2", 128, 10)


def cifar():
    return [p for i, (a, b) in pairs(CIFAR_CHANNELS) for p in conv(f"convs/{i}", a, b, 3)]


def embedding():
    return [("table/weight", (10004, 16))] + linear("linear", 16, 2)


def transformer():
    parameters = norm("norm1", 128)
    for name in ("query", "key", "value", "output"):
        parameters += linear(name, 128, 128)
    parameters += norm("norm2", 128) + linear("up", 128, 512) + linear("down", 512, 128)
    return parameters + linear("head", 128, 10)


def lstm():
    return linear("input", 100, 400) + linear("hidden", 100, 400) + linear("head", 100, 2)


def resnet():
    parameters = conv("stem", 3, 16, 3, bias=False) + norm("norm", 16)
    for i, (inputs, outputs, _) in enumerate(RESNET_BLOCKS):
        block = f"blocks/{i}"
        parameters += conv(f"{block}/conv1", inputs, outputs, 3, bias=False)
        parameters += norm(f"{block}/norm1", outputs)
        parameters += conv(f"{block}/conv2", outputs, outputs, 3, bias=False)
        parameters += norm(f"{block}/norm2", outputs)
        if inputs != outputs:
            parameters += conv(f"{block}/shortcut", inputs, outputs, 1, bias=False)
    return parameters + linear("linear", 64, 10)


# The parameters, the batch, the shape of an example (for words: how many, of how many) and the
# number of classes.
MODELS = {
    "mlp": (mlp, 128, (784,), 10),
    "mnist": (mnist, 256, (1, 28, 28), 10),
    "simple": (simple, 64, (1, 28, 28), 10),
    "cifar": (cifar, 64, (3, 32, 32), 10),
    "embedding": (embedding, 64, (256,), 2),
    "transformer": (transformer, 32, (64, 128), 10),
    "lstm": (lstm, 32, (64, 100), 2),
    "resnet": (resnet, 64, (3, 32, 32), 10),
}
WORDS = 10004

# Where gradients are cut: about half of them are longer.
BOUNDS = {"mlp": 37.0, "mnist": 108.0, "cifar": 19.0}

# Batch, inputs, outputs, height and width, kernel, stride, padding, dilation, groups.
CONVOLUTIONS = {
    "conv-1-16-k8-s2": (256, 1, 16, 28, 8, 2, 3, 1, 1),
    "conv-16-32-k4-s2": (256, 16, 32, 13, 4, 2, 0, 1, 1),
    "conv-32-64-26": (64, 32, 64, 26, 3, 1, 0, 1, 1),
    "conv-32-32-32": (64, 32, 32, 32, 3, 1, 1, 1, 1),
    "conv-64-128-8": (64, 64, 128, 8, 3, 1, 1, 1, 1),
    "conv-256-256-4": (32, 256, 256, 4, 3, 1, 1, 1, 1),
    "conv-32-32-dilated": (64, 32, 32, 16, 3, 1, 2, 2, 1),
    "conv-64-depthwise": (64, 64, 64, 16, 3, 1, 1, 1, 64),
    "conv-64-64-grouped": (64, 64, 64, 16, 3, 1, 1, 1, 8),
    "conv-64-256-1x1": (64, 64, 256, 16, 1, 1, 0, 1, 1),
}

WORKLOADS = [*MODELS, *(f"{name}-clipped" for name in BOUNDS), *CONVOLUTIONS]


def initial(name, shape, random):
    normal = random.standard_normal(shape)
    match name.rsplit("/", 1)[-1]:
        case "weight":
            return normal * (2 / numpy.prod(shape[1:])) ** 0.5
        case "gamma":
            return 1 + 0.1 * normal
        case _:
            return 0.1 * normal


def write(workload, quick, path, margins):
    """Writes the weights and examples of a workload, few examples of it if it shall be quick.

    Where a ReLU sees what is zero but for rounding, libraries may rightly differ: twice as many
    examples are drawn as are taken, those that keep the largest distance by `margins`, a function
    of the model's name and the tensors.
    """
    random = numpy.random.default_rng(0)
    if workload in CONVOLUTIONS:
        n, inputs, outputs, size, kernel, stride, padding, dilation, groups = CONVOLUTIONS[workload]
        n = 5 if quick else n
        positions = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        tensors = {
            "w": random.standard_normal((outputs, inputs // groups, kernel, kernel)),
            "x": random.standard_normal((n, inputs, size, size)),
            "gy": random.standard_normal((n, outputs, positions, positions)),
            "geometry": numpy.array([stride, padding, dilation, groups]),
        }
    else:
        model = workload.removesuffix("-clipped")
        parameters, n, example, classes = MODELS[model]
        n = 5 if quick else n
        tensors = {name: initial(name, shape, random) for name, shape in parameters()}
        if model == "embedding":
            tensors["x"] = random.integers(0, WORDS, (2 * n, *example))
        else:
            tensors["x"] = random.standard_normal((2 * n, *example))
        tensors["t"] = random.integers(0, classes, 2 * n)
        farthest = numpy.argsort(-margins(model, in_f32(tensors)), kind="stable")[:n]
        for name in ("x", "t"):
            tensors[name] = tensors[name][numpy.sort(farthest)]
        if model != workload:
            tensors["bound"] = numpy.array(BOUNDS[model])
    save_file(in_f32(tensors), path)


def in_f32(tensors):
    return {
        name: x if x.dtype == numpy.int64 else numpy.ascontiguousarray(x, numpy.float32)
        for name, x in tensors.items()
    }
