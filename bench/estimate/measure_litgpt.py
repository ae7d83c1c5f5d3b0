#!/usr/bin/env python3
"""Measures one training step of small models of Lightning's litgpt as measure_torch.py does, and writes
points_litgpt.csv: the largest sum of live bytes, exact to the byte, on PyTorch's CPU allocator. The step is that of
litgpt's finetune scripts: logits 128 tokens at a time, handed out in f32 as Fabric does it, and chunked_cross_entropy.

Needs torch, transformers (for measure_torch) and litgpt. The settings are options of `snug estimate`, so report.py
reads the file."""

import csv

import torch
from litgpt.config import Config
from litgpt.lora import GPT as Adapted
from litgpt.lora import Config as AdaptedConfig
from litgpt.lora import mark_only_lora_as_trainable
from litgpt.model import GPT
from litgpt.utils import chunked_cross_entropy

import measure_torch as m

SIZES = dict(n_embd=256, n_layer=4, n_head=8, padded_vocab_size=4096, vocab_size=4096, block_size=512,
             intermediate_size=704, norm_class_name="RMSNorm", mlp_class_name="LLaMAMLP", rotary_percentage=1.0,
             parallel_residual=False, bias=False)
MODELS = {"llama": dict(n_query_groups=8), "llama-grouped": dict(n_query_groups=2)}
TYPES = {"float32": (torch.float32, False), "autocast": (torch.float32, True), "half": (torch.bfloat16, False)}
ALL = ("query", "key", "value", "projection", "mlp", "head")
# options of snug estimate: which of litgpt's adapters, and their dropout
ADAPTERS = {
    "": None,
    " --adapter-rank 8 --adapter-targets q_proj,v_proj --adapter-dropout 0.05": (("query", "value"), 0.05),
    " --adapter-rank 8 --adapter-targets q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj,lm_head": (ALL, 0.0),
}
LINE = "--framework litgpt --device cpu --batch 4 --context 256 --optimizer-kernels foreach --dtype "


class Fabric(torch.nn.Module):
    """What Fabric does around a forward of that precision."""

    def __init__(self, model, autocast):
        super().__init__()
        self.model, self.autocast = model, autocast

    def forward(self, ids):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            logits = self.model(ids, lm_head_chunk_size=128)
        return [part.to(torch.float32) for part in logits]


def make(sizes, weights, adapters):
    if not adapters:
        return GPT(Config(**SIZES, **sizes)).to(weights)
    which, dropout = adapters
    kinds = {f"lora_{kind}": kind in which for kind in ALL}
    model = Adapted(AdaptedConfig(**SIZES, **sizes, lora_r=8, lora_alpha=16, lora_dropout=dropout, **kinds))
    mark_only_lora_as_trainable(model)
    return model.to(weights)


def step(model, optimizer, ids):
    logits = model(ids)
    logits[-1] = logits[-1][..., :-1, :]
    loss = chunked_cross_entropy(logits, ids[..., 1:])
    loss.backward()
    del logits, loss
    optimizer.step()
    optimizer.zero_grad()


def peak(model, optimizer, ids):
    step(model, optimizer, ids)
    before = m.held(model, optimizer, {"ids": ids})
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as p:
        step(model, optimizer, ids)
    events = [e for e in p.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda e: e.start_ns())
    live = most = 0
    for e in events:
        live += e.nbytes()
        most = max(most, live)
    return before + most


def measure(sizes, types, adapters):
    torch.manual_seed(1)
    weights, autocast = TYPES[types]
    model = Fabric(make(sizes, weights, adapters), autocast)
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, foreach=True)
    return peak(model, optimizer, torch.randint(0, 4096, (m.BATCH, m.CONTEXT)))


def main():
    import importlib.metadata as packages
    torch.set_num_threads(1)
    source = f"measure_litgpt.py, torch {torch.__version__.split('+')[0]}, litgpt {packages.version('litgpt')}"
    with open(m.HERE / "points_litgpt.csv", "w", newline="", encoding="ascii") as out:
        rows = csv.writer(out)
        rows.writerow(["model", "settings", "layer", "bytes", "source"])
        for name, sizes in MODELS.items():
            for types in TYPES:
                for options, adapters in ADAPTERS.items():
                    rows.writerow([name, LINE + types + options, "live", measure(sizes, types, adapters), source])
                    out.flush()


if __name__ == "__main__":
    main()
