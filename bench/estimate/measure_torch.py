#!/usr/bin/env python3
"""Measures what PyTorch's own CPU allocator reports for one training step of small models from Hugging Face's
transformers, and writes points_cpu.csv: the largest sum of live bytes over the second step (weights, optimizer state
and inputs included), exact to the byte, from the allocation events of torch.profiler.

Needs torch and transformers. Run it from anywhere; it writes models/*.json too, the configurations that snug reads.
With names of models only these are measured, and their rows replaced.

Routers of mixtures of experts are as they were initialised, and their choices fall as they do: transformers' grouped
products work on k rows a token whoever gets them, so what they hold does not depend on it.
"""

import csv
import json
import pathlib
import sys

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
BATCH, CONTEXT = 4, 256
SIZES = dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=8, intermediate_size=704, vocab_size=4096,
             max_position_embeddings=512, attention_dropout=0.0, tie_word_embeddings=False, pad_token_id=None,
             bos_token_id=None, eos_token_id=None)
MODELS = {
    "gpt2": ("GPT2Config", dict(n_embd=256, n_layer=4, n_head=8, n_positions=512, vocab_size=4096, resid_pdrop=0.0,
                                embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None)),
    "llama": ("LlamaConfig", dict(num_key_value_heads=8)),
    "llama-grouped": ("LlamaConfig", dict(num_key_value_heads=2, tie_word_embeddings=True)),
    "mistral": ("MistralConfig", dict(num_key_value_heads=2, sliding_window=None)),
    "qwen2": ("Qwen2Config", dict(num_key_value_heads=2, tie_word_embeddings=True)),
    "qwen3": ("Qwen3Config", dict(num_key_value_heads=4, head_dim=64)),
    "phi": ("PhiConfig", dict(resid_pdrop=0.0, embd_pdrop=0.0)),
    "phi3": ("Phi3Config", dict(num_key_value_heads=8, sliding_window=None)),
    "gemma": ("GemmaConfig", dict(num_key_value_heads=1, head_dim=64, tie_word_embeddings=True)),
    "gemma2": ("Gemma2Config", dict(num_key_value_heads=2, head_dim=64, tie_word_embeddings=True)),
    "gpt_neox": ("GPTNeoXConfig", dict(hidden_dropout=0.0)),
    "olmo2": ("Olmo2Config", dict(num_key_value_heads=4)),
    "granite": ("GraniteConfig", dict(num_key_value_heads=2, embedding_multiplier=12.0, residual_multiplier=0.22,
                                      attention_multiplier=0.015625, logits_scaling=8.0)),
    "smollm3": ("SmolLM3Config", dict(num_key_value_heads=2, tie_word_embeddings=True)),
    "glm": ("GlmConfig", dict(num_key_value_heads=2, head_dim=32, attention_bias=True)),
    "glm4": ("Glm4Config", dict(num_key_value_heads=2, head_dim=32)),
    "starcoder2": ("Starcoder2Config", dict(num_key_value_heads=2, tie_word_embeddings=True, intermediate_size=1024)),
    "falcon": ("FalconConfig", dict(tie_word_embeddings=True)),
    "falcon-wide": ("FalconConfig", dict(num_kv_heads=2, new_decoder_architecture=True)),
    "olmo3": ("Olmo3Config", dict(num_key_value_heads=4, sliding_window=128)),
    "exaone4": ("Exaone4Config", dict(num_key_value_heads=4, sliding_window=128)),
    "ministral": ("MinistralConfig", dict(num_key_value_heads=2, head_dim=32, sliding_window=128)),
    "vaultgemma": ("VaultGemmaConfig", dict(num_key_value_heads=2, head_dim=64, tie_word_embeddings=True)),
    "seed_oss": ("SeedOssConfig", dict(num_key_value_heads=2, head_dim=32, residual_dropout=0.0)),
    "ernie4_5": ("Ernie4_5Config", dict(num_key_value_heads=2, head_dim=32, tie_word_embeddings=True)),
    "hunyuan_v1_dense": ("HunYuanDenseV1Config", dict(num_key_value_heads=2, head_dim=32)),
    "helium": ("HeliumConfig", dict(num_key_value_heads=8, head_dim=32)),
    "arcee": ("ArceeConfig", dict(num_key_value_heads=2, intermediate_size=1024)),
    "jais2": ("Jais2Config", dict(num_key_value_heads=8, intermediate_size=1024)),
    "stablelm": ("StableLmConfig", dict(num_key_value_heads=8, use_qkv_bias=True)),
    "cohere": ("CohereConfig", dict(num_key_value_heads=2, tie_word_embeddings=True)),
    "cohere2": ("Cohere2Config", dict(num_key_value_heads=2, tie_word_embeddings=True, sliding_window=128)),
    "mixtral": ("MixtralConfig", dict(num_key_value_heads=2, intermediate_size=352, num_local_experts=8,
                                      num_experts_per_tok=2)),
    "mixtral-wide": ("MixtralConfig", dict(num_key_value_heads=2, intermediate_size=1408, num_local_experts=4,
                                           num_experts_per_tok=2, num_hidden_layers=2, vocab_size=256)),
    "qwen2_moe": ("Qwen2MoeConfig", dict(num_key_value_heads=8, num_experts=12, num_experts_per_tok=4,
                                         moe_intermediate_size=96, shared_expert_intermediate_size=352)),
    "qwen3_moe": ("Qwen3MoeConfig", dict(num_key_value_heads=4, head_dim=64, num_experts=16, num_experts_per_tok=4,
                                         moe_intermediate_size=128, mlp_only_layers=[1], norm_topk_prob=True)),
    "olmoe": ("OlmoeConfig", dict(num_key_value_heads=8, intermediate_size=128, num_experts=16,
                                  num_experts_per_tok=4)),
}
NO_SDPA = ("gemma2", "vaultgemma")  # torch's kernels know no soft caps
# Of images: with a head for ten classes; of CLIP the tower with its projection, which its loss takes as logits.
LABELS = {i: f"c{i}" for i in range(10)}
VIEWERS = {
    "vit": ("ViTConfig", dict(hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1536)),
    "dinov2": ("Dinov2Config", dict(hidden_size=384, num_hidden_layers=4, num_attention_heads=6)),
    "dinov2-gated": ("Dinov2Config", dict(hidden_size=384, num_hidden_layers=2, num_attention_heads=6,
                                          use_swiglu_ffn=True)),
    "clip_vision": ("CLIPVisionConfig", dict(hidden_size=384, num_hidden_layers=4, num_attention_heads=6,
                                             intermediate_size=1536, patch_size=16, projection_dim=64)),
    "resnet": ("ResNetConfig", dict(depths=[1, 2, 1, 1], hidden_sizes=[128, 256, 384, 512], embedding_size=32)),
    "resnet-basic": ("ResNetConfig", dict(depths=[2, 1, 1, 1], hidden_sizes=[32, 64, 128, 192], embedding_size=32,
                                          layer_type="basic")),
    "convnext": ("ConvNextConfig", dict(depths=[1, 1, 2, 1], hidden_sizes=[48, 96, 192, 384], image_size=160)),
}
WITHOUT_BLOCKS = ("resnet", "resnet-basic", "convnext")  # no attention, and transformers checkpoints nothing
# Those that fill gaps, and those that answer: T5's source and target are as long as the context.
BERT = dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=8, intermediate_size=1024, vocab_size=4096,
            max_position_embeddings=514)
MODERN = dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=8, intermediate_size=704, vocab_size=4096,
              max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1,
              sep_token_id=2)
T5 = dict(d_model=256, d_kv=32, d_ff=1024, num_layers=3, num_heads=8, vocab_size=4096, n_positions=512,
          decoder_start_token_id=0)
READERS = {
    "bert": ("BertConfig", dict(**BERT, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)),
    "roberta": ("RobertaConfig", dict(**BERT, type_vocab_size=1)),
    "xlm-roberta": ("XLMRobertaConfig", dict(**BERT, type_vocab_size=1)),
    "data2vec-text": ("Data2VecTextConfig", dict(**BERT, type_vocab_size=1)),
    "modernbert": ("ModernBertConfig", dict(**MODERN)),
    "modernbert-biases": ("ModernBertConfig", dict(
        **MODERN, attention_bias=True, mlp_bias=True, norm_bias=True, classifier_bias=True, local_attention=64,
        embedding_dropout=0.1, attention_dropout=0.1, mlp_dropout=0.1)),
    "distilbert": ("DistilBertConfig", dict(dim=256, n_layers=4, n_heads=8, hidden_dim=1024, vocab_size=4096)),
    "t5": ("T5Config", dict(**T5)),
    "t5-gated": ("T5Config", dict(**T5, feed_forward_proj="gated-gelu", dropout_rate=0.0)),
}
# name: (attention, autocast, weights, checkpointing, foreach)
SETTINGS = {
    "f32": ("sdpa", False, torch.float32, False, True),
    "eager": ("eager", False, torch.float32, False, False),
    "autocast": ("sdpa", True, torch.float32, False, True),
    "half": ("eager", False, torch.bfloat16, False, True),
    "checkpointing": ("sdpa", False, torch.float32, True, False),
}


class Tower(torch.nn.Module):
    """CLIP's vision tower, with a loss."""

    def __init__(self, config):
        super().__init__()
        self.tower = transformers.CLIPVisionModelWithProjection(config)
        self.config = config

    def gradient_checkpointing_enable(self, **how):
        self.tower.gradient_checkpointing_enable(**how)

    def forward(self, pixel_values, labels):
        embeddings = self.tower(pixel_values).image_embeds
        loss = torch.nn.functional.cross_entropy(embeddings.float(), labels)
        return transformers.modeling_outputs.ImageClassifierOutput(loss=loss)


def make(name, attention, weights, checkpointing):
    config_class, more = MODELS.get(name) or READERS.get(name) or VIEWERS[name]
    base = {} if name == "gpt2" or name in READERS else dict(id2label=LABELS) if name in VIEWERS else SIZES
    config = getattr(transformers, config_class)(**{**base, **more})
    said = {k: v for k, v in config.to_dict().items() if v is not None}
    (HERE / "models" / f"{name}.json").write_text(json.dumps(said, indent=1, sort_keys=True) + "\n")
    config._attn_implementation = "eager" if name in (*NO_SDPA, *WITHOUT_BLOCKS) else attention
    config.use_cache = False
    kind = transformers.AutoModelForCausalLM
    if name in READERS:
        kind = transformers.AutoModelForSeq2SeqLM if "t5" in name else transformers.AutoModelForMaskedLM
    if name in VIEWERS:
        kind = transformers.AutoModelForImageClassification
    model = (Tower(config) if name == "clip_vision" else kind.from_config(config)).to(weights)
    model.train()
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def held(model, optimizer, batch):
    """Bytes that are there between steps."""
    seen = {}
    for t in [*model.parameters(), *model.buffers(), *batch.values()]:
        seen[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
    for state in optimizer.state.values():
        for t in state.values():
            if torch.is_tensor(t):
                seen[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
    return sum(seen.values())


def make_batch(name, model):
    if name in VIEWERS:
        side = getattr(model.config, "image_size", 224)
        return {"pixel_values": torch.rand(BATCH, 3, side, side), "labels": torch.randint(0, 10, (BATCH,))}
    ids = torch.randint(0, model.config.vocab_size, (BATCH, CONTEXT))
    return {"input_ids": ids, "labels": ids.clone()}


def step(model, optimizer, batch, autocast):
    if "pixel_values" in batch:
        batch = {**batch, "pixel_values": batch["pixel_values"].to(next(model.parameters()).dtype)}
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    del loss
    optimizer.zero_grad(set_to_none=True)


def measure(name, attention, autocast, weights, checkpointing, foreach):
    torch.manual_seed(1)
    model = make(name, attention, weights, checkpointing)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=foreach)
    batch = make_batch(name, model)
    step(model, optimizer, batch, autocast)
    before = held(model, optimizer, batch)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as p:
        step(model, optimizer, batch, autocast)
    events = [e for e in p.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda e: e.start_ns())
    live = peak = 0
    for e in events:
        live += e.nbytes()
        peak = max(peak, live)
    return before + peak


def kept_rows(file, names):
    """Of models that are not measured now."""
    if not names or not file.exists():
        return []
    with open(file, encoding="ascii", newline="") as rows:
        return [row for row in list(csv.reader(rows))[1:] if row[0] not in names]


def main():
    (HERE / "models").mkdir(exist_ok=True)
    torch.set_num_threads(1)
    version = f"torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}"
    names, file = sys.argv[1:], HERE / "points_cpu.csv"
    kept = kept_rows(file, names)
    with open(file, "w", newline="", encoding="ascii") as out:
        rows = csv.writer(out)
        rows.writerow(["model", "settings", "layer", "bytes", "source"])
        rows.writerows(kept)
        for name in names or [*MODELS, *READERS, *VIEWERS]:
            for settings, how in SETTINGS.items():
                if name in WITHOUT_BLOCKS and settings in ("eager", "checkpointing"):
                    continue
                rows.writerow([name, settings, "live", measure(name, *how), f"measure_torch.py, {version}"])
                out.flush()


if __name__ == "__main__":
    main()
