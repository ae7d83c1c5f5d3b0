#!/usr/bin/env python3
"""Lets the libraries themselves read an emitted configuration, and asks whether it says only what they know.

emit.py hf FILE...          is run: TrainingArguments, BitsAndBytesConfig and PEFT's LoraConfig check what they get
emit.py torch FILE...       what plain PyTorch is called with
emit.py accelerate FILE...  keys of accelerate's configuration, which `accelerate launch` reads
emit.py deepspeed FILE...   DeepSpeedConfig, on as many devices as the file is for
emit.py axolotl FILE...     axolotl's schema, with a data set and a learning rate added
emit.py trl FILE...         is run: GRPOConfig, BitsAndBytesConfig and LoraConfig check what they get
emit.py vllm FILE...        the parser of `vllm serve`'s engine arguments

No device is needed: what is asked for is never computed with."""

import ast
import dataclasses
import inspect
import json
import os
import shlex
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


def same(path, what, read, said):
    if read != said:
        sys.exit(f"{path}: {what} is {said} there, and {read} when it was read")


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
    run_hf(path)


def run_hf(path):
    """Runs the file, on a CPU: the classes check their arguments, and read the file that `deepspeed` names."""
    import transformers

    class OnCpu(transformers.TrainingArguments):
        def __init__(self, **said):
            if "deepspeed" in said:
                said["deepspeed"] = os.path.join(os.path.dirname(path), said["deepspeed"])
            super().__init__(use_cpu=True, **said)

    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    known, transformers.TrainingArguments = transformers.TrainingArguments, OnCpu
    made = {}
    try:
        exec(code, made)
    finally:
        transformers.TrainingArguments = known
    if not isinstance(made["arguments"], known):
        sys.exit(f"{path}: makes no arguments")


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
    launch(path, said)


def launch(path, said):
    """As `accelerate launch --config_file` reads it."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    asked = launch_command_parser().parse_args(["--config_file", path, "train.py"])
    read = _validate_launch_command(asked)[0]
    same(path, "num_processes", read.num_processes, said["num_processes"])
    same(path, "fsdp", bool(read.use_fsdp), said["distributed_type"] == "FSDP")
    same(path, "deepspeed", bool(read.use_deepspeed), said["distributed_type"] == "DEEPSPEED")
    if read.use_fsdp:
        same(path, "fsdp_version", int(read.fsdp_version), said["fsdp_config"]["fsdp_version"])
    if read.use_deepspeed:
        same(path, "zero_stage", int(read.zero_stage), said["deepspeed_config"]["zero_stage"])


def check_deepspeed(path):
    """It asks the number of devices of torch.distributed; here the file itself says it."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    import deepspeed.comm
    from deepspeed.runtime import constants
    from deepspeed.runtime.config import DeepSpeedConfig
    from deepspeed.runtime.zero.config import ZERO_OPTIMIZATION

    with open(path, encoding="utf-8") as file:
        said = json.load(file)
    expect(path, "DeepSpeed", said, {ZERO_OPTIMIZATION, *(v for v in vars(constants).values() if isinstance(v, str))})
    once = said["train_micro_batch_size_per_gpu"] * said["gradient_accumulation_steps"]

    class Devices:
        @staticmethod
        def get_data_parallel_world_size():
            return said["train_batch_size"] // once

    deepspeed.comm.get_rank = lambda *_: 0
    read = DeepSpeedConfig(path, mpu=Devices)
    same(path, "stage", read.zero_config.stage, said["zero_optimization"]["stage"])
    same(path, "train_batch_size", read.train_batch_size, said["train_batch_size"])
    same(path, "bf16", read.bfloat16_config.enabled, said["bf16"]["enabled"])
    same(path, "fp16", read.float16_config.enabled, said["fp16"]["enabled"])


def check_axolotl(path):
    """Its schema passes over what it doesn't know, so names are compared before it reads them."""
    import yaml
    from axolotl.utils.schemas.config import AxolotlInputConfig
    from axolotl.utils.schemas.fsdp import FSDPConfig
    from transformers import BitsAndBytesConfig

    with open(path, encoding="utf-8") as file:
        said = yaml.safe_load(file)
    liger = {k for k in said if k.startswith("liger_")}
    expect(path, "axolotl", set(said) - liger, AxolotlInputConfig.model_fields)
    if liger:
        from axolotl.integrations.liger.args import LigerArgs
        expect(path, "axolotl's LigerArgs", liger, LigerArgs.model_fields)
    expect(path, "axolotl's FSDPConfig", said.get("fsdp_config", {}), FSDPConfig.model_fields)
    codes = inspect.signature(BitsAndBytesConfig.__init__).parameters
    expect(path, "BitsAndBytesConfig", said.get("bnb_config_kwargs", {}), codes)
    read = AxolotlInputConfig(**said, learning_rate=1e-4, datasets=[{"path": "texts", "type": "completion"}])
    for key in "micro_batch_size", "gradient_accumulation_steps", "sequence_len":
        same(path, key, getattr(read, key), said[key])


def check_trl(path):
    """Runs the file, on a CPU. Its last lines are not reached: they load a model and prompts."""
    import trl

    seen = {name: said for name, said in calls(path)}
    if not {"GRPOConfig", "GRPOTrainer"} <= set(seen):
        sys.exit(f"{path}: makes no GRPOTrainer")
    expect(path, "GRPOConfig", seen["GRPOConfig"], [f.name for f in dataclasses.fields(trl.GRPOConfig)])
    expect(path, "GRPOTrainer", seen["GRPOTrainer"], inspect.signature(trl.GRPOTrainer.__init__).parameters)

    class OnCpu(trl.GRPOConfig):
        def __init__(self, **said):
            if "deepspeed" in said:
                said["deepspeed"] = os.path.join(os.path.dirname(path), said["deepspeed"])
            super().__init__(use_cpu=True, **said)

    known, trl.GRPOConfig, made = trl.GRPOConfig, OnCpu, {}
    try:
        with open(path, encoding="utf-8") as file:
            exec(compile(file.read(), path, "exec"), made)
    finally:
        trl.GRPOConfig = known
    for name, node in seen["GRPOConfig"].items():
        if name in ("num_generations", "steps_per_generation", "beta", "max_completion_length", "use_vllm"):
            same(path, name, getattr(made["arguments"], name), value(node))


def check_vllm(path):
    """Its defaults are the platform's, so it has to know one: where there is no GPU, the CPU."""
    import torch
    if not torch.cuda.is_available():
        os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    with open(path, encoding="utf-8") as file:
        words = shlex.split(file.read().replace("\\\n", " "), comments=True)
    if words[:2] != ["vllm", "serve"]:
        sys.exit(f"{path}: no `vllm serve`")
    read = EngineArgs.add_cli_args(FlexibleArgumentParser()).parse_args(["--model", *words[2:]])
    same(path, "--max-model-len", str(read.max_model_len), words[words.index("--max-model-len") + 1])


def main():
    checks = {"hf": check_hf, "torch": check_torch, "accelerate": check_accelerate, "deepspeed": check_deepspeed,
              "axolotl": check_axolotl, "trl": check_trl, "vllm": check_vllm}
    for path in sys.argv[2:]:
        checks[sys.argv[1]](path)


if __name__ == "__main__":
    main()
