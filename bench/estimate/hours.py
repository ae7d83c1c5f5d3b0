#!/usr/bin/env python3
"""Compares the hours that `snug estimate --tokens` answers with hours and speeds that others have published:
hours.py [--snug PATH] [--all] [--open] [--write]

points_hours.csv holds them: framework, model, options with the device, hours of devices, what the source said, the
source, `opened` as in points_published.csv, and what was inferred. A speed is written as the hours of as many tokens as
the options ask for. Prints, for each source and for those that may make rules and those kept aside, min / median / max
of estimate over published, errors, and how many lie within the interval. --write puts that into
bench/results/hours.md."""

import argparse
import collections
import csv
import pathlib
import shutil
import statistics
import sys

from fits import answer
from published import address, check, is_aside, ninth

HERE = pathlib.Path(__file__).resolve().parent
HEAD = ["| | points | estimate / published: min / median / max | median error | 90th percentile "
        "| within the interval | upper end / lower end |", "|---|---|---|---|---|---|---|"]


def compared(snug, opens):
    with open(HERE / "points_hours.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    check(rows)
    for row in rows:
        if row["opened"] != "aside" or opens:
            said, published = answer(snug, row)["gpu_hours"], float(row["gpu_hours"])
            row["ratio"], row["wide"] = said["likely"] / published, said["high"] / said["low"]
            row["inside"] = said["low"] <= published <= said["high"]
            yield row


def line(name, rows):
    ratios = [row["ratio"] for row in rows]
    errors = [abs(r - 1) for r in ratios]
    spread = f"{min(ratios):.2f} / {statistics.median(ratios):.2f} / {max(ratios):.2f}"
    inside, wide = sum(row["inside"] for row in rows), statistics.median(row["wide"] for row in rows)
    return (f"| {name} | {len(rows)} | {spread} | {100 * statistics.median(errors):.0f} % "
            f"| {100 * ninth(errors):.0f} % | {inside} | {wide:.1f} |")


def table(rows):
    groups = collections.OrderedDict()
    for row in rows:
        groups.setdefault(f"{address(row)}, {row['opened']}", []).append(row)
    for name, wanted in ("all that rules may be made from", False), ("all kept aside", True):
        some = [row for row in rows if is_aside(row) == wanted]
        if some:
            groups[name] = some
    return HEAD + [line(name, some) for name, some in groups.items()]


def each(rows):
    yield "| estimate / published | within | framework | model | options | as said |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        yield (f"| {row['ratio']:.2f} | {'yes' if row['inside'] else 'no'} | {row['framework']} | {row['model']} "
               f"| `{row['options']}` | {row['as_said']} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snug", default=shutil.which("snug") or str(HERE / "../../build/snug"))
    for name in "all", "open", "write":
        parser.add_argument(f"--{name}", action="store_true")
    asked = parser.parse_args()
    rows = list(compared(asked.snug, asked.open))
    lines = table(rows)
    print("\n".join(lines + ([""] + list(each(rows)) if asked.all else [])))
    if asked.write:
        text = ["# Hours of training, beside published ones", "",
                "Written by `bench/estimate/hours.py --write`; docs/estimate.md says what it means.", "", *lines, "",
                "## Each of them", "", *each(rows)]
        (HERE / "../results/hours.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
