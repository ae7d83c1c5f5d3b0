#!/usr/bin/python3
"""What do 16 bits cost in products, where the processor widens them? At the shapes of a gpt2 step, against our f32.

    bench/matmul_16bit.py [--build build] [--rounds 5] [--out bench/results/matmul_16bit.md]

Operands and result are f32, bf16 or f16; panels are widened while they are packed, sums are f32, results are rounded
once. All take turns at each shape; a cell is the median over the rounds. A sum counts each shape as often as a step
has it."""

from matmul import compare_types
from measure import Page, options


def main():
    o = options(__doc__, "matmul_16bit", rounds=5)
    page = Page("Matrix products of 16 bits", o.out, "GF/s; *ratio*: the time of f32 over that of the type.")
    compare_types(o, page, ("f32", "bf16", "f16"))
    page.write()


if __name__ == "__main__":
    main()
