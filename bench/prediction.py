#!/usr/bin/python3
"""Does a step take as long as the plan says?

    bench/prediction.py [--build build] [--rounds 3] [--out bench/results/prediction.md]

Five plans of each of three models, from the least budget to none, by snug's own choice of techniques. The rates
are those that plans use on this machine. Medians of steps that follow each other as in training, for at least
a second; the first ones warm up."""

import json
import math
import subprocess
import tempfile

from measure import MIB, Page, Worker, median, options, text_file, turns

MODELS = (("gpt2", 2, 256), ("char-gpt", 12, 256), ("char-small", 16, 256))


def budgets(o, model, batch, context, data):
    out = subprocess.run([f"{o.build}/snug", "plan", model, "--batch", str(batch), "--context", str(context),
                          "--dropout", "0", "--threads", str(o.threads), "--steps", "1000", "--data", data,
                          "--json"], capture_output=True, text=True)
    plan = json.loads(out.stdout)
    low, high = plan["least_budget_bytes"], plan["predicted"]["peak_bytes"]
    return [low + (high - low) * i // 4 for i in range(5)]


def main():
    o = options(__doc__, "prediction", rounds=3)
    page = Page("Predicted and measured time", o.out, f"f32, AdamW, {o.threads} threads, clipping at 1, no dropout; "
                f"medians of at least {o.rounds} steps.")
    page.head("model", "batch", "budget, MiB", "predicted, ms", "measured, ms", "predicted / measured - 1")
    errors, source = [], ""
    with tempfile.TemporaryDirectory() as folder:
        data = text_file(folder)
        for model, batch, context in MODELS:
            for budget in budgets(o, model, batch, context, data):
                w = Worker("snug", [f"{o.build}/bench-step", model, batch, context, budget, 1, o.threads, data])
                if w.ready is None:
                    page.say(f"{model} at {budget} bytes: {w.why}")
                    continue
                predicted, source = float(w.ready[0]), " ".join(w.ready[2:])
                rounds = max(o.rounds, math.ceil(1 / predicted))
                measured = median(turns([w], rounds, pause=0, warm=math.ceil(rounds / 4))["snug"])
                errors.append(predicted / measured - 1)
                page.row(model, f"{batch} x {context}", f"{budget / MIB:,.0f}", f"{predicted * 1e3:,.1f}",
                         f"{measured * 1e3:,.1f}", f"{errors[-1] * 100:+.1f} %")
                w.close()
    sizes = sorted(abs(e) for e in errors)
    page.say(f"\n{len(errors)} plans, rates: {source}. Error: median {median(sizes) * 100:.1f} %, largest "
             f"{sizes[-1] * 100:.1f} %, within 15 %: {sum(e <= 0.15 for e in sizes)}.")
    page.write()


if __name__ == "__main__":
    main()
