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

import rows  # noqa: F401: it fills the table
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


def check(mode, work, file):
    try:
        run, outputs = work(mode)
        found = {name: numpy.array(x, order="C") for name, x in outputs(run()).items()}
    except Exception as error:  # What a peer cannot do is a result.
        return f"refused {type(error).__name__}: {str(error).strip().split(chr(10))[0][:200]}"
    save_file(found, file)
    return "written"


def measure(run, count):
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
                prepared, row, arrays = {}, ROWS[row], load_file(file)

                def work(mode, prepared=prepared, row=row, arrays=arrays):
                    if mode not in prepared:
                        prepared[mode] = prepare(row, arrays, mode == "compiled")
                    return prepared[mode]

                answer = "loaded"
            case ["shape"]:
                y = row.torch(*(torch.from_numpy(arrays[str(i)]) for i in range(len(row.inputs))))
                answer = " ".join(map(str, (str(y.dtype).removeprefix("torch."), *y.shape)))
            case ["check", mode, file]:
                answer = check(mode, work, file)
            case ["time", mode, count]:
                answer = measure(work(mode)[0], int(count))
        print(answer, file=answers, flush=True)


if __name__ == "__main__":
    main()
