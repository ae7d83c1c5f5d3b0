#!/usr/bin/python3
"""What do techniques that change numerics do to what is learned?

    bench/quality.py [--build build] [--steps 600] [--only NAME,...] [--out bench/results/quality.md]

The same model, data and learning rate with each of them, from three seeds: the mean validation loss beside that of
plain f32 with the same optimizer. Batch and learning rate are the demo's, with which char-small learns to write."""

import json
import os
import subprocess
import sys
import tempfile

from measure import Page, options, text_file

SEEDS = (1, 2, 3)
PLAIN = {"adamw": ["--lr", "3e-3"], "lion": ["--optimizer", "lion", "--lr", "3e-4"],
         "adapters": ["--lr", "2e-3"],
         "sgd": ["--optimizer", "sgd", "--momentum", "0.9", "--lr", "0.1"]}
ALSO = {"adapters": ["--lora", "rank=8"]}  # of the row that others are beside
ROWS = {  # name: (optimizer, options)
    "mixed-bf16": ("adamw", ["--precision", "mixed-bf16"]),
    "mixed-f16": ("adamw", ["--precision", "mixed-f16"]),
    "bf16 weights": ("adamw", ["--precision", "bf16"]),
    "bf16 weights to the nearest": ("adamw", ["--precision", "bf16:nearest"]),
    "int8 weights": ("adamw", ["--precision", "int8"]),
    "int8 products + bf16 weights": ("adamw", ["--precision", "int8-mixed"]),
    "fp8 products + bf16 weights": ("adamw", ["--precision", "fp8-mixed"]),
    "activations": ("adamw", ["--compress-activations", "8bit"]),
    "activations + blocks recomputed": ("adamw", ["--compress-activations", "8bit", "--recompute", "block"]),
    "8bit": ("adamw", ["--optimizer-state", "8bit"]),
    "8bit:all": ("adamw", ["--optimizer-state", "8bit:all"]),
    "bf16": ("adamw", ["--optimizer-state", "bf16"]),
    "adapters over bf16": ("adapters", ["--lora", "rank=8,base=bf16"]),
    "adapters over int8": ("adapters", ["--lora", "rank=8,base=int8"]),
    "adapters over nf4": ("adapters", ["--lora", "rank=8,base=nf4"]),
    "lion 8bit:all": ("lion", ["--optimizer-state", "8bit:all"]),
    "sgd 8bit:all": ("sgd", ["--optimizer-state", "8bit:all"]),
}


def halves(folder, data):
    """What a model has seen before adapters are trained, and what these are trained on."""
    with open(data, "rb") as file:
        text = file.read()
    names = [os.path.join(folder, name) for name in ("before", "after")]
    for name, part in zip(names, (text[:len(text) // 2], text[len(text) // 2:])):
        with open(name, "wb") as file:
            file.write(part)
    return names


def train(o, model, data, seed, out):
    return [f"{o.build}/snug", "train", model, "--data", data, "--batch", "16", "--steps", str(o.steps), "--seed",
            str(seed), "--threads", str(o.threads), "--save-every", "off", "--out", out]


def pretrained(o, folder, data, seed):
    """A model of full precision that has seen the first half of the text."""
    out = os.path.join(folder, f"base-{seed}")
    if not os.path.exists(out):
        subprocess.run([*train(o, "char-small", data, seed, out), "--lr", "3e-3"], check=True, capture_output=True)
    return out


def losses(o, folder, data, more):
    found = []
    for seed in SEEDS:
        out, model, text = os.path.join(folder, "run"), "char-small", data
        if "--lora" in more:
            before, text = halves(folder, data)
            model = pretrained(o, folder, before, seed)
        subprocess.run(["rm", "-rf", out], check=True)
        command = [*train(o, model, text, seed, out), *more]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        with open(os.path.join(out, "run.json")) as file:
            found.append(json.load(file)["eval_losses"][-1]["loss"])
    return found


def main():
    o = options(__doc__, "quality", steps=600, only="")
    rows = {name: ROWS[name] for name in (o.only.split(",") if o.only else ROWS)}
    page = Page("Quality", o.out, f"char-small, {o.steps} steps, seeds {SEEDS}: validation loss at the end.")
    page.head("what", "mean", "lowest - highest", "beside f32", "by seed")
    with tempfile.TemporaryDirectory() as folder:
        data, plain = text_file(folder), {}
        for name, (optimizer, more) in rows.items():
            if optimizer not in plain:
                plain[optimizer] = losses(o, folder, data, PLAIN[optimizer] + ALSO.get(optimizer, []))
                found = plain[optimizer]
                page.row(f"{optimizer}, f32", f"{sum(found) / 3:.4f}", f"{min(found):.4f} - {max(found):.4f}", "-", "-")
            found, base = losses(o, folder, data, PLAIN[optimizer] + more), plain[optimizer]
            change = [f"{(a / b - 1) * 100:+.2f} %" for a, b in zip(found, base)]
            page.row(name, f"{sum(found) / 3:.4f}", f"{min(found):.4f} - {max(found):.4f}",
                     f"{(sum(found) / sum(base) - 1) * 100:+.2f} %", ", ".join(change))
            page.write()


if __name__ == "__main__":
    main()
