#!/usr/bin/python3
"""Does a step take as long as the plan says?

    bench/prediction.py [--build build] [--rounds 3] [--only gpt2,...] [--processor-time 1] [--out ...]

Plans of each kind of model in each type, without a budget and, of the first three models in f32, at budgets down to the
least, by snug's own choice of techniques. The rates are those that plans use on this machine, for the instruction set
that it multiplies bf16 by. Medians of steps that follow each other as in training, for at least a second; the first
ones warm up. With --processor-time 1 a step's time is what its threads had of the processors, which on a shared machine
and with --threads 1 says more than the clock."""

import json
import math
import subprocess
import tempfile

from images import MIXTURE, processor_turns, write_config
from measure import MIB, Page, Worker, median, options, text_file, turns

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 8192, "hidden_size": 512,
         "intermediate_size": 1376, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4,
         "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
         "tie_word_embeddings": False}
BERT = {"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 8192, "hidden_size": 512,
        "intermediate_size": 2048, "num_hidden_layers": 6, "num_attention_heads": 8, "max_position_embeddings": 512,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "hidden_dropout_prob": 0,
        "attention_probs_dropout_prob": 0}
# name -> (what the program takes: a preset's name, a config or, None, that of bench/images.py; batch, context, types)
TEXT = ("f32", "mixed-bf16", "bf16", "int8-mixed")
MODELS = {"char-small": ("char-small", 16, 256, TEXT), "char-gpt": ("char-gpt", 12, 256, TEXT),
          "gpt2": ("gpt2", 4, 64, TEXT), "llama": (LLAMA, 4, 128, TEXT), "bert": (BERT, 4, 128, TEXT),
          "mixture": (MIXTURE, 8, 128, ("f32", "mixed-bf16", "bf16")),
          "resnet-50": (None, 4, 0, ("f32", "mixed-bf16", "bf16")),
          "convnext-tiny": (None, 4, 0, ("f32", "mixed-bf16", "bf16"))}
TIGHT = ("char-small", "char-gpt", "gpt2")  # are tried at budgets as well


def model_file(folder, name):
    model = MODELS[name][0]
    if model is None:
        return write_config(folder, name)
    if isinstance(model, str):
        return model
    path = f"{folder}/{name}.json"
    with open(path, "w") as file:
        json.dump(model, file)
    return path


def budgets(o, name, path, data):
    """The least one and one in the middle."""
    _, batch, context, _ = MODELS[name]
    out = subprocess.run([f"{o.build}/snug", "plan", path, "--batch", str(batch), "--context", str(context),
                          "--dropout", "0", "--threads", str(o.threads), "--steps", "1000", "--data", data, "--json"],
                         capture_output=True, text=True)
    plan = json.loads(out.stdout)
    low, high = plan["least_budget_bytes"], plan["predicted"]["peak_bytes"]
    return [low, (low + high) // 2]


def measure(o, arguments):
    """Predicted and measured seconds, and where the rates are from; a sentence where there is no plan."""
    w = Worker("snug", [f"{o.build}/bench-step", *arguments])
    if w.ready is None:
        return w.why
    predicted, source = float(w.ready[0]), " ".join(w.ready[2:])
    rounds = max(o.rounds, math.ceil(1 / predicted))
    take = (lambda: processor_turns([w], rounds)) if o.processor_time else (
        lambda: turns([w], rounds, pause=0, warm=math.ceil(rounds / 4)))
    taken = take()["snug"]
    measured = sum(taken) / rounds if o.processor_time else median(taken)
    w.close()
    return predicted, measured, source


def main():
    o = options(__doc__, "prediction", rounds=3, processor_time=0, only=",".join(MODELS))
    kind = json.loads(subprocess.run([f"{o.build}/snug", "devices", "--json"], capture_output=True,
                                     check=True).stdout)["bf16_products"]
    page = Page("Predicted and measured time", o.out,
                f"AdamW, {o.threads} threads, clipping at 1, no dropout; at least {o.rounds} steps" +
                (", in processor time" if o.processor_time else "") + f". Products of bf16: {kind}.")
    page.head("model", "batch", "type", "budget, MiB", "predicted, ms", "measured, ms", "predicted / measured - 1")
    errors, source = [], ""
    with tempfile.TemporaryDirectory() as folder:
        data = text_file(folder)
        for name in o.only.split(","):
            _, batch, context, types = MODELS[name]
            path = model_file(folder, name)
            tight = budgets(o, name, path, data) if name in TIGHT else []
            for kind, budget in [*((t, 0) for t in types), *(("f32", b) for b in tight)]:
                found = measure(o, [path, batch, context, budget, 1, o.threads, data if context else "-",
                                    f"precision={kind}"])
                if isinstance(found, str):
                    page.say(f"{name} in {kind} at {budget} bytes: {found}")
                    continue
                predicted, measured, source = found
                errors.append(predicted / measured - 1)
                page.row(name, f"{batch} x {context}" if context else batch, kind,
                         f"{budget / MIB:,.0f}" if budget else "none", f"{predicted * 1e3:,.1f}",
                         f"{measured * 1e3:,.1f}", f"{errors[-1] * 100:+.1f} %")
    sizes = sorted(abs(e) for e in errors)
    page.say(f"\n{len(errors)} plans, rates: {source}. Error: median {median(sizes) * 100:.1f} %, largest "
             f"{sizes[-1] * 100:.1f} %, within 15 %: {sum(e <= 0.15 for e in sizes)}.")
    page.write()


if __name__ == "__main__":
    main()
