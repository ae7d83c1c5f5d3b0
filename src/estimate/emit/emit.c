#include "estimate/emit/emit.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "estimate/torch/torch_versions.h"
#include "io/json.h"

static const emitter *const emitters[EMITS] = {
    [EMIT_HF] = &emit_hf,
    [EMIT_TORCH] = &emit_torch,
    [EMIT_DEEPSPEED] = &emit_deepspeed,
    [EMIT_ACCELERATE] = &emit_accelerate,
    [EMIT_AXOLOTL] = &emit_axolotl,
    [EMIT_VLLM] = &emit_vllm,
    [EMIT_LLAMA_CPP] = &emit_llama_cpp,
    [EMIT_SGLANG] = &emit_sglang,
    [EMIT_TRTLLM] = &emit_trtllm,
    [EMIT_TRL] = &emit_trl,
    [EMIT_JSON] = &emit_json,
};

static bool listed(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == 0 || at[n] == ',')) return true;
    return false;
}

status emit_check(emit_name n, const framework *f) {
    const emitter *e = emitters[n];
    if (!e) return STATUS_OK;
    if (!f)
        return status_set(STATUS_INVALID, "--emit %s: with --framework snug the plan is run by snug itself",
                          e->name);
    if (listed(e->frameworks, f->name)) return STATUS_OK;
    return status_set(STATUS_INVALID, "--emit %s is for --framework %s, and here it is %s", e->name,
                      e->frameworks, f->name);
}

static bool trains(const framework *f) { return f == &framework_hf || f == &framework_pytorch; }

status emit_write(emit_name n, const emit_request *q, text *out) {
    if (n != EMIT_JSON && trains(q->framework) && q->settings->torch.older)
        return status_set(STATUS_INVALID,
                          "--emit %s: its names are those of today's libraries; leave --libraries 2023 out",
                          emitters[n]->name);
    if (n != EMIT_JSON && trains(q->framework) && torch_is_before(&q->settings->torch, TORCH_2_4))
        return status_set(STATUS_INVALID,
                          "--emit %s: its names are those of today's libraries, which ask for PyTorch 2.4; "
                          "leave --torch %s out",
                          emitters[n]->name, torch_version_name(q->settings->torch.version));
    if (n != EMIT_JSON && trains(q->framework) && q->settings->torch.host_keeps)
        return status_set(STATUS_INVALID,
                          "--emit %s writes nothing that is kept with the host; leave --host-keeps out",
                          emitters[n]->name);
    bool plain = n == EMIT_HF || n == EMIT_TORCH || n == EMIT_AXOLOTL;
    if (plain && trains(q->framework) && q->settings->torch.grpo.asked)
        return status_set(STATUS_INVALID, "--emit %s knows nothing of --trainer grpo; take --emit trl",
                          emitters[n]->name);
    return emitters[n]->write(q, out);
}

/* ---- what several tools share ---- */

/* What the estimate was asked with and no configuration here says: it is for the training program to do. */
static void add_assumed(text *out, const emit_request *q) {
    const torch_settings *s = &q->settings->torch;
    if (!trains(q->framework)) return;
    if (s->compiled) text_add(out, "# asked with --compile: your program calls torch.compile\n");
    if (s->benchmarks)
        text_add(out, "# asked with --cudnn-benchmark: set torch.backends.cudnn.benchmark = True\n");
    if (s->expandable)
        text_add(out, "# asked with --expandable-segments: set "
                      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n");
    if (s->padded && !s->grpo.asked)
        text_add(out, "# asked with --padding: batches come with an attention_mask\n");
    if (s->shortest)
        text_add(out, "# asked with --shortest: samples have from %lld tokens on\n", (long long)s->shortest);
}

void emit_comment(text *out, const emit_request *q) {
    const hardware *h = q->subject->hardware;
    const interval *b = &q->result->layers[h->memory ? FRAMEWORK_DEVICE : FRAMEWORK_RESERVED];
    char low[UNITS_TEXT_BYTES], likely[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES];
    text_add(out, "# snug estimate: ");
    json_add_quoted(out, q->named);
    text_add(out, " takes %s of ", units_bytes_text(b->likely, likely));
    if (h->memory)
        json_add_quoted(out, h->title);
    else
        text_add(out, "a device");
    text_add(out, ", from %s to %s\n", units_bytes_text(b->low, low), units_bytes_text(b->high, high));
    if (*q->changed)
        text_add(out, "# beyond what was asked: %s%s\n", q->changed,
                 q->alters ? " (changes what is trained)" : "");
    if (*q->tight) text_add(out, "# %s\n", q->tight);
    add_assumed(out, q);
}

void emit_words(text *out, const char *list) {
    const char *end;
    text_add(out, "[");
    for (const char *word = list; word; word = *end ? end + 1 : NULL) {
        end = word + strcspn(word, ",");
        text_add(out, "%s\"%.*s\"", word > list ? ", " : "", (int)(end - word), word);
    }
    text_add(out, "]");
}

const char *emit_half(const emit_request *q) { return q->subject->hardware->no_bf16 ? "fp16" : "bf16"; }

status emit_optimizer(const emit_request *q, const char **name) {
    const torch_settings *s = &q->settings->torch;
    bool codes = s->state_bits == 8;
    *name = NULL;
    if (s->optimizer == OPTIMIZER_ADAMW)
        *name = codes ? "adamw_bnb_8bit" : s->update == TORCH_FUSED ? "adamw_torch_fused" : "adamw_torch";
    if (s->optimizer == OPTIMIZER_LION) *name = codes ? "lion_8bit" : "lion_32bit";
    if (s->optimizer == OPTIMIZER_SGD && !codes) *name = "sgd";
    if (s->optimizer == OPTIMIZER_ADAFACTOR && !codes) *name = "adafactor";
    if (*name) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--optimizer-bits 8: transformers has 8 bits for adamw and lion only; leave it out");
}

int emit_zero_stage(torch_shard s) {
    return s == TORCH_ZERO1 ? 1 : s == TORCH_ZERO2 ? 2 : s == TORCH_ZERO3 ? 3 : 0;
}
