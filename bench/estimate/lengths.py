#!/usr/bin/env python3
"""What samples of unequal lengths reserve beside samples of one length, as `snug estimate` plays both:
lengths.py [--snug PATH]

Of ten models in the settings below: (reserved with --shortest - what stays) / (reserved of one length - what stays),
where weights, gradients and the optimizer's state stay. Settings in which less than a tenth is anything else are left
out: where nearly all stays, the quotient says nothing. From its ninth decile comes `unequal_high` of
src/estimate/torch/torch_beyond.c."""

import argparse
import json
import shutil
import statistics
import subprocess

MODELS = (("gpt2", 1024), ("tinyllama-1.1b", 2048), ("llama-3-8b", 2048), ("llama-3-8b", 8192), ("mistral-7b", 4096),
          ("bert-base", 512), ("qwen2.5-1.5b", 4096), ("qwen3-8b", 2048), ("t5-base", 512), ("phi-2", 2048))
FULL = ("", "--dtype half", "--dtype autocast --gradient-checkpointing")
ADAPTERS = ("--adapter-rank 16 --gradient-checkpointing --dtype autocast", "--adapter-rank 16 --base-bits 4")
STAYS = ("weights", "gradients", "optimizer")


def estimate(snug, words):
    line = [snug, "estimate", *words.split(), "--json", "--quiet"]
    return json.loads(subprocess.run(line, capture_output=True, text=True, check=False).stdout)


def quotients(snug):
    for name in ("hf", "pytorch"):
        for model, context in MODELS:
            for more in FULL + (ADAPTERS if name == "hf" else ()):
                words = f"{model} --framework {name} --gpu b200 --batch 2 --context {context} {more}"
                said = estimate(snug, words)
                stays, equal = sum(said["by_term"][key] for key in STAYS), said["reserved_bytes"]["likely"]
                if equal - stays < equal / 10:
                    continue
                for shortest in (32, context // 4):
                    unequal = estimate(snug, f"{words} --shortest {shortest}")["reserved_bytes"]["likely"]
                    yield (unequal - stays) / (equal - stays), f"{words} --shortest {shortest}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snug", default=shutil.which("snug") or "snug")
    args = parser.parse_args()
    all_of = sorted(quotients(args.snug))
    values = [value for value, _ in all_of]
    print(f"{len(values)} played: least {values[0]:.2f}, median {statistics.median(values):.2f}, ninth decile "
          f"{values[int(len(values) * 0.9)]:.2f}, most {values[-1]:.2f} ({all_of[-1][1]})")


if __name__ == "__main__":
    main()
