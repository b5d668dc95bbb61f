"""What the example `scaling` measures of a step, by PyTorch's DistributedDataParallel with gloo: the same
perceptron, batch and number of processes.

    python scaling_torch.py 2
"""

import os
import statistics
import sys
import time

import torch
from torch import distributed, multiprocessing, nn

SIZES = [784, 1024, 1024, 1024, 10]
EXAMPLES = 128
STEPS = 30


def perceptron():
    layers = []
    for inputs, outputs in zip(SIZES, SIZES[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def step_time(model, x):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    step()
    step()
    distributed.barrier()
    times = []
    for _ in range(STEPS):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times)


def run(rank, count):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29517")
    distributed.init_process_group("gloo", rank=rank, world_size=count)
    torch.manual_seed(0)
    # The processes share the processors of one machine.
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    x = torch.randn(EXAMPLES, SIZES[0])
    model = perceptron()
    alone = step_time(model, x)
    together = step_time(nn.parallel.DistributedDataParallel(model, bucket_cap_mb=4), x)
    if rank == 0:
        print(f"{count} processes: a step {alone:.1f} ms alone, {together:.1f} ms together")
    distributed.destroy_process_group()


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    multiprocessing.spawn(run, (count,), count)
