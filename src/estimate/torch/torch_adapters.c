#include "estimate/torch/torch_adapters.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* The part of a parameter's name before ".weight": "q_proj" of "model.layers.0.self_attn.q_proj.weight". */
static size_t module_of(const char *weight, const char **begin) {
    size_t length = strlen(weight),
           end = length > 7 && !strcmp(weight + length - 7, ".weight") ? length - 7 : length;
    size_t from = end;
    while (from > 0 && weight[from - 1] != '.') from--;
    *begin = weight + from;
    return end - from;
}

bool torch_is_target(const torch_settings *s, const char *weight, bool in_block) {
    const char *module, *list = s->adapter_targets;
    if (!s->adapter_rank) return false;
    if (!list) return in_block;
    size_t length = module_of(weight, &module);
    while (*list) {
        size_t item = strcspn(list, ",");
        if (item == length && strncmp(list, module, item) == 0) return true;
        list += item + (list[item] == ',');
    }
    return false;
}

/* Queries, keys and values have names of their own in litgpt, whose product of all three has one name. */
static bool is_part(const torch_settings *s) {
    static const char *const parts[] = { "q_proj.weight", "k_proj.weight", "v_proj.weight" };
    bool found = false;
    for (size_t i = 0; s->litgpt && i < sizeof parts / sizeof *parts; i++)
        found |= torch_is_target(s, parts[i], true);
    return found;
}

/* Adds the module's name behind `from`, unless it is among those there. */
static void add_module(text *names, const char *weight) {
    char name[128];
    const char *begin;
    int length = (int)module_of(weight, &begin);
    snprintf(name, sizeof name, ", %.*s,", length, begin);
    if (names->data && strstr(names->data, name)) return;
    text_add(names, "%s%.*s,", names->data ? " " : ", ", length, begin);
}

status torch_no_target(const graph *g, const torch_settings *s, const bool *in_block) {
    text names = { 0 };
    if (!s->adapter_targets || is_part(s)) return STATUS_OK;
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (in_block[t] && graph_shape(g, t)->rank == 2 && graph_tensor(g, t)->role == ROLE_PARAMETER)
            add_module(&names, graph_name(g, t));
    int length = names.data ? (int)strlen(names.data) - 3 : 0;
    status result = status_set(STATUS_INVALID,
                               "--adapter-targets %s: the model has no module of that name; its blocks "
                               "have %.*s",
                               s->adapter_targets, length, length ? names.data + 2 : "");
    text_close(&names);
    return result;
}

/* 4 bits in blocks of 64 with a scale each: of f32, or of 8 bits and one of f32 for 256 of those (QLoRA,
 * arXiv:2305.14314). Scales belong to bitsandbytes' quant_state, which is no parameter: nobody shares it out.
 */
double torch_scales_width(const torch_settings *s) {
    return s->plain_scales ? 4.0 / 64 : 1.0 / 64 + 4.0 / (64 * 256);
}
double torch_code_width(const torch_settings *s) { return 0.5 + torch_scales_width(s); }

/* PEFT makes them f32 whatever the base is in. Older ones were in the type that weights of the base are kept
 * in: codes of 4 bits are bytes, which is no type for them, so these were f32; but FSDP has codes kept as
 * numbers of 16 bits. litgpt's are of the base's type. */
double torch_adapter_width(const torch_settings *s) {
    bool bytes = s->base_bits == 4 && s->shard != TORCH_FSDP;
    return s->types == TORCH_HALF && (s->litgpt || (s->older && !bytes)) ? 2 : 4;
}

tape_value torch_adapter_weight(torch_reading *r, int64_t elements) {
    tape_item w = {
        .elements = elements, .width = torch_adapter_width(r->s), .term = TAPE_WEIGHTS, .wants = true
    };
    return tape_add_source(r->t, &w);
}

tape_value torch_adapted(torch_reading *r, tape_value x, tape_value y, int64_t inner, int64_t out) {
    int64_t rank = r->s->adapter_rank;
    tape_value down = torch_adapter_weight(r, rank * inner), up = torch_adapter_weight(r, rank * out);
    /* Those beside 4 bits leave it to autocast, without which older f32 ones could not be trained in f16. */
    bool coded = r->s->base_bits == 4, left = coded && (r->s->types == TORCH_AUTOCAST || r->s->older);
    if (left)
        down = torch_weight_to(r, down, 2), up = torch_weight_to(r, up, 2);
    else if (!r->s->litgpt) /* which has no cast of its own there */
        x = torch_to(r, x, torch_adapter_width(r->s));
    x = torch_drop(r, x, r->s->adapter_dropout);
    tape_value h = torch_linear(r, x, down, 0, rank);
    tape_value added = torch_scale(r, torch_linear(r, h, up, 0, out));
    return torch_to(r, torch_sum(r, y, added), torch_width(r, y));
}

/* PEFT's lora.Embedding: rows of one table of rank numbers each, times a matrix; no dropout, and in the
 * adapter's type until the sum. */
tape_value torch_adapted_rows(torch_reading *r, tape_value ids, tape_value y, int64_t rows, int64_t width) {
    int64_t rank = r->s->adapter_rank, count = torch_elements(r, y) / width;
    tape_value table = torch_adapter_weight(r, rank * rows), up = torch_adapter_weight(r, rank * width);
    tape_value h = torch_call(r, (tape_call){ .what = "embedding", .in = { table, ids }, .keeps_in = 2 },
                              rank * count, torch_adapter_width(r->s));
    tape_value added = torch_scale(r, torch_linear(r, h, up, 0, width));
    return torch_to(r, torch_sum(r, y, added), torch_width(r, y));
}
