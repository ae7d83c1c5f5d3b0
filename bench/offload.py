#!/usr/bin/python3
"""What does it take to let things wait in a file?

    bench/offload.py --offload-to DIR [--build build] [--steps 3] [--out bench/results/offload.md]

gpt2, 4 x 256, AdamW: each kind alone and together beside the same plan with nothing in a file, in turns. Peaks are the
whole process's, from outside; losses must be the same bits, planned bytes the measured ones."""

import json
import os
import subprocess
import sys
import tempfile

from measure import Page, options, text_file

MIB = 1 << 20
ALONE = ["--clip", "off", "--recompute", "block", "--chunk-loss", "256"]
CLIPPED = ["--recompute", "block", "--chunk-loss", "256", "--update-early", "off"]
SUMMED = ["--micro-batch", "2", "--accumulation", "defer", "--recompute", "block", "--chunk-loss", "256"]
MIXED = ["--precision", "mixed-bf16", "--attention", "flash", *CLIPPED]  # the same kernels with and without
USUAL, SHORT = (4, 256), (1, 32)  # samples, context; with few tokens a step waits for the file
ROWS = [("f32, each updated early", USUAL, ALONE, ["optimizer"]),
        ("f32, clipping", USUAL, CLIPPED, ["gradients", "optimizer", "optimizer,gradients"]),
        ("f32, 2 micro-batches", USUAL, SUMMED, ["gradients", "optimizer,gradients"]),
        ("mixed-bf16, clipping", USUAL, MIXED, ["master", "optimizer,master,gradients"]),
        ("32 tokens, each updated early", SHORT, ALONE, ["optimizer"]),
        ("32 tokens, clipping", SHORT, CLIPPED, ["gradients", "optimizer", "optimizer,gradients"]),
        ("32 tokens, mixed-bf16", SHORT, MIXED, ["master", "optimizer,master,gradients"])]


def run(o, folder, data, size, words):
    out = os.path.join(folder, "run")
    subprocess.run(["rm", "-rf", out], check=True)
    command = [f"{o.build}/snug", "train", "gpt2", "--batch", str(size[0]), "--context", str(size[1]),
               "--steps", str(o.steps),
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
    equal &= all(x["measured_bytes"] == x["predicted_bytes"] for x in d["pools"] if x["name"] == "file")
    seconds = d["measured"]["step_seconds"]
    return usage.ru_maxrss * 1024, d["predicted"], seconds, d["losses"], equal


def shown(page, name, kind, there, beside):
    peak, predicted, seconds, _, equal = there
    page.row(name, kind, f"{peak / MIB:.1f}", f"{predicted['peak_bytes'] / MIB:.1f}", f"{seconds:.2f}",
             f"{predicted['step_seconds']:.2f}", f"{(predicted['step_seconds'] / seconds - 1) * 100:+.0f} %",
             f"{(seconds / beside - 1) * 100:+.0f} %" if beside else "", "yes" if equal else "NO")


def main():
    o = options(__doc__, "offload", steps=3, offload_to=".", only="")
    page = Page("Offload", o.out, f"gpt2, 4 x 256 or 1 x 32, {o.steps} steps; MiB; seconds a step.")
    page.head("run", "--offload", "peak", "planned", "step", "predicted", "error", "slower", "equal")
    with tempfile.TemporaryDirectory() as folder:
        data = text_file(folder)
        for name, size, words, kinds in ROWS:
            if o.only and o.only not in name:
                continue
            alone = run(o, folder, data, size, words)
            shown(page, name, "off", alone, 0)
            for kind in kinds:
                there = run(o, folder, data, size, [*words, "--offload", kind, "--offload-to", o.offload_to])
                if there[3] != alone[3]:
                    sys.exit(f"{name}, {kind}: other losses")
                shown(page, "", kind, there, alone[2])
    page.write()


if __name__ == "__main__":
    main()
