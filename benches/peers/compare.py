"""Times bibun's workloads beside the same in PyTorch, in turns, and prints the ratios.

Every number is the median of many rounds; in each round both libraries run, one after the other, so
that both see the same state of the machine.
"""

import argparse
import os
import statistics
import subprocess
import time

import torch

# Runs in each round.
WORKLOADS = {
    "mlp-step": 200,
    "scalar-multiply": 20,
    "scalar-sin": 20,
    "scalar-tanh": 20,
}
SCALAR_FUNCTIONS = 1000


class Bibun:
    """The program that runs bibun's workloads on request."""

    def __init__(self, program, threads):
        self.process = subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "RAYON_NUM_THREADS": str(threads)},
        )

    def time(self, workload, count):
        self.process.stdin.write(f"{workload} {count}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()) / count

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def mlp_step():
    model = torch.nn.Sequential(
        torch.nn.Linear(784, 100),
        torch.nn.ReLU(),
        torch.nn.Linear(100, 100),
        torch.nn.ReLU(),
        torch.nn.Linear(100, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, t = torch.rand(128, 784), torch.randint(0, 10, (128,))

    def run():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), t).backward()
        optimizer.step()

    return run


def scalar_chain(function):
    x = torch.tensor(1e-4, dtype=torch.float64, requires_grad=True)

    def run():
        x.grad = None
        y = x
        for _ in range(SCALAR_FUNCTIONS):
            y = function(y)
        y.backward()

    return run


def torch_workload(name):
    return {
        "mlp-step": mlp_step,
        "scalar-multiply": lambda: scalar_chain(lambda x: x * 1.0001),
        "scalar-sin": lambda: scalar_chain(torch.sin),
        "scalar-tanh": lambda: scalar_chain(torch.tanh),
    }[name]()


def torch_time(name, count):
    run = torch_workload(name)
    for _ in range(-(-count // 10)):
        run()
    start = time.perf_counter_ns()
    for _ in range(count):
        run()
    return (time.perf_counter_ns() - start) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="bibun's side, built by benches/peers/run")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    arguments = parser.parse_args()
    print(f"PyTorch {torch.__version__}; medians of {arguments.rounds} rounds in turns\n")
    print("| workload | threads | bibun, µs | PyTorch, µs | PyTorch / bibun |")
    print("|---|---|---|---|---|")
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        bibun = Bibun(arguments.program, threads)
        for name in arguments.workloads:
            count = WORKLOADS[name]
            rounds = [
                (bibun.time(name, count), torch_time(name, count))
                for _ in range(arguments.rounds)
            ]
            ours, theirs = (statistics.median(times) / 1e3 for times in zip(*rounds))
            ratio = statistics.median(theirs / ours for ours, theirs in rounds)
            print(f"| {name} | {threads} | {ours:.0f} | {theirs:.0f} | {ratio:.2f} |", flush=True)
        bibun.close()


if __name__ == "__main__":
    main()
