#!/usr/bin/env python3
"""Snapshots of unusual schemas, pickled by Python in each protocol: schemas.py SNUG

Writes them to the working directory and compares what `SNUG snapshot --json` says of them with what is true by hand.
"""

import json
import pickle
import subprocess
import sys

FRAME = {"name": "f", "filename": "a.py", "line": 3}
PLAIN = [{"name": "g", "filename": "b.py", "line": 4}]


def event(action, addr, size, time=None, **more):
    e = {"action": action, "addr": addr, "size": size, "stream": 0, **more}
    return e if time is None else {**e, "time_us": time}


def whole(traces, segments=(), **more):
    return {"segments": list(segments), "device_traces": traces, **more}


def block(address, size, state, **more):
    return {"address": address, "size": size, "requested_size": size - 12, "state": state, "frames": PLAIN, **more}


SEGMENT = {"device": 1, "address": 4096, "total_size": 2048, "stream": 0, "segment_type": "small", "frames": [],
           "segment_pool_id": (0, 0), "is_expandable": False, "allocated_size": 512, "active_size": 512}

PRIVATE = dict(SEGMENT, device=0, address=1 << 30, total_size=1 << 22, segment_type="large", segment_pool_id=(0, 1),
               blocks=[block(1 << 30, 1 << 22, "inactive")])


def out_of_memory(size, **more):
    return event("oom", 0, size, device_free=77, **more)


LOOPED = []
LOOPED.append(LOOPED)

CASES = {
    # the second device alone has events; its times fall, and one of its frees is of before
    "second": (whole([[], [event("alloc", 1, 100, 50, frames=PLAIN), event("free_completed", 9, 7, 40),
                           event("alloc", 2, 30, 60)]]),
               [{"device": 1, "events": 3, "peak": 130, "before_bytes": 7, "backward_times": 1,
                 "end_bytes": 130}]),
    # the action of old files, and what is unknown between what is known
    "old": (whole([[event("alloc", 1, 10, unknown={"deep": [[{"x": 1.5}], None, True, -3]}),
                    event("free", 1, 10, nothing=None), event("from_2031", 1, 10), event("alloc", 1, 4)]],
                  later={"a": (1, 2, 3, 4)}),
            [{"device": 0, "events": 4, "peak": 10, "end_bytes": 4, "lost_frees": 0}]),
    # what was said of an allocation stands before its frames
    "said": (whole([[event("alloc", 1, 10, user_metadata="layers.3.mlp", frames=PLAIN)]]),
             [{"device": 0, "peak": 10, "frames": ["layers.3.mlp", "g"]}]),
    # pinned memory of the host, as a list of events and as a list of lists of them
    "host": (whole([[event("alloc", 1, 10)]], host_traces=[event("alloc", 1, 77)]),
             [{"device": 0, "host": False, "peak": 10}, {"host": True, "peak": 77}]),
    "hosts": (whole([[event("alloc", 1, 10)]], host_traces=[[event("alloc", 1, 77)]]),
              [{"device": 0, "host": False, "peak": 10}, {"host": True, "peak": 77}]),
    "shorter": (whole([[event("alloc", 1, 10), event("alloc", 2, 20), event("alloc", 3, 40)]],
                      host_traces=[event("alloc", 1, 77)]),
                [{"device": 0, "host": False, "peak": 70}, {"host": True, "peak": 77}]),
    # no events: as it was when the snapshot was taken
    "still": (whole([[], []], [dict(SEGMENT, blocks=[block(4096, 512, "active_allocated"),
                                                     block(4608, 512, "active_awaiting_free"),
                                                     block(5120, 1024, "inactive")])]),
              [{"device": 1, "events": 0, "peak": 1000, "reserved_bytes": 2048}]),
    # two allocations at one address: the free between them is lost
    "lost": (whole([[event("alloc", 1, 10, 1), event("alloc", 1, 20, 2)]]),
             [{"device": 0, "peak": 20, "lost_frees": 1, "end_bytes": 20}]),
    # a list that holds itself says nothing
    "looped": (whole([[event("alloc", 1, 10, frames=[FRAME])]], strange=LOOPED),
               [{"device": 0, "peak": 10, "frames": ["f"]}]),
    # what was reserved is not known; a request of any size is recorded
    "bare": (whole([[event("alloc", 1, 10), out_of_memory(2**64 - 1)]]),
             [{"device": 0, "oom": ("unknown", None, None, None)}]),
    # a piece of a private pool serves nobody else; one that is large enough is not in pieces
    "private": (whole([[event("alloc", 1, 10), out_of_memory(1 << 21)]], [PRIVATE]),
                [{"device": 0, "oom": ("full", 1 << 22, 0, 1 << 22)}]),
    "enough": (whole([[event("alloc", 1, 10), out_of_memory(1 << 21)]], [dict(PRIVATE, segment_pool_id=(0, 0))]),
               [{"device": 0, "oom": ("unknown", 1 << 22, 1 << 22, 0)}]),
    # and an event that tells of its pool meets what is free there
    "graph": (whole([[event("alloc", 1, 10), out_of_memory(6 << 20, pool_id=(0, 1))]], [PRIVATE]),
              [{"device": 0, "oom": ("full", 1 << 22, 1 << 22, 0), "private": True}]),
    "other": (whole([[event("alloc", 1, 10), out_of_memory(6 << 20, pool_id=(0, 4))]], [PRIVATE]),
              [{"device": 0, "oom": ("full", 1 << 22, 0, 1 << 22), "private": True}]),
    # what was said of an allocation is put before all its frames, however many there are
    "said": (whole([[event("alloc", 1, 10, frames=[dict(FRAME, line=i) for i in range(3000)], user_metadata="m")]]),
             [{"device": 0, "frames": ["m"] + 3000 * ["f"]}]),
    # addresses of 64 bits, and more streams than one
    "large": (whole([[event("alloc", 2**64 - 4096, 10, stream=2**63), event("free_completed", 2**64 - 4096, 10)]]),
              [{"device": 0, "peak": 10, "end_bytes": 0}]),
}

WRONG = {
    "bytes": (whole([[event("alloc", 1, 10, blob=b"raw")]]), "raw bytes"),
    "wide": (whole([[event("alloc", 1 << 70, 10)]]), "a number of more than 64 bits"),
    "huge": (whole([[event("alloc", 1, 1 << 41)]]), "more than any device has"),
    "segment": (whole([[event("alloc", 1, 10)]], [dict(PRIVATE, total_size=1 << 40)]), "more than any device has"),
    "turn": (whole([[event("segment_alloc", 1, (1 << 64) - 1)]]), "more than any device has"),
    "behind": (whole([[event("segment_alloc", (1 << 64) - 4096, 8192)]]), "ends behind the last address"),
    "object": (whole([[event("alloc", 1, 10, kind=complex(1, 2))]]), "it would import a name and run code"),
    "mixed": (whole([[event("alloc", 1, 10), 17]]), "a list of events holds other things"),
    "nothing": (whole([[], []]), "neither events nor memory in use"),
}


def run(snug, path):
    return subprocess.run([snug, "snapshot", path, "--json", "--quiet"], capture_output=True, text=True)


def look(device, key):
    if key == "peak":
        return device["peak"]["bytes"]
    if key == "frames":
        return [f["name"] for f in device["stacks"][0]["frames"]]
    if key == "private":
        return device["out_of_memory"][0]["in_private_pool"]
    if key == "oom":
        oom = device["out_of_memory"][0]
        return oom["cause"], oom["reserved_bytes"], oom["free_bytes"], oom["private_pools_bytes"]
    return device[key]


def main():
    snug = sys.argv[1]
    for protocol in (2, 3, 4, 5):
        for name, (snapshot, wanted) in CASES.items():
            path = f"{name}-{protocol}.pickle"
            with open(path, "wb") as file:
                pickle.dump(snapshot, file, protocol)
            done = run(snug, path)
            assert done.returncode == 0, (path, done.stderr)
            devices = json.loads(done.stdout)["devices"]
            assert len(devices) == len(wanted), (path, devices)
            for device, want in zip(devices, wanted):
                for key, value in want.items():
                    assert look(device, key) == value, (path, key, look(device, key), value)
        for name, (snapshot, sentence) in WRONG.items():
            path = f"wrong-{name}-{protocol}.pickle"
            with open(path, "wb") as file:
                pickle.dump(snapshot, file, protocol)
            done = run(snug, path)
            said = done.stderr.replace("\n", " ")
            right = sentence in said or (name == "bytes" and protocol == 2 and "it would import" in said)
            assert done.returncode == 2 and right and path in said, (path, done.returncode, said)


if __name__ == "__main__":
    main()
