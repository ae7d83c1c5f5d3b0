#!/usr/bin/env python3
"""Recorded steps beside the steps themselves, on the CPU:

recorded.py SNUG [--classes NAME,...] [--settings NAME,...] [--json FILE] [--steps FOLDER] [--seconds N] [--report]

Of classes of transformers, timm and diffusers from small configurations, with random weights: the step is recorded by
recipes/record.py on fake tensors, `snug estimate` answers for it, and the step itself runs under the profiler, which
counts every allocation of PyTorch's on the CPU. Peaks of live bytes are compared, for four settings. Points that FILE
has already are not run again, and --report prints the tables of FILE. FOLDER keeps the recordings: where it has one
already, snug alone is asked again. The three libraries take turns, so that each is met early. Needs torch and the
libraries; a test's oracle only."""

import argparse
import contextlib
import functools
import importlib.metadata
import json
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import torch
import torch.utils.checkpoint
import transformers
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "recipes"))  # behind packages, of which some have the names of recipes
import record as recipe  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from recorded_classes import CLASSES, DENOISERS, TIMM  # noqa: E402

SETTINGS = {
    "f32": dict(),
    "bf16": dict(autocast=torch.bfloat16),
    "checkpointing": dict(checkpointing=True),
    "batch": dict(asked=5),  # which was not recorded
}


def largest_of(step):
    """The most bytes that the step adds to those that are there, by the profiler's events."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
        step()
    events = []

    def visit(node):
        if node.tag == _EventType.Allocation:
            events.append((node.start_time_ns, node.extra_fields.alloc_size))
        for child in node.children:
            visit(child)
    for root in p.profiler.kineto_results.experimental_event_tree():
        visit(root)
    now = most = 0
    for _, size in sorted(events, key=lambda e: e[0]):
        now += size
        most = max(most, now)
    return most


def there(model, optimizer, batch):
    known = list(model.parameters()) + list(model.buffers())
    known += [t for state in optimizer.state.values() for t in state.values() if torch.is_tensor(t)]
    known += [t for t in batch.values() if torch.is_tensor(t)]
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in known}
    return sum(storages.values())


def measure(case, size, autocast):
    torch.manual_seed(1)
    model = case.make_model().train()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    batch = case.make_batch(size, case.lengths[0])

    def loss_of(model, batch):
        with torch.autocast("cpu", autocast, enabled=autocast is not None):
            return case.loss_of(model, batch)
    recipe.one_step(model, optimizer, loss_of, batch)
    return there(model, optimizer, batch) + largest_of(lambda: recipe.one_step(model, optimizer, loss_of, batch))


def switch_on(m):
    """Has that module's library a switch, and does it turn?"""
    try:
        if hasattr(m, "set_grad_checkpointing"):
            m.set_grad_checkpointing(True)
        elif hasattr(m, "enable_gradient_checkpointing"):
            m.enable_gradient_checkpointing()
        elif hasattr(m, "gradient_checkpointing_enable"):
            m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        else:
            return False
    except (ValueError, AssertionError):  # as libraries say that they have none
        return False
    return True


def repeated(model):
    """Items of the outermost lists of modules of one class, which snug takes where a library has no switch."""
    for name, m in model.named_children():
        classes = [type(item) for item in m.children()] if type(m).__name__ in ("ModuleList", "Sequential") else []
        if classes and classes.count(classes[0]) >= 2:
            yield from m.children()
        else:
            yield from repeated(m)


def compute_again(model):
    """As the model's library has it."""
    switched = [switch_on(m) for m in model.modules()]
    for m in [] if any(switched) else list(repeated(model)):
        m.forward = functools.partial(torch.utils.checkpoint.checkpoint, m.forward, use_reentrant=False)


def answer(snug, case, name, size, autocast, checkpointing, folder):
    path = folder / f"{name.replace(' ', '-')}-{'bf16' if autocast else 'f32'}.json"
    if not path.exists():
        recipe.record(case.make_model, case.make_batch, case.loss_of,
                      lambda m: torch.optim.AdamW(m.parameters(), foreach=True),
                      batches=(2,) if autocast else (2, 3), lengths=case.lengths[:1], autocast=autocast,
                      device="cpu", number=1.0, out=str(path))
    command = [snug, "estimate", str(path), "--device", "cpu", "--json", "--batch", str(size)]
    command += ["--gradient-checkpointing"] if checkpointing else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)["live_bytes"]["likely"]


def compare(snug, name, settings, folder, measured):
    """What snug tells and what was counted: the latter only where it is not known from a row before."""
    case = CLASSES[name]()
    size, autocast = settings.get("asked", 2), settings.get("autocast")
    told = answer(snug, case, name, size, autocast, settings.get("checkpointing"), folder)
    if measured:
        return told, measured
    if settings.get("checkpointing"):
        make = case.make_model

        def make_model():
            model = make()
            compute_again(model)
            return model
        case.make_model = make_model
    return told, measure(case, size, autocast)


def library(name):
    return "timm" if name in TIMM else "diffusers" if name in DENOISERS else "transformers"


def in_turns(names):
    """Of the three libraries, each spread evenly over the whole."""
    of = {}
    for name in names:
        of.setdefault(library(name), []).append(name)
    places = [((i + 0.5) / len(group), name) for group in of.values() for i, name in enumerate(group)]
    return [name for _, name in sorted(places, key=lambda p: p[0])]


@contextlib.contextmanager
def bounded(seconds):
    """Of this process's own time, which other work on the machine does not use up."""
    def late(*_):
        raise TimeoutError(f"took more than {seconds} seconds of computing")
    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def off(row):
    return row["told"] / row["measured"] - 1


def cell(row):
    if row is None:
        return ""
    if "told" in row:
        return f"{100 * off(row):+.2f} %"
    return "none: " + (row["error"].splitlines() or ["?"])[0][:70].replace("|", "/")


def report(rows):
    """Tables of all rows: each setting's, each library's, and each class's."""
    print("| of | points | answered | within 1 % | within 0.1 % | median | 90th percentile | furthest |\n|---|"
          + "---|" * 7)
    groups = [(which, [r for r in rows if r["setting"] == which]) for which in SETTINGS]
    groups += [(of, [r for r in rows if library(r["name"]) == of]) for of in ("transformers", "timm", "diffusers")]
    for of, points in groups + [("all", rows)]:
        far = sorted(abs(off(r)) for r in points if "told" in r)
        if far:
            ninth = statistics.quantiles(far, n=10, method="inclusive")[-1] if len(far) > 1 else far[0]
            print(f"| {of} | {len(points)} | {len(far)} | {sum(x <= 0.01 for x in far)} | "
                  f"{sum(x <= 0.001 for x in far)} | {100 * statistics.median(far):.3f} % | {100 * ninth:.2f} % | "
                  f"{100 * far[-1]:.2f} % |")
    print("\n| class | " + " | ".join(SETTINGS) + " |\n|---|" + "---|" * len(SETTINGS))
    of = {(r["name"], r["setting"]): r for r in rows}
    for name in [n for n in CLASSES if any(r["name"] == n for r in rows)]:
        print(f"| {name} | " + " | ".join(cell(of.get((name, which))) for which in SETTINGS) + " |")


def point(a, name, which, folder, before):
    """One row, of at most so many seconds of computing."""
    began = time.process_time()
    row = dict(name=name, setting=which)
    try:
        with bounded(a.seconds):
            told, was = compare(a.snug, name, SETTINGS[which], folder, before.get("measured"))
        row |= dict(told=told, measured=was)
    except (Exception, SystemExit) as e:
        if a.trace:
            traceback.print_exc()
        row |= dict(error=str(e)[:300] or type(e).__name__)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{name} {which}: {cell(row)}, {time.process_time() - began:.0f} s, at most {most} MiB",
          file=sys.stderr, flush=True)
    return row


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("snug")
    p.add_argument("--classes", default="")
    p.add_argument("--settings", default="")
    p.add_argument("--json")
    p.add_argument("--steps", help="keeps the recordings")
    p.add_argument("--seconds", type=int, default=600, help="the most computing of one point")
    p.add_argument("--mebibytes", type=int, default=4096, help="the most of this process")
    p.add_argument("--tell", action="store_true", help="points of FILE are told again, their steps not counted again")
    p.add_argument("--report", action="store_true")
    p.add_argument("--trace", action="store_true")
    return p.parse_args()


def main():
    a = arguments()
    resource.setrlimit(resource.RLIMIT_DATA, (a.mebibytes << 20,) * 2)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    out = pathlib.Path(a.json) if a.json else None
    rows = json.loads(out.read_text()) if out and out.exists() else []
    if a.report:
        return report(rows)
    print(", ".join(f"{of} {importlib.metadata.version(of)}" for of in ("torch", "transformers", "timm", "diffusers")))
    known = {(r["name"], r["setting"]): r for r in rows}
    wanted = [n for n in a.classes.split(",") if n] or in_turns(CLASSES)
    settings = [s for s in a.settings.split(",") if s] or list(SETTINGS)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(a.steps or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for i, name in enumerate(wanted):
            print(f"{i + 1} of {len(wanted)}", file=sys.stderr)
            for which in settings:
                if (name, which) not in known or a.tell:
                    known[name, which] = point(a, name, which, folder, known.get((name, which), {}))
                    if out:
                        recipe.write(str(out), list(known.values()))
    report([r for r in known.values() if r["name"] in wanted])


if __name__ == "__main__":
    main()
