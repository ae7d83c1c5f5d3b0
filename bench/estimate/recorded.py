#!/usr/bin/env python3
"""Recorded steps beside the steps themselves, on the CPU: recorded.py SNUG [--classes NAME,...] [--json FILE]

Of classes of transformers, timm and diffusers from small configurations, with random weights: the step is recorded by
recipes/record.py on fake tensors, `snug estimate` answers for it, and the step itself runs under the profiler, which
counts every allocation of PyTorch's on the CPU. Peaks of live bytes are compared, for four settings. Classes that FILE
has already are not run again. Needs torch and the three libraries; a test's oracle only."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import traceback

import diffusers
import timm
import torch
import transformers
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "recipes"))  # behind packages, of which some have the names of recipes
import record as recipe  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from recorded_classes import CLASSES  # noqa: E402

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


def compute_again(model):
    """As the model's library has it."""
    if hasattr(model, "set_grad_checkpointing"):
        return model.set_grad_checkpointing(True)
    if hasattr(model, "enable_gradient_checkpointing"):
        return model.enable_gradient_checkpointing()
    return model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def answer(snug, case, size, autocast, checkpointing, folder):
    path = folder / f"step-{autocast}.json"
    if not path.exists():
        recipe.record(case.make_model, case.make_batch, case.loss_of,
                      lambda m: torch.optim.AdamW(m.parameters(), foreach=True), batches=(2, 3),
                      lengths=case.lengths[:1], autocast=autocast, device="cpu", out=str(path))
    command = [snug, "estimate", str(path), "--device", "cpu", "--json", "--batch", str(size)]
    command += ["--gradient-checkpointing"] if checkpointing else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)["live_bytes"]["likely"]


def compare(snug, name, settings, folder):
    case = CLASSES[name]()
    size, autocast = settings.get("asked", 2), settings.get("autocast")
    told = answer(snug, case, size, autocast, settings.get("checkpointing"), folder)
    if settings.get("checkpointing"):
        make = case.make_model

        def make_model():
            model = make()
            compute_again(model)
            return model
        case.make_model = make_model
    return told, measure(case, size, autocast)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("snug")
    p.add_argument("--classes", default="")
    p.add_argument("--settings", default="")
    p.add_argument("--json")
    p.add_argument("--trace", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, timm {timm.__version__}, "
          f"diffusers {diffusers.__version__}\n")
    print("| class | " + " | ".join(SETTINGS) + " |\n|---|" + "---|" * len(SETTINGS))
    rows = json.loads(pathlib.Path(a.json).read_text()) if a.json and pathlib.Path(a.json).exists() else []
    done = {r["name"] for r in rows}
    for name in [n for n in a.classes.split(",") if n] or CLASSES:
        if name in done:
            continue
        cells = []
        with tempfile.TemporaryDirectory() as folder:
            for which, settings in SETTINGS.items():
                if a.settings and which not in a.settings.split(","):
                    continue
                try:
                    told, was = compare(a.snug, name, settings, pathlib.Path(folder))
                    cells.append(f"{100 * (told / was - 1):+.2f} %")
                    rows.append(dict(name=name, setting=which, told=told, measured=was))
                except (Exception, SystemExit) as e:
                    if a.trace:
                        traceback.print_exc()
                    cells.append("none: " + (str(e).splitlines() or [type(e).__name__])[0][:70].replace("|", "/"))
                    rows.append(dict(name=name, setting=which, error=str(e)[:300]))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        if a.json:
            pathlib.Path(a.json).write_text(json.dumps(rows))
    off = [abs(r["told"] / r["measured"] - 1) for r in rows if "told" in r]
    print(f"\n{len(rows)} points, {len(off)} answered, {sum(x <= 0.01 for x in off)} within 1 %")


if __name__ == "__main__":
    main()
