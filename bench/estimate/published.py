#!/usr/bin/env python3
"""Compares `snug estimate` with measurements that others have published: published.py [--snug PATH] [--all] [--write]

points_published.csv holds them: framework, model (a name or a file beside), the configuration as options of
`snug estimate`, the layer, bytes, the value as it was printed, whether the point is used and why not, and the source.
Prints, per framework and layer, min / median / max of estimate over measured, errors, how many estimates are below,
and how many measured values lie within the estimate's interval. --write puts that into bench/results/estimate.md."""

import argparse
import csv
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
KEYS = {"live": "live_bytes", "reserved": "reserved_bytes", "whole": "device_bytes"}


def estimate(snug, row):
    model = str(HERE / row["model"]) if row["model"].endswith(".json") else row["model"]
    line = [snug, "estimate", model, "--json", "--quiet", *row["options"].split()]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(line)}: {done.stderr}")
    return json.loads(done.stdout)[KEYS[row["layer"]]]


def compared(snug):
    with open(HERE / "points_published.csv", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            said, measured = estimate(snug, row), float(row["value_bytes"])
            row["ratio"] = said["likely"] / measured
            row["inside"] = said["low"] <= measured <= said["high"]
            yield row


def ninth(errors):
    return sorted(errors)[max(0, int(len(errors) * 0.9 + 0.999) - 1)]


def line(name, rows):
    ratios = [row["ratio"] for row in rows]
    errors = [abs(r - 1) for r in ratios]
    spread = f"{min(ratios):.3f} / {statistics.median(ratios):.3f} / {max(ratios):.3f}"
    below, far, inside = sum(r < 1 for r in ratios), sum(r < 0.98 for r in ratios), sum(row["inside"] for row in rows)
    return (f"| {name} | {len(rows)} | {spread} | {statistics.median(errors):.1%} | {ninth(errors):.1%} | {below} "
            f"| {far} | {inside} |")


def table(rows):
    groups = {}
    for row in rows:
        groups.setdefault(f"{row['framework']}, {row['layer']}", []).append(row)
    for layer in KEYS:
        for several, name in (False, "one device"), (True, "several devices"):
            some = [row for row in rows if row["layer"] == layer and ("--gpus" in row["options"]) == several]
            if some:
                groups[f"all, {layer}, {name}"] = some
    groups["all"] = rows
    head = ["| | points | estimate / measured: min / median / max | median error | 90th percentile | below 1.0 "
            "| more than 2 % below | within the interval |", "|---|---|---|---|---|---|---|---|"]
    return head + [line(name, some) for name, some in groups.items()]


def each(rows):
    yield "| framework | model | layer | as printed | ratio | options |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        name = f"{row['framework']} | {row['model']} | {row['layer']}"
        yield f"| {name} | {row['as_printed']} | {row['ratio']:.3f} | `{row['options']}` |"


def page(used, left_out):
    yield "# Estimates beside published measurements"
    yield ""
    yield "`bench/estimate/published.py --write` made this page; points and their sources are in"
    yield "`bench/estimate/points_published.csv`."
    yield ""
    yield from table(used)
    yield ""
    yield "## Each point"
    yield ""
    yield from each(used)
    yield ""
    yield "## Points that are not used"
    yield ""
    yield "| framework | model | as printed | ratio | reason |"
    yield "|---|---|---|---|---|"
    for row in left_out:
        yield f"| {row['framework']} | {row['model']} | {row['as_printed']} | {row['ratio']:.3f} | {row['reason']} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snug", default=shutil.which("snug") or "snug")
    parser.add_argument("--all", action="store_true", help="every point")
    parser.add_argument("--write", action="store_true", help="bench/results/estimate.md")
    args = parser.parse_args()
    rows = list(compared(args.snug))
    used, left_out = ([row for row in rows if row["used"] == answer] for answer in ("yes", "no"))
    print("\n".join(each(used) if args.all else table(used)))
    if args.write:
        (HERE.parent / "results" / "estimate.md").write_text("\n".join(page(used, left_out)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
