#!/usr/bin/env python3
"""What model directories say of chats, read by snug and by transformers: texts must be the same.

    compare_chats.py SNUG_DIRECTORY_CHATS [--directories N] [--seed N] [--show N]

Writes directories with a small tokenizer and templates and special tokens in all forms, at random, into a
temporary folder: templates in files of their own, in tokenizer_config.json as a text, a list or an object;
tokens as texts, objects, null or left out, in tokenizer_config.json and special_tokens_map.json, known ones and
others, with and without the class of a tokenizer. The template shows every name. SNUG_DIRECTORY_CHATS is
snug-directory-chats of the build. Needs transformers 5.17 and jinja2. Exits with 1 where something differs.
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
KNOWN = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
OTHER = ["image_token", "call_token", "odd"]
CLASSES = ["PreTrainedTokenizerFast", "TokenizersBackend", "LlamaTokenizer", "LlamaTokenizerFast", "GPT2Tokenizer",
           "GPT2TokenizerFast", "GPTNeoXTokenizer", "Qwen2Tokenizer", "Qwen2TokenizerFast", "GemmaTokenizer",
           "GemmaTokenizerFast", "CohereTokenizer", "CohereTokenizerFast", "T5TokenizerFast", "Qwen3_5Tokenizer",
           "CodeLlamaTokenizer"]
SHOW = "".join("{{ '%s=' }}{{ %s if %s is defined else '-' }} " % (n, n, n) for n in KNOWN + OTHER)
SHOW += ("{{ extra_special_tokens is defined }}{{ additional_special_tokens is defined }}{{ tools is none }}"
         "{{ documents is none }}{{ add_generation_prompt }}\n")
CHAT = ("{% for m in messages %}<{{ m.role }}>{{ m['content'] | trim if m.content is string else m.content | tojson }}"
        "{{ eos_token }}\n{% endfor %}{{ tools | tojson if tools is not none }}")
MESSAGES = [{"role": "system", "content": "Be brief.\u2028"}, {"role": "user", "content": " é🙂 \n"},
            {"role": "assistant", "content": [{"type": "text", "n": [1, -2, 3.5, 1e21, 1e-9, True, None]}]}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"z": 1, "a": {}}}}]


def a_template(r, name):
    if r.random() < 0.05:
        return "{% if %}"
    return r.choice(["", "\n", "\ufeff"]) + "[" + name + "] " + SHOW + r.choice([CHAT, CHAT.replace("\n", "\r\n")])


def a_token(r, marked):
    """A text, an added token as JSON, or null."""
    text = r.choice(["<s>", "</s>", "<|im_end|>", "é", "{{ 1 }}", "<a>", ""])
    if r.random() < 0.15:
        return None
    if r.random() < 0.5:
        return text
    token = {"content": text or "<b>", "lstrip": False, "rstrip": False, "single_word": False, "normalized": False,
             "special": True}
    if marked:
        token["__type"] = "AddedToken"
    items = list(token.items())
    r.shuffle(items)
    return dict(items)


def templates_of_config(r, what):
    if what == "text":
        return a_template(r, "config")
    names = r.sample(["default", "tool_use", "rag"], r.randint(1, 3))
    if what == "list":
        items = [{"name": n, "template": a_template(r, "list " + n)} for n in names]
        return [dict(reversed(i.items())) if r.random() < 0.5 else i for i in items]
    return {n: a_template(r, "object " + n) for n in names}


def a_config(r):
    config = {"tokenizer_class": r.choice(CLASSES)} if r.random() < 0.7 else {}
    for name in KNOWN:
        if r.random() < 0.5:
            config[name] = a_token(r, True)
    for name in OTHER:
        if name.endswith("_token") and r.random() < 0.4:
            config[name] = a_token(r, True)
    config["add_bos_token"] = r.random() < 0.5
    if r.random() < 0.3:
        config["extra_special_tokens"] = r.choice([["<x>", "<y>"], {"odd": "<o>", "image_token": "<img>"}])
    if r.random() < 0.3:
        config["additional_special_tokens"] = r.choice([["<x>"], {"odd": "<p>"}])
    if config.get("tokenizer_class", "").startswith("T5"):  # which fails with an object
        config["extra_special_tokens"] = ["<x>"]
    if r.random() < 0.2:
        config["model_specific_special_tokens"] = {"call_token": "<saved>"}
    if r.random() < 0.5:
        config["added_tokens_decoder"] = {}
    what = r.choice(["text", "text", "list", "object", None, "null"])
    if what:
        config["chat_template"] = None if what == "null" else templates_of_config(r, what)
    items = list(config.items())
    r.shuffle(items)
    return dict(items)


def a_map(r):
    found = {n: a_token(r, False) for n in KNOWN + ["image_token"] if r.random() < 0.5}
    if r.random() < 0.3:
        found["additional_special_tokens"] = ["<x>"]
    return found


def write(folder, r):
    (folder / "config.json").write_text('{"model_type": "llama"}')
    config = a_config(r)
    kind = "t5" if config.get("tokenizer_class", "").startswith("T5") else "gpt2"
    (folder / "tokenizer.json").write_bytes((ROOT / "tests/text/golden" / (kind + ".json")).read_bytes())
    if r.random() < 0.9:
        (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=r.random() < 0.5), "utf-8")
    if r.random() < 0.5:
        (folder / "special_tokens_map.json").write_text(json.dumps(a_map(r)))
    if r.random() < 0.3:
        (folder / "chat_template.jinja").write_bytes(a_template(r, "jinja").encode())
    if r.random() < 0.2:
        (folder / "additional_chat_templates").mkdir()
        for name in r.sample(["default", "tool_use", "rag"], r.randint(0, 2)):
            path = folder / "additional_chat_templates" / (name + ".jinja")
            path.write_bytes(a_template(r, "folder " + name).encode())


def by_transformers(folder, tools, prompt):
    from transformers import AutoTokenizer
    try:
        t = AutoTokenizer.from_pretrained(folder)
    except Exception as e:  # it can't do without a token of that class, or the like
        return {"closed": str(e)}
    try:
        return {"text": t.apply_chat_template(MESSAGES, tools=tools, add_generation_prompt=prompt, tokenize=False)}
    except Exception as e:  # whatever it is, it has no text
        return {"error": "%s: %s" % (type(e).__name__, e)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("--directories", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--show", type=int, default=5)
    a = p.parse_args()
    r = random.Random(a.seed)
    snug = subprocess.Popen([a.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    texts = errors = closed = wrong = 0
    for i in range(a.directories):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write(folder, r)
            for tools in (None, [], TOOLS):
                prompt = r.random() < 0.5
                line = {"directory": name, "messages": MESSAGES, "tools": tools, "prompt": prompt}
                snug.stdin.write(json.dumps(line, ensure_ascii=r.random() < 0.5) + "\n")
                snug.stdin.flush()
                ours, theirs = json.loads(snug.stdout.readline()), by_transformers(folder, tools, prompt)
                texts += "text" in theirs
                errors += "error" in theirs
                closed += "closed" in theirs
                if "closed" in theirs or ours.get("text") == theirs.get("text"):
                    continue
                wrong += 1
                if wrong <= a.show:
                    print("directory %d, tools %s:\n  snug         %r\n  transformers %r" % (i, tools, ours, theirs))
                    for file in sorted(folder.glob("*.json")):
                        if file.name.startswith(("tokenizer_config", "special")):
                            print("  %s: %s" % (file.name, file.read_text()[:3000]))
    print("%d texts, %d that transformers refuses, %d differ; %d whose tokenizer it does not open"
          % (texts, errors, wrong, closed))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
