#!/usr/bin/env python3
"""Recordings whose beginning is lost: cut.py SNUG FILE... leaves out the first events of each, at several places, and
asks `SNUG snapshot --json`. The allocator's twin has to begin with what is in use there, and make the segments that
were recorded from there on."""

import gzip
import json
import pickle
import subprocess
import sys

CUTS = 8


def main():
    played = turns = 0
    for path in sys.argv[2:]:
        with gzip.open(path, "rb") as file:
            snapshot = pickle.load(file)
        traces = snapshot["device_traces"]
        number, events = next((i, t) for i, t in enumerate(traces) if t)
        last = max(i for i, e in enumerate(events) if e["action"].startswith("segment_"))
        for cut in range(1, CUTS):
            traces[number] = events[last * cut // CUTS:]
            with open("cut.pickle", "wb") as file:
                pickle.dump(snapshot, file)
            done = subprocess.run([sys.argv[1], "snapshot", "cut.pickle", "--json", "--quiet"], capture_output=True,
                                  text=True)
            assert done.returncode == 0, (path, cut, done.stderr)
            device = next(d for d in json.loads(done.stdout)["devices"] if not d["host"])
            twin = device["twin"]
            assert not twin["not_played"], (path, cut, twin)
            assert twin["reserved_bytes"] == device["reserved"]["bytes"], (path, cut, twin)
            assert not twin["differs_at"] and twin["equal"] == twin["turns"], (path, cut, device["before_bytes"], twin)
            played += device["before_bytes"] > 0
            turns += twin["turns"]
    print(played, "cuts with memory in use,", turns, "turns")
    assert played


if __name__ == "__main__":
    main()
