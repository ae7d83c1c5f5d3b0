#!/usr/bin/env python3
"""Plans of recorded steps, applied to the steps themselves, on the CPU: recorded_plans.py SNUG [--classes NAME,...]
[--settings NAME;...] [--budgets N] [--keeping] [--pieces] [--json FILE]

Each model's step is recorded on fake tensors; `snug estimate step.json --memory BUDGET --emit torch` writes a policy
for each of some budgets, spread over the front that --json has; the policy is applied to the model as it is, and
PyTorch's profiler counts the peak of a real step. What goes to the host is copied by numpy, so that it is none of
PyTorch's memory. Losses of three steps are compared bit for bit with those of the same loop without what was planned.
With --settings the step is asked for another precision, for adapters or for one of two devices (processes over gloo),
which the policy has to say by itself. Needs torch, transformers and timm, of adapters peft; a test's oracle only."""

import argparse
import contextlib
import io
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback
import types

import numpy
import torch
import torch.distributed
import torch.multiprocessing

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.append(str(ROOT / "recipes"))  # behind packages, of which some have the names of recipes
import record as recipe  # noqa: E402
import recorded  # noqa: E402
from recorded_classes import CLASSES, GPT, SHARED, text  # noqa: E402

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

    def __init__(self, **more):
        self.more = more

    def make_model(self):
        return Mixer(**self.more)

    def make_batch(self, size, length):
        return {name: torch.zeros(size, length, dtype=torch.long) for name in ("ids", "labels")}

    def loss_of(self, model, batch):
        return torch.nn.functional.cross_entropy(model(batch["ids"]).transpose(1, 2), batch["labels"])


class Likelihoods(Own):
    """The same loss as two calls."""

    def loss_of(self, model, batch):
        logs = torch.nn.functional.log_softmax(model(batch["ids"]), dim=-1)
        return torch.nn.functional.nll_loss(logs.flatten(0, 1), batch["labels"].flatten())


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
# Products are worth keeping where they take longer than a call's beginning; logits are the peak of many words.
WIDE, WORDS = dict(hidden_size=256, intermediate_size=704), dict(vocab_size=4096)
LARGE = {"GPT2LMHeadModel wide": text("GPT2LMHeadModel", "GPT2Config", GPT, n_embd=256),
         "LlamaForCausalLM wide": text("LlamaForCausalLM", "LlamaConfig", SHARED | WIDE, head_dim=64),
         "Mixer wide (one's own)": lambda: Own(width=256, depth=4),
         "GPT2LMHeadModel of many words": text("GPT2LMHeadModel", "GPT2Config", GPT | WORDS),
         "LlamaForCausalLM of many words": text("LlamaForCausalLM", "LlamaConfig", SHARED | WORDS),
         "Mixer of many words (one's own)": lambda: Own(words=4096),
         "Likelihoods of many words (one's own)": lambda: Likelihoods(words=4096)}
LARGE |= {"GPT2LMHeadModel wide bf16": lambda: Half(LARGE["GPT2LMHeadModel wide"]())}
ALL = CASES | LARGE


# What is said to snug; recorded: autocast, as the step is recorded; half: floats of batches have 16 bits; narrow:
# without oneDNN, whose products of 16 bits copy what they read within the call, which no recording of f32 shows.
SETTINGS = {
    "": dict(said=""),
    "autocast": dict(said="--dtype autocast", narrow=True),
    "half": dict(said="--dtype half", half=True, narrow=True),
    "f32 from autocast": dict(said="--dtype float32", recorded=torch.bfloat16),
    "LoRA": dict(said="--adapter-rank 8"),
    "LoRA, dropout": dict(said="--adapter-rank 8 --adapter-dropout 0.1"),
    "LoRA, autocast": dict(said="--adapter-rank 8 --dtype autocast", narrow=True),
    "DDP": dict(said="--gpus 2 --shard ddp", several=True),
    "DDP, autocast": dict(said="--gpus 2 --shard ddp --dtype autocast", several=True, narrow=True),
    "FSDP": dict(said="--gpus 2 --shard fsdp", several=True),
    "FSDP, 16 bits": dict(said="--gpus 2 --shard fsdp --dtype autocast", several=True, narrow=True),
    "FSDP, LoRA": dict(said="--gpus 2 --shard fsdp --adapter-rank 8", several=True),
    "loss in pieces": dict(said="--loss-chunks 4"),
    "loss in pieces, autocast": dict(said="--loss-chunks 4", recorded=torch.bfloat16),
    "loss in pieces, DDP": dict(said="--loss-chunks 4 --gpus 2 --shard ddp", several=True),
    "loss in pieces, FSDP": dict(said="--loss-chunks 4 --gpus 2 --shard fsdp", several=True),
    "loss in pieces, FSDP, 16 bits": dict(said="--loss-chunks 4 --gpus 2 --shard fsdp --dtype autocast", several=True,
                                          narrow=True),
}


def near(plan, dtype):
    """How far losses may be off: those of pieces are added up in another order, and without f32 gradients of the head's
    weight in 16 bits. Losses that themselves have 16 bits are off by their own rounding."""
    if plan["loss_chunks"] > 1 and dtype == torch.bfloat16:
        return 2 ** -7
    return 0 if plan["loss_chunks"] == 1 else 2e-6 if plan["dtype"] == "float32" else 1e-4


def drawn(case, size, half):
    batch = case.make_batch(size, case.lengths[0])
    for t in batch.values():
        t.normal_() if t.is_floating_point() else t.random_(0, 2 if t.dim() == 1 else 150)
    return {k: t.bfloat16() if half and t.is_floating_point() else t for k, t in batch.items()}


def policy_of(source):
    module = types.ModuleType("policy")
    exec(compile(source, "policy.py", "exec"), module.__dict__)
    if hasattr(module, "to_host"):  # as on a GPU, where the host's memory is none of the device's
        def to_host(t):
            stride = torch.empty_like(t, device="meta").stride()  # parts of a tensor leave its gaps behind
            return t.detach().contiguous().view(torch.uint8).numpy().copy(), t.dtype, t.shape, stride

        def to_device(host, device):
            flat, dtype, shape, stride = host
            t = torch.empty_strided(shape, stride, dtype=dtype)
            t.copy_(torch.from_numpy(flat).view(dtype).view(shape))
            return t
        module.to_host, module.to_device = to_host, to_device
    return module


def local(t):  # a device's share
    return getattr(t, "_local_tensor", t)


def there(model, optimizer):
    """What a device has of weights and states, and DDP's buckets."""
    known = [*model.parameters(), *model.buffers()]
    known += [t for state in optimizer.state.values() for t in state.values() if torch.is_tensor(t)]
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in map(local, known)}
    buckets = ""
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        said = model._get_ddp_logging_data()
        buckets = said.get("rebuilt_bucket_sizes") or said["bucket_sizes"]
    return sum(storages.values()) + sum(int(x) for x in buckets.split(",") if x.strip())


def run(case, policy, planned, half=False, rank=0, steps=3):
    """Losses of some steps, and the peak of the last one."""
    torch.manual_seed(1)
    model = case.make_model().train()
    if not planned:  # settings alone
        for names in (getattr(policy, "AGAIN", []), getattr(policy, "KEEPING", []), getattr(policy, "AWAY", [])):
            names.clear()
        policy.Logits = lambda head, rows: head(rows)  # as the model computes them
    model = policy.prepare(model)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], foreach=True)
    torch.manual_seed(2 + rank)
    losses = []

    def one():
        batches = (drawn(case, policy.MICRO_BATCH, half) for _ in range(policy.ACCUMULATE))
        losses.extend(policy.step(model, optimizer, batches, case.loss_of))
    for _ in range(steps - 1):
        one()
    peak = there(model, optimizer) + recorded.largest_of(one)
    return [x.clone() for x in losses], peak


class Meeting:
    """Collectives of two processes by a file that both have mapped. gloo copies once more what it reduces, which no
    GPU's library does; and its threads may hold what was sent a while longer, and let it go where no profiler looks."""

    def __init__(self, rank, folder, most=1 << 28):
        self.rank = rank
        self.file = numpy.memmap(f"{folder}/exchange-{rank}", numpy.uint8, "w+", shape=most)
        torch.distributed.barrier()
        self.other = numpy.memmap(f"{folder}/exchange-{1 - rank}", numpy.uint8, "r", shape=most)

    def both(self, mine):
        """The bytes of both processes, by rank, until the next call."""
        torch.distributed.barrier()  # the last ones were read
        flat = mine.detach().contiguous().view(torch.uint8).numpy().reshape(-1)
        self.file[:flat.size] = flat
        torch.distributed.barrier()
        return [x[:flat.size] for x in ((self.other, self.file) if self.rank else (self.file, self.other))]

    def gather(self, output, input, group=None, async_op=False):
        output.view(torch.uint8).numpy().reshape(-1)[:] = numpy.concatenate(self.both(input))

    def reduce(self, output, input, op=torch.distributed.ReduceOp.SUM, group=None, async_op=False):
        assert input.dtype == output.dtype == torch.float32
        a, b = (x.view(numpy.float32).reshape(2, -1)[self.rank] for x in self.both(input))
        output.numpy().reshape(-1)[:] = (a + b) * numpy.float32(0.5 if op == torch.distributed.ReduceOp.AVG else 1)


def join(rank, folder):
    """One of two processes."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    meeting = Meeting(rank, folder)
    names = {"all_gather_into_tensor": meeting.gather, "reduce_scatter_tensor": meeting.reduce,  # before PyTorch 2.15
             "all_gather_single": meeting.gather, "reduce_scatter_single": meeting.reduce}  # and since
    for name, work in names.items():
        if hasattr(torch.distributed, name):
            setattr(torch.distributed, name, work)


def worker(rank, folder, name, which, sources):
    """Of each policy the planned run and that of the settings alone, into answers.pt."""
    setting = SETTINGS[which]
    if setting.get("several"):
        join(rank, folder)
    answers = []
    for source in sources:
        policy = policy_of(source)
        with torch.backends.mkldnn.flags(enabled=not setting.get("narrow", False)):
            answers.append([run(ALL[name](), policy, planned, setting.get("half", False), rank)
                            for planned in (True, False)])
    if not rank:
        torch.save(answers, folder / "answers.pt")
    if setting.get("several"):
        torch.distributed.destroy_process_group()


def record(_, folder, name, which):
    case, setting = ALL[name](), SETTINGS[which]
    with contextlib.redirect_stderr(io.StringIO()):
        recipe.record(case.make_model, case.make_batch, case.loss_of,
                      lambda m: torch.optim.AdamW(m.parameters(), foreach=True), batches=(1, 2, 3),
                      lengths=case.lengths[:1], device="cpu", out=str(folder / "step.json"),
                      fake=getattr(case, "fake", True),
                      autocast=setting.get("recorded", getattr(case, "autocast", None)))


def apart(work, args, count=1):
    """In processes of their own, forked: libraries are loaded once, and this one computes nothing."""
    torch.multiprocessing.start_processes(work, args, nprocs=count, start_method="fork")


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


def check(snug, name, which, folder, count, wanted):
    path, said = folder / "step.json", SETTINGS[which]["said"].split()
    apart(record, (folder, name, which))
    start = time.perf_counter()
    front = json.loads(ask(snug, path, *said, "--memory", "1TiB", "--json"))["front"]
    seconds = time.perf_counter() - start
    budgets = budgets_of([p for p in front if wanted(p)], count)
    plans = [json.loads(ask(snug, path, *said, "--memory", str(b), "--json"))["plan"] for b in budgets]
    sources = [ask(snug, path, *said, "--memory", str(b), "--emit", "torch") for b in budgets]
    apart(worker, (folder, name, which, sources), 2 if SETTINGS[which].get("several") else 1)
    answers = torch.load(folder / "answers.pt")
    for budget, plan, ((losses, peak), (plain, without)) in zip(budgets, plans, answers):
        far = max(float((a - b).abs() / b.abs()) for a, b in zip(losses, plain))
        equal = len(losses) == len(plain) and far <= near(plan, plain[0].dtype)
        yield dict(name=name, setting=which, budget=budget, promised=plan["bytes"], measured=peak, without=without,
                   equal=equal, far=far, micro=plan["micro_batch"], again=len(plan["again"]), away=len(plan["away"]),
                   keeping=sum(len(k["modules"]) for k in plan["keeping"]), pieces=plan["loss_chunks"],
                   front=len(front), seconds=seconds)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("snug")
    p.add_argument("--classes", default="")
    p.add_argument("--settings", default="", help="several with semicolons; all: each of them")
    p.add_argument("--budgets", type=int, default=3)
    p.add_argument("--keeping", action="store_true", help="only plans that keep results of modules that run again")
    p.add_argument("--pieces", action="store_true", help="only plans whose head and loss come in pieces")
    p.add_argument("--json")
    p.add_argument("--trace", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}\n")
    print("| model | settings | budget | at once | again | keeping | host | pieces | promised | measured | | without "
          "| losses |")
    print("|---|" + "---|" * 12)
    rows, failed = [], 0

    def wanted(p):
        return (p["keeping"] or not a.keeping) and (p["loss_chunks"] > 1 or not a.pieces)
    asked = list(SETTINGS)[1:] if a.settings == "all" else a.settings.split(";")
    for name, which in itertools.product([n for n in a.classes.split(",") if n] or CASES, asked):
        with tempfile.TemporaryDirectory() as folder:
            try:
                for r in check(a.snug, name, which, pathlib.Path(folder), a.budgets, wanted):
                    off = 100 * (r["promised"] / r["measured"] - 1)
                    cells = [name, which, f"{r['budget']:,}", r["micro"], r["again"], r["keeping"], r["away"],
                             r["pieces"], f"{r['promised']:,}", f"{r['measured']:,}", f"{off:+.2f} %",
                             f"{r['without']:,}",
                             "DIFFER" if not r["equal"] else f"to {r['far']:.0e}" if r["far"] else "equal"]
                    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
                    rows.append(r)
            except (Exception, SystemExit) as e:
                failed += 1
                if a.trace:
                    traceback.print_exc()
                why = (str(e).splitlines() or [type(e).__name__])[0][:90]
                print(f"| {name} | {which} | none: {why} |", flush=True)
    kept = sum(r["measured"] <= r["promised"] for r in rows)
    near_by = sum(r["measured"] <= r["promised"] <= 1.02 * r["measured"] for r in rows)
    print(f"\n{len(rows)} plans: {kept} take no more than was promised, {near_by} of them at most 2 % less; losses of "
          f"{sum(r['far'] == 0 for r in rows)} are equal bit for bit, of {sum(r['equal'] for r in rows)} to rounding; "
          f"{failed} models without an answer")
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(rows))
    return 0 if rows and near_by == len(rows) and all(r["equal"] for r in rows) and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
