#!/usr/bin/python3
"""Does generating one sequence run at the speed of memory?

    bench/generate.py [--build build] [--rounds 5] [--tokens 60] [--out bench/results/generate.md]

gpt2 (124M, f32, fresh weights), one sequence through `snug generate`. Each token reads every weight but the positions
once; that is compared with reading memory, measured in turns with it."""

import json
import subprocess
import tempfile

from measure import Page, Worker, median, options, text_file

WEIGHTS = 124439808 - 1024 * 768  # read for each token


def generate(o, model, threads):
    out = subprocess.run([f"{o.build}/snug", "generate", model, "--prompt", "The", "--tokens", str(o.tokens),
                          "--temperature", "0", "--threads", str(threads), "--json", "--quiet"], capture_output=True)
    return json.loads(out.stdout.decode(errors="replace"))["tokens_per_second"]


def main():
    o = options(__doc__, "generate", rounds=5, tokens=60)
    page = Page("Generation", o.out, f"f32; medians of {o.rounds} rounds of {o.tokens} tokens after one.")
    memory = Worker("stream", [f"{o.build}/bench-stream", str(o.threads)])
    page.head("threads", "tokens a second", "GB/s of weights", "memory read, GB/s", "share")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([f"{o.build}/snug", "train", "gpt2", "--data", text_file(folder), "--batch", "1", "--context",
                        "32", "--steps", "1", "--eval-samples", "1", "--out", f"{folder}/model", "--quiet"],
                       check=True)
        for threads in sorted({1, o.threads}):
            speeds, reads = [], []
            for number in range(o.rounds + 1):
                seconds, size = memory.ask(f"read {threads}")
                speed = generate(o, f"{folder}/model", threads)
                if number:
                    speeds.append(speed)
                    reads.append(size / seconds)
            rate = median(speeds) * WEIGHTS * 4
            page.row(threads, f"{median(speeds):.1f}", f"{rate * 1e-9:.1f}", f"{median(reads) * 1e-9:.1f}",
                     f"{rate / median(reads):.2f}")
    page.write()
    memory.close()


if __name__ == "__main__":
    main()
