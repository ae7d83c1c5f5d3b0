#!/usr/bin/env python3
"""`snug estimate --trainer grpo` beside TRL's own GRPOTrainer, on the CPU:
grpo.py SNUG [SETTING ...]; GRPO_MODELS="llama;gpt2" asks of some models alone; `beside` as a setting, alone: generate
between a plain loop's steps, beside `generating_bytes`

Small models with random weights make texts, score them and learn from them, as TRL does it; each phase runs under
PyTorch's profiler, which counts every allocation, and its peak is compared with the phase's likely bytes. The first
step is not counted, since it makes the optimizer's state. Needs torch, transformers, peft and trl; an oracle only."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import recorded  # noqa: E402

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
warnings.simplefilter("ignore")
import trl  # noqa: E402
from datasets import Dataset  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402

SIZES = dict(hidden_size=256, intermediate_size=704, num_hidden_layers=4, num_attention_heads=8,
             num_key_value_heads=2, vocab_size=8192, max_position_embeddings=512, eos_token_id=0, bos_token_id=0)
MODELS = {
    "llama": dict(model_type="llama", architectures=["LlamaForCausalLM"], tie_word_embeddings=False, **SIZES),
    "qwen2, tied": dict(model_type="qwen2", architectures=["Qwen2ForCausalLM"], tie_word_embeddings=True, **SIZES),
    "gpt2": dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], n_embd=256, n_layer=4, n_head=4,
                 vocab_size=8192, n_positions=512, eos_token_id=0, bos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0,
                 attn_pdrop=0.0),
}
PROMPT, COMPLETION, TEXTS, GROUP = 96, 32, 8, 4  # TEXTS: of a micro-batch
EQUAL = f"--shortest {PROMPT + COMPLETION}"
# TRL's arguments; snug's words; more: adapters, prompts of unequal lengths
SETTINGS = {
    "f32": (dict(), f"--dtype float32 {EQUAL}", {}),
    "bf16": (dict(bf16=True), EQUAL, {}),
    "reference": (dict(beta=0.04), f"--dtype float32 --beta 0.04 {EQUAL}", {}),
    "checkpointing": (dict(beta=0.04, gradient_checkpointing=True),
                      f"--dtype float32 --beta 0.04 --gradient-checkpointing {EQUAL}", {}),
    "unequal": (dict(beta=0.04), "--dtype float32 --beta 0.04", dict(unequal=True)),
    "twice": (dict(beta=0.04, gradient_accumulation_steps=2, num_iterations=2),
              f"--dtype float32 --beta 0.04 --iterations 2 {EQUAL}", dict(passes=2)),
    "adapters": (dict(), f"--dtype float32 --adapter-rank 8 --base-bits 32 {EQUAL}", dict(adapters=True)),
    "adapters, reference": (dict(beta=0.04, bf16=True), f"--adapter-rank 8 --base-bits 32 --beta 0.04 {EQUAL}",
                            dict(adapters=True)),
}
PHASES = {"rollouts": "texts", "old": "model's", "reference": "reference's", "training": "training"}


def reward(completions, **_):
    return [float(i) for i in range(len(completions))]


def words():
    tokenizer = Tokenizer(models.WordLevel({"</s>": 0, "a": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", pad_token="</s>")


def make_trainer(folder, arguments, more):
    import peft

    kept = dict(bf16=False, gradient_checkpointing=False, gradient_accumulation_steps=1) | arguments
    args = trl.GRPOConfig(output_dir=str(folder / "out"), use_cpu=True, report_to=[], logging_steps=10 ** 6,
                          per_device_train_batch_size=TEXTS, num_generations=GROUP,
                          max_completion_length=COMPLETION, optim="adamw_torch",
                          model_init_kwargs={"dtype": "float32"}, **kept)
    adapter = peft.LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM")
    trainer = trl.GRPOTrainer(str(folder), reward, args, processing_class=words(),
                              train_dataset=Dataset.from_dict({"prompt": ["a"] * 64}),
                              peft_config=adapter if more.get("adapters") else None)
    trainer.create_optimizer()
    trainer.model_wrapped, trainer.optimizer = trainer.accelerator.prepare(trainer.model, trainer.optimizer)
    trainer.current_gradient_accumulation_steps = args.gradient_accumulation_steps
    for group in trainer.optimizer.optimizer.param_groups:
        group |= {"fused": False, "foreach": True}
    trainer.model.train()
    if args.gradient_checkpointing:  # which train() switches on
        trainer.model.gradient_checkpointing_enable({"use_reentrant": False})
    return trainer


def bytes_of(tensors):
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors if torch.is_tensor(t)}
    return sum(storages.values())


def there(trainer):
    model, reference = trainer.model, trainer.ref_model
    known = [*model.parameters(), *model.buffers()] + [p.grad for p in model.parameters()]
    known += [*reference.parameters(), *reference.buffers()] if reference else []
    known += [t for state in trainer.optimizer.state.values() for t in state.values()]
    known += [t for batch in trainer._buffered_inputs or [] for t in batch.values()]
    return bytes_of(known)


class Phases:
    """Notes the highest moment of each phase while a trainer works."""

    def __init__(self, trainer):
        self.trainer, self.most = trainer, {}
        self.generate, self.score = trainer._generate_single_turn, trainer._get_per_token_logps_and_entropies
        trainer._generate_single_turn = lambda *a, **k: self.note("rollouts", self.generate, *a, **k)
        trainer._get_per_token_logps_and_entropies = self.scored

    def note(self, phase, call, *a, **k):
        result, before = [], there(self.trainer)
        peak = before + recorded.largest_of(lambda: result.append(call(*a, **k)))
        self.most[phase] = max(self.most.get(phase, 0), peak)
        return result[0]

    def scored(self, model, *a, **k):
        if torch.is_grad_enabled():
            return self.score(model, *a, **k)
        trainer = self.trainer
        bare = trainer.beta and trainer.ref_model is None and self.is_bare()
        phase = "reference" if model is trainer.ref_model or bare else "old"
        return self.note(phase, self.score, model, *a, **k)

    def is_bare(self):
        layers = [m for m in self.trainer.model.modules() if hasattr(m, "disable_adapters")]
        return any(m.disable_adapters for m in layers)

    def step(self, rows):
        """Texts, then an optimizer step of micro-batches."""
        t, times = self.trainer, self.trainer.args.gradient_accumulation_steps

        def learn(inputs):
            t._prepare_inputs = lambda _: inputs
            try:
                t.training_step(t.model_wrapped, rows, None)
            finally:
                del t._prepare_inputs

        def update():
            t.accelerator.clip_grad_norm_(t.model.parameters(), t.args.max_grad_norm)
            t.optimizer.step()
        for i in range(times):
            inputs = t._prepare_inputs(rows)
            if i == times - 1:
                self.note("training", lambda x: (learn(x), update()), inputs)
            else:
                self.note("training", learn, inputs)
        t.optimizer.zero_grad()


def rows_of(more):
    lengths = [PROMPT, PROMPT // 2] if more.get("unequal") else [PROMPT, PROMPT]
    groups = [lengths[i % 2] for i in range(TEXTS * more.get("passes", 1) // GROUP)]
    return [{"prompt": " ".join(["a"] * n)} for n in groups for _ in range(GROUP)]


def measure(folder, arguments, more):
    torch.manual_seed(3)
    trainer = make_trainer(folder, arguments, more)
    phases, rows = Phases(trainer), rows_of(more)
    phases.step(rows)
    phases.most.clear()
    phases.trainer._buffered_inputs = None
    trainer._step = 0
    phases.step(rows)
    longest = trainer._metrics["train"]["completions/min_length"][-1]
    if longest < COMPLETION:
        print(f"a text ended after {longest} tokens", file=sys.stderr)
    return phases.most


def answer(snug, folder, said, more):
    passes = more.get("passes", 1)
    command = [snug, "estimate", str(folder / "config.json"), "--device", "cpu", "--json", "--trainer", "grpo",
               "--batch", str(TEXTS * passes), "--micro-batch", str(TEXTS), "--context", str(PROMPT + COMPLETION),
               "--completion", str(COMPLETION), "--generations", str(GROUP), "--optimizer-kernels", "foreach",
               *said.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    read = json.loads(done.stdout)
    return {p: read[f"{p}_bytes"]["likely"] for p in PHASES if f"{p}_bytes" in read}


def generated(config, autocast):
    """Live bytes at the highest moment of generate, after two steps of AdamW: a prompt of all tokens but one."""
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config)).train()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    ids = torch.randint(1, config["vocab_size"], (TEXTS, PROMPT + COMPLETION))
    prompt = ids[:, :-1].contiguous()

    def under():
        return torch.autocast("cpu", torch.bfloat16, enabled=autocast)
    for _ in range(2):
        with under():
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    del loss
    known = [*model.parameters(), *model.buffers(), prompt, *(t for s in optimizer.state.values() for t in s.values())]

    def texts():
        with under():
            model.generate(input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=1, do_sample=True)
    return bytes_of(known) + recorded.largest_of(texts)


def beside(snug, which):
    print("| model | f32 | autocast |\n|---|---|---|")
    for model in which:
        cells = []
        for types in ("float32", "autocast"):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "config.json"
                path.write_text(json.dumps(MODELS[model]))
                command = [snug, "estimate", str(path), "--device", "cpu", "--json", "--dtype", types, "--batch",
                           str(TEXTS), "--context", str(PROMPT + COMPLETION), "--optimizer-kernels", "foreach"]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
            told = json.loads(done.stdout)["generating_bytes"]["likely"]
            cells.append(cell(told, generated(MODELS[model], types == "autocast")))
        print(f"| {model} | " + " | ".join(cells) + " |", flush=True)


def cell(told, was):
    if told is None and was is None:
        return "none"
    if told is None or was is None:
        return f"told {told}, counted {was}"
    return f"{was / 1e6:.2f} MB, {100 * (told / was - 1):+.2f} %"


def main():
    torch.set_num_threads(1)
    snug, names = sys.argv[1], sys.argv[2:] or list(SETTINGS)
    which = os.environ.get("GRPO_MODELS", ";".join(MODELS)).split(";")
    if names == ["beside"]:
        beside(snug, which)
        return
    print("| model | setting | " + " | ".join(PHASES.values()) + " |\n|---|---|" + "---|" * len(PHASES))
    for model in which:
        config = MODELS[model]
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            torch.manual_seed(1)
            made = AutoConfig.for_model(**config)
            AutoModelForCausalLM.from_config(made).save_pretrained(folder)
            words().save_pretrained(folder)
            for name in names:
                arguments, said, more = SETTINGS[name]
                told, was = answer(snug, folder, said, more), measure(folder, arguments, more)
                cells = [cell(told.get(p), was.get(p)) for p in PHASES]
                print(f"| {model} | {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
