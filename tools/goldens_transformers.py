#!/usr/bin/env python3
"""Writes tests/golden/<family>.txt and .json: ten losses, ten gradient norms and the first step's gradients of tiny
models as Hugging Face's transformers computes them, in double precision.

Needs torch, numpy and transformers. Run it from anywhere, with the names of some families for these alone; the files
are committed, so the tests don't need it. The format, the weights and the tokens are those of tools/goldens.py; the
.json is the config.json that snug reads. Of every gradient its norm and its first KEPT values are kept, so that the
files stay small.
"""

import importlib.util
import json
import pathlib
import sys

import numpy
import torch
import transformers

KEPT = 24
HERE = pathlib.Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("goldens", HERE / "goldens.py")
goldens = importlib.util.module_from_spec(spec)
spec.loader.exec_module(goldens)

texts = goldens.batch

SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=61,
             max_position_embeddings=24, attention_dropout=0.0, tie_word_embeddings=False,
             pad_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=100.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", rope_theta=50.0, factor=3.0, beta_fast=4.0, original_max_position_embeddings=12)
FAMILIES = {
    "llama": ("LlamaConfig", dict(num_key_value_heads=2, rope_parameters=LLAMA3)),
    "mistral": ("MistralConfig", dict(num_key_value_heads=2, sliding_window=7, head_dim=12)),
    "qwen2": ("Qwen2Config", dict(num_key_value_heads=2, tie_word_embeddings=True, use_sliding_window=True,
                                  sliding_window=5, max_window_layers=1)),
    "qwen3": ("Qwen3Config", dict(num_key_value_heads=2, head_dim=12)),
    "qwen3_yarn": ("Qwen3Config", dict(num_key_value_heads=2, head_dim=16, rope_parameters=YARN)),
    "phi": ("PhiConfig", dict(resid_pdrop=0.0, embd_pdrop=0.0)),
    "phi_normed": ("PhiConfig", dict(resid_pdrop=0.0, embd_pdrop=0.0, qk_layernorm=True)),
    "phi3": ("Phi3Config", dict(num_key_value_heads=2, sliding_window=9)),
    "gemma": ("GemmaConfig", dict(num_key_value_heads=1, head_dim=12, tie_word_embeddings=True)),
    "gemma2": ("Gemma2Config", dict(num_key_value_heads=2, head_dim=12, tie_word_embeddings=True, sliding_window=6,
                                    query_pre_attn_scalar=10, attn_logit_softcapping=0.2, final_logit_softcapping=0.5,
                                    layer_types=["sliding_attention", "full_attention"])),
    "gemma3_text": ("Gemma3TextConfig", dict(num_key_value_heads=2, head_dim=12, tie_word_embeddings=True,
                                             sliding_window=6, query_pre_attn_scalar=10,
                                             layer_types=["sliding_attention", "full_attention"])),
    "gpt_neox": ("GPTNeoXConfig", dict(hidden_dropout=0.0)),
    "olmo2": ("Olmo2Config", dict(num_key_value_heads=2)),
    "granite": ("GraniteConfig", dict(num_key_value_heads=2, embedding_multiplier=3.0, residual_multiplier=0.4,
                                      attention_multiplier=0.2, logits_scaling=1.6)),
    "smollm3": ("SmolLM3Config", dict(num_key_value_heads=2, tie_word_embeddings=True, no_rope_layers=[1, 0])),
    "glm": ("GlmConfig", dict(num_key_value_heads=2, head_dim=12, attention_bias=True)),
    "glm4": ("Glm4Config", dict(num_key_value_heads=2, head_dim=12)),
    "starcoder2": ("Starcoder2Config", dict(num_key_value_heads=2, tie_word_embeddings=True, sliding_window=7)),
    "falcon": ("FalconConfig", dict(ffn_hidden_size=48, tie_word_embeddings=True)),
    "falcon_wide": ("FalconConfig", dict(ffn_hidden_size=48, num_kv_heads=2, new_decoder_architecture=True,
                                         bias=True)),
    "falcon_narrow": ("FalconConfig", dict(num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1)),
    "olmo3": ("Olmo3Config", dict(num_key_value_heads=2, sliding_window=6,
                                  layer_types=["sliding_attention", "full_attention"])),
    "exaone4": ("Exaone4Config", dict(num_key_value_heads=2, sliding_window=6, sliding_window_pattern=None,
                                      layer_types=["sliding_attention", "full_attention"])),
    "ministral": ("MinistralConfig", dict(num_key_value_heads=2, sliding_window=7, head_dim=12,
                                          layer_types=["full_attention", "sliding_attention"])),
    "vaultgemma": ("VaultGemmaConfig", dict(num_key_value_heads=2, head_dim=12, tie_word_embeddings=True,
                                            sliding_window=6, query_pre_attn_scalar=10, attn_logit_softcapping=0.2,
                                            final_logit_softcapping=0.5,
                                            layer_types=["sliding_attention", "full_attention"])),
    "seed_oss": ("SeedOssConfig", dict(num_key_value_heads=2, head_dim=12, residual_dropout=0.0,
                                       attention_out_bias=True)),
    "ernie4_5": ("Ernie4_5Config", dict(num_key_value_heads=2, head_dim=12, use_bias=True)),
    "hunyuan_v1_dense": ("HunYuanDenseV1Config", dict(
        num_key_value_heads=2, head_dim=12, eod_token_id=None, use_qk_norm=True,  # which transformers ignores
        rope_parameters=dict(rope_type="dynamic", rope_theta=100.0, alpha=9.0, factor=1.0))),
    "helium": ("HeliumConfig", dict(num_key_value_heads=2, head_dim=8)),
    "arcee": ("ArceeConfig", dict(num_key_value_heads=2, mlp_bias=True)),
    "jais2": ("Jais2Config", dict(num_key_value_heads=2)),
    "stablelm": ("StableLmConfig", dict(num_key_value_heads=2, use_qkv_bias=True)),
    "stablelm_parallel": ("StableLmConfig", dict(num_key_value_heads=4, use_parallel_residual=True)),
    "cohere": ("CohereConfig", dict(num_key_value_heads=2, tie_word_embeddings=True, logit_scale=0.4)),
    "cohere2": ("Cohere2Config", dict(num_key_value_heads=2, tie_word_embeddings=True, logit_scale=1.7,
                                      sliding_window=6, layer_types=["sliding_attention", "full_attention"])),
    "mixtral": ("MixtralConfig", dict(num_key_value_heads=2, num_local_experts=5, num_experts_per_tok=2)),
    "qwen2_moe": ("Qwen2MoeConfig", dict(num_key_value_heads=4, num_experts=6, num_experts_per_tok=3,
                                         moe_intermediate_size=20, shared_expert_intermediate_size=28)),
    "qwen3_moe": ("Qwen3MoeConfig", dict(num_key_value_heads=2, head_dim=12, num_experts=4, num_experts_per_tok=2,
                                         moe_intermediate_size=24, norm_topk_prob=True, mlp_only_layers=[0])),
    "olmoe": ("OlmoeConfig", dict(num_key_value_heads=4, num_experts=5, num_experts_per_tok=2)),
    # a bound that some queries, keys and values reach and most do not
    "olmoe_bounded": ("OlmoeConfig", dict(num_key_value_heads=4, num_experts=5, num_experts_per_tok=2, clip_qkv=0.3)),
    # the loss that balances experts, weighed so that it shows
    "mixtral_balanced": ("MixtralConfig", dict(num_key_value_heads=2, num_local_experts=5, num_experts_per_tok=2,
                                               output_router_logits=True, router_aux_loss_coef=0.2)),
    "qwen3_moe_balanced": ("Qwen3MoeConfig", dict(num_key_value_heads=2, head_dim=12, num_experts=4,
                                                  num_experts_per_tok=2, moe_intermediate_size=24,
                                                  mlp_only_layers=[0], output_router_logits=True,
                                                  router_aux_loss_coef=0.3)),
}
ENCODER_SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=61,
                     max_position_embeddings=24, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
MODERN_THETAS = dict(full_attention=dict(rope_type="default", rope_theta=300.0),
                     sliding_attention=dict(rope_type="default", rope_theta=20.0))
MODERN = dict(num_hidden_layers=3, local_attention=10, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1,
              sep_token_id=2, rope_parameters=MODERN_THETAS)
ENCODERS = {
    "bert": ("BertConfig", dict(layer_norm_eps=1e-5, pad_token_id=0)),
    "roberta": ("RobertaConfig", dict(hidden_act="gelu_new", max_position_embeddings=26, type_vocab_size=1)),
    "xlm-roberta": ("XLMRobertaConfig", dict(max_position_embeddings=26, type_vocab_size=1)),
    "data2vec-text": ("Data2VecTextConfig", dict(max_position_embeddings=26, type_vocab_size=1)),
    # windows of tokens that see 5 to both sides, and thetas that tell the two kinds of layers apart
    "modernbert": ("ModernBertConfig", dict(**MODERN)),
    "modernbert_biased": ("ModernBertConfig", dict(
        **MODERN, attention_bias=True, mlp_bias=True, norm_bias=True, classifier_bias=True, decoder_bias=False,
        tie_word_embeddings=False, hidden_activation="silu", classifier_activation="gelu_pytorch_tanh")),
    "distilbert": ("DistilBertConfig", dict(dim=32, n_layers=2, n_heads=4, hidden_dim=48, dropout=0.0,
                                            attention_dropout=0.0)),
}
ANSWERING = dict(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=61, dropout_rate=0.0,
                 relative_attention_num_buckets=8, relative_attention_max_distance=12, pad_token_id=0,
                 decoder_start_token_id=2)
ANSWERERS = {
    "t5": ("T5Config", dict(num_decoder_layers=1)),
    "t5_gated": ("T5Config", dict(feed_forward_proj="gated-gelu")),
    "t5_untied": ("T5Config", dict(feed_forward_proj="gated-silu", tie_word_embeddings=False)),
}
TOWER = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16,
             patch_size=4, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0)
DINO = {key: value for key, value in TOWER.items() if key != "intermediate_size"}
CLASSES = 5
PICTURES = {
    "vit": ("ViTConfig", "ViTForImageClassification", dict(**TOWER, num_labels=CLASSES)),
    "dinov2": ("Dinov2Config", "Dinov2ForImageClassification",
               dict(**DINO, mlp_ratio=2, use_mask_token=False, num_labels=CLASSES)),
    "dinov2_gated": ("Dinov2Config", "Dinov2ForImageClassification",
                     dict(**DINO, use_swiglu_ffn=True, num_labels=CLASSES)),
    "clip_vision": ("CLIPVisionConfig", "CLIPVisionModelWithProjection",
                    dict(**TOWER, attention_dropout=0.0, projection_dim=CLASSES)),
    "resnet": ("ResNetConfig", "ResNetForImageClassification",
               dict(embedding_size=8, hidden_sizes=[16, 24], depths=[2, 1], image_size=24, num_labels=CLASSES)),
    "resnet_basic": ("ResNetConfig", "ResNetForImageClassification",
                     dict(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 2], layer_type="basic", image_size=24,
                          num_labels=CLASSES)),
    "convnext": ("ConvNextConfig", "ConvNextForImageClassification",
                 dict(hidden_sizes=[8, 12], depths=[1, 2], num_stages=2, image_size=24, drop_path_rate=0.0,
                      num_labels=CLASSES)),
}
JUDGED = 4  # classes
ENCODER = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=61,
               max_position_embeddings=24, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
JUDGES = {
    "bert_classes": ("BertConfig", dict(**ENCODER, layer_norm_eps=1e-5, num_labels=JUDGED)),
    "bert_pairs": ("BertConfig", dict(**ENCODER, layer_norm_eps=1e-5, num_labels=JUDGED)),
    "roberta_classes": ("RobertaConfig", dict(**{**ENCODER, "max_position_embeddings": 26}, type_vocab_size=1,
                                              num_labels=JUDGED)),
    "distilbert_classes": ("DistilBertConfig", dict(vocab_size=61, max_position_embeddings=24, dim=32, n_layers=2,
                                                    n_heads=4, hidden_dim=48, dropout=0.0, attention_dropout=0.0,
                                                    seq_classif_dropout=0.0, num_labels=JUDGED)),
    "modernbert_classes": ("ModernBertConfig", dict(
        **MODERN, hidden_size=32, num_attention_heads=4, intermediate_size=48, vocab_size=61,
        max_position_embeddings=24, num_labels=JUDGED)),
    "gpt2_classes": ("GPT2Config", dict(vocab_size=61, n_positions=24, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0,
                                        embd_pdrop=0.0, attn_pdrop=0.0, pad_token_id=1, bos_token_id=2,
                                        eos_token_id=2, num_labels=JUDGED)),
    "llama_classes": ("LlamaConfig", dict(**{**SIZES, "pad_token_id": 0}, num_key_value_heads=2, num_labels=JUDGED)),
    "qwen2_classes": ("Qwen2Config", dict(**{**SIZES, "pad_token_id": 0}, num_key_value_heads=2, num_labels=JUDGED)),
    "bert_score": ("BertConfig", dict(**ENCODER, layer_norm_eps=1e-5, num_labels=1, problem_type="regression")),
    "llama_score": ("LlamaConfig", dict(**{**SIZES, "pad_token_id": 0}, num_key_value_heads=2, num_labels=1,
                                        problem_type="regression")),
}
MASK, FIRST_WORD = 60, 3  # the ids below the first word are padding and its like


def name_in_files(family, name):
    """Newer versions of transformers call a module otherwise than the files that everybody has, and heads of XLM-R's
    kind, which are its table, come before the table."""
    stem = {"xlm-roberta": "roberta", "data2vec-text": "data2vec_text"}.get(family)
    if stem and name == "lm_head.decoder.weight":
        return f"{stem}.embeddings.word_embeddings.weight"
    return "embed_out.weight" if family == "gpt_neox" and name == "lm_head.weight" else name


def attention_of(config):
    """ModernBERT written out casts scores to f32, where what a row does not see is minus infinity: rows behind a text,
    of which a window may see nothing else, are no numbers then."""
    return "sdpa" if config.model_type == "modernbert" else "eager"


def model_of(config, of_pictures=None):
    config._attn_implementation = attention_of(config)
    config._experts_implementation = "eager"  # grouped products have no double precision
    kind = transformers.AutoModelForCausalLM
    if config.model_type in ENCODERS:
        kind = transformers.AutoModelForMaskedLM
    if config.model_type == "t5":
        kind = transformers.AutoModelForSeq2SeqLM
    model = (getattr(transformers, of_pictures)(config) if of_pictures else kind.from_config(config)).double()
    if config.model_type == "t5" and not config.scale_decoder_outputs:  # which this version ties all the same
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    model.train()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(goldens.weight(name_in_files(config.model_type, name), tuple(p.shape)))
    return model


def gaps(step):
    """Every fourth token is hidden."""
    rows = [[FIRST_WORD + goldens.token(step, sample, time, MASK - FIRST_WORD) for time in range(24)]
            for sample in range(3)]
    hidden = torch.tensor([[(step + sample + time) % 4 == 0 for time in range(24)] for sample in range(3)])
    rows = torch.tensor(rows)
    return rows.masked_fill(hidden, MASK), rows.masked_fill(~hidden, -100)


def answered(step):
    """Texts of different lengths, behind which stand tokens that nobody is to see, and answers of others."""
    texts = torch.tensor([[goldens.token(step, sample, time, 61) for time in range(24)] for sample in range(3)])
    seen = torch.tensor([[int(time < 24 - (5 * step + 7 * sample) % 20) for time in range(24)]
                         for sample in range(3)])
    labels = torch.tensor([[goldens.token(step + 50, sample, time, 61) if time < 24 - (3 * step + 5 * sample) % 17
                            else -100 for time in range(24)] for sample in range(3)])
    return (texts, seen), labels


def train_answerer(model):
    """As transformers computes the loss itself, and shifts the answers."""
    def loss_of(_, texts, labels):
        return model(input_ids=texts[0], attention_mask=texts[1], labels=labels, use_cache=False).loss
    goldens.batch = answered
    return goldens.train(dict(model.named_parameters()), loss_of)


def train(model):
    def loss_of(_, tokens, labels):
        out = model(input_ids=tokens) if encodes else model(input_ids=tokens, use_cache=False)
        loss = torch.nn.functional.cross_entropy(out.logits.reshape(-1, out.logits.shape[-1]), labels.reshape(-1))
        return loss if out.get("aux_loss") is None else loss + model.config.router_aux_loss_coef * out.aux_loss
    family = model.config.model_type
    if family == "t5":
        return train_answerer(model)
    encodes = family in ENCODERS
    goldens.batch = gaps if encodes else texts
    return goldens.train({name_in_files(family, name): p for name, p in model.named_parameters()}, loss_of)


def texts_of_all_lengths(step, padding):
    """Words, and behind them padding; the class of each text and its score."""
    rows, seen = torch.full((3, 24), padding), torch.zeros(3, 24, dtype=torch.int64)
    for sample in range(3):
        length = 24 - (5 * step + 7 * sample) % 20
        words = [FIRST_WORD + goldens.token(step, sample, time, MASK - FIRST_WORD) for time in range(length)]
        rows[sample, :length], seen[sample, :length] = torch.tensor(words), 1
    classes = torch.tensor([goldens.token(step, sample, 2, JUDGED) for sample in range(3)])
    scores = torch.tensor([(goldens.token(step, sample, 3, 17) - 8) / 4 for sample in range(3)])
    return (rows, seen), (classes, scores)


def judge_of(config):
    """The weights that snug has: a pooler that the head does not use would be none of them."""
    config._attn_implementation = attention_of(config)
    model = transformers.AutoModelForSequenceClassification.from_config(config).double()
    model.train()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(goldens.weight(name, tuple(p.shape)))
    return model


def types_of(seen):
    """Two texts in each sample: behind a third of its tokens, and one, the second begins."""
    length = seen.sum(1, keepdim=True)
    return seen * (torch.arange(seen.shape[1]) > length // 3)


def train_judge(model, pairs):
    """As transformers computes the loss itself. Beside what training gives the logits of the first step."""
    def run(texts, told):
        wanted = told[1] if model.config.num_labels == 1 else told[0]
        types = {"token_type_ids": types_of(texts[1])} if pairs else {}
        return model(input_ids=texts[0], attention_mask=texts[1], labels=wanted, **types)
    goldens.batch = lambda step: texts_of_all_lengths(step, model.config.pad_token_id)
    with torch.no_grad():
        logits = run(*goldens.batch(0)).logits
    return goldens.train(dict(model.named_parameters()), lambda _, texts, told: run(texts, told).loss), logits


def pixels(step, side):
    """Images with channels last, as snug has them, in [-1, 1); made channels first, and their classes."""
    index = numpy.arange(side * side * 3, dtype=numpy.uint64)
    begin = goldens.name_hash("images") + step * 1000003
    rows = [(goldens.mix(index + numpy.uint64(begin + sample * 10007)) >> numpy.uint64(8)) for sample in range(3)]
    images = torch.tensor(numpy.stack(rows).astype(numpy.float64) * 2.0**-23 - 1).reshape(3, side, side, 3)
    return images.permute(0, 3, 1, 2), torch.tensor([goldens.token(step, sample, 0, CLASSES) for sample in range(3)])


def train_on_pictures(model):
    def loss_of(_, images, labels):
        out = model(pixel_values=images)
        return torch.nn.functional.cross_entropy(out.image_embeds if "image_embeds" in out else out.logits, labels)
    goldens.batch = lambda step: pixels(step, model.config.image_size)
    for name, p in model.named_parameters():
        p.requires_grad_(not name.endswith("mask_token"))  # which whole images do not read
    # what stands before the patches is one row, which snug takes as it takes a bias
    rows = ["vit.embeddings.cls_token", "dinov2.embeddings.cls_token"]
    return goldens.train(dict(model.named_parameters()), loss_of, rows)


def write(path, facts, losses, norms, gradients, logits=None):
    with open(path, "w", encoding="ascii") as out:
        out.write("golden 1\n")
        for name, value in facts.items():
            out.write(f"number {name} {value:.9g}\n")
        out.write(f"losses {len(losses)}\n" + goldens.lines(losses, 1))
        out.write(f"norms {len(norms)}\n" + goldens.lines(norms, 1))
        for name, g in gradients.items():
            flat = g.reshape(-1)
            kept = torch.cat([flat.norm().reshape(1), flat[:KEPT]])
            out.write(f"gradient {name} 1 {kept.numel()}\n")
            out.write(goldens.lines(kept.tolist(), 8))
        if logits is not None:
            out.write("table logits 2 {} {}\n".format(*logits.shape) + goldens.lines(logits.reshape(-1).tolist(), 8))
    print(f"{path.name}: {path.stat().st_size} bytes, loss {losses[0]:.6f} -> {losses[-1]:.6f}")


def main():
    folder = HERE.parent / "tests" / "golden"
    torch.set_default_dtype(torch.float64)
    goldens.SIZES.update(context=24, vocabulary=61, batch=3)
    facts = {"context": 24, "vocabulary": 61, "batch": 3, **goldens.SETTINGS}
    for family, (config_class, more) in {**FAMILIES, **ENCODERS, **ANSWERERS}.items():
        if len(sys.argv) > 1 and family not in sys.argv[1:]:
            continue
        sizes = ENCODER_SIZES if family in ENCODERS else SIZES
        if family.startswith("falcon"):
            sizes = {key: value for key, value in SIZES.items() if key != "intermediate_size"}
        if family.startswith("modernbert"):
            sizes = {key: value for key, value in SIZES.items() if key not in MODERN and not key.startswith("tie_")}
        if family == "distilbert":
            sizes = dict(vocab_size=61, max_position_embeddings=24)
        if family in ANSWERERS:
            sizes = ANSWERING
        config = getattr(transformers, config_class)(**{**sizes, **more})
        said = {k: v for k, v in config.to_dict().items() if v is not None}
        if "scale_decoder_outputs" in said:
            said["tie_word_embeddings"] = said["scale_decoder_outputs"]  # as the files say that people have
        (folder / f"{family}.json").write_text(json.dumps(said, indent=1, sort_keys=True) + "\n")
        write(folder / f"{family}.txt", facts, *train(model_of(config)))
    for family, (config_class, sizes) in JUDGES.items():
        if len(sys.argv) > 1 and family not in sys.argv[1:]:
            continue
        model = judge_of(getattr(transformers, config_class)(**sizes))
        said = {k: v for k, v in model.config.to_dict().items() if v is not None and k != "dtype"}
        said["architectures"] = [type(model).__name__]
        (folder / f"{family}.json").write_text(json.dumps(said, indent=1, sort_keys=True) + "\n")
        results, logits = train_judge(model, family.endswith("_pairs"))
        write(folder / f"{family}.txt", facts, *results, logits)
    facts = {"batch": 3, "classes": CLASSES, **goldens.SETTINGS}
    for family, (config_class, model_class, sizes) in PICTURES.items():
        if len(sys.argv) > 1 and family not in sys.argv[1:]:
            continue
        config = getattr(transformers, config_class)(**sizes)
        said = {k: v for k, v in config.to_dict().items() if v is not None}
        (folder / f"{family}.json").write_text(json.dumps(said, indent=1, sort_keys=True) + "\n")
        write(folder / f"{family}.txt", facts, *train_on_pictures(model_of(config, model_class)))


if __name__ == "__main__":
    main()
