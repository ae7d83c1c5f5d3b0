#!/usr/bin/env python3
"""Writes tests/text/golden: a small tokenizer of each kind (tokenizer_kinds.py), texts, and what the tokenizers library
makes of them. tests/text/test_tokenizer.c compares.

    tools/tokenizer_goldens.py tests/text/golden

NAME.json is the tokenizer, NAME.jsonl has a case a line: a text, its ids, those with special tokens around them, the
bytes where each of the latter begins and ends (none where the library's are off: tokenizer_compare.py), and their text
without and with special tokens. Needs pip install tokenizers==0.23.3.
"""
import json
import os
import random
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tokenizer_compare
import tokenizer_kinds as kinds

SIZE, HARD = 380, 9


def main(folder):
    os.makedirs(folder, exist_ok=True)
    corpus = "\n".join(kinds.SENTENCES)
    for number, (name, make) in enumerate(kinds.KINDS.items()):
        t = make(kinds.SENTENCES, SIZE)
        t.save(os.path.join(folder, name + ".json"), pretty=False)
        added = [a.content for a in t.get_added_tokens_decoder().values()]
        draw = random.Random(number)
        texts = ["", " ", "  a"] + [draw.choice(kinds.SENTENCES), kinds.SENTENCES[-1], kinds.SENTENCES[-2]]
        hard = (h for h in tokenizer_compare.hard_texts(draw, corpus, added, 40 * HARD) if len(h) < 90)
        texts += [h for h, _ in zip(hard, range(HARD))]
        with open(os.path.join(folder, name + ".jsonl"), "w", encoding="utf-8") as out:
            for text in texts:
                special = t.encode(text).ids
                case = {
                    "text": text,
                    "ids": t.encode(text, add_special_tokens=False).ids,
                    "special": special,
                    "spans": tokenizer_compare.flat_spans(t, text),
                    "decoded": t.decode(special, skip_special_tokens=True),
                    "whole": t.decode(special, skip_special_tokens=False),
                }
                print(json.dumps(case, ensure_ascii=False, separators=(",", ":")), file=out)


if __name__ == "__main__":
    main(sys.argv[1])
