#!/usr/bin/env python3
"""Compares ids, their places and decoded text with the tokenizers library: all kinds, texts that are hard.

    tools/tokenizer_compare.py build/bench-tokenizer                     the kinds of tokenizer_kinds.py
    tools/tokenizer_compare.py build/bench-tokenizer --file tokenizer.json ...
        --corpus FILE...   train and compare on these texts as well
        --size N           tokens of a trained vocabulary
        --texts N          random texts for each tokenizer
        --points           every character alone and between letters, digits and blanks
        --seed N           --kind NAME...

Exit 1: something differs, which is printed. Needs pip install tokenizers==0.23.3.
"""
import argparse
import base64
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tokenizer_kinds as kinds
from tokenizers import Tokenizer, normalizers

NONE = 0xFFFFFFFF


class Ours:
    """The program in one of its modes."""

    def __init__(self, program, file, mode):
        self.run = subprocess.Popen([program, file, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)

    def ask(self, count, data, size):
        self.run.stdin.write(struct.pack("<I", count) + data)
        self.run.stdin.flush()
        head = self.run.stdout.read(4)
        if len(head) < 4:
            raise SystemExit("the program ended: " + self.run.stderr.read().decode())
        n = struct.unpack("<I", head)[0]
        return None if n == NONE else self.run.stdout.read(n * size)

    def ids(self, text):
        data = text.encode()
        found = self.ask(len(data), data, 4)
        return None if found is None else list(struct.unpack("<%dI" % (len(found) // 4), found))

    def text(self, ids):
        found = self.ask(len(ids), struct.pack("<%dI" % len(ids), *ids), 1)
        return None if found is None else found.decode("utf-8", "replace")


def hard_texts(draw, corpus, added, count):
    """Random texts out of what breaks tokenizers."""
    blanks = [" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", "\u180e", "\u200b", "\x0b", "\x85", "\x1c"]
    marks = ["\u0301", "\u0300", "\u0323", "\u0302", "\u0345", "\u0334", "\u20dd", "\ufe0f", "\u200d", "\u093c"]
    marks.append("\u0e33")
    ends = ["'s", "'T", "'ll", "'ſ", "'RE", "’s", "''", "n't", " do not", " .", " ?"]
    odd = ["🏽", "👨‍👩‍👧", "🇩🇪", "\U000e0001", "౿", "𞤀", "𐐀", "𑄶", "\0", "\x7f", "\ufffd", "\U0010ffff", "ſ", "K"]
    odd += ["İ", "ß", "ﬁ", "Σς", "Ǆ", "한", "ᄒ", "ᅡ", "ᆫ", "か\u3099", "▁", "Ġ", "Ċ", "<0x41>", "<0xE2>", "##", "</w>"]
    odd += ["<unk>", "▁▁", "\U00011935\U00011930", "\u1abf\u0301", "aྲཱྀ", "\u0f71\u0f74"]
    for _ in range(count):
        parts = []
        for _ in range(draw.randint(1, 12)):
            which = draw.random()
            if which < 0.3 and corpus:
                at = draw.randrange(len(corpus))
                parts.append(corpus[at : at + draw.randint(1, 30)])
            elif which < 0.4:
                parts.append(draw.choice(blanks) * draw.choice((1, 1, 2, 5)))
            elif which < 0.5:
                parts.append("".join(draw.choice(marks) for _ in range(draw.choice((1, 2, 4, 20)))))
            elif which < 0.6:
                parts.append(draw.choice(odd))
            elif which < 0.68:
                parts.append(draw.choice(ends))
            elif which < 0.78 and added:
                parts.append(draw.choice(added))
            elif which < 0.84:
                parts.append("".join(draw.choice("0123456789٣½Ⅳ") for _ in range(draw.randint(1, 9))))
            elif which < 0.9:
                parts.append(draw.choice("ab \n.é中") * draw.choice((3, 40, 70, 200)))
            else:
                parts.append("".join(character(draw) for _ in range(draw.randint(1, 6))))
        yield "".join(parts)


def character(draw):
    while True:
        c = draw.choice((draw.randrange(0x80), draw.randrange(0x800), draw.randrange(0x10000), draw.randrange(0x20000),
                         draw.randrange(0x110000)))
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def point_texts():
    for c in range(0x110000):
        if not 0xD800 <= c < 0xE000:
            s = chr(c)
            yield s
            yield "a" + s + "b 1" + s + "2 " + s + " '" + s + "A" + s


def untrimmed(library):
    """The same tokenizer, whose post-processors do not cut blanks off the offsets."""
    file = json.loads(library.to_str())
    processor = file.get("post_processor") or {}
    for part in [processor] + processor.get("processors", []):
        if "trim_offsets" in part:
            part["trim_offsets"] = False
    return Tokenizer.from_str(json.dumps(file))


def byte_offsets(text, offsets):
    """The library counts characters."""
    place = [0]
    for c in text:
        place.append(place[-1] + len(c.encode()))
    return [(place[a], place[b]) for a, b in offsets]


def loses_characters(library, text):
    """Does a map of characters take some away? Then the library's offsets behind them are off."""
    normalizer = json.loads(library.to_str()).get("normalizer") or {}
    for part in [normalizer] + normalizer.get("normalizers", []):
        if part.get("type") == "Precompiled":
            one = normalizers.Precompiled(base64.b64decode(part["precompiled_charsmap"]))
            return any(one.normalize_str(c) == "" for c in set(text))
    return False


def flat_spans(library, text):
    if loses_characters(library, text):
        return []
    return [place for span in byte_offsets(text, untrimmed(library).encode(text).offsets) for place in span]


class Comparison:
    def __init__(self, name, library, file, program):
        self.name, self.library, self.file = name, library, file
        self.ids, self.special = Ours(program, file, "ids"), Ours(program, file, "special")
        self.windows, self.spans = Ours(program, file, "windows"), Ours(program, file, "spans")
        self.untrimmed, self.loses = untrimmed(library), "precompiled_charsmap" in library.to_str()
        self.texts = {mode: Ours(program, file, mode) for mode in ("text", "all", "stream")}
        self.asked = self.wrong = 0

    def differ(self, what, given, theirs, ours):
        self.wrong += 1
        if self.wrong <= 5:
            print(f"{self.name}: {what} of {given!r}\n  library {theirs!r}\n  ours    {ours!r}")

    def check(self, text, decode=True):
        self.asked += 1
        try:
            theirs = self.library.encode(text, add_special_tokens=False).ids
        except BaseException as error:  # the library's own panics are BaseExceptions
            theirs = None
        ours = self.ids.ids(text)
        if ours != theirs:
            return self.differ("ids", text, theirs, ours)
        if not decode or theirs is None:
            return None
        if self.library.truncation is None and self.library.padding is None:  # which windows know nothing of
            ours = self.windows.ids(text)
            if ours != theirs:
                return self.differ("ids by windows", text, theirs, ours)
        theirs = self.library.encode(text).ids
        ours = self.special.ids(text)
        if ours != theirs:
            return self.differ("ids with special ones", text, theirs, ours)
        ours = self.spans.ids(text)
        if ours[::3] != theirs:
            return self.differ("ids with spans", text, theirs, ours[::3])
        if not self.loses or not loses_characters(self.library, text):
            offsets = byte_offsets(text, self.untrimmed.encode(text).offsets)
            ours = list(zip(ours[1::3], ours[2::3]))
            if ours != offsets:
                return self.differ("spans", text, offsets, ours)
        for mode, skip in (("text", True), ("all", False)):
            a, b = self.library.decode(theirs, skip_special_tokens=skip), self.texts[mode].text(theirs)
            if a != b:
                return self.differ("decoded " + mode, theirs, a, b)
        a, b = self.library.decode(theirs, skip_special_tokens=False), self.texts["stream"].text(theirs)
        if a != b:
            return self.differ("stream", theirs, a, b)
        return None

    def check_ids(self, ids):
        """Decoding of ids that no text has."""
        self.asked += 1
        try:
            a = self.library.decode(ids, skip_special_tokens=False)
        except BaseException:
            return None
        b = self.texts["all"].text(ids)
        return None if a == b else self.differ("decoded ids", ids, a, b)


def compare(c, options, corpus):
    draw = random.Random(options.seed)
    added = [t.content for t in c.library.get_added_tokens_decoder().values()]
    for line in corpus.split("\n") if options.corpus else []:
        c.check(line)
    for text in hard_texts(draw, corpus, added, options.texts):
        c.check(text)
    size = c.library.get_vocab_size()
    for _ in range(options.texts // 10):
        c.check_ids([draw.randrange(size + 2) for _ in range(draw.randint(1, 20))])
    if options.points:
        for text in point_texts():
            c.check(text, decode=False)
    print(f"{c.name}: {c.asked} asked, {c.wrong} differ", flush=True)
    return c.wrong


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("--file", nargs="*", default=[])
    p.add_argument("--corpus", nargs="*", default=[])
    p.add_argument("--kind", nargs="*", default=[])
    p.add_argument("--size", type=int, default=600)
    p.add_argument("--texts", type=int, default=2000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--points", action="store_true")
    options = p.parse_args()
    texts = [open(f, encoding="utf-8").read() for f in options.corpus] or kinds.SENTENCES
    corpus = "\n".join(texts)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in options.kind or ([] if options.file else kinds.KINDS):
            library = kinds.KINDS[name](texts, options.size)
            file = os.path.join(folder, name + ".json")
            library.save(file, pretty=False)
            wrong += compare(Comparison(name, library, file, options.program), options, corpus)
        for file in options.file:
            wrong += compare(Comparison(file, Tokenizer.from_file(file), file, options.program), options, corpus)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
