"""What was measured, as JSON and as a page of the book."""

import json
import math
import os
import pathlib
import platform
import re
import statistics
import subprocess
from importlib.metadata import version

from row import ROWS
from rows.limits import COPIES, PRODUCT

PEERS = ("torch", "torch.compile", "jax", "candle", "burn")

EXPLANATION = """\
Every row was computed by all libraries from the same inputs, all outputs were compared, and then all took
turns, each in a process of its own that is pinned to one or two processors. A ratio is the median of the turns'
ratios: above 1 bibun is faster, below it (in bold) the other.

- *ms* is the median of bibun's time, as the function is called, on 1 and on 2 threads.
- *compiled* is how many times faster the same closure is in [`compile`](compiled.md).
- The other libraries' columns are their time by that of the function as it is called.
- *limit* is the part of what one core can do that the faster of bibun's two reaches: of the rate of the fastest
  product of matrices that any of the libraries computed, or of the fastest copy of as many bytes, where each
  input is read and each output is written once.
- *MB* is the most memory that a process had for the row on one thread, beside what it has when it is idle.

The two columns of bibun, for softmax:

```rust
use bibun::functions::softmax;
use bibun::{compile, Variable};

let f = |x: &Variable| softmax(x, -1);
let x = Variable::constant([[1.0, 2.0, 3.0]]);
let compiled = compile(f);
assert_eq!(f(&x).to_vec::<f64>(), compiled.call(&x).to_vec::<f64>());
```

`benches/peers/run` makes this table on your machine. JAX is compiled by its `jit`; images have their channels
before their positions in all libraries.
"""


class Results:
    """All that was measured, by threads and row; the file is written with every row."""

    def __init__(self, file, keep):
        self.file = file
        self.data = json.loads(file.read_text()) if keep and file.exists() else {"threads": {}}

    def describe(self, arguments):
        self.data["machine"] = machine()
        self.data["rounds"] = arguments.rounds
        self.data["tuned"] = arguments.tuned

    def add(self, threads, row, found):
        self.data["threads"].setdefault(str(threads), {})[row.name] = found
        self.file.write_text(json.dumps(self.data, indent=1) + "\n")

    def of(self, threads):
        return self.data["threads"].get(str(threads), {})


def milliseconds(seconds):
    value = 1e3 * seconds
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"


def ratio(value):
    text = f"{value:.2f}" if value < 10 else f"{value:.0f}"
    return f"**{text}**" if value < 0.97 else text


def progress(threads, row, found):
    """A line while it is measured."""
    cells = [f"{row.name}, {threads}:"]
    for name, entry in found["contestants"].items():
        if "seconds" in entry:
            cells.append(f"{name} {milliseconds(entry['seconds'][1])}")
        elif "problem" in entry:
            cells.append(f"{name} [{entry['problem']}]")
        elif entry["difference"] is not None:
            cells.append(f"{name} {entry['difference']:.1e}")
    if "message" in found:
        cells.append(f"message {found['message']:.0f} ns")
    return " | ".join(cells)


def best_seconds(found):
    times = [entry["seconds"][1] for entry in found["contestants"].values() if "seconds" in entry]
    return min(times)


class Limits:
    """The best rates that any library reached."""

    def __init__(self, found):
        self.flops = found[PRODUCT]["flops"] / best_seconds(found[PRODUCT])
        self.copies = {
            found[name]["bytes"]: found[name]["bytes"] / best_seconds(found[name])
            for name in COPIES
        }

    def seconds(self, found):
        """The least time of a row."""
        size = found["bytes"]
        nearest = min(self.copies, key=lambda of: abs(math.log(of / size)))
        return max(found["flops"] / self.flops, size / self.copies[nearest])


def columns(results, limits):
    """The columns of the table: what is at the head, and the cell of a row.

    A row is what was found of it on one thread and on two, of which one may be missing.
    """

    def of(threads, name, field, show):
        def cell(row):
            entry = (row[threads] or {"contestants": {}})["contestants"].get(name, {})
            return show(entry[field]) if field in entry else "–"

        return cell

    def present(peer):
        found = (row for threads in (1, 2) for row in results.of(threads).values())
        return any("ratio" in row["contestants"].get(peer, {}) for row in found)

    median = lambda seconds: milliseconds(seconds[1])
    yield "ms, 1", of(1, "bibun", "seconds", median)
    yield "ms, 2", of(2, "bibun", "seconds", median)
    yield "compiled", of(1, "bibun compiled", "ratio", lambda value: f"{1 / value:.2f}")
    for peer in filter(present, PEERS):
        for threads in (1, 2):
            yield f"{peer} {threads}", of(threads, peer, "ratio", ratio)
    yield "limit", lambda row: limit(row[1], limits)
    megabytes = lambda size: f"{max(size, 0) / 1e6:.0f}"
    for name in ("bibun", "torch", "jax"):
        yield f"MB {name}", of(1, name, "peak", megabytes)


def limit(found, limits):
    # Below this size it is the call that takes the time.
    if not found or not limits or found["bytes"] < 1 << 15:
        return "–"
    ours = [found["contestants"][name] for name in ("bibun", "bibun compiled")]
    times = [entry["seconds"][1] for entry in ours if "seconds" in entry]
    return f"{100 * limits.seconds(found) / min(times):.0f} %" if times else "–"


def behind(found, count=60):
    """The rows where the fastest peer is fastest beside bibun."""
    worst = []
    for name, row in found.items():
        ratios = {k: e["ratio"] for k, e in row["contestants"].items() if "ratio" in e}
        peers = {peer: ratios[peer] for peer in PEERS if peer in ratios}
        if peers and not name.startswith("limits"):
            peer = min(peers, key=peers.get)
            compiled = (
                peers[peer] / ratios["bibun compiled"] if "bibun compiled" in ratios else None
            )
            worst.append((peers[peer], compiled, name, peer))
    worst.sort(key=lambda row: row[0])
    if not worst or worst[0][0] >= 1:
        return []
    return [
        "",
        "## Where bibun is behind",
        "",
        "On one thread, the time of the fastest peer by bibun's:",
        "",
        "| row | as called | compiled | fastest peer |",
        "|---|---|---|---|",
        *(
            f"| {name} | {own:.2f} | {f'{compiled:.2f}' if compiled else '–'} | {peer} |"
            for own, compiled, name, peer in worst[:count]
            if own < 1
        ),
    ]


def markdown(results):
    machine = results.data["machine"]
    lines = [
        "# Beside other libraries",
        "",
        f"Measured on: {machine['processor']}, {machine['processors']} processors, {machine['system']};",
        f"{machine['versions']}; medians of {results.data['rounds']} rounds"
        + (", the peers' malloc keeps its memory." if results.data["tuned"] else "."),
        "",
        EXPLANATION,
    ]
    one = results.of(1)
    limits = Limits(one) if PRODUCT in one else None
    if limits:
        copies = ", ".join(f"{rate / 1e9:.0f}" for rate in limits.copies.values())
        sizes = ", ".join(f"{size / 2**20:.1f}" for size in limits.copies)
        lines += [
            f"Limits on one thread: {limits.flops / 1e9:.0f} GFLOP/s, and copies of {sizes} MiB (read "
            f"and written) at {copies} GB/s.",
            "",
        ]
    messages = [row["message"] for row in results.of(2).values() if "message" in row]
    if len(messages) > 1:
        near, median, far = statistics.quantiles(messages, n=4)
        lines += [
            f"A message from one processor to the other and back took {median:.0f} ns (quartiles "
            f"{near:.0f} and {far:.0f}): virtual processors are near at times and far at others, and "
            "short rows on two threads differ by it.",
            "",
        ]
    lines += behind(one)
    group, shown = None, list(columns(results, limits))
    for row in ROWS.values():
        found = {threads: results.of(threads).get(row.name) for threads in (1, 2)}
        if not any(found.values()):
            continue
        if row.group != group:
            group = row.group
            heads = ["row", *(head for head, _ in shown)]
            lines += ["", f"## {group.capitalize()}", ""]
            lines += [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        cells = [row.name.split("/", 1)[1], *(cell(found) for _, cell in shown)]
        lines.append(f"| {' | '.join(cells)} |")
    problems = [
        f"- {name}, {peer}: {entry['problem']}"
        for name, found in one.items()
        for peer, entry in found["contestants"].items()
        if "problem" in entry and not re.search("no function in JAX|no such row", entry["problem"])
    ]
    if problems:
        lines += ["", "## Not timed", "", *problems]
    return "\n".join(lines) + "\n"


def machine():
    """What the numbers are measured on and with."""
    pairs = (line.split(":", 1) for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines())
    processor = {key.strip(): rest[0].strip() for key, *rest in pairs if rest}
    said = lambda *command: subprocess.run(command, capture_output=True, text=True).stdout.strip()
    flags = processor.get("flags", "").split()
    vectors = [flag for flag in ("avx2", "avx512f", "amx_tile") if flag in flags]
    # Many generations of processors share a name.
    which = ", ".join(f"{key} {processor[key]}" for key in ("cpu family", "model") if key in processor)
    name = processor.get("model name", platform.machine())
    names = " ".join([f"{name} ({which})" if which else name, *vectors])
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "jax", "numpy"))
    return {
        "processor": names,
        "processors": os.cpu_count(),
        "system": f"{platform.system()}, {' '.join(platform.libc_ver())}",
        "versions": f"bibun at {said('git', 'rev-parse', '--short', 'HEAD')}, {versions}",
    }
