#!/usr/bin/env python3
"""Compares `snug estimate --framework megatron` with published peaks of Megatron-LM runs:
parallel.py [--snug PATH] [--all] [--write]

points_parallel.csv has one row a run and stage of the pipeline: the model, the configuration as options of
`snug estimate`, what torch.cuda.max_memory_allocated and max_memory_reserved showed in MiB on the ranks of that
stage (least and most of them), and the source. Ratios are of the most. points_titan.csv has one row a run of
torchtitan's, with what its log calls memory, the most that a device reserved. --write makes
bench/results/parallel.md."""

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


TITAN = """# torchtitan beside its published peaks

What torchtitan's team published of Llama 3.1 on H100 of 96 GB in December 2024, and what Trainy published of H200 in
June 2025: the most that a device reserved. Rules were written from torchtitan's source of today and of then, PyTorch's
FSDP2 and torchao, with these figures in sight. Of reserved bytes two numbers were **fitted to the twelve runs of 8B**,
which are within 2.1 % since: 3 % of what is live lies between, and the loss leaves 2 bytes a number (docs/titan.md).
Before, with Megatron-LM's 5 % alone, the 19 were 0.81 / 0.93 / 0.97. Seven runs divide tensors, and stay 5 to 21 % too
low. Runs with async tensor parallelism (both of 405B's pages, and a second one of 70B) keep symmetric buffers besides,
which have no rule. The last two rows are from threads: that of March 2025 was in sight, and not used; that of July 2024
was opened after the rule, is of a version whose model widens its logits itself, and comes out 11 % too high, for no
cause that we know. Not measured by anybody here:
experts, HSDP, blocks whose activations are all kept, the loss in chunks."""


def titan(snug):
    with open(HERE / "points_titan.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        line = [snug, "estimate", row["model"], "--framework", "torchtitan", "--json", "--quiet"]
        done = subprocess.run(line + row["options"].split(), capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(line)}: {done.stderr}")
        said = json.loads(done.stdout)["reserved_bytes"]
        measured = float(row["reserved_gib"]) * 2**30
        row["ratio"], row["inside"] = said["likely"] / measured, said["low"] <= measured <= said["high"]
    return rows


def titan_table(rows):
    ratios = sorted(row["ratio"] for row in rows)
    yield (f"{len(rows)} runs: estimate / published {ratios[0]:.3f} / {statistics.median(ratios):.3f} / "
           f"{ratios[-1]:.3f} (least, median, most); {sum(row['inside'] for row in rows)} lie within the interval.")
    yield ""
    yield "| run | published reserved, GiB | estimate / published | within the interval |"
    yield "|---|---|---|---|"
    for row in rows:
        yield f"| {row['case']} | {row['reserved_gib']} | {row['ratio']:.3f} | {'yes' if row['inside'] else 'no'} |"


def page(rows, others):
    return [HEAD, "", *table(rows), "", "## Each", "", *each(rows), "", TITAN, "", *titan_table(others)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snug", default=shutil.which("snug") or "snug")
    parser.add_argument("--all", action="store_true", help="every point")
    parser.add_argument("--write", action="store_true", help="bench/results/parallel.md")
    args = parser.parse_args()
    rows, others = list(compared(args.snug)), titan(args.snug)
    print("\n".join(each(rows) if args.all else table(rows)))
    print("\n".join(titan_table(others)))
    if args.write:
        results = HERE.parent / "results" / "parallel.md"
        results.write_text("\n".join(page(rows, others)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
