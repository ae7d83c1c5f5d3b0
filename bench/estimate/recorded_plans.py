#!/usr/bin/env python3
"""Plans of recorded steps, applied to the steps themselves, on the CPU: recorded_plans.py SNUG [--classes NAME,...]
[--budgets N] [--json FILE]

Each model's step is recorded on fake tensors; `snug estimate step.json --memory BUDGET --emit torch` writes a policy
for each of some budgets, spread over the front that --json has; the policy is applied to the model as it is, and
PyTorch's profiler counts the peak of a real step. What goes to the host is copied by numpy, so that it is none of
PyTorch's memory. Losses of three steps are compared bit for bit with those of the same loop without the policy. Needs
torch, transformers and timm; a test's oracle only."""

import argparse
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback
import types

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.append(str(ROOT / "recipes"))  # behind packages, of which some have the names of recipes
import record as recipe  # noqa: E402
import recorded  # noqa: E402
from recorded_classes import CLASSES  # noqa: E402

BATCH = 8


class Mixer(torch.nn.Module):
    """A module of one's own that no table knows: gates along the tokens, then along the width."""

    def __init__(self, width=48, tokens=96, depth=5, words=200):
        super().__init__()
        self.table = torch.nn.Embedding(words, width)
        self.layers = torch.nn.ModuleList(Layer(width, tokens) for _ in range(depth))
        self.head = torch.nn.Linear(width, words)

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Layer(torch.nn.Module):
    def __init__(self, width, tokens):
        super().__init__()
        self.norm, self.along = torch.nn.LayerNorm(width), torch.nn.Linear(tokens, tokens)
        wide = torch.nn.LayerNorm(width), torch.nn.Linear(width, 4 * width), torch.nn.SiLU(), torch.nn.Dropout(0.1)
        self.wide = torch.nn.Sequential(*wide, torch.nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.norm(x)
        x = x + y * torch.sigmoid(self.along(y.transpose(1, 2)).transpose(1, 2))
        return x + self.wide(x)


class Own:
    lengths = (96,)

    def make_model(self):
        return Mixer()

    def make_batch(self, size, length):
        return {name: torch.zeros(size, length, dtype=torch.long) for name in ("ids", "labels")}

    def loss_of(self, model, batch):
        return torch.nn.functional.cross_entropy(model(batch["ids"]).transpose(1, 2), batch["labels"])


class Half:
    """Another case, under autocast."""
    autocast = torch.bfloat16

    def __init__(self, case):
        self.lengths, self.make_model, self.make_batch = case.lengths, case.make_model, case.make_batch
        self.loss_of = case.loss_of


class Pictures:
    lengths = (1,)

    fake = False  # timm's constructors ask for numbers

    def __init__(self, name, side, **more):
        self.name, self.side, self.more = name, side, more

    def make_model(self):
        import timm
        return timm.create_model(self.name, num_classes=10, **self.more)

    def make_batch(self, size, length):
        return {"x": torch.zeros(size, 3, self.side, self.side), "labels": torch.zeros(size, dtype=torch.long)}

    def loss_of(self, model, batch):
        return torch.nn.functional.cross_entropy(model(batch["x"]), batch["labels"])


TAKEN = ("GPT2LMHeadModel", "LlamaForCausalLM", "BertForMaskedLM", "ViTForImageClassification", "Qwen3ForCausalLM",
         "T5ForConditionalGeneration")
CASES = {name: CLASSES[name] for name in TAKEN}
CASES |= {name + " bf16": lambda name=name: Half(CLASSES[name]()) for name in TAKEN[:3]}
CASES |= {"Mixer (one's own)": Own, "timm resnet18": lambda: Pictures("resnet18", 160),
          "timm vit_tiny": lambda: Pictures("vit_tiny_patch16_224", 224, depth=4),
          "timm convnext_atto": lambda: Pictures("convnext_atto", 128)}


def drawn(case, size):
    batch = case.make_batch(size, case.lengths[0])
    for t in batch.values():
        t.normal_() if t.is_floating_point() else t.random_(0, 2 if t.dim() == 1 else 150)
    return batch


def policy_of(source):
    module = types.ModuleType("policy")
    exec(compile(source, "policy.py", "exec"), module.__dict__)
    if hasattr(module, "to_host"):  # as on a GPU, where the host's memory is none of the device's
        def to_host(t):
            return t.detach().contiguous().view(torch.uint8).numpy().copy(), t.dtype, t.shape, t.stride()

        def to_device(host, device):
            flat, dtype, shape, stride = host
            t = torch.empty_strided(shape, stride, dtype=dtype)
            t.copy_(torch.from_numpy(flat).view(dtype).view(shape))
            return t
        module.to_host, module.to_device = to_host, to_device
    return module


def run(case, policy, prepares, steps=3):
    """Losses of some steps, and the peak of the last one."""
    torch.manual_seed(1)
    model = case.make_model().train()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    if prepares:
        policy.prepare(model)
    losses = []

    def one():
        batches = (drawn(case, policy.MICRO_BATCH) for _ in range(policy.ACCUMULATE))
        losses.extend(policy.step(model, optimizer, batches, case.loss_of))
    for _ in range(steps - 1):
        one()
    peak = recorded.there(model, optimizer, {}) + recorded.largest_of(one)
    return [x.clone() for x in losses], peak


def ask(snug, path, *more):
    command = [snug, "estimate", str(path), "--device", "cpu", "--batch", str(BATCH), *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def budgets_of(front, count):
    """From the least on, at equal distances along the front; its last is the plain step."""
    which = sorted({round(i * (len(front) - 1) / count) for i in range(count)})
    return [front[i]["bytes"] for i in which]


def check(snug, name, folder, count):
    case = CASES[name]()
    path = folder / "step.json"
    with contextlib.redirect_stderr(io.StringIO()):
        recipe.record(case.make_model, case.make_batch, case.loss_of,
                      lambda m: torch.optim.AdamW(m.parameters(), foreach=True), batches=(1, 2, 3),
                      lengths=case.lengths[:1], device="cpu", out=str(path),
                      fake=getattr(case, "fake", True), autocast=getattr(case, "autocast", None))
    start = time.perf_counter()
    front = json.loads(ask(snug, path, "--memory", "1TiB", "--json"))["front"]
    seconds = time.perf_counter() - start
    for budget in budgets_of(front, count):
        plan = json.loads(ask(snug, path, "--memory", str(budget), "--json"))["plan"]
        policy = policy_of(ask(snug, path, "--memory", str(budget), "--emit", "torch"))
        losses, peak = run(case, policy, True)
        plain, without = run(case, policy, False)
        equal = len(losses) == len(plain) and all(torch.equal(a, b) for a, b in zip(losses, plain))
        yield dict(name=name, budget=budget, promised=plan["bytes"], measured=peak, without=without, equal=equal,
                   micro=plan["micro_batch"], again=len(plan["again"]), away=len(plan["away"]),
                   front=len(front), seconds=seconds)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("snug")
    p.add_argument("--classes", default="")
    p.add_argument("--budgets", type=int, default=3)
    p.add_argument("--json")
    p.add_argument("--trace", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}\n")
    print("| model | budget | at once | again | host | promised | measured | | without the policy | losses |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    rows, failed = [], 0
    for name in [n for n in a.classes.split(",") if n] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                for r in check(a.snug, name, pathlib.Path(folder), a.budgets):
                    off = 100 * (r["promised"] / r["measured"] - 1)
                    cells = [name, f"{r['budget']:,}", r["micro"], r["again"], r["away"], f"{r['promised']:,}",
                             f"{r['measured']:,}", f"{off:+.2f} %", f"{r['without']:,}",
                             "equal" if r["equal"] else "DIFFER"]
                    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
                    rows.append(r)
            except (Exception, SystemExit) as e:
                failed += 1
                if a.trace:
                    traceback.print_exc()
                why = (str(e).splitlines() or [type(e).__name__])[0][:90]
                print(f"| {name} | none: {why} |", flush=True)
    kept = sum(r["measured"] <= r["promised"] for r in rows)
    near = sum(r["measured"] <= r["promised"] <= 1.02 * r["measured"] for r in rows)
    print(f"\n{len(rows)} plans: {kept} take no more than was promised, {near} of them at most 2 % less; losses of "
          f"{sum(r['equal'] for r in rows)} are equal bit for bit; {failed} models without an answer")
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(rows))
    return 0 if rows and near == len(rows) and all(r["equal"] for r in rows) and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
