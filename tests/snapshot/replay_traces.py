#!/usr/bin/env python3
"""What the profiler's traces and memory timelines say, by another reader: replay_traces.py SNUG FILE... asks
`SNUG snapshot FILE --json` for each, and compares the peak, its moment, bytes at the end, those of each category or of
each stack with Python's own reader of JSON, a replay, and a look for the calls that enclose each allocation."""

import collections
import gzip
import json
import re
import subprocess
import sys

# In the order of the profiler's colors.
CATEGORIES = ("weights", "optimizer", "inputs", "temporaries", "activations", "gradients", "temporaries", "unknown")


def load(path):
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with (gzip.open if packed else open)(path, "rb") as file:
        return json.load(file)


def ask(snug, path):
    done = subprocess.run([snug, "snapshot", path, "--json", "--quiet"], capture_output=True, text=True)
    assert done.returncode == 0, f"{path}: {done.stderr}"
    return json.loads(done.stdout)


def check(path, have, want):
    for key, value in want.items():
        assert have[key] == value, (path, key, have[key], value)


# ---- traces ----

def changes_of(trace):
    """by device: (nanoseconds, bytes, address, thread, total)"""
    found = collections.defaultdict(list)
    for e in trace["traceEvents"] if isinstance(trace, dict) else trace:
        if e["name"] != "[memory]":
            continue
        a = e["args"]
        kind = a["Device Type"]
        device = ("cpu", -1) if kind == 0 else ("cuda", a["Device Id"])
        found[device].append((round(e["ts"] * 1000), a["Bytes"], a["Addr"], e["tid"], a["Total Allocated"]))
    return {device: sorted(rows, key=lambda row: row[0]) for device, rows in found.items()}


def replay(rows, is_cpu):
    live, level, top, at, freed, alive = {}, 0, 0, 0, 0, {}
    for i, (time, count, address, thread, _) in enumerate(rows, 1):
        if count >= 0:
            level += count - live.pop(address, (0,))[0]
            live[address] = (count, time, thread)
        elif address in live:
            level -= live.pop(address)[0]
        else:
            freed -= count
            level += count
        if level > top:
            top, at, alive = level, i, dict(live)
    # Of the CPU the profiler's total is no evidence of what was there before.
    base = freed if is_cpu else max(freed, rows[0][4] - rows[0][1])
    return {"bytes": base + top, "event": at, "time_us": rows[max(at, 1) - 1][0] // 1000}, base, base + level, alive


def frame_of(call):
    """(name, file, line), and whether it has lines"""
    name = call["name"]
    if call["cat"] == "python_function":
        name = re.sub(r" at 0x.*", ">", name) if name.startswith("<") else name
        module = re.fullmatch(r"(nn\.Module: .*)_\d+", name)
        code = re.fullmatch(r"(.*?)\((\d+)\): (.*)", name)
        if module:
            return (module.group(1), "??", 0), False
        if code:
            return (code.group(3), code.group(1), int(code.group(2))), True
        return (name, "??", 0), False
    own = call["cat"] == "cpu_op" or name.startswith(("Optimizer.", "enumerate(DataLoader)#"))
    return (name, "??" if own else "", 0), False


def stack_at(calls, time, thread):
    enclosing = [c for c in calls if c["tid"] == thread and c["from"] <= time <= c["to"]]
    enclosing.sort(key=lambda c: (c["from"], -c["to"]))
    frames, line = [], 0
    for c in reversed(enclosing):
        (name, file, first), lines = frame_of(c)
        frames.append((name, file, line if lines and line else first))
        site = c.get("args", {}).get("CallFrom", "")
        from_line = int(site.rsplit(":", 1)[1]) if site else 0
        if lines or from_line:
            line = from_line
    return tuple(frames)


def compare_trace(path, trace, said):
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    kinds = ("cpu_op", "user_annotation", "python_function")
    calls = [e for e in events if e.get("ph") == "X" and e.get("cat") in kinds
             and not e["name"].startswith(("ProfilerStep#", "PyTorch Profiler"))]
    for c in calls:
        c["from"] = round(c["ts"] * 1000)
        c["to"] = c["from"] + round(c["dur"] * 1000)
    for (kind, number), rows in changes_of(trace).items():
        peak, base, end, alive = replay(rows, kind == "cpu")
        device = next(d for d in said["devices"] if (d["type"], d["device"]) == (kind, number))
        check(path, device["peak"], peak)
        check(path, device, {"before_bytes": base, "end_bytes": end, "events": len(rows)})
        want = collections.Counter()
        for count, time, thread in alive.values():
            want[stack_at(calls, time, thread)] += count
        stacks = {tuple((f["name"], f["file"], f["line"]) for f in s["frames"]): s["bytes"] for s in device["stacks"]}
        differ = {s: (b, want.get(s)) for s, b in stacks.items() if s and b != want.get(s)}
        differ.update({s: (stacks.get(s), b) for s, b in want.items() if s and b != stacks.get(s)})
        assert not differ, (path, differ)


# ---- timelines ----

def compare_timeline(path, timeline, said):
    """[times, sizes], or rows of (time, action, bytes, category)"""
    device = said["devices"][0]
    sizes, raw = [0] * 8, not (len(timeline) == 2 and all(isinstance(row, list) for row in timeline[1]))
    top, at_top, when = 0, list(sizes), 0
    rows = timeline if raw else zip(*timeline)
    for i, row in enumerate(rows, 1):
        if raw:
            sizes[row[3]] += row[2]
            time = max(row[0], 0) // 1000
        else:
            time, sizes = row[0], row[1][1:]
        if sum(sizes) > top:
            top, at_top, when, event = sum(sizes), list(sizes), time, i
    by = collections.Counter()
    for category, count in zip(CATEGORIES, at_top):
        by[category] += count
    check(path, device["peak"], {"bytes": top, "time_us": when})
    if raw:
        check(path, device["peak"], {"event": event})
    check(path, device, {"end_bytes": sum(sizes)})
    have = {key: value for key, value in device["peak"]["by_category"].items() if value}
    assert have == {key: value for key, value in by.items() if value}, (path, have, by)


def main():
    for path in sys.argv[2:]:
        said, data = ask(sys.argv[1], path), load(path)
        timeline = isinstance(data, list) and isinstance(data[0], list)
        assert said["form"] == ("timeline" if timeline else "trace"), path
        (compare_timeline if timeline else compare_trace)(path, data, said)


if __name__ == "__main__":
    main()
