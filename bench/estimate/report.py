#!/usr/bin/env python3
"""Compares `snug estimate` with measured points: report.py [--snug PATH] [--all] FILE.csv...

Prints, per file and layer, min / median / max of estimate over measured, the median and 90th percentile of the error,
and how many estimates are more than 2 % below. Exit 1 when a bound of --check is broken."""

import argparse
import csv
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CPU = "--device cpu --batch 4 --context 256 "
OPTIONS = {
    "f32": CPU + "--dtype float32 --optimizer-kernels foreach",
    "eager": CPU + "--dtype float32 --attn eager --optimizer-kernels single",
    "autocast": CPU + "--dtype autocast --optimizer-kernels foreach",
    "half": CPU + "--dtype half --attn eager --optimizer-kernels foreach",
    "checkpointing": CPU + "--dtype float32 --gradient-checkpointing --optimizer-kernels single",
}

VIEWERS = ("vit", "clip_vision", "resnet", "resnet-basic", "convnext")  # of images, which have no length


def estimate(snug, row):
    options = OPTIONS.get(row["settings"], row["settings"])
    if row["model"] in VIEWERS:
        options = options.replace("--context 256 ", "")
    model = HERE / "models" / f"{row['model']}.json"
    line = [snug, "estimate", str(model) if model.exists() else row["model"], "--json", "--quiet", *options.split()]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(line)}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", default=[str(HERE / "points_cpu.csv")])
    parser.add_argument("--snug", default=shutil.which("snug") or "snug")
    parser.add_argument("--all", action="store_true", help="every point")
    parser.add_argument("--check", action="store_true", help="median error <= 5 %%, 90th percentile <= 12 %%")
    args = parser.parse_args()
    good = True
    for file in args.files:
        by_layer = {}
        with open(file, encoding="utf-8") as rows:
            for row in csv.DictReader(rows):
                said = estimate(args.snug, row)
                ratio = said[row["layer"] + "_bytes"]["likely"] / float(row["bytes"])
                by_layer.setdefault(row["layer"], []).append(ratio)
                if args.all:
                    mib = float(row["bytes"]) / 2**20
                    print(f"  {row['model']:16} {row['settings']:40.40} {row['layer']:9} {mib:10.1f} MiB  {ratio:.3f}"
                          f"  {said['peak_in']} {said['largest_term']}")
        for layer, ratios in by_layer.items():
            errors = sorted(abs(r - 1) for r in ratios)
            ninth = errors[max(0, int(len(errors) * 0.9 + 0.999) - 1)]
            spread = f"{min(ratios):.3f} / {statistics.median(ratios):.3f} / {max(ratios):.3f}"
            below, far = sum(r < 0.9995 for r in ratios), sum(r < 0.98 for r in ratios)
            print(f"{pathlib.Path(file).name} {layer}: {len(ratios)} points, estimate over measured {spread}, median "
                  f"error {statistics.median(errors):.1%}, 90th percentile {ninth:.1%}, {below} below 1.0, {far} more "
                  "than 2 % below")
            good &= statistics.median(errors) <= 0.05 and ninth <= 0.12
    sys.exit(0 if good or not args.check else 1)


if __name__ == "__main__":
    main()
