#!/usr/bin/python3
"""What do the techniques that change numerics cost or save in time and memory?

    bench/techniques.py [--build build] [--rounds 3] [--steps 3] [--only NAME,...] [--out bench/results/techniques.md]

gpt2, 4 x 256: runs of a few steps, each in a process of its own, in turns; the first step of each warms up. Peaks are
the whole process's, from outside; each category's planned bytes must be the measured ones."""

import json
import os
import subprocess
import sys
import tempfile

from measure import MIB, Page, median, options, text_file

LEAN = ["--precision", "bf16", "--optimizer-state", "8bit:all", "--recompute", "block", "--chunk-loss", "256"]
ADAPTERS = ["--lr", "1e-3", "--lora"]
ROWS = {  # name: options; the first is what others are compared with
    "f32": [],
    "f32 + blocks recomputed": ["--recompute", "block"],
    "bf16 + 8bit:all + blocks recomputed + chunked loss": LEAN,
    "the same + clip off": [*LEAN, "--clip", "off"],
    "mixed-bf16": ["--precision", "mixed-bf16"],
    "mixed-f16": ["--precision", "mixed-f16"],
    "int8": ["--precision", "int8"],
    "int8-mixed": ["--precision", "int8-mixed"],
    "activations 8bit": ["--compress-activations", "8bit"],
    "qat int8": ["--qat", "int8"],
    "lora": [*ADAPTERS, "rank=8"],
    "lora base bf16": [*ADAPTERS, "rank=8,base=bf16"],
    "lora base int8": [*ADAPTERS, "rank=8,base=int8"],
    "lora base nf4": [*ADAPTERS, "rank=8,base=nf4"],
}


def run(o, folder, model, data, words):
    """Peak and planned bytes, seconds of each step but the first, whether every category was as planned."""
    out = os.path.join(folder, "run")
    subprocess.run(["rm", "-rf", out], check=True)
    command = [f"{o.build}/snug", "train", model, "--batch", "4", "--context", "256", "--steps", str(o.steps),
               "--data", data, "--eval-samples", "4", "--save-every", "off", "--threads", str(o.threads),
               "--out", out, "--json", "--quiet", *words]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said)
        text = process.stdout.read()
        _, state, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(state):
            said.seek(0)
            sys.exit(f"{' '.join(command)}: {said.read()}")
    d = json.loads(text)
    planned, measured = d["predicted"]["by_category"], d["measured"]["by_category"]
    with open(os.path.join(out, "metrics.jsonl")) as file:
        seconds = [line["seconds"] for line in map(json.loads, file) if "loss" in line][1:]
    return (usage.ru_maxrss * 1024, d["predicted"]["peak_bytes"], seconds,
            all(planned[k] == measured[k] for k in planned if k != "runtime"))


def pretrained(o, folder, data):
    """A checkpoint for adapters to stand on."""
    out = os.path.join(folder, "base")
    subprocess.run([f"{o.build}/snug", "train", "gpt2", "--batch", "4", "--context", "256", "--steps", "1", "--data",
                    data, "--eval-samples", "4", "--out", out, "--quiet"], check=True, capture_output=True)
    return out


def main():
    o = options(__doc__, "techniques", rounds=3, steps=3, only="")
    rows = {n: w for n, w in ROWS.items() if not o.only or n in o.only.split(",") or n == "f32"}
    page = Page("Techniques", o.out, f"gpt2, 4 x 256; MiB; medians of {o.rounds} runs' steps 2 to {o.steps}, in turns.")
    page.head("what", "peak", "planned", "step, ms", "least - most", "time / f32", "memory / f32", "categories equal")
    with tempfile.TemporaryDirectory() as folder:
        data = text_file(folder)
        base = pretrained(o, folder, data) if any("--lora" in w for w in rows.values()) else None
        seen = {name: [] for name in rows}
        for _ in range(o.rounds):
            for name, words in rows.items():
                seen[name].append(run(o, folder, base if "--lora" in words else "gpt2", data, words))
        first = seen["f32"]
        fastest, least = median([s for r in first for s in r[2]]), first[0][0]
        for name, runs in seen.items():
            seconds = [s for r in runs for s in r[2]]
            peak = max(r[0] for r in runs)
            page.row(name, f"{peak / MIB:,.0f}", f"{runs[0][1] / MIB:,.1f}", f"{median(seconds) * 1e3:,.0f}",
                     f"{min(seconds) * 1e3:,.0f} - {max(seconds) * 1e3:,.0f}", f"{median(seconds) / fastest:.2f}",
                     f"{peak / least:.2f}", "yes" if all(r[3] for r in runs) else "NO")
    page.write()


if __name__ == "__main__":
    main()
