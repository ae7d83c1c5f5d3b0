#!/usr/bin/env python3
"""Renders chats with templates by snug and by Jinja as transformers sets it up, and compares byte for byte.

  tools/compare_templates.py --program BUILD/snug-chats FOLDER...   every *.jinja in the folders, each with all chats
  tools/compare_templates.py --program BUILD/snug-chats --snippets FILE    lines of a file, each a template of its own

  tools/compare_templates.py --record FOLDER    writes chats.json and snippets.expected beside FOLDER/snippets.txt

Where Jinja raises an error snug must fail too, and only there. Needs jinja2 and transformers. Prints what differs;
exit code 1 when something does.
"""
import argparse
import datetime
import glob
import json
import os
import random
import subprocess
import sys
import warnings

SNIPPET_CHATS = ("system", "calls")
NOW = 1767225599  # 2025-12-31 23:59:59 UTC


def weather(**more):
    parameters = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city, e.g. \"Köln\" <b>"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "default": 3},
            "where": {"type": "array", "items": {"type": "number"}},
        },
        "required": ["city"],
    }
    function = {"name": "get_weather", "description": "The weather.\nNow.", "parameters": parameters, **more}
    return {"type": "function", "function": function}


TOOLS = [weather(), {"type": "function", "function": {"name": "nothing", "description": "Does nothing",
                                                       "parameters": {"type": "object", "properties": {}}}}]
CALL = {"type": "function", "id": "call12345", "function": {"name": "get_weather", "arguments": {
    "city": "Paris", "days": 2, "exact": True, "more": None, "list": [1, 2.5, "x"], "deep": {"a": {"b": "ü"}}}}}
CALL_TEXT = {"type": "function", "id": "call12345",
             "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}}


def say(role, content, **more):
    return {"role": role, "content": content, **more}


def chats():
    """name -> variables"""
    two = [say("user", "Hello"), say("assistant", "Hi there!"), say("user", "Bye")]
    system = [say("system", "You are kind.")]
    tools = [say("user", "Weather?"), say("assistant", "", tool_calls=[CALL]),
             say("tool", "{\"t\": 20}", name="get_weather", tool_call_id="call12345"), say("assistant", "It is 20.")]
    text_tools = [say("user", "Weather?"), say("assistant", None, tool_calls=[CALL_TEXT, CALL_TEXT]),
                  say("tool", "20", name="get_weather", tool_call_id="call12345"),
                  say("tool", {"t": 20}, name="get_weather", tool_call_id="call12345"), say("assistant", "20.")]
    parts = [say("user", [{"type": "text", "text": "What is"}, {"type": "image"}, {"type": "text", "text": " this?"}]),
             say("assistant", [{"type": "text", "text": "A cat"}])]
    think = [say("user", "1+1?"), say("assistant", "<think>\nOne and one.\n</think>\n\nTwo."), say("user", "Sure?"),
             say("assistant", "Yes", reasoning_content="I checked.", thinking="hm")]
    blanks = [say("system", "  \n be kind \t\n"), say("user", "\n\n a  b \n"), say("assistant", " \n c \r\n d\u00a0"),
              say("user", "   ")]
    odd = [say("user", "‘Grüße’ 🙂 \u0000 ' \" \\ {{ x }} {% if %} <|im_end|>\u2028日本語 ǆ"),
           say("assistant", "ΑΣ ß ŉ \x7f \u200b </think> [INST]"), say("user", "İI")]
    out = {
        "one": {"messages": [say("user", "Hello")]},
        "prompt": {"messages": [say("user", "Hello")], "add_generation_prompt": True},
        "two": {"messages": two, "add_generation_prompt": True},
        "turns": {"messages": two + [say("assistant", "Bye!"), say("user", "…"), say("assistant", "?")]},
        "system": {"messages": system + two, "add_generation_prompt": True},
        "two systems": {"messages": system + two[:2] + system + two[2:]},
        "developer": {"messages": [say("developer", "Be terse.")] + two, "add_generation_prompt": True},
        "answered": {"messages": system + two[:2]},
        "empty": {"messages": [say("user", ""), say("assistant", ""), say("user", "")]},
        "blanks": {"messages": blanks, "add_generation_prompt": True},
        "odd": {"messages": odd, "add_generation_prompt": True},
        "parts": {"messages": parts, "add_generation_prompt": True},
        "tools": {"messages": system + tools[:1], "tools": TOOLS, "add_generation_prompt": True},
        "calls": {"messages": tools, "tools": TOOLS},
        "calls, prompt": {"messages": system + tools[:3], "tools": TOOLS, "add_generation_prompt": True},
        "texts of calls": {"messages": text_tools, "tools": TOOLS[:1]},
        "thinking": {"messages": think},
        "thinking, prompt": {"messages": think + two[2:], "add_generation_prompt": True, "enable_thinking": False},
        "thinking on": {"messages": think[:1], "add_generation_prompt": True, "enable_thinking": True,
                        "reasoning_effort": "high", "thinking": True},
        "documents": {"messages": two, "documents": [{"title": "A", "text": "Some <b>text</b>", "contents": "c"},
                                                     {"title": "B", "text": "é", "n": 1.0}]},
        "assistant first": {"messages": [say("assistant", "Hi"), say("user", "Who?")]},
        "two users": {"messages": [say("user", "a"), say("user", "b"), say("assistant", "c"), say("assistant", "d")]},
        "other role": {"messages": [say("ipython", "x"), say("critic", "y")]},
        "no messages": {"messages": []},
        "no content": {"messages": [{"role": "user"}, {"role": "assistant", "content": None}]},
        "odd tools": {"messages": tools, "tools": [weather(**{"return": {"type": "number"}}),
                                                   {"name": "flat", "parameters": None}], "date_string": "1 May",
                      "tools_in_user_message": False, "builtin_tools": ["brave_search", "code_interpreter"]},
    }
    for v in out.values():
        v.setdefault("tools", None)
        v.setdefault("documents", None)
        v.setdefault("add_generation_prompt", False)
        v.update(bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>")
    return out


class FrozenClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.utcfromtimestamp(NOW)


def by_jinja(source, variables):
    """(text, marked ranges in letters, None) or (None, None, the error)"""
    from transformers.utils import chat_template_utils as u
    u.datetime = FrozenClock
    try:
        compiled = u._compile_jinja_template(source)
        rest = {k: v for k, v in variables.items() if k not in ("messages", "tools", "documents",
                                                                "add_generation_prompt")}
        text, marked = u._render_with_assistant_indices(
            compiled, variables["messages"], variables["tools"], variables["documents"],
            variables["add_generation_prompt"], **rest)
        text.encode()
        return text, marked, None
    except Exception as e:  # whatever it is, it is an error of Jinja's
        return None, None, f"{type(e).__name__}: {e}"


class Snug:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def render(self, source, variables, by_message=False):
        line = json.dumps({"template": source, "variables": variables, "at": NOW, "by_message": by_message})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the program ended with {self.process.wait()}")
        return json.loads(answer)


def cut(text):
    return repr(text if len(text) < 200 else text[:100] + " ... " + text[-100:])


def first_difference(a, b):
    n = next((i for i in range(min(len(a), len(b))) if a[i] != b[i]), min(len(a), len(b)))
    return f"at letter {n}: {a[max(0, n - 30):n + 60]!r}\n     Jinja's: {b[max(0, n - 30):n + 60]!r}"


def marked_letters(answer):
    """What snug says is learned, as a set of letters' places."""
    data, out = answer["text"].encode(), set()
    for begin, end, _, learned in answer["ranges"]:
        if learned:
            first = len(data[:begin].decode())
            out.update(range(first, first + len(data[begin:end].decode())))
    return out


def compare(snug, source, variables):
    """None, or what differs."""
    text, marked, error = by_jinja(source, variables)
    answer = snug.render(source, variables)
    if error is not None:
        return None if "error" in answer else f"Jinja fails: {error[:200]}\n     snug: {cut(answer['text'])}"
    if "error" in answer:
        return f"snug fails: {answer['error']}\n     Jinja: {cut(text)}"
    if answer["text"] != text:
        return first_difference(answer["text"], text)
    ends = [0] + [r[1] for r in answer["ranges"]]
    if [r[0] for r in answer["ranges"]] != ends[:-1] or ends[-1] != len(text.encode()):
        return "the ranges do not cover the text"
    if marked and marked_letters(answer) != {i for a, b in marked for i in range(a, b)}:
        return f"what is marked differs: {sorted(marked_letters(answer))[:5]}, Jinja's {marked[:3]}"
    return None


PIECES = [
    "{%", "%}", "{{", "}}", "{#", "#}", "-", "+", "|", ".", ",", "(", ")", "[", "]", "{", "}", "'", '"', "\\",
    "\n", " ", "~", "=", "==", ":", "*", "**", "/", "//", "%", "<", ">=", " not ", " is ", " in ", " and ",
    " or ", " if ", " else ", "{% if x %}", "{% else %}", "{% endif %}", "{% for m in messages %}",
    "{% endfor %}", "{% set x = 1 %}", "{% break %}", "0", "1", "2.5", "'a'", "none", "true", "x", "loop",
    "messages", "message", ".strip()", ".split('a')", "[1:]", "[-1]", "|length", "|trim", "|tojson", "|list",
    "|first", "|upper", " is defined", " is string", "|join(',')", "|default('d')", "({})", "namespace(a=1)",
    "range(3)", "{% raw %}"
]


def mutated(source, draw):
    """The source with one to three pieces taken out, put in, doubled or moved."""
    for _ in range(draw.randint(1, 3)):
        a = draw.randrange(len(source) + 1)
        b = min(len(source), a + draw.randint(0, 12))
        kind = draw.randrange(4)
        if kind == 0:
            source = source[:a] + source[b:]
        elif kind == 1:
            source = source[:a] + draw.choice(PIECES) + source[a:]
        elif kind == 2:
            source = source[:a] + draw.choice(PIECES) + source[b:]
        else:
            to = draw.randrange(len(source) + 1)
            source = source[:to] + source[a:b] + source[to:]
    return source


VALUES = [
    "1", "0", "-3", "2.5", "1e20", "true", "false", "none", "''", "'a'", "'abc'", "' a b '", "'Äß ǆ'",
    "'a\\nb'", "'12'", "[]", "[1, 2, 3]", "['b', 'A', 'c']", "(1, 2)", "()", "{}", "{'a': 1, 'b': [2]}", "x",
    "messages", "messages[0]", "messages[0].content", "messages[0].x", "range(3)", "namespace(a=1)",
    "[[1, 'x'], [2, 'y']]", "messages | map(attribute='role')", "{'items': 3, 1: 2}", "'%s|%d'", "'{}-{:>4}'",
    "[none, 0, '']"
]
NAMES = ["a", "b", "items", "keys", "values", "get", "role", "content", "x", "upper", "count", "index", "append"]
FILTERS = ["trim", "upper", "lower", "title", "capitalize", "length", "count", "list", "first", "last", "string", "int",
           "float", "abs", "round", "tojson", "join", "reverse", "sort", "unique", "items", "dictsort", "min", "max",
           "sum", "default", "d", "map", "select", "reject", "selectattr", "rejectattr", "replace", "indent", "batch",
           "slice", "format", "center", "truncate", "wordcount", "safe", "e", "attr", "escape"]
METHODS = ["strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "replace", "join", "upper", "lower", "title",
           "capitalize", "startswith", "endswith", "find", "rfind", "count", "index", "items", "keys", "values", "get",
           "zfill", "center", "ljust", "partition", "isdigit", "isalpha", "format", "removeprefix", "isupper", "copy"]
TESTS = ["defined", "undefined", "string", "mapping", "none", "boolean", "integer", "float", "number", "sequence",
         "iterable", "callable", "odd", "even", "lower", "upper", "true", "false", "divisibleby", "sameas", "in", "eq",
         "lt", "ge", "escaped", "filter", "test"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


def made_up(draw, depth):
    """A random expression."""
    def arguments():
        return ", ".join(made_up(draw, 0) for _ in range(draw.choice([0, 1, 1, 2])))

    if depth == 0 or draw.random() < 0.15:
        return draw.choice(VALUES)
    of, kind = made_up(draw, depth - 1), draw.randrange(10)
    if kind == 0:
        return f"({of} {draw.choice(OPERATORS)} {made_up(draw, depth - 1)})"
    if kind in (1, 2, 3):
        name = draw.choice(FILTERS)
        inner = {"map": "'" + draw.choice(FILTERS) + "'", "select": "'" + draw.choice(TESTS) + "'",
                 "selectattr": "'" + draw.choice(NAMES) + "'", "attr": "'" + draw.choice(NAMES) + "'"}.get(name)
        return f"({of} | {name}({inner or arguments()}))"
    if kind in (4, 5):
        return f"({of}).{draw.choice(METHODS)}({arguments()})"
    if kind == 6:
        return f"({of} is {draw.choice(TESTS)}{draw.choice(['', '', '(' + made_up(draw, 0) + ')'])})"
    if kind == 7:  # not of a constant: Jinja folds such a slice, and one that fails is undefined then
        return f"(x or {of})[{made_up(draw, 0)}{draw.choice(['', '', ':', ':' + made_up(draw, 0)])}]"
    if kind == 8:
        return f"({of}).{draw.choice(NAMES)}"
    return draw.choice([f"[{of}, {made_up(draw, 0)}]", f"({of} if {made_up(draw, 1)} else {made_up(draw, 0)})",
                        f"(not {of})", f"{{'k': {of}}}", f"({of},)"])


def made_up_template(draw):
    e = made_up(draw, draw.randint(1, 4))
    return draw.choice(["{{ E }}", "{{ E }}", "{% for y in E %}{{ y }};{{ loop.last }}{% endfor %}",
                        "{% set y = E %}{{ y }}{{ y is defined }}"]).replace("E", e)


# What differs on purpose: src/text/template/template.h.
REFUSED = ("address", "64 bits", "not supported", "more than", "too many", "surrogate", "can't be called")


def compare_mutations(snug, templates, cases, o):
    """Templates with faults in them, or made up where there are none: the same text, or both fail."""
    draw = random.Random(o.seed)
    sources, names = sorted(templates.values()), sorted(cases)
    same = refused = errors = shown = different = 0
    for n in range(o.mutate):
        source = mutated(draw.choice(sources), draw) if sources else made_up_template(draw)
        name = draw.choice(names)
        said = compare(snug, source, cases[name])
        same += said is None
        if said is not None and said.startswith("snug fails") and any(w in said.split("\n")[0] for w in REFUSED):
            refused += 1
        elif said is not None and " object at 0x" in said:
            refused += 1
        elif said is not None:
            different += 1
            if shown < o.show:
                shown += 1
                print(f"[{name}] {said}\n  of {source if len(source) < 400 else '...'}")
                with open(f"/tmp/mutation{shown}.jinja", "w", newline="") as f:
                    f.write(source)
        errors += by_jinja(source, cases[name])[2] is not None
    print(f"{o.mutate} mutations with seed {o.seed}: {same} equal ({errors} errors of Jinja's), {refused} refused on "
          f"purpose, {different} different")
    return different > 0


def with_marks(text, places):
    """The text with [ ] around the letters at these places."""
    out, inside = [], False
    for i, c in enumerate(text + " "):
        if (i in places) != inside:
            inside = not inside
            out.append("⟦" if inside else "⟧")
        out.append(c)
    return "".join(out)[:-1]


def compare_learned(snug, templates, cases, show):
    """Templates with {% generation %}: do they mark, but for blanks at its end, what follows from the messages?"""
    same = different = 0
    for path, source in templates.items():
        wrong = []
        for name, variables in cases.items():
            text, marked, error = by_jinja(source, variables)
            if error or not marked:
                continue
            places = {i for a, b in marked for i in range(a, a + len(text[a:b].rstrip()))}
            ours = marked_letters(snug.render(source, variables, by_message=True))
            same += ours == places
            if ours != places:
                at = max(0, min(ours ^ places) - 60)
                wrong.append((name, with_marks(text, ours)[at:at + 250], with_marks(text, places)[at:at + 250]))
        different += len(wrong)
        for name, ours, theirs in wrong[:show]:
            print(f"{path} [{name}]\n  snug:  {ours!r}\n  marks: {theirs!r}")
        if wrong:
            print(f"{path}: {len(wrong)} different")
    print(f"what is learned: {same} equal, {different} different")


def read_snippets(path):
    """line number -> template"""
    lines = enumerate(open(path, encoding="utf-8"), 1)
    return {n: line.rstrip("\n").replace("\\n", "\n") for n, line in lines if line.strip() and line[:2] != "#!"}


def record(folder):
    cases = {k: chats()[k] for k in SNIPPET_CHATS}
    with open(os.path.join(folder, "chats.json"), "w", encoding="utf-8") as f:
        json.dump(cases, f, ensure_ascii=True, indent=1)
        f.write("\n")
    with open(os.path.join(folder, "snippets.expected"), "w", encoding="utf-8") as f:
        for source in read_snippets(os.path.join(folder, "snippets.txt")).values():
            f.write(json.dumps([by_jinja(source, v)[0] for v in cases.values()]) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--program")
    p.add_argument("--record")
    p.add_argument("--mutate", type=int, default=0,
                   help="so many templates with faults put into them; without templates, made-up ones")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--learned", action="store_true", help="compares what is learned with {%% generation %%}")
    p.add_argument("--snippets")
    p.add_argument("--show", type=int, default=40)
    p.add_argument("folders", nargs="*")
    o = p.parse_args()
    if o.record:
        return record(o.record)
    warnings.simplefilter("ignore")
    snug, cases, shown = Snug(o.program), chats(), 0
    templates = {}
    for folder in o.folders:
        for path in sorted(glob.glob(os.path.join(folder, "*.jinja"))):
            templates[path] = open(path, newline="", encoding="utf-8").read()
    if o.snippets:
        templates = {f"{o.snippets}:{n}": t for n, t in read_snippets(o.snippets).items()}
        cases = {k: cases[k] for k in SNIPPET_CHATS}
    if o.learned:
        return compare_learned(snug, {k: v for k, v in templates.items() if "endgeneration" in v}, cases, o.show)
    if o.mutate:
        return compare_mutations(snug, templates, cases, o)
    same = different = bad = fails = 0
    for path, source in templates.items():
        wrong = 0
        for name, variables in cases.items():
            said = compare(snug, source, variables)
            fails += by_jinja(source, variables)[2] is not None
            same += said is None
            wrong += said is not None
            if said is not None and shown < o.show and wrong < 3:
                shown += 1
                print(f"{path} [{name}]\n  {said}")
                if o.snippets:
                    print("  of", source)
        different += wrong
        bad += wrong > 0
    print(f"{len(templates)} templates, {len(cases)} chats each: {same} equal ({fails} of all are errors of Jinja's), "
          f"{different} different, in {bad} templates")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
