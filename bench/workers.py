#!/usr/bin/python3
"""Is data ever what a step waits for?

    bench/workers.py [--build build] [--steps 30] [--only DELAY:WORKERS,...] [--out bench/results/workers.md]

char-small, 16 samples a step, each of which takes some milliseconds to come, as from a network: with as many workers as
bring a batch within the time of a step, a run takes what its kernels take."""

import math
import subprocess
import sys
import tempfile

from measure import Page, options, text_file

BATCH = 16
CASES = "0:0,0:1,2:1,2:2,10:1,10:2,10:4,10:8"


def main():
    o = options(__doc__, "workers", steps=30, only=CASES)
    page = Page("A slow source", o.out, f"char-small, {BATCH} samples a step, {o.steps} steps; ms a step.")
    page.head("a sample takes, ms", "workers", "whole run", "of it kernels", "waiting for data", "all else",
              "whole / kernels", "workers that would do", "last loss")
    alone = None
    with tempfile.TemporaryDirectory() as folder:
        data = text_file(folder)
        for delay, workers in (case.split(":") for case in o.only.split(",")):
            command = [f"{o.build}/bench-workers", "char-small", data, str(BATCH), str(o.steps), workers, delay]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{' '.join(command)}: {done.stderr}")
            whole, kernels, waiting, rest, loss = (float(x) for x in done.stdout.split())
            alone = alone or kernels
            page.row(delay, workers, f"{whole * 1e3:.1f}", f"{kernels * 1e3:.1f}", f"{waiting * 1e3:.2f}",
                     f"{rest * 1e3:.2f}", f"{whole / kernels:.2f}",
                     math.ceil(float(delay) * 1e-3 * BATCH / alone) or 1, f"{loss:.6f}")
    page.write()


if __name__ == "__main__":
    main()
