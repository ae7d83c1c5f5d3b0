"""What the scripts of bench/ share: programs that wait for their turn, medians, and the head of a page of results.

A measuring program (bench.h, peers/*.py) prints "ready ..." and then answers each line with one line. So ours and a
peer's take turns within one run, each in a process of its own that sleeps while another one works."""

import argparse
import os
import pathlib
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARIES = f"/usr/lib/{platform.machine()}-linux-gnu"
median = statistics.median


def processor():
    with open("/proc/cpuinfo") as file:
        lines = [line.split(":") for line in file if ":" in line]
    facts = {key.strip(): value.strip() for key, value in lines}
    wide = [name for name in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
            if name in facts.get("flags", "").split()]
    return (f"{facts.get('model name', 'unknown')} (family {facts.get('cpu family', '?')}, model "
            f"{facts.get('model', '?')}; {', '.join(wide) or 'no wide vectors'}), "
            f"{len(os.sched_getaffinity(0))} processors")


def has_avx512():
    with open("/proc/cpuinfo") as file:
        return "avx512f" in file.read()


def commit():
    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True).stdout.strip()
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "bench", "CMakeLists.txt")
    return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


# A peer's default is its own, not what somebody has set for this machine.
FOREIGN = ("OPENBLAS_", "OMP_", "GOMP_", "MKL_", "ATEN_", "DNNL_", "ONEDNN_", "KMP_", "MALLOC_", "TORCH_", "SNUG_")


def plain_environment():
    return {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}


class Worker:
    """A program that waits. `ready` is what it said when it was; None when it could not start (`why` says it)."""

    def __init__(self, name, command, environment=None):
        self.name, self.why, self.peak = name, "", 0
        self.errors = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=self.errors,
                                            env={**plain_environment(), **(environment or {})})
        except OSError as error:
            self.process, self.ready, self.why = None, None, str(error)
            return
        line = self.process.stdout.readline().decode().split()
        self.ready = line[1:] if line and line[0] == "ready" else None
        if self.ready is None:
            self.close()

    def ask(self, line="go"):
        """Numbers of the answer; None when the program has ended."""
        try:
            self.process.stdin.write((line + "\n").encode())
            self.process.stdin.flush()
            answer = self.process.stdout.readline().split()
        except BrokenPipeError:
            answer = []
        if not answer:
            self.close()
            return None
        return [float(word) for word in answer]

    def resident(self, which="VmRSS"):
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(which))

    def forget_peak(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as file:
            file.write("5")

    def close(self):
        """Ends it. `peak`: its resident bytes at most, as the operating system counts."""
        if not self.process:
            return
        os.kill(self.process.pid, signal.SIGKILL)  # not kill(), which may reap it and lose its usage
        _, _, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = 0
        self.peak = usage.ru_maxrss * 1024
        self.errors.seek(0)
        self.why = self.errors.read().decode(errors="replace").strip().splitlines()[-1:]
        self.why = self.why[0] if self.why else "it ended"
        try:
            self.process.stdin.close()
        except BrokenPipeError:  # what it was asked before it ended
            pass
        self.process.stdout.close()
        self.process = None


def turns(workers, rounds, line="go", pause=0.05, warm=1):
    """Seconds of each worker in each round, all taking turns; the first `warm` rounds don't count."""
    seconds = {w.name: [] for w in workers}
    for number in range(warm + rounds):
        order = workers if number % 2 == 0 else workers[::-1]
        for w in order:
            if not w.process:
                continue
            begin = time.monotonic()
            answer = w.ask(line)
            elapsed = time.monotonic() - begin
            if answer and number >= warm:
                seconds[w.name].append(elapsed if line == "go" else answer[0])
            time.sleep(pause)
    return seconds


PLACES = ("--build", "--out", "--llama", "--models", "--python")  # what says where something is on a machine


def without_places(arguments):
    """Arguments without those that say where something is on this machine: a page is read elsewhere."""
    kept, value = [], False
    for a in arguments:
        if not value and not a.startswith(PLACES):
            kept.append(a)
        value = a in PLACES
    return kept


class Page:
    """A page of results: printed as it comes, written at the end."""

    def __init__(self, title, out, note):
        self.out, self.lines = out, []
        command = " ".join([os.path.relpath(sys.argv[0], ROOT), *without_places(sys.argv[1:])])
        self.say(f"# {title}\n")
        self.say(f"`{command}`, commit {commit()}, {processor()}, {platform.system()} {platform.release()}; "
                 f"{time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f} before. {note}\n")

    def say(self, line=""):
        print(line, flush=True)
        self.lines.append(line)

    def row(self, *cells):
        self.say("| " + " | ".join(str(cell) for cell in cells) + " |")

    def head(self, *cells):
        self.row(*cells)
        self.say("|" + "---|" * len(cells))

    def write(self):
        path = pathlib.Path(self.out)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(self.lines) + "\n")


def options(description, name, **numbers):
    """The options that all scripts have, and some numbers of the script's own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build"), help="where snug and the measuring programs are")
    parser.add_argument("--out", default=str(ROOT / f"bench/results/{name}.md"))
    parser.add_argument("--torch", default="/usr/bin/python3", help="a Python with PyTorch, as a peer")
    parser.add_argument("--torch-current", default="", help="another one, with a current PyTorch")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    for option, value in numbers.items():
        parser.add_argument("--" + option.replace("_", "-"), type=type(value), default=value)
    return parser.parse_args()


def text_file(folder):
    """Some text to train on."""
    path = pathlib.Path(folder) / "text"
    found = sorted(pathlib.Path("/usr/share/common-licenses").glob("*")) or sorted(ROOT.glob("docs/*.md"))
    data = b"".join(p.read_bytes() for p in found if p.is_file())
    path.write_bytes(data * (1 + (1 << 20) // max(1, len(data))))
    return str(path)


def torch_environment(kind, threads):
    """The peer's settings: default but for the threads, or all that was seen to make it faster."""
    environment = {"TORCH_THREADS": str(threads)}
    if kind == "tuned":
        environment |= {"MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_MMAP_THRESHOLD_": "17179869184",
                        "MALLOC_TOP_PAD_": "67108864", "TORCH_TUNED": "1"}
        if os.path.isdir(f"{LIBRARIES}/openblas-openmp"):
            environment["LD_LIBRARY_PATH"] = f"{LIBRARIES}/openblas-openmp"
        if has_avx512():
            environment |= {"ATEN_CPU_CAPABILITY": "avx512", "OPENBLAS_CORETYPE": "SkylakeX"}
    return environment


def torch_version(python):
    """None where it has no PyTorch."""
    if not python or not shutil.which(python):
        return None
    got = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    return got.stdout.strip() or None
