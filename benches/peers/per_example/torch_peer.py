"""Gradients of examples in PyTorch: a loop, vmap(grad), ExpandedWeights, and Opacus."""

import os
import warnings

import numpy
import torch
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from safetensors.torch import load_file
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F
from torch.nn.utils._per_sample_grad import call_for_per_sample_grads
from torch.overrides import TorchFunctionMode

from worker import serve
from workloads import CIFAR_CHANNELS, CONVOLUTIONS, RESNET_BLOCKS, WORDS


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = (784, 256, 256, 10)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(F.relu(x) if i else x)
        return x


class MnistNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 8, stride=2, padding=3)
        self.conv2 = nn.Conv2d(16, 32, 4, stride=2)
        self.linear1 = nn.Linear(512, 32)
        self.linear2 = nn.Linear(32, 10)

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.conv1(x)), 2, 1)
        h = F.max_pool2d(F.relu(self.conv2(h)), 2, 1)
        return self.linear2(F.relu(self.linear1(h.flatten(1))))


class SimpleCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.linear1 = nn.Linear(9216, 128)
        self.linear2 = nn.Linear(128, 10)

    def forward(self, x):
        h = F.relu(self.conv2(F.relu(self.conv1(x))))
        return self.linear2(F.relu(self.linear1(F.max_pool2d(h, 2).flatten(1))))


class CifarCnn(nn.Module):
    def __init__(self):
        super().__init__()
        channels = zip(CIFAR_CHANNELS, CIFAR_CHANNELS[1:])
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in channels)

    def forward(self, h):
        for i, conv in enumerate(self.convs):
            if i:
                h = F.relu(h)
            if i and i % 2 == 0:
                h = F.avg_pool2d(h, 2)
            h = conv(h)
        return h.mean((2, 3))


class EmbeddingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, 16)
        self.linear = nn.Linear(16, 2)

    def forward(self, words):
        return self.linear(self.table(words).mean(1))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.input = nn.Linear(100, 400)
        self.hidden = nn.Linear(100, 400)
        self.head = nn.Linear(100, 2)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], 100)
        outputs = []
        for step in self.input(x).unbind(1):
            i, f, g, o = (step + self.hidden(h)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        return self.head(torch.stack(outputs, 1).mean(1))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(128)
        self.query, self.key, self.value, self.output = (nn.Linear(128, 128) for _ in range(4))
        self.norm2 = nn.LayerNorm(128)
        self.up = nn.Linear(128, 512)
        self.down = nn.Linear(512, 128)
        self.head = nn.Linear(128, 10)

    def attention(self, x):
        layers = (self.query, self.key, self.value)
        q, k, v = (layer(x).unflatten(2, (4, 32)).transpose(1, 2) for layer in layers)
        weights = (q @ k.transpose(2, 3) / 32**0.5).softmax(-1)
        return self.output((weights @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        x = x + self.down(F.relu(self.up(self.norm2(x))))
        return self.head(x.mean(1))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(8, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(8, outputs)
        if inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        else:
            self.shortcut = nn.Identity()

    def forward(self, x):
        h = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(h + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(8, 16)
        self.blocks = nn.Sequential(*(Residual(*block) for block in RESNET_BLOCKS))
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        h = F.relu(self.norm(self.stem(x)))
        return self.linear(self.blocks(h).mean((2, 3)))


MODELS = {
    "mlp": Mlp,
    "mnist": MnistNet,
    "simple": SimpleCnn,
    "cifar": CifarCnn,
    "embedding": EmbeddingNet,
    "transformer": Transformer,
    "lstm": Lstm,
    "resnet": ResNet,
}


def names_in_file(model, tensors):
    """The name in the file of each parameter."""
    names = {}
    for name, _ in model.named_parameters():
        owner, last = name.replace(".", "/").rsplit("/", 1)
        of_norm = f"{owner}/gamma" in tensors
        own = {"weight": ("weight", "gamma"), "bias": ("bias", "beta")}[last][of_norm]
        names[name] = f"{owner}/{own}"
    return names


class ReluMargins(TorchFunctionMode):
    """How far from zero, in standard deviations, what ReLUs see of each example stays."""

    margins = torch.tensor(torch.inf)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is F.relu:
            z = args[0].flatten(1)
            self.margins = torch.minimum(self.margins, z.abs().amin(1) / z.std())
        return function(*args, **(kwargs or {}))


def relu_margins(name, tensors):
    """The margins of each example in numpy's tensors."""
    tensors = {key: torch.from_numpy(x) for key, x in tensors.items()}
    training = Training(name, tensors, torch.float64)
    with torch.no_grad(), ReluMargins() as mode:
        training.model(training.x)
    return mode.margins.expand(len(training.t)).numpy()


class Training:
    """The gradient of a classifier's loss."""

    def __init__(self, name, tensors, dtype=torch.float32):
        self.name, self.tensors = name, tensors
        self.x, self.t = tensors["x"], tensors["t"]
        if self.x.is_floating_point():
            self.x = self.x.to(dtype)
        self.examples = [(self.x[i : i + 1], self.t[i : i + 1]) for i in range(len(self.t))]
        self.model = self.new_model(dtype)
        self.parameters = list(self.model.parameters())
        self.names = list(names_in_file(self.model, tensors).values())
        # Hooks and the like are put on a model of their own.
        self.hooked = GradSampleModule(self.new_model(dtype), loss_reduction="sum")
        self.expanded = self.new_model(dtype)

    def new_model(self, dtype):
        model = MODELS[self.name]()
        names = names_in_file(model, self.tensors)
        model.load_state_dict({own: self.tensors[name] for own, name in names.items()})
        return model.to(dtype)

    def ordinary(self):
        self.model.zero_grad()
        F.cross_entropy(self.model(self.x), self.t, reduction="sum").backward()
        return [p.grad for p in self.parameters]

    def of_example(self, x, t):
        return torch.autograd.grad(F.cross_entropy(self.model(x), t), self.parameters)

    def loop(self):
        return [self.of_example(x, t) for x, t in self.examples]

    def loop_stacked(self):
        return [torch.stack(rows) for rows in zip(*self.loop())]

    def loop_sparse(self):
        """The gradients of the table as the rows that an example picked."""
        self.model.table.sparse = True
        try:
            return self.loop()
        finally:
            self.model.table.sparse = False

    def vmap(self):
        def loss(parameters, x, t):
            y = functional_call(self.model, parameters, (x.unsqueeze(0),))
            return F.cross_entropy(y, t.unsqueeze(0))

        parameters = {name: p.detach() for name, p in self.model.named_parameters()}
        gradients = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, self.x, self.t)
        return list(gradients.values())

    def opacus(self):
        self.hooked.zero_grad()
        F.cross_entropy(self.hooked(self.x), self.t, reduction="sum").backward()
        return [p.grad_sample for p in self.hooked.parameters()]

    def expanded_weights(self):
        for p in self.expanded.parameters():
            p.grad_sample = None
        y = call_for_per_sample_grads(self.expanded, loss_reduction="sum")(self.x)
        F.cross_entropy(y, self.t, reduction="sum").backward()
        return [p.grad_sample for p in self.expanded.parameters()]

    def arrays(self, gradients):
        return dict(zip(self.names, (g.detach().float().numpy() for g in gradients)))

    def modes(self):
        def joined(examples):
            leaves = zip(*examples)
            return self.arrays(torch.stack([row.to_dense() for row in rows]) for rows in leaves)

        sparse = {"loop-sparse": (self.loop_sparse, joined)} if self.name == "embedding" else {}
        return sparse | {
            "reference": (self.reference, lambda arrays: arrays),
            "ordinary": (self.ordinary, self.arrays),
            "loop": (self.loop, joined),
            "loop-stacked": (self.loop_stacked, self.arrays),
            "vmap": (self.vmap, self.arrays),
            "opacus": (self.opacus, self.arrays),
            "expanded-weights": (self.expanded_weights, self.arrays),
        }

    def reference(self):
        """One example after the other in f64, and their sum."""
        rows = Training(self.name, self.tensors, torch.float64).loop_stacked()
        sums = self.arrays(g.sum(0) for g in rows)
        return self.arrays(rows) | {f"ordinary/{name}": x for name, x in sums.items()}


class Clipping(Training):
    """Norms of the gradients of examples, and the sum of the gradients cut to a length."""

    def __init__(self, name, tensors, dtype=torch.float32):
        super().__init__(name, tensors, dtype)
        self.bound = tensors["bound"].item()
        options = {"loss_reduction": "sum", "max_grad_norm": self.bound, "use_ghost_clipping": True}
        self.ghost = GradSampleModuleFastGradientClipping(self.new_model(dtype), **options)

    def factors(self, norms):
        return (self.bound / norms).clamp(max=1)

    def of_rows(self, rows):
        rows = list(rows)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in rows]).norm(dim=0)
        factors = self.factors(norms)
        return [norms] + [torch.tensordot(factors, g, 1) for g in rows]

    def by_loop(self):
        norms, total = [], None
        for x, t in self.examples:
            gradient = self.of_example(x, t)
            norm = torch.stack([g.norm() for g in gradient]).norm()
            torch._foreach_mul_(gradient, self.factors(norm))
            if total is None:
                total = list(gradient)
            else:
                torch._foreach_add_(total, gradient)
            norms.append(norm)
        return [torch.stack(norms)] + total

    def by_ghost(self):
        self.ghost.enable_hooks()
        losses = F.cross_entropy(self.ghost(self.x), self.t, reduction="none")
        losses.sum().backward(retain_graph=True)
        factors = self.ghost.get_clipping_coef()
        norms = self.ghost.per_sample_gradient_norms
        self.ghost.zero_grad()
        self.ghost.disable_hooks()
        (factors * losses).sum().backward()
        return [norms] + [p.grad for p in self.ghost.parameters()]

    def by_book_keeping(self):
        """Written by hand for linear layers: norms from norms, and the sum from scaled cotangents
        that the one walk back left (Goodfellow 2015; Bu et al. 2022)."""
        inputs, outputs, h = [], [], self.x
        for i, layer in enumerate(self.model.layers):
            inputs.append(F.relu(h) if i else h)
            h = layer(inputs[-1])
            outputs.append(h)
        cotangents = torch.autograd.grad(F.cross_entropy(h, self.t, reduction="sum"), outputs)
        with torch.no_grad():
            squares = [
                gy.square().sum(1) * (x.square().sum(1) + 1) for x, gy in zip(inputs, cotangents)
            ]
            norms = torch.stack(squares).sum(0).sqrt()
            factors = self.factors(norms).unsqueeze(1)
            clipped = [factors * gy for gy in cotangents]
            sums = [g for x, gy in zip(inputs, clipped) for g in (gy.T @ x, gy.sum(0))]
        return [norms] + sums

    def modes(self):
        names = ["norms"] + self.names
        arrays = lambda clipped: dict(zip(names, (x.detach().float().numpy() for x in clipped)))
        book_keeping = {"book-keeping": (self.by_book_keeping, arrays)}
        return (book_keeping if self.name == "mlp" else {}) | {
            "reference": (self.reference, lambda arrays: arrays),
            "ordinary": (self.ordinary, self.arrays),
            "loop": (self.by_loop, arrays),
            "vmap": (lambda: self.of_rows(self.vmap()), arrays),
            "opacus": (lambda: self.of_rows(self.opacus()), arrays),
            "opacus-ghost": (self.by_ghost, arrays),
            "expanded-weights": (lambda: self.of_rows(self.expanded_weights()), arrays),
        }

    def reference(self):
        rows = Training(self.name, self.tensors, torch.float64).loop_stacked()
        norms, *sums = self.of_rows(rows)
        ordinary = self.arrays(g.sum(0) for g in rows)
        named = {"norms": norms.float().numpy()} | self.arrays(sums)
        return named | {f"ordinary/{name}": x for name, x in ordinary.items()}


class Convolution:
    """The gradient of a convolution to its weights."""

    def __init__(self, tensors, dtype=torch.float32):
        self.tensors = tensors
        self.w, self.x, self.gy = (tensors[name].to(dtype) for name in ("w", "x", "gy"))
        self.stride, self.padding, self.dilation, self.groups = tensors["geometry"].tolist()

    def weight_gradient(self, x, gy):
        _, gradient, _ = torch.ops.aten.convolution_backward(
            gy,
            x,
            self.w,
            None,
            [self.stride] * 2,
            [self.padding] * 2,
            [self.dilation] * 2,
            False,
            [0, 0],
            self.groups,
            [False, True, False],
        )
        return gradient

    def loop(self):
        pairs = zip(self.x.split(1), self.gy.split(1))
        return [self.weight_gradient(x, gy) for x, gy in pairs]

    def unfold(self):
        """The patches of the whole batch, and a product of matrices for each example."""
        n, inputs = self.x.shape[:2]
        outputs, of_group, *kernel = self.w.shape
        options = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}
        patches = F.unfold(self.x, kernel, **options)
        patches = patches.view(n, self.groups, of_group * kernel[0] * kernel[1], -1)
        gy = self.gy.reshape(n, self.groups, outputs // self.groups, -1)
        return torch.einsum("ngol,ngkl->ngok", gy, patches).view(n, *self.w.shape)

    def grouped(self):
        """A convolution with the examples as groups, of x by the cotangent (torch's vmap)."""
        n, inputs, *size = self.x.shape
        outputs, of_group, *kernel = self.w.shape
        x = self.x.view(n, self.groups, of_group, *size)
        x = x.permute(2, 0, 1, 3, 4).reshape(of_group, n * self.groups, *size)
        gy = self.gy.reshape(n * outputs, 1, *self.gy.shape[2:])
        y = F.conv2d(
            x,
            gy,
            stride=self.dilation,
            padding=self.padding,
            dilation=self.stride,
            groups=n * self.groups,
        )
        y = y[:, :, : kernel[0], : kernel[1]].view(of_group, n, outputs, *kernel)
        return y.permute(1, 2, 0, 3, 4).contiguous()

    def with_channels_as_axis(self):
        """The same with the channels as one more axis (Rochette, Manoel, Tramel 2019)."""
        n, inputs, *size = self.x.shape
        outputs, of_group, *kernel = self.w.shape
        x = self.x.view(1, n * self.groups, of_group, *size)
        gy = self.gy.reshape(n * outputs, 1, 1, *self.gy.shape[2:])
        y = F.conv3d(
            x,
            gy,
            stride=(1, self.dilation, self.dilation),
            padding=(0, self.padding, self.padding),
            dilation=(1, self.stride, self.stride),
            groups=n * self.groups,
        )
        return y[0, :, :, : kernel[0], : kernel[1]].reshape(n, *self.w.shape)

    def depthwise(self):
        """Each pair of channels alone: a depthwise convolution, with the cotangent repeated."""
        n, inputs, *size = self.x.shape
        outputs, of_group, *kernel = self.w.shape
        x = self.x.view(1, n * inputs, *size)
        gy = self.gy.view(n, self.groups, 1, outputs // self.groups, *self.gy.shape[2:])
        gy = gy.expand(-1, -1, of_group, -1, -1, -1)
        gy = gy.reshape(n * inputs * (outputs // self.groups), 1, *self.gy.shape[2:])
        y = F.conv2d(
            x,
            gy,
            stride=self.dilation,
            padding=self.padding,
            dilation=self.stride,
            groups=n * inputs,
        )
        y = y[0, :, : kernel[0], : kernel[1]]
        y = y.view(n, self.groups, of_group, outputs // self.groups, *kernel)
        return y.transpose(2, 3).reshape(n, *self.w.shape)

    def modes(self):
        array = lambda rows: {"w": rows.float().numpy()}
        joined = lambda rows: array(torch.cat([g.unsqueeze(0) for g in rows]))
        return {
            "reference": (self.reference, lambda arrays: arrays),
            "ordinary": (lambda: self.weight_gradient(self.x, self.gy), array),
            "loop": (self.loop, joined),
            "loop-stacked": (lambda: torch.stack(self.loop()), array),
            "unfold": (self.unfold, array),
            "grouped": (self.grouped, array),
            "conv3d": (self.with_channels_as_axis, array),
            "depthwise": (self.depthwise, array),
        }

    def reference(self):
        rows = torch.stack(Convolution(self.tensors, torch.float64).loop())
        return {"w": rows.float().numpy(), "ordinary/w": rows.sum(0).float().numpy()}


def load(workload, file):
    tensors = load_file(file)
    if workload in CONVOLUTIONS:
        return Convolution(tensors).modes()
    if workload.endswith("-clipped"):
        return Clipping(workload.removesuffix("-clipped"), tensors).modes()
    return Training(workload, tensors).modes()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    serve(load)
