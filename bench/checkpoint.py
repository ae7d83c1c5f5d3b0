#!/usr/bin/python3
"""How long does a save of gpt2 stop training, and what does it take?

    bench/checkpoint.py [--build build] [--rounds 3] [--out bench/results/checkpoint.md]

Runs of four steps that save after each step, and that save none, in turns; a quarter of the difference is a save. The
folder is in TMPDIR. Memory is the process's peak as the system counts it, also with the least budget."""

import json
import os
import shutil
import subprocess
import tempfile
import time

from measure import Page, median, options, text_file

STEPS = 4


def run(o, folder, data, more):
    shutil.rmtree(f"{folder}/run", ignore_errors=True)
    os.sync()
    began = time.monotonic()
    with open(f"{folder}/json", "w") as out:
        process = subprocess.Popen(
            [f"{o.build}/snug", "train", "gpt2", "--data", data, "--steps", str(STEPS), "--batch", "2", "--context",
             "64", "--eval-samples", "1", "--out", f"{folder}/run", "--json", "--quiet"] + more, stdout=out)
        _, code, usage = os.wait4(process.pid, 0)
    if code:
        raise SystemExit(f"snug ended with {code}")
    with open(f"{folder}/json") as out:
        said = json.load(out)
    return time.monotonic() - began, usage.ru_maxrss * 1024, said


def main():
    o = options(__doc__, "checkpoint", rounds=3)
    page = Page("Checkpoints", o.out, f"gpt2 124M, AdamW: 1.5 GB; medians of {o.rounds} rounds.")
    page.head("run", "a save stops training", "peak, bytes", "planned", "without saving")
    with tempfile.TemporaryDirectory() as folder:
        data = text_file(folder)
        saves, peaks, plain = [], [], []
        for _ in range(o.rounds):
            off, plain_peak, _ = run(o, folder, data, ["--save-every", "off"])
            on, peak, said = run(o, folder, data, ["--save-every", "1", "--keep", "1"])
            saves.append((on - off) / STEPS)
            peaks.append(peak)
            plain.append(plain_peak)
        least = said["least_budget_bytes"]
        _, least_peak, least_said = run(o, folder, data, ["--save-every", "1", "--keep", "1", "--memory", str(least)])
        page.row("no budget", f"{median(saves):.2f} s", f"{max(peaks):,}", f"{said['predicted']['peak_bytes']:,}",
                 f"{max(plain):,}")
        page.row("least budget", "", f"{least_peak:,}", f"{least_said['predicted']['peak_bytes']:,}", "")
    page.write()


if __name__ == "__main__":
    main()
