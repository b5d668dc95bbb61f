"""The process of a peer: computes and times rows on request, as bibun's program does.

- `load ROW FILE`: reads the inputs of a row,
- `shape`: the dtype and shape of the row's function, whose gradient is asked for next,
- `check MODE FILE`: computes once, and writes all outputs; or `refused` and why,
- `time MODE COUNT`: the nanoseconds that so many runs took.
"""

import ctypes
import os
import sys
import time

import numpy
from safetensors.numpy import load_file, save_file

import rows  # noqa: F401 (it fills the table)
from libraries import torch
from row import ROWS

match os.environ["PEER"]:
    case "torch":
        from torch_peer import prepare
    case "jax":
        from jax_peer import prepare


def give_memory_back():
    """To the system, so that a row does not pay for the one before."""
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        pass


class Work:
    """A row with its inputs, prepared in each mode when it is first asked for."""

    def __init__(self, row, arrays):
        self.row, self.arrays = row, arrays
        self.prepared = {}

    def shape(self):
        inputs = (torch.from_numpy(self.arrays[str(i)]) for i in range(len(self.row.inputs)))
        y = self.row.torch(*inputs)
        return " ".join(map(str, (str(y.dtype).removeprefix("torch."), *y.shape)))

    def in_mode(self, mode):
        if mode not in self.prepared:
            self.prepared[mode] = prepare(self.row, self.arrays, mode == "compiled")
        return self.prepared[mode]

    def check(self, mode, file):
        try:
            run, outputs = self.in_mode(mode)
            found = {name: numpy.array(x, order="C") for name, x in outputs(run()).items()}
        except Exception as error:  # What a peer cannot do is a result.
            said = str(error).strip().split("\n")[0][:200]
            return f"refused {type(error).__name__}: {said}"
        save_file(found, file)
        return "written"

    def time(self, mode, count):
        run, _ = self.in_mode(mode)
        start = time.perf_counter_ns()
        for _ in range(count):
            run()
        return time.perf_counter_ns() - start


def main():
    # What a library prints is no answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    work = None
    for line in sys.stdin:
        match line.split():
            case ["load", row, file]:
                work = None
                give_memory_back()
                work = Work(ROWS[row], load_file(file))
                answer = "loaded"
            case ["shape"]:
                answer = work.shape()
            case ["check", mode, file]:
                answer = work.check(mode, file)
            case ["time", mode, count]:
                answer = work.time(mode, int(count))
        print(answer, file=answers, flush=True)


if __name__ == "__main__":
    main()
