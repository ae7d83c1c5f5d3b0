#!/usr/bin/env python3
"""Compares what `snug estimate` says of the host's memory with what others have reported:
host.py [--snug PATH] [--write]

points_host.csv holds it: framework, model, options, the key of the answer, bytes, what the source said, the source,
`opened` as in points_published.csv, and what was inferred. --write puts the comparison into bench/results/host.md."""

import argparse
import csv
import pathlib
import shutil
import sys

from fits import answer
from published import check

HERE = pathlib.Path(__file__).resolve().parent
HEAD = ["| key | reported, GiB | estimate | interval | within | model | options | as said | source | opened |",
        "|---|---|---|---|---|---|---|---|---|---|"]


def compared(snug):
    with open(HERE / "points_host.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    check(rows)
    for row in rows:
        said, reported = answer(snug, row)[row["key"]], float(row["value_bytes"])
        inside = said["low"] <= reported <= said["high"]
        low, likely, high = (f"{said[end] / 2**30:.1f}" for end in ("low", "likely", "high"))
        yield (f"| `{row['key']}` | {reported / 2**30:.1f} | {likely} | {low} to {high} | {'yes' if inside else 'no'} "
               f"| {row['model']} | `{row['options']}` | {row['as_said']} | {row['source']} | {row['opened']} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snug", default=shutil.which("snug") or "snug")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    lines = HEAD + list(compared(asked.snug))
    print("\n".join(lines))
    if asked.write:
        text = ["# The host's memory, beside what was reported", "",
                "Written by `bench/estimate/host.py --write`; docs/estimate.md says what it means.", "", *lines]
        (HERE.parent / "results" / "host.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
