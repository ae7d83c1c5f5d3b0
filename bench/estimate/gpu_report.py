#!/usr/bin/env python3
"""Compares `snug estimate` with points_gpu.csv (measure_gpu.py): gpu_report.py [--snug PATH] [--drawn] [--points]

Layer requested is the measured live bytes before the allocator rounds, beside the estimate's live bytes.
Prints, per layer, min / median / max of estimate over measured, errors, how many estimates are below and how many
measured values lie within the estimate's interval; the same by what the settings have in common; and what the process
held beside the allocator. --points prints every point as well. What the estimate has no option for (`beside`) counts
in a line of its own. Tables are Markdown."""

import argparse
import csv
import shutil
import statistics

import published

FILE = published.HERE / "points_gpu.csv"
LAYERS = ("requested", "live", "reserved", "whole")
SAYS = {"requested": "live"}  # what the estimate calls it: it knows of no rounding
KINDS = {
    "small models": lambda p: p["model"].startswith("models/") and "pytorch" not in p["options"],
    "real models": lambda p: not p["model"].startswith("models/") or "pytorch" in p["options"],
    "float32": lambda p: "float32" in p["options"],
    "autocast": lambda p: "autocast" in p["options"],
    "half": lambda p: "half" in p["options"],
    "checkpointing": lambda p: "checkpointing" in p["options"],
    "eager attention": lambda p: "--attn eager" in p["options"],
    "adapters": lambda p: "adapter" in p["options"],
    "images": lambda p: any(w in p["model"] for w in ("vit", "resnet", "convnext")),
    "encoders, T5": lambda p: any(w in p["model"] for w in ("bert", "t5")),
    "experts": lambda p: any(w in p["model"] for w in ("mixtral", "moe")),
}


def read(snug, file):
    """Rows with what the estimate says, by point."""
    points = {}
    with open(file, encoding="ascii", newline="") as rows:
        for row in csv.DictReader(rows):
            key = row["model"], row["options"], row["beside"]
            point = points.setdefault(key, {"model": key[0], "options": key[1], "beside": key[2], "measured": {}})
            point["measured"][row["layer"]] = int(row["bytes"])
    for point in points.values():
        point["said"] = {layer: published.estimate(snug, {**point, "layer": SAYS.get(layer, layer)})
                         for layer in LAYERS}
        point["ratio"] = {layer: point["said"][layer]["likely"] / point["measured"][layer] for layer in LAYERS}
    return list(points.values())


def line(name, points, layer):
    ratios = [p["ratio"][layer] for p in points]
    errors = [abs(r - 1) for r in ratios]
    inside = sum(p["said"][layer]["low"] <= p["measured"][layer] <= p["said"][layer]["high"] for p in points)
    spread = f"{min(ratios):.3f} / {statistics.median(ratios):.3f} / {max(ratios):.3f}"
    return (f"| {name} | {layer} | {len(points)} | {spread} | {statistics.median(errors):.1%} "
            f"| {published.ninth(errors):.1%} | {sum(r < 0.98 for r in ratios)} | {inside} |")


def summary(points):
    yield ("| | layer | points | estimate / measured: min / median / max | median error | 90th percentile "
           "| more than 2 % below | within the interval |")
    yield "|---|---|---|---|---|---|---|---|"
    plain = [p for p in points if not p["beside"]]
    for layer in LAYERS:
        yield line("all", plain, layer)
    for name, holds in KINDS.items():
        some = [p for p in plain if holds(p)]
        for layer in LAYERS if some else ():
            yield line(name, some, layer)
    for beside in sorted({p["beside"] for p in points} - {""}):
        for layer in LAYERS:
            yield line(f"`{beside}`", [p for p in points if p["beside"] == beside], layer)


def beside_allocator(points):
    yield "| loading of modules | points | whole less reserved, MiB: min / median / max |"
    yield "|---|---|---|"
    for loading in "LAZY", "EAGER":
        some = sorted((p["measured"]["whole"] - p["measured"]["reserved"]) / 2**20 for p in points
                      if ("EAGER" in p["beside"]) == (loading == "EAGER"))
        if some:
            yield f"| {loading} | {len(some)} | {some[0]:.0f} / {statistics.median(some):.0f} / {some[-1]:.0f} |"


def each(points):
    yield ("| model | options | beside | requested, MiB | less the estimate | live, MiB | ratio "
           "| reserved, MiB | ratio | whole, MiB | ratio |")
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for p in points:
        values = " | ".join(f"{p['measured'][layer] / 2**20:.0f} | {p['ratio'][layer]:.3f}" for layer in LAYERS[1:])
        more = p["measured"]["requested"] - p["said"]["requested"]["likely"]
        values = f"{p['measured']['requested'] / 2**20:.1f} | {more / 2**20:+.1f} | {values}"
        yield f"| {p['model']} | `{p['options'].replace('--device h100-80 ', '')}` | {p['beside']} | {values} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snug", default=shutil.which("snug") or "snug")
    parser.add_argument("--points", action="store_true", help="every point")
    parser.add_argument("--drawn", action="store_true", help="points_gpu_drawn.csv: no rule was made from those")
    args = parser.parse_args()
    points = read(args.snug, published.HERE / "points_gpu_drawn.csv" if args.drawn else FILE)
    print("\n".join((*summary(points), "", *beside_allocator(points))))
    if args.points:
        print("\n".join(("", *each(points))))


if __name__ == "__main__":
    main()
