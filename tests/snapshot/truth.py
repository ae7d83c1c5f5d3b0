#!/usr/bin/env python3
"""What `snug snapshot` takes allocations for, beside what they were: truth.py SNUG FOLDER CASE...

Reads CASE.pickle.gz (or, of a CASE that ends in .trace, CASE.json.gz), and CASE.json or CASE.json.gz
(tools/record_snapshots.py, tools/record_cpu_snapshots.py), and compares at every moment whose tensors were written down
by address. Ends with 1 where more than 2 % of a moment's bytes are wrong, or more than 5 % unknown.

What no role was written down for is right as a temporary or a workspace. What autograd saves was written down in the
last step alone, so elsewhere it is right as an activation too.
"""

import bisect
import gzip
import json
import os
import pickle
import subprocess
import sys

CATEGORY = {"weight": "weights", "buffer": "weights", "gradient": "gradients", "state": "optimizer", "input": "inputs",
            "output": "activations", "saved": "activations"}
WRONG, UNKNOWN = 0.02, 0.05


def ask(snug, path, event):
    done = subprocess.run([snug, "snapshot", path, "--json", "--quiet", "--each", "--at", str(event)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return next(d["each"] for d in json.loads(done.stdout)["devices"] if not d["host"])


def judge(each, moment):
    roles = {address: role for role, _, address, _ in moment["tensors"]}
    watched = "saved" in roles.values()
    sums = {"right": 0, "wrong": 0, "unknown": 0}
    for piece in each:
        role, category = roles.get(piece["address"]), piece["category"]
        if role:
            right = category == CATEGORY[role]
        else:  # batches of earlier steps may still be held, and nobody wrote them down
            right = category in ("temporaries", "workspaces", "inputs") or (not watched and category == "activations")
        verdict = "unknown" if category in ("unknown", "before") else "right" if right else "wrong"
        sums[verdict] += piece["bytes"]
    return sums


def read_moments(path):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)["moments"]
    with gzip.open(path + ".gz", "rb") as file:
        return json.load(file)["moments"]


def read_times(path):
    with gzip.open(path, "rb") as file:
        traces = pickle.load(file)["device_traces"]
    return [e["time_us"] for e in next(t for t in traces if t)]


def main():
    snug, folder, failed = sys.argv[1], sys.argv[2], False
    for case in sys.argv[3:]:
        traced = case.endswith(".trace")
        path = f"{folder}/{case}" + (".json.gz" if traced else ".pickle.gz")
        times = [] if traced else read_times(path)
        for moment in read_moments(f"{folder}/{case.removesuffix('.trace')}.json"):
            event = moment["event"] if "event" in moment else bisect.bisect_right(times, moment["time_us"])
            sums = judge(ask(snug, path, event), moment)
            whole = sum(sums.values())
            bad = sums["wrong"] > WRONG * whole or sums["unknown"] > UNKNOWN * whole
            failed |= bad
            shares = " ".join(f"{key} {value / whole:7.2%}" for key, value in sums.items())
            print(f"{case:14} {moment['what']:26} {shares}{'  too much' if bad else ''}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
