#!/usr/bin/python3
"""How much faster is a whole step with more threads?

    bench/scaling.py [--build build] [--rounds 3] [--out bench/results/scaling.md]

snug with 1, 2, 4 ... threads, taking turns step by step; no budget, clipping at 1, no dropout."""

import tempfile

from measure import Page, Worker, median, options, text_file, turns

CASES = (("gpt2", 4, 256), ("char-gpt", 12, 256))


def main():
    o = options(__doc__, "scaling", rounds=3)
    page = Page("Threads", o.out, f"f32; medians of {o.rounds} steps after one.")
    counts = sorted({1 << i for i in range(10) if 1 << i < o.threads} | {o.threads})
    page.head("model", "batch", "threads", "step, ms", "faster than one thread")
    with tempfile.TemporaryDirectory() as folder:
        data = text_file(folder)
        for model, batch, context in CASES:
            workers = [Worker(str(n), [f"{o.build}/bench-step", model, batch, context, 0, 1, n, data])
                       for n in counts]
            seconds = turns(workers, o.rounds)
            for n in counts:
                page.row(model, f"{batch} x {context}", n, f"{median(seconds[str(n)]) * 1e3:,.0f}",
                         f"{median(seconds['1']) / median(seconds[str(n)]):.2f}")
            for w in workers:
                w.close()
    page.write()


if __name__ == "__main__":
    main()
