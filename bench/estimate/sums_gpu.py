#!/usr/bin/env python3
"""What PyTorch's sum over the rows of a matrix takes of a GPU beside its result, as a formula, beside what was probed:
sums_gpu.py [FILE.jsonl.gz]

A bias's gradient is such a sum, and that of a norm's weight. Where a column is too long for the threads that share it,
blocks write what they have into a buffer, which is allocated for the call (setReduceConfig and global_memory_size of
PyTorch's ATen/native/cuda/Reduce.cuh). Sums are in f32 whatever the type. Prints how many probes the formula meets."""

import gzip
import json
import pathlib
import sys

WIDTHS = {"f32": 4, "bf16": 2}


def below(n):
    """The largest power of two that is no larger."""
    return 1 << (n.bit_length() - 1)


def over(a, b):
    return -(-a // b)


def sum_buffer(rows, columns, width=4, multiprocessors=132, threads=2048):
    """Bytes, where an element has `width`; for an H100 unless others are given: multiprocessors, and threads that each
    can hold. What 32 bits can't index is summed in two halves, one after the other."""
    while rows * columns * width >= 1 << 31:
        rows = over(rows, 2)
    vector = next(v for v in (4, 2, 1) if columns % v == 0)
    most = 512 // vector
    widest, tallest = min(below(columns // vector), most), min(below(rows), most)
    height = min(tallest, most // min(widest, 32))
    width = min(widest, most // height)
    shared = rows >= min(height * 16, 256)  # several threads of a block have a column together
    each = over(rows, height) if shared else rows
    blocks = over(columns // vector, width if shared else width * height)
    aim = multiprocessors * (threads // (width * height))
    if not shared or each < 256 or blocks > aim:
        return 0
    parts = max(min(over(aim, blocks), over(each, 16)), over(each, 256))
    return 4 * columns * parts * width * vector + 4 * blocks if parts > 1 else 0


def main():
    file = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("probe_gpu.jsonl.gz")
    with gzip.open(file, "rt", encoding="ascii") as lines:
        probes = [p for p in map(json.loads, lines) if p["op"] == "sum"]
    missed = [p for p in probes if p["took"] - p["left"] != sum_buffer(p["rows"], p["columns"], WIDTHS[p["type"]])]
    print(f"{len(probes) - len(missed)} of {len(probes)} to the byte")
    for p in missed:
        print(p, "formula", sum_buffer(p["rows"], p["columns"], WIDTHS[p["type"]]))


if __name__ == "__main__":
    main()
