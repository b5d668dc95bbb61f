"""The side of a peer: answers requests as bibun's program does.

- `load WORKLOAD FILE`: the weights and examples of a workload; the answer is what it can do,
- `write MODE FILE`: writes what the workload computes in this way,
- `time MODE COUNT`: the nanoseconds of each of so many runs, after one that is not counted.
"""

import sys
import time

import numpy
from safetensors.numpy import save_file


def serve(load):
    """Answers requests; `load` gives for each mode of a workload a function and what makes named
    arrays of its result."""
    # What a library prints is no answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    modes = {}
    for line in sys.stdin:
        match line.split():
            case ["load", workload, file]:
                modes = load(workload, file)
                answer = " ".join(modes)
            case ["write", mode, file]:
                run, arrays = modes[mode]
                try:
                    named = arrays(run())
                    save_file({name: numpy.ascontiguousarray(x) for name, x in named.items()}, file)
                    answer = "written"
                except Exception as error:  # What a peer cannot do is a result.
                    message = str(error).strip().split("\n")[0][:120]
                    answer = f"refused {type(error).__name__}: {message}"
            case ["time", mode, count]:
                run, _ = modes[mode]
                run()
                times = []
                for _ in range(int(count)):
                    start = time.perf_counter_ns()
                    run()
                    times.append(time.perf_counter_ns() - start)
                answer = " ".join(map(str, times))
        print(answer, file=answers, flush=True)
