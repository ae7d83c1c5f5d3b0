#!/usr/bin/env python3
"""Compares the longest context that `snug estimate --solve context` finds with those that others have published:
longest.py [--snug PATH]

No rule was derived from the points of points_longest.csv: they say what estimates are worth to whoever asks. Prints
a table in Markdown."""

import argparse
import csv
import json
import pathlib
import shutil
import subprocess

POINTS = pathlib.Path(__file__).resolve().parent / "points_longest.csv"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snug", default=shutil.which("snug") or "snug")
    args = parser.parse_args()
    print("| model | options | estimate | published | ratio |\n|---|---|---|---|---|")
    with open(POINTS, encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            line = [args.snug, "estimate", row["model"], *row["options"].split(), "--solve", "context"]
            done = subprocess.run([*line, "--json", "--quiet"], capture_output=True, text=True, check=True)
            found, printed = json.loads(done.stdout)["value"], int(row["printed"])
            print(f"| {row['model']} | `{row['options']}` | {found:,} | {printed:,} | {found / printed:.3f} |")


if __name__ == "__main__":
    main()
