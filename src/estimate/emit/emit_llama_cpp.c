/* The command that starts llama.cpp's server. */
#include <stdio.h>

#include "estimate/emit/emit.h"

enum { USUAL_BATCH = 2048 /* which a step must not be longer than */ };

void emit_llama_cpp_command(const emit_request *q, text *out) {
    const llama_cpp_settings *s = &q->settings->llama_cpp;
    char file[128];
    int64_t layers = q->subject->model->layers + 1;
    snprintf(file, sizeof file, "%s-%s.gguf", q->subject->model->name, gguf_mix_name(s->mix));
    text_add(out, "llama-server --model ");
    text_add_quoted(out, file);
    text_add(out,
             " \\\n"
             "  --ctx-size %lld \\\n"
             "  --parallel %lld \\\n"
             "  --n-gpu-layers %lld \\\n"
             "  --flash-attn %s \\\n"
             "  --cache-type-k %s \\\n"
             "  --cache-type-v %s \\\n",
             (long long)(s->context * s->requests), (long long)s->requests,
             (long long)(s->gpu_layers < layers ? s->gpu_layers : layers), s->flash ? "on" : "off",
             llama_cpp_cache_name(s->keys), llama_cpp_cache_name(s->values));
    if (s->gpus > 1) text_add(out, "  --split-mode layer \\\n");
    if (s->ubatch > USUAL_BATCH) text_add(out, "  --batch-size %lld \\\n", (long long)s->ubatch);
    text_add(out, "  --ubatch-size %lld\n", (long long)s->ubatch);
}

static status write(const emit_request *q, text *out) {
    text_add(out, "#!/bin/sh\n");
    emit_comment(out, q);
    emit_llama_cpp_command(q, out);
    return STATUS_OK;
}

const emitter emit_llama_cpp = { "llama.cpp", "llama.cpp", write };
