#!/usr/bin/env python3
"""Compares `snug estimate --framework megatron` with published peaks of Megatron-LM runs:
parallel.py [--snug PATH] [--all] [--write]

points_parallel.csv has one row a run and stage of the pipeline: the model, the configuration as options of
`snug estimate`, what torch.cuda.max_memory_allocated and max_memory_reserved showed in MiB on the ranks of that
stage (least and most of them), and the source. Ratios are of the most. --write makes bench/results/parallel.md."""

import argparse
import csv
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MIB = 2**20


def estimate(snug, row):
    line = [snug, "estimate", str(HERE / "models" / row["model"]), "--framework", "megatron", "--json", "--quiet"]
    line += row["options"].split() + ["--pipeline-stage", row["stage"]]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(line)}: {done.stderr}")
    return json.loads(done.stdout)


def kind_of(row):
    if "context-parallel-size" in row["options"]:
        return "long contexts"
    return "experts" if "deepseek" in row["model"] else "dense"


def compared(snug):
    with open(HERE / "points_parallel.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            said = estimate(snug, row)
            row["kind"] = kind_of(row)
            row["said"] = said
            for layer in ("live", "reserved"):
                measured, answer = float(row[f"{layer}_most_mib"]) * MIB, said[f"{layer}_bytes"]
                row[layer] = answer["likely"] / measured
                row[f"{layer}_inside"] = answer["low"] <= measured <= answer["high"]
            yield row


def line(name, rows, layer):
    ratios = [row[layer] for row in rows]
    errors = sorted(abs(r - 1) for r in ratios)
    spread = f"{min(ratios):.4f} / {statistics.median(ratios):.4f} / {max(ratios):.4f}"
    return (f"| {name}, {layer} | {len(rows)} | {spread} | {statistics.median(errors):.2%} | {errors[-1]:.2%} "
            f"| {sum(e <= 0.02 for e in errors)} | {sum(r < 0.99 for r in ratios)} "
            f"| {sum(row[f'{layer}_inside'] for row in rows)} |")


def fullest(rows):
    """Of each run the stage that holds most: what a run's published peak is."""
    runs = {}
    for row in rows:
        best = runs.get(row["case"])
        if not best or float(row["live_most_mib"]) > float(best["live_most_mib"]):
            runs[row["case"]] = row
    return list(runs.values())


def table(rows):
    yield ("| | points | estimate / measured: min / median / max | median error | largest | within 2 % "
           "| more than 1 % below | within the interval |")
    yield "|---|---|---|---|---|---|---|---|"
    for layer in ("live", "reserved"):
        for name in dict.fromkeys(row["kind"] for row in rows):
            yield line(name, [row for row in rows if row["kind"] == name], layer)
        yield line("all runs' peaks", fullest(rows), layer)
        yield line("all stages", rows, layer)


def each(rows):
    yield "| run | stage | measured live, MiB | estimate / measured: live | reserved | peak in |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        yield (f"| {row['case']} | {row['stage']} | {float(row['live_most_mib']):,.0f} | {row['live']:.4f} "
               f"| {row['reserved']:.3f} | {row['said']['peak_in']} |")


HEAD = """# Parallelism beside published peaks

`bench/estimate/parallel.py --snug build/snug --write` made this page from `bench/estimate/points_parallel.csv`.

SimuMax (Moore Threads) publishes what Megatron-LM took on eight B200 with Transformer Engine 2.11: for each rank the
most that tensors took (`max_memory_allocated`) and that the allocator reserved. There are 43 runs: Llama 3 70B and 405B
cut to 12 and 4 layers, DeepSeek V2 and V3 cut to 4, each with 4, 8 and 32 micro-batches, and 7 long
contexts. The number
of micro-batches changes no peak, in the measurements as in the rules, so they are 19 different settings. SimuMax's own
model of memory says it is 0.1 to 1.4 % low on them.

The rules were written from Megatron-Core's and Transformer Engine's sources and from papers, and committed before the
measured values were read; what SimuMax writes about how it set the runs up had been read. None was changed since. After
it was seen that reserved bytes came out 2.5 % low for experts and 4.4 % for long contexts, the likely share of the
allocator's pieces, no rule but one factor for all, became 5 % in place of 3: **reserved bytes here are no test.**

Not measured by anybody here: interleaved stages, recomputation, rings of contexts, tensors and experts together, more
than eight devices, GPT-2's kind, and what a device has beside the allocator (NCCL's buffers are an interval that no
figure stands behind)."""


def page(rows):
    return [HEAD, "", *table(rows), "", "## Each", "", *each(rows)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snug", default=shutil.which("snug") or "snug")
    parser.add_argument("--all", action="store_true", help="every point")
    parser.add_argument("--write", action="store_true", help="bench/results/parallel.md")
    args = parser.parse_args()
    rows = list(compared(args.snug))
    print("\n".join(each(rows) if args.all else table(rows)))
    if args.write:
        results = HERE.parent / "results" / "parallel.md"
        results.write_text("\n".join(page(rows)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
