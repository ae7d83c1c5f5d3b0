#!/usr/bin/python3
"""Do norms, additions, the optimizer and the loss run at the speed of memory?

    bench/stream.py [--build build] [--rounds 7] [--out bench/results/stream.md]

Traffic is the least that the operation can do: each input read once, each result written once. It is compared with what
memory itself gives to the same mix, measured in the same rounds: read (only reading), update (one array read and
written in place), triad (two arrays read, a third written past the caches)."""

import sys

from measure import Page, Worker, median, options

BOUNDS = ("read", "triad", "update")
NAMES = {"layernorm": "triad", "layernorm_backward": "triad", "add": "triad", "adamw": "update",
         "adamw_8bit": "update", "adamw_bf16": "update",
         "cross_entropy": "read", "cross_entropy_backward": "update"}


def main():
    o = options(__doc__, "stream", rounds=7)
    page = Page("At the speed of memory", o.out, f"f32; medians of {o.rounds} rounds after one.")
    w = Worker("stream", [f"{o.build}/bench-stream", str(o.threads)])
    if w.ready is None:
        sys.exit(w.why)
    page.head("operation", "threads", "ms", "GB/s", "bound by", "bound, GB/s", "share")
    for threads in sorted({1, o.threads}):
        rates = {name: [] for name in (*BOUNDS, *NAMES)}
        times = {name: [] for name in rates}
        for number in range(o.rounds + 1):
            for name in rates:
                seconds, size = w.ask(f"{name} {threads}")
                if number:
                    rates[name].append(size / seconds)
                    times[name].append(seconds)
        for name, bound in {**{b: "" for b in BOUNDS}, **NAMES}.items():
            rate, most = median(rates[name]), median(rates[bound]) if bound else 0
            page.row(name, threads, f"{median(times[name]) * 1e3:.1f}", f"{rate * 1e-9:.1f}", bound or "-",
                     f"{most * 1e-9:.1f}" if bound else "-", f"{rate / most:.2f}" if bound else "-")
    page.write()
    w.close()


if __name__ == "__main__":
    main()
