#!/usr/bin/python3
"""What does it take to let things wait in a file?

    bench/offload.py --offload-to DIR [--build build] [--steps 3] [--out bench/results/offload.md]

gpt2, 4 x 256, AdamW: each kind alone and together beside the same plan with nothing in a file, in turns. Peaks are the
whole process's, from outside; losses must be the same bits, planned bytes the measured ones."""

import json
import os
import statistics
import subprocess
import sys
import tempfile

from measure import Page, options, text_file

MIB = 1 << 20
ALONE = ["--clip", "off", "--recompute", "block", "--chunk-loss", "256"]
CLIPPED = ["--recompute", "block", "--chunk-loss", "256", "--update-early", "off"]
SUMMED = ["--micro-batch", "2", "--accumulation", "defer", "--recompute", "block", "--chunk-loss", "256"]
MIXED = ["--precision", "mixed-bf16", *CLIPPED]
ROWS = [("f32, each updated early", ALONE, ["optimizer"]),
        ("f32, clipping", CLIPPED, ["gradients", "optimizer", "optimizer,gradients"]),
        ("f32, 2 micro-batches", SUMMED, ["gradients", "optimizer,gradients"]),
        ("mixed-bf16, clipping", MIXED, ["master", "optimizer,master,gradients"])]


def run(o, folder, data, words):
    out = os.path.join(folder, "run")
    subprocess.run(["rm", "-rf", out], check=True)
    command = [f"{o.build}/snug", "train", "gpt2", "--batch", "4", "--context", "256", "--steps", str(o.steps),
               "--data", data, "--eval-samples", "4", "--save-every", "off", "--threads", str(o.threads),
               "--out", out, "--json", "--quiet", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    text, error = process.stdout.read(), process.stderr.read()
    _, state, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(state):
        sys.exit(f"{' '.join(command)}: {error.decode()}")
    d = json.loads(text)
    planned, measured = d["predicted"]["by_category"], d["measured"]["by_category"]
    equal = all(planned[k] == measured[k] for k in planned if k != "runtime")
    tokens = 4 * 256 / d["tokens_per_second"]
    return usage.ru_maxrss * 1024, d["predicted"]["peak_bytes"], tokens, d["losses"], equal


def main():
    o = options(__doc__, "offload", steps=3, offload_to=".", only="")
    page = Page("Offload", o.out, f"gpt2, 4 x 256, {o.steps} steps; MiB; seconds a step.")
    page.head("run", "--offload", "peak", "planned", "step", "slower", "equal")
    with tempfile.TemporaryDirectory() as folder:
        data = text_file(folder)
        for name, words, kinds in ROWS:
            if o.only and o.only not in name:
                continue
            peak, planned, seconds, losses, equal = run(o, folder, data, words)
            page.row(name, "off", f"{peak / MIB:.1f}", f"{planned / MIB:.1f}", f"{seconds:.2f}", "",
                     "yes" if equal else "NO")
            for kind in kinds:
                there = run(o, folder, data, [*words, "--offload", kind, "--offload-to", o.offload_to])
                if there[3] != losses:
                    sys.exit(f"{name}, {kind}: other losses")
                page.row("", kind, f"{there[0] / MIB:.1f}", f"{there[1] / MIB:.1f}", f"{there[2]:.2f}",
                         f"{(there[2] / seconds - 1) * 100:+.0f} %", "yes" if there[4] else "NO")
    page.write()


if __name__ == "__main__":
    main()
