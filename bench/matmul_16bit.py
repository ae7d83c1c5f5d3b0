#!/usr/bin/python3
"""What do 16 bits cost in products, where the processor widens them? At the shapes of a gpt2 step, against our f32.

    bench/matmul_16bit.py [--build build] [--rounds 5] [--out bench/results/matmul_16bit.md]

Operands and result are f32, bf16 or f16; panels are widened while they are packed, sums are f32, results are rounded
once. All take turns at each shape; a cell is the median over the rounds. A sum counts each shape as often as a step
has it."""

from matmul import by_type, products
from measure import MIB, Page, Worker, options

TYPES = ("f32", "bf16", "f16")


def main():
    o = options(__doc__, "matmul_16bit", rounds=5)
    program = f"{o.build}/bench-matmul"
    workers = {t: Worker(t, [program, "snug" if t == "f32" else t]) for t in TYPES}
    page = Page("Matrix products of 16 bits", o.out, "GF/s; *ratio*: the time of f32 over that of the type.")
    page.head("rows", "threads", "product", *TYPES, "ratio bf16", "ratio f16", "scratch, MiB: f32", "bf16", "f16")
    sums = []
    for rows in (256, 1024):
        for threads in sorted({1, o.threads}):
            total, worst = dict.fromkeys(TYPES, 0.0), dict.fromkeys(TYPES, (9.0, ""))
            for name, times, product in products(rows):
                found = by_type(workers, o.rounds, " ".join(str(n) for n in (*product, threads)))
                flops = 2.0 * product[0] * product[1] * product[2]
                ratio = {t: found["f32"][0] / found[t][0] for t in TYPES}
                page.row(rows, threads, name, *(f"{flops / found[t][0] * 1e-9:.0f}" for t in TYPES),
                         *(f"{ratio[t]:.2f}" for t in TYPES[1:]), *(f"{found[t][1] / MIB:.2f}" for t in TYPES))
                total = {t: total[t] + times * found[t][0] for t in TYPES}
                worst = {t: min(worst[t], (ratio[t], name)) for t in TYPES}
            sums.append((rows, threads, *(f"{total['f32'] / total[t]:.2f}, worst {worst[t][0]:.2f} ({worst[t][1]})"
                                          for t in TYPES[1:])))
    page.say("\nIn sum over a step, f32's time over that of the type:\n")
    page.head("rows", "threads", "bf16", "f16")
    for row in sums:
        page.row(*row)
    page.write()
    for w in workers.values():
        w.close()


if __name__ == "__main__":
    main()
