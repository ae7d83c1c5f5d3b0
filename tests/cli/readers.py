#!/usr/bin/env python3
"""Reads a run's files with the packages that others read them with, and compares. Called by test_readers.c:

    readers.py events DIR          TensorBoard's scalars are those of metrics.jsonl
    readers.py tensors DIR...      safetensors opens every file, all numbers are finite
    readers.py config DIR...       transformers knows the configuration
    readers.py loss DIR TEXT       transformers computes the validation loss of run.json, to 1e-5
    readers.py losses TEXT DIR...  the same of any decoders
    readers.py gaps DIR...         transformers reads encoders, without a weight too many or too few
    readers.py save DIR            writes a small model of transformers' own
    readers.py judged DIR A M      the same of an adapter with a head that judges texts
    readers.py peft DIR A M        PEFT reads adapter A beside model DIR, and computes what the merged model M does
    readers.py added DIR DIR T...  what `resize_token_embeddings` makes of the first for tokens T is the second
    readers.py same DIR DIR        two models have the same weights, bit for bit
"""
import glob
import json
import os
import sys

TOLERANCE = 1e-5


def metrics(folder):
    with open(os.path.join(folder, "metrics.jsonl")) as file:
        return [json.loads(line) for line in file]


def expect(is_so, what):
    if not is_so:
        sys.exit(what)


def events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    files = glob.glob(os.path.join(folder, "events.out.tfevents.*"))
    expect(len(files) == 2, f"one event file for each start, not {files}")
    reader = EventAccumulator(folder, size_guidance={"scalars": 0})
    reader.Reload()
    keys = {
        "train/loss": "loss",
        "train/grad_norm": "grad_norm",
        "train/learning_rate": "lr",
        "train/tokens_per_second": "tokens_per_second",
        "train/memory_mib": "memory_bytes",
        "eval/loss": "eval_loss",
    }
    expect(set(reader.Tags()["scalars"]) == set(keys), f"tags are {reader.Tags()['scalars']}")
    for tag, key in keys.items():
        lines = {line["step"]: line[key] for line in metrics(folder) if key in line}
        scale = 2**20 if key == "memory_bytes" else 1
        seen = reader.Scalars(tag)
        expect([x.step for x in seen] == sorted(lines), f"{tag}: steps {[x.step for x in seen]}")
        for x in seen:
            apart = abs(x.value * scale - lines[x.step])
            expect(apart <= max(1e-6 * abs(lines[x.step]), 1), f"{tag}, step {x.step}: {x.value}")


def tensors(*folders):
    import numpy
    from safetensors.numpy import load_file

    for folder in folders:
        files = glob.glob(os.path.join(folder, "*.safetensors"))
        expect(files, f"{folder} has no safetensors")
        for path in files:
            for name, value in load_file(path).items():
                expect(numpy.isfinite(value).all(), f"{path}: {name} is not finite")


def config(*folders):
    from transformers import AutoConfig, GenerationConfig

    for folder in folders:
        c = AutoConfig.from_pretrained(folder)
        sizes = (c.model_type, c.n_layer, c.n_head, c.n_embd, c.n_positions, c.vocab_size)
        expect(sizes == ("gpt2", 2, 2, 32, 32, 256), f"{folder}: {sizes}")
        GenerationConfig.from_pretrained(folder)


def open_model(folder):
    from transformers import AutoModelForCausalLM

    model, about = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        expect(not about[kind], f"{folder}: {kind} {about[kind]}")
    return model.eval()


def loss(folder, text):
    import torch

    model = open_model(folder)
    with open(os.path.join(folder, "run.json")) as file:
        ours = json.load(file)["eval_losses"][-1]["loss"]
    with open(text, "rb") as file:
        ids = torch.tensor(list(file.read()))
    context, samples = model.config.max_position_embeddings, 40
    inputs = ids[: samples * context].view(samples, context)
    labels = ids[1 : samples * context + 1].view(samples, context)
    with torch.no_grad():
        logits = model(inputs).logits
    theirs = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).item()
    expect(abs(theirs - ours) < TOLERANCE, f"{folder}: transformers: {theirs}, snug: {ours}")


def losses(text, *folders):
    for folder in folders:
        loss(folder, text)


def gaps(*folders):
    from transformers import AutoModelForMaskedLM
    for folder in folders:
        _, about = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
        expect(not any(about.values()), f"{folder}: {about}")


def save(folder):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    c = GPT2Config(n_layer=2, n_head=2, n_embd=32, n_positions=32, vocab_size=256, bos_token_id=None, eos_token_id=None)
    GPT2LMHeadModel(c).save_pretrained(folder)


def same(one, other):
    import torch

    a, b = open_model(one).state_dict(), open_model(other).state_dict()
    expect(a.keys() == b.keys(), "other names")
    for name in a:
        expect(torch.equal(a[name], b[name]), f"{name} is another")


def peft(folder, adapter, merged):
    import torch
    from peft import PeftModel

    ids = torch.tensor([list(b"the weights stay as they are")])
    with torch.no_grad():
        plain = open_model(folder)(ids).logits
        adapted = PeftModel.from_pretrained(open_model(folder), adapter).eval()(ids).logits
        ours = open_model(merged)(ids).logits
    expect((adapted - plain).abs().max() > 1e-3, "the adapter does nothing")
    expect((adapted - ours).abs().max() < TOLERANCE * 10, f"logits are {(adapted - ours).abs().max()} apart")


def judged(folder, adapter, merged):
    import torch
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification as Judge

    theirs = Judge.from_pretrained(merged).eval()
    count = theirs.config.num_labels
    adapted = PeftModel.from_pretrained(Judge.from_pretrained(folder, num_labels=count), adapter).eval()
    ids = torch.tensor([list(b"the weights stay")])
    with torch.no_grad():
        a, b = adapted(input_ids=ids).logits, theirs(input_ids=ids).logits
    expect(a.abs().max() > 1e-3, "the head does nothing")
    expect((a - b).abs().max() < TOLERANCE * 10, f"logits are {(a - b).abs().max()} apart")


def added(one, other, *tokens):
    from transformers import AddedToken, AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

    is_encoder = AutoConfig.from_pretrained(one).model_type == "bert"
    kind = AutoModelForMaskedLM if is_encoder else AutoModelForCausalLM
    theirs, (ours, about) = kind.from_pretrained(one), kind.from_pretrained(other, output_loading_info=True)
    expect(not any(about.values()), f"{other}: {about}")
    a, b = AutoTokenizer.from_pretrained(one), AutoTokenizer.from_pretrained(other)
    a.add_tokens([AddedToken(t, special=True, normalized=False) for t in tokens])
    expect(a.get_vocab() == b.get_vocab(), f"vocabularies: {a.get_vocab()}, {b.get_vocab()}")
    text = "the" + " fox".join(tokens) + " saw"
    expect(a(text)["input_ids"] == b(text)["input_ids"], f"ids: {a(text)['input_ids']}, {b(text)['input_ids']}")
    if theirs.config.vocab_size < len(a):
        theirs.resize_token_embeddings(len(a))
    expect(theirs.config.vocab_size == ours.config.vocab_size, "other sizes")
    theirs, ours = theirs.state_dict(), ours.state_dict()
    expect(theirs.keys() == ours.keys(), "other names")
    for name in theirs:  # drawn around the mean, some 3e-5 of a row's spread
        x = theirs[name].clone()
        if name.startswith("cls.") and name.endswith("bias") and x.shape[0] == len(a):
            # a tied head's is filled up with zeros; ours is the mean, as of a head that is not tied
            expect(not x[len(x) - 2 :].any(), "the bias of a tied head begins as another number")
            x[len(x) - 2 :] = x[: len(x) - 2].mean()
        apart = (x - ours[name]).abs().max()
        expect(apart <= 3e-4 * theirs[name].abs().max(), f"{name} is {apart} apart")


if __name__ == "__main__":
    parts = {f.__name__: f for f in (events, tensors, config, loss, losses, gaps, save, same, peft, judged, added)}
    parts[sys.argv[1]](*sys.argv[2:])
