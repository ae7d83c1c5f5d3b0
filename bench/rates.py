#!/usr/bin/python3
"""Does the first plan on a machine predict well, also beside other work?

    bench/rates.py [--build build] [--rounds 2] [--busy 2] [--out bench/results/rates.md]

Each run begins without a file of rates, so its plan measures them in half a second, and its step is predicted
with them. Beside it the prediction of the built-in table. Where a run didn't have the processors that it asked
for, its step by the clock says nothing; then its own time of them counts. Loops that do nothing
run beside every other round."""

import json
import os
import re
import subprocess
import tempfile

from measure import Page, options, text_file

MODELS = (("char-small", 16, 256, 21), ("char-gpt", 12, 64, 21), ("gpt2", 1, 64, 21))


def run(o, folder, model, batch, context, steps, data):
    cache = tempfile.mkdtemp(dir=folder)
    shared = [model, "--batch", str(batch), "--context", str(context), "--data", data,
              "--threads", str(o.threads), "--json"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SNUG_")} | {"XDG_CACHE_HOME": cache}

    def snug(*words):
        return subprocess.run([f"{o.build}/snug", *words, *shared], capture_output=True, text=True, env=environment)

    table = json.loads(snug("plan", "--rates", "built-in").stdout)["predicted"]["step_seconds"]
    done = snug("train", "--out", f"{cache}/out", "--steps", str(steps), "--eval-samples", "1")
    report = json.loads(done.stdout)
    clock = report["measured"]["step_seconds"]
    own = re.search(r"had (\d+) % of the processors .* about ([\d.]+) (us|ms|s)\)", done.stderr)
    share = f"{own[1]} %" if own else "-"
    seconds = float(own[2]) * {"us": 1e-6, "ms": 1e-3, "s": 1}[own[3]] if own else clock
    return table, report["predicted"]["step_seconds"], clock, share, seconds, "not kept" not in report["rates"]


def main():
    o = options(__doc__, "rates", rounds=2, busy=2)
    page = Page("Rates of a first plan", o.out, f"f32, AdamW, {o.threads} threads, no file of rates before any run.")
    page.head("model", "batch", "busy loops", "load", "table, ms", "predicted, ms", "by the clock, ms",
              "had of the processors", "own time, ms", "predicted / own - 1", "table / own - 1", "rates are")
    with tempfile.TemporaryDirectory() as folder:
        data = text_file(folder)
        for turn in range(o.rounds):
            for model, batch, context, steps in MODELS:
                loops = o.busy if turn % 2 else 0
                busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(loops)]
                try:
                    load = os.getloadavg()[0]
                    table, predicted, clock, share, own, kept = run(o, folder, model, batch, context, steps, data)
                finally:
                    for b in busy:
                        b.kill()
                        b.wait()
                page.row(model, f"{batch} x {context}", loops, f"{load:.0f}", f"{table * 1e3:.1f}",
                         f"{predicted * 1e3:.1f}", f"{clock * 1e3:.1f}", share,
                         f"{own * 1e3:.1f}", f"{(predicted / own - 1) * 100:+.0f} %",
                         f"{(table / own - 1) * 100:+.0f} %",
                         "kept" if kept else "not kept")
    page.write()


if __name__ == "__main__":
    main()
