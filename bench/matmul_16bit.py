#!/usr/bin/python3
"""What do 16 bits cost in products, and what do they gain? At the shapes of a gpt2 step, against our f32.

    bench/matmul_16bit.py [--build build] [--rounds 5] [--onednn libdnnl.so] [--out bench/results/matmul_16bit.md]

Operands and result are f32, bf16 or f16; panels are widened while they are packed, or go to instructions for bf16 as
they are (avx512-bf16, amx: where the processor has them); sums are f32, results are rounded once. oneDNN's product of
bf16, whose result is f32, is tried where a library is given. All take turns at each shape; a cell is the median over
the rounds. A sum counts each shape as often as a step has it."""

import json
import subprocess

from matmul import compare_types
from measure import Page, options


def instruction_sets(build):
    said = subprocess.run([f"{build}/snug", "devices", "--json"], check=True, capture_output=True).stdout
    return json.loads(said)["instruction_sets"]


def main():
    o = options(__doc__, "matmul_16bit", rounds=5, onednn="")
    page = Page("Matrix products of 16 bits", o.out, "GF/s; *ratio*: the time of f32 over that of the type.")
    kinds = [f"bf16 {s}" for s in instruction_sets(o.build) if s in ("avx512-bf16", "amx")]
    peers = ["oneDNN bf16"] if o.onednn else []
    compare_types(o, page, ("f32", "bf16 widened", "f16", *kinds, *peers),
                  commands={"f32": ["snug"], "oneDNN bf16": ["onednn-bf16", o.onednn]})
    page.write()


if __name__ == "__main__":
    main()
