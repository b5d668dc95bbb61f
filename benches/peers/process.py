"""A library at work in a process of its own."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent

# Memory that was freed is not given back to the system.
TUNED_MALLOC = ":".join(
    [
        "glibc.malloc.mmap_max=0",
        "glibc.malloc.mmap_threshold=8589934592",
        "glibc.malloc.trim_threshold=17179869184",
        "glibc.malloc.top_pad=268435456",
    ]
)


def build_rust(folder):
    """The peers that are written in Rust."""
    manifest = HERE / "rust" / "Cargo.toml"
    command = ["cargo", "build", "--release", "--quiet", "--locked", "--manifest-path", manifest]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(folder / "rust")}
    subprocess.run(command, env=environment, check=True)


class Process:
    def __init__(self, library, program, threads, folder, is_tuned):
        self.library = library
        peer = library.split(".")[0]
        in_rust = [folder / "rust" / "release" / "bibun-peers"]
        commands = {"bibun": [program], "candle": in_rust, "burn": in_rust}
        python = [sys.executable, HERE / "worker.py"]
        processors = sorted(os.sched_getaffinity(0))[-threads:]
        count = str(threads)
        environment = {
            "PEER": peer,
            "RAYON_NUM_THREADS": count,
            "OMP_NUM_THREADS": count,
            # XLA's threads.
            "NPROC": count,
            "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}",
            "JAX_PLATFORMS": "cpu",
            # A refusal is one line.
            "RUST_BACKTRACE": "0",
            # What was compiled in another run is there.
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "JAX_COMPILATION_CACHE_DIR": str(folder / "xla"),
        }
        if is_tuned and peer != "bibun":
            environment["GLIBC_TUNABLES"] = TUNED_MALLOC
        self.process = subprocess.Popen(
            commands.get(peer, python),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
            preexec_fn=lambda: os.sched_setaffinity(0, processors),
        )

    def ask(self, *request):
        self.process.stdin.write(" ".join(map(str, request)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.library} ended at: {' '.join(map(str, request))}")
        return answer.strip()

    def seconds(self, mode, count):
        """What a run takes, of so many."""
        return int(self.ask("time", mode, count)) / 1e9 / count

    def memory(self, field):
        """`VmRSS`, what the process holds, or `VmHWM`, the most that it held, in bytes."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024

    def processor_seconds(self):
        """What all threads have computed so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def forget_peak(self):
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def close(self):
        self.process.stdin.close()
        self.process.wait()
