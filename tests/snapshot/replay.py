#!/usr/bin/env python3
"""What a memory snapshot says, by another reader: replay.py SNUG FILE... asks `SNUG snapshot FILE --json` for each and
compares peak, moment, bytes at the end and bytes by stack with Python's own pickle and a replay of the events."""

import collections
import gzip
import json
import pickle
import subprocess
import sys


def load(path):
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with (gzip.open if packed else open)(path, "rb") as file:
        return pickle.load(file)


def stack_of(where):
    frames = [(f["name"], f["filename"], f["line"]) for f in where.get("frames", [])]
    said = where.get("user_metadata", "")
    return tuple([(said, "", 0)] if said else []) + tuple(frames)


def blocks_of(snapshot, device):
    """address: (bytes, stack) of what is in use at the end"""
    found = {}
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"] if segment.get("device", 0) == device else ():
            told = block.get("history", [block])[0]
            size = told.get("real_size", block.get("requested_size", block["size"]))
            if block["state"] != "inactive":
                found[block.get("address", address)] = (size, stack_of(told))
            address += block["size"]
    return found


def replay(snapshot, device):
    live, before, level, top, at, time = {}, {}, 0, 0, 0, None
    events = snapshot["device_traces"][device]
    for i, e in enumerate(events, 1):
        if e["action"] == "alloc":
            live[e["addr"]] = (e["size"], stack_of(e))
            level += e["size"]
        elif e["action"] in ("free", "free_completed"):
            if e["addr"] in live:
                level -= live.pop(e["addr"])[0]
            else:
                before[i] = (e["size"], ())
                level -= e["size"]
        if level > top:
            top, at, time = level, i, e.get("time_us")
    for address, block in blocks_of(snapshot, device).items():
        if address not in live:
            before[address, "stays"] = block
    base = sum(size for size, _ in before.values())
    return {"peak": base + top, "event": at, "time_us": time, "end": base + level, "before": base,
            "stacks": at_peak(events, at, before)}


def at_peak(events, at, before):
    live = {key: block for key, block in before.items() if isinstance(key, tuple) or key > at}
    for e in events[:at]:
        if e["action"] == "alloc":
            live[e["addr"]] = (e["size"], stack_of(e))
        elif e["action"] in ("free", "free_completed"):
            live.pop(e["addr"], None)
    sums = collections.Counter()
    for size, stack in live.values():
        sums[stack] += size
    return dict(sums)


def compare(snug, path):
    done = subprocess.run([snug, "snapshot", path, "--json", "--quiet"], capture_output=True, text=True)
    assert done.returncode == 0, f"{path}: {done.stderr}"
    snapshot = load(path)
    for device in json.loads(done.stdout)["devices"]:
        if device["host"]:
            continue
        want = replay(snapshot, device["device"])
        have = {"peak": device["peak"]["bytes"], "event": device["peak"]["event"], "time_us": device["peak"]["time_us"],
                "end": device["end_bytes"], "before": device["before_bytes"]}
        for key, value in have.items():
            assert value == want[key] or (key == "time_us" and not want["event"]), (path, key, value, want[key])
        stacks = {tuple((f["name"], f["file"], f["line"]) for f in s["frames"]): s["bytes"] for s in device["stacks"]}
        assert stacks == want["stacks"], (path, "stacks")


def main():
    for path in sys.argv[2:]:
        compare(sys.argv[1], path)


if __name__ == "__main__":
    main()
