#!/usr/bin/env python3
"""Runs `snug explain-oom` over real messages: messages.py [--snug PATH] [--aside | --late N] [--each]

messages.jsonl holds them, one a line: `id`, `source` (the thread's address), `backend`, `message` (as it was pasted,
folders shortened, with the lines of the traceback that tell where; the rest is cut, and a line that begins with # is
the thread's title),
`cause` (one of CAUSES: what it was; `unsaid` where nothing in the message could show it), `known` (`thread`: somebody
in the thread found or said it; `message`: numbers and traceback say it, read by a person) and `reason`.

A third is kept aside: where sha256(source) is divisible by three. It was opened once, after the first rules were
committed, and no rule is made from it; but who made the rules had read its messages while gathering them.
`late` are those that were gathered after rules were committed, and opened once then: 1 after the rules that the
third aside judged, 2 after what 1 taught, 3 after what 2 taught, 4 after that too (a commit of their own has them,
made before the program was run on them). Rules were made of 1 and 2, and of 3 and 4 together once 4 had been
opened. 5 were gathered after those rules and committed in the same way; rules were made of them then. 6 were
gathered and committed in the same way after those, and more of them than of the others are a title or a sentence
alone; rules were made of them too, and 7 came after those in the same way. --aside and --late compare these;
without either the rest is compared, from which rules are made.
--each prints the messages whose answer was wrong or without evidence.

A claim is an answer that is given as sure. It is without evidence where the message lacks what EVIDENCE asks for its
cause: this is read here, and not by the program that is judged."""

import argparse
import collections
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CAUSES = ("full optimizer attention loss validation saving loading leak too-large fragmented others limit outside "
          "cache host shm unsaid").split()
UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "E": 1 << 60}
SIZE = r"([\d.]+)\s*([BKMGTE])i?B?(?:ytes|ytes?)?"


def size(pattern, text):
    found = re.search(pattern, text, re.IGNORECASE | re.DOTALL)
    return float(found[1]) * UNITS[found[2].upper()] if found else None


def numbers(text):
    """What PyTorch says it has, in bytes; None: not said."""
    n = {"tried": size(r"tried to allocate " + SIZE, text),
         "total": size(r"total capac\w*\s+of\s+" + SIZE, text) or size(SIZE + r"\s+total capacity", text),
         "free": size(r"of which " + SIZE, text) or size(SIZE + r"\s+free", text),
         "allocated": (size(r"of\s+the\s+allocated\s+memory\s+" + SIZE, text) or
                       size(SIZE + r"\s+already\s+allocated", text)),
         "pieces": size(SIZE + r"\s+is\s+reserved\s+by\s+PyTorch\s+but", text) or size(SIZE + r"\s+cached", text),
         "reserved": size(SIZE + r"\s+reserved\s+in\s+total", text)}
    if re.search(r"\b0 bytes( is)? free", text):
        n["free"] = 0.0
    if n["reserved"] is not None and n["allocated"] is not None:
        n["pieces"] = n["reserved"] - n["allocated"]
    return n


def unaccounted(n):
    known = [n[key] for key in ("total", "free", "allocated", "pieces")]
    return 0 if None in known else known[0] - sum(known[1:])


def of_others(text):
    n = numbers(text)
    if re.search(r"free memory on device|other processes|other allocations", text, re.IGNORECASE):
        return True
    free, total = size("Free memory: " + SIZE, text), size("Total memory: " + SIZE, text)
    if free and total:
        return free < total / 2
    return len(re.findall(r"Process \d+ has", text)) > 1 or unaccounted(n) > 1.5 * UNITS["G"]


def in_pieces(text):
    n = numbers(text)
    if None not in (n["tried"], n["free"], n["pieces"]):
        return n["pieces"] >= n["tried"] * 0.99 and n["tried"] > n["free"]  # two digits behind the point
    return bool(re.search(r"reservable", text))


def limited(text):
    n = numbers(text)
    more = None not in (n["tried"], n["free"]) and n["free"] >= n["tried"]
    return more or bool(re.search(r"[\d.]+ [KMGT]iB allowed", text))


def too_large(text):
    n = numbers(text)
    more = None not in (n["tried"], n["total"]) and n["tried"] > n["total"]
    return more or bool(re.search(r"Exceeded hbm capacity", text))


def says(pattern):
    return lambda text: bool(re.search(pattern, text, re.IGNORECASE))


EVIDENCE = {
    "full": says(r"total capac|already\s+allocated|max allowed|total allocation|free[.,]|compute.*buffers|"
                 r"warming up|Currently allocated|OOM when allocating"),
    "optimizer": says(r"optim|exp_avg"),
    "attention": says(r"att(entio)?n|softmax|query|key_states"),
    "loss": says(r"cross_entropy|logits|log_?prob|log_softmax|lm_head|loss"),
    "validation": says(r"eval|valid|predict|pad_and_concatenate"),  # the Trainer joins predictions by it
    "saving": says(r"sav(e|ing)|state_dict"),
    "loading": says(r"load|\.to\(|deserialize|prepare_model|backend buffer|allocate CUDA"),
    "leak": says(r"leak|after \d+|grow|increas"),
    "too-large": too_large,
    "fragmented": in_pieces,
    "others": of_others,
    "limit": limited,
    "outside": says(r"nccl|cublas|cudnn|ALLOC_FAILED"),
    "cache": says(r"KV cache|cache blocks|kv.cache|increase --mem-fraction-static"),
    "host": says(r"CPUAllocator|oom.?kill|Killed|exitcode: -9|SIGKILL|PBS|paging file|host|MemoryError|out.of.memory "
                 r"handler|bad_alloc|allocator cpu|not enough memory: you tried|137|resource: memory|oom_reaper"),
    "shm": says(r"bus error|shm|shared memory"),
}


def is_aside(row):
    return int(hashlib.sha256(row["source"].encode()).hexdigest(), 16) % 3 == 0


def answer(snug, row):
    done = subprocess.run([snug, "explain-oom", "-", "--json", "--quiet"], input=row["message"], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        return {"cause": None, "sure": False}
    return json.loads(done.stdout)


def judged(snug, rows):
    for row in rows:
        said = answer(snug, row)
        cause = said["cause"]
        row["said"], row["sure"] = cause, said["sure"]
        row["right"] = cause == row["cause"]
        row["bare"] = bool(said["sure"] and cause in EVIDENCE and not EVIDENCE[cause](row["message"]))
        row["wrong"] = said["sure"] and not row["right"]
        row["unread"] = cause is None
        yield row


def line(name, rows):
    right, told = sum(row["right"] for row in rows), [row for row in rows if row["known"] == "thread"]
    of_told = f"{sum(row['right'] for row in told)} of {len(told)}"
    counts = [sum(row[key] for row in rows) for key in ("sure", "wrong", "bare", "unread")]
    return f"| {name} | {len(rows)} | {right} | {right / len(rows):.0%} | {of_told} | {' | '.join(map(str, counts))} |"


def table(rows):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["backend"]].append(row)
    head = ["| backend | messages | right cause first | | of those that a thread settled | sure "
            "| sure and wrong | sure without evidence | not read |", "|---|---|---|---|---|---|---|---|---|"]
    return head + [line(name, groups[name]) for name in sorted(groups)] + [line("all", rows)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snug", default=shutil.which("snug") or "snug")
    parser.add_argument("--aside", action="store_true", help="the third that is kept aside")
    parser.add_argument("--late", type=int, default=0, help="1 to 7: those gathered after rules were made")
    parser.add_argument("--each", action="store_true", help="what was wrong")
    args = parser.parse_args()
    with open(HERE / "messages.jsonl", encoding="utf-8") as lines:
        rows = [json.loads(text) for text in lines]
    wrong = [row["id"] for row in rows if row["cause"] not in CAUSES]
    if wrong:
        sys.exit(f"no such cause: {wrong}")
    chosen = [row for row in rows if row.get("late", 0) == args.late and (args.late or is_aside(row) == args.aside)]
    rows = list(judged(args.snug, chosen))
    print("\n".join(table(rows)))
    for row in rows:
        if args.each and (not row["right"] or row["bare"]):
            print(f"{row['id']}: {row['cause']}, said {row['said']}{'' if row['sure'] else ' (not sure)'}"
                  f"{', without evidence' if row['bare'] else ''}")


if __name__ == "__main__":
    main()
