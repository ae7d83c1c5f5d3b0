#!/usr/bin/env python3
"""Writes tests/golden/chat.txt and tests/golden/chat/: a small Llama that transformers and PyTorch fine-tune on chats,
ten losses and norms, the tokens and which of them are learned. With --page SNUG also bench/results/chats.md, where the
program trains on the same.

Needs torch, numpy, transformers and tokenizers. Run it from anywhere; the files are committed, so the tests don't need
it.

What is compared is the whole way: chats in JSON lines, chat template, tokenizer, what is learned, batches, loss, AdamW.
transformers renders and encodes with apply_chat_template; labels are those of its assistant mask, which it takes from a
template that says {% generation %} around what is to be learned, and -100 elsewhere. snug is given the template without
those marks. A sample holds one chat, filled up on the right (--pack pad). Weights come from the formula of
tools/goldens.py; the order of the samples is that of src/data/order.c, written here anew. Double precision.
"""

import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("goldens", HERE / "goldens.py")
goldens = importlib.util.module_from_spec(spec)
spec.loader.exec_module(goldens)

GOLDEN = HERE.parent / "tests" / "golden"
MODEL = GOLDEN / "chat"
BATCH, CONTEXT, SEED = 3, 96, 1337
ANSWER = "{{ message.content }}<|end|>"
TEMPLATE = ("{% for message in messages %}<|{{ message.role }}|>\n{% if message.role == 'assistant' %}" + ANSWER +
            "{{ '\\n' }}{% else %}{{ message.content }}<|end|>\n{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>\n{% endif %}")
MARKED = TEMPLATE.replace(ANSWER, "{% generation %}" + ANSWER + "{% endgeneration %}", 1)
TALKS = [
    ["How deep is the sea?", "Eleven kilometres, where it is deepest."],
    ["!Be brief.", "Name a bird.", "Wren.", "Another one?", "Dipper."],
    ["What is 6 times 7?", "42."],
    ["Zwölf auf Englisch?", "\"Twelve\", with a w.", "And naïve?", "naive, or naïve."],
    ["!You are a lighthouse.", "Who are you?", "A light, and then the dark, and then a light."],
    ["Say nothing.", ""],
    ["Is the wind cold?", "It is, by the sea; inland it is not so cold.", "Why?", "The water is cold."],
    ["Write: a b\tc", " a b\tc\n"],
    ["Where do foxes sleep?", "In a den, or under snow.", "Snow?", "Snow is warm.", "Really?", "Warmer than wind."],
    ["<|end|>?", "That ends a turn. 🙂"],
]


def messages_of(talk):
    """The first of them is the system's where it begins with "!"; then user and assistant take turns."""
    system = [{"role": "system", "content": talk[0][1:]}] if talk[0].startswith("!") else []
    turns = talk[len(system):]
    return system + [{"role": ("user", "assistant")[i % 2], "content": t} for i, t in enumerate(turns)]


def write_model():
    MODEL.mkdir(exist_ok=True)
    talks = [messages_of(t) for t in TALKS]
    (MODEL / "chats.jsonl").write_text("".join(json.dumps({"messages": m}, ensure_ascii=False) + "\n" for m in talks),
                                       encoding="utf-8")
    (MODEL / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    names = ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=names, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator([m["content"] for t in talks for m in t] * 3, trainer)
    tokenizer.save(str(MODEL / "tokenizer.json"), pretty=False)
    (MODEL / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>"}) + "\n")
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
        vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=CONTEXT, tie_word_embeddings=False,
        architectures=["LlamaForCausalLM"], bos_token_id=None, eos_token_id=3, pad_token_id=None)
    (MODEL / "config.json").write_text(json.dumps(config.to_diff_dict(), indent=1, sort_keys=True) + "\n")
    return config, talks


def model_of(config):
    config._attn_implementation = "eager"
    model = transformers.LlamaForCausalLM(config).double()
    model.train()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(goldens.weight(name, tuple(p.shape)))
    return model


def philox(key, counter):
    """Philox 4x32-10 (Salmon et al. 2011)."""
    k, c = list(key), list(counter)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def order(seed, epoch, n, i):
    half = ((n - 1).bit_length() + 1) // 2
    mask = (1 << half) - 1
    while True:
        left, right = i >> half, i & mask
        for r in range(12):
            drawn = philox((seed & 0xFFFFFFFF, seed >> 32), (right, r, epoch, 0x6F726472))[0]
            left, right = right, left ^ (drawn & mask)
        i = left << half | right
        if i < n:
            return i


def encoded(talks):
    """Ids and whether each is learned, by transformers alone."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    plain = [tokenizer.apply_chat_template(t, return_dict=True)["input_ids"] for t in talks]
    masked = [tokenizer.apply_chat_template(t, chat_template=MARKED, return_dict=True,
                                            return_assistant_tokens_mask=True) for t in talks]
    assert plain == [m["input_ids"] for m in masked]
    return [(m["input_ids"], m["assistant_masks"]) for m in masked]


def batch_of(chats, step):
    ids, labels = torch.zeros(BATCH, CONTEXT, dtype=torch.int64), torch.full((BATCH, CONTEXT), -100)
    for row in range(BATCH):
        k = step * BATCH + row
        tokens, learned = chats[order(SEED, k // len(chats), len(chats), k % len(chats))]
        assert len(tokens) <= CONTEXT
        ids[row, :len(tokens)] = torch.tensor(tokens)
        labels[row, :len(tokens)] = torch.tensor([t if yes else -100 for t, yes in zip(tokens, learned)])
    return ids, labels


def train(config, chats):
    model = model_of(config)

    def loss_of(_, ids, labels):  # what labels=labels computes, which casts logits to single precision
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1))
    goldens.batch = lambda step: batch_of(chats, step)
    return goldens.train(dict(model.named_parameters()), loss_of)


def write_golden(config, chats, losses, norms):
    path = GOLDEN / "chat.txt"
    facts = {"batch": BATCH, "context": CONTEXT, "vocabulary": config.vocab_size, **goldens.SETTINGS}
    goldens.write(path, facts, losses, norms, {})
    with open(path, "a", encoding="ascii") as out:
        for name, numbers in (("ids", sum((c[0] for c in chats), [])), ("learned", sum((c[1] for c in chats), [])),
                              ("ends", numpy.cumsum([len(c[0]) for c in chats]).tolist())):
            out.write(f"table {name} 1 {len(numbers)}\n" + goldens.lines(numbers, 24))


def run_snug(program, folder, config):
    made = pathlib.Path(folder) / "model"
    shutil.copytree(MODEL, made)
    state = {n: p.detach().float().contiguous() for n, p in model_of(config).named_parameters()}
    save_file(state, made / "model.safetensors")
    s = goldens.SETTINGS
    command = [program, "train", "model", "--data", "model/chats.jsonl", "--eval-data", "model/chats.jsonl",
               "--out", "out", "--pack", "pad", "--context", CONTEXT, "--batch", BATCH, "--steps", s["steps"],
               "--lr", s["rate"], "--schedule", "constant", "--warmup", 0, "--weight-decay", s["decay"],
               "--clip", s["clip"], "--beta1", s["beta1"], "--beta2", s["beta2"], "--seed", SEED, "--quiet"]
    command = [str(word) for word in command]
    subprocess.run(command, cwd=folder, check=True)
    rows = [json.loads(line) for line in open(pathlib.Path(folder) / "out" / "metrics.jsonl")]
    rows = [r for r in rows if "loss" in r]
    return command[1:], [r["loss"] for r in rows], [r["grad_norm"] for r in rows]


def write_page(program, config, chats, losses, norms):
    with tempfile.TemporaryDirectory() as folder:
        command, ours, our_norms = run_snug(str(pathlib.Path(program).resolve()), folder, config)
    learned, tokens = sum(sum(c[1]) for c in chats), sum(len(c[0]) for c in chats)
    worst = max(abs(a - b) / b for a, b in zip(ours, losses))
    worst_norm = max(abs(a - b) / b for a, b in zip(our_norms, norms))
    about = f"""# Fine-tuning on chats, beside transformers

A Llama of two blocks (weights by formula, a byte-level tokenizer and a chat template of our own) is trained for
ten steps on {len(chats)} chats of {tokens} tokens, {learned} of them learned, {BATCH} chats a step. transformers
{transformers.__version__} and PyTorch {torch.__version__.split("+")[0]} do it in double precision:
`apply_chat_template`, its assistant mask as labels, -100 elsewhere, AdamW. snug does it in f32 from the JSON
lines, with a template that has no marks of what is learned. Ids and learned tokens are the same.
`tests/cli/test_chat_golden.c` holds the losses to 1e-5 of theirs and the norms to 1e-4, with one thread and with
two.

| step | transformers: loss | snug: loss | transformers: norm | snug: norm |
|---|---|---|---|---|
"""
    rows = "".join(f"| {i + 1} | {losses[i]:.6f} | {ours[i]:.6f} | {norms[i]:.5f} | {our_norms[i]:.5f} |\n"
                   for i in range(len(losses)))
    end = f"""
The largest difference is {worst:.1e} of a loss and {worst_norm:.1e} of a norm. It is one small model, of one
family.

Made by `tools/goldens_chat.py --page build/snug`, which ran

```
snug {" ".join(command)}
```
"""
    (HERE.parent / "bench" / "results" / "chats.md").write_text(about + rows + end)
    print(f"chats.md: losses {worst:.2e} apart, norms {worst_norm:.2e}")


def main():
    torch.set_default_dtype(torch.float64)
    config, talks = write_model()
    chats = encoded(talks)
    losses, norms, _ = train(config, chats)
    write_golden(config, chats, losses, norms)
    if len(sys.argv) > 2 and sys.argv[1] == "--page":
        write_page(sys.argv[2], config, chats, losses, norms)


if __name__ == "__main__":
    main()
