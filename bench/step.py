#!/usr/bin/python3
"""How long is a whole training step, and in how much memory, beside PyTorch?

    bench/step.py [--build build] [--only gpt2-4x256,...] [--rounds 3] [--torch-current PYTHON] [--bits 16]
                  [--compile 1] [--out ...]

f32 or, with --bits 16, what has fewer bits on both sides; AdamW, no dropout, clipping at 1 on both sides but in the
row that says otherwise. Each PyTorch runs twice: default, and tuned for time (an allocator that keeps what was freed,
the widest vectors, OpenBLAS on the same threads, the fused AdamW where there is one). snug runs without a budget, in
at most 2,235 MiB (gpt2 at 4 x 256), and at the least budget without clipping. With --bits 16 the current PyTorch runs
under bf16 autocast instead, and snug in mixed-bf16 (the same: f32 weights), in bf16 with 8 bits of optimizer state,
and with products on 8 bits. --compile 1 adds the current PyTorch tuned and compiled. All take turns, step by step;
memory is the process's peak, from outside. One step each warms up. Where all together don't fit the machine the
default PyTorchs run apart, and if need be one after another."""

import json
import subprocess
import tempfile

from measure import MIB, ROOT, Page, Worker, median, options, text_file, torch_environment, torch_version, turns

GPT2, CHAR = (12, 12, 768, 50257), (6, 6, 384, 256)
# model, its sizes, batch, context, budgets beside none and the least, gigabytes of all peers together, target
CASES = {"gpt2-4x256": ("gpt2", GPT2, 4, 256, [2235 * MIB], 26),
         "char-gpt-12x256": ("char-gpt", CHAR, 12, 256, [565 * MIB], 9),
         "gpt2-4x64": ("gpt2", GPT2, 4, 64, [], 18),
         "gpt2-4x1024": ("gpt2", GPT2, 4, 1024, [2300 * MIB], 60)}


def available():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))


FEWER_BITS = {"mixed-bf16": ["precision=mixed-bf16"],
              "bf16, 8-bit state": ["precision=bf16", "optimizer-state=8bit:all"],
              "int8-mixed, 8-bit state": ["precision=int8-mixed", "optimizer-state=8bit:all"]}


def snug_worker(o, name, model, batch, context, budget, clip, data, techniques=()):
    return Worker(name, [f"{o.build}/bench-step", model, batch, context, budget, clip, o.threads, data, *techniques])


def settings_of_torch(o, python):
    """Names and environments that a PyTorch is measured in."""
    autocast = {"TORCH_AUTOCAST": "1"} if o.bits == 16 else {}
    current = python == o.torch_current
    if autocast and not current:
        return
    said = ", bf16 autocast" if autocast else ""
    for kind in ("default", "tuned"):
        yield kind + said, torch_environment(kind, o.threads) | autocast
    if o.compile and current:
        yield "compiled" + said, torch_environment("tuned", o.threads) | autocast | {"TORCH_COMPILE": "1"}


def least(o, model, batch, context, data, *more):
    command = [f"{o.build}/snug", "plan", model, "--batch", str(batch), "--context", str(context), "--dropout", "0",
               "--threads", str(o.threads), "--steps", "1000", "--data", data, "--json", *more]
    return json.loads(subprocess.run(command, capture_output=True, text=True).stdout)["least_budget_bytes"]


def makers(o, case, data):
    """Names, and functions that start the worker."""
    model, sizes, batch, context, budgets, _ = CASES[case]
    found = []

    def snug(name, budget, clip):
        found.append((name, lambda: snug_worker(o, name, model, batch, context, budget, clip, data)))
    for python in (o.torch, o.torch_current):
        version = torch_version(python)
        for kind, environment in settings_of_torch(o, python) if version else ():
            command = [python, ROOT / "bench/peers/gpt2_torch.py", *sizes, batch, context]
            name = f"PyTorch {version}, {kind}"
            found.append((name, lambda c=command, n=name, e=environment: Worker(n, c, e)))
    if o.bits == 16:
        for name, techniques in FEWER_BITS.items():
            found.append((f"snug, {name}", lambda n=name, t=techniques: snug_worker(
                o, f"snug, {n}", model, batch, context, 0, 1, data, t)))
        return found
    snug("snug, no budget", 0, 1)
    for budget in budgets:
        snug(f"snug, at most {budget / MIB:,.0f} MiB", budget, 1)
    snug("snug, least budget, clip off", least(o, model, batch, context, data, "--clip", "off"), 0)
    return found


def groups(started, gigabytes):
    """Who takes turns with whom: as many as there is memory for."""
    if available() > gigabytes << 30:
        return [started]
    if available() > gigabytes * 2 // 3 << 30:
        apart = [one for one in started if ", default" in one[0]]
        return [[one for one in started if one not in apart], apart]
    return [[one] for one in started]


def measure(o, case, data):
    """Name -> (seconds of each round, peak bytes); predicted seconds of ours."""
    started, seconds, peaks, predicted = makers(o, case, data), {}, {}, {}
    for group in groups(started, CASES[case][5]):
        workers = [start() for _, start in group]
        for w in workers:
            if w.ready is None:
                print(f"{w.name}: {w.why}")
            elif w.name.startswith("snug"):
                predicted[w.name] = float(w.ready[0])
        seconds |= turns(workers, o.rounds)
        for w in workers:
            w.close()
            peaks[w.name] = w.peak
    return {n: (s, peaks[n]) for n, s in seconds.items() if s}, predicted


def report(o, page, case, data):
    model, _, batch, context, _, _ = CASES[case]
    result, predicted = measure(o, case, data)
    page.say(f"\n## {model}, batch {batch} x {context}\n")
    versions = sorted({n.split(",", 1)[0] for n in result if n.startswith("PyTorch")})
    page.head("who", "step, ms", "least, ms", "most, ms", "peak, MiB", "predicted, ms",
              *(f"time / {v}'s faster one" for v in versions), *(f"memory / {v}'s least" for v in versions))
    fastest = {v: min(median(s) for n, (s, _) in result.items() if n.startswith(v)) for v in versions}
    for name, (seconds, peak) in result.items():
        ratios = [f"{median(seconds) / fastest[v]:.2f}" for v in versions]
        least_of = {v: min(p for n, (_, p) in result.items() if n.startswith(v)) for v in versions}
        ratios += [f"{peak / least_of[v]:.2f}" for v in versions]
        page.row(name, f"{median(seconds) * 1e3:,.0f}", f"{min(seconds) * 1e3:,.0f}", f"{max(seconds) * 1e3:,.0f}",
                 f"{peak / MIB:,.0f}", f"{predicted[name] * 1e3:,.0f}" if name in predicted else "", *ratios)


def main():
    o = options(__doc__, "step", rounds=3, bits=32, compile=0, only="gpt2-4x256,char-gpt-12x256,gpt2-4x64,gpt2-4x1024")
    page = Page("Training steps", o.out, f"{o.threads} threads; medians of {o.rounds} steps after one.")
    for python, what in ((o.torch, "PyTorch"), (o.torch_current, "current PyTorch")):
        if not torch_version(python):
            page.say(f"Not measured here: {what}, which was not found.")
    with tempfile.TemporaryDirectory() as folder:
        data = text_file(folder)
        for case in o.only.split(","):
            report(o, page, case, data)
            page.write()


if __name__ == "__main__":
    main()
