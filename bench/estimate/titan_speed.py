#!/usr/bin/env python3
"""Compares the tokens a second that `snug estimate --framework torchtitan` answers with what others have published:
titan_speed.py [--snug PATH] [--write]

points_titan_speed.csv has one row a run: the configuration as options of `snug estimate`, tokens a second of one
device, the source, and `opened`: "in sight" of whoever wrote the rules, or "opened after the rules" were committed.
--write makes bench/results/titan.md."""

import argparse
import csv
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PARTS = "products", "attention", "memory", "sending", "update", "idle"


def compared(snug):
    with open(HERE / "points_titan_speed.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        line = [snug, "estimate", row["model"], "--framework", "torchtitan", "--json", "--quiet"]
        done = subprocess.run(line + row["options"].split(), capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            sys.exit(f"{' '.join(line)} {row['options']}: {done.stderr}")
        said, published = json.loads(done.stdout), float(row["tokens_per_second"])
        speed = said["tokens_per_second"]
        row["said"], row["ratio"] = speed["likely"], speed["likely"] / published
        row["inside"] = speed["low"] <= published <= speed["high"]
        seconds = [said.get(f"{part}_seconds", {"likely": 0})["likely"] for part in PARTS]
        row["parts"] = " / ".join(f"{100 * x / said['step_seconds']['likely']:.0f}" for x in seconds)
    return rows


def summary(name, rows):
    ratios = sorted(row["ratio"] for row in rows)
    errors = sorted(abs(ratio - 1) for ratio in ratios)
    return (f"| {name} | {len(rows)} | {ratios[0]:.2f} / {statistics.median(ratios):.2f} / {ratios[-1]:.2f} "
            f"| {100 * statistics.median(errors):.0f} % | {100 * errors[-1]:.0f} % | {sum(e <= 0.15 for e in errors)} "
            f"| {sum(row['inside'] for row in rows)} |")


def table(rows):
    yield ("| | runs | estimate / published: least / median / most | median error | largest | within 15 % "
           "| within the interval |")
    yield "|---|---|---|---|---|---|---|"
    for name in dict.fromkeys(row["opened"] for row in rows):
        yield summary(name, [row for row in rows if row["opened"] == name])
    yield summary("all", rows)


def each(rows):
    yield f"| run | published | estimate | estimate / published | {' / '.join(PARTS)}, % of a step |"
    yield "|---|---|---|---|---|"
    for row in rows:
        yield (f"| {row['case']} | {float(row['tokens_per_second']):,.0f} | {row['said']:,.0f} | {row['ratio']:.2f} "
               f"| {row['parts']} |")


HEAD = """# torchtitan's tokens a second, beside published ones

`bench/estimate/titan_speed.py --snug build/snug --write` made this page from `bench/estimate/points_titan_speed.csv`;
[docs/titan.md](../../docs/titan.md#time) has the rules. Tokens a second are those of one device."""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snug", default=shutil.which("snug") or "snug")
    parser.add_argument("--write", action="store_true", help="bench/results/titan.md")
    args = parser.parse_args()
    rows = compared(args.snug)
    lines = [*table(rows), "", *each(rows)]
    print("\n".join(lines))
    if args.write:
        (HERE.parent / "results" / "titan.md").write_text("\n".join([HEAD, "", *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
