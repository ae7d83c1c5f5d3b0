#!/usr/bin/python3
"""How long does a plan take, and what does the process hold meanwhile?

    bench/search.py [--build build] [--rounds 5] [--out bench/results/search.md]

Whole commands from outside, in turns, with the built-in rates; the most of memory of any round."""

import os
import subprocess
import sys
import tempfile
import time

from measure import MIB, Page, median, options

ROWS = {  # what is planned: the seconds and MiB that it may take
    "gpt2": (0.2, 48),
    "gpt2-xl": (0.6, 48),
    "char-small --allow all --offload-to DIR": (1.0, 48),
    "gpt2 --allow all --offload-to DIR": (None, None),
    "gpt2-xl --allow all": (None, None),
    "gpt2 --batch 4 --context 256 --memory 1GiB": (None, None),
}


def once(program, words):
    """Seconds by the clock, of the processors, resident bytes."""
    began = time.monotonic()
    pid = subprocess.Popen([program, "plan", *words, "--quiet"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, env={**os.environ, "SNUG_RATES": "built-in"})
    _, _, usage = os.wait4(pid.pid, 0)
    pid.returncode = 0
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main():
    o = options(__doc__, "search", rounds=5)
    page = Page("Search", o.out, f"Medians of {o.rounds} rounds, in turns; memory is the most of any round.")
    seen = {what: [] for what in ROWS}
    with tempfile.TemporaryDirectory(dir=o.build) as folder:
        for _ in range(o.rounds):
            for what in ROWS:
                words = [folder if word == "DIR" else word for word in what.split()]
                seen[what].append(once(os.path.join(o.build, "snug"), words))
    page.head("plan", "seconds", "of the processors", "resident, MiB", "to reach")
    for what, rows in seen.items():
        seconds, most = ROWS[what]
        page.row(what, f"{median(x[0] for x in rows):.2f}", f"{median(x[1] for x in rows):.2f}",
                 f"{max(x[2] for x in rows) / MIB:.1f}", f"{seconds} s, {most} MiB" if seconds else "")
    page.write()


if __name__ == "__main__":
    main()
