"""Networks: steps of training, and inference.

Parameters have the names and shapes that they have in bibun's models: `weight` [outputs, inputs, ..]
and `bias` of layers, `gamma` and `beta` of normalisations.
"""

from layers import (
    attention,
    batch_norm,
    clip,
    concat,
    conv,
    conv_transpose,
    cross_entropy,
    exp,
    fixed_batch_norm,
    gelu,
    gradient_to,
    group_norm,
    layer_norm,
    linear,
    log_softmax,
    max_pool,
    minimum,
    picked,
    relu,
    tanh,
)
from row import inference, integers, normal, training, uniform


def linear_shapes(name, inputs, outputs):
    return {f"{name}/weight": (outputs, inputs), f"{name}/bias": (outputs,)}


def norm_shapes(name, channels):
    return {f"{name}/gamma": (channels,), f"{name}/beta": (channels,)}


def layer(p, name, x):
    return linear(x, p[f"{name}/weight"], p[f"{name}/bias"])


def normed(p, name, x, norm, **how):
    return norm(x, p[f"{name}/gamma"], p[f"{name}/beta"], **how)


def mlp_shapes(name, sizes):
    pairs = enumerate(zip(sizes, sizes[1:]))
    return {k: v for i, pair in pairs for k, v in linear_shapes(f"{name}layers/{i}", *pair).items()}


def mlp(p, x, name="", activation=relu):
    count = sum(key.startswith(f"{name}layers/") for key in p) // 2
    for i in range(count):
        x = layer(p, f"{name}layers/{i}", activation(x) if i else x)
    return x


def train(name, model, parameters, batch, classes=10, optimizer="sgd-fast", **how):
    n = batch[0]
    loss = lambda p, x, t: cross_entropy(model(p, x), t)
    training(
        f"networks/{name}",
        normal(*batch),
        integers(classes, n),
        torch=loss,
        jax=loss,
        parameters=parameters,
        optimizer=optimizer,
        **how,
    )


def infer(name, model, parameters, *inputs, **how):
    inference(f"networks/{name}", *inputs, torch=model, jax=model, parameters=parameters, **how)


digits = mlp_shapes("", (784, 100, 100, 10))
control = mlp_shapes("", (4, 128, 128, 2))
train("mlp-784-100-100-10", mlp, digits, (128, 784), flops=2 * 128 * 89_400)
infer("mlp-4-128-128-2-one", mlp, control, normal(1, 4))
train("mlp-4-128-128-2", mlp, control, (32, 4), 2, "adam")

# Inputs, outputs, kernel, stride.
ALL_CNN = (
    (3, 32, 3, 1),
    (32, 32, 3, 1),
    (32, 64, 3, 2),
    (64, 64, 3, 1),
    (64, 64, 3, 2),
    (64, 64, 1, 1),
    (64, 10, 1, 1),
)


def all_cnn_shapes():
    shapes = {}
    for i, (inputs, outputs, kernel, _) in enumerate(ALL_CNN):
        shapes[f"convs/{i}/weight"] = (outputs, inputs, kernel, kernel)
        shapes[f"convs/{i}/bias"] = (outputs,)
    return shapes


def all_cnn(p, x):
    for i, (_, _, kernel, stride) in enumerate(ALL_CNN):
        w, b = p[f"convs/{i}/weight"], p[f"convs/{i}/bias"]
        x = conv(relu(x) if i else x, w, b, stride=stride, padding=kernel // 2)
    return x.mean((2, 3))


# Inputs, outputs, stride.
SEPARABLE = ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1))


def separable_shapes():
    shapes = {"stem/weight": (32, 3, 3, 3)}
    for i, (inputs, outputs, _) in enumerate(SEPARABLE):
        block = f"blocks/{i}"
        shapes[f"{block}/depthwise/weight"] = (inputs, 1, 3, 3)
        shapes |= norm_shapes(f"{block}/norm1", inputs)
        shapes[f"{block}/pointwise/weight"] = (outputs, inputs, 1, 1)
        shapes |= norm_shapes(f"{block}/norm2", outputs)
    return shapes | linear_shapes("head", 256, 10)


def separable(p, x):
    h = relu(conv(x, p["stem/weight"], padding=1))
    for i, (inputs, _, stride) in enumerate(SEPARABLE):
        block = f"blocks/{i}"
        w = p[f"{block}/depthwise/weight"]
        h = conv(h, w, stride=stride, padding=1, groups=inputs)
        h = relu(normed(p, f"{block}/norm1", h, batch_norm))
        h = conv(h, p[f"{block}/pointwise/weight"])
        h = relu(normed(p, f"{block}/norm2", h, batch_norm))
    return layer(p, "head", h.mean((2, 3)))


SMALL_BLOCKS = ((16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1))
BLOCKS = (
    (64, 64, 1),
    (64, 64, 1),
    (64, 128, 2),
    (128, 128, 1),
    (128, 256, 2),
    (256, 256, 1),
    (256, 512, 2),
    (512, 512, 1),
)


def resnet_shapes(kernel, blocks, classes):
    first, last = blocks[0][0], blocks[-1][1]
    shapes = {"stem/weight": (first, 3, kernel, kernel)} | norm_shapes("norm", first)
    for i, (inputs, outputs, stride) in enumerate(blocks):
        block = f"blocks/{i}"
        shapes[f"{block}/conv1/weight"] = (outputs, inputs, 3, 3)
        shapes |= norm_shapes(f"{block}/norm1", outputs)
        shapes[f"{block}/conv2/weight"] = (outputs, outputs, 3, 3)
        shapes |= norm_shapes(f"{block}/norm2", outputs)
        if inputs != outputs or stride != 1:
            shapes[f"{block}/shortcut/weight"] = (outputs, inputs, 1, 1)
    return shapes | linear_shapes("head", last, classes)


def resnet(p, x, blocks, norm, is_large=False, **how):
    stem = conv(x, p["stem/weight"], stride=1 + is_large, padding=3 if is_large else 1)
    h = relu(normed(p, "norm", stem, norm, **how))
    if is_large:
        h = max_pool(h, 3, 2, 1)
    for i, (_, _, stride) in enumerate(blocks):
        block = f"blocks/{i}"
        y = conv(h, p[f"{block}/conv1/weight"], stride=stride, padding=1)
        y = relu(normed(p, f"{block}/norm1", y, norm, **how))
        y = conv(y, p[f"{block}/conv2/weight"], padding=1)
        y = normed(p, f"{block}/norm2", y, norm, **how)
        shortcut = p.get(f"{block}/shortcut/weight")
        h = relu(y + (h if shortcut is None else conv(h, shortcut, stride=stride)))
    return layer(p, "head", h.mean((2, 3)))


images = (32, 3, 32, 32)
train("all-cnn", all_cnn, all_cnn_shapes(), images, flops=2 * 32 * 32.6e6)
train("separable", separable, separable_shapes(), images, flops=2 * 32 * 14.2e6)
train(
    "resnet-group-norm",
    lambda p, x: resnet(p, x, SMALL_BLOCKS, group_norm, groups=8),
    resnet_shapes(3, SMALL_BLOCKS, 10),
    images,
    flops=2 * 32 * 27.1e6,
)
train(
    "resnet-18",
    lambda p, x: resnet(p, x, BLOCKS, batch_norm),
    resnet_shapes(3, BLOCKS, 10),
    images,
    flops=2 * 32 * 555e6,
)
infer(
    "resnet-18-one-224",
    lambda p, x: resnet(p, x, BLOCKS, fixed_batch_norm, is_large=True),
    resnet_shapes(7, BLOCKS, 1000),
    normal(1, 3, 224, 224),
    flops=2 * 1.8e9,
    tolerance=1e-4,
)


def block_shapes(name, width):
    shapes = {}
    for part in ("query", "key", "value", "output"):
        shapes |= linear_shapes(f"{name}attention/{part}", width, width)
    shapes |= norm_shapes(f"{name}attention_norm", width)
    shapes |= mlp_shapes(f"{name}feed_forward/", (width, 4 * width, width))
    return shapes | norm_shapes(f"{name}feed_forward_norm", width)


def block(p, x, heads, name="", is_causal=False):
    n, length, width = x.shape
    y = normed(p, f"{name}attention_norm", x, layer_norm)
    q, k, v = (
        layer(p, f"{name}attention/{part}", y)
        .reshape(n, length, heads, width // heads)
        .swapaxes(1, 2)
        for part in ("query", "key", "value")
    )
    mixed = attention(q, k, v, is_causal=is_causal).swapaxes(1, 2).reshape(n, length, width)
    x = x + layer(p, f"{name}attention/output", mixed)
    y = normed(p, f"{name}feed_forward_norm", x, layer_norm)
    return x + mlp(p, y, f"{name}feed_forward/", gelu)


flops = 2 * 8 * 64 * (12 * 128**2 + 2 * 64 * 128)
loss = lambda p, x: (block(p, x, 4) ** 2).mean()
training(
    "networks/transformer-block",
    normal(8, 64, 128),
    torch=loss,
    jax=loss,
    parameters=block_shapes("", 128),
    optimizer="sgd-fast",
    flops=flops,
)
infer(
    "transformer-block-forward",
    lambda p, x: block(p, x, 4),
    block_shapes("", 128),
    normal(8, 64, 128),
    flops=flops,
)

WORDS, WIDTH, LENGTH, LAYERS = 256, 384, 128, 6


def gpt_shapes():
    shapes = {"words/weight": (WORDS, WIDTH), "positions/weight": (LENGTH, WIDTH)}
    for i in range(LAYERS):
        shapes |= block_shapes(f"blocks/{i}/", WIDTH)
    return shapes | norm_shapes("norm", WIDTH) | {"head/weight": (WORDS, WIDTH)}


def gpt(p, words, following):
    h = p["words/weight"][words] + p["positions/weight"]
    for i in range(LAYERS):
        h = block(p, h, 6, f"blocks/{i}/", is_causal=True)
    scores = linear(normed(p, "norm", h, layer_norm), p["head/weight"])
    return cross_entropy(scores.reshape(-1, WORDS), following)


training(
    "networks/gpt",
    integers(WORDS, 4, LENGTH),
    integers(WORDS, 4 * LENGTH),
    torch=gpt,
    jax=gpt,
    parameters=gpt_shapes(),
    optimizer="adam",
    flops=2 * 4 * LENGTH * (LAYERS * (12 * WIDTH**2 + LENGTH * WIDTH) + WORDS * WIDTH),
)

# Inputs and outputs of the convolutions on each size of images.
DOWN, UP = ((1, 16), (16, 32), (32, 64)), ((64, 32), (32, 16))


def conv_shapes(name, inputs, outputs, kernel=3):
    return {f"{name}/weight": (outputs, inputs, kernel, kernel), f"{name}/bias": (outputs,)}


def pair_shapes(name, inputs, outputs):
    first, second = f"{name}/conv1", f"{name}/conv2"
    return conv_shapes(first, inputs, outputs) | conv_shapes(second, outputs, outputs)


def u_net_shapes():
    shapes = conv_shapes("head", 16, 1, 1)
    for i, sizes in enumerate(DOWN):
        shapes |= pair_shapes(f"down/{i}", *sizes)
    for i, (inputs, outputs) in enumerate(UP):
        shapes[f"up/{i}/grow/weight"] = (inputs, outputs, 2, 2)
        shapes[f"up/{i}/grow/bias"] = (outputs,)
        shapes |= pair_shapes(f"up/{i}/convs", inputs, outputs)
    return shapes


def pair(p, name, x):
    for part in ("conv1", "conv2"):
        x = relu(conv(x, p[f"{name}/{part}/weight"], p[f"{name}/{part}/bias"], padding=1))
    return x


def u_net(p, x):
    sizes = []
    for i in range(len(DOWN)):
        sizes.append(pair(p, f"down/{i}", max_pool(sizes[-1], 2, 2) if i else x))
    h = sizes.pop()
    for i in range(len(UP)):
        grown = conv_transpose(h, p[f"up/{i}/grow/weight"], p[f"up/{i}/grow/bias"], 2)
        h = pair(p, f"up/{i}/convs", concat([sizes.pop(), grown], 1))
    return conv(h, p["head/weight"], p["head/bias"])


loss = lambda p, x, y: ((u_net(p, x) - y) ** 2).mean()
training(
    "networks/u-net",
    normal(4, 1, 64, 64),
    normal(4, 1, 64, 64),
    torch=loss,
    jax=loss,
    parameters=u_net_shapes(),
    optimizer="sgd-fast",
    flops=2 * 4 * 103e6,
)


def critic_loss(p, real, fake, weights):
    between = real * weights + fake * (1 - weights)
    slopes = gradient_to(lambda x: mlp(p, x).sum(), between)
    penalty = (((slopes**2).sum(1) ** 0.5 - 1) ** 2).mean()
    return mlp(p, fake).mean() - mlp(p, real).mean() + 10 * penalty


training(
    "networks/critic-gradient-penalty",
    normal(64, 64),
    normal(64, 64),
    uniform(0, 1, 64, 1),
    torch=critic_loss,
    jax=critic_loss,
    parameters=mlp_shapes("", (64, 256, 256, 1)),
    optimizer="adam",
)


def proximal_policy_loss(p, observed, actions, before, advantages, returns):
    h = tanh(mlp(p, observed, "trunk/"))
    log_policy = log_softmax(layer(p, "policy", h))
    ratio = exp(picked(log_policy, actions) - before)
    gain = minimum(ratio * advantages, clip(ratio, 0.8, 1.2) * advantages)
    value = layer(p, "value", h)[:, 0]
    entropy = -(exp(log_policy) * log_policy).sum(-1).mean()
    return 0.5 * ((value - returns) ** 2).mean() - gain.mean() - 0.01 * entropy


def agent_shapes():
    heads = linear_shapes("policy", 64, 4) | linear_shapes("value", 64, 1)
    return mlp_shapes("trunk/", (8, 64, 64)) | heads


training(
    "networks/ppo",
    normal(256, 8),
    integers(4, 256),
    uniform(-2, -1, 256),
    normal(256),
    normal(256),
    torch=proximal_policy_loss,
    jax=proximal_policy_loss,
    parameters=agent_shapes(),
    optimizer="adam",
)
