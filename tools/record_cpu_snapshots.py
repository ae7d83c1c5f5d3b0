#!/usr/bin/env python3
"""Records training steps of PyTorch on the CPU as memory snapshots, with what is known of their tensors:
record_cpu_snapshots.py [FOLDER] [CASE...]

Needs torch and transformers, and no GPU. The profiler says what is allocated and freed, when, and within which calls;
from these FOLDER (tests/snapshot/recorded) gets CASE.pickle.gz, a snapshot as a GPU's recorder would write it with
stacks="all": backward has frames of C++ and none of Python. Of some cases it also gets what the profiler itself writes,
CASE.trace.json.gz, CASE.timeline.json.gz and CASE.timeline.raw.json.gz. CASE.json.gz has the truth beside it, as that
of tools/record_snapshots.py has: at moments the role of each tensor by its address.

What differs from a GPU: sizes are rounded to nothing, there are no segments and no workspaces, and one thread does all.
"""

import bisect
import contextlib
import gzip
import json
import pathlib
import pickle
import sys
import tempfile

import torch
import transformers
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile, record_function

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "snapshot" / "recorded"
CONTEXT = 64
GPT2 = dict(n_embd=96, n_layer=4, n_head=4, n_positions=CONTEXT, vocab_size=512, bos_token_id=None, eos_token_id=None,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager")


# ---- the truth ----

class Truth:
    def __init__(self):
        self.moments, self.saved = [], {}
        self.model = self.optimizer = self.batch = self.output = None

    def known(self):
        model = self.model
        for name, p in model.named_parameters():
            yield "weight", name, p
        for name, b in model.named_buffers():
            yield "buffer", name, b
        for name, p in model.named_parameters():
            yield "gradient", name, p.grad
        names = {p: name for name, p in model.named_parameters()}
        for p, state in self.optimizer.state.items():
            for key, t in state.items():
                yield "state", f"{names.get(p, '')}.{key}", t
        for name, t in self.batch.items():
            yield "input", name, t
        for name, t in (self.output or {}).items():
            yield "output", name, t

    def at(self, what):
        found = {}
        for role, name, t in self.known():
            if torch.is_tensor(t) and t.untyped_storage().nbytes():
                storage = t.untyped_storage()
                found.setdefault(storage.data_ptr(), (role, name, storage.data_ptr(), storage.nbytes()))
        for address, count in self.saved.items():
            if count:
                found.setdefault(address, ("saved", "", address, count))
        with record_function(f"moment {len(self.moments)}"):
            self.moments.append({"what": what, "tensors": [found[a] for a in sorted(found)]})

    def pack(self, t):
        self.saved[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    def watched(self):
        self.saved = {}
        return torch.autograd.graph.saved_tensors_hooks(self.pack, lambda t: t)


# ---- what is trained ----

def train(truth, steps=3, batch=4, checkpointing=False, leaks=False, foreach=True, fused=False):
    torch.manual_seed(1)
    config = transformers.GPT2Config(**GPT2)
    config.use_cache = False
    truth.model = model = transformers.AutoModelForCausalLM.from_config(config)
    model.train()
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    how = {"fused": True} if fused else {"foreach": foreach}
    truth.optimizer = optimizer = torch.optim.AdamW(model.parameters(), **how)
    ids = torch.randint(0, 512, (batch, CONTEXT))
    truth.batch = {"input_ids": ids, "labels": ids.clone()}
    kept = []
    for i in range(steps):
        last = i == steps - 1
        with truth.watched() if last and not checkpointing else contextlib.nullcontext():
            output = model(**truth.batch)
        truth.output = {"loss": output.loss, "logits": output.logits}
        truth.at(f"step {i + 1}, after forward")
        loss, truth.output = output.loss, None
        if leaks:
            kept.append(output.logits.detach()[:, :16].clone())
        del output
        truth.saved = {}
        loss.backward()
        truth.at(f"step {i + 1}, after backward")
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del loss
        truth.at(f"step {i + 1}, after the update")


# ---- events ----

def frames_of(event):
    """The innermost first; those of Python stop where the engine of autograd begins, whose thread has none."""
    found = []
    while event is not None:
        if event.tag == _EventType.TorchOp:
            name = event.name
            if name.startswith("autograd::engine::evaluate_function: "):
                node = name.split(": ", 1)[1]
                where = "torch::autograd::" + ("" if "Accumulate" in node else "generated::") + node + "::apply"
                found.append({"name": where, "filename": "??", "line": 0})
                found.append({"name": "torch::autograd::Engine::evaluate_function", "filename": "??", "line": 0})
                return found
            if not name.startswith(("moment", "Optimizer.")):
                found.append({"name": "at::_ops::" + name.split("::")[-1] + "::call", "filename": "??", "line": 0})
        elif event.tag == _EventType.PyCall:
            site = event.typed[1].callsite
            path = site.file_name
            for mark in ("/site-packages/", "/lib/"):
                path = path.split(mark)[-1]
            found.append({"name": site.function_name, "filename": path.rsplit("/tools/", 1)[-1],
                          "line": site.line_number})
        event = event.parent
    return found


def walk(roots):
    stack = list(roots)
    while stack:
        event = stack.pop()
        yield event
        stack.extend(event.children)


def convert(prof, truth):
    events, cache = [], {}
    notes = []
    for e in walk(prof.profiler.kineto_results.experimental_event_tree()):
        time_us = e.start_time_ns // 1000
        if e.tag == _EventType.Allocation:
            fields = e.typed[1]
            frames = frames_of(e.parent)
            key = tuple((f["name"], f["filename"], f["line"]) for f in frames)
            frames = cache.setdefault(key, frames)
            kind = "alloc" if fields.alloc_size > 0 else "free_completed"
            events.append((e.start_time_ns, {"action": kind, "addr": fields.ptr, "size": abs(fields.alloc_size),
                                             "stream": 0, "time_us": time_us, "frames": frames}))
        elif e.name.startswith("moment "):
            truth.moments[int(e.name.split()[1])]["time_ns"] = e.start_time_ns
        elif e.name.startswith("Optimizer.step#"):
            notes += [("START", e.name, time_us), ("END", e.name, e.end_time_ns // 1000)]
    events.sort(key=lambda pair: pair[0])
    for moment in truth.moments:
        moment["event"] = sum(at <= moment["time_ns"] for at, _ in events)
        del moment["time_ns"]
    unique = {}
    trace = [dict(e, frames=[unique.setdefault(tuple(f.items()), f) for f in e["frames"]]) for _, e in events]
    notes = [{"stage": stage, "name": name, "device": 0, "time_us": at} for stage, name, at in notes]
    return {"segments": [], "device_traces": [trace],
            "external_annotations": sorted(notes, key=lambda n: n["time_us"])}


CASES = {"plain": {}, "first": {"steps": 1}, "checkpointing": {"checkpointing": True}, "half": {"batch": 2},
         "update": {"batch": 1, "checkpointing": True}, "fused": {"batch": 1, "checkpointing": True, "fused": True},

         "leak": {"steps": 5, "leaks": True}, "single": {"foreach": False},
         "traced": {"steps": 2}, "operators": {"steps": 2}}


# Of these the profiler's own files are kept too: the trace, and both memory timelines.
TRACES = {"traced": True, "operators": False}  # with frames of Python


def pack(data, path):
    with gzip.GzipFile(path, "wb", compresslevel=9, mtime=0) as out:
        out.write(data)


def thin(data):
    """Without the calls of Python within which nothing is allocated or freed: most of a trace, and of no use here."""
    trace = json.loads(data)
    times = sorted(e["ts"] for e in trace["traceEvents"] if e["name"] == "[memory]")
    trace["traceEvents"] = [e for e in trace["traceEvents"]
                            if e.get("cat") not in ("python_function", "fwdbwd") or (
                                "dur" in e and bisect.bisect_left(times, e["ts"])
                                < bisect.bisect_right(times, e["ts"] + e["dur"]))]
    return json.dumps(trace).encode()


def export(prof, folder, name):
    with tempfile.TemporaryDirectory() as made:
        trace = pathlib.Path(made) / "trace.json"
        prof.export_chrome_trace(str(trace))
        data = trace.read_bytes()
        pack(thin(data) if TRACES[name] else data, folder / f"{name}.trace.json.gz")
        for form in ("json", "raw.json.gz") if TRACES[name] else ():
            timeline = pathlib.Path(made) / f"timeline.{form}"
            prof.export_memory_timeline(str(timeline), device="cpu")
            data = timeline.read_bytes()
            pack(gzip.decompress(data) if form.endswith(".gz") else data,
                 folder / f"{name}.timeline.{form.removesuffix('.gz')}.gz")


def record(folder, name):
    if name in TRACES:  # what is imported and compiled the first time is no part of it
        train(Truth(), **CASES[name])
    truth = Truth()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=TRACES.get(name, True),
                 record_shapes=True) as prof:
        train(truth, **CASES[name])
    taken = convert(prof, truth)
    with gzip.GzipFile(folder / f"{name}.pickle.gz", "wb", compresslevel=9, mtime=0) as out:
        pickle.dump(taken, out)
    said = {"case": name, "torch": torch.__version__, "settings": CASES[name], "moments": truth.moments}
    text = json.dumps(said, separators=(",", ":")).replace('{"what"', '\n{"what"')
    with gzip.GzipFile(folder / f"{name}.json.gz", "wb", compresslevel=9, mtime=0) as out:
        out.write((text + "\n").encode())
    if name in TRACES:
        export(prof, folder, name)
    print(name, len(taken["device_traces"][0]), "events", (folder / f"{name}.pickle.gz").stat().st_size, "bytes")


def main():
    names = [word for word in sys.argv[1:] if word in CASES]
    folder = pathlib.Path(next((word for word in sys.argv[1:] if word not in CASES), FOLDER))
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name in names or CASES:
        record(folder, name)


if __name__ == "__main__":
    main()
