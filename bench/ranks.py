#!/usr/bin/python3
"""What do several processes cost beside one?

    bench/ranks.py [--build build] [--rounds 3] [--steps 4] [--sharding copies] [--link 1gbit]
                   [--out bench/results/ranks.md]

Runs of one process with all threads, and of 2 and 4 ranks of one thread each, take turns; all have the same unit, so
they compute the same bits, which is checked. --sharding NAME,NAME measures further settings of that technique beside
`copies`. Links are measured first, as `snug devices --measure` does under mpirun, and predictions rest on them. --link
RATE (a superuser's) adds two hosts in namespaces of the network that are joined by a link of that rate."""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from measure import MIB, ROOT, Page, median, options, text_file

MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"]
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
HOSTS = str(ROOT / "tests/cli/two_hosts.sh")
HOSTS_NUMBER = "201"


def started(o, ranks, words, link=False):
    snug = [f"{o.build}/snug", *words]
    if link:
        return [HOSTS, "run", HOSTS_NUMBER, str(ranks // 2), *snug]
    return snug if ranks == 1 else [*MPIRUN, "-n", str(ranks), *snug]


def call(command):
    got = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    if got.returncode:
        sys.exit(f"{' '.join(command)}: {got.stderr}")
    return got.stdout


def of_case(case):
    model, size = case.rsplit("-", 1)
    batch, context = size.split("x")
    return [model, "--batch", batch, "--context", context, "--exact"]


def training(o, case, ranks, sharding, steps, out, data):
    words = ["train", *of_case(case), "--unit", str(o.unit), "--threads", str(o.threads if ranks == 1 else 1),
             "--data", data, "--out", out, "--steps", str(steps), "--eval-samples", "1", "--eval-every", "end",
             "--save-every", "off", "--quiet", "--rates", "known"]
    return words + (["--sharding", sharding] if ranks > 1 else [])


class Way:
    """A number of ranks and a setting, whose runs of one case take turns with those of others."""

    def __init__(self, name, ranks, sharding="", link=False):
        self.name, self.ranks, self.sharding, self.link = name, ranks, sharding, link
        self.seconds, self.predicted, self.peak, self.equal = [], 0, 0, True

    def run(self, o, case, folder, data):
        out = os.path.join(folder, "run")
        subprocess.run(["rm", "-rf", out], check=True)
        call(started(o, self.ranks, training(o, case, self.ranks, self.sharding, o.steps + 1, out, data), self.link))
        with open(f"{out}/metrics.jsonl") as file:
            steps = [json.loads(line) for line in file]
        self.seconds += [s["seconds"] for s in steps if "seconds" in s][1:]
        with open(f"{out}/run.json") as file:
            told = json.load(file)
        self.predicted, self.peak = told["predicted"]["step_seconds"], told["predicted"]["peak_bytes"]
        self.equal &= all(r["equal"] for r in told.get("ranks", []))
        return told["losses"]


def ways_of(o, settings):
    ways = [Way(f"1 x {o.threads}", 1)] + [Way(f"{n} x 1, {s}", n, s) for s in settings for n in (2, 4)]
    return ways + [Way(f"2 x 1 over {o.link}, {s}", 2, s, True) for s in settings if o.link]


def steps_of(o, page, case, ways, folder, data):
    losses = []
    for number in range(o.rounds):
        for way in ways if number % 2 == 0 else ways[::-1]:
            losses.append(way.run(o, case, folder, data))
    if any(found != losses[0] for found in losses):
        sys.exit(f"{case}: other losses")
    base = median(ways[0].seconds)
    for way in ways:
        step = median(way.seconds)
        page.row(case, way.name, f"{step * 1e3:,.0f}", f"{step / base:.2f}", f"{way.predicted * 1e3:,.0f}",
                 f"{(way.predicted / step - 1) * 100:+.0f} %", f"{way.peak / MIB:,.0f}", "yes" if way.equal else "NO")


def say_links(o, page, ranks, link=False):
    told = json.loads(call(started(o, ranks, ["devices", "--measure", "--json", "--quiet"], link)))
    name = "between_hosts" if link else "within_a_host"
    x = told["links"][name]
    page.row("between hosts" if link else "within a host", ranks, f"{x['bytes'] * 1e-9:.2f}",
             f"{x['seconds'] * 1e6:.0f}", f"{x['busy_seconds'] * 1e6:.0f}", f"{x['busy_seconds_a_byte'] * 1e9:.2f}")


def least(o, case, ranks, sharding):
    words = ["plan", *of_case(case), "--unit", str(o.unit), "--threads", str(o.threads if ranks == 1 else 1),
             "--ranks", str(ranks), "--rates", "built-in", "--json", "--quiet"]
    return json.loads(call([f"{o.build}/snug", *words, *(["--sharding", sharding] if ranks > 1 else [])]))


def budgets(o, page, cases, settings):
    page.head("case", "--sharding", *(f"{n} rank{'s' if n > 1 else ''}, MiB" for n in (1, 2, 4)))
    for case in cases:
        for sharding in settings:
            found = [least(o, case, n, sharding)["least_budget_bytes"] / MIB for n in (1, 2, 4)]
            page.row(case, sharding, *(f"{x:,.1f}" for x in found))


def beside_the_pool(o, folder, data, ranks):
    """The most that a rank took before its first step beside what is planned in its pool."""
    out = os.path.join(folder, "run")
    subprocess.run(["rm", "-rf", out], check=True)
    call(started(o, ranks, training(o, "char-small-8x256", ranks, "copies", 2, out, data)))
    with open(f"{out}/run.json") as file:
        told = json.load(file)
    rows = told.get("ranks") or [{"runtime_bytes": told["measured"]["by_category"]["runtime"]}]
    return max(r["runtime_bytes"] for r in rows) / MIB


def ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def children(pid):
    got = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    return [int(word) for word in got]


def waiting_share(o, folder, data, seconds=5):
    """A core's share that one of two ranks takes while the other one is stopped."""
    out = os.path.join(folder, "run")
    subprocess.run(["rm", "-rf", out], check=True)
    launcher = subprocess.Popen(started(o, 2, training(o, "char-small-8x256", 2, "copies", 100000, out, data)),
                                env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(4)
    stopped, waiting = children(launcher.pid)
    os.kill(stopped, signal.SIGSTOP)
    time.sleep(1)
    before = ticks(waiting)
    time.sleep(seconds)
    share = (ticks(waiting) - before) / os.sysconf("SC_CLK_TCK") / seconds
    os.kill(stopped, signal.SIGCONT)
    os.kill(launcher.pid, signal.SIGINT)
    launcher.wait()
    return share


def to_first_step(o, folder, data, ranks):
    """Seconds from the launch to the end of the first step."""
    out = os.path.join(folder, "run")
    subprocess.run(["rm", "-rf", out], check=True)
    begin = time.monotonic()
    launcher = subprocess.Popen(started(o, ranks, training(o, "char-small-8x256", ranks, "copies", 20, out, data)),
                                env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while launcher.poll() is None:
        try:
            with open(f"{out}/metrics.jsonl") as file:
                if '"step": 1,' in file.read():
                    break
        except FileNotFoundError:
            pass
        time.sleep(0.002)
    took = time.monotonic() - begin
    launcher.wait()
    return took


def lives(o, page, folder, data):
    page.head("fact", "found")
    alone = beside_the_pool(o, folder, data, 1)
    for ranks in (2, 4):
        page.row(f"beside the pool, {ranks} ranks: more than one process, MiB",
                 f"{beside_the_pool(o, folder, data, ranks) - alone:.1f}")
    page.row("a rank that waits: share of a core", f"{waiting_share(o, folder, data) * 100:.0f} %")
    took = {n: [] for n in (1, 2, 4)}
    for _ in range(o.rounds):
        for ranks, found in took.items():
            found.append(to_first_step(o, folder, data, ranks))
    for ranks in (2, 4):
        page.row(f"launch to the end of the first step, {ranks} ranks: longer than one process, s",
                 f"{statistics.median(took[ranks]) - statistics.median(took[1]):.2f}")


def main():
    o = options(__doc__, "ranks", rounds=3, steps=4, unit=1, sharding="copies", link="",
                cases="gpt2-4x256,char-small-8x256", budgets="gpt2-8x1024")
    settings = o.sharding.split(",")
    page = Page("Several processes", o.out, f"One process has {o.threads} threads, ranks one each; --unit {o.unit} "
                f"--exact. Medians of {o.steps} steps after one, in {o.rounds} rounds.")
    try:
        if o.link:
            call([HOSTS, "up", HOSTS_NUMBER, o.link])
        call([f"{o.build}/snug", "devices", "--measure"])
        page.say("## Links\n")
        page.head("link", "ranks", "GB/s", "a movement, us", "a processor for it, us", "and for a byte, ns")
        say_links(o, page, 4)
        say_links(o, page, 2)
        if o.link:
            say_links(o, page, 2, True)
        page.say("\n## Steps\n")
        page.head("case", "ranks x threads", "step, ms", "of one process", "predicted, ms", "error", "planned, MiB",
                  "bytes equal")
        with tempfile.TemporaryDirectory() as folder:
            data = text_file(folder)
            for case in o.cases.split(","):
                steps_of(o, page, case, ways_of(o, settings), folder, data)
            page.say("\n## Least budgets of a rank\n")
            budgets(o, page, o.budgets.split(","), settings)
            page.say("\n## Beside steps\n")
            lives(o, page, folder, data)
    finally:
        if o.link:
            call([HOSTS, "down", HOSTS_NUMBER])
    page.write()


if __name__ == "__main__":
    main()
