/* The commands that start the servers of SGLang and of TensorRT-LLM. */
#include "estimate/emit/emit.h"

static const char *dtype_of(const emit_request *q) {
    if (q->settings->engine.wide) return "float32";
    return q->subject->hardware->no_bf16 ? "half" : "auto";
}

void emit_sglang_command(const emit_request *q, const char *name, text *out) {
    static const char *const quantized[] = { NULL, "fp8", "awq", "gptq", "bitsandbytes" };
    const engine_settings *s = &q->settings->engine;
    engine_result r;
    text_add(out, "python3 -m sglang.launch_server --model-path ");
    text_add_quoted(out, name);
    text_add(out,
             " \\\n"
             "  --dtype %s \\\n"
             "  --context-length %lld \\\n"
             "  --chunked-prefill-size %lld \\\n"
             "  --page-size %lld \\\n"
             "  --tp-size %lld \\\n",
             dtype_of(q), (long long)s->context, (long long)s->chunk, (long long)s->page, (long long)s->gpus);
    if (q->subject->hardware->memory &&
        engine_sglang(q->subject->model, q->subject->config, q->subject->hardware, s, &r) == STATUS_OK)
        text_add(out, "  --mem-fraction-static %.3f \\\n", r.fraction);
    if (s->running) text_add(out, "  --max-running-requests %lld \\\n", (long long)s->running);
    if (quantized[s->quantization]) text_add(out, "  --quantization %s \\\n", quantized[s->quantization]);
    if (s->graph_batch)
        text_add(out, "  --cuda-graph-max-bs-decode %lld \\\n", (long long)s->graph_batch);
    else
        text_add(out, "  --disable-cuda-graph \\\n");
    text_add(out, "  --kv-cache-dtype %s\n", s->small_cache ? "fp8_e4m3" : "auto");
}

void emit_trtllm_command(const emit_request *q, const char *name, text *out) {
    const engine_settings *s = &q->settings->engine;
    text_add(out, "trtllm-serve ");
    text_add_quoted(out, name);
    text_add(out,
             " \\\n"
             "  --max_seq_len %lld \\\n"
             "  --max_num_tokens %lld \\\n"
             "  --max_batch_size %lld \\\n"
             "  --tp_size %lld \\\n"
             "  --kv_cache_free_gpu_memory_fraction %g\n",
             (long long)s->context, (long long)s->chunk, (long long)s->running, (long long)s->gpus,
             s->fraction);
}

static status write_sglang(const emit_request *q, text *out) {
    text_add(out, "#!/bin/sh\n");
    emit_comment(out, q);
    text_add(out, "# the model: a path, or a name on the hub\n");
    emit_sglang_command(q, q->named, out);
    return STATUS_OK;
}

static status write_trtllm(const emit_request *q, text *out) {
    const engine_settings *s = &q->settings->engine;
    text_add(out, "#!/bin/sh\n");
    emit_comment(out, q);
    text_add(out, "# the model: a path, or a name on the hub%s\n",
             s->quantization ? ", whose weights are quantized already" : "");
    if (s->small_cache || s->page != 32 || s->graph_batch != 128)
        text_add(out,
                 "# in the YAML of --config: kv_cache_config: {dtype: %s, tokens_per_block: %lld}, "
                 "cuda_graph_config: %s%lld%s\n",
                 s->small_cache ? "fp8" : "auto", (long long)s->page,
                 s->graph_batch ? "{max_batch_size: " : "null # ", (long long)s->graph_batch,
                 s->graph_batch ? "}" : "");
    emit_trtllm_command(q, q->named, out);
    return STATUS_OK;
}

const emitter emit_sglang = { "sglang", "sglang", write_sglang };
const emitter emit_trtllm = { "tensorrt-llm", "tensorrt-llm", write_trtllm };
