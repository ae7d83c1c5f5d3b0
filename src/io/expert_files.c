#include "io/expert_files.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

enum { NAME_BYTES = 160 };

static const char GATE_UP[] = ".mlp.experts.gate_up_proj", DOWN[] = ".mlp.experts.down_proj",
                  ROUTER[] = ".mlp.gate.weight";

typedef struct {
    const decoder_experts_names *names;
    expert_files *to;
} listing;

/* Length of what stands before `end`; 0: it does not end so. */
static int layer_of(const char *name, const char *end) {
    return text_ends_with(name, end) ? (int)(strlen(name) - strlen(end)) : 0;
}

/* Matrices of an expert that a weight holds: gate and up, or down; 0: it is none of experts. */
static int64_t of_expert(const model_weight *w) {
    bool plain = w->type == DTYPE_F32 || dtype_is_half(w->type);
    if (w->shape.rank != 3 || !plain) return 0;
    return layer_of(w->name, GATE_UP) ? 2 : layer_of(w->name, DOWN) ? 1 : 0;
}

/* The next of the list, under a name that the caller writes. */
static char *add(listing *l, const model_weight *w) {
    expert_files *x = l->to;
    char *name = x->names + (size_t)x->count * NAME_BYTES;
    x->made[x->count] = *w;
    x->made[x->count++].name = name;
    return name;
}

static void add_matrices(listing *l, const model_weight *w) {
    int64_t each = of_expert(w), matrices = w->shape.dim[0] * each;
    int layer = layer_of(w->name, each == 2 ? GATE_UP : DOWN);
    model_weight one = *w;
    one.shape = SHAPE(w->shape.dim[1] / each, w->shape.dim[2]);
    for (int64_t i = 0; i < matrices; i++) {
        const char *purpose = each == 1 ? l->names->down : i % 2 ? l->names->up : l->names->gate;
        uint64_t at = (uint64_t)i * weight_bytes(&one);
        one.data = w->data ? (char *)w->data + at : NULL;
        one.first = w->first + at;
        snprintf(add(l, &one), NAME_BYTES, "%.*s.%s.experts.%lld.%s.weight", layer, w->name, l->names->half,
                 (long long)(i / each), purpose);
    }
}

static void add_one(listing *l, const model_weight *w) {
    int layer = layer_of(w->name, ROUTER);
    if (layer)
        snprintf(add(l, w), NAME_BYTES, "%.*s.%s.gate.weight", layer, w->name, l->names->half);
    else
        l->to->made[l->to->count++] = *w;
}

uint64_t expert_files_count(const model_weight *weights, uint32_t count) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t each = of_expert(&weights[i]);
        all += each ? (uint64_t)(weights[i].shape.dim[0] * each) : 1;
    }
    return all;
}

/* Names that are cut short could be equal. */
static status check_names(const model_weight *weights, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (of_expert(&weights[i]) && strlen(weights[i].name) > NAME_BYTES / 2)
            return status_set(STATUS_INVALID, "the name '%.80s...' is too long", weights[i].name);
    return STATUS_OK;
}

status expert_files_list(const decoder_experts_names *names, const model_weight *weights, uint32_t count,
                         expert_files *x) {
    uint64_t all = expert_files_count(weights, count);
    *x = (expert_files){ .weights = weights, .count = count };
    if (!names || all == count) return STATUS_OK;
    TRY(check_names(weights, count));
    if (all >= UINT32_MAX)
        return status_set(STATUS_INVALID, "%llu tensors are too many for a file", (unsigned long long)all);
    x->made = memory_new((size_t)all + 1, sizeof *x->made);
    x->names = memory_new((size_t)all + 1, NAME_BYTES);
    if (!x->made || !x->names) {
        expert_files_close(x);
        return status_set(STATUS_FAILED, "no memory to list the weights of experts");
    }
    x->weights = x->made, x->count = 0;
    for (uint32_t i = 0; i < count; i++)
        (of_expert(&weights[i]) ? add_matrices : add_one)(&(listing){ names, x }, &weights[i]);
    return STATUS_OK;
}

void expert_files_close(expert_files *x) {
    memory_free(x->made);
    memory_free(x->names);
    *x = (expert_files){ 0 };
}

const decoder_experts_names *expert_files_names(const safetensors *s) {
    static const decoder_experts_names *const known[] = { &decoder_experts_named, &decoder_experts_numbered };
    char part[32];
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        snprintf(part, sizeof part, ".%s.experts.0.", known[k]->half);
        for (uint32_t i = 0; i < s->count; i++)
            if (strstr(s->entries[i].name, part)) return known[k];
    }
    return NULL;
}
