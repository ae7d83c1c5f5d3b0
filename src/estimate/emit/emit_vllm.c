/* The command that starts vLLM's server. */
#include "estimate/emit/emit.h"

void emit_vllm_command(const emit_request *q, const char *name, text *out) {
    static const char *const quantized[] = { NULL, "fp8", "awq", "gptq", "bitsandbytes" };
    const vllm_settings *s = &q->settings->vllm;
    text_add(out, "vllm serve ");
    text_add_quoted(out, name);
    text_add(out,
             " \\\n"
             "  --dtype %s \\\n"
             "  --max-model-len %lld \\\n"
             "  --gpu-memory-utilization %g \\\n"
             "  --max-num-batched-tokens %lld \\\n"
             "  --max-num-seqs %lld \\\n"
             "  --tensor-parallel-size %lld \\\n",
             s->wide                         ? "float32"
             : q->subject->hardware->no_bf16 ? "half"
                                             : "auto",
             (long long)s->context, s->utilization, (long long)s->batched, (long long)s->sequences,
             (long long)s->gpus);
    if (quantized[s->quantization]) text_add(out, "  --quantization %s \\\n", quantized[s->quantization]);
    if (s->eager) text_add(out, "  --enforce-eager \\\n");
    text_add(out, "  --block-size %lld \\\n  --kv-cache-dtype %s\n", (long long)s->block,
             s->cache == VLLM_CACHE_FP8 ? "fp8" : "auto");
}

static status write(const emit_request *q, text *out) {
    text_add(out, "#!/bin/sh\n");
    emit_comment(out, q);
    text_add(out, "# the model: a path, or a name on the hub\n");
    emit_vllm_command(q, q->named, out);
    return STATUS_OK;
}

const emitter emit_vllm = { "vllm", "vllm", write };
