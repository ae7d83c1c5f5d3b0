#!/usr/bin/env python3
"""Asks the libraries themselves whether an emitted configuration says only what they know.

emit.py hf FILE...          arguments of transformers (and PEFT, where it is installed)
emit.py torch FILE...       what plain PyTorch is called with
emit.py accelerate FILE...  keys of accelerate's configuration"""

import ast
import dataclasses
import inspect
import sys


def calls(path):
    """Each call of a file: its name ("torch.optim.AdamW"), and its keywords."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), {k.arg: k.value for k in node.keywords if k.arg}


def expect(path, what, said, known):
    unknown = set(said) - set(known)
    if unknown:
        sys.exit(f"{path}: {what} knows no {sorted(unknown)}")


def value(node):
    return ast.literal_eval(node)


def check_arguments(path, said):
    from transformers import TrainingArguments
    from transformers.training_args import OptimizerNames

    expect(path, "TrainingArguments", said, [f.name for f in dataclasses.fields(TrainingArguments)])
    expect(path, "OptimizerNames", [value(said["optim"])], [o.value for o in OptimizerNames])
    if "fsdp_config" in said:
        text = TrainingArguments.__doc__
        for key in value(said["fsdp_config"]):
            if f"- {key} (" not in text:
                sys.exit(f"{path}: fsdp_config has no {key}")


def check_hf(path):
    from transformers import BitsAndBytesConfig
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    seen = set()
    for name, said in calls(path):
        seen.add(name)
        if name == "TrainingArguments":
            check_arguments(path, said)
        elif name == "BitsAndBytesConfig":
            expect(path, name, said, inspect.signature(BitsAndBytesConfig.__init__).parameters)
        elif name == "LoraConfig":
            try:
                from peft import LoraConfig
            except ImportError:
                continue
            expect(path, name, said, [f.name for f in dataclasses.fields(LoraConfig)])
        elif name.endswith("from_pretrained"):
            kinds = ["eager", *ALL_ATTENTION_FUNCTIONS.valid_keys()]
            if "attn_implementation" in said:
                expect(path, "attn_implementation", [value(said["attn_implementation"])], kinds)
    if "TrainingArguments" not in seen:
        sys.exit(f"{path}: no TrainingArguments")


def check_torch(path):
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.nn.attention import SDPBackend
    from torch.utils.checkpoint import checkpoint

    known = {"fully_shard": fully_shard, "MixedPrecisionPolicy": MixedPrecisionPolicy.__init__,
             "torch.autocast": torch.autocast.__init__, "checkpoint": checkpoint,
             "torch.optim.AdamW": torch.optim.AdamW.__init__, "torch.optim.SGD": torch.optim.SGD.__init__,
             "torch.optim.Adafactor": torch.optim.Adafactor.__init__}
    for name, said in calls(path):
        if name in known:
            expect(path, name, said, inspect.signature(known[name]).parameters)
    with open(path, encoding="utf-8") as file:
        for word in file.read().replace(",", " ").replace("]", " ").split():
            if word.startswith(("SDPBackend.", "[SDPBackend.")):
                getattr(SDPBackend, word.split(".")[1])


def check_accelerate(path):
    import yaml
    from accelerate.commands.config.config_args import ClusterConfig
    from accelerate.utils import FullyShardedDataParallelPlugin

    with open(path, encoding="utf-8") as file:
        said = yaml.safe_load(file)
    expect(path, "accelerate", said, [f.name for f in dataclasses.fields(ClusterConfig)])
    keys = [k.removeprefix("fsdp_") for k in said.get("fsdp_config", {})]
    plugin = [f.name for f in dataclasses.fields(FullyShardedDataParallelPlugin)]
    expect(path, "fsdp_config", set(keys) - {"version", "offload_params"}, plugin)


def main():
    checks = {"hf": check_hf, "torch": check_torch, "accelerate": check_accelerate}
    for path in sys.argv[2:]:
        checks[sys.argv[1]](path)


if __name__ == "__main__":
    main()
