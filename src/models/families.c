#include "models/families.h"

#include <stdio.h>
#include <string.h>

bool families_preset(const char *name, model_config *c) {
    *c = (model_config){ .family = FAMILY_GPT2 };
    return gpt2_preset(name, &c->gpt2);
}

const char *families_preset_names(void) { return gpt2_preset_names(); }

static status check_family(const model_config *c) {
    switch (c->family) {
    case FAMILY_GPT2: return gpt2_check(&c->gpt2);
    case FAMILY_DECODER: return decoder_check(&c->decoder);
    case FAMILY_VIT: return vit_check(&c->vit);
    case FAMILY_RESNET: return resnet_check(&c->resnet);
    case FAMILY_CONVNEXT: return convnext_check(&c->convnext);
    case FAMILY_ENCODER: return encoder_check(&c->encoder);
    case FAMILY_MODERNBERT: return modernbert_check(&c->modernbert);
    case FAMILY_T5: return t5_check(&c->t5);
    }
    return status_set(STATUS_INVALID, "a model of no family");
}

status families_check(const model_config *c) {
    TRY(check_family(c));
    if (c->head.kind != HEAD_LANGUAGE && !families_images(c) && families_padding(c) >= families_vocabulary(c))
        return status_set(STATUS_INVALID, "pad_token_id is %lld, and vocab_size %lld; it must be below that",
                          (long long)families_padding(c), (long long)families_vocabulary(c));
    return head_check(&c->head);
}

void families_set_dropout(model_config *c, double p) {
    switch (c->family) {
    case FAMILY_GPT2:
        c->gpt2.dropout_embedding = c->gpt2.dropout_attention = c->gpt2.dropout_residual = p;
        return;
    case FAMILY_DECODER:
        c->decoder.dropout_embedding = c->decoder.dropout_attention = c->decoder.dropout_residual = p;
        return;
    case FAMILY_VIT: c->vit.dropout_hidden = c->vit.dropout_attention = p; return;
    case FAMILY_RESNET:
    case FAMILY_CONVNEXT: return; /* they have none */
    case FAMILY_ENCODER:
        c->encoder.dropout = c->encoder.dropout_attention = c->encoder.dropout_head = p;
        return;
    case FAMILY_MODERNBERT:
        c->modernbert.dropout_embedding = c->modernbert.dropout_attention = p;
        c->modernbert.dropout_feed = c->modernbert.dropout_head = p;
        return;
    case FAMILY_T5: c->t5.dropout = p; return;
    }
}

/* ---- heads that judge whole samples ---- */

/* The class that the family's own head has. */
static const char *language_class(const model_config *c) {
    switch (c->family) {
    case FAMILY_GPT2: return "GPT2LMHeadModel";
    case FAMILY_DECODER: return c->decoder.kind->architecture;
    case FAMILY_ENCODER: return c->encoder.kind->architecture;
    case FAMILY_MODERNBERT: return "ModernBertForMaskedLM";
    default: return "";
    }
}

bool families_judges(const model_config *c) {
    bool unjudged = (c->family == FAMILY_DECODER && c->decoder.kind->unjudged) ||
                    (c->family == FAMILY_MODERNBERT && c->modernbert.judges_mean);
    return *language_class(c) && !unjudged;
}

const char *families_class(const model_config *c, char out[FAMILIES_CLASS_BYTES]) {
    const char *name = language_class(c), *end = strstr(name, "For");
    int stem = c->family == FAMILY_GPT2 ? (int)strlen("GPT2") : end ? (int)(end - name) : 0;
    if (c->head.kind == HEAD_LANGUAGE || !*name)
        snprintf(out, FAMILIES_CLASS_BYTES, "%s", name);
    else
        snprintf(out, FAMILIES_CLASS_BYTES, "%.*sForSequenceClassification", stem, name);
    return out;
}

int64_t families_padding(const model_config *c) {
    if (c->family == FAMILY_ENCODER) return c->encoder.padding;
    if (c->family == FAMILY_MODERNBERT) return c->modernbert.padding;
    if (c->tokens.has_padding) return c->tokens.padding;
    if (c->tokens.ends) return c->tokens.end[0];
    return c->family == FAMILY_GPT2 && c->gpt2.vocabulary == 50257 ? 50256 : 0; /* its own end of text */
}

static void open_model(const model_config *c, const char *name, model *m) {
    switch (c->family) {
    case FAMILY_GPT2: gpt2_model(&c->gpt2, name, m); return;
    case FAMILY_DECODER: decoder_model(&c->decoder, name, m); return;
    case FAMILY_VIT: vit_model(&c->vit, name, m); return;
    case FAMILY_RESNET: resnet_model(&c->resnet, name, m); return;
    case FAMILY_CONVNEXT: convnext_model(&c->convnext, name, m); return;
    case FAMILY_ENCODER: encoder_model(&c->encoder, name, m); return;
    case FAMILY_MODERNBERT: modernbert_model(&c->modernbert, name, m); return;
    case FAMILY_T5: t5_model(&c->t5, name, m); return;
    }
}

void families_model(const model_config *c, const char *name, model *m) {
    open_model(c, name, m);
    head_attach(m, &c->head);
}

int64_t families_context(const model_config *c) {
    model m;
    families_model(c, "", &m);
    return m.context;
}

/* What GPT-2's own vocabulary says by its size has to be said then. */
void families_grow_vocabulary(model_config *c, int64_t size) {
    families_tokens *t = &c->tokens;
    if (families_vocabulary(c) == 50257 && !t->has_begin && !t->ends)
        t->has_begin = true, t->begin = 50256, t->ends = 1, t->end[0] = 50256;
    switch (c->family) {
    case FAMILY_GPT2: c->gpt2.vocabulary = size; return;
    case FAMILY_DECODER: c->decoder.vocabulary = size; return;
    case FAMILY_ENCODER: c->encoder.vocabulary = size; return;
    case FAMILY_MODERNBERT: c->modernbert.vocabulary = size; return;
    case FAMILY_T5: c->t5.vocabulary = size; return;
    case FAMILY_VIT:
    case FAMILY_RESNET:
    case FAMILY_CONVNEXT: return; /* they have none */
    }
}

bool families_has_conv1d(const model_config *c) { return c->family == FAMILY_GPT2; }

bool families_learns_positions(const model_config *c) {
    return c->family == FAMILY_GPT2 || c->family == FAMILY_ENCODER;
}

int64_t families_width(const model_config *c) {
    return c->family == FAMILY_GPT2         ? c->gpt2.channels
           : c->family == FAMILY_DECODER    ? c->decoder.channels
           : c->family == FAMILY_ENCODER    ? c->encoder.channels
           : c->family == FAMILY_MODERNBERT ? c->modernbert.channels
                                            : 0;
}

int64_t families_vocabulary(const model_config *c) {
    model m;
    families_model(c, "", &m);
    return m.vocabulary;
}

const char *families_types(char names[FAMILIES_NAMES_BYTES]) {
    int n = snprintf(names, FAMILIES_NAMES_BYTES, "gpt2");
    for (const decoder_kind *k = decoder_kinds; k->type; k++)
        if (decoder_kind_find(k->type) == k)
            n += snprintf(names + n, (size_t)(FAMILIES_NAMES_BYTES - n), ", %s", k->type);
    for (const encoder_kind *k = encoder_kinds; k->type; k++)
        n += snprintf(names + n, (size_t)(FAMILIES_NAMES_BYTES - n), ", %s", k->type);
    n += snprintf(names + n, (size_t)(FAMILIES_NAMES_BYTES - n), ", modernbert");
    for (int i = 0; t5_types[i]; i++)
        n += snprintf(names + n, (size_t)(FAMILIES_NAMES_BYTES - n), ", %s", t5_types[i]);
    snprintf(names + n, (size_t)(FAMILIES_NAMES_BYTES - n),
             ", vit, dinov2, clip, clip_vision_model, resnet, convnext");
    return names;
}

const decoder_experts_names *families_experts(const model_config *c) {
    return c->family == FAMILY_DECODER && c->decoder.experts.count ? c->decoder.kind->experts->files : NULL;
}

int64_t families_expert_tensors(const model_config *c) {
    int64_t layers = 0;
    if (!families_experts(c)) return 0;
    for (int64_t i = 0; i < c->decoder.layers; i++) layers += decoder_experts_at(&c->decoder.experts, i);
    return layers * c->decoder.experts.count * 3;
}

/* ---- models that fill gaps ---- */

bool families_fills(const model_config *c) {
    return c->family == FAMILY_ENCODER || c->family == FAMILY_MODERNBERT;
}

int64_t *families_mask(model_config *c) {
    return c->family == FAMILY_ENCODER      ? &c->encoder.mask
           : c->family == FAMILY_MODERNBERT ? &c->modernbert.mask
                                            : NULL;
}

int64_t families_usual_mask(const model_config *c) {
    return c->family == FAMILY_ENCODER      ? encoder_usual_mask(c->encoder.kind, c->encoder.vocabulary)
           : c->family == FAMILY_MODERNBERT ? modernbert_usual_mask(c->modernbert.vocabulary)
                                            : 0;
}

int64_t families_token_labels(const model_config *c) {
    return c->family == FAMILY_ENCODER      ? c->encoder.labels
           : c->family == FAMILY_MODERNBERT ? c->modernbert.labels
                                            : 0;
}

void families_set_token_labels(model_config *c, int64_t labels) {
    *(c->family == FAMILY_MODERNBERT ? &c->modernbert.labels : &c->encoder.labels) = labels;
}

/* ---- models that see images ---- */

const images_task *families_images(const model_config *c) {
    switch (c->family) {
    case FAMILY_VIT: return &c->vit.task;
    case FAMILY_RESNET: return &c->resnet.task;
    case FAMILY_CONVNEXT: return &c->convnext.task;
    default: return NULL;
    }
}

static images_task *task_of(model_config *c) {
    return c->family == FAMILY_VIT      ? &c->vit.task
           : c->family == FAMILY_RESNET ? &c->resnet.task
                                        : &c->convnext.task;
}

bool families_takes_any_size(const model_config *c) {
    return c->family == FAMILY_RESNET || c->family == FAMILY_CONVNEXT;
}

bool families_projects(const model_config *c) { return c->family == FAMILY_VIT && c->vit.kind == VIT_CLIP; }

void families_set_images(model_config *c, int64_t height, int64_t width) {
    task_of(c)->height = height, task_of(c)->width = width;
}

void families_set_labels(model_config *c, int64_t labels) { task_of(c)->labels = labels; }
