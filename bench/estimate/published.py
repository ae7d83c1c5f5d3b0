#!/usr/bin/env python3
"""Compares `snug estimate` with measurements that others have published:
published.py [--snug PATH] [--all] [--open] [--write]

points_published.csv holds them: framework, model (a name or a file beside), the configuration as options of
`snug estimate`, the layer, bytes, the value as it was printed, whether the point is used and why not, the source, and
what was inferred. `opened` is a date and a word: "tuned" may make rules; "aside" is a third of the sources, those
where sha256 of the address (`source` up to its first space) leaves 0 when divided by 3. "aside" without a date was
never compared, and is only with --open. Prints, per framework and layer, min / median / max of estimate over
measured, errors, how many estimates are below, how many measured values lie within the estimate's interval, and half
its width at the median.
--write puts that into bench/results/estimate.md."""

import argparse
import collections
import csv
import hashlib
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FIRST_DAY = "2026-11-23"  # since when a third of the sources is kept aside
KEYS = {"live": "live_bytes", "reserved": "reserved_bytes", "whole": "device_bytes"}
HEAD = ["| | points | estimate / measured: min / median / max | median error | 90th percentile | below 1.0 "
        "| more than 2 % below | within the interval | half its width |", "|---|---|---|---|---|---|---|---|---|"]


def estimate(snug, row):
    model = str(HERE / row["model"]) if row["model"].endswith(".json") else row["model"]
    line = [snug, "estimate", model, "--json", "--quiet", *row["options"].split()]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(line)}: {done.stderr}")
    return json.loads(done.stdout)[KEYS[row["layer"]]]


def address(row):
    return row["source"].split(" ")[0]


def is_aside(row):
    return row["opened"].endswith("aside")


def check(rows):
    """What a row says of being aside is what its address says, but for addresses opened before there was the rule."""
    before = {address(row) for row in rows if row["opened"] < FIRST_DAY}
    for row in rows:
        third = int(hashlib.sha256(address(row).encode()).hexdigest(), 16) % 3 == 0
        if third != is_aside(row) and address(row) not in before:
            sys.exit(f"{address(row)}: {row['opened']!r}, but its hash says {'aside' if third else 'tuned'}")


def compared(snug, opens):
    with open(HERE / "points_published.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    check(rows)
    for row in rows:
        row["closed"] = row["opened"] == "aside" and not opens
        if not row["closed"]:
            said, measured = estimate(snug, row), float(row["value_bytes"])
            row["ratio"] = said["likely"] / measured
            row["inside"] = said["low"] <= measured <= said["high"]
            row["half"] = (said["high"] - said["low"]) / 2 / said["likely"]
        yield row


def ninth(errors):
    return sorted(errors)[max(0, int(len(errors) * 0.9 + 0.999) - 1)]


def line(name, rows):
    ratios = [row["ratio"] for row in rows]
    errors = [abs(r - 1) for r in ratios]
    spread = f"{min(ratios):.3f} / {statistics.median(ratios):.3f} / {max(ratios):.3f}"
    below, far, inside = sum(r < 1 for r in ratios), sum(r < 0.98 for r in ratios), sum(row["inside"] for row in rows)
    half = statistics.median(row["half"] for row in rows)
    return (f"| {name} | {len(rows)} | {spread} | {statistics.median(errors):.1%} | {ninth(errors):.1%} | {below} "
            f"| {far} | {inside} | {half:.1%} |")


def table(rows):
    groups = {}
    for row in rows:
        groups.setdefault(f"{row['framework']}, {row['layer']}", []).append(row)
    for layer in KEYS:
        for several, name in (False, "one device"), (True, "several devices"):
            some = [row for row in rows if row["layer"] == layer and ("--gpus" in row["options"]) == several]
            if some:
                groups[f"all, {layer}, {name}"] = some
    for layer in KEYS:
        some = [row for row in rows if row["layer"] == layer]
        if some:
            groups[f"all, {layer}"] = some
    groups["all"] = rows
    return HEAD + [line(name, some) for name, some in groups.items()]


def sources(rows):
    """One line a source: whether a rule was made from it can be seen from its date and word."""
    groups = collections.OrderedDict()
    for row in rows:
        groups.setdefault((address(row), row["opened"]), []).append(row)
    yield "| source | opened | used | not used | median ratio | within the interval |"
    yield "|---|---|---|---|---|---|"
    for (name, opened), some in groups.items():
        used = [row for row in some if row["used"] == "yes"]
        told = [row for row in used if not row["closed"]]
        ratio = f"{statistics.median(row['ratio'] for row in told):.3f}" if told else ""
        inside = f"{sum(row['inside'] for row in told)}" if told else ""
        yield f"| {name} | {opened} | {len(used)} | {len(some) - len(used)} | {ratio} | {inside} |"


def each(rows):
    yield "| framework | model | layer | as printed | ratio | options |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        name = f"{row['framework']} | {row['model']} | {row['layer']}"
        yield f"| {name} | {row['as_printed']} | {row['ratio']:.3f} | `{row['options']}` |"


def page(rows):
    used = [row for row in rows if row["used"] == "yes" and not row["closed"]]
    left_out = [row for row in rows if row["used"] == "no" and not row["closed"]]
    kept = [row for row in used if is_aside(row)]
    yield "# Estimates beside published measurements"
    yield ""
    yield "`bench/estimate/published.py --write` made this page; points, their sources and what was inferred are in"
    yield f"`bench/estimate/points_published.csv`: {len(rows)} points of {len({address(row) for row in rows})} sources."
    yield "Shapes of Qwen 1, Yi-6B, MPT, PowerLM and deepseek-coder (`models/`) are written down without their files at"
    yield "hand."
    yield ""
    yield "## Sources that rules may be made from"
    yield ""
    yield from table([row for row in used if not is_aside(row)])
    yield ""
    yield "## Sources kept aside"
    yield ""
    yield from table(kept) if kept else ["Never compared yet."]
    yield ""
    yield "## Each source"
    yield ""
    yield from sources(rows)
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
    parser.add_argument("--open", action="store_true", help="those kept aside that were never compared, too")
    parser.add_argument("--write", action="store_true", help="bench/results/estimate.md")
    args = parser.parse_args()
    rows = list(compared(args.snug, args.open))
    used = [row for row in rows if row["used"] == "yes" and not row["closed"]]
    tuned, kept = [row for row in used if not is_aside(row)], [row for row in used if is_aside(row)]
    print("\n".join(each(used) if args.all else table(tuned)))
    if kept and not args.all:
        print("\nkept aside:\n" + "\n".join(table(kept)))
    if args.write:
        (HERE.parent / "results" / "estimate.md").write_text("\n".join(page(rows)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
