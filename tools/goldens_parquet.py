#!/usr/bin/env python3
"""Parquet files as pyarrow writes them, and what they hold, for tests/data/test_parquet.c.

    tools/goldens_parquet.py tests/data/parquet             the committed ones, one of each form
    tools/goldens_parquet.py --random SEED COUNT FOLDER     others, drawn

Each NAME-….parquet holds what NAME.expected says (of the drawn ones each has its own), in the words of
tests/data/transcript.h. Needs pyarrow (26 wrote what is committed).
"""
import itertools
import os
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


def drawn(seed, count, folder):
    draw = random.Random(seed)
    for i in range(count):
        form = draw.choice(["text", "pair", "chat", "tools", "turns"])
        n = draw.choice([0, 1, 7, 100, 1000])
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


if __name__ == "__main__":
    if sys.argv[1] == "--random":
        drawn(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        goldens(sys.argv[1])
