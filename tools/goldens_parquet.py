#!/usr/bin/env python3
"""Parquet files as pyarrow writes them, and what they hold, for tests/data/test_parquet.c.

    tools/goldens_parquet.py tests/data/parquet             the committed ones, one of each form
    tools/goldens_parquet.py --random SEED COUNT FOLDER     others, drawn
    tools/goldens_parquet.py --images tests/data/parquet_images     pictures in cells, for test_pictures.c

Each NAME-….parquet holds what NAME.expected says (of the drawn ones each has its own), in the words of
tests/data/transcript.h. Needs pyarrow, and Pillow for pictures (26 and 13 wrote what is committed).
"""
import io
import itertools
import json
import os
import struct
import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq

MEMBERS = ("role", "content")
PIECES = ["a", "b c", '"', "\\", "\n", ",", "\r\n", "\x7f", "é", "€", "\U0001f600", "{}", "\0", "the same again "]


def quoted(text):
    out = []
    for c in text:
        if c in '"\\':
            out.append("\\" + c)
        elif ord(c) < 0x20 or ord(c) == 0x7F:
            out.append("\\u%04x" % ord(c))
        else:
            out.append(c)
    return '"' + "".join(out) + '"'


def expected(columns, rows):
    """`rows`: each a list of what its columns hold, a string or a list of dictionaries; None: nothing."""
    lines = []
    for number, row in enumerate(rows):
        line = "#%d" % number
        for c in range(len(columns)):
            if row[c] is None:
                continue
            if isinstance(row[c], str):
                line += " %d:%s" % (c, quoted(row[c]))
                continue
            for i, item in enumerate(row[c]):
                line += " %d[%d]" % (c, i)
                for name, value in item.items():
                    if value is not None:
                        line += " %d[%d.%s]:%s" % (c, i, name, quoted(value))
        lines.append(line + "\n")
    return "".join(lines)


def draw_text(draw, longest=30):
    if draw.random() < 0.1:
        return "one of a few"
    return "".join(draw.choice(PIECES) for _ in range(draw.randrange(longest)))


def draw_chat(draw):
    names = ["user", "assistant", "system"]
    return [{"role": draw.choice(names), "content": draw_text(draw) if draw.random() < 0.9 else None}
            for _ in range(draw.choice([0, 1, 2, 2, 3, 9]))]


def chat_type(draw):
    text = draw.choice([pa.string(), pa.large_string(), pa.binary()])
    item = pa.field("element", pa.struct([pa.field(m, text) for m in MEMBERS]), nullable=draw.random() < 0.5)
    return draw.choice([pa.list_, pa.large_list])(item)


def draw_tools(draw, n):
    """Chats with a second column that may be null."""
    fields = [("messages", chat_type(draw), draw.random() < 0.5), ("tools", pa.string(), True)]
    return fields, [[draw_chat(draw), draw.choice([None, "", draw_text(draw)])] for _ in range(n)]


def draw_turns(draw, n):
    """A prompt and its completion, of messages each."""
    fields = [(name, chat_type(draw), draw.random() < 0.5) for name in ("prompt", "completion")]
    return fields, [[draw_chat(draw), draw_chat(draw)] for _ in range(n)]


def as_bytes(value, kind):
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return value if value is None else value.encode()
    return value


def array(values, kind):
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = kind.value_type.field(0).type
        values = [[{k: as_bytes(v, inner) for k, v in item.items()} for item in chat] for chat in values]
    else:
        values = [as_bytes(v, kind) for v in values]
    return pa.array(values, kind)


# Of each kind of number some, the least and the largest of them.
NUMBERS = [(pa.int8(), [0, 1, -1, -128, 127]), (pa.uint8(), [0, 255, 7]), (pa.int16(), [-32768, 32767, 3]),
           (pa.uint16(), [0, 65535]), (pa.int32(), [-2**31, 2**31 - 1, 0, 5]), (pa.uint32(), [2**32 - 1, 0, 2**31]),
           (pa.int64(), [-2**63, 2**63 - 1, 0, 12]), (pa.uint64(), [2**64 - 1, 0, 2**63]), (pa.bool_(), [True, False]),
           (pa.float32(), [0.5, 3.8, 1e10, -2.0, 100000.0]), (pa.float64(), [0.1, 1 / 3, 1e300, 7.0])]


def letters(value, kind):
    """Of a fraction the fewest digits that are read as it again."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, float):
        return str(value)
    def stored(x):
        return struct.unpack("f", struct.pack("f", x))[0] if pa.types.is_float32(kind) else x
    return next(text for text in ("%.*g" % (digits, stored(value)) for digits in range(1, 18))
                if stored(float(text)) == stored(value))


def write_numbers(folder, name, draw, n, options):
    """A column of each kind of number; some are null."""
    columns = [[draw.choice(few + [None]) for _ in range(n)] for _, few in NUMBERS]
    table = pa.Table.from_arrays([pa.array(c, k) for c, (k, _) in zip(columns, NUMBERS)],
                                 names=["n%d" % i for i in range(len(NUMBERS))])
    pq.write_table(table, os.path.join(folder, name + ".parquet"), **options)
    rows = [[None if v is None else letters(v, k) for v, (k, _) in zip(row, NUMBERS)] for row in zip(*columns)]
    with open(os.path.join(folder, name.split("-")[0] + ".expected"), "w", newline="") as out:
        out.write(expected(NUMBERS, rows))


def options_of_numbers(version, encoding, codec, **more):
    o = {"version": "2.6", "data_page_version": version, "compression": codec, "write_statistics": False,
         "store_schema": False, "use_dictionary": encoding == "DICTIONARY"}
    if encoding != "DICTIONARY":
        own = {pa.bool_(): "RLE" if encoding == "DELTA_BINARY_PACKED" else "PLAIN", pa.float32(): "PLAIN",
               pa.float64(): "PLAIN"}
        o["column_encoding"] = {"n%d" % i: own.get(kind, encoding) for i, (kind, _) in enumerate(NUMBERS)}
    return o | more


def write_classes(folder, name, values, kind, names):
    """A column of labels as Hugging Face's datasets write it, which name its numbers in the footer."""
    said = {"info": {"features": {"text": {"dtype": "string", "_type": "Value"},
                                  "label": {"names": names, "_type": "ClassLabel"}}}, "fingerprint": "0"}
    schema = pa.schema([pa.field("label", kind), pa.field("text", pa.string())],
                       metadata={"other": "x" * 600, "huggingface": json.dumps(said)})
    texts = pa.array(["text %d" % i for i in range(len(values))])
    pq.write_table(pa.Table.from_arrays([pa.array(values, kind), texts], schema=schema),
                   os.path.join(folder, name + ".parquet"), compression="none", write_statistics=False)
    with open(os.path.join(folder, name.split("-")[0] + ".expected"), "w", newline="") as out:
        out.write(expected(["label"], [[names[v] if 0 <= v < len(names) else None] for v in values]))


def write(folder, name, fields, rows, options, also=()):
    """Other columns stand before and behind, which nobody asks for."""
    n = len(rows)
    columns = [("before", pa.array(range(n), pa.int32()), True)]
    columns += [(f[0], array([r[i] for r in rows], f[1]), f[2]) for i, f in enumerate(fields)]
    columns += [("behind", pa.array([{"text": "x", "l": [1.5] * (i % 3)} for i in range(n)],
                                    pa.struct([("text", pa.string()), ("l", pa.list_(pa.float64()))])), True)]
    schema = pa.schema([pa.field(c[0], c[1].type, nullable=c[2]) for c in columns])
    table = pa.Table.from_arrays([c[1] for c in columns], schema=schema)
    pq.write_table(table, os.path.join(folder, name + ".parquet"), **options)
    with open(os.path.join(folder, name.split("-")[0] + ".expected"), "w", newline="") as out:
        out.write(expected([f[0] for f in fields], rows))


def leaves(field):
    name, kind = field[0], field[1]
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return [name + ".list.element." + m for m in MEMBERS] if is_list else [name]


def options_of(fields, version, encoding, codec, **more):
    o = {"data_page_version": version, "compression": codec, "write_statistics": False, "store_schema": False}
    o["use_dictionary"] = encoding == "DICTIONARY"
    if encoding != "DICTIONARY":
        o["column_encoding"] = {leaf: encoding for f in fields for leaf in leaves(f)}
    o.update(more)
    return o


ENCODINGS = ["PLAIN", "DICTIONARY", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
CODECS = ["none", "snappy", "gzip", "zstd"]


def goldens(folder):
    draw = random.Random(16)
    text = [("text", pa.string(), True)]
    texts = [[draw_text(draw)] for _ in range(30)]
    chats = [[draw_chat(draw)] for _ in range(12)]
    pairs = [[draw_text(draw), draw_text(draw)] for _ in range(12)]
    for version, encoding, codec in itertools.product("12", ENCODINGS, CODECS):
        name = "text-v%s-%s-%s" % (version, encoding.lower(), codec)
        write(folder, name, text, texts, options_of(text, version + ".0", encoding, codec))
    small = {"data_page_size": 64, "write_batch_size": 3, "row_group_size": 11}
    for version, encoding in itertools.product("12", ENCODINGS):
        name = "text-pages-v%s-%s" % (version, encoding.lower())
        write(folder, name, text, texts, options_of(text, version + ".0", encoding, "snappy", **small))
    for kind in (pa.large_string(), pa.binary(), pa.large_binary()):
        write(folder, "text-kind-%s" % kind, [("text", kind, False)], texts, options_of(text, "1.0", "PLAIN", "none"))
    write(folder, "text-fallback", text, texts,
          options_of(text, "1.0", "DICTIONARY", "none", dictionary_pagesize_limit=64, **small))
    for version, encoding in itertools.product("12", ENCODINGS):
        messages = [("messages", chat_type(draw), draw.random() < 0.5)]
        o = options_of(messages, version + ".0", encoding, "zstd")
        write(folder, "chat-v%s-%s" % (version, encoding.lower()), messages, chats, o)
        o.update(small)
        write(folder, "chat-pages-v%s-%s" % (version, encoding.lower()), messages, chats, o)
    messages = [("messages", pa.list_(pa.struct([(m, pa.string()) for m in MEMBERS])), True)]
    o = options_of(messages, "1.0", "DICTIONARY", "none", use_compliant_nested_type=False)
    write(folder, "chat-item", messages, chats, o)
    pair = [("prompt", pa.string(), False), ("completion", pa.string(), True)]
    write(folder, "pair-v1", pair, pairs, options_of(pair, "1.0", "DICTIONARY", "gzip"))
    write(folder, "none-rows", text, [], options_of(text, "1.0", "PLAIN", "none"))
    fields, rows = draw_tools(draw, 12)
    o = options_of(fields, "1.0", "PLAIN", "none")
    write(folder, "tools-v1", fields, rows, o)
    o.update(small)
    write(folder, "tools-pages-v1", fields, rows, o)
    fields, rows = draw_turns(draw, 12)
    write(folder, "turns-v1", fields, rows, options_of(fields, "1.0", "PLAIN", "none"))
    numbers(folder)


def numbers(folder):
    for version, encoding in itertools.product("12", ["PLAIN", "DICTIONARY", "DELTA_BINARY_PACKED"]):
        o = options_of_numbers(version + ".0", encoding, "none", data_page_size=64, write_batch_size=5)
        write_numbers(folder, "number-v%s-%s" % (version, encoding.lower()), random.Random(17), 24, o)
    names = ["zebra", "cat \u00e9 \"x\"", "ant"]
    write_classes(folder, "class-i64", [2, 0, 1, 1, 2], pa.int64(), names)
    write_classes(folder, "class-i8", [2, 0, 1, 1, 2], pa.int8(), names)
    write_classes(folder, "unnamed-i32", [10, 9, 2], pa.int32(), [])
    write_classes(folder, "unlabelled-i64", [1, -1], pa.int64(), names)
    for name in ("unlabelled", "unnamed"):
        os.remove(os.path.join(folder, name + ".expected"))


def drawn(seed, count, folder):
    draw = random.Random(seed)
    for i in range(count):
        form = draw.choice(["text", "pair", "chat", "tools", "turns", "number"])
        n = draw.choice([0, 1, 7, 100, 1000])
        if form == "number":
            o = options_of_numbers(draw.choice(["1.0", "2.0"]),
                                   draw.choice(["PLAIN", "DICTIONARY", "DELTA_BINARY_PACKED"]), draw.choice(CODECS),
                                   data_page_size=draw.choice([1, 100, 1 << 20]),
                                   write_batch_size=draw.choice([1, 3, 50, 1024]),
                                   row_group_size=draw.choice([7, 333, 100000]))
            write_numbers(folder, "number%d-drawn" % i, draw, n, o)
            continue
        text = draw.choice([pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
        longest = draw.choice([5, 30, 30, 400])
        if form == "chat":
            fields, rows = [("messages", chat_type(draw), draw.random() < 0.5)], [[draw_chat(draw)] for _ in range(n)]
        elif form == "tools":
            fields, rows = draw_tools(draw, n)
        elif form == "turns":
            fields, rows = draw_turns(draw, n)
        else:
            names = ["text"] if form == "text" else ["prompt", "completion"]
            fields = [(name, text, draw.random() < 0.5) for name in names]
            rows = [[draw_text(draw, longest) for _ in names] for _ in range(n)]
        o = options_of(fields, draw.choice(["1.0", "2.0"]), draw.choice(ENCODINGS), draw.choice(CODECS))
        o.update(data_page_size=draw.choice([1, 100, 5000, 1 << 20]), write_batch_size=draw.choice([1, 3, 50, 1024]),
                 row_group_size=draw.choice([1, 10, 333, 100000]), write_statistics=draw.random() < 0.5,
                 write_page_index=draw.random() < 0.3, write_page_checksum=draw.random() < 0.3,
                 store_schema=draw.random() < 0.5, dictionary_pagesize_limit=draw.choice([50, 1000, 1 << 20]))
        if o["row_group_size"] == 1 and n > 100:
            o["row_group_size"] = 10
        write(folder, "%s%d-drawn" % (form, i), fields, rows, o)


# ---- pictures ----

CLASSES = ["plain", "round", "striped"]


def picture(number, side):
    """A small picture as it stands in a file, every second one a JPEG."""
    from PIL import Image
    of_class = number // 8
    def pixel(x, y):
        inside = (x - side / 2) ** 2 + (y - side / 2) ** 2 < side * side / 9
        mark = (of_class == 1 and inside) or (of_class == 2 and y // 3 % 2 == 0)
        return (40 + 9 * number if mark else 200 - 5 * number, 8 * x, 255 - 9 * y)
    image = Image.new("RGB", (side, side))
    image.putdata([pixel(x, y) for y in range(side) for x in range(side)])
    out = io.BytesIO()
    if number % 2:
        image.save(out, "JPEG", quality=80)
    else:
        image.save(out, "PNG")
    return out.getvalue()


def fnv(data):
    """FNV-1a of 64 bits."""
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return value


def image_schema(form):
    """How an image is written: a struct whose parts may be null or not, or bytes alone."""
    nullable = form != "required"
    kind = pa.large_binary() if form == "binary" else pa.struct([pa.field("bytes", pa.binary(), nullable=nullable),
                                                                pa.field("path", pa.string(), nullable=nullable)])
    said = {"info": {"features": {"image": {"_type": "Image"}, "label": {"names": CLASSES, "_type": "ClassLabel"}}}}
    return pa.schema([pa.field("image", kind, nullable=nullable), pa.field("label", pa.int64())],
                     metadata={"huggingface": json.dumps(said)})


def write_images(folder, name, form, cells, labels, **options):
    values = [c["bytes"] if c else None for c in cells] if form == "binary" else cells
    schema = image_schema(form)
    table = pa.Table.from_arrays([pa.array(values, schema.field(0).type), pa.array(labels, pa.int64())], schema=schema)
    pq.write_table(table, os.path.join(folder, name + ".parquet"), write_statistics=False, **options)


def images(folder):
    path = lambda i: "%s/%03d.%s" % (CLASSES[i // 8], i, "jpg" if i % 2 else "png")
    cells = [{"bytes": picture(i, 16 + i % 3), "path": path(i)} for i in range(24)]
    labels = [i // 8 for i in range(24)]
    small = {"data_page_size": 2000, "write_batch_size": 2, "row_group_size": 13}
    for name in ("v1-plain-none-optional", "v1-plain-snappy-required", "v2-plain-zstd-optional",
                 "v1-dictionary-snappy-optional", "v1-dictionary-none-binary", "v2-plain-none-binary",
                 "v2-delta_length_byte_array-gzip-optional", "v1-delta_byte_array-none-binary",
                 "v2-delta_byte_array-snappy-required"):
        version, encoding, codec, form = name[1:].upper().split("-")
        codec, form = codec.lower(), form.lower()
        leaf = "image" if form == "binary" else "image.bytes"
        o = {"data_page_version": version + ".0", "compression": codec, "use_dictionary": encoding == "DICTIONARY"}
        if encoding == "DICTIONARY":
            o["dictionary_pagesize_limit"] = 3000
        else:
            o["column_encoding"] = {leaf: encoding}
        write_images(folder, name, form, cells, labels, **small, **o)
    with open(os.path.join(folder, "cells.expected"), "w") as out:
        for cell, label in zip(cells, labels):
            out.write("%s %d %016x\n" % (CLASSES[label], len(cell["bytes"]), fnv(cell["bytes"])))
    odd, cut = cells[0], cells[1]["bytes"][:-200]
    for name, second, label in (("path", {"bytes": None, "path": "there.png"}, 1), ("null", None, 1),
                                ("nothing", {"bytes": None, "path": None}, 1),
                                ("header", {"bytes": odd["bytes"][:40], "path": "x"}, 1),
                                ("empty", {"bytes": b"", "path": "x"}, 1), ("cut", {"bytes": cut, "path": "x"}, 1),
                                ("label", odd, -1)):
        write_images(folder, "odd-" + name, "optional", [odd, second], [0, label], compression="snappy")


if __name__ == "__main__":
    if sys.argv[1] == "--images":
        images(sys.argv[2])
    elif sys.argv[1] == "--random":
        drawn(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        goldens(sys.argv[1])
