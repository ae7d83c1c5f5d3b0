#!/usr/bin/env python3
"""Snapshots of an allocator that follows PyTorch's notes on memory management, written here anew: allocator.py SNUG
plays random requests through it, with max_split_size_mb or without, on a device that becomes full, in private pools
and on several streams, and asks `SNUG snapshot --json` whether its twin makes the same segments."""

import json
import pickle
import random
import subprocess
import sys

MIB = 1 << 20


class Full(Exception):
    pass


class Allocator:
    def __init__(self, rng, limit=None, split=None):
        self.rng, self.limit, self.split = rng, limit, split
        self.segments, self.lowest, self.events = {}, 1 << 46, []  # address: (bytes, key, [[address, bytes, taken]])

    def record(self, action, address, size, key):
        stream, pool = key[:2]
        self.events.append({"action": action, "addr": address, "size": size, "stream": stream, "pool_id": (0, pool),
                            "time_us": len(self.events) + 1, "frames": []})

    def free_blocks(self, key):
        found = []
        for address, (size, owner, blocks) in self.segments.items():
            if owner == key:
                found += [(b[1], b[0], address) for b in blocks if not b[2]]
        return sorted(found)

    def suits(self, size, block, key):
        if self.split is None or key[2]:
            return True
        return block < self.split if size < self.split else block < size + 20 * MIB

    def release(self, address):
        size, key, _ = self.segments.pop(address)
        self.record("segment_free", address, size, key)

    def release_unsplit(self, size, key):
        wants = max(size, self.split)
        free = self.free_blocks(key)
        enough = [b for b in free if b[0] >= wants]
        if enough:
            self.release(enough[0][2])
            return
        done = 0
        for block, _, segment in reversed(free):
            if done >= wants or block < self.split:
                return
            done += block
            self.release(segment)

    def release_all(self):
        for address, (_, key, blocks) in list(self.segments.items()):
            if len(blocks) == 1 and not blocks[0][2] and key[1] == 0:
                self.release(address)

    def has_room(self, size):
        return self.limit is None or sum(s[0] for s in self.segments.values()) + size <= self.limit

    def new_segment(self, size, key):
        whole = 2 * MIB if key[2] else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        if not self.has_room(whole) and self.split is not None and not key[2]:
            self.release_unsplit(size, key)
        if not self.has_room(whole):
            self.release_all()
        if not self.has_room(whole):
            self.record("oom", 0, size, key)
            raise Full
        self.lowest -= whole
        self.segments[self.lowest] = (whole, key, [[self.lowest, whole, False]])
        self.record("segment_alloc", self.lowest, whole, key)
        return whole, self.lowest, self.lowest

    def take(self, asked, stream, pool):
        size = max(512, -(-asked // 512) * 512)
        key = (stream, pool, size <= MIB)
        found = next((b for b in self.free_blocks(key) if b[0] >= size), None)
        if found is None or not self.suits(size, found[0], key):
            found = self.new_segment(size, key)
        block, address, segment = found
        blocks = self.segments[segment][2]
        i = next(i for i, b in enumerate(blocks) if b[0] == address)
        left = block - size
        splits = left >= 512 if key[2] else left > MIB and (self.split is None or size < self.split)
        blocks[i][2] = True
        if splits:
            blocks[i][1] = size
            blocks.insert(i + 1, [address + size, left, False])
        self.record("alloc", address, asked, key)
        return address, asked, key, segment

    def give(self, held):
        address, asked, key, segment = held
        blocks = self.segments[segment][2]
        next(b for b in blocks if b[0] == address)[2] = False
        for i in range(len(blocks) - 1, 0, -1):
            if not blocks[i][2] and not blocks[i - 1][2]:
                blocks[i - 1][1] += blocks.pop(i)[1]
        self.record("free_completed", address, asked, key)

    def snapshot(self):
        segments = [{"address": a, "total_size": size, "stream": key[0], "device": 0, "active_size": 0,
                     "segment_type": "small" if key[2] else "large", "segment_pool_id": (0, key[1]),
                     "is_expandable": False, "frames": [],
                     "blocks": [{"address": b[0], "size": b[1], "requested_size": b[1], "frames": [],
                                 "state": "active_allocated" if b[2] else "inactive"} for b in blocks]}
                    for a, (size, key, blocks) in sorted(self.segments.items())]
        settings = {} if self.split is None else {"max_split_size": self.split}
        return {"segments": segments, "device_traces": [self.events], "allocator_settings": settings}


def run(seed):
    rng = random.Random(seed)
    a = Allocator(rng, limit=rng.choice((None, 300 * MIB, 600 * MIB)), split=rng.choice((None, 24 * MIB, 40 * MIB)))
    held = []
    pools = rng.choice(((0,), (0,), (0, 1, 2)))
    for _ in range(rng.randrange(100, 700)):
        if held and rng.random() < 0.48:
            a.give(held.pop(rng.randrange(len(held))))
            continue
        size = rng.choice((rng.randrange(1, 4096), rng.randrange(1, MIB), rng.randrange(MIB, 9 * MIB),
                           rng.randrange(9 * MIB, 60 * MIB)))
        try:
            held.append(a.take(size, rng.choice((0, 0, 7)), rng.choice(pools)))
        except Full:
            break
    return a


def ask(snug, snapshot):
    with open("played.pickle", "wb") as file:
        pickle.dump(snapshot, file)
    done = subprocess.run([snug, "snapshot", "played.pickle", "--json", "--quiet"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["devices"][0]


def main():
    snug, seen = sys.argv[1], {"turns": 0, "given": 0, "split": 0, "pools": 0, "cut": 0}
    for seed in range(120):
        a = run(seed)
        snapshot = a.snapshot()
        if seed % 3 == 2:  # what is in use at the beginning, where no request is halfway
            first = len(a.events) // 3
            while first and a.events[first - 1]["action"].startswith("segment"):
                first += 1
            snapshot["device_traces"][0] = a.events[first:]
        device = ask(snug, snapshot)
        twin, turns = device["twin"], [e for e in snapshot["device_traces"][0] if e["action"].startswith("segment")]
        if not turns:
            continue
        assert twin["not_played"] is None, (seed, twin)
        assert twin["turns"] == len(turns) == twin["equal"] and not twin["differs_at"], (seed, a.split, a.limit, twin)
        assert twin["reserved_bytes"] == device["reserved"]["bytes"], (seed, twin)
        seen["turns"] += len(turns)
        seen["given"] += sum(e["action"] == "segment_free" for e in turns)
        seen["split"] += a.split is not None
        seen["pools"] += any(e["pool_id"] != (0, 0) for e in turns)
        seen["cut"] += device["before_bytes"] > 0
    print(seen)
    assert all(seen.values())


if __name__ == "__main__":
    main()
