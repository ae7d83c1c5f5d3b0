#include "estimate/torch.h"

#include <math.h>

#include "base/memory.h"
#include "estimate/allocator.h"
#include "estimate/torch_calls.h"
#include "ir/op.h"

/* ---- weights ---- */

static bool is_weight(const tensor *x) { return x->role == ROLE_PARAMETER && !x->producer; }

/* Matrices of blocks are what adapters stand beside and what is quantized. */
static bool is_trained(const torch_settings *s, const tensor *x) {
    return !s->adapter_rank && (x->flags & TENSOR_TRAINABLE);
}

/* 4 bits in blocks of 64 with a scale of 8 bits each, and one of f32 for 256 of those (QLoRA,
 * arXiv:2305.14314). */
static double coded_width(void) { return 0.5 + 1.0 / 64 + 4.0 / (64 * 256); }

static double weight_width(const graph *g, const torch_settings *s, tensor_id t, const bool *in_block) {
    if (s->adapter_rank && s->base_bits == 4)
        return in_block[t] && graph_shape(g, t)->rank > 1 ? coded_width() : 4;
    if (s->adapter_rank && s->base_bits == 16) return 2;
    return s->types == TORCH_HALF ? 2 : 4;
}

static void note_blocks(const graph *g, bool *in_block) {
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->in_count; i++) in_block[node_in(g, n, i)] |= n->site >= 0;
    }
}

/* Token ids are int64 there, and the loss makes two shifted copies of the labels. */
static void add_sources(torch_reading *r, const bool *in_block) {
    for (tensor_id t = 1; t < r->g->tensors.count; t++) {
        const tensor *x = graph_tensor(r->g, t);
        int64_t n = shape_elements(&x->shape);
        if (is_weight(x))
            r->map[t] = tape_add_source(r->t, &(tape_item){ .elements = n,
                                                            .width = weight_width(r->g, r->s, t, in_block),
                                                            .term = TAPE_WEIGHTS,
                                                            .wants = is_trained(r->s, x) });
        else if (!x->producer && x->role == ROLE_INPUT && x->dtype == DTYPE_I32 && x->shape.rank == 2)
            r->map[t] = tape_add_source(r->t, &(tape_item){ .elements = n, .width = 8, .term = TAPE_INPUTS });
    }
}

/* ---- the calls ---- */

const torch_rule *torch_rule_of(const op_def *which) {
    const torch_rule *const rooms[] = { torch_rules, torch_rules_experts };
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        for (const torch_rule *rule = rooms[i]; rule->of; rule++)
            if (rule->of == which) return rule;
    return NULL;
}

static status read_nodes(torch_reading *r) {
    r->site = SITE_NONE;
    for (node_id id = 1; id < r->g->nodes.count; id++) torch_make_masks(r, graph_node(r->g, id));
    for (node_id id = 1; id < r->g->nodes.count; id++) {
        const node *n = graph_node(r->g, id);
        const torch_rule *rule = torch_rule_of(n->op);
        if (!rule) return status_set(STATUS_INVALID, "no rule says what PyTorch does for %s", n->op->name);
        r->site = n->site;
        rule->read(r, n);
    }
    return r->t->failed;
}

status torch_read(const graph *g, const torch_settings *s, tape *t) {
    torch_reading r = { .g = g, .s = s, .t = t, .cast_room = g->tensors.count + 1 };
    bool *in_block = memory_new(g->tensors.count, sizeof *in_block);
    r.map = memory_new(g->tensors.count, sizeof *r.map);
    r.cast = memory_new(r.cast_room, sizeof *r.cast);
    status result = STATUS_OK;
    if (in_block && r.map && r.cast) {
        note_blocks(g, in_block);
        add_sources(&r, in_block);
        result = read_nodes(&r);
    } else {
        result = status_set(STATUS_FAILED, "no memory to estimate");
    }
    memory_free(in_block);
    memory_free(r.map);
    memory_free(r.cast);
    return result;
}

/* ---- the optimizer ---- */

typedef struct {
    double elements, coded, largest, rows; /* of trained weights; in blocks of 8 bits; rows and columns */
    double width;
} trained;

static void count_one(const torch_settings *s, const shape *x, trained *c) {
    double n = (double)shape_elements(x);
    c->elements += n;
    if (s->state_bits == 8 && n >= 4096) c->coded += n; /* small ones stay f32 */
    if (n > c->largest) c->largest = n;
    c->rows += x->rank > 1 ? (double)(shape_rows(x) + shape_last(x)) : n;
}

/* Adapters beside every matrix of the blocks, by the products of the graph. */
static void count_adapters(const graph *g, const torch_settings *s, const bool *in_block, trained *c) {
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const shape *x = graph_shape(g, t);
        if (!is_weight(graph_tensor(g, t)) || !in_block[t] || x->rank < 2) continue;
        count_one(s, &SHAPE(s->adapter_rank, x->dim[0]), c);
        count_one(s, &SHAPE(s->adapter_rank, x->dim[1]), c);
    }
}

static trained count_trained(const graph *g, const torch_settings *s) {
    trained c = { .width = s->types == TORCH_HALF && !(s->adapter_rank && s->base_bits == 4) ? 2 : 4 };
    bool *in_block = memory_new(g->tensors.count, sizeof *in_block);
    if (!in_block) return c;
    note_blocks(g, in_block);
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (is_weight(graph_tensor(g, t)) && is_trained(s, graph_tensor(g, t)))
            count_one(s, graph_shape(g, t), &c);
    if (s->adapter_rank) count_adapters(g, s, in_block, &c);
    memory_free(in_block);
    return c;
}

static int moments_of(const torch_settings *s) {
    if (s->optimizer == OPTIMIZER_ADAMW) return 2;
    if (s->optimizer == OPTIMIZER_LION) return 1;
    return s->optimizer == OPTIMIZER_SGD && s->momentum > 0 ? 1 : 0;
}

uint64_t torch_state_bytes(const graph *g, const torch_settings *s) {
    trained c = count_trained(g, s);
    if (s->optimizer == OPTIMIZER_ADAFACTOR) return (uint64_t)(c.rows * 4);
    double bytes = (c.elements - c.coded) * (s->state_bits == 8 ? 4 : c.width) + c.coded * (1 + 4.0 / 256);
    return (uint64_t)(bytes * moments_of(s));
}

/* foreach: the square roots of all second moments at once. One after the other: root and denominator of the
 * largest weight. Fused kernels and those of 8 bits need nothing. */
uint64_t torch_update_bytes(const graph *g, const torch_settings *s) {
    trained c = count_trained(g, s);
    if (s->state_bits == 8 || s->update == TORCH_FUSED) return 0;
    if (s->optimizer == OPTIMIZER_SGD) return 0;
    if (s->optimizer == OPTIMIZER_ADAMW && s->update == TORCH_FOREACH)
        return (uint64_t)(c.elements * c.width);
    return (uint64_t)(c.largest * c.width * 2);
}

/* ---- several devices ---- */

/* Bytes of the weights of the largest block, and of those outside of blocks, in the type that computes. */
static void units_of(const graph *g, const torch_settings *s, double *block, double *outside) {
    double width = s->types == TORCH_F32 ? 4 : 2;
    uint64_t *by_site = memory_new(4096, sizeof *by_site);
    *block = *outside = 0;
    for (node_id id = 1; by_site && id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->in_count; i++) {
            const tensor *x = graph_tensor(g, node_in(g, n, i));
            if (!is_weight(x)) continue;
            double bytes = (double)shape_elements(&x->shape) * width;
            if (n->site < 0 || n->site >= 4096) {
                *outside += bytes;
            } else {
                by_site[n->site] += (uint64_t)bytes;
                *block = fmax(*block, (double)by_site[n->site]);
            }
        }
    }
    memory_free(by_site);
}

/* Each rank keeps its share; what is whole for a while are gradients on their way (a bucket), or, where
 * weights are shared out, two blocks' weights (one computes, one is on its way) and those outside of blocks.
 */
static void share_out(const graph *g, const torch_settings *s, torch_result *r) {
    double n = (double)s->gpus, block, outside;
    uint64_t *b = r->by_term;
    if (s->gpus < 2 || s->shard == TORCH_ALONE) return;
    units_of(g, s, &block, &outside);
    double state = (double)b[TAPE_OPTIMIZER], gradients = (double)b[TAPE_GRADIENTS],
           weights = (double)b[TAPE_WEIGHTS], more = 0;
    if (s->shard == TORCH_DDP) more = gradients; /* the buckets that are sent */
    if (s->shard >= TORCH_ZERO1) state /= n;
    if (s->shard >= TORCH_ZERO2) gradients = gradients / n + block;
    if (s->shard >= TORCH_ZERO3) weights /= n, more = 2 * block + outside;
    b[TAPE_OPTIMIZER] = (uint64_t)state, b[TAPE_GRADIENTS] = (uint64_t)gradients;
    b[TAPE_WEIGHTS] = (uint64_t)weights, b[TAPE_TEMPORARIES] += (uint64_t)more;
}

/* ---- the whole ---- */

/* Rules are of certain versions: a few percent lie between those. What the allocator loses by splitting
 * depends on the order of the calls. */
static void intervals(const torch_settings *s, torch_result *r, uint64_t live, uint64_t held) {
    double whole = 0, spread = s->gpus > 1 ? 0.08 : 0.03, lost = live ? (double)held / (double)live : 1;
    for (int t = 0; t < TAPE_TERMS; t++) whole += (double)r->by_term[t];
    r->live =
        (interval){ (uint64_t)(whole * (1 - spread / 2)), (uint64_t)whole, (uint64_t)(whole * (1 + spread)) };
    double reserved = whole * fmax(lost, 1);
    r->reserved = (interval){ (uint64_t)fmax(whole, reserved * (1 - spread)), (uint64_t)reserved,
                              (uint64_t)(reserved * (1.02 + spread)) };
}

static status play(const graph *g, const torch_settings *s, const tape *t, torch_result *r) {
    allocator a;
    tape_result played;
    TRY(allocator_open(&a));
    tape_listener listener = { allocator_take, allocator_give, &a };
    tape_settings how = { .checkpointing = s->checkpointing,
                          .optimizer_bytes = torch_state_bytes(g, s),
                          .update_bytes = torch_update_bytes(g, s),
                          .listener = s->cuda ? &listener : NULL };
    status result = tape_play(t, &how, &played);
    if (result == STATUS_OK && a.failed) result = status_set(STATUS_FAILED, "no memory to estimate");
    r->peak_in = played.peak_in;
    for (int k = 0; k < TAPE_TERMS; k++) r->by_term[k] = played.at_peak[k];
    share_out(g, s, r);
    intervals(s, r, played.peak, s->cuda ? a.reserved : played.peak);
    allocator_close(&a);
    return result;
}

static void count_parameters(const graph *g, const torch_settings *s, torch_result *r) {
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (is_weight(graph_tensor(g, t))) r->parameters += (uint64_t)shape_elements(graph_shape(g, t));
    r->trained = (uint64_t)count_trained(g, s).elements;
    if (s->adapter_rank) r->parameters += r->trained;
}

status torch_estimate(const model *m, const torch_settings *s, torch_result *r) {
    graph g;
    tape t;
    model_ports ports = { 0 };
    *r = (torch_result){ 0 };
    TRY(graph_open(&g));
    m->build(m, &g, &(model_run){ .mode = MODEL_TRAIN, .batch = s->batch, .context = s->context }, &ports);
    status result = graph_status(&g);
    if (result == STATUS_OK) result = tape_open(&t);
    if (result == STATUS_OK) {
        result = torch_read(&g, s, &t);
        if (result == STATUS_OK) result = play(&g, s, &t, r);
        tape_close(&t);
    }
    count_parameters(&g, s, r);
    graph_close(&g);
    return result;
}
