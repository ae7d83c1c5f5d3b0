#!/usr/bin/env python3
"""Compares `snug estimate --framework vllm` and `llama.cpp` with what these have printed as they started:
serving.py [--snug PATH] [--all].

points_serving.csv names for each value the key of the answer that it is compared with. Prints, per framework and
key, min / median / max of estimate over printed, and the median error. Exit 1 when --check and a median error is
above 5 %."""

import argparse
import csv
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

POINTS = pathlib.Path(__file__).resolve().parent / "points_serving.csv"


def answer(snug, row):
    line = [snug, "estimate", row["model"], "--framework", row["framework"], "--json", "--quiet"]
    line += row["options"].split()
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(line)}: {done.stderr}")
    value = json.loads(done.stdout)
    for key in row["key"].split("."):
        value = value[key]
    return value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snug", default=shutil.which("snug") or "snug")
    parser.add_argument("--all", action="store_true", help="every point")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    ratios = {}
    with open(POINTS, encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            ratio = answer(args.snug, row) / float(row["value"])
            ratios.setdefault((row["framework"], row["key"]), []).append(ratio)
            if args.all:
                print(f"  {ratio:.4f}  {row['model']:14} {row['key']:26} {row['as_printed']:18} {row['options']}")
    good = True
    for (framework, key), found in ratios.items():
        error = statistics.median(abs(r - 1) for r in found)
        good &= error <= 0.05
        spread = f"{min(found):.3f} / {statistics.median(found):.3f} / {max(found):.3f}"
        print(f"{framework:9} {key:26} {len(found):3} points, estimate over printed {spread}, median error {error:.2%}")
    sys.exit(0 if good or not args.check else 1)


if __name__ == "__main__":
    main()
