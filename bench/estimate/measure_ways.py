#!/usr/bin/env python3
"""Measures other ways of training as measure_torch.py does, and writes points_ways.csv: adapters (the PEFT library),
accumulated gradients, SGD and Adafactor, and a GPT of torch.nn's own modules, which no transformers is in.

Needs torch, transformers and peft. The settings are options of `snug estimate`, so report.py reads the file."""

import csv
import itertools

import peft
import torch
import torch.nn.functional as F
from torch import nn

import measure_torch as m

CPU = "--device cpu --batch 4 --context 256"
ADAM = dict(optimizer=lambda p: torch.optim.AdamW(p, foreach=True))
# options of snug estimate: (weights, autocast, checkpointing, adapter, optimizer, micro-batches)
WAYS = {
    "--dtype half --adapter-rank 8": dict(weights=torch.bfloat16, adapter=dict(target_modules="all-linear")),
    "--dtype half --adapter-rank 8 --adapter-targets q_proj,v_proj": dict(
        weights=torch.bfloat16, adapter=dict(target_modules=["q_proj", "v_proj"])),
    "--dtype autocast --base-bits 32 --adapter-rank 8": dict(autocast=True, adapter=dict(target_modules="all-linear")),
    "--dtype half --adapter-rank 8 --gradient-checkpointing": dict(
        weights=torch.bfloat16, checkpointing=True, adapter=dict(target_modules="all-linear")),
    "--dtype half --adapter-rank 8 --use-dora": dict(
        weights=torch.bfloat16, adapter=dict(target_modules="all-linear", use_dora=True)),
    "--dtype autocast --base-bits 32 --adapter-rank 8 --use-dora": dict(
        autocast=True, adapter=dict(target_modules="all-linear", use_dora=True)),
    "--dtype half --adapter-rank 8 --gradient-checkpointing --use-dora": dict(
        weights=torch.bfloat16, checkpointing=True, adapter=dict(target_modules="all-linear", use_dora=True)),
    "--dtype half --adapter-rank 8 --adapter-dropout 0.1 --use-dora": dict(
        weights=torch.bfloat16, adapter=dict(target_modules="all-linear", use_dora=True, lora_dropout=0.1)),
    "--dtype float32 --accumulate 2": dict(micro_batches=2),
    "--dtype float32 --optimizer sgd --momentum 0.9": dict(
        optimizer=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True)),
    "--dtype float32 --optimizer sgd --momentum 0": dict(optimizer=lambda p: torch.optim.SGD(p, lr=0.1, foreach=True)),
    "--dtype float32 --optimizer adafactor": dict(optimizer=lambda p: torch.optim.Adafactor(p, foreach=False)),
}
MODELS = ("llama", "llama-grouped", "qwen2", "phi")


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, context, width = x.shape
        q, k, v = self.qkv(self.ln_1(x)).split(width, dim=2)
        q, k, v = (t.view(batch, context, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(batch, context, width))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Plain(nn.Module):
    """The sizes of models/gpt2.json, its table and its head apart."""

    def __init__(self, width=256, layers=4, heads=8, context=512, vocabulary=4096):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, input_ids, labels):
        x = self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def step(model, optimizer, batch, autocast, micro_batches):
    for _ in range(micro_batches):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = model(**batch)
            loss = loss if torch.is_tensor(loss) else loss.loss
        loss.backward()
    optimizer.step()
    del loss
    optimizer.zero_grad(set_to_none=True)


def measure(model, optimizer=ADAM["optimizer"], autocast=False, micro_batches=1, **_):
    optimizer = optimizer([p for p in model.parameters() if p.requires_grad])
    ids = torch.randint(0, 4096, (m.BATCH, m.CONTEXT))
    batch = {"input_ids": ids, "labels": ids.clone()}
    step(model, optimizer, batch, autocast, micro_batches)
    before = m.held(model, optimizer, batch)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as p:
        step(model, optimizer, batch, autocast, micro_batches)
    events = [e for e in p.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda e: e.start_ns())
    return before + max(itertools.accumulate(e.nbytes() for e in events))


def of_transformers(name, weights=torch.float32, checkpointing=False, adapter=None, **_):
    model = m.make(name, "sdpa", weights, checkpointing)
    if adapter and checkpointing:
        model.enable_input_require_grads()
    return peft.get_peft_model(model, peft.LoraConfig(r=8, task_type="CAUSAL_LM", **adapter)) if adapter else model


def points():
    version = f"torch {torch.__version__.split('+')[0]}, peft {peft.__version__}"
    for name in MODELS:
        for options, way in WAYS.items():
            if name == "phi" and "q_proj" in options:
                continue
            bytes_ = measure(of_transformers(name, **way), **way)
            yield name, f"{CPU} --optimizer-kernels foreach {options}", bytes_, version
    for options, weights, autocast in (("float32", torch.float32, False), ("half", torch.bfloat16, False),
                                       ("autocast", torch.float32, True)):
        bytes_ = measure(Plain().to(weights), autocast=autocast)
        yield "gpt2-plain", f"{CPU} --framework pytorch --optimizer-kernels foreach --dtype {options}", bytes_, version


def main():
    torch.set_num_threads(1)
    with open(m.HERE / "points_ways.csv", "w", newline="", encoding="ascii") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["model", "settings", "layer", "bytes", "source"])
        for name, options, bytes_, version in points():
            rows.writerow([name, options, "live", bytes_, f"measure_ways.py, {version}"])
            out.flush()


if __name__ == "__main__":
    main()
