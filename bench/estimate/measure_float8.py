#!/usr/bin/env python3
"""Measures what torchao's float8 training keeps for backward: prints, for each of its recipes, the bytes that hooks of
saved tensors see in two products with a GELU between them, in bf16 and converted. Products are emulated on a CPU, which
changes what is computed in between, and not what is kept.

Needs torch and torchao."""

import dataclasses

import torch
import torchao.float8
from torch import nn


def kept(recipe):
    layers = (nn.Linear(512, 2048, bias=False), nn.GELU(), nn.Linear(2048, 512, bias=False))
    model = nn.Sequential(*layers).to(torch.bfloat16)
    if recipe:
        config = torchao.float8.Float8LinearConfig.from_recipe_name(recipe)
        torchao.float8.convert_to_float8_training(model, config=dataclasses.replace(config, emulate=True))
    storages = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    x = torch.randn(256, 512, dtype=torch.bfloat16, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = model(x)
    del y
    return sum(storages.values())


def main():
    for recipe in (None, "tensorwise", "rowwise", "rowwise_with_gw_hp"):
        print(f"{recipe or 'bf16':20} {kept(recipe):>10} bytes kept")


if __name__ == "__main__":
    main()
