"""Times PyTorch's recurrent layers as `cargo bench -p bibun-benches --bench recurrent` times bibun's.

`python recurrent.py [BATCH TIME INPUTS UNITS] [--threads N]` prints medians in milliseconds: a forward
run without history, and a forward and backward run.
"""

import argparse
import statistics
import time

import torch


def median(run, seconds=1.2):
    for _ in range(3):
        run()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


parser = argparse.ArgumentParser()
parser.add_argument("sizes", nargs="*", type=int)
parser.add_argument("--threads", type=int, default=1)
options = parser.parse_args()
torch.set_num_threads(options.threads)
batch, steps, inputs, units = options.sizes or [32, 64, 64, 128]
print("| | forward, ms | step, ms |")
print("|---|---|---|")
for name in ["LSTM", "GRU", "RNN"]:
    network = getattr(torch.nn, name)(inputs, units, batch_first=True)
    x = torch.randn(batch, steps, inputs)

    def forward():
        with torch.no_grad():
            network(x)

    def step():
        network.zero_grad()
        network(x)[0].square().sum().backward()

    print(f"| {name.lower()} | {median(forward):.2f} | {median(step):.2f} |")
