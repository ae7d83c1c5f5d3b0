"""Draws records and writes them as JSON lines, arrays, CSV, texts and packed ones, with Python's own modules, beside
what tests/data/transcript.h is to say of each: FILE and FILE.expected.

    documents.py SEED COUNT FOLDER
"""
import csv
import gzip
import json
import os
import random
import sys

PIECES = ["a", "bc ", '"', "\\", "\n", ",", "\r\n", "\t", "\x7f", "\x01", "é", "€", "\U0001f600", "/", "[{", "}]",
          "\u2028", "\ufeff", "e\u0301", "0123456789" * 9]
BAD = [b"\xff", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xc0\xaf", b"\x80", b"\xf4\x90\x80\x80"]


def quoted(text):
    out = []
    for c in text:
        out.append("\\" + c if c in '"\\' else "\\u%04x" % ord(c) if ord(c) < 0x20 or c == "\x7f" else c)
    return '"' + "".join(out) + '"'


def draw_text(draw, pieces=PIECES):
    return "".join(draw.choice(pieces) for _ in range(draw.choice([0, 1, 3, 10, 60])))


def draw_other(draw, depth=0):
    kind = draw.randrange(7 if depth < 4 else 5)
    if kind < 5:
        return [None, True, draw.randrange(-9, 10**12), draw.random() * 1e-30, draw_text(draw)][kind]
    some = [draw_other(draw, depth + 1) for _ in range(draw.randrange(4))]
    return some if kind == 5 else {draw_text(draw)[:40]: v for v in some}


def draw_json(draw, path, rows):
    ascii_only = draw.random() < 0.5
    objects = []
    for text in rows:
        members = [("text", text)] + [("x" + draw_text(draw)[:40], draw_other(draw)) for _ in range(draw.randrange(3))]
        draw.shuffle(members)
        objects.append(dict(members))
    if path.endswith(".json"):
        return json.dumps(objects, ensure_ascii=ascii_only, indent=draw.choice([None, 1]))
    lines = [json.dumps(o, ensure_ascii=ascii_only, separators=draw.choice([None, (",", ":")])) for o in objects]
    return draw.choice(["\n", "\r\n", "\n\n"]).join(lines)


def draw_csv(draw, rows):
    class lines:
        def __init__(self):
            self.parts = []

        def write(self, part):
            self.parts.append(part)

    out = lines()
    ends = draw.choice(["\n", "\r\n"])
    writer = csv.writer(out, lineterminator=ends, quoting=draw.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
    writer.writerow(["n", "text", "more"])
    for i, text in enumerate(rows):
        writer.writerow([i, text, draw_text(draw)])
    return "".join(out.parts)


def draw_bytes(draw, expected):
    """A text with bytes that are no UTF-8, each run of them as Python replaces it."""
    raw = b"".join(draw.choice(BAD) if draw.random() < 0.2 else draw_text(draw).encode() for _ in range(20))
    expected.append("#0 0:%s\n" % quoted(raw.decode(errors="replace")))
    return raw


def main(seed, count, folder):
    draw = random.Random(seed)
    for i in range(count):
        ending = draw.choice(["jsonl", "json", "csv", "txt"])
        path = os.path.join(folder, "%d.%s" % (i, ending))
        # QUOTE_MINIMAL leaves a lone \x7f and the like as they are, which is what they are here as well.
        rows = [draw_text(draw) for _ in range(draw.choice([0, 1, 5, 40]))]
        expected = ["#%d 0:%s\n" % (k, quoted(text)) for k, text in enumerate(rows)]
        if ending == "txt":
            expected = []
            raw = draw_bytes(draw, expected)
        else:
            raw = (draw_csv(draw, rows) if ending == "csv" else draw_json(draw, path, rows)).encode()
        if draw.random() < 0.4:
            path += ".gz"
            cut = draw.randrange(len(raw) + 1)
            raw = gzip.compress(raw[:cut]) + gzip.compress(raw[cut:])
        with open(path, "wb") as out:
            out.write(raw)
        with open(path + ".expected", "w", newline="") as out:
            out.write("".join(expected))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
