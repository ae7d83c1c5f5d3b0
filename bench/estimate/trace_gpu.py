#!/usr/bin/env python3
"""Traces where memory of a GPU goes in PyTorch, and writes what was recorded.

trace_gpu.py record FILE.gz [WORD...]           points whose name holds all WORDs (A|B: one of them); -WORD: does not
trace_gpu.py report --files FILE.gz... >CSV     what trace_gpu.csv holds
trace_gpu.py show --files FILE.gz... [WORD...]  the same to read, and more
trace_gpu.py replay --files FILE.gz...          the same calls by the rules of src/estimate/torch/allocator.c

Models, options and steps are those of measure_gpu.py, whose functions are used; EXTRA has what it has no option for.
Needs what measure_gpu.py needs. Each point has a process of its own; several run at once, for each has an allocator of
its own, but not where times decide (cuDNN's benchmark).

What is recorded: every allocation from the first on, with Python's and C++'s frames (torch.cuda.memory, symbols by
dladdr, so names of ops and of autograd's nodes are there in backward too); the peaks of each step; after a forward
more, which node of autograd's graph keeps which block; and in a last step each op with the shapes it makes and what it
took while it ran (a TorchDispatchMode, which changes some gradients' formulas, so it is asked for shapes alone).
"""

import argparse
import bisect
import collections
import contextlib
import csv
import gc
import gzip
import json
import multiprocessing
import os
import pathlib
import re
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
os.environ["TORCH_SYMBOLIZE_MODE"] = "dladdr"
STEPS, MIB, AT_ONCE, MEMORY = 3, 1 << 20, 10, 72 << 30

# Beside measure_gpu.py's points: model, sizes and options; after a bar what else is done.
TEXT, SMALL = "--batch 4 --context 256", ("bert", "distilbert", "gpt2", "gpt_neox", "llama-grouped", "phi", "t5")
EXTRA = [
    *(f"models/resnet.json --batch 4 {way} | cudnn.benchmark"
      for way in ("--dtype float32 --optimizer-kernels foreach", "--dtype autocast --optimizer-kernels foreach")),
    *(f"resnet-50 --batch {batch} --dtype {dtype}{beside}" for batch in (64, 256)
      for dtype in ("float32", "autocast", "half") for beside in ("", " | cudnn.benchmark")),
    *(f"resnet-50 --batch 64 --dtype {dtype} | {beside}" for dtype, beside in (
        ("float32", "channels_last"), ("autocast", "channels_last"), ("float32", "no tf32"))),
    "convnext-tiny --batch 64 --dtype float32", "convnext-tiny --batch 64 --dtype autocast",
    "convnext-tiny --batch 64 --dtype autocast | cudnn.benchmark",
    *(f"{model} --batch {batch} --context {context} --dtype {dtype} | {beside}"
      for model, batch, context in (("models/gpt2.json", 4, 256), ("gpt2", 8, 1024)) for dtype in ("autocast", "half")
      for beside in ("set_to_none=False", "save, load to cuda, load to cpu", "resume from cuda", "resume from cpu",
                     "validate, generate", "alone: validate, generate")),
    *(f"models/llama-grouped.json {TEXT} --dtype {dtype} | {beside}" for dtype in ("autocast", "half")
      for beside in ("validate, generate", "alone: validate, generate")),
    *(f"models/{name}.json {TEXT} --dtype {way}" for name in SMALL
      for way in ("autocast --attn eager", "half", "autocast --gradient-checkpointing")),
    *(f"models/{name}.json {TEXT} --dtype {dtype} | {beside}" for name in ("bert", "gpt2", "llama-grouped")
      for dtype in ("float32", "half") for beside in ("padding", "no cudnn attention")),
    *(f"{what} | no cudnn attention" for what in (
        "gpt2 --batch 8 --context 1024 --dtype autocast", "tinyllama-1.1b --batch 4 --context 2048 --dtype half",
        "t5-base --batch 8 --context 512 --dtype half")),
    "bert-base --batch 32 --context 512 --dtype autocast --attn eager",
    "bert-base --batch 32 --context 512 --dtype half --attn eager",
    "bert-base --batch 32 --context 512 --dtype half | padding",
]


def all_points(m, device):
    for model, options, beside in m.points(device):
        if not any(w in beside for w in ("compile", "LOADING")):
            yield model, options, beside
    for line in EXTRA:
        what, _, beside = line.partition(" | ")
        model, _, options = what.partition(" ")
        yield model, f"--device {device} {options}", beside


# ---- frames ----

BORING = re.compile(r"(nn/modules/module\.py|_compile\.py|autograd/(graph|__init__)\.py|torch/_tensor\.py|_dynamo/|"
                    r"utils/(generic|output_capturing|deprecation|_contextlib)\.py|trace_gpu\.py|multiprocessing/|"
                    r"container\.py|torch/cuda/|_contextlib\.py|autocast_mode\.py)")
OP = re.compile(r"at::_ops::(\w+)::(?:call|redispatch)")
NODE = re.compile(r"(?:generated::)?(\w+)::apply\(")


def short(filename, line, name):
    """What a frame says, or nothing."""
    if filename.endswith(".py"):
        return None if BORING.search(filename) else f"{pathlib.PurePath(filename).name}:{line}:{name}"
    if name == "??" or name.startswith(("Py", "_Py", "__libc", "_start", "start_thread", "clone")):
        return None
    found = OP.search(name)
    if found:
        return f"op {found[1]}"
    if "autograd" in name:
        found = NODE.search(name)
        if found:
            return f"node {found[1]}"
        if "InputBuffer" in name:
            return "InputBuffer"
        return "engine" if "Engine::" in name else None
    if "unwind" in name or "CapturedTraceback" in name or "c10::impl::" in name or "TorchDispatch" in name:
        return None
    name = re.sub(r"<[^()]*>", "", name.split("(")[0])
    return f"c {name[-60:]}" if any(w in name for w in ("at::", "c10::cuda", "cudnn", "cublas", "pytorch_")) else None


class Stacks:
    """Each stack once."""

    def __init__(self):
        self.said, self.index = {}, {}

    def add(self, frames):
        out = []
        for f in frames:
            key = f["filename"], f["line"], f["name"]
            if key not in self.said:
                self.said[key] = short(*key)
            word = self.said[key]
            if word and (not out or out[-1] != word):
                out.append(word)
        return self.index.setdefault(tuple(out[:24]), len(self.index))


# ---- recording ----

COUNTERS = ("allocated_bytes", "requested_bytes", "reserved_bytes")


class Recorder:
    def __init__(self, torch, dry):
        self.torch, self.dry, self.marks = torch, dry, []

    def stats(self):
        return collections.defaultdict(int, {} if self.dry else self.torch.cuda.memory_stats())

    def start(self):
        if not self.dry:
            self.torch.cuda.init()
            self.torch.cuda.memory._record_memory_history(context="alloc", stacks="all", max_entries=4000000,
                                                          clear_history=True)

    @contextlib.contextmanager
    def mark(self, name):
        """What happens within: its peaks, and the numbers of its first and last allocation."""
        before = self.stats()
        if not self.dry:
            self.torch.cuda.reset_peak_memory_stats()
        yield
        if not self.dry:
            self.torch.cuda.synchronize()
        s = self.stats()
        self.marks.append({"name": name, "allocs": [before["allocation.all.allocated"], s["allocation.all.allocated"]],
                           "before": {c: before[f"{c}.all.current"] for c in COUNTERS},
                           "peak": {c: s[f"{c}.all.peak"] for c in COUNTERS},
                           "after": {c: s[f"{c}.all.current"] for c in COUNTERS},
                           "retries": s["num_alloc_retries"]})

    def events(self, stacks):
        if self.dry:
            return {}
        out = collections.defaultdict(list)
        for e in self.torch.cuda.memory._snapshot()["device_traces"][0]:
            out["action"].append(e["action"])
            out["addr"].append(e["addr"] // 512)
            out["size"].append(e["size"])
            out["stream"].append(e["stream"])
            out["stack"].append(stacks.add(e["frames"]) if e.get("frames") else -1)
        return out

    def live(self, stacks):
        """Blocks: address, bytes asked for, stack."""
        if self.dry:
            return []
        out = []
        for segment in self.torch.cuda.memory._snapshot()["segments"]:
            for b in segment["blocks"]:
                if b["state"] == "active_allocated":
                    out.append((b["address"], b["requested_size"],
                                stacks.add(b["frames"]) if b.get("frames") else -1))
        return out


def saved_by(torch, loss):
    """Address of a storage: which nodes keep it, as what."""
    out, seen, todo = collections.defaultdict(collections.Counter), set(), [loss.grad_fn]

    def note(node, what, value):
        if torch.is_tensor(value) and value.untyped_storage().nbytes():
            said = f"{node.name()}.{what} {str(value.dtype)[6:]}{list(value.shape)}"
            out[value.untyped_storage().data_ptr()][said] += 1

    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        todo += [n for n, _ in node.next_functions]
        for name in dir(node):
            if not name.startswith("_saved_") and name != "saved_tensors":
                continue
            try:
                value = getattr(node, name)
            except (RuntimeError, AttributeError):
                continue
            for v in value if isinstance(value, (tuple, list)) else (value,):
                note(node, name.removeprefix("_saved_"), v)
    return out


def of_python(torch):
    """Address of a storage: tensors that Python still knows."""
    out = collections.defaultdict(collections.Counter)
    for x in gc.get_objects():
        if type(x) is torch.Tensor and x.device.type != "meta":
            out[x.untyped_storage().data_ptr()][f"python {str(x.dtype)[6:]}{list(x.shape)}"] += 1
    return out


def make_logger(torch, dry):
    from torch.utils._python_dispatch import TorchDispatchMode

    def names(x):
        if torch.is_tensor(x):
            return [f"{str(x.dtype)[6:]}{list(x.shape)}"]
        return [n for y in x for n in names(y)] if isinstance(x, (tuple, list)) else []

    class Logger(TorchDispatchMode):
        """Each op: what it made, how much more is asked for after it, and how much more there was meanwhile."""

        def __init__(self):
            super().__init__()
            self.ops = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if not dry:
                before = torch.cuda.memory_stats()["requested_bytes.all.current"]
                torch.cuda.reset_peak_memory_stats()
            result = func(*args, **(kwargs or {}))
            s = collections.defaultdict(int) if dry else torch.cuda.memory_stats()
            if dry:
                before = 0
            after, peak = s["requested_bytes.all.current"] - before, s["requested_bytes.all.peak"] - before
            if after or peak or dry:
                node = torch._C._current_autograd_node()
                self.ops.append([str(func), node.name() if node else "", names(args)[:5], names(result)[:4],
                                 after, peak])
            return result

    return Logger()


def forward(torch, m, model, batch, o):
    with torch.autocast(m.DEVICE, torch.bfloat16, enabled=o.dtype == "autocast"):
        return model(**batch)


def loss_of(torch, output):
    return output if torch.is_tensor(output) else output.loss


def step_to_zeros(torch, m, model, optimizer, batch, o):
    output = forward(torch, m, model, batch, o)
    loss = loss_of(torch, output)
    del output
    loss.backward()
    optimizer.step()
    del loss
    optimizer.zero_grad(set_to_none=False)


def save(torch, model, optimizer, path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def load(torch, model, optimizer, path, where):
    state = torch.load(path, map_location=where, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


def write_on_cpu(torch, m, model, o, path):
    """A checkpoint that no GPU had part in."""
    model = model.to(torch.bfloat16 if o.dtype == "half" else torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    save(torch, model, optimizer, path)
    optimizer.zero_grad(set_to_none=True)
    return model


def other_ways(torch, m, r, model, optimizer, batch, o, beside, path):
    """Validation, generation, checkpoints."""
    if "save" in beside:
        with r.mark("save"):
            save(torch, model, optimizer, path)
    for where in ("cuda", "cpu"):
        if f"load to {where}" in beside:
            with r.mark(f"load to {where}"):
                load(torch, model, optimizer, path, where if where == "cpu" else m.DEVICE)
            with r.mark("step after that"):
                m.step(model, optimizer, batch, o)
    for again in (1, 2):
        if "validate" in beside:
            model.eval()
            with r.mark(f"validate {again}"), torch.no_grad():
                output = forward(torch, m, model, batch, o)
                del output
    if "generate" in beside:
        model.eval()
        model.config.use_cache = True
        half = batch["input_ids"].shape[1] // 2
        for new in (1, 32, half):
            with r.mark(f"generate {new} after {half}"), torch.no_grad():
                with torch.autocast(m.DEVICE, torch.bfloat16, enabled=o.dtype == "autocast"):
                    model.generate(input_ids=batch["input_ids"][:, :half], max_new_tokens=new, min_new_tokens=new,
                                   do_sample=False, use_cache=True, pad_token_id=0)


def explain(torch, m, r, model, optimizer, batch, o, stacks):
    """Two steps more: who keeps what after forward, then op by op."""
    said = {}
    if not o.gradient_checkpointing:
        output = forward(torch, m, model, batch, o)
        loss = loss_of(torch, output)
        kept = output if o.keeps_output else None
        del output
        live, python, saved = r.live(stacks), of_python(torch), saved_by(torch, loss)
        groups = collections.Counter()
        for address, size, stack in live:
            names = sorted(saved.get(address, ())) + sorted(python.get(address, ()))
            groups[(size, stack, " & ".join(names)[:200])] += 1
        said["kept"] = [[*k, n] for k, n in groups.items()]
        said["saved"] = len(saved)
        loss.backward()
        del loss, kept, saved, python
        optimizer.zero_grad(set_to_none=True)
    logger = make_logger(torch, r.dry)
    before = r.stats()["requested_bytes.all.current"]
    with logger:
        m.step(model, optimizer, batch, o)
    return {**said, "ops": logger.ops, "ops_before": before}


def labels(model, optimizer, batch):
    out = {}
    for what, tensors in (("batch", batch.values()), ("buffers", model.buffers()), ("weights", model.parameters()),
                          ("state", [v for s in (optimizer.state.values() if optimizer else ()) for v in s.values()])):
        for x in tensors:
            if hasattr(x, "data_ptr"):
                out[x.untyped_storage().data_ptr() // 512] = what
    return out


def traced(m, name, options, beside, dry):
    import torch

    torch.set_num_threads(2)
    torch.manual_seed(1)
    o = m.read_options(options)
    if dry:
        o.batch, o.context = 1, min(o.context, 16)
    torch.backends.cudnn.benchmark = "cudnn.benchmark" in beside
    torch.backends.cudnn.allow_tf32 = "no tf32" not in beside
    torch.backends.cuda.enable_cudnn_sdp("no cudnn attention" not in beside)
    start, stacks, r = time.monotonic(), Stacks(), Recorder(torch, dry)
    path = tempfile.mktemp(suffix=".pt")
    model = m.make(name, o)
    if "resume" in beside:
        model = write_on_cpu(torch, m, model, o, path)
    if "expandable_segments" in beside:
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    config = getattr(model, "config", None)
    r.start()
    with r.mark("prepare"):
        model = m.prepare(model, o)
        optimizer = None if "alone" in beside else m.make_optimizer(model, o)
        batch = m.make_batch(config, o)
    if "channels_last" in beside:
        model = model.to(memory_format=torch.channels_last)
        batch["pixel_values"] = batch["pixel_values"].contiguous(memory_format=torch.channels_last)
    if "padding" in beside:  # of half of the samples the second half
        batch["attention_mask"] = torch.ones_like(batch["input_ids"])
        batch["attention_mask"][::2, o.context // 2:] = 0
    for where in ("cuda", "cpu"):
        if f"resume from {where}" in beside:
            with r.mark(f"resume from {where}"):
                load(torch, model, optimizer, path, where if where == "cpu" else m.DEVICE)
    own = o.framework == "pytorch"
    with torch.device(m.DEVICE) if own else contextlib.nullcontext():
        for i in range(0 if "alone" in beside else STEPS):
            with r.mark(f"step {i + 1}"):
                if "set_to_none=False" in beside:
                    step_to_zeros(torch, m, model, optimizer, batch, o)
                else:
                    m.step(model, optimizer, batch, o)
        other_ways(torch, m, r, model, optimizer, batch, o, beside, path)
        said = {"labels": labels(model, optimizer, batch), "events": r.events(stacks), "marks": r.marks,
                "versions": [torch.__version__, torch.version.cuda, str(torch.backends.cudnn.version()),
                             m.transformers.__version__, "" if dry else torch.cuda.get_device_name()]}
        said["weights"] = sorted({p.numel() * p.element_size() for p in model.parameters() if p.requires_grad})
        if not any(w in beside for w in ("load", "resume", "alone", "generate", "set_to_none")):
            model.train()
            r.start()  # the history anew: of what follows only what lives is asked for
            said.update(explain(torch, m, r, model, optimizer, batch, o, stacks))
    pathlib.Path(path).unlink(missing_ok=True)
    said["stacks"] = [list(s) for s in stacks.index]
    said["seconds"] = time.monotonic() - start
    return said


def child(pipe, m, point, dry):
    try:
        said = traced(m, *point, dry)
    except Exception as e:  # one point's failure is not the others'
        import traceback
        said = {"error": f"{type(e).__name__}: {str(e)[:300]} {traceback.format_exc()[-600:]}"}
    said["point"] = point
    pipe.send_bytes(gzip.compress((json.dumps(said, separators=(",", ":")) + "\n").encode()))
    pipe.close()


def measured(layer):
    """Bytes of points_gpu.csv, by point."""
    out = {}
    with open(HERE / "points_gpu.csv", encoding="ascii", newline="") as rows:
        for row in csv.DictReader(rows):
            if row["layer"] == layer:
                out[row["model"], row["options"], row["beside"]] = int(row["bytes"])
    return out


def needs():
    """Bytes that a point's process will take of the device: those measured, where they were."""
    out = measured("whole")

    def need(point):
        plain = out.get(point) or out.get((point[0], point[1], ""))
        usual = (2 if point[0].startswith("models/") else 24) << 30
        return (plain or usual) + ((8 << 30) if "benchmark" in point[2] or "load" in point[2] else 1 << 29)
    return need


def record(args):
    import measure_gpu as m

    if args.dry:
        m.DEVICE = "cpu"
    need, start, running, fork = needs(), time.monotonic(), [], multiprocessing.get_context("fork")
    has = [w for w in args.words if not w.startswith("-")]
    hasnt = [w[1:] for w in args.words if w.startswith("-")]
    requested, reserved, points = measured("requested"), measured("reserved"), []
    for point in all_points(m, args.device):
        text = " ".join(point)
        if all(any(v in text for v in w.split("|")) for w in has) and not any(w in text for w in hasnt):
            points.append(point)
    points = list(dict.fromkeys(points))
    if args.list:
        some = set(pathlib.Path(args.list).read_text(encoding="ascii").splitlines())
        points = [p for p in points if "|".join(p) in some]
    points.sort(key=lambda p: ("benchmark" in p[2], -need(p)))
    print(len(points), "points", flush=True)

    def finish(r):
        process, pipe, point, since = r
        late = time.monotonic() - since > args.patience
        if not late and not pipe.poll(0):
            return process.is_alive()
        try:
            data = pipe.recv_bytes() if not late else None
        except EOFError:
            data = None
        if data:
            out.write(data)
            out.flush()
            said = json.loads(gzip.decompress(data))
            last = [[k["peak"][c] for k in said.get("marks", ())] for c in ("requested_bytes", "reserved_bytes")]
            known = requested.get(point, 0), reserved.get(point, 0)
        text = "killed: too slow"
        if data:
            text = said.get("error") or " ".join(f"{max(b) / MIB:.1f} MiB ({(max(b) - k) / MIB:+.1f})"
                                                 for b, k in zip(last, known, strict=True))
        print(f"{time.monotonic() - start:6.1f} s (took {time.monotonic() - since:5.1f}) {' '.join(point)}: {text}",
              flush=True)
        process.join(20 if data else 0.1)
        if process.is_alive():
            process.kill()
            process.join()
        return False

    with open(args.file, "wb") as out:
        while points or running:
            running = [r for r in running if finish(r)]
            used = sum(need(r[2]) for r in running)
            alone = running and "benchmark" in running[0][2][2]
            for point in list(points):
                if time.monotonic() - start > args.seconds:
                    print("no time for", *point, flush=True)
                    points.remove(point)
                    continue
                bench = "benchmark" in point[2]
                if alone or (bench and running) or len(running) >= args.at_once:
                    break
                if running and used + need(point) > MEMORY:
                    continue
                here, there = fork.Pipe(duplex=False)
                process = fork.Process(target=child, args=(there, m, point, args.dry))
                process.start()
                there.close()
                running.append((process, here, point, time.monotonic()))
                points.remove(point)
                used, alone = used + need(point), bench
            time.sleep(0.02)


# ---- reading ----

def read(files):
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for line in lines:
                said = json.loads(line)
                if "error" not in said and said.get("events"):
                    yield Traced(said)


Block = collections.namedtuple("Block", "born died bytes addr stack stream")
Segment = collections.namedtuple("Segment", "born died bytes addr")


class Traced:
    """A point as it was recorded: its blocks and segments, each from one event to another."""

    def __init__(self, said):
        self.said, self.point, self.marks, self.stacks = said, said["point"], said["marks"], said["stacks"]
        self.blocks, self.segments, self.at_alloc = [], [], []
        e, here, segments = said["events"], {}, {}
        for i, (action, addr, size, stream, stack) in enumerate(zip(
                e["action"], e["addr"], e["size"], e["stream"], e["stack"], strict=True)):
            if action == "alloc":
                here[addr] = i, size, stack, stream
                self.at_alloc.append(i)
            elif action == "free_completed" and addr in here:
                born, size, stack, stream = here.pop(addr)
                self.blocks.append(Block(born, i, size, addr, stack, stream))
            elif action in ("segment_alloc", "segment_map"):
                segments[addr] = i, size
            elif action in ("segment_free", "segment_unmap") and addr in segments:
                self.segments.append(Segment(segments[addr][0], i, segments.pop(addr)[1], addr))
        self.end = len(e["action"])
        self.blocks += [Block(v[0], self.end, v[1], a, v[2], v[3]) for a, v in here.items()]
        self.segments += [Segment(v[0], self.end, v[1], a) for a, v in segments.items()]
        self.blocks.sort()
        self.segments.sort()

    def range_of(self, mark):
        """Events of a mark: from its first allocation to the next mark's."""
        first, last = mark["allocs"]
        begin = self.at_alloc[first] if first < len(self.at_alloc) else self.end
        return begin, self.at_alloc[last] if last < len(self.at_alloc) else self.end

    def peak(self, things, begin, end):
        """(The most bytes, the event at which they are reached)."""
        changes = sorted([(t.born, t.bytes) for t in things if t.born < end] +
                         [(t.died, -t.bytes) for t in things if t.died < end])
        now = most = at = 0
        for i, bytes_ in changes:
            now += bytes_
            if i >= begin and now > most:
                most, at = now, i
        return most, at

    def live(self, at):
        return [b for b in self.blocks if b.born <= at < b.died]

    def where(self, block, count=3):
        """Label of what lives longer than a step, else op, node of autograd and the innermost frames of Python."""
        label = self.said["labels"].get(str(block.addr)) if block.died == self.end else None
        if label in ("weights", "state", "batch", "buffers"):
            return label
        stack = self.stacks[block.stack] if block.stack >= 0 else []
        for word, name in (("getCurrentCUDABlasHandle", "cuBLAS's workspace"),
                           ("getCUDABlasLtWorkspace", "cuBLASLt's workspace")):
            if any(word in w for w in stack):
                return name
        c = [w[2:] for w in stack if w.startswith("c ")][:2]
        op = [w[3:] for w in stack if w.startswith("op ")]
        node = [w[5:] for w in stack if w.startswith("node ")][:1]
        python = [re.sub(r"\.py", "", w) for w in stack if ".py:" in w and "measure_gpu" not in w][:count]
        out = [*(op[:1] + (op[-1:] if len(op) > 1 and op[-1] != op[0] else [])), *[f"of {n}" for n in node],
               *([f"[{' '.join(c)}]"] if c and not op else []), *(["engine"] if not node and "engine" in stack else []),
               *([f"({' < '.join(python)})"] if python else [])]
        return " ".join(out)

    def phase(self, block):
        stack = self.stacks[block.stack] if block.stack >= 0 else []
        if any(w.startswith(("node ", "engine", "InputBuffer")) for w in stack):
            return "backward"
        if any(re.match(r"(adamw?|sgd|optimizer)\.py", w) for w in stack):
            return "update"
        return "forward"

    def gaps(self, at):
        """Free pieces within segments, (bytes, segment's bytes), largest first."""
        out, live = [], sorted((b.addr * 512, -(-b.bytes // 512) * 512) for b in self.live(at))
        for s in self.segments:
            if not s.born <= at < s.died:
                continue
            place, end = s.addr * 512, s.addr * 512 + s.bytes
            for addr, bytes_ in live:
                if place <= addr < end:
                    if addr > place:
                        out.append((addr - place, s.bytes))
                    place = addr + bytes_
            if place < end:
                out.append((end - place, s.bytes))
        return sorted(out, reverse=True)


# ---- what is printed ----

PERMANENT = ("weights", "state", "buffers")


def groups(t, blocks):
    """(bytes of all, bytes of one, how many, phase, where), the largest first."""
    found = collections.defaultdict(list)
    for b in blocks:
        where = t.where(b)
        found[t.phase(b), 0 if where in PERMANENT else b.bytes, where].append(b.bytes)
    return sorted(((sum(v), bytes_, len(v), phase, where) for (phase, bytes_, where), v in found.items()), reverse=True)


def causes(t, at):
    """Segments that are there: (bytes of all, bytes of one, how many, mark, what the first was for)."""
    allocs, starts = {b.born: b for b in t.blocks}, [(t.range_of(m)[0], m["name"]) for m in t.marks]
    found = collections.Counter()
    for s in t.segments:
        if s.born <= at < s.died:
            b = next((allocs[i] for i in range(s.born, min(s.born + 3, t.end)) if i in allocs), None)
            mark = [name for begin, name in starts if begin <= s.born + 1][-1:]
            found[s.bytes, mark[0] if mark else "", t.where(b, 1) if b else ""] += 1
    return sorted(((n * k[0], k[0], n, *k[1:]) for k, n in found.items()), reverse=True)


def temporaries(t):
    """What ops took while they ran beside what they left: (bytes, how often, op, node, shapes)."""
    found = collections.Counter()
    for op, node, given, made, after, peak in t.said.get("ops", ()):
        found[peak - max(after, 0), op, node, f"{', '.join(given[:3])} -> {', '.join(made[:1])}"] += 1
    return sorted(((k[0], n, *k[1:]) for k, n in found.items()), reverse=True)


def holds(text, words):
    return all(any(v in text for v in w.split("|")) for w in words)


def show(args):
    for t in read(args.files):
        if not holds(" ".join(t.point), args.words):
            continue
        print("=" * 20, *t.point)
        for mark in t.marks:
            most, at = t.peak(t.blocks, *t.range_of(mark))
            print(f"{mark['name']}: " + ", ".join(f"{c.split('_')[0]} {mark['peak'][c] / MIB:.2f}" for c in COUNTERS) +
                  f" (played {most / MIB:.2f}); after it {mark['after']['requested_bytes'] / MIB:.2f}, reserved "
                  f"{mark['after']['reserved_bytes'] / MIB:.0f}")
            if args.mark and mark["name"] not in args.mark:
                continue
            live = groups(t, t.live(at))
            for total, bytes_, n, phase, where in live[:args.rows]:
                print(f"   {total / MIB:9.3f} = {n:4} x {bytes_ / MIB:9.3f} {phase:8} {where}")
            print(f"   {sum(g[0] for g in live[args.rows:]) / MIB:9.3f} the rest")
        most, at = t.peak(t.segments, 0, t.end)
        print(f"reserved {most / MIB:.0f}: free pieces", ", ".join(f"{g / MIB:.0f} of {s / MIB:.0f}"
                                                                for g, s in t.gaps(at)[:8]))
        for total, bytes_, n, mark, where in causes(t, at)[:args.rows]:
            print(f"   {total / MIB:9.0f} = {n:4} x {bytes_ / MIB:5.0f} {mark:8} for {where}")
        for size, stack, names, n in sorted(t.said.get("kept", ()), key=lambda g: -g[0] * g[3])[:args.rows]:
            print(f"   kept {size * n / MIB:9.3f} = {n:3} x {size / MIB:9.3f} "
                  f"{t.where(Block(0, t.end, size, 0, stack, 0), 1)} | {names}")
        for bytes_, n, *what in temporaries(t)[:args.rows]:
            print(f"   beside {bytes_ / MIB:9.3f} x {n:4}", *what)


def report(args):
    """The CSV: of each point the largest of what lives at the peak of the steps after the first, the segments at the
    peak of what is reserved, free pieces in them then, temporaries of ops, and the peaks of whatever else was done."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["model", "options", "beside", "moment", "phase", "count", "bytes_each", "bytes", "what"])
    for t in read(args.files):
        name, options, beside = t.point
        key = name, options.replace("--device h100-80 ", ""), beside
        steps = [m for m in t.marks if m["name"].startswith("step ")][1:3]
        for mark in t.marks:
            out.writerow([*key, mark["name"], "", "", "", mark["peak"]["requested_bytes"], "requested, peak"])
            out.writerow([*key, mark["name"], "", "", "", mark["peak"]["reserved_bytes"], "reserved, peak"])
        if steps:
            most, at = max(t.peak(t.blocks, *t.range_of(m)) for m in steps)
            live = groups(t, t.live(at))
            for total, bytes_, n, phase, where in live[:args.rows]:
                out.writerow([*key, "peak", phase, n, bytes_ or total // n, total, where])
            out.writerow([*key, "peak", "", "", "", most - sum(g[0] for g in live[:args.rows]), "the rest"])
        most, at = t.peak(t.segments, 0, t.end)
        for total, bytes_, n, mark, where in causes(t, at)[:args.rows // 2]:
            out.writerow([*key, "segments", mark, n, bytes_, total, where])
        for free, bytes_ in t.gaps(at)[:2]:
            out.writerow([*key, "free", "", 1, bytes_, free, "piece of a segment"])
        for bytes_, n, op, node, shapes in temporaries(t)[:args.rows // 2]:
            if bytes_ >= MIB:
                out.writerow([*key, "temporary", node, n, bytes_, bytes_, f"{op} {shapes}"])


# ---- the allocator's rules, played ----

class Allocator:
    """As src/estimate/torch/allocator.c has them; `place` says where a segment of so many bytes lies."""

    def __init__(self, place):
        self.place, self.free, self.reserved, self.most = place, [], 0, 0

    def add(self, block):
        block["free"] = True
        bisect.insort(self.free, (block["stream"], not block["small"], block["bytes"], block["at"], id(block), block))

    def remove(self, block):
        where = block["stream"], not block["small"], block["bytes"], block["at"], id(block)
        self.free.pop(bisect.bisect_left(self.free, where))
        block["free"] = False

    def take(self, bytes_, stream=0):
        bytes_ = max(512, -(-bytes_ // 512) * 512)
        small = bytes_ <= MIB
        i = bisect.bisect_left(self.free, (stream, not small, bytes_))
        block = self.free[i][-1] if i < len(self.free) and self.free[i][:2] == (stream, not small) else None
        if not block:
            all_ = 2 * MIB if small else 20 * MIB if bytes_ < 10 * MIB else -(-bytes_ // (2 * MIB)) * 2 * MIB
            block = {"bytes": all_, "at": self.place(all_), "small": small, "stream": stream, "to": None, "from": None}
            self.reserved += all_
            self.most = max(self.most, self.reserved)
            self.add(block)
        self.remove(block)
        left = block["bytes"] - bytes_
        if left >= 512 if small else left > MIB:
            rest = {**block, "bytes": left, "at": block["at"] + bytes_, "from": block}
            if block["to"]:
                block["to"]["from"] = rest
            block["bytes"], block["to"] = bytes_, rest
            self.add(rest)
        return block

    def give(self, block):
        for one, other in ((block, block["to"]), (block["from"], block)):
            if one and other and (other if one is block else one)["free"]:
                self.remove(other if one is block else one)
                one["bytes"] += other["bytes"]
                one["to"] = other["to"]
                if one["to"]:
                    one["to"]["from"] = one
                block = one
        self.add(block)


def played(t, way):
    """(Reserved bytes, blocks that lie elsewhere than they did) by those rules. Segments lie where they lay (real), or
    each above (up) or below (down) those before it."""
    top, new, here, wrong = [0 if way == "up" else 1 << 50], [], {}, 0

    def place(bytes_):
        if way == "real":
            return new[-1] if new else 1 << 50
        top[0] += bytes_ if way == "up" else -bytes_
        return top[0] - bytes_ if way == "up" else top[0]

    a, e = Allocator(place), t.said["events"]
    for action, addr, size in zip(e["action"], e["addr"], e["size"], strict=True):
        if action == "segment_alloc":
            new.append(addr * 512)
        elif action == "alloc":
            here[addr] = a.take(size)
            wrong += here[addr]["at"] != addr * 512
            new.clear()
        elif action == "free_completed" and addr in here:
            a.give(here.pop(addr))
        elif action == "segment_free":  # given back to the device
            block = next((f[-1] for f in a.free if f[-1]["at"] == addr * 512 and f[-1]["bytes"] == size), None)
            if block:
                a.remove(block)
                a.reserved -= size
    return a.most, wrong


def replay(args):
    exact, all_, off = collections.Counter(), 0, collections.defaultdict(list)
    for t in read(args.files):
        if not holds(" ".join(t.point), args.words) or any(w in t.point[2] for w in ("expandable", "benchmark")):
            continue
        measured_ = max(m["peak"]["reserved_bytes"] for m in t.marks)
        said = {way: played(t, way) for way in ("real", "up", "down")}
        all_ += 1
        for way, (most, wrong) in said.items():
            off[way].append(abs(most - measured_) / MIB)
            exact[way] += most == measured_
            exact[f"{way}, every block"] += not wrong
        if any(abs(most - measured_) > 8 * MIB for most, _ in said.values()):
            print(*t.point, f"{measured_ / MIB:.0f} MiB:",
                  ", ".join(f"{way} {(most - measured_) / MIB:+.0f}" for way, (most, _) in said.items()))
    for way, v in off.items():
        print(f"segments {way}: reserved as measured at {exact[way]} of {all_} points, every block where it lay at "
              f"{exact[f'{way}, every block']}; off by {sum(v) / all_:.2f} MiB on average, at most {max(v):.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="do", required=True)
    one = kinds.add_parser("record")
    one.add_argument("file")
    one.add_argument("--device", default="h100-80", help="the file of devices/ that describes it")
    one.add_argument("--list", help="a file: only points that it names, a line each, model|options|beside")
    one.add_argument("--seconds", type=float, default=1e9, help="begin no point later than that")
    one.add_argument("--patience", type=float, default=150, help="seconds that a point may take")
    one.add_argument("--at-once", type=int, default=AT_ONCE)
    one.add_argument("--dry", action="store_true", help="on the CPU, small, without a record: does it run?")
    one.set_defaults(run=record)
    for name, do, rows in (("show", show, 14), ("report", report, 8), ("replay", replay, 0)):
        one = kinds.add_parser(name)
        one.add_argument("--files", nargs="+", required=True)
        one.add_argument("--rows", type=int, default=rows)
        one.add_argument("--mark", action="append", help="of these alone what lives at their peaks")
        one.set_defaults(run=do)
    args, args.words = parser.parse_known_args()
    args.run(args)


if __name__ == "__main__":
    main()
