"""bibun beside its peers on every row of one table, interleaved in one run.

For each row, every library first computes all outputs from the same inputs, and a row whose numbers
differ is not timed. Then, round by round, each of them runs for about 50 milliseconds in turn, so that
all see the same state of the machine. Each library is a process of its own, pinned to as many
processors as it has threads. A ratio is the median of the rounds' ratios of the peer's time to bibun's.
"""

import argparse
import os
import pathlib
import re
import statistics
import sys
import time

import numpy
from safetensors.numpy import load_file, save_file

import report
import rows  # noqa: F401 (it fills the table)
from process import Process, build_rust
from row import ROWS
from rows.limits import COPIES, PRODUCT

TURN_SECONDS = 0.05
# The time in which threads that still look for work are seen at it, and the most such times.
PAUSE_SECONDS = 0.02
PAUSES = 50
# The process and the mode of each column; a function and its program do not share one, so that each
# has its own peak of memory.
CONTESTANTS = {
    "bibun": ("bibun", "eager"),
    "bibun compiled": ("bibun.compiled", "compiled"),
    "torch": ("torch", "eager"),
    "torch.compile": ("torch.compile", "compiled"),
    "jax": ("jax", "eager"),
    "candle": ("candle", "eager"),
    "burn": ("burn", "eager"),
}
OURS = ("bibun", "bibun.compiled")


def difference(found, expected):
    """The largest difference of an element, relative to the largest element of its array."""
    worst = 0.0
    for name, x in expected.items():
        if x.size:
            apart = numpy.abs(found[name] - x).max() / max(numpy.abs(x).max(), 1e-30)
            worst = max(worst, float(apart) if numpy.isfinite(apart) else float("inf"))
    return worst


def difference_of_steps(found, expected, before):
    """The length of the difference of all parameters, relative to that of the step which was made.

    Single elements say less here: Adam makes steps of full length from gradients that are zero but
    for rounding.
    """
    squares = lambda a, b: sum(float(((a[name] - b[name]) ** 2).sum()) for name in before)
    apart = (squares(found, expected) / squares(expected, before)) ** 0.5
    return apart if numpy.isfinite(apart) else float("inf")


def mismatch(found, expected):
    """What makes a comparison of outputs impossible."""
    if found.keys() != expected.keys():
        return f"has {sorted(found.keys() ^ expected.keys())} too many or too few"
    for name, x in expected.items():
        if found[name].shape != x.shape:
            return f"{name} has the shape {found[name].shape} and not {x.shape}"
    return None


class Contestant:
    """A library in one mode on one row, and what was found of it."""

    def __init__(self, name, process, mode):
        self.name, self.process, self.mode = name, process, mode
        self.problem, self.difference = None, None
        self.times, self.peak = [], None

    def check(self, row, arrays, expected, file):
        answer = self.process.ask("check", self.mode, file)
        if answer != "written":
            self.problem = answer
            return None
        found = {name: x.astype(numpy.float64) for name, x in load_file(file).items()}
        file.unlink()
        if expected is not None:
            self.compare(row, arrays, found, expected)
        return found

    def compare(self, row, arrays, found, expected):
        self.problem = mismatch(found, expected)
        if self.problem is None and row.parameters and row.kind != "inference":
            before = {name: arrays[f"parameters/{name}"] for name in row.parameters}
            loss = {"loss": expected["loss"]} if "loss" in expected else {}
            of_steps = difference_of_steps(found, expected, before)
            self.difference = max(of_steps, difference(found, loss))
        elif self.problem is None:
            self.difference = difference(found, expected)
        if self.problem is None and self.difference > row.tolerance:
            self.problem = f"wrong by {self.difference:.1e}"

    def calibrate(self, baseline):
        """How many runs make a turn, and the memory that a run takes."""
        self.process.forget_peak()
        seconds = min(self.process.seconds(self.mode, 1) for _ in range(2))
        count = max(1, round(TURN_SECONDS / 10 / seconds))
        seconds = self.process.seconds(self.mode, count)
        self.count = max(1, round(TURN_SECONDS / seconds))
        self.peak = self.process.memory("VmHWM") - baseline

    def take_turn(self):
        self.times.append(self.process.seconds(self.mode, self.count))


class Session:
    """The processes of one number of threads."""

    def __init__(self, arguments, threads):
        self.arguments, self.threads = arguments, threads
        self.processes, self.idle, self.messages = {}, {}, []
        for library in (*OURS, *arguments.peers):
            self.start(library)
        ours = self.processes["bibun"].ask("rows").split()
        if ours != list(ROWS):
            apart = set(ours) ^ set(ROWS) or "in another order"
            sys.exit(f"bibun's rows and those of the peers are not the same: {apart}")

    def start(self, library):
        """Starts a library, and notes the memory that it takes after a first, small row."""
        folder, name = self.arguments.folder, min(COPIES, key=COPIES.get)
        program, is_tuned = self.arguments.program, self.arguments.tuned
        process = Process(library, program, self.threads, folder, is_tuned)
        file = folder / "inputs.safetensors"
        save_file(ROWS[name].arrays(), file)
        process.ask("load", name, file)
        process.ask("time", "eager", 10)
        self.processes[library], self.idle[library] = process, process.memory("VmRSS")

    def measure(self, row):
        """The contestants of a row."""
        folder, self.messages = self.arguments.folder, []
        file, outcome = folder / "inputs.safetensors", folder / "outputs.safetensors"
        arrays = row.arrays()
        if row.kind == "gradient":
            save_file(arrays, file)
            torch = self.processes["torch"]
            torch.ask("load", row.name, file)
            dtype, *shape = torch.ask("shape").split()
            cotangent = numpy.random.default_rng(1).standard_normal([int(n) for n in shape])
            arrays["cotangent"] = numpy.asarray(cotangent, dtype)
        # bibun starts in no time, so that the memory of other rows is not counted.
        for library in OURS:
            self.processes[library].close()
            self.start(library)
        save_file(arrays, file)
        for process in self.processes.values():
            process.ask("load", row.name, file)
        contestants = [
            Contestant(name, self.processes[library], mode)
            for name, (library, mode) in CONTESTANTS.items()
            if library in self.processes
        ]
        # The peer that has all rows is the one that the others are compared with.
        reference = next(c for c in contestants if c.name == "torch")
        expected = reference.check(row, arrays, None, outcome)
        if expected is None:
            raise RuntimeError(f"{row.name}: {reference.problem}")
        for contestant in contestants:
            if contestant is not reference:
                contestant.check(row, arrays, expected, outcome)
        size = sum(x.nbytes for x in arrays.values()) + sum(4 * x.size for x in expected.values())
        file.unlink()
        able = [c for c in contestants if c.problem is None]
        if not self.arguments.check:
            for contestant in able:
                contestant.calibrate(self.idle[contestant.process.library])
            for turn in range(self.arguments.rounds):
                if 1 < self.threads <= len(os.sched_getaffinity(0)):
                    self.messages.append(int(self.processes["bibun"].ask("message")))
                first = turn % len(able)
                for contestant in able[first:] + able[:first]:
                    self.wait()
                    contestant.take_turn()
        return contestants, size

    def wait(self):
        """Waits until no process computes: some have threads that look for further work for a while after a
        turn, at the cost of who comes next."""
        before = None
        for _ in range(PAUSES):
            now = sum(process.processor_seconds() for process in self.processes.values())
            if now == before:
                return
            before = now
            time.sleep(PAUSE_SECONDS)

    def close(self):
        for process in self.processes.values():
            process.close()


def quartiles(times):
    return statistics.quantiles(times, n=4) if len(times) > 1 else times * 3


def result(row, contestants, size):
    """What is kept of a row."""
    ours = next(c for c in contestants if c.name == "bibun")
    found = {}
    for contestant in contestants:
        entry = {"difference": contestant.difference}
        if contestant.problem:
            entry["problem"] = contestant.problem
        if contestant.times:
            entry["seconds"] = quartiles(contestant.times)
            entry["peak"] = contestant.peak
            if ours.times:
                ratios = [theirs / own for own, theirs in zip(ours.times, contestant.times)]
                entry["ratio"] = statistics.median(ratios)
        found[contestant.name] = entry
    return {"flops": row.flops, "bytes": size, "contestants": found}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=pathlib.Path, help="bibun's side, which run builds")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for results and caches")
    parser.add_argument("--rows", default="", metavar="REGEX", help="rows whose names it finds")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=["torch", "torch.compile", "jax", "candle", "burn"],
        help="torch, which the others are compared with, always takes part",
    )
    parser.add_argument("--quick", action="store_true", help="five rounds, PyTorch and JAX alone")
    parser.add_argument("--tuned", action="store_true", help="the peers' malloc keeps its memory")
    parser.add_argument("--check", action="store_true", help="compares the numbers, times nothing")
    parser.add_argument("--add", action="store_true", help="keeps the rows of the run before")
    parser.add_argument("--resume", action="store_true", help="as --add, and leaves these out")
    parser.add_argument("--book", action="store_true", help="writes docs/src/peers.md, too")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = 5
    if arguments.peers is None:
        arguments.peers = ["torch", "jax"] if arguments.quick else ["torch", "torch.compile", "jax"]
    if "torch" not in arguments.peers:
        arguments.peers.insert(0, "torch")
    arguments.folder = arguments.folder.resolve()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if {"candle", "burn"} & set(arguments.peers):
        build_rust(arguments.folder)
    chosen = [row for row in ROWS.values() if re.search(arguments.rows, row.name)]
    if not chosen:
        sys.exit(f"no row is called {arguments.rows}")
    results = report.Results(
        arguments.folder / "results.json", keep=arguments.add or arguments.resume
    )
    results.describe(arguments)
    limits = [ROWS[PRODUCT], *(ROWS[name] for name in COPIES)]
    for threads in arguments.threads:
        session = Session(arguments, threads)
        known = set(results.of(threads))
        measured = [row for row in limits if row.name not in known and not arguments.check]
        for row in chosen:
            if row not in measured and not (arguments.resume and row.name in known):
                measured.append(row)
        for row in measured:
            found = result(row, *session.measure(row))
            if session.messages:
                found["message"] = statistics.median(session.messages)
            if not arguments.check:
                results.add(threads, row, found)
            print(report.progress(threads, row, found), flush=True)
        session.close()
    if arguments.check:
        return
    text = report.markdown(results)
    (arguments.folder / "peers.md").write_text(text)
    print(f"\n{text}")
    if arguments.book:
        pathlib.Path("docs/src/peers.md").write_text(text)


if __name__ == "__main__":
    main()
