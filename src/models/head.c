#include "models/head.h"

#include <stdio.h>
#include <string.h>

#include "ops/columns/columns.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/element_loss/element_loss.h"
#include "ops/hits/hits.h"
#include "ops/reshape/reshape.h"
#include "ops/token_at/token_at.h"

/* ---- what it is ---- */

status head_check(const model_head *h) {
    if (h->kind != HEAD_CLASSES || (h->outputs >= 2 && h->outputs <= HEAD_MOST_OUTPUTS)) return STATUS_OK;
    return status_set(STATUS_INVALID, "a head of %lld classes; there may be from 2 to %d",
                      (long long)h->outputs, HEAD_MOST_OUTPUTS);
}

const char *head_text(const model_head *h, char out[HEAD_TEXT_BYTES]) {
    if (h->kind == HEAD_CLASSES)
        snprintf(out, HEAD_TEXT_BYTES, "classes:%lld", (long long)h->outputs);
    else
        snprintf(out, HEAD_TEXT_BYTES, "%s", h->kind == HEAD_SCORE ? "score" : "language");
    return out;
}

/* Which of them it begins with; NULL: none. */
static const char *beginning(const char *name, const char *const *list) {
    for (; *list; list++)
        if (strncmp(name, *list, strlen(*list)) == 0) return *list;
    return NULL;
}

static const char *const judging[] = { "score.", "classifier.", "pre_classifier.", "bert.pooler.", NULL };

bool head_owns(const model *m, const char *parameter) {
    return m->head.kind != HEAD_LANGUAGE && beginning(parameter, judging) != NULL;
}

const char *head_module(const char *parameter, char out[HEAD_MODULE_BYTES]) {
    const char *begin = beginning(parameter, judging), *inner = begin ? strchr(begin, '.') + 1 : "";
    if (*inner) begin = inner;
    snprintf(out, HEAD_MODULE_BYTES, "%.*s", begin ? (int)strcspn(begin, ".") : 0, begin ? begin : "");
    return out;
}

bool head_is_language(const char *name) {
    static const char *const heads[] = { "lm_head.",         "embed_out.",        "cls.",
                                         "vocab_transform.", "vocab_layer_norm.", "vocab_projector.",
                                         "decoder.weight",   "decoder.bias",      NULL };
    return beginning(name, heads) != NULL;
}

bool head_replaces(const model *m, const char *name) {
    return m->head.kind != HEAD_LANGUAGE && head_is_language(name);
}

/* ---- samples ---- */

static uint32_t fields_of(const model *m, int64_t context, model_field out[MODEL_MAX_FIELDS]) {
    bool score = m->head.kind == HEAD_SCORE;
    out[0] = (model_field){ .name = "tokens", .of = SHAPE(context), .dtype = DTYPE_I32 };
    out[1] = (model_field){ .name = score ? "scores" : "labels", .dtype = score ? DTYPE_F32 : DTYPE_I32 };
    if (m->judged_first)
        out[2] = (model_field){ .name = "segments", .of = SHAPE(context), .dtype = DTYPE_I32 };
    else
        out[2] = (model_field){ .name = "place", .dtype = DTYPE_I32 };
    if (m->typed) out[3] = (model_field){ .name = "types", .of = SHAPE(context), .dtype = DTYPE_I32 };
    return m->typed ? 4 : 3;
}

void head_attach(model *m, const model_head *h) {
    m->head = *h;
    if (h->kind == HEAD_LANGUAGE || m->sees) return;
    m->masks = m->packs = false;
    m->reads_whole = false;
    m->no_text = h->kind == HEAD_SCORE ? "its head gives a text a score" : "its head tells classes of texts";
    m->fields = fields_of;
}

/* ---- for builders ---- */

tensor_id head_segments(graph *g, const model_run *run) {
    return model_input(g, "segments", SHAPE(run->batch, run->context), DTYPE_I32);
}

tensor_id head_first_token(graph *g, tensor_id x) {
    if (g->failed) return 0;
    shape s = *graph_shape(g, x);
    x = reshape_apply(g, x, SHAPE(s.dim[0], s.dim[1] * s.dim[2]));
    return columns_apply(g, x, &(columns_attributes){ .width = (int32_t)s.dim[2], .count = 1 });
}

tensor_id head_last_token(graph *g, tensor_id x, const model_run *run) {
    return token_at_apply(g, x, model_input(g, "place", SHAPE(run->batch), DTYPE_I32));
}

/* A head is small, and begins at random: adapters beside it would make little of it. */
static void train_as_a_whole(const model *m, graph *g) {
    for (tensor_id t = 1; t < g->tensors.count && !g->failed; t++) {
        tensor *x = graph_tensor(g, t);
        if (x->role == ROLE_PARAMETER && !x->producer && head_owns(m, graph_name(g, t)))
            x->flags |= TENSOR_WHOLE;
    }
}

/* Who validates counts the samples whose class is told right. */
void head_finish(const model *m, graph *g, tensor_id logits, const model_run *run, model_ports *ports) {
    bool score = m->head.kind == HEAD_SCORE;
    tensor_id wanted =
        model_input(g, score ? "scores" : "labels", SHAPE(run->batch), score ? DTYPE_F32 : DTYPE_I32);
    tensor_id scale = model_input(g, "loss_scale", SHAPE(1), DTYPE_F32), loss = model_result(g, "loss");
    ports->logits = logits;
    train_as_a_whole(m, g);
    if (run->mode == MODEL_EVALUATE && !score) {
        graph_keep(g, hits_apply(g, logits, wanted), "hits");
        graph_keep(g, model_shown(g, logits), "logits");
    }
    if (score) {
        const element_loss_attributes squared = { ELEMENT_LOSS_SQUARED, 1 };
        element_loss_inputs in = { reshape_apply(g, logits, SHAPE(run->batch)), wanted, scale, loss };
        ports->loss = element_loss_apply(g, &in, &squared);
    } else {
        ports->loss = cross_entropy_apply(g, logits, wanted, scale, loss);
    }
}
