#!/usr/bin/python3
"""What do products on codes of 8 bits gain, quantizing included? At the shapes of a gpt2 step, against our f32.

    bench/matmul_8bit.py [--build build] [--rounds 3] [--out bench/results/matmul_8bit.md]

int8 is what training with --precision int8 calls: f32 operands are quantized within the call, weights are stored codes
in the forward product (F) and the gradient of data (D), and in the gradient of weights (G) both operands are quantized
with stochastic rounding. int8-mixed quantizes both operands in all three. The head stays f32. All take turns at each
shape; a cell is the median over the rounds. A sum counts each shape as often as a step has it."""

from matmul import by_type, products
from measure import MIB, Page, Worker, options

TYPES = ("f32", "int8", "int8-mixed")


def main():
    o = options(__doc__, "matmul_8bit", rounds=3)
    program = f"{o.build}/bench-matmul"
    workers = {t: Worker(t, [program, "snug" if t == "f32" else t]) for t in TYPES}
    page = Page("Matrix products on 8 bits", o.out, "GF/s; *ratio*: the time of f32 over that of the type.")
    page.head("rows", "threads", "product", *TYPES, "ratio int8", "ratio int8-mixed",
              *(f"scratch, MiB: {t}" for t in TYPES))
    sums = []
    for rows in (256, 1024):
        for threads in sorted({1, o.threads}):
            total, head, worst = dict.fromkeys(TYPES, 0.0), 0.0, dict.fromkeys(TYPES, (9.0, ""))
            for name, times, product in products(rows):
                line = " ".join(str(n) for n in (*product, threads))
                if name.startswith("head"):
                    head += times * by_type({"f32": workers["f32"]}, 1, line)["f32"][0]
                    continue
                found = by_type(workers, o.rounds, line)
                flops = 2.0 * product[0] * product[1] * product[2]
                ratio = {t: found["f32"][0] / found[t][0] for t in TYPES}
                page.row(rows, threads, name, *(f"{flops / found[t][0] * 1e-9:.0f}" for t in TYPES),
                         *(f"{ratio[t]:.2f}" for t in TYPES[1:]), *(f"{found[t][1] / MIB:.2f}" for t in TYPES))
                total = {t: total[t] + times * found[t][0] for t in TYPES}
                worst = {t: min(worst[t], (ratio[t], name)) for t in TYPES}
            sums.append((rows, threads, *(f"{total['f32'] / total[t]:.2f}, worst {worst[t][0]:.2f} ({worst[t][1]})"
                                          for t in TYPES[1:]),
                         f"{(total['f32'] + head) / (total['int8'] + head):.2f}"))
    page.say("\nIn sum over a step, f32's time over that of the type; at last with the head, which is f32 in all:\n")
    page.head("rows", "threads", "int8", "int8-mixed", "int8 with the head")
    for row in sums:
        page.row(*row)
    page.write()
    for w in workers.values():
        w.close()


if __name__ == "__main__":
    main()
