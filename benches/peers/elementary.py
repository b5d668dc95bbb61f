"""Prints what `elementary.rs` prints, of PyTorch: nanoseconds per element."""

import sys
import time

import torch
from torch.nn import functional as F

torch.set_num_threads(1)
FUNCTIONS = {
    "relu": (-4, 4, torch.relu),
    "exp": (-10, 10, torch.exp),
    "exp of lowest": (-3.4e38, -3.3e38, torch.exp),
    "tanh": (-4, 4, torch.tanh),
    "erf": (-4, 4, torch.erf),
    "gelu": (-4, 4, F.gelu),
    "gelu_tanh": (-4, 4, lambda x: F.gelu(x, approximate="tanh")),
    "sigmoid": (-8, 8, torch.sigmoid),
    "silu": (-8, 8, F.silu),
    "softplus": (-8, 8, F.softplus),
    "mish": (-8, 8, F.mish),
    "log": (0.01, 10, torch.log),
    "sin": (-10, 10, torch.sin),
    "cos": (-10, 10, torch.cos),
    "pow 2.5": (0.01, 10, lambda x: x**2.5),
}


def median(call):
    start, times = time.perf_counter(), []
    while len(times) < 5 or time.perf_counter() - start < 0.2:
        before = time.perf_counter()
        call()
        times.append((time.perf_counter() - before) * 1e9)
    return sorted(times)[len(times) // 2]


print(f"{'':16}{16384:>10}{'with gradient':>14}{1000000:>10}{'with gradient':>14}")
for name, (low, high, function) in FUNCTIONS.items():
    if sys.argv[1:] and name not in sys.argv[1:]:
        continue
    print(f"{name:16}", end="")
    for size in (16384, 1000000):
        x = torch.empty(size).uniform_(0, 1) * (high - low) + low
        leaf = x.clone().requires_grad_()
        ones = torch.ones(size)

        def both():
            leaf.grad = None
            (function(leaf) * ones).sum().backward()

        forward = median(lambda: function(x))
        print(f"{forward / size:>10.3f}{median(both) / size:>14.3f}", end="")
    print()
