#!/usr/bin/env python3
"""Snapshots for pages: with hostile names, and with more events than a page can show."""
import pickle
import sys


def frames(name, file, own="forward"):
    return [{"name": name, "filename": file, "line": 7},
            {"name": own, "filename": "/home/secret/model.py", "line": 3},
            {"name": "_call_impl", "filename": "torch/nn/modules/module.py", "line": 9}]


def event(action, address, size, stack, time):
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time, "frames": stack}


def write(path, trace, sizes):
    blocks = [{"address": a, "size": s, "requested_size": s, "state": "active_allocated", "frames": []}
              for a, s in sorted(sizes.items())]
    segments = [{"device": 0, "address": 1 << 20, "total_size": 1 << 36, "stream": 0, "segment_type": "large",
                 "allocated_size": 0, "active_size": 0, "blocks": blocks}]
    with open(path, "wb") as f:
        pickle.dump({"segments": segments, "device_traces": [trace]}, f)


def hostile(path):
    names = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\u202egnp.secret",
             "a\x1b[2Jb\x00c",
             "]]><!--", "\"'><svg/onload=alert(1)>", "&lt;script&gt;",
             "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")]
    trace = [event("alloc", 4096 * (i + 1) + (1 << 20), 4096, frames(n, "/home/secret/" + n + ".py", n), 1000 + i)
             for i, n in enumerate(names)]
    write(path, trace, {4096 * (i + 1) + (1 << 20): 4096 for i in range(len(names))})


def large(path):
    trace, sizes, free = [], {}, []
    for i in range(40000):
        name = ("<%07d" % i) * 12
        address = (1 << 20) + 4096 * i
        size = 512 + 8 * (i * 7919 % 997)
        trace.append(event("alloc", address, size, frames(name, name + ".py"), 10 * i))
        if i % 2:
            trace.append(event("free_requested", address, size, [], 10 * i + 5))
            trace.append(event("free_completed", address, size, [], 10 * i + 6))
        elif i < 20000:
            free.append((address, size))
        else:
            sizes[address] = size
    for k, (address, size) in enumerate(free):
        trace.append(event("free_completed", address, size, [], 3000000 + k))
    write(path, trace, sizes)


{"hostile": hostile, "large": large}[sys.argv[1]](sys.argv[2])
