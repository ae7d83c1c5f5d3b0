#!/usr/bin/env python3
"""Compares ids and decoded text with the tokenizers library at breadth: vocabularies, scripts, every character.

    tools/tokenizer_breadth.py build/bench-tokenizer text --vocabulary FILE... --text FILE... --each KB
    tools/tokenizer_breadth.py build/bench-tokenizer hard --vocabulary FILE... --text FILE... --texts N --seed N
    tools/tokenizer_breadth.py build/bench-tokenizer points --vocabulary tests/text/golden/*.json

text    of each file its part, so that all vocabularies together see all of it, but --each KB at least; as documents
        of 1 byte to 64 KiB: ids, and the text of these ids
hard    random texts out of what breaks tokenizers and of each vocabulary's own tokens: ids without and with special
        ones, ids by windows, text without and with special ones; and a quarter as many lists of random ids: text
points  every character alone and between letters, digits and blanks: ids

Truncation and padding of a file are taken out first (but for points), as they would hide what stands behind.
Prints a line for each vocabulary, and the shortest found of the first texts that differ. Exit 1: something differs.
Needs pip install tokenizers==0.23.3.
"""
import argparse
import array
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tokenizer_compare as single
from tokenizers import Tokenizer

BATCH = 4 << 20  # bytes of text handed over at once


def blocks(data):
    """What the program wrote: None where it refused, else bytes; four bytes an item, or one."""
    width, found = data
    out, at = [], 0
    while at < len(found):
        n = struct.unpack_from("<I", found, at)[0]
        at += 4
        if n == single.NONE:
            out.append(None)
            continue
        out.append(found[at : at + n * width])
        at += n * width
    return out


def ours(program, file, mode, items):
    """Items are bytes (texts), or arrays of ids for the modes that make text."""
    width = 4 if mode in ("ids", "special", "windows") else 1
    given = b"".join(struct.pack("<I", len(i)) + bytes(i) for i in items)
    run = subprocess.run([program, file, mode], input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out = blocks((width, run.stdout))
    if len(out) != len(items):
        raise SystemExit(f"{file}: the program ended: {run.stderr.decode()[-500:]}")
    return out


def library_ids(library, texts, special):
    """None where the library panics."""
    try:
        found = library.encode_batch_fast(texts, add_special_tokens=special)
        return [array.array("I", e.ids) for e in found]
    except BaseException:  # its panics are BaseExceptions
        if len(texts) == 1:
            return [None]
        half = len(texts) // 2
        return library_ids(library, texts[:half], special) + library_ids(library, texts[half:], special)


class Vocabulary:
    def __init__(self, path, program, folder, whole):
        self.name, self.program, self.file = os.path.splitext(os.path.basename(path))[0], program, path
        with open(path, encoding="utf-8") as f:
            self.json = json.load(f)
        if whole and (self.json.get("truncation") or self.json.get("padding")):
            self.json["truncation"] = self.json["padding"] = None
            self.file = os.path.join(folder, "whole.json")
            with open(self.file, "w", encoding="utf-8") as f:
                json.dump(self.json, f, ensure_ascii=False)
        self.library = Tokenizer.from_file(self.file)
        self.texts = self.bytes = self.tokens = self.wrong = self.refused = self.panics = 0
        self.seconds = 0.0

    def kind(self):
        parts = (self.json.get(name) or {"type": "-"} for name in ("model", "normalizer", "pre_tokenizer"))
        return " ".join(p.get("type", "(unsaid)") for p in parts)

    def differs(self, what, text, special):
        self.wrong += 1
        if self.wrong > 5:
            return
        print(f"{self.name}: {what}", flush=True)
        if text is None:
            return
        text = self.shorter(text, special)
        mine = ours(self.program, self.file, "special" if special else "ids", [text.encode()])[0]
        theirs = library_ids(self.library, [text], special)[0]
        print(f"  of {text!r}\n  library {theirs and theirs.tolist()}\n  ours    "
              f"{mine if mine is None else array.array('I', mine).tolist()}", flush=True)

    def shorter(self, text, special):
        """Pieces are taken out as long as the ids differ."""
        asked, mode = 0, "special" if special else "ids"
        size = len(text) // 2
        while size > 0 and asked < 120:
            at = 0
            while at < len(text) and asked < 120:
                less = text[:at] + text[at + size :]
                asked += 1
                theirs = library_ids(self.library, [less], special)[0]
                if less and ours(self.program, self.file, mode, [less.encode()])[0] != (theirs and theirs.tobytes()):
                    text = less
                else:
                    at += size
            size //= 2
        return text

    def check(self, texts, hard):
        data = [t.encode() for t in texts]
        self.texts += len(texts)
        self.bytes += sum(map(len, data))
        for special in (False, True) if hard else (False,):
            begin = time.process_time()
            theirs = library_ids(self.library, texts, special)
            self.seconds += time.process_time() - begin
            self.compare_ids(texts, data, theirs, special)
        if hard == "points":
            return
        if hard:
            self.compare_windows(data, library_ids(self.library, texts, False))
        for skip in (True, False) if hard else (True,):
            self.compare_text([t for t in theirs if t is not None], skip)

    def compare_ids(self, texts, data, theirs, special):
        mine = ours(self.program, self.file, "special" if special else "ids", data)
        for text, a, b in zip(texts, theirs, mine):
            self.tokens += 0 if a is None else len(a)
            self.panics += a is None
            if b is None and a is not None:
                self.refused += 1
            elif (a.tobytes() if a is not None else None) != b and not (a is None and b is not None):
                self.differs("ids with special ones" if special else "ids", text, special)

    def compare_windows(self, data, theirs):
        for text, a, b in zip(data, theirs, ours(self.program, self.file, "windows", data)):
            if a is not None and b is not None and a.tobytes() != b:
                self.differs(f"ids by windows of {text.decode()!r}", None, False)

    def compare_text(self, ids, skip):
        theirs = self.library.decode_batch([i.tolist() for i in ids], skip_special_tokens=skip)
        mine = ours(self.program, self.file, "text" if skip else "all", [Ids(i) for i in ids])
        for i, a, b in zip(ids, theirs, mine):
            if b is None or a.encode() != b:
                self.differs(f"text of {i.tolist()[:40]}: library {a[:200]!r}, ours {b and b[:200]!r}", None, False)

    def say(self):
        print(f"| {self.name} | {self.kind()} | {self.library.get_vocab_size():,} | {self.texts:,} | "
              f"{self.bytes / 1e6:.2f} | {self.tokens:,} | {self.wrong} | {self.refused} | {self.panics} | "
              f"{self.seconds:.1f} |", flush=True)


class Ids:
    """Ids as the program takes them: counted by items, not by bytes."""

    def __init__(self, ids):
        self.ids = ids

    def __len__(self):
        return len(self.ids)

    def __bytes__(self):
        return self.ids.tobytes()


def documents(text, draw):
    """The text cut into documents of 1 byte to some 64 KiB, at ends of lines where it is longer than a line."""
    at = 0
    while at < len(text):
        end = at + int(2 ** draw.uniform(0, 15))
        if end - at > 200:
            line = text.find("\n", end)
            end = end if line < 0 or line > end + 4000 else line + 1
        yield text[at:end]
        at = end


def share(path, number, parts, kilobytes):
    """The number-th of the parts of a file, which begins again at its end."""
    size = os.path.getsize(path)
    want = max(kilobytes << 10, size // parts + 1)
    with open(path, "rb") as f:
        at = number * want % size if size > want else 0
        f.seek(at)
        data = f.read(want)
        if len(data) < want and at:
            f.seek(0)
            data += f.read(min(at, want - len(data)))
    return data.decode("utf-8", "ignore")


def batches(texts):
    batch, size = [], 0
    for t in texts:
        batch.append(t)
        size += len(t)
        if size > BATCH or len(batch) > 200_000:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def run_text(v, options, number):
    draw = random.Random(number)
    parts = (share(path, number, len(options.vocabulary), options.each) for path in options.text)
    for batch in batches(d for part in parts for d in documents(part, draw)):
        v.check(batch, None)


def run_points(v, _options, _number):
    for batch in batches(single.point_texts()):
        v.check(batch, "points")


BLANKS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and chr(c).isspace()]
BLANKS += list("\u180e\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u115f\u2800\u3164")
BIDI = list("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
EMOJI = ["👩‍❤️‍💋‍👨", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "1️⃣", "🇩🇪🇫", "👋🏿",
         "🫱🏻‍🫲🏾", "☺︎", "☺️", "🏳️‍🌈", "\u200d👩", "🏿"]
FORMS = ["\u1100\u1161\u11a8", "\uac00\u11a8", "\u0958", "\u0915\u093c", "\u212b", "A\u030a", "\u1e69"]
FORMS += ["s\u0323\u0307", "s\u0307\u0323", "\ufb2a", "\u05e9\u05c1", "\u0344", "\u2126", "\u0f73", "\u0b48"]
FORMS += ["\u0b47\u0b56", "\u1025\u102e", "\u3099", "\uff76\uff9e", "\U0001d15e", "\u2adc", "\ufdfa", "\u01c4"]
FORMS += ["ﬃ", "\u0130", "\u03a3\u03c2", "\u1e9e", "\U0001e94b"]
BROKEN = ["\ufffd", "\x00", "\x7f", "\x80", "\uffff", "\ufffe", "\U0001ffff", "\ue000", "\U000f0000"]


def piece(draw, tokens, added, corpus):
    """One piece of a hard text."""
    which = draw.randrange(14)
    if which == 0:
        return "".join(draw.choice(BLANKS) for _ in range(draw.choice((1, 2, 9))))
    if which == 1:
        return draw.choice(BIDI) + draw.choice((" ", "אב", "abc", "٣"))
    if which == 2:
        return draw.choice(EMOJI) * draw.choice((1, 1, 3))
    if which == 3:
        return "".join(draw.choice(FORMS) for _ in range(draw.choice((1, 2, 5))))
    if which == 4:
        return draw.choice(BROKEN)
    if which in (5, 6):
        return draw.choice(tokens)
    if which == 7:
        t = draw.choice(tokens)
        return t[: draw.randint(0, len(t))] + draw.choice(("", " ", "\u0301"))
    if which == 8 and added:
        t = draw.choice(added)
        return draw.choice((t, t, t[:-1], t + t, " " + t + " ", t.upper(), "a" + t + "1"))
    if which == 9:
        return draw.choice((draw.choice(tokens), draw.choice("a1 \n.é中\u0301🏽"))) * draw.choice((2, 33, 257, 1500))
    if which == 10:
        first = draw.randrange(0x3000) * 16
        return "".join(chr(c) for c in (first + draw.randrange(64) for _ in range(6)) if not 0xD800 <= c < 0xE000)
    if which == 11:
        return "".join(chr(draw.randrange(0x300, 0x370)) for _ in range(draw.choice((1, 3, 30))))
    if which == 12:
        return draw.choice(("'s", "'LL", "’t", "n't", "1,234.5", "IX", "ſs", "http://a.b/c?d=e#f", "a_b-C", "\r\n\r\n\t"
                            ))
    at = draw.randrange(max(1, len(corpus)))
    return corpus[at : at + draw.randint(1, 40)]


def run_hard(v, options, number):
    draw = random.Random(options.seed * 1000 + number)
    added = [t.content for t in v.library.get_added_tokens_decoder().values()]
    size = v.library.get_vocab_size()
    tokens = [v.library.decode([i], skip_special_tokens=False) for i in (draw.randrange(size) for _ in range(2000))]
    tokens = [t for t in tokens if t] or ["a"]
    corpus = "".join(share(path, number, 1 << 40, 20) for path in options.text) or "a"
    half = options.texts // 2
    texts = ["".join(piece(draw, tokens, added, corpus) for _ in range(draw.randint(1, 8))) for _ in range(half)]
    texts += single.hard_texts(draw, corpus, added, options.texts - half)
    for batch in batches(texts):
        v.check(batch, "hard")
    lists = (draw.randint(1, 20) for _ in range(options.texts // 4))
    v.compare_text([array.array("I", (draw.randrange(size + 2) for _ in range(n))) for n in lists], False)


RUNS = {"text": run_text, "hard": run_hard, "points": run_points}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("what", choices=RUNS)
    p.add_argument("--vocabulary", nargs="+", required=True)
    p.add_argument("--text", nargs="*", default=[])
    p.add_argument("--each", type=int, default=100)
    p.add_argument("--texts", type=int, default=2000)
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args()
    wrong = 0
    print("| vocabulary | model, normalizer, pre-tokenizer | tokens | texts | MB | tokens made | differ | refused | "
          "panics | library's s |\n|---|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, path in enumerate(options.vocabulary):
            v = Vocabulary(path, options.program, folder, options.what != "points")
            RUNS[options.what](v, options, number)
            v.say()
            wrong += v.wrong + v.refused
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
