"""Prints what `attention.rs` prints, of PyTorch. The argument is the number of threads."""

import sys
import time

import torch
from torch.nn import functional as F

torch.set_num_threads(int(sys.argv[1]) if sys.argv[1:] else 1)


def median(call):
    start, times = time.perf_counter(), []
    while len(times) < 3 or time.perf_counter() - start < 0.3:
        before = time.perf_counter()
        call()
        times.append((time.perf_counter() - before) * 1e6)
    return sorted(times)[len(times) // 2]


SHAPES = [(8, 4, 64, 24), (8, 4, 64, 64), (4, 4, 256, 32), (2, 4, 512, 64), (1, 4, 2048, 24), (1, 4, 2048, 64)]
for causal in (True, False):
    for shape in SHAPES:
        constants = [torch.randn(shape) for _ in range(3)]
        leaves = [x.clone().requires_grad_() for x in constants]
        ones = torch.ones(shape)

        def both():
            for leaf in leaves:
                leaf.grad = None
            (F.scaled_dot_product_attention(*leaves, is_causal=causal) * ones).sum().backward()

        forward = median(lambda: F.scaled_dot_product_attention(*constants, is_causal=causal))
        name = f"{list(shape)}{' causal' if causal else ''}"
        print(f"{name:24}{forward:>12.1f}{median(both):>14.1f}")
