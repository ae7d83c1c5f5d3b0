#!/usr/bin/env python3
"""What each technique takes: snug compare as a table in Markdown.

    bench/compare.py BUILD/snug MODEL [options of compare] > bench/results/compare.md

Bytes and losses come out the same on any machine of this processor's kind. Measured times are means of the steps, each
row in a process of its own: nothing else should run beside.
"""
import json
import os
import subprocess
import sys

GROUPS = {"plain": "", "alone": "alone", "lossless": "together", "allowed": "with LOSSY ones",
          "asked": "within the budget"}


def mebibytes(n):
    return f"{n / 2**20:,.1f}"


def row(r, plain):
    name = f"{r['name']} {r['setting']}".strip()
    if r["whole_group"]:
        name = f"**{name}**"
    if not r["planned"]:
        return f"| {GROUPS[r['group']]} | {name} | - | {r['note']} | | | | | |"
    m, loss, step = r["measured"], "", ""
    if m and plain:
        loss = "the same bits" if m["loss"] == plain["loss"] else f"{m['loss'] - plain['loss']:+.5f}"
    seen = [mebibytes(m["peak_bytes"]), "yes" if m["as_planned"] else "NO"] if m else ["", ""]
    if m:
        step = f"{m['step_seconds']:.2f} s"
        if plain:
            step += f", {100 * (m['step_seconds'] / plain['step_seconds'] - 1):+.0f} %"
    cells = [GROUPS[r["group"]], name, mebibytes(r["planned"]["peak_bytes"]), f"{r['peak_percent']:+.1f} %",
             f"{r['step_percent']:+.1f} %", step, *seen, loss]
    note = f" ({r['note']})" if r["note"] else ""
    cells[3] += note
    return "| " + " | ".join(cells) + " |"


def main():
    program, *rest = sys.argv[1:]
    done = subprocess.run([program, "compare", *rest, "--json", "--quiet"], stdout=subprocess.PIPE, check=True)
    d = json.loads(done.stdout)
    plain = d["rows"][0]["measured"]
    shown = ["DIR" if os.sep in a else a for a in rest]
    print(f"### `snug compare {' '.join(shown)}`\n")
    print(f"{d['model']}, {d['optimizer']}, batch {d['batch']} x {d['context']}; MiB.\n")
    print("| | technique | planned peak | change | step time, predicted change | measured | peak, from outside "
          "| categories equal | loss of the last step |")
    print("|---|---|---|---|---|---|---|---|---|")
    for r in d["rows"]:
        print(row(r, plain))
    print()


main()
