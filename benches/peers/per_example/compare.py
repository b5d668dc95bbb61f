"""Gradients of the examples of a batch: bibun beside its peers, in turns.

Every way to compute them is first compared with a loop over the examples in f64, and not timed if
it differs. Then, round by round and in an order that changes, each of them runs a few times, so
that all see the same state of the machine. Each library is a process of its own, and PyTorch two:
with malloc as it is, and told to keep the memory it has.
"""

import argparse
import collections
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version

import numpy
from safetensors.numpy import load_file

import workloads
from torch_peer import relu_margins

HERE = pathlib.Path(__file__).parent
# Relative to the largest element of the parameter's gradients.
TOLERANCE = 1e-4

# Memory that was freed is not given back to the system.
TUNED_MALLOC = ":".join(
    [
        "glibc.malloc.mmap_max=0",
        "glibc.malloc.mmap_threshold=8589934592",
        "glibc.malloc.trim_threshold=17179869184",
    ]
)
# How many runs of a mode make a turn: as many as take this long, but not more than the most.
TURN_SECONDS = 0.2
MOST_RUNS = 20
# What takes longer is timed once, and has no turns.
LONGEST_SECONDS = 5

# Ways that give only the rows of a table that an example picked.
SPARSE = ("sparse", "loop-sparse")

LEGEND = """\
`R_ord` and `R_abs`: our gradients of examples by our and by torch's ordinary gradient; `S_loop`:
the fastest loop over examples of any library by ours; `S_peer`: the fastest of the peers by ours,
with torch's malloc as it is and tuned.

| workload | threads | our ordinary | torch ordinary | ours | R_ord | R_abs | S_loop \
| S_peer default | S_peer tuned |
|---|---|---|---|---|---|---|---|---|---|"""


class Process:
    """A library at work on one workload."""

    def __init__(self, name, command, environment, threads, workload, file):
        self.name = name
        processors = sorted(os.sched_getaffinity(0))[:threads]
        threads = str(threads)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "OMP_NUM_THREADS": threads,
                "RAYON_NUM_THREADS": threads,
                "JAX_PLATFORMS": "cpu",
                **environment,
            },
            preexec_fn=lambda: os.sched_setaffinity(0, processors),
        )
        self.modes = self.ask(f"load {workload} {file}").split()

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.name} ended at: {request}")
        return answer.strip()

    def write(self, mode, file):
        return self.ask(f"write {mode} {file}")

    def time(self, mode, count):
        """The seconds of each run, and those of all processors together in the mean."""
        before = self.processor_seconds()
        times = [int(time) / 1e9 for time in self.ask(f"time {mode} {count}").split()]
        return times, (self.processor_seconds() - before) / (count + 1)

    def processor_seconds(self):
        threads = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def start(program, threads, workload, file):
    python = lambda peer: [sys.executable, str(HERE / f"{peer}_peer.py")]
    tuned = {"GLIBC_TUNABLES": TUNED_MALLOC}
    commands = {
        "bibun": ([program], {}),
        "torch": (python("torch"), {}),
        "torch, tuned malloc": (python("torch"), tuned),
        "jax": (python("jax"), {}),
    }
    return [
        Process(name, command, environment, threads, workload, file)
        for name, (command, environment) in commands.items()
    ]


def worst_difference(found, expected):
    """The largest difference of an element, relative to the largest element of its parameter.

    Some gradients are zero but for rounding (of what is added to all keys of an attention, say):
    parameters count as having an element of a thousandth of the largest of all.
    """
    if found.keys() != expected.keys():
        raise ValueError(f"expected {sorted(expected)}, found {sorted(found)}")
    largest = max(numpy.abs(x).max() for name, x in expected.items() if name != "norms")
    worst = 0.0
    for name, x in expected.items():
        if found[name].shape != x.shape:
            return float("inf")
        scale = max(numpy.abs(x).max(), largest / 1000)
        difference = numpy.abs(found[name] - x).max() / scale
        worst = max(worst, float(difference) if numpy.isfinite(difference) else float("inf"))
    return worst


class Way:
    """A mode of a library on a workload, and what was found of it."""

    def __init__(self, process, mode):
        self.process, self.mode = process, mode
        self.difference, self.refusal = None, None
        self.times, self.processor_times = [], []

    def check(self, reference, file):
        answer = self.process.write(self.mode, file)
        if answer != "written":
            self.refusal = answer
            return
        in_sum = {name: x for name, x in reference.items() if name.startswith("ordinary/")}
        if self.mode.startswith("ordinary"):
            expected = {name.removeprefix("ordinary/"): x for name, x in in_sum.items()}
        else:
            expected = {name: x for name, x in reference.items() if name not in in_sum}
        self.difference = worst_difference(load_file(file), expected)
        os.remove(file)

    def may_be_timed(self):
        return self.refusal is None and self.difference <= TOLERANCE

    def calibrate(self, quick):
        """How many runs make a turn, none if one takes too long."""
        (time,), processor_time = self.process.time(self.mode, 1)
        self.count = 1 if quick else min(max(round(TURN_SECONDS / time), 1), MOST_RUNS)
        if time > LONGEST_SECONDS:
            self.count = 0
            self.times, self.processor_times = [time], [processor_time]

    def take_turn(self):
        times, processor_time = self.process.time(self.mode, self.count)
        self.times += times
        self.processor_times.append(processor_time)

    def seconds(self):
        """What a run takes, in several measures."""
        return {
            "median": statistics.median(self.times),
            "minimum": min(self.times),
            "processor": min(self.processor_times),
        }


def measure(program, workload, threads, arguments):
    """All ways of all libraries for a workload."""
    file = arguments.folder / f"{workload}{'-quick' if arguments.quick else ''}.safetensors"
    workloads.write(workload, arguments.quick, file, relu_margins)
    processes = start(program, threads, workload, file)
    by_name = {process.name: process for process in processes}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        outcome = os.path.join(folder, "outcome.safetensors")
        answer = by_name["torch"].write("reference", outcome)
        if answer != "written":
            raise RuntimeError(answer)
        reference = load_file(outcome)
        ways = [
            Way(process, mode)
            for process in processes
            for mode in process.modes
            if mode != "reference"
        ]
        for way in ways:
            way.check(reference, outcome)
    timed = [way for way in ways if way.may_be_timed()]
    for way in timed:
        way.calibrate(arguments.quick)
    turns = [way for way in timed if way.count]
    shuffled = random.Random(0)
    for _ in range(arguments.rounds):
        shuffled.shuffle(turns)
        for way in turns:
            way.take_turn()
    for process in processes:
        process.close()
    return ways


def print_ways(workload, threads, ways):
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"\n### {workload}, {threads} thread{'s' * (threads > 1)}\n")
    print(f"Load average afterwards: {load}.\n")
    print("| library | way | median, ms | minimum, ms | processor, ms | worst difference |")
    print("|---|---|---|---|---|---|")
    for way in ways:
        name = f"| {way.process.name} | {way.mode} |"
        if way.times:
            times = " | ".join(f"{1e3 * time:.3g}" for time in way.seconds().values())
            once = "" if way.count else ", timed once"
            print(f"{name} {times} | {way.difference:.1e}{once} |")
        elif way.refusal:
            print(f"{name} | | | {way.refusal} |")
        else:
            print(f"{name} | | | **{way.difference:.1e}: wrong, not timed** |")
    sys.stdout.flush()


def ratios(workload, threads, ways, measure):
    """Lines of the summary: how our ways to give what is asked for compare.

    Sparse rows are asked for by themselves, and anything is an answer that gives at least as much.
    """
    found = {way.mode for way in ways if way.process.name == "bibun" and way.times}
    lines = []
    for mode in ("per-example", "compiled", "sparse"):
        if mode in found:
            but = () if mode == "sparse" else SPARSE
            others = [way for way in ways if way.mode not in but]
            lines.append(line(workload, threads, mode, others, measure))
    return lines


def line(workload, threads, mode, ways, measure):
    found = collections.defaultdict(dict)
    for way in ways:
        if way.times:
            found[way.process.name][way.mode] = way.seconds()[measure]
    ours = found["bibun"]
    own = ours[mode]
    malloc = ("torch", "torch, tuned malloc")

    def shortest(libraries, wanted):
        times = [
            (time, f"{library.split(',')[0]} {name}")
            for library in libraries
            for name, time in found[library].items()
            if wanted(name)
        ]
        return min(times, default=(float("nan"), "none"))

    ordinary, _ = shortest(malloc, lambda mode: mode == "ordinary")
    loop, its_name = shortest(found, lambda mode: mode.startswith("loop"))
    peers = [shortest((torch, "jax"), lambda mode: mode != "ordinary") for torch in malloc]
    cells = [
        f"{1e3 * ours['ordinary']:.3g}",
        f"{1e3 * ordinary:.3g}",
        f"{1e3 * own:.3g}",
        f"{own / ours['ordinary']:.2f}",
        f"{own / ordinary:.2f}",
        f"{loop / own:.2f} ({its_name})",
        *(f"{time / own:.2f} ({name})" for time, name in peers),
    ]
    name = workload if mode == "per-example" else f"{workload}, {mode}"
    return f"| {name} | {threads} | {' | '.join(cells)} |"


def machine():
    """What the numbers are measured on and with."""
    lines = [line.split(":", 1) for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()]
    processor = {key.strip(): value.strip() for key, *rest in lines for value in rest}
    memory = pathlib.Path("/proc/meminfo").read_text().split()[1]
    said = lambda *command: subprocess.run(command, capture_output=True, text=True).stdout.strip()
    flags = processor.get("flags", "").split()
    vectors = [flag for flag in ("avx2", "fma", "avx512f", "amx_tile") if flag in flags]
    versions = [f"{name} {version(name)}" for name in ("torch", "opacus", "jax", "jaxlib", "numpy")]
    return [
        f"{processor.get('model name', platform.machine())}, {os.cpu_count()} processors, "
        f"{processor.get('cache size', 'unknown')} of cache, "
        f"{int(memory) / 2**20:.0f} GiB of memory",
        f"of its vector instructions: {', '.join(vectors)}",
        f"{platform.system()} {platform.release()}, {' '.join(platform.libc_ver())}",
        f"Python {platform.python_version()}, {', '.join(versions)}",
        f"{said('rustc', '--version')}, bibun at {said('git', 'rev-parse', '--short', 'HEAD')}",
        "load average at the start: " + ", ".join(f"{load:.1f}" for load in os.getloadavg()),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="bibun's side, built by benches/peers/per_example/run")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for what is shared")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--workloads", nargs="+", default=workloads.WORKLOADS, choices=workloads.WORKLOADS
    )
    parser.add_argument(
        "--ratios-of",
        default="median",
        choices=("median", "minimum", "processor"),
        help="the time that is compared; that of processors bears other work beside, on 1 thread",
    )
    parser.add_argument("--quick", action="store_true", help="tiny batches, to see it run")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = 2
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print("## Gradients of examples\n")
    for line in machine():
        print(f"- {line}")
    print(f"- medians of {arguments.rounds} rounds in turns")
    lines = []
    for workload in arguments.workloads:
        for threads in arguments.threads:
            ways = measure(arguments.program, workload, threads, arguments)
            print_ways(workload, threads, ways)
            lines += ratios(workload, threads, ways, arguments.ratios_of)
    print("\n### Ratios\n")
    print(f"Times are those of the column “{arguments.ratios_of}”, in ms.\n{LEGEND}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
