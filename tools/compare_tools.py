#!/usr/bin/env python3
"""Chats with tools as data: the tokens that snug makes of them beside those of transformers and tokenizers.

    compare_tools.py BUILD [--chats N] [--seed N] [--show N]

Draws chats whose messages hold tool_calls (arguments as objects and as strings), numbers, null, lists of parts and
nested lists, with tools as a list, as a string of JSON, null, empty or left out. They are written as JSON lines, as
an array, and those that it can hold as Parquet. For each template of our own `snug tokenize` makes a file of tokens;
each document must be what tokenizers makes of apply_chat_template(messages, tools=...), and of what snug renders of
the same JSON read at once, as `generate --chat-file` does (snug-directory-chats). A chat that transformers refuses
must be refused, alone in its file. BUILD is a folder of the build. Needs transformers 5.17, tokenizers,
safetensors and pyarrow. Exits with 1 where something differs.
"""

import argparse
import json
import logging
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
os.environ["TRANSFORMERS_VERBOSITY"] = "critical"

ROOT = pathlib.Path(__file__).resolve().parent.parent
# As ChatML with tools, with JSON of several lines, with Python's own words for values, and what a chat holds at all.
TEMPLATES = {
    "chatml": "{%- if tools %}{{ '<|im_start|>system\\n<tools>' }}{% for t in tools %}{{ '\\n' + t | tojson }}"
              "{% endfor %}{{ '</tools><|im_end|>\\n' }}{% endif %}{% for m in messages %}{{ '<|im_start|>' + m.role }}"
              "{% if m.content %}{{ '\\n' }}{{ m.content }}{% endif %}{% if m.tool_calls %}{% for c in m.tool_calls %}"
              "{% if c.function is defined %}{% set c = c.function %}{% endif %}{{ '\\n<tool_call>{\"name\": \"' }}"
              "{{ c.name }}{{ '\", \"arguments\": ' }}{{ c.arguments | tojson }}}</tool_call>{% endfor %}{% endif %}"
              "{{ '<|im_end|>\\n' }}{% endfor %}",
    "indented": "{% if tools is not none %}{% for t in tools %}{{ t | tojson(indent=4) }}\n\n{% endfor %}{% endif %}"
                "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content | trim }}"
                "{% elif m.content is none %}(none){% elif m.content is defined %}{% for p in m.content %}"
                "{{ p.text if p is mapping else p }},{% endfor %}{% endif %}{% if 'tool_calls' in m and m.tool_calls %}"
                "{% for c in m.tool_calls %}{{ c | tojson(indent=2) }}{% endfor %}{% endif %}\n{% endfor %}",
    "python": "{{ tools }}{% for m in messages %}{{ m }}\n{% for k, v in m.items() %}{{ k }}={{ v }} {{ v is number }}"
              "{{ v is integer }}{{ v is none }}{{ v is sequence }};{% endfor %}{% endfor %}",
    "refuses": "{% for m in messages %}{% if m.role == 'tool' and loop.first %}{{ raise_exception('a tool first') }}"
               "{% endif %}{{ m.role }}: {{ (m.content or '') | tojson }} {{ (m.weight or 0) + 1 }}\n{% endfor %}",
}
TWO = {"default": "no tools: " + TEMPLATES["python"], "tool_use": "tools: " + TEMPLATES["chatml"]}
WORDS = ["snow", "is", "cold", "Zwölf", "読む", "🙂", "e\u0301", "\n", "\t", '"', "\\", "</s>", "<|im_end|>", "{}",
         "[,", "'", "\u2028", "\x7f", "\x01", "/", "<b>&", ""]


def words(r):
    return " ".join(r.choice(WORDS) for _ in range(r.choice([0, 1, 3, 8, 30])))


def scalar(r):
    return r.choice([None, True, False, 0, -1, r.randrange(-2**63, 2**63), r.randrange(1000), 0.0, -0.0, 1.5, 1e21,
                     1e-9, r.random(), r.uniform(-1e300, 1e300), 1e16, 123456789.125, "", words(r), words(r)])


def value(r, depth=0):
    kind = r.randrange(8) if depth < 5 else 0
    if kind < 5:
        return scalar(r)
    if kind < 7:
        return {r.choice(["a", "z", "ключ", "type", "x y", '"', ""]) + str(i): value(r, depth + 1)
                for i in range(r.randrange(5))}
    return [value(r, depth + 1) for _ in range(r.randrange(5))]


def a_tool(r):
    parameters = {"type": "object", "properties": {"p%d" % i: {"type": "string", "description": words(r),
                                                              "enum": [scalar(r) for _ in range(r.randrange(3))]}
                                                   for i in range(r.randrange(4))}, "required": ["p0"]}
    function = {"name": r.choice(["f", "get_weather", "名"]), "description": words(r), "parameters": parameters}
    return {"type": "function", "function": function} if r.random() < 0.8 else {"name": "g", "more": value(r)}


def a_call(r):
    arguments = {"p%d" % i: value(r) for i in range(r.randrange(4))}
    function = {"name": "f", "arguments": json.dumps(arguments) if r.random() < 0.4 else arguments}
    call = {"id": "call_%d" % r.randrange(100), "type": "function", "function": function}
    return call if r.random() < 0.8 else function


def a_message(r):
    m = {"role": r.choice(["user", "user", "assistant", "assistant", "tool", "system"])}
    content = r.random()
    if content < 0.6:
        m["content"] = words(r)
    elif content < 0.75:
        m["content"] = None
    elif content < 0.9:
        m["content"] = [{"type": "text", "text": words(r)} for _ in range(r.randrange(3))]
    if m["role"] == "assistant" and r.random() < 0.6:
        m["tool_calls"] = r.choice([None, [], [a_call(r)], [a_call(r), a_call(r)]])
    if r.random() < 0.3:
        m["weight"] = r.choice([0, 1, 0.5, None, True])
    if r.random() < 0.2:
        m[r.choice(["more", "name", "nested", "名"])] = value(r)
    items = list(m.items())
    r.shuffle(items)
    return dict(items)


def a_chat(r):
    chat = {"messages": [a_message(r) for _ in range(r.choice([1, 2, 3, 6]))]}
    kind = r.randrange(6)
    if kind < 5:
        tools = [a_tool(r) for _ in range(r.choice([0, 1, 1, 3]))]
        chat["tools"] = [tools, tools, json.dumps(tools, ensure_ascii=r.random() < 0.5), None, ""][kind]
    if r.random() < 0.3:
        chat["id"] = value(r)
    items = list(chat.items())
    r.shuffle(items)
    return dict(items)


def tools_of(chat):
    """As trl takes them: a string holds JSON."""
    tools = chat.get("tools")
    return json.loads(tools) if tools and isinstance(tools, str) else tools or None if tools != [] else []


def write_model(folder, template):
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer.json").write_bytes((ROOT / "tests/text/golden/gpt2.json").read_bytes())
    config = {"eos_token": "</s>", "tokenizer_class": "PreTrainedTokenizerFast"}
    if isinstance(template, dict):
        config["chat_template"] = [{"name": n, "template": t} for n, t in template.items()]
    else:
        (folder / "chat_template.jinja").write_text(template, "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def write_data(r, path, chats):
    ascii_only = r.random() < 0.5
    if path.suffix == ".json":
        path.write_text(json.dumps(chats, ensure_ascii=ascii_only, indent=r.choice([None, 1])), "utf-8")
        return
    lines = [json.dumps(c, ensure_ascii=ascii_only, separators=r.choice([None, (",", ":")])) for c in chats]
    path.write_text("\n".join(lines) + "\n", "utf-8", newline="\n")


def write_parquet(path, chats):
    """Strings and null are all that it holds; null is not there."""
    import pyarrow
    import pyarrow.parquet
    names = sorted({k for c in chats for m in c["messages"] for k in m})
    message = pyarrow.struct([(n, pyarrow.string()) for n in names])
    schema = pyarrow.schema([("messages", pyarrow.list_(message)), ("tools", pyarrow.string())])
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(chats, schema), path, row_group_size=37)


def for_parquet(r, chats):
    """The chats whose messages can be there, in the order of the columns."""
    out = []
    for c in chats:
        messages = [{k: m[k] for k in sorted(m) if isinstance(m[k], str)} for m in c["messages"]]
        tools = tools_of(c)
        out.append({"messages": messages, "tools": r.choice([None, ""]) if tools is None else json.dumps(tools)})
    return out


class Compared:
    def __init__(self, build, show):
        self.build, self.show = build, show
        self.equal = self.refused = self.wrong = 0

    def say(self, *what):
        self.wrong += 1
        if self.wrong <= self.show:
            print(*what, sep="\n  ")

    def tokenize(self, model, data, folder):
        out = folder / "out.safetensors"
        out.unlink(missing_ok=True)
        done = subprocess.run([self.build / "snug", "tokenize", model, "--data", data, "--out", out, "--quiet",
                               "--learn", "all"],
                              capture_output=True, text=True)
        return (done.returncode, done.stderr.strip()), out

    def documents(self, name, model, data, folder, texts, tokenizer):
        from safetensors.numpy import load_file
        status, out = self.tokenize(model, data, folder)
        if status[0]:
            self.say("%s, %s: refused: %s" % (name, data.name, status[1]))
            return
        made = load_file(out)
        ends = [0] + made["ends"].tolist()
        expected = [tokenizer.encode(t, add_special_tokens=False).ids for t in texts]
        expected = [e for e in expected if e]
        if len(ends) - 1 != len(expected):
            self.say("%s, %s: %d documents, not %d" % (name, data.name, len(ends) - 1, len(expected)))
            return
        for i, ids in enumerate(expected):
            ours = made["tokens"][ends[i]:ends[i + 1]].tolist()
            if ours == ids:
                self.equal += 1
            else:
                self.say("%s, %s, document %d:" % (name, data.name, i), repr(tokenizer.decode(ours, False)),
                         repr(tokenizer.decode(ids, False)))


def render(t, chat):
    try:
        return t.apply_chat_template(chat["messages"], tools=tools_of(chat), tokenize=False)
    except Exception:  # whatever it is, it has no text
        return None


def compare(c, r, folder, name, template, chats):
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer
    model = folder / name
    write_model(model, template)
    t, tokenizer = AutoTokenizer.from_pretrained(model), Tokenizer.from_file(str(model / "tokenizer.json"))
    texts = [render(t, chat) for chat in chats]
    good = [chat for chat, text in zip(chats, texts) if text is not None]
    said = [text for text in texts if text is not None]
    for suffix in (".jsonl", ".json"):
        data = folder / ("chats" + suffix)
        write_data(r, data, good)
        c.documents(name, model, data, folder, said, tokenizer)
    at_once = subprocess.Popen([c.build / "snug-directory-chats"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True, encoding="utf-8")
    for chat, text in zip(good, said):
        line = {"directory": str(model), "messages": chat["messages"], "tools": tools_of(chat), "prompt": False}
        at_once.stdin.write(json.dumps(line) + "\n")
        at_once.stdin.flush()
        ours = json.loads(at_once.stdout.readline())
        if ours.get("text") != text:
            c.say("%s, at once:" % name, repr(ours), repr(text))
    at_once.stdin.close()
    at_once.wait()
    strings = for_parquet(r, chats)
    strings = [x for x in strings if render(t, x) is not None]
    write_parquet(folder / "chats.parquet", strings)
    c.documents(name, model, folder / "chats.parquet", folder, [render(t, x) for x in strings], tokenizer)
    for chat in [chat for chat, text in zip(chats, texts) if text is None][:40]:
        write_data(r, folder / "one.jsonl", [chat])
        status, _ = c.tokenize(model, folder / "one.jsonl", folder)
        c.refused += status[0] == 2
        if status[0] != 2:
            c.say("%s: not refused: %s" % (name, status), json.dumps(chat))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", type=lambda x: pathlib.Path(x).resolve())
    p.add_argument("--chats", type=int, default=1000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--show", type=int, default=5)
    a = p.parse_args()
    r = random.Random(a.seed)
    c = Compared(a.build, a.show)
    chats = [a_chat(r) for _ in range(a.chats)]
    with tempfile.TemporaryDirectory() as name:
        for template in list(TEMPLATES) + ["two"]:
            compare(c, r, pathlib.Path(name), template, TEMPLATES.get(template, TWO), chats)
    print("%d documents equal, %d refused by both, %d differ" % (c.equal, c.refused, c.wrong))
    return c.wrong > 0


if __name__ == "__main__":
    sys.exit(main())
