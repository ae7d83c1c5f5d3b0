#!/usr/bin/python3
"""How fast are texts made into ids, beside the tokenizers library? One thread, seconds of the processor.

    bench/tokenizer.py --vocabularies FOLDER --texts FOLDER [--rounds 5] [--kilobytes 500] [--build build]

Every FOLDER/*.json with every FOLDER/*.txt, a line of which is a text. In each round ours and the library take turns;
both have seen the lines once before, so that both remember words. Shown are the medians of the rounds, and the median
of the rounds' ratios with the least and the largest. Truncation is taken out of files that have it. Needs pip install
tokenizers==0.23.3."""

import json
import os
import pathlib
import subprocess
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers
from measure import Page, median, options

BYTES, OTHERS = 6, 2  # times the library's speed that are meant


def without_limits(path, folder):
    """The file without truncation and padding, and whether it is a BPE of bytes."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content["truncation"] = content["padding"] = None
    to = pathlib.Path(folder) / path.name
    to.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    pre = content["pre_tokenizer"] or {"type": "-"}
    return str(to), "ByteLevel" in {p["type"] for p in [pre, *pre.get("pretokenizers", [])]}


def cut(path, kilobytes, folder):
    """The text's beginning up to a line's end."""
    data = path.read_bytes()[: kilobytes * 1000]
    data = data[: data.rfind(b"\n") + 1]
    to = pathlib.Path(folder) / path.name
    to.write_bytes(data)
    return path.stem, str(to), [line + "\n" for line in data.decode().split("\n")[:-1]], len(data)


def by_ours(program, file, text):
    said = subprocess.run([program, file, "time", text, "2"], check=True, capture_output=True, text=True).stdout
    return float(said.split("; ")[1].split(" s,")[0])  # the better of two: the second remembers words


def by_library(t, lines):
    begin = time.process_time()
    t.encode_batch_fast(lines, add_special_tokens=False)
    return time.process_time() - begin


def main():
    o = options(__doc__, "tokenizer", rounds=5, kilobytes=500, vocabularies="", texts="")
    page = Page("Tokenizers beside the library", o.out,
                f"tokenizers {tokenizers.__version__}; one thread, MB of text a second of the processor's time, "
                f"medians of {o.rounds} rounds.")
    page.head("vocabulary", "text", "MB", "snug", "library", "ratio", "of the rounds", "meant")
    with tempfile.TemporaryDirectory() as folder:
        texts = [cut(p, o.kilobytes, folder) for p in sorted(pathlib.Path(o.texts).glob("*.txt"))]
        for path in sorted(pathlib.Path(o.vocabularies).glob("*.json")):
            file, of_bytes = without_limits(path, folder)
            t = tokenizers.Tokenizer.from_file(file)
            for name, text, lines, size in texts:
                by_library(t, lines)
                rounds = [(by_ours(f"{o.build}/bench-tokenizer", file, text), by_library(t, lines))
                          for _ in range(o.rounds)]
                ratios = [theirs / ours for ours, theirs in rounds]
                page.row(path.stem, name, f"{size / 1e6:.2f}", f"{size / 1e6 / median(r[0] for r in rounds):.1f}",
                         f"{size / 1e6 / median(r[1] for r in rounds):.2f}", f"{median(ratios):.1f}",
                         f"{min(ratios):.1f} to {max(ratios):.1f}", BYTES if of_bytes else OTHERS)
    page.write()


if __name__ == "__main__":
    main()
