/* What each model_type fixes. */
#include <string.h>

#include "models/decoder.h"

#define LLAMA_NAMES                                                                                          \
    .embedding = "model.embed_tokens", .layers = "model.layers", .last_norm = "model.norm",                  \
    .head = "lm_head", .attention_norm = "input_layernorm", .feed_norm = "post_attention_layernorm",         \
    .q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj", .o = "self_attn.o_proj",      \
    .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"

/* Norms before and after either half of a block. */
#define SANDWICH_NAMES                                                                                       \
    .embedding = "model.embed_tokens", .layers = "model.layers", .last_norm = "model.norm",                  \
    .head = "lm_head", .attention_norm = "input_layernorm", .after_attention = "post_attention_layernorm",   \
    .feed_norm = "pre_feedforward_layernorm", .after_feed = "post_feedforward_layernorm",                    \
    .q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj", .o = "self_attn.o_proj",      \
    .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"

const decoder_kind decoder_kinds[] = {
    { .type = "llama", .architecture = "LlamaForCausalLM", LLAMA_NAMES },
    { .type = "mistral", .architecture = "MistralForCausalLM", LLAMA_NAMES },
    { .type = "qwen2", .architecture = "Qwen2ForCausalLM", LLAMA_NAMES },
    { .type = "qwen3",
      .architecture = "Qwen3ForCausalLM",
      LLAMA_NAMES,
      .q_norm = "self_attn.q_norm",
      .k_norm = "self_attn.k_norm" },
    { .type = "phi",
      .architecture = "PhiForCausalLM",
      .embedding = "model.embed_tokens",
      .layers = "model.layers",
      .last_norm = "model.final_layernorm",
      .head = "lm_head",
      .attention_norm = "input_layernorm",
      .q = "self_attn.q_proj",
      .k = "self_attn.k_proj",
      .v = "self_attn.v_proj",
      .o = "self_attn.dense",
      .up = "mlp.fc1",
      .down = "mlp.fc2",
      .order = DECODER_PARALLEL,
      .layer_norm = true },
    { .type = "phi3",
      .architecture = "Phi3ForCausalLM",
      .embedding = "model.embed_tokens",
      .layers = "model.layers",
      .last_norm = "model.norm",
      .head = "lm_head",
      .attention_norm = "input_layernorm",
      .feed_norm = "post_attention_layernorm",
      .q = "self_attn.qkv_proj",
      .o = "self_attn.o_proj",
      .gate = "mlp.gate_up_proj",
      .up = "mlp.gate_up_proj",
      .down = "mlp.down_proj",
      .packing = DECODER_PACKED,
      .gate_up_packed = true },
    { .type = "gemma",
      .architecture = "GemmaForCausalLM",
      LLAMA_NAMES,
      .around_one = true,
      .scaled_embedding = true },
    { .type = "gemma2",
      .architecture = "Gemma2ForCausalLM",
      SANDWICH_NAMES,
      .around_one = true,
      .scaled_embedding = true },
    { .type = "gemma3_text",
      .architecture = "Gemma3ForCausalLM",
      SANDWICH_NAMES,
      .q_norm = "self_attn.q_norm",
      .k_norm = "self_attn.k_norm",
      .around_one = true,
      .scaled_embedding = true },
    { .type = "gpt_neox",
      .architecture = "GPTNeoXForCausalLM",
      .embedding = "gpt_neox.embed_in",
      .layers = "gpt_neox.layers",
      .last_norm = "gpt_neox.final_layer_norm",
      .head = "embed_out",
      .attention_norm = "input_layernorm",
      .feed_norm = "post_attention_layernorm",
      .q = "attention.query_key_value",
      .o = "attention.dense",
      .up = "mlp.dense_h_to_4h",
      .down = "mlp.dense_4h_to_h",
      .packing = DECODER_BY_HEAD,
      .order = DECODER_PARALLEL_TWO_NORMS,
      .layer_norm = true },
    { 0 }
};

const decoder_kind *decoder_kind_find(const char *type) {
    for (const decoder_kind *k = decoder_kinds; k->type; k++)
        if (strcmp(k->type, type) == 0) return k;
    return NULL;
}
