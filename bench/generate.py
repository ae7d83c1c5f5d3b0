#!/usr/bin/python3
"""Does generating one sequence run at the speed of memory, each width as it is stored?

    bench/generate.py [--build build] [--rounds 5] [--tokens 60] [--out bench/results/generate.md]

gpt2 (124M, fresh weights), one sequence through `snug generate`: of f32, of 16 bits (trained with --precision bf16) and
of 8 bits (snug quantize, which leaves the head in f32). Each token reads every weight but the positions once; that is
compared with reading memory, measured in turns with it. Both are the best of the rounds: others on the
machine disturb both."""

import json
import os
import subprocess
import tempfile

from measure import Page, Worker, options, text_file

POSITIONS = 1024 * 768  # numbers of a weight of which a token reads one row


def generate(o, model, threads):
    out = subprocess.run([f"{o.build}/snug", "generate", model, "--prompt", "The", "--tokens", str(o.tokens),
                          "--temperature", "0", "--threads", str(threads), "--json", "--quiet"], capture_output=True)
    return json.loads(out.stdout.decode(errors="replace"))["tokens_per_second"]


def make_models(o, folder):
    """Width -> folder and bytes that a token reads."""
    train = [f"{o.build}/snug", "train", "gpt2", "--data", text_file(folder), "--batch", "1", "--context", "32",
             "--steps", "1", "--eval-samples", "1", "--quiet"]
    subprocess.run([*train, "--out", f"{folder}/f32"], check=True)
    subprocess.run([*train, "--precision", "bf16", "--out", f"{folder}/bf16"], check=True)
    subprocess.run([f"{o.build}/snug", "quantize", f"{folder}/f32", "--to", "int8", "--out", f"{folder}/int8",
                    "--quiet"], check=True)
    models = {}
    for name in ("f32", "bf16", "int8"):
        size = os.path.getsize(f"{folder}/{name}/model.safetensors")
        models[name] = (f"{folder}/{name}", size - POSITIONS * (2 if name == "bf16" else 4))
    return models


def main():
    o = options(__doc__, "generate", rounds=5, tokens=60)
    page = Page("Generation", o.out, f"The best of {o.rounds} rounds of {o.tokens} tokens.")
    memory = Worker("stream", [f"{o.build}/bench-stream", str(o.threads)])
    page.head("weights", "threads", "tokens a second", "GB/s of weights", "memory read, GB/s", "share")
    with tempfile.TemporaryDirectory() as folder:
        models = make_models(o, folder)
        for threads in sorted({1, o.threads}):
            speeds, read = {name: 0 for name in models}, 0
            for _ in range(o.rounds):
                for name, (model, _) in models.items():
                    seconds, size = memory.ask(f"read {threads}")
                    read = max(read, size / seconds)
                    speeds[name] = max(speeds[name], generate(o, model, threads))
            for name, (_, size) in models.items():
                rate = speeds[name] * size
                page.row(name, threads, f"{speeds[name]:.1f}", f"{rate * 1e-9:.1f}", f"{read * 1e-9:.1f}",
                         f"{rate / read:.2f}")
    page.write()
    memory.close()


if __name__ == "__main__":
    main()
