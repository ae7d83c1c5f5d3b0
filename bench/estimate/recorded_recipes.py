#!/usr/bin/env python3
"""Recipes of `snug estimate --recipe` beside the loops themselves, on the CPU: recorded_recipes.py SNUG [RECIPE ...]

Each program that snug prints is run on a small Llama, its recording is asked, and the same functions run in truth
under the profiler. Needs torch, transformers, peft, accelerate, lightning and trl; an oracle only."""

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import traceback
import types

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import recorded  # noqa: E402

LLAMA = dict(model_type="llama", architectures=["LlamaForCausalLM"], hidden_size=64, intermediate_size=176,
             num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, vocab_size=384,
             max_position_embeddings=256, tie_word_embeddings=False)
MINE = """
import sys
import lightning, torch, transformers


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        config = transformers.AutoConfig.from_pretrained(sys.argv[1])
        self.model = transformers.AutoModelForCausalLM.from_config(config)

    def training_step(self, batch, number):
        return self.model(input_ids=batch[0], labels=batch[1], use_cache=False).loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), foreach=True)
"""
AUTOCAST = dict(autocast=torch.bfloat16)
RECIPES = {"hf": AUTOCAST, "trainer": dict(number=1.0), "peft": {}, "accelerate": {}, "lightning": dict(number=1.0),
           "sft": dict(number=1.0), "dpo": dict(number=1.0), "dpo adapters": dict(number=1.0),
           "dpo beforehand": dict(number=1.0)}


def change(m, way):
    """What people change in a recipe: here adapters, or references that were computed beforehand."""
    if way == "adapters":
        import peft
        m.adapters = peft.LoraConfig(r=8, task_type="CAUSAL_LM")
    elif way == "beforehand":
        m.args.precompute_ref_log_probs = True


def module_of(snug, name, config):
    name, _, way = name.partition(" ")
    text = subprocess.run([snug, "estimate", "--recipe", name], capture_output=True, text=True, check=True).stdout
    module = types.ModuleType("recipe_" + name)
    sys.argv = ["step.py", str(config)]
    exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    change(module, way)
    return module


def beside(m, model):
    """Bytes of a reference that stands beside the model."""
    reference = m.held(model) if hasattr(m, "held") else None
    tensors = [*reference.parameters(), *reference.buffers()] if reference else []
    return sum(t.untyped_storage().nbytes() for t in tensors)


def measure(m, size, length, autocast):
    torch.manual_seed(1)
    model = m.make_model().train()
    optimizer = m.make_optimizer(model)
    batch = m.make_batch(size, length)

    def loss_of(model, batch):
        # One that is off would still hold casts that the loop's own ones have made.
        with torch.autocast("cpu", autocast) if autocast else contextlib.nullcontext():
            return m.loss_of(model, batch)
    named = batch if isinstance(batch, dict) else dict(enumerate(batch))
    before = beside(m, model) + recorded.there(model, optimizer, named)

    def two_steps():
        """The second has states. The profiler does not see how gradients go that were made before it began."""
        for _ in range(2):
            m.one_step(model, optimizer, loss_of, batch)
    return before + recorded.largest_of(two_steps)


def compare(snug, name, folder):
    m = module_of(snug, name, folder / "config.json")
    out = folder / (name.replace(" ", "-") + ".json")
    m.record(m.make_model, m.make_batch, m.loss_of, m.make_optimizer, batches=(2, 3), lengths=(128,), device="cpu",
             out=str(out), **RECIPES[name], **({"held": m.held} if hasattr(m, "held") else {}))
    rows = []
    for size in (2, 5):
        said = subprocess.run([snug, "estimate", str(out), "--device", "cpu", "--json", "--batch", str(size)],
                              capture_output=True, text=True)
        if said.returncode:
            raise RuntimeError(said.stderr.strip().splitlines()[-1])
        told = json.loads(said.stdout)["live_bytes"]["likely"]
        rows.append((told, measure(module_of(snug, name, folder / "config.json"), size, 128,
                                   RECIPES[name].get("autocast"))))
    return rows


def main():
    torch.set_num_threads(1)
    snug, names = sys.argv[1], sys.argv[2:] or list(RECIPES)
    print("| recipe | as recorded, 2 x 128 | counted | | a batch of 5 | counted | |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "config.json").write_text(json.dumps(LLAMA))
        (folder / "mine.py").write_text(MINE)
        sys.path.insert(0, str(folder))
        for name in names:
            try:
                cells = [f"{told:,} | {was:,} | {100 * (told / was - 1):+.2f} %"
                         for told, was in compare(snug, name, folder)]
                print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
            except (Exception, SystemExit) as e:
                traceback.print_exc()
                print(f"| {name} | none: {str(e).splitlines()[0] if str(e) else type(e).__name__} |", flush=True)


if __name__ == "__main__":
    main()
