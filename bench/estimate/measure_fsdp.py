#!/usr/bin/env python3
"""What FSDP holds of frozen blocks that are computed again: measure_fsdp.py, with torch on a CPU.

Prints how many tensors of the model's width each block adds to the peak. One; two where the blocks are units of FSDP
without trained weights, and torch.utils.checkpoint is called around them with use_reentrant=True."""

import os

import torch
from torch import distributed, nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.utils.checkpoint import checkpoint

WIDTH, TOKENS = 256, 2048


class Block(nn.Module):
    def __init__(self, trained):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.requires_grad_(trained)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Chain(nn.Module):
    def __init__(self, blocks, reentrant):
        super().__init__()
        self.blocks, self.reentrant = nn.ModuleList(blocks), reentrant

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x.sum()


def unit(module):
    return FullyShardedDataParallel(module, device_id=torch.device("cpu"), use_orig_params=True)


def peak(count, trained, sharded, reentrant):
    blocks = [Block(trained) for _ in range(count)]
    model = Chain([unit(block) for block in blocks] if sharded else blocks, reentrant)
    model = unit(model) if sharded else model

    def step():
        model(torch.zeros(TOKENS, WIDTH, requires_grad=True)).backward()
        model.zero_grad(set_to_none=True)

    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    live = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        most = max(most, live)
    return most


def main():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533", RANK="0", WORLD_SIZE="1")
    distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    for trained in True, False:
        for reentrant in True, False:
            for sharded in False, True:
                a, b = (peak(count, trained, sharded, reentrant) for count in (4, 12))
                print("trained" if trained else "frozen", "FSDP" if sharded else "plain",
                      f"use_reentrant={reentrant}: {(b - a) / 8 / (TOKENS * WIDTH * 4):.2f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
