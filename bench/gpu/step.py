#!/usr/bin/python3
"""How long is a training step of gpt2 on the GPU, and in how much of its memory, beside PyTorch?

    bench/gpu/step.py [--build build-gpu] [--rounds 5] [--only 4x1024,...] [--compile 1] [--out ...]

AdamW, no dropout, clipping at 1. PyTorch in f32 (no TF32) and under bf16 autocast, with its fused attention and its
fused AdamW; --compile 1 adds it compiled. snug as its plan has it: f32, mixed bf16, bf16 with 8 bits of optimizer
state, and in little memory. All are processes of their own and take turns, step by step. Memory is what the driver
counts more of the whole GPU once a process has made two steps, its context and its kernels included."""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from measure import MIB, ROOT, Page, Worker, median, options, text_file, torch_version, turns  # noqa: E402

GPT2 = (12, 12, 768, 50257)
OURS = {"f32": (0, []), "mixed bf16": (0, ["precision=mixed-bf16"]),
        "bf16, 8-bit state": (0, ["precision=bf16", "optimizer-state=8bit:all"])}
LITTLE = {"4x1024": 3072 * MIB, "8x1024": 4096 * MIB, "64x1024": 6144 * MIB}  # of memory, for one more row of ours


def smi(what):
    command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits"]
    return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0]


def used():
    return int(smi("memory.used"))


def makers(o, python, batch, context, data):
    version = torch_version(python)
    for kind, environment in ({"f32": {}, "bf16 autocast": {"TORCH_AUTOCAST": "1"}} if version else {}).items():
        for how in ("", ", compiled") if o.compile else ("",):
            more = {"TORCH_DEVICE": "cuda", "TORCH_TUNED": "1"} | ({"TORCH_COMPILE": "1"} if how else {})
            name = f"PyTorch {version}, {kind}{how}"
            yield name, lambda n=name, e=environment | more: Worker(
                n, [python, ROOT / "bench/peers/gpt2_torch.py", *GPT2, batch, context], e)
    ours = {n: (budget, more, "f32" if n == "f32" else "bf16") for n, (budget, more) in OURS.items()}
    little = LITTLE.get(f"{batch}x{context}")
    if little:
        ours[f"mixed bf16 in {little // MIB:,} MiB"] = (little, ["precision=mixed-bf16"], "bf16")
    for name, (budget, more, _) in ours.items():
        yield f"snug, {name}", lambda n=name, b=budget, m=more: Worker(
            f"snug, {n}", [f"{o.build}/bench-step", "gpt2", batch, context, b, 1, o.threads, data, "device=cuda", *m])


def measure(o, python, batch, context, data):
    """Name -> (seconds of each round, MiB), and the predicted seconds of ours."""
    workers, memory, predicted = [], {}, {}
    for _, start in makers(o, python, batch, context, data):
        before = used()
        w = start()
        if w.ready is None or w.ask() is None or w.ask() is None:
            print(f"{w.name}: {w.why}", flush=True)
            continue
        memory[w.name] = used() - before
        if w.name.startswith("snug"):
            predicted[w.name] = float(w.ready[0])
        workers.append(w)
    seconds = turns(workers, o.rounds)
    for w in workers:
        w.close()
    return {n: (s, memory[n]) for n, s in seconds.items() if s}, predicted


def report(o, page, case, data):
    batch, context = (int(n) for n in case.split("x"))
    result, predicted = measure(o, o.torch_current or o.torch, batch, context, data)
    page.say(f"\n## gpt2, batch {batch} x {context}\n")
    peers = {kind: min((n for n in result if n.startswith("PyTorch") and kind in n), default=None,
                       key=lambda n: median(result[n][0])) for kind in ("f32", "bf16")}
    page.head("who", "step, ms", "tokens/s", "GPU's memory, MiB", "predicted, ms", "time / PyTorch's best of the type",
              "memory / its")
    for name, (seconds, mib) in result.items():
        peer = peers["f32" if "f32" in name else "bf16"]
        ms = median(seconds) * 1e3
        ratios = "", ""
        if peer:
            ratios = f"{median(seconds) / median(result[peer][0]):.2f}", f"{mib / result[peer][1]:.2f}"
        page.row(name, f"{ms:,.1f}", f"{batch * context / ms * 1e3:,.0f}", f"{mib:,}",
                 f"{predicted[name] * 1e3:,.1f}" if name in predicted else "", *ratios)


def main():
    o = options(__doc__, "gpu_step", rounds=5, compile=0, only="4x1024")
    page = Page("Training steps on a GPU", o.out,
                f"{smi('name')}, driver {smi('driver_version')}; medians of {o.rounds} steps after three.")
    with tempfile.TemporaryDirectory() as folder:
        data = text_file(folder)
        for case in o.only.split(","):
            report(o, page, case, data)
    page.write()


if __name__ == "__main__":
    main()
