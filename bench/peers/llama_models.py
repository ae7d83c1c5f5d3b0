"""Models of drawn weights that transformers, snug and llama.cpp read: gpt2 in f32 and bf16, and a Llama of 1.2
billion parameters in bf16, each with a tokenizer of its size that is learned from this system's documentation.

    python bench/peers/llama_models.py FOLDER      (transformers and tokenizers from PyPI)"""

import glob
import json
import os
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

END = "<|endoftext|>"


def texts():
    for name in sorted(glob.glob("/usr/share/doc/**/*", recursive=True)):
        if os.path.isfile(name) and not name.endswith(".gz"):
            with open(name, errors="ignore") as file:
                yield file.read()


def save_tokenizer(size, folder):
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learned.decoder = decoders.ByteLevel()
    learned.train_from_iterator(texts(), trainers.BpeTrainer(
        vocab_size=size - 1, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    whole = json.loads(learned.to_str())
    words = whole["model"]["vocab"]
    while len(words) < size - 1:  # the text has no more; the model's tables do
        words[f"unused{len(words)}"] = len(words)
    fast = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(whole)), eos_token=END, bos_token=END)
    fast.add_special_tokens({"eos_token": END})
    fast.save_pretrained(folder)


def main(folder):
    torch.manual_seed(1)
    gpt2 = GPT2LMHeadModel(GPT2Config())
    gpt2.save_pretrained(f"{folder}/gpt2-f32")
    gpt2.to(torch.bfloat16).save_pretrained(f"{folder}/gpt2-bf16")
    torch.set_default_dtype(torch.bfloat16)
    last = 128255
    llama = LlamaForCausalLM(LlamaConfig(
        hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=last + 1, tie_word_embeddings=True, max_position_embeddings=4096,
        rope_theta=500000.0, bos_token_id=last, eos_token_id=last, pad_token_id=None))
    llama.save_pretrained(f"{folder}/llama-bf16")
    for name, size in ("gpt2-f32", 50257), ("gpt2-bf16", 50257), ("llama-bf16", last + 1):
        save_tokenizer(size, f"{folder}/{name}")


main(sys.argv[1])
