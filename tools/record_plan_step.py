#!/usr/bin/env python3
"""Writes tests/estimate/recorded/step_plans.json: a recorded step of a small model with what a plan has to decide.
Blocks with parts, dropout, a weight that two modules share, a module that runs twice and a buffer that forward changes.
tests/estimate/test_recorded_plan.c plans it, and tests/estimate/planned.py applies the plans to the model. Needs
torch."""

import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "recipes"))
import record as recipe  # noqa: E402

WIDTH, WORDS, LENGTH = 32, 160, 48


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.gate = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.wide = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Dropout(0.1),
                                        torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        y = self.norm(x)
        return x + self.wide(y * torch.sigmoid(self.gate(y)))


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.scale = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        self.seen += 1
        return x + torch.tanh(self.scale(x))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.twice, self.counter = torch.nn.Embedding(WORDS, WIDTH), Block(), Counter()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(4))
        self.head = torch.nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids):
        x = self.counter(self.twice(self.twice(self.table(ids))))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def make_batch(size, length):
    return {name: torch.zeros(size, length, dtype=torch.long) for name in ("ids", "labels")}


def loss_of(model, batch):
    return torch.nn.functional.cross_entropy(model(batch["ids"]).flatten(0, 1), batch["labels"].flatten())


def make_optimizer(model):
    return torch.optim.AdamW(model.parameters(), foreach=True)


if __name__ == "__main__":
    recipe.record(Model, make_batch, loss_of, make_optimizer, batches=(1, 2, 3), lengths=(LENGTH,), device="cpu",
                  out=str(ROOT / "tests" / "estimate" / "recorded" / "step_plans.json"))
