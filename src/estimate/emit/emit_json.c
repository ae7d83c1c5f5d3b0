/* The settings in snug's own words, for programs: each key is an option of estimate. */
#include "estimate/emit/emit.h"
#include "estimate/torch/torch_grpo.h"
#include "estimate/torch/torch_versions.h"
#include "io/json.h"

static void put_grpo(json_writer *w, const torch_settings *s) {
    static const char *const rollouts[] = { "generate", "vllm", "vllm-sleep", "server" };
    const torch_grpo *g = &s->grpo;
    json_put_string(w, "trainer", "grpo");
    json_put_integer(w, "completion", g->completion);
    json_put_integer(w, "generations", g->generations);
    json_put_integer(w, "steps-per-generation", torch_grpo_passes(s));
    json_put_integer(w, "iterations", g->iterations);
    json_put_number(w, "beta", g->beta);
    json_put_string(w, "rollouts", rollouts[g->rollouts]);
    if (g->rollouts == TORCH_COLOCATES || g->rollouts == TORCH_SLEEPS)
        json_put_number(w, "vllm-gpu-memory-utilization", g->share);
}

static void put_torch(json_writer *w, const emit_request *q) {
    static const char *const types[] = { "float32", "autocast", "half" };
    static const char *const updates[] = { "foreach", "fused", "single" };
    static const char *const shards[] = { "none", "ddp", "zero1", "zero2", "zero3", "fsdp" };
    static const char *const optimizers[] = { [OPTIMIZER_ADAMW] = "adamw",
                                              [OPTIMIZER_SGD] = "sgd",
                                              [OPTIMIZER_LION] = "lion",
                                              [OPTIMIZER_ADAFACTOR] = "adafactor" };
    const torch_settings *s = &q->settings->torch;
    json_put_integer(w, "micro-batch", s->batch);
    json_put_integer(w, "accumulate", torch_accumulation(&q->settings->torch));
    if (s->context) json_put_integer(w, "context", s->context);
    json_put_integer(w, "gpus", s->gpus);
    json_put_string(w, "shard", shards[s->shard]);
    if (s->host_keeps)
        json_put_string(w, "host-keeps", s->host_keeps == TORCH_KEEPS_ALL ? "all" : "optimizer");
    json_put_string(w, "dtype", types[s->types]);
    if (!s->litgpt)
        json_put_string(w, "attn",
                        s->attention == TORCH_FLASH ? "flash" : torch_attention_word(s->attention));
    json_put_string(w, "optimizer", optimizers[s->optimizer]);
    json_put_string(w, "optimizer-kernels", updates[s->update]);
    json_put_integer(w, "optimizer-bits", s->state_bits);
    json_put_bool(w, "gradient-checkpointing", s->checkpointing);
    if (!s->litgpt) json_put_string(w, "loss", s->fused_loss ? "fused" : "plain");
    if (s->older) json_put_string(w, "libraries", "2023");
    if (s->version) json_put_string(w, "torch", torch_version_name(s->version));
    if (s->keeps_gradients) json_put_bool(w, "keeps-gradients", true);
    if (s->holds_output) json_put_bool(w, "keeps-output", true);
    if (s->reentrant) json_put_bool(w, "reentrant", true);
    if (s->shortest) json_put_integer(w, "shortest", s->shortest);
    if (s->padded && !s->grpo.asked) json_put_bool(w, "padding", true);
    if (s->expandable) json_put_bool(w, "expandable-segments", true);
    if (s->compiled) json_put_bool(w, "compile", true);
    if (s->benchmarks) json_put_bool(w, "cudnn-benchmark", true);
    if (s->grpo.asked) put_grpo(w, s);
    if (!s->adapter_rank) return;
    json_put_integer(w, "adapter-rank", s->adapter_rank);
    if (s->adapter_targets) json_put_string(w, "adapter-targets", s->adapter_targets);
    if (s->magnitudes) json_put_bool(w, "use-dora", true);
    if (s->adapter_dropout > 0) json_put_number(w, "adapter-dropout", s->adapter_dropout);
    json_put_integer(w, "base-bits", s->base_bits);
    if (s->plain_scales) json_put_string(w, "base-scales", "f32");
}

static void put_vllm(json_writer *w, const vllm_settings *s) {
    static const char *const quantized[] = { "none", "fp8", "awq", "gptq", "bitsandbytes" };
    json_put_integer(w, "context", s->context);
    json_put_integer(w, "requests", s->requests);
    json_put_integer(w, "gpus", s->gpus);
    json_put_string(w, "dtype", s->wide ? "float32" : "half");
    json_put_string(w, "quantization", quantized[s->quantization]);
    json_put_string(w, "kv-cache-dtype", s->cache == VLLM_CACHE_FP8 ? "fp8" : "auto");
    json_put_number(w, "gpu-memory-utilization", s->utilization);
    json_put_integer(w, "max-num-batched-tokens", s->batched);
    json_put_integer(w, "max-num-seqs", s->sequences);
    json_put_integer(w, "block-size", s->block);
    json_put_bool(w, "enforce-eager", s->eager);
}

static void put_llama_cpp(json_writer *w, const llama_cpp_settings *s) {
    json_put_string(w, "gguf", gguf_mix_name(s->mix));
    json_put_integer(w, "context", s->context);
    json_put_integer(w, "requests", s->requests);
    json_put_integer(w, "gpu-layers", s->gpu_layers);
    json_put_integer(w, "gpus", s->gpus);
    json_put_integer(w, "ubatch-size", s->ubatch);
    json_put_string(w, "cache-type-k", llama_cpp_cache_name(s->keys));
    json_put_string(w, "cache-type-v", llama_cpp_cache_name(s->values));
    json_put_string(w, "attn", s->flash ? "flash" : "eager");
}

static void put_engine(json_writer *w, const engine_settings *s) {
    static const char *const quantized[] = { "none", "fp8", "awq", "gptq", "bitsandbytes" };
    json_put_integer(w, "context", s->context);
    json_put_integer(w, "requests", s->requests);
    json_put_integer(w, "gpus", s->gpus);
    json_put_string(w, "dtype", s->wide ? "float32" : "half");
    json_put_string(w, "quantization", quantized[s->quantization]);
    json_put_string(w, "kv-cache-dtype", s->small_cache ? "fp8" : "auto");
    if (s->fraction > 0)
        json_put_number(w, s->is_sglang ? "mem-fraction-static" : "free-gpu-memory-fraction", s->fraction);
    json_put_integer(w, s->is_sglang ? "chunked-prefill-size" : "max-num-tokens", s->chunk);
    if (s->running) json_put_integer(w, s->is_sglang ? "max-running-requests" : "max-batch-size", s->running);
    json_put_integer(w, s->is_sglang ? "page-size" : "tokens-per-block", s->page);
    if (s->graph_batch)
        json_put_integer(w, "cuda-graph-max-bs", s->graph_batch);
    else
        json_put_bool(w, "disable-cuda-graph", true);
}

static void put_settings(json_writer *w, const emit_request *q) {
    json_begin_object(w, "settings");
    if (q->framework == &framework_vllm)
        put_vllm(w, &q->settings->vllm);
    else if (q->framework == &framework_sglang || q->framework == &framework_trtllm)
        put_engine(w, &q->settings->engine);
    else if (q->framework == &framework_llama_cpp)
        put_llama_cpp(w, &q->settings->llama_cpp);
    else
        put_torch(w, q);
    json_end_object(w);
}

static status write(const emit_request *q, text *out) {
    const hardware *h = q->subject->hardware;
    const interval *b = &q->result->layers[h->memory ? FRAMEWORK_DEVICE : FRAMEWORK_RESERVED];
    json_writer w = { .out = out, .lines = true };
    json_begin_object(&w, NULL);
    json_put_string(&w, "model", q->subject->model->name);
    json_put_string(&w, "framework", q->framework->name);
    if (h->memory) json_put_string(&w, "device", h->name);
    json_begin_object(&w, h->memory ? "device_bytes" : "reserved_bytes");
    json_put_unsigned(&w, "low", b->low);
    json_put_unsigned(&w, "likely", b->likely);
    json_put_unsigned(&w, "high", b->high);
    json_end_object(&w);
    json_put_string(&w, "changed", q->changed);
    put_settings(&w, q);
    json_end_object(&w);
    text_add(out, "\n");
    return STATUS_OK;
}

const emitter emit_json = { "json", "hf, pytorch, litgpt, vllm, llama.cpp, sglang, tensorrt-llm", write };
