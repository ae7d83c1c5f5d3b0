#!/usr/bin/python3
"""What do products on codes of 8 bits gain, quantizing included? At the shapes of a gpt2 step, against our f32.

    bench/matmul_8bit.py [--build build] [--rounds 3] [--out bench/results/matmul_8bit.md]

int8 is what training with --precision int8 calls: f32 operands are quantized within the call, weights are stored codes
in the forward product (F) and the gradient of data (D), and in the gradient of weights (G) both operands are quantized
with stochastic rounding. int8-mixed quantizes both operands in all three.
Sets of instructions short of the best are columns of their own. The head stays f32. All take turns at each
shape; a cell is the median over the rounds. A sum counts each shape as often as a step has it."""

from matmul import compare_types
from matmul_16bit import instruction_sets
from measure import Page, options


def main():
    o = options(__doc__, "matmul_8bit", rounds=3)
    page = Page("Matrix products on 8 bits", o.out, "GF/s; *ratio*: the time of f32 over that of the type.")
    kinds = [f"int8 {s}" for s in instruction_sets(o.build) if s in ("avx-vnni", "avx512-vnni", "amx")]
    compare_types(o, page, ("f32", "int8", "int8-mixed", *kinds[:-1]), wide=("head",))
    page.write()


if __name__ == "__main__":
    main()
