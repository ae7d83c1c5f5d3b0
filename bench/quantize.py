#!/usr/bin/python3
"""What does rounding to 8 or 4 bits do to a trained model, and does training for it help?

    bench/quantize.py [--build build] [--steps 500] [--more 200] [--seeds 1,2,3] [--models all | plain]
                      [--out bench/results/quantize.md]

char-small, from each seed with and without --qat int8, at the same learning rate; then `snug quantize` in all modes:
validation loss before and after. Models of this size have no outliers, which are what quantizing large ones suffers
from. So the plain model is given some, without changing what it computes: eight channels of each norm times 64, the
rows of the product behind it that they meet divided by 64. It is trained on from there, again with and without."""

import array
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

from measure import Page, options, text_file

MODES = {"dynamic": "int8", "static": "int8:static", "dynamic, embeddings too": "int8:all",
         "static, embeddings too": "int8:static:all", "4 bits": "int4", "4 bits, embeddings too": "int4:all"}
OUTLIERS, TIMES = 8, 64.0
BEHIND = {"ln_1": "attn.c_attn", "ln_2": "mlp.c_fc"}


def run(o, command, *words):
    line = [f"{o.build}/snug", command, *map(str, words), "--threads", str(o.threads)]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(line)}: {done.stderr}")
    return done.stdout


def train(o, data, model, out, seed, steps, rate, qat):
    run(o, "train", model, "--data", data, "--out", out, "--steps", steps, "--lr", rate, "--seed", seed, "--save-every",
        "off", "--qat", qat, "--quiet")


def quantized(o, data, model, mode, folder):
    """Validation loss before and after."""
    out = os.path.join(folder, "quantized")
    shutil.rmtree(out, ignore_errors=True)
    calibrate = ["--calibrate", data] if "static" in mode else []
    said = json.loads(run(o, "quantize", model, "--to", MODES[mode], *calibrate, "--data", data,
                          "--eval-samples", 400, "--out", out, "--json", "--quiet"))
    return said["loss_before"], said["loss_after"]


def give_outliers(model, out):
    """The same function with eight large channels behind each norm."""
    shutil.copytree(model, out)
    path = os.path.join(out, "model.safetensors")
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(length)), array.array("f", file.read())
    for name, about in header.items():
        norm = name.split(".")[-2] if "." in name else ""
        if norm not in BEHIND:
            continue
        begin, width = about["data_offsets"][0] // 4, about["shape"][0]
        channels = range(width // (2 * OUTLIERS), width, width // OUTLIERS)
        for c in channels:
            data[begin + c] *= TIMES
        if not name.endswith("weight"):
            continue
        product = header[name.replace(norm + ".weight", BEHIND[norm] + ".weight")]
        first, columns = product["data_offsets"][0] // 4, product["shape"][1]
        for c in channels:
            for i in range(first + c * columns, first + (c + 1) * columns):
                data[i] /= TIMES
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data.tobytes())


def add_rows(o, page, name, data, models, folder):
    for mode in MODES:
        pairs = [quantized(o, data, model, mode, folder) for model in models]
        before, after = (sum(p[i] for p in pairs) / len(pairs) for i in range(2))
        page.row(name, mode, f"{before:.4f}", f"{after:.4f}", f"{(after / before - 1) * 100:+.3f} %",
                 ", ".join(f"{(b / a - 1) * 100:+.3f} %" for a, b in pairs))


def main():
    o = options(__doc__, "quantize", steps=500, more=200, seeds="1,2,3", models="all")
    seeds = [int(word) for word in o.seeds.split(",")]
    page = Page("Quantizing a trained model", o.out,
                f"char-small, {o.steps} steps at 3e-3, seeds {o.seeds}; with outliers {o.more} more at 1e-3.")
    page.head("model", "mode", "loss", "quantized", "change", "by seed")
    with tempfile.TemporaryDirectory() as folder:
        data, made = text_file(folder), lambda name, seed: os.path.join(folder, f"{name}-{seed}")
        for qat in ("off", "int8") if o.models == "all" else ("off",):
            for seed in seeds:
                train(o, data, "char-small", made(qat, seed), seed, o.steps, 3e-3, qat)
            name = "trained with --qat int8" if qat == "int8" else "trained without --qat"
            add_rows(o, page, name, data, [made(qat, seed) for seed in seeds], folder)
        for seed in seeds:
            give_outliers(made("off", seed), made("large", seed))
        add_rows(o, page, "given outliers", data, [made("large", seed) for seed in seeds], folder)
        for qat in ("off", "int8") if o.models == "all" else ():
            for seed in seeds:
                train(o, data, made("large", seed), made("on-" + qat, seed), seed, o.more, 1e-3, qat)
            name = "trained on with --qat int8" if qat == "int8" else "trained on without --qat"
            add_rows(o, page, name, data, [made("on-" + qat, seed) for seed in seeds], folder)
    page.write()


if __name__ == "__main__":
    main()
