#!/usr/bin/env python3
"""Compares the answers of `snug estimate` with runs that others have seen fit or run out of memory:
fits.py [--snug PATH] [--all] [--open] [--write]

points_fits.csv holds them: framework, model, options with the device, whether it ran, what the source said, the source,
`opened` as in points_published.csv, and what was inferred. Counts "fits" where it failed, "may fit", and "does not fit"
where it ran, each source for itself and all together. A run that others gave up for another reason than memory is not
there. --write puts that into bench/results/fits.md. Exit 1 where "fits" was said of a run that failed and --check."""

import argparse
import collections
import csv
import json
import pathlib
import shutil
import subprocess
import sys

from published import address, check, is_aside

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = ["ran", "failed", "fits, but failed", "may fit", "does not fit, but ran"]
HEAD = ["| | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]


def answer(snug, row):
    model = str(HERE / row["model"]) if row["model"].endswith(".json") else row["model"]
    line = [snug, "estimate", model, "--json", "--quiet", *row["options"].split()]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(line)}: {done.stderr}")
    return json.loads(done.stdout)


def answered(snug, opens):
    with open(HERE / "points_fits.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with open(HERE / "points_published.csv", encoding="utf-8") as file:
        check(rows + list(csv.DictReader(file)))
    for row in rows:
        if row["opened"] != "aside" or opens:
            said = answer(snug, row)
            row["answer"] = said["answer"]
            row["share"] = said["device_bytes"]["likely"] / said["reported_bytes"]
            yield row


def counts(rows):
    ran = [row for row in rows if row["ran"] == "yes"]
    failed = [row for row in rows if row["ran"] == "no"]
    return [len(ran), len(failed), sum(row["answer"] == "fits" for row in failed),
            sum(row["answer"] == "may fit" for row in rows), sum(row["answer"] == "does not fit" for row in ran)]


def line(name, rows):
    return f"| {name} | " + " | ".join(map(str, counts(rows))) + " |"


def table(rows):
    groups = collections.OrderedDict()
    for row in rows:
        groups.setdefault(f"{address(row)}, {row['opened']}", []).append(row)
    for name, wanted in ("all that rules may be made from", False), ("all kept aside", True):
        some = [row for row in rows if is_aside(row) == wanted]
        if some:
            groups[name] = some
    groups["all"] = rows
    return HEAD + [line(name, some) for name, some in groups.items()]


def wrong(row):
    return row["answer"] == ("fits" if row["ran"] == "no" else "does not fit")


def each(rows):
    yield "| it | answer | of the device | framework | model | options | as said |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        yield (f"| {'ran' if row['ran'] == 'yes' else 'failed'} | {row['answer']} | {row['share']:.2f} "
               f"| {row['framework']} | {row['model']} | `{row['options']}` | {row['as_said']} |")


def page(rows):
    yield "# Answers beside known runs and failures"
    yield ""
    yield f"`bench/estimate/fits.py --write` made this page; the {len(rows)} runs and their sources are in"
    yield "`bench/estimate/points_fits.csv`."
    yield ""
    yield from table(rows)
    yield ""
    yield "## Wrong answers"
    yield ""
    yield from each([row for row in rows if wrong(row)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snug", default=shutil.which("snug") or "snug")
    parser.add_argument("--all", action="store_true", help="every run")
    parser.add_argument("--open", action="store_true", help="those kept aside that were never compared, too")
    parser.add_argument("--write", action="store_true", help="bench/results/fits.md")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    rows = list(answered(args.snug, args.open))
    print("\n".join(each(rows) if args.all else table(rows)))
    if args.write:
        (HERE.parent / "results" / "fits.md").write_text("\n".join(page(rows)) + "\n", encoding="utf-8")
    sys.exit(1 if args.check and counts(rows)[2] else 0)


if __name__ == "__main__":
    main()
