/* llm.c, as a framework that is asked. Settings are PyTorch's: --dtype float32 is train_gpt2_fp32.cu
 * (train_gpt2.c with --device cpu), half train_gpt2.cu; --gradient-checkpointing -r 2, else -r 1; --attn
 * flash cuDNN's. */
#include <stdio.h>

#include "estimate/framework.h"
#include "estimate/llmc/llmc.h"

static llmc_settings settings_of(const torch_settings *s) {
    return (llmc_settings){ .program = s->types != TORCH_F32 ? LLMC_CUDA
                                       : s->cuda             ? LLMC_CUDA_F32
                                                             : LLMC_CPU,
                            .again = s->checkpointing ? 2 : 1,
                            .cudnn = s->attention == TORCH_FLASH,
                            .batch = s->batch,
                            .context = s->context };
}

static status check(const framework_subject *q, const framework_settings *settings) {
    const torch_settings *s = &settings->torch;
    if (q->config->family != FAMILY_GPT2)
        return status_set(STATUS_INVALID, "llm.c trains GPT-2, and %s is %s", q->model->name,
                          q->model->family);
    if (s->context > q->model->context)
        return status_set(STATUS_INVALID,
                          "--context %lld is longer than the %lld positions that %s has learned",
                          (long long)s->context, (long long)q->model->context, q->model->name);
    if (s->optimizer != OPTIMIZER_ADAMW)
        return status_set(STATUS_INVALID, "--optimizer: llm.c has adamw alone; leave it out");
    if (s->types != TORCH_F32 && !s->cuda)
        return status_set(STATUS_INVALID, "--dtype half: llm.c computes in f32 on a CPU");
    return STATUS_OK;
}

static status estimate(const framework_subject *q, const framework_settings *settings, framework_result *r) {
    llmc_bytes b;
    llmc_settings s = settings_of(&settings->torch);
    *r = (framework_result){ .terms_of = FRAMEWORK_LIVE, .last_layer = FRAMEWORK_DEVICE };
    TRY(llmc_read(q->model, &s, &b));
    framework_add_term(r, "weights", b.weights);
    framework_add_term(r, "gradients", b.gradients);
    framework_add_term(r, "optimizer", b.moments + b.masters);
    framework_add_term(r, "activations", b.activations);
    framework_add_term(r, "temporaries", b.activation_gradients);
    uint64_t all = b.weights + b.gradients + b.moments + b.masters + b.activations + b.activation_gradients;
    interval exact = { all, all, all };
    r->layers[FRAMEWORK_LIVE] = exact;
    r->parameters = r->trained = b.parameters;
    if (!q->hardware->memory) r->last_layer = FRAMEWORK_LIVE;
    framework_place(q, r, &exact);
    r->unknown[r->unknown_count++] =
        "validating, generating, saving and the host's memory have no rule for llm.c";
    return STATUS_OK;
}

static void describe(const framework_subject *q, const framework_settings *settings,
                     const framework_result *r, text *out) {
    static const char *const programs[] = { "train_gpt2.c", "train_gpt2_fp32.cu", "train_gpt2.cu" };
    llmc_settings s = settings_of(&settings->torch);
    (void)q;
    text_add(out, "%llu parameters, %lld x %lld tokens at once, %s", (unsigned long long)r->parameters,
             (long long)s.batch, (long long)s.context, programs[s.program]);
    if (s.program == LLMC_CUDA) text_add(out, " -r %d%s", s.again, s.cudnn ? " with cuDNN" : "");
    text_add(out, "\n");
}

static int64_t *variable(framework_settings *s, framework_variable v) {
    if (v == FRAMEWORK_BATCH) return &s->torch.batch;
    return v == FRAMEWORK_CONTEXT ? &s->torch.context : NULL;
}

static bool to_norms(const framework_subject *q, framework_settings *s, char *out) {
    (void)q;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--gradient-checkpointing");
    return s->torch.types != TORCH_F32 && !s->torch.checkpointing && (s->torch.checkpointing = true);
}

static bool to_smaller(const framework_subject *q, framework_settings *s, char *out) {
    (void)q;
    if (s->torch.batch < 2) return false;
    s->torch.batch = (s->torch.batch + 1) / 2;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--micro-batch %lld", (long long)s->torch.batch);
    return true;
}

static const framework_change changes[] = { { .apply = to_norms }, { .apply = to_smaller, .repeats = true } };

const framework framework_llmc = { "llm.c", "llm.c",  changes,  sizeof changes / sizeof *changes,
                                   check,   estimate, describe, variable,
                                   NULL };
