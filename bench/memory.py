#!/usr/bin/python3
"""What does training take? Runs the table of memory questions through the program and writes what was measured.

    bench/memory.py [--snug build/snug] [--data FILE] [--out bench/results/memory.md] [--steps 3] [--quick]

Every row is a real run, watched from outside by wait4 (what /usr/bin/time -v shows): planned and measured bytes are
compared with ==, the process's peak with <=. Needs python3 and nothing else. Takes about 15 minutes on two cores.
"""

import argparse
import hashlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
CATEGORIES = ["weights", "gradients", "optimizer", "activations", "temporaries", "scratch", "inputs", "gaps"]


def run(command):
    """Exit code, standard output, peak resident bytes and seconds of a command."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out = process.stdout.read()
    error = process.stderr.read()
    _, state, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(state)
    if code not in (0, 3):
        sys.exit(f"{' '.join(command)}: exit {code}\n{error.decode()}")
    return code, out.decode(), usage.ru_maxrss * 1024, time.monotonic() - begin


class Bench:
    def __init__(self, options):
        self.options = options
        self.lines = []
        self.failed = False

    def say(self, line=""):
        print(line, flush=True)
        self.lines.append(line)

    def verdict(self, good):
        self.failed |= not good
        return "yes" if good else "**no**"

    def plan(self, *arguments):
        code, out, peak, seconds = run([self.options.snug, "plan", *arguments, "--json"])
        return json.loads(out), peak, seconds

    def train(self, *arguments):
        """Runs some steps; returns run.json, the peak from outside, and a hash of the trained weights."""
        with tempfile.TemporaryDirectory() as folder:
            _, _, peak, _ = run(
                [
                    self.options.snug,
                    "train",
                    *arguments,
                    "--data",
                    self.options.data,
                    "--out",
                    folder,
                    "--quiet",
                ]
            )
            with open(f"{folder}/run.json") as file:
                result = json.load(file)
            digest = hashlib.sha256(pathlib.Path(f"{folder}/model.safetensors").read_bytes()).hexdigest()
        return result, peak, digest

    def row(self, title, target, *arguments):
        """One training run at a budget: the row of the table."""
        result, peak, _ = self.train(*arguments, "--steps", str(self.options.steps), "--eval-samples", "4")
        planned, measured = result["predicted"], result["measured"]
        same = all(planned["by_category"][c] == measured["by_category"][c] for c in CATEGORIES)
        within = peak <= planned["peak_bytes"] <= result["budget_bytes"]
        ratio = planned["arena_bytes"] / max(1, planned["lower_bound_bytes"])
        self.say(
            f"| {title} | {target / MIB:,.0f} | {result['budget_bytes'] / MIB:,.1f} | "
            f"{planned['peak_bytes'] / MIB:,.1f} | {peak / MIB:,.1f} | "
            f"{100 * (planned['peak_bytes'] / peak - 1):.2f} % | "
            f"{self.verdict(same)} | {self.verdict(within)} | {ratio:.4f} | {planned['step_seconds']:.2f} | "
            f"{measured['step_seconds']:.2f} | "
            f"{self.verdict(result['budget_bytes'] <= target)} |"
        )


def least(bench, *arguments):
    return str(bench.plan(*arguments)[0]["least_budget_bytes"])


def within_time(bench, share, *arguments):
    """The smallest budget whose plan is predicted at most `share` slower than plain, by bisection (P3: monotone)."""
    plan, _, _ = bench.plan(*arguments)
    low, high, limit = (
        plan["least_budget_bytes"],
        plan["plain"]["peak_bytes"],
        plan["plain"]["step_seconds"] * (1 + share),
    )
    while high - low > 1024:
        middle = (low + high) // 2
        if bench.plan(*arguments, "--memory", str(middle))[0]["predicted"]["step_seconds"] <= limit:
            high = middle
        else:
            low = middle
    return str(bench.plan(*arguments, "--memory", str(high))[0]["predicted"]["peak_bytes"])


def budgets(bench):
    gpt2, char = ["gpt2", "--batch", "4", "--context", "256"], ["char-gpt", "--batch", "12", "--context", "256"]
    off = ["--clip", "off"]
    bench.say("## Budgets\n")
    bench.say(
        "MiB. *Predicted* is the plan's peak, *outside* the process's peak as wait4 reports it; a run at its budget. "
        "PyTorch 1.13 takes 4,063 MiB for gpt2 at 4 x 256 plainly and 2,954 with its checkpointing, 1,614 for "
        "char-gpt at 12 x 256.\n"
    )
    bench.say(
        "| run | to reach | budget | predicted | outside | predicted above outside | categories equal | "
        "outside <= predicted <= budget | arena / bound | step predicted, s | step measured, s | reached |"
    )
    bench.say("|---|---|---|---|---|---|---|---|---|---|---|---|")
    bench.row("gpt2 4 x 256, least, clip off", 1747 * MIB, *gpt2, *off, "--memory", least(bench, *gpt2, *off))
    bench.row("gpt2 4 x 256, least, clipping", 2020 * MIB, *gpt2, "--memory", least(bench, *gpt2))
    bench.row(
        "gpt2 4 x 256, at most 5 % slower, clip off",
        2235 * MIB,
        *gpt2,
        *off,
        "--memory",
        within_time(bench, 0.05, *gpt2, *off),
    )
    bench.row(
        "gpt2 4 x 256, at most 5 % slower, clipping",
        2235 * MIB,
        *gpt2,
        "--memory",
        within_time(bench, 0.05, *gpt2),
    )
    bench.row(
        "char-gpt 12 x 256, at most 10 % slower", 565 * MIB, *char, "--memory", within_time(bench, 0.10, *char)
    )
    if not bench.options.quick:
        bench.row(
            "gpt2 4 x 1024", 2300 * MIB, "gpt2", "--batch", "4", "--context", "1024", "--memory", "2300MiB"
        )
    bench.row(
        "char-small 64 x 256, least",
        96 * MIB,
        "char-small",
        "--batch",
        "64",
        "--memory",
        least(bench, "char-small", "--batch", "64"),
    )


def planning(bench):
    bench.say("\n## Planning\n")
    bench.say("Medians of five commands, from start to exit; nothing of the model is allocated.\n")
    bench.say("| command | seconds | plans | ms a plan and thread | resident, MiB | to reach |")
    bench.say("|---|---|---|---|---|---|")
    for model, target in (("gpt2", 1), ("gpt2-xl", 5)):
        samples = sorted(
            (bench.plan(model, "--batch", "4", "--context", "256")[1:] for _ in range(5)), key=lambda s: s[1]
        )
        plan, _, _ = bench.plan(model, "--batch", "4", "--context", "256")
        peak, seconds = samples[2]
        search = plan.get("search", {})
        count = search.get("candidates") or 0
        each = f"{2000 * search['seconds'] / count:.2f}" if count else "-"
        bench.say(
            f"| snug plan {model} --batch 4 --context 256 | {seconds:.2f} | {count} | {each} | {peak / MIB:.0f} | "
            f"<= {target} s: {bench.verdict(seconds <= target)} |"
        )


def same_run(bench):
    bench.say("\n## The same run at ten budgets, at one and two threads\n")
    arguments = ["char-gpt", "--batch", "8", "--context", "256", "--seed", "5", "--eval-samples", "8"]
    plan, _, _ = bench.plan(*arguments)
    low, high = plan["least_budget_bytes"], plan["plain"]["peak_bytes"]
    runs = []
    for i in range(10):
        budget = low + (high - low) * i // 9
        result, _, digest = bench.train(
            *arguments, "--steps", "20", "--memory", str(budget), "--threads", str(1 + i % 2)
        )
        runs.append((digest, tuple(result["losses"])))
        chosen = ", ".join(f"{p['name']} {p['setting']}" for p in result["choices"]["passes"])
        bench.say(
            f"- {budget / MIB:,.1f} MiB, {1 + i % 2} threads: "
            f"micro-batch {result['choices']['micro_batch']}, {chosen}; "
            f"last loss {result['losses'][-1]:.9g}, weights sha256 {digest[:16]}"
        )
    bench.say(
        f"\nchar-gpt with dropout, 8 x 256, 20 steps: bit-identical losses and weights: "
        f"{bench.verdict(len(set(runs)) == 1)}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snug", default="build/snug")
    parser.add_argument("--data", default="demo-run/text")
    parser.add_argument("--out", default="bench/results/memory.md")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="leave out the longest row")
    bench = Bench(parser.parse_args())
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    model = next(
        (line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
        "unknown",
    )
    bench.say("# Memory\n")
    bench.say(
        f"`bench/memory.py`, commit {commit}, {os.cpu_count()} processors ({model}), {platform.system()}; "
        f"f32, AdamW, {time.strftime('%Y-%m-%d')}.\n"
    )
    budgets(bench)
    planning(bench)
    same_run(bench)
    pathlib.Path(bench.options.out).write_text("\n".join(bench.lines) + "\n")
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
