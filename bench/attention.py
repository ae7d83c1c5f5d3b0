#!/usr/bin/python3
"""Does flash attention pay, in time and in memory?

    bench/attention.py [--build build] [--rounds 3] [--torch-current PYTHON] [--out bench/results/attention.md]

Causal, 12 heads of 64, forward and backward, contexts of 256, 1024 and 4096 with 2048 to 4096 tokens in all,
against our attention that keeps its probabilities and against PyTorch's (written out; fused where it has that). What is
fused is measured on bf16 as well.
Memory is measured: the process's peak during the passes less what it held when it was ready."""

from measure import MIB, ROOT, Page, Worker, median, options, torch_environment, torch_version

KINDS = ("flash", "plain", "flash-bf16", "plain-bf16")
SLOW = 2  # seconds; what takes longer is measured once
CASES = {256: 8, 1024: 4, 4096: 1}


def workers(o):
    found = [Worker(f"snug, {kind}", [f"{o.build}/bench-attention", kind]) for kind in KINDS]
    for python in (o.torch, o.torch_current):
        version = torch_version(python)
        for way in ("plain", "fused", "fused-bf16") if version else ():
            found.append(Worker(f"PyTorch {version}, {way}", [python, ROOT / "bench/peers/attention_torch.py", way],
                                torch_environment("tuned", o.threads)))
    return [w for w in found if w.ready is not None], [f"{w.name} ({w.why})" for w in found if w.ready is None]


def main():
    o = options(__doc__, "attention", rounds=3)
    page = Page("Attention", o.out, f"f32 where nothing else is said, {o.threads} threads; medians of {o.rounds} "
                                    "after one; PyTorch is tuned.")
    found, missing = workers(o)
    page.head("context", "batch", "who", "forward + backward, ms", "memory, MiB", "bytes a token", "time / snug, flash")
    for context, batch in CASES.items():
        seconds, memory, slow = {w.name: [] for w in found}, {}, {}
        for number in range(o.rounds + 1):
            for w in found if number % 2 else found[::-1]:
                if slow.get(w.name):
                    continue
                if number == 0:
                    before = w.resident()
                    w.forget_peak()
                answer = w.ask(f"{batch} {context} 12 {o.threads}")
                slow[w.name] = answer[0] > SLOW
                if number or slow[w.name]:
                    seconds[w.name].append(answer[0])
                if number == 0:
                    memory[w.name] = max(0, w.resident("VmHWM") - before)
        for w in found:
            time = median(seconds[w.name])
            page.row(context, batch, w.name, f"{time * 1e3:,.1f}", f"{memory[w.name] / MIB:,.1f}",
                     f"{memory[w.name] / (batch * context):,.0f}", f"{time / median(seconds[found[0].name]):.2f}")
    if missing:
        page.say("\nNot measured here: " + "; ".join(missing) + ".")
    page.write()
    for w in found:
        w.close()


if __name__ == "__main__":
    main()
