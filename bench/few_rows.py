#!/usr/bin/python3
"""Do products of few rows run at the speed of memory, each width as it is stored?

    bench/few_rows.py [--build build] [--rounds 5] [--out bench/results/few_rows.md]

The products of gpt2 in generating: weights that lie as (in, out), and the head, which lies as (out, in), as all weights
of Llama do. Each is read from memory: a call has another copy of the weight than the calls before it. A share is bytes
of the weight as stored, scales included, by the time of a call, over what plain reading of memory reaches, measured in
turns with it by the same program; both are what a quarter of the calls took less than. Of the head an eighth is a call.
f32 and 16 bits are of ops/matmul; "bf16 weights" multiplies f32 by them, as `snug generate` does; int8 and int4 are
codes by codes (ops/matmul_int8, ops/matmul_int4), codes8 and codes4 f32 by codes (ops/matmul_coded). A token counts
each shape as often as a token of gpt2 has it."""

from matmul import LAYERS
from matmul_16bit import instruction_sets
from measure import Page, Worker, median, options

TYPES = {"f32": "f32", "bf16": "bf16", "bf16 weights": "bf16-alone", "f16 weights": "f16-alone", "int8": "int8",
         "int4": "int4", "codes8": "codes8", "codes4": "codes4"}
TARGETS = {"f32": 0.85, "bf16": 0.80, "bf16 weights": 0.80, "f16 weights": 0.80, "int8": 0.70, "int4": 0.55,
           "codes8": 0.70, "codes4": 0.55}


HEAD_PART = 8  # so long a call as one of the whole head is seldom left alone on a machine that others use


def shapes():
    for name, (inner, outer, count) in LAYERS.items():
        if name == "head":
            yield name, count * HEAD_PART, outer // HEAD_PART, inner, 1
        else:
            yield name, count, outer, inner, 0


def shares(o, worker, rows, threads):
    """By shape, and of a token: the median over the rounds of bytes a second over those of plain reading."""
    found, token, rates = {}, [], []
    for number in range(o.rounds + 1):
        took = read = 0.0
        seconds, size = worker.ask(f"read {threads}")
        rate = size / seconds
        for name, count, outer, inner, tb in shapes():
            seconds, size = worker.ask(f"{rows} {outer} {inner} {tb} {threads}")
            took, read = took + count * seconds, read + count * size
            if number:
                found.setdefault(name, []).append(size / seconds / rate)
        if number:
            token.append(read / took / rate)
            rates.append(rate)
    return {name: median(values) for name, values in found.items()}, median(token), median(rates)


def table(o, page, kinds, rows_of):
    names = [name for name, *_ in shapes()]
    page.head("type", "instructions", "threads", "rows", *names, "token", "read, GB/s")
    for kind, instructions in kinds:
        command = [f"{o.build}/bench-few_rows", TYPES[kind], *([instructions] if instructions else [])]
        worker = Worker(kind, command)
        for threads in sorted({1, o.threads}):
            for rows in rows_of:
                by_shape, token, rate = shares(o, worker, rows, threads)
                page.row(kind, instructions or "best", threads, rows, *(f"{by_shape[n]:.2f}" for n in names),
                         f"**{token:.2f}**" if token >= TARGETS[kind] else f"{token:.2f}", f"{rate * 1e-9:.0f}")
        worker.close()


def main():
    o = options(__doc__, "few_rows", rounds=5, types="", rows="1,2,4,8,16,64")
    page = Page("Few rows", o.out, f"Medians of {o.rounds} rounds after one. Shares of memory's reading speed; those "
                "that reach the target are bold: f32 0.85, 16 bits 0.80, 8 bits 0.70, 4 bits 0.55, at 1 to 8 rows.")
    kinds = [kind for kind in TYPES if not o.types or kind in o.types.split(",")]
    sets = [""] + [name for name in instruction_sets(o.build) if name == "avx2"]
    rows = [int(n) for n in o.rows.split(",")]
    table(o, page, [(kind, name) for kind in kinds for name in sets if not (kind == "bf16" and name)], rows)
    page.write()


if __name__ == "__main__":
    main()
