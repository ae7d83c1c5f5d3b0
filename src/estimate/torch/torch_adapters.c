#include "estimate/torch/torch_adapters.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "estimate/torch/torch_sums.h"

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

int64_t torch_magnitudes(const graph *g, tensor_id weight) {
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 1; i < n->in_count; i++)
            if (node_in(g, n, i) == weight) return shape_last(graph_shape(g, node_out(g, n, 0)));
    }
    return 0;
}

/* a row of numbers times each row of y, both trained through: it keeps both, and the gradient of the row is
 * summed from a product as large as y. */
static tape_value times_rows(torch_reading *r, tape_value row, tape_value y, int64_t columns) {
    int64_t n = torch_elements(r, y);
    double width = torch_width(r, y) > torch_width(r, row) ? torch_width(r, y) : torch_width(r, row);
    uint64_t product = (uint64_t)((double)n * width), sum = torch_sum_buffer(r->s, n / columns, columns);
    tape_call call = { .what = "mul",
                       .in = { row, y },
                       .keeps_in = torch_wants(r, y) ? 3u : 2u,
                       .backward = sum ? 0 : product,
                       .summand = sum ? product : 0,
                       .sum = sum };
    return torch_call(r, call, n, width);
}

/* What the norm of the changed weight is taken of: the weight in x's type, a unit matrix, what A and B make
 * of it. They have a graph of their own, which nobody differentiates, and go as the module returns. */
typedef struct {
    tape_value weight, made, norm;
} changed_weight;

static changed_weight change_weight(torch_reading *r, const torch_product *p, double width) {
    bool casts = r->s->types == TORCH_AUTOCAST;
    double in = (double)p->inner, all = in * (double)p->out, low = in * (double)r->s->adapter_rank;
    double own = torch_adapter_width(r->s), product = casts ? 2 : own;
    double made = in * in * product + low * product + all * width;
    double moment = (casts ? in * in * own : 0) + (width != product ? all * product : 0);
    changed_weight c = { .weight = torch_to(r, p->weight, width) };
    c.made = torch_call(r, (tape_call){ .what = "eye", .forward = (uint64_t)moment }, (int64_t)made, 1);
    c.norm = torch_call(
        r, (tape_call){ .what = "norm", .in = { c.weight, c.made }, .forward = (uint64_t)(2 * all * width) },
        p->out, width);
    tape_at(r->t, c.norm)->wants = false;
    return c;
}

/* DoRA (arXiv:2402.09353) as PEFT 0.21 writes it (tuners/lora/dora.py): y + (m / |W + BA| - 1) * base +
 * m / |W + BA| * B(A(x)) * scaling, where base is y without its bias, or with dropout another product. */
static tape_value with_magnitudes(torch_reading *r, const torch_product *p, tape_value x, tape_value y,
                                  tape_value down, tape_value up) {
    int64_t rank = r->s->adapter_rank;
    bool drops = r->s->adapter_dropout > 0;
    tape_value magnitude = torch_adapter_weight(r, p->out), base = y;
    x = torch_drop(r, x, r->s->adapter_dropout);
    changed_weight c = change_weight(r, p, torch_width(r, x));
    tape_value scale = torch_call(r, (tape_call){ .what = "div", .in = { magnitude, c.norm }, .keeps_in = 2 },
                                  p->out, torch_width(r, magnitude));
    tape_value added = torch_linear(r, torch_linear(r, x, down, 0, rank), up, 0, p->out);
    if (drops)
        base = torch_linear(r, x, c.weight, 0, p->out);
    else if (p->bias)
        base = torch_sum(r, y, p->bias);
    tape_value less = torch_sum(r, scale, 0), first = times_rows(r, less, base, p->out);
    tape_value second = torch_scale(r, times_rows(r, scale, added, p->out));
    tape_value both = torch_sum(r, first, second);
    tape_call last = { .what = "add", .in = { y, both, c.made, c.weight }, .passes = true };
    return torch_call(r, last, torch_elements(r, y), torch_width(r, both));
}

tape_value torch_adapted(torch_reading *r, const torch_product *p, tape_value y) {
    int64_t rank = r->s->adapter_rank;
    tape_value x = p->x;
    tape_value down = torch_adapter_weight(r, rank * p->inner), up = torch_adapter_weight(r, rank * p->out);
    if (r->s->pass.bare) return y;
    /* Those beside 4 bits leave it to autocast, without which older f32 ones could not be trained in f16. */
    bool coded = r->s->base_bits == 4, left = coded && (r->s->types == TORCH_AUTOCAST || r->s->older);
    if (left)
        down = torch_weight_to(r, down, 2), up = torch_weight_to(r, up, 2);
    else if (!r->s->litgpt) /* which has no cast of its own there */
        x = torch_to(r, x, torch_adapter_width(r->s));
    if (r->s->magnitudes) return torch_to(r, with_magnitudes(r, p, x, y, down, up), torch_width(r, y));
    x = torch_drop(r, x, r->s->adapter_dropout);
    tape_value h = torch_linear(r, x, down, 0, rank);
    tape_value added = torch_scale(r, torch_linear(r, h, up, 0, p->out));
    return torch_to(r, torch_sum(r, y, added), torch_width(r, y));
}

/* PEFT's lora.Embedding: rows of one table of rank numbers each, times a matrix; no dropout, and in the
 * adapter's type until the sum. */
tape_value torch_adapted_rows(torch_reading *r, tape_value ids, tape_value y, int64_t rows, int64_t width) {
    int64_t rank = r->s->adapter_rank, count = torch_elements(r, y) / width;
    if (r->s->magnitudes) { /* the reading ends with this node */
        r->t->failed =
            status_set(STATUS_INVALID, "--use-dora beside the table of tokens has no rule; name other "
                                       "modules with --adapter-targets");
        return y;
    }
    tape_value table = torch_adapter_weight(r, rank * rows), up = torch_adapter_weight(r, rank * width);
    if (r->s->pass.bare) return y;
    tape_value h = torch_call(r, (tape_call){ .what = "embedding", .in = { table, ids }, .keeps_in = 2 },
                              rank * count, torch_adapter_width(r->s));
    tape_value added = torch_scale(r, torch_linear(r, h, up, 0, width));
    return torch_to(r, torch_sum(r, y, added), torch_width(r, y));
}
