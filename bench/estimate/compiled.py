#!/usr/bin/env python3
"""What a compiled model keeps for backward beside what it keeps as it is, on the CPU: compiled.py

The min-cut partitioner alone is asked (backend aot_eager_decomp_partition): nothing is fused, so all that differs is
what it keeps and what it computes again. Storages that autograd keeps are counted by saved_tensors_hooks, weights and
inputs left out. Needs torch and transformers; an oracle only."""

import contextlib

import torch
import transformers

SIZES = dict(hidden_size=128, intermediate_size=352, num_hidden_layers=2, num_attention_heads=4, vocab_size=512)
MODELS = {
    "llama": ("LlamaForCausalLM", transformers.LlamaConfig(num_key_value_heads=2, **SIZES)),
    "qwen2": ("Qwen2ForCausalLM", transformers.Qwen2Config(num_key_value_heads=2, **SIZES)),
    "gpt2": ("GPT2LMHeadModel", transformers.GPT2Config(n_embd=128, n_layer=2, n_head=4, vocab_size=512,
                                                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    "bert": ("BertForMaskedLM", transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                                                        **SIZES)),
}


def kept(model, ids, autocast):
    """Bytes of the storages that one forward keeps, each once."""
    own = {p.untyped_storage()._cdata for p in [*model.parameters(), *model.buffers(), ids]}
    seen = {}

    def pack(x):
        storage = x.untyped_storage()
        if storage._cdata not in own:
            seen[storage._cdata] = (storage.nbytes(), x)  # held, so that no other gets its place
        return x
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        with torch.autocast("cpu", torch.bfloat16) if autocast else contextlib.nullcontext():
            loss = model(input_ids=ids, labels=ids).loss
    total = sum(n for n, _ in seen.values())
    loss.backward()
    return total


def main():
    torch.manual_seed(0)
    ids = torch.randint(0, 512, (2, 128))
    print("| model | | as it is | compiled | |\n|---|---|---|---|---|")
    for name, (which, config) in MODELS.items():
        config.use_cache = False
        for autocast in (False, True):
            model = getattr(transformers, which)(config).train()
            plain = kept(model, ids, autocast)
            torch._dynamo.reset()
            compiled = torch.compile(model, backend="aot_eager_decomp_partition")
            kept(compiled, ids, autocast)
            again = kept(compiled, ids, autocast)
            what = "bf16 autocast" if autocast else "f32"
            print(f"| {name} | {what} | {plain:,} | {again:,} | {again / plain:.2f} |", flush=True)


if __name__ == "__main__":
    main()
