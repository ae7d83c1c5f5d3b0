#!/usr/bin/python3
"""Do ops in 16 bits take the time of half the bytes?

    bench/sixteen_bits.py [--build build] [--rounds 7] [--only add,...] [--out bench/results/sixteen_bits.md]

Each op of a step in f32, bf16 and f16, which take turns, in processor time of one thread. 32,768 rows of 768, which no
cache keeps, and 256 rows, which stay in one. A ratio is the time of the type over that of f32; what f32 fetches from
memory should take half of it, what is bound by arithmetic as long as f32. Casts stand beside those of f32 and f64."""

import sys

from measure import Page, Worker, options

LARGE, SMALL = 32768, 256
# of cross-entropy, whose rows are 16,384 wide, and of attention, which is never bound by memory
ROWS = {"cross_entropy": (2048, 32), "cross_entropy_backward": (2048, 32), "attention": (4096, 256),
        "attention_backward": (4096, 256), "attention_flash": (4096, 256), "attention_flash_backward": (4096, 256)}


def main():
    o = options(__doc__, "sixteen_bits", rounds=7, only="")
    page = Page("Ops in 16 bits", o.out, f"Nanoseconds an element, medians of {o.rounds} rounds after one.")
    w = Worker("sixteen bits", [f"{o.build}/bench-sixteen_bits"])
    if w.ready is None:
        sys.exit(w.why)
    w.process.stdin.write(b"?\n")
    w.process.stdin.flush()
    names = w.process.stdout.readline().decode().split()
    page.head("op", "rows", "f32", "bf16", "f16", "bf16 / f32", "f16 / f32")
    for name in names if not o.only else o.only.split(","):
        for rows in ROWS.get(name, (LARGE, SMALL)):
            f32, bf16, f16 = w.ask(f"{name} {rows} {o.rounds}")
            page.row(name, f"{rows:,}", f"{f32:.4f}", f"{bf16:.4f}", f"{f16:.4f}", f"{bf16 / f32:.2f}",
                     f"{f16 / f32:.2f}")
    page.write()
    w.close()


if __name__ == "__main__":
    main()
