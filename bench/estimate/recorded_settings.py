#!/usr/bin/env python3
"""Settings that a recorded step was not recorded with, beside steps that really have them, on the CPU:
recorded_settings.py SNUG [--classes NAME,...] [--settings NAME,...] [--json FILE]

A model is recorded as it is; `snug estimate` is asked for another precision, for adapters, optimizers or devices; and a
step with that setting runs under the profiler: peft's adapters, torch's and torchao's optimizers. Needs torch,
transformers, peft and torchao; a test's oracle only."""

import argparse
import functools
import json
import pathlib
import subprocess
import sys
import tempfile
import traceback

import torch
import transformers
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import recorded  # noqa: E402
from recorded import recipe  # noqa: E402
from recorded_classes import CLASSES  # noqa: E402

BF16 = torch.bfloat16
NAMES = ("GPT2LMHeadModel,LlamaForCausalLM,BertForMaskedLM,Qwen3ForCausalLM,MistralForCausalLM,GemmaForCausalLM,"
         "PhiForCausalLM,T5ForConditionalGeneration,ViTForImageClassification,OPTForCausalLM")


def adamw(model):
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], foreach=True)


def with_adapters(targets="all-linear", dropout=0.0, dora=False):
    def change(model):
        import peft
        return peft.get_peft_model(model, peft.LoraConfig(r=8, lora_dropout=dropout, use_dora=dora,
                                                          target_modules=targets)).train()
    return change


class Several:  # optimizers as one
    def __init__(self, *all):
        self.all = all
        self.state = {p: s for o in all for p, s in o.state.items()}

    def step(self):
        for o in self.all:
            o.step()
        self.state = {p: s for o in self.all for p, s in o.state.items()}

    def zero_grad(self):
        for o in self.all:
            o.zero_grad()


def muon(model):  # of the blocks' matrices
    blocks = next(m for m in model.modules() if isinstance(m, torch.nn.ModuleList))
    matrices = [p for p in blocks.parameters() if p.dim() == 2]
    known = {id(p) for p in matrices}
    return Several(torch.optim.Muon(matrices), torch.optim.AdamW([p for p in model.parameters() if id(p) not in known],
                                                                 foreach=False))


def in_backward(model):
    each = {p: torch.optim.AdamW([p], foreach=True) for p in model.parameters()}

    def update(p):
        each[p].step()
        each[p].zero_grad()
    for p in each:
        p.register_post_accumulate_grad_hook(update)

    class Done(Several):
        def step(self):
            self.state = {p: s for o in self.all for p, s in o.state.items()}
    return Done(*each.values())


class Averaged(Several):
    def __init__(self, model):
        super().__init__(adamw(model))
        self.model = model
        average = torch.optim.swa_utils.get_ema_multi_avg_fn()
        self.average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=average)

    def step(self):
        super().step()
        self.average.update_parameters(self.model)
        self.state[None] = dict(enumerate(list(self.average.parameters()) + list(self.average.buffers())))


def of_type(make, dtype):  # as from_config(dtype=...) makes it
    torch.set_default_dtype(dtype)
    try:
        return make()
    finally:
        torch.set_default_dtype(torch.float32)


# recorded: weights' type and autocast as recorded; said: options of snug; dtype, autocast, change: of the real step
SETTINGS = {
    "half from f32": dict(said="--dtype half", dtype=BF16),
    "autocast from f32": dict(said="--dtype autocast", autocast=BF16),
    "f32 from autocast": dict(recorded_autocast=BF16, said="--dtype float32"),
    "f32 from half": dict(recorded=BF16, said="--dtype float32"),
    "autocast from half": dict(recorded=BF16, said="--dtype autocast", autocast=BF16),
    "LoRA": dict(said="--adapter-rank 8", change=with_adapters()),
    "LoRA, dropout": dict(said="--adapter-rank 8 --adapter-dropout 0.1", change=with_adapters(dropout=0.1)),
    "LoRA, autocast": dict(recorded_autocast=BF16, said="--adapter-rank 8", change=with_adapters(), autocast=BF16),
    "LoRA, half": dict(recorded=BF16, said="--adapter-rank 8", change=with_adapters(), dtype=BF16),
    "Muon": dict(said="--optimizer-matrices muon --optimizer-kernels single", optimizer=muon),
    "in backward": dict(said="--optimizer-in-backward", optimizer=in_backward),
    "SGD, momentum": dict(said="--optimizer sgd --momentum 0.9",
                          optimizer=lambda m: torch.optim.SGD(m.parameters(), momentum=0.9, foreach=True)),
    "Adafactor": dict(said="--optimizer adafactor",
                      optimizer=lambda m: torch.optim.Adafactor(m.parameters(), foreach=False)),
    "average": dict(said="--average", optimizer=Averaged),
    "LoRA, checkpointing": dict(said="--adapter-rank 8 --gradient-checkpointing", change=with_adapters(), again=True),
    "LoRA, batch of 5": dict(said="--adapter-rank 8", change=with_adapters(), size=5),
    "checkpointing, mm stays": dict(said="--gradient-checkpointing --checkpoint-saves mm", again=("mm", "addmm")),
    "checkpointing, attention stays": dict(said="--gradient-checkpointing --checkpoint-saves attention",
                                           again=("_scaled_dot_product_flash_attention_for_cpu",)),
    "checkpointing, mm and bmm stay, autocast": dict(recorded_autocast=BF16, autocast=BF16,
                                                     said="--gradient-checkpointing --checkpoint-saves mm,bmm",
                                                     again=("mm", "addmm", "bmm", "baddbmm")),
}


def saving(operations):  # a context_fn for torch.utils.checkpoint
    def policy(ctx, op, *args, **kwargs):
        stays = getattr(op, "overloadpacket", op).__name__ in operations
        return CheckpointPolicy.MUST_SAVE if stays else CheckpointPolicy.PREFER_RECOMPUTE
    return functools.partial(create_selective_checkpoint_contexts, policy)


def measure(case, setting, size):
    torch.manual_seed(1)
    dtype = setting.get("dtype", torch.float32)
    model = of_type(case.make_model, dtype).train()
    if setting.get("again"):
        operations = setting["again"]
        more = {} if operations is True else {"context_fn": saving(operations)}
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False} | more)
    model = setting.get("change", lambda m: m)(model)
    optimizer = setting.get("optimizer", adamw)(model)
    batch = converted(case.make_batch(size, case.lengths[0]), dtype)
    autocast = setting.get("autocast")

    def loss_of(model, batch):
        with torch.autocast("cpu", autocast, enabled=autocast is not None):
            return case.loss_of(model, batch)
    recipe.one_step(model, optimizer, loss_of, batch)
    return recorded.there(model, optimizer, batch) + recorded.largest_of(
        lambda: recipe.one_step(model, optimizer, loss_of, batch))


def converted(batch, dtype):
    return {k: v.to(dtype) if v.is_floating_point() else v for k, v in batch.items()}


def answer(snug, case, setting, size, folder):
    dtype, autocast = setting.get("recorded", torch.float32), setting.get("recorded_autocast")
    path = folder / f"step-{dtype}-{autocast}.json"
    if not path.exists():
        recipe.record(lambda: of_type(case.make_model, dtype),
                      lambda n, length: converted(case.make_batch(n, length), dtype), case.loss_of, adamw,
                      batches=(2, 3), lengths=case.lengths[:1], autocast=autocast, device="cpu", out=str(path))
    command = [snug, "estimate", str(path), "--device", "cpu", "--json", "--batch", str(size)]
    done = subprocess.run(command + setting["said"].split(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)["live_bytes"]["likely"]


def compare(snug, name, setting, folder):
    case = CLASSES[name]()
    size = setting.get("size", 2)
    told = answer(snug, case, setting, size, folder)
    return told, measure(case, setting, size)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("snug")
    p.add_argument("--classes", default=NAMES)
    p.add_argument("--settings", default="")
    p.add_argument("--json")
    p.add_argument("--trace", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    chosen = [s for s in a.settings.split(";") if s] or list(SETTINGS)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}\n")
    print("| class | " + " | ".join(chosen) + " |\n|---|" + "---|" * len(chosen))
    rows = []
    for name in [n for n in a.classes.split(",") if n]:
        cells = []
        with tempfile.TemporaryDirectory() as folder:
            for which in chosen:
                try:
                    told, was = compare(a.snug, name, SETTINGS[which], pathlib.Path(folder))
                    cells.append(f"{100 * (told / was - 1):+.2f} %")
                    rows.append(dict(name=name, setting=which, told=told, measured=was))
                except (Exception, SystemExit) as e:
                    if a.trace:
                        traceback.print_exc()
                    cells.append("none: " + (str(e).splitlines() or [type(e).__name__])[0][:70].replace("|", "/"))
                    rows.append(dict(name=name, setting=which, error=str(e)[:300]))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    off = [abs(r["told"] / r["measured"] - 1) for r in rows if "told" in r]
    print(f"\n{len(rows)} points, {len(off)} answered, {sum(x <= 0.01 for x in off)} within 1 %, "
          f"{sum(x <= 0.02 for x in off)} within 2 %")
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
