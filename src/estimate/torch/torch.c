#include "estimate/torch/torch.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "estimate/torch/allocator.h"
#include "estimate/torch/torch_adapters.h"
#include "estimate/torch/torch_besides.h"
#include "estimate/torch/torch_grpo.h"
#include "estimate/torch/torch_state.h"
#include "estimate/torch/torch_versions.h"
#include "ir/op.h"

/* ---- weights ---- */

static bool is_weight(const tensor *x) { return x->role == ROLE_PARAMETER && !x->producer; }

/* Matrices of blocks are what adapters stand beside and what is quantized. */
static bool is_trained(const torch_settings *s, const tensor *x) {
    return !s->adapter_rank && (x->flags & TENSOR_TRAINABLE);
}

/* bitsandbytes codes linear modules: not convolutions, and not the experts that transformers 5 keeps as one
 * tensor (bitsandbytes#1849). */
static bool is_linear(const torch_settings *s, const shape *w) {
    return w->rank == 2 || (w->rank == 3 && s->transformers && s->older);
}

/* Which weights are coded: matrices of the blocks; in litgpt the head's as well. Others are prepared as f32,
 * unless all is of 16 bits. */
static double weight_width(const graph *g, const torch_settings *s, tensor_id t, const bool *in_block) {
    const char *name = graph_name(g, t);
    bool head = strstr(name, "head") || strstr(name, "embed_out"), coded = in_block[t] || (s->litgpt && head);
    if (s->adapter_rank && s->base_bits == 4 && coded && is_linear(s, graph_shape(g, t)))
        return torch_code_width(s);
    if (s->adapter_rank && s->base_bits == 4) return s->types == TORCH_HALF ? 2 : 4;
    if (s->adapter_rank && s->base_bits == 16 && !s->litgpt) return 2; /* which has one type for all */
    return s->types == TORCH_HALF ? 2 : 4;
}

static void note_blocks(const graph *g, bool *in_block) {
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->in_count; i++) in_block[node_in(g, n, i)] |= n->site >= 0;
    }
}

/* Token ids and classes are int64 there, and the loss makes two shifted copies of the labels. Running
 * averages are buffers, which weights of 16 bits take along. */
static void add_source(torch_reading *r, tensor_id t, const bool *in_block) {
    const tensor *x = graph_tensor(r->g, t);
    tape_item item = { .elements = shape_elements(&x->shape), .width = 4, .term = TAPE_INPUTS };
    bool whole = x->shape.rank == 2 || strcmp(graph_name(r->g, t), "labels") == 0;
    if (is_weight(x))
        item.width = weight_width(r->g, r->s, t, in_block), item.term = TAPE_WEIGHTS,
        item.whole = item.width < 1 ? torch_scales_width(r->s) : 0, item.wants = is_trained(r->s, x);
    else if (x->role == ROLE_STATE)
        item.width = r->s->types == TORCH_HALF ? 2 : 4, item.term = TAPE_WEIGHTS;
    else if (x->role == ROLE_INPUT && x->dtype == DTYPE_I32 && whole)
        item.width = 8;
    else if (x->role != ROLE_INPUT || x->shape.rank != 4)
        return;
    else if (r->s->types == TORCH_HALF && r->s->cuda)
        item.width = 2; /* pixels in the weights' type */
    r->map[t] = tape_add_source(r->t, &item);
}

static void add_sources(torch_reading *r, const bool *in_block) {
    for (tensor_id t = 1; t < r->g->tensors.count; t++)
        if (!graph_tensor(r->g, t)->producer) add_source(r, t, in_block);
}

/* ---- the calls ---- */

const torch_rule *torch_rule_of(const op_def *which) {
    const torch_rule *const rooms[] = { torch_rules, torch_rules_experts, torch_rules_images,
                                        torch_rules_distances };
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        for (const torch_rule *rule = rooms[i]; rule->of; rule++)
            if (rule->of == which) return rule;
    return NULL;
}

static const torch_rule *rule_of(const torch_reading *r, const op_def *which) {
    for (const torch_rule *rule = litgpt_rules; r->s->litgpt && rule->of; rule++)
        if (rule->of == which) return rule;
    return torch_rule_of(which);
}

static status read_nodes(torch_reading *r) {
    r->site = SITE_NONE;
    torch_look(r);
    for (node_id id = 1; id < r->g->nodes.count; id++) torch_make_masks(r, graph_node(r->g, id));
    for (node_id id = 1; id < r->g->nodes.count && r->t->failed == STATUS_OK; id++) {
        const node *n = graph_node(r->g, id);
        const torch_rule *rule = rule_of(r, n->op);
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
        torch_grpo_beside(&r);
        result = read_nodes(&r);
        if (s->pass.makes) tape_make_for_each(t, s->batch);
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
    double elements, largest; /* of trained weights */
    double state;             /* bytes */
    double width;
} trained;

static void count_one(const torch_settings *s, const shape *x, bool in_block, trained *c) {
    double n = (double)shape_elements(x);
    c->elements += n;
    if (n > c->largest) c->largest = n;
    bool matrix = x->rank > 1;
    c->state += torch_state_of(s, &(torch_weight){ .rows = matrix ? (double)shape_rows(x) : n,
                                                   .columns = matrix ? (double)shape_last(x) : 0,
                                                   .width = c->width,
                                                   .in_block = in_block });
}

/* Adapters beside their matrices; kernels of convolutions have none. */
static void count_adapters(const graph *g, const torch_settings *s, const bool *in_block, trained *c) {
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const shape *x = graph_shape(g, t);
        if (!is_weight(graph_tensor(g, t)) || x->rank != 2) continue;
        if (!torch_is_target(s, graph_name(g, t), in_block[t])) continue;
        count_one(s, &SHAPE(s->adapter_rank, x->dim[0]), true, c);
        count_one(s, &SHAPE(s->adapter_rank, x->dim[1]), true, c);
        if (s->magnitudes) count_one(s, &SHAPE(torch_magnitudes(g, t)), true, c);
    }
}

static status count_trained(const graph *g, const torch_settings *s, trained *out) {
    trained c = { .width = s->adapter_rank                         ? torch_adapter_width(s)
                           : s->types == TORCH_HALF && !s->masters ? 2
                                                                   : 4 };
    bool *in_block = memory_new(g->tensors.count, sizeof *in_block);
    if (!in_block) return status_set(STATUS_FAILED, "no memory to estimate");
    note_blocks(g, in_block);
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (is_weight(graph_tensor(g, t)) && is_trained(s, graph_tensor(g, t)))
            count_one(s, graph_shape(g, t), in_block[t], &c);
    if (s->adapter_rank) count_adapters(g, s, in_block, &c);
    status result = s->adapter_rank && !(c.elements > 0) ? torch_no_target(g, s, in_block) : STATUS_OK;
    memory_free(in_block);
    *out = c;
    return result;
}

static uint64_t state_bytes(const trained *c) { return (uint64_t)c->state; }

/* foreach: the square roots of all second moments at once, once or twice. One after the other: root and
 * denominator of the largest weight. Fused kernels and those of 8 bits need nothing. */
static uint64_t update_bytes(const trained *c, const torch_settings *s) {
    if (s->state_bits < 32 || s->update == TORCH_FUSED) return 0;
    if (s->optimizer == OPTIMIZER_SGD) return 0;
    if (s->optimizer == OPTIMIZER_ADAMW && s->update == TORCH_FOREACH)
        return (uint64_t)(c->elements * c->width * torch_foreach_copies(s));
    return (uint64_t)(c->largest * c->width * 2);
}

/* ---- several devices ---- */

/* Bytes of weights that are gathered: of the largest block, and of those outside of blocks; and of a block's
 * gradients. */
typedef struct {
    double block, outside, block_gradients, frozen, whole; /* whole: of all */
} unit_bytes;

enum { MOST_SITES = 4096 };

static void add_weight(const tape_item *x, const torch_settings *s, int32_t site, double *by_site,
                       unit_bytes *u) {
    double most = s->types == TORCH_F32 ? 4 : 2, width = fmin(x->width - x->whole, most);
    double bytes = (double)x->elements * width;
    u->whole += bytes;
    if (site < 0 || site >= MOST_SITES) {
        u->outside += bytes;
        return;
    }
    if (!x->wants) u->frozen += bytes;
    double *at = by_site + 2 * site;
    at[0] += bytes, at[1] += x->wants ? bytes : 0;
    u->block = fmax(u->block, at[0]), u->block_gradients = fmax(u->block_gradients, at[1]);
}

/* Adapters' weights are on the tape alone, so that is where weights are looked for. */
static status units_of(const tape *t, const torch_settings *s, unit_bytes *u) {
    double *by_site = memory_new(2 * MOST_SITES, sizeof *by_site);
    bool *seen = memory_new(t->items.count, sizeof *seen);
    bool made = by_site && seen;
    *u = (unit_bytes){ 0 };
    for (uint32_t i = 1; made && i < t->calls.count; i++) {
        const tape_call *c = (const tape_call *)t->calls.data + i;
        for (int k = 0; k < TAPE_IN; k++) {
            tape_value v = c->in[k];
            if (!v || seen[v] || tape_at(t, v)->term != TAPE_WEIGHTS) continue;
            seen[v] = true;
            add_weight(tape_at(t, v), s, c->site, by_site, u);
        }
    }
    memory_free(by_site);
    memory_free(seen);
    return made ? STATUS_OK : status_set(STATUS_FAILED, "no memory to estimate");
}

/* What is kept with the host: updates are made there, and a block's gradients go there as they are made. */
static void leave_to_host(const torch_settings *s, const unit_bytes *u, tape_settings *how) {
    static const double nothing = 1e-12;
    how->optimizer_bytes = how->update_bytes = 0;
    how->gradient_share = nothing, how->sending_bytes = (uint64_t)u->block_gradients;
    if (s->host_keeps == TORCH_KEEPS_ALL) how->weight_share = nothing;
}

/* Each rank keeps its share; what is whole for a while are gradients on their way (a bucket), or, where
 * weights are shared out, a block's weights, a second one's while blocks are differentiated (one computes,
 * one is on its way), and those outside of blocks, which the root holds from forward to the end of backward.
 * Where these compute in 16 bits, FSDP's shares are f32, and DeepSpeed keeps f32 masters beside its shares
 * of 16. litgpt wraps frozen weights together with trained ones, and FSDP makes gradients for all of them:
 * when a block is done, zeros for what has none are joined with the others (split_with_sizes_backward). What
 * use_reentrant=True computes again is gathered for that: FSDP fetches nothing ahead, since the results of
 * forward, made without gradients, told it of no backward (_needs_pre_backward_unshard). Where all of a unit
 * is frozen, FSDP has a hook on the gradients of its inputs, to let the weights go; computed again by
 * use_reentrant=True these inputs are leaves, and the hook holds them and their gradients until backward ends
 * (_register_post_backward_reshard_only_hook, AccumulateGrad's variable). */
static status share_out(const tape *t, const torch_settings *s, const trained *c, tape_settings *how) {
    double share = 1.0 / (double)s->gpus;
    if (!torch_is_shared(s)) return STATUS_OK;
    unit_bytes u;
    TRY(units_of(t, s, &u));
    if (s->shard == TORCH_DDP)
        how->sending_bytes = (uint64_t)(c->elements * c->width), how->synchronises = true;
    if (s->shard >= TORCH_ZERO1) {
        how->optimizer_bytes = (uint64_t)((double)how->optimizer_bytes * share);
        how->update_bytes = (uint64_t)((double)how->update_bytes * share);
    }
    if (s->shard >= TORCH_ZERO2)
        how->gradient_share = share, how->sending_bytes = (uint64_t)u.block_gradients;
    if (s->shard >= TORCH_ZERO3) {
        how->weight_share = share;
        how->gathered_bytes = (uint64_t)(u.block + u.outside);
        if (!how->reentrant || s->shard != TORCH_FSDP) how->fetched_bytes = (uint64_t)u.block;
    }
    if (s->shard == TORCH_FSDP && s->masters && !s->adapter_rank)
        how->weight_share *= 2, how->gradient_share *= 2;
    how->lingering = s->shard == TORCH_FSDP && s->reentrant && s->adapter_rank;
    how->sending_ends = s->shard == TORCH_FSDP;
    if (s->litgpt && s->shard == TORCH_FSDP && u.frozen > 0) how->unit_bytes = (uint64_t)(2 * u.block);
    if (s->shard == TORCH_FSDP) {
        how->cuts_units = true;
        how->gather_stream = TAPE_GATHERS, how->gradient_stream = TAPE_REDUCES;
        how->gathered_pending = (uint64_t)u.block, how->sending_pending = (uint64_t)u.block_gradients;
    }
    if (s->shard == TORCH_FSDP &&
        torch_accumulation(s) > 1) { /* no_sync: gradients stay whole until the last of them */
        how->gradient_share = 0;
        if (s->litgpt) how->sending_bytes = (uint64_t)u.frozen, how->sending_ends = false;
    }
    if (s->host_keeps) leave_to_host(s, &u, how);
    if (s->pass.whole) how->gathered_bytes = (uint64_t)(u.whole * share), how->weight_share = 0;
    return STATUS_OK;
}

/* ---- the whole ---- */

int64_t torch_accumulation(const torch_settings *s) {
    int64_t once = s->batch * (s->gpus > 1 ? s->gpus : 1);
    return s->step > once ? (s->step + once - 1) / once : 1;
}

/* Factors of the likely value. They are those between which the published measurements lie that the rules
 * were compared with (bench/results/estimate.md), outliers left out: versions differ, and what the allocator
 * loses by splitting depends on the order of calls and on what came before. */
typedef struct {
    double low, high;
} spread;
static const spread live_alone = { 0.97, 1.05 }, live_several = { 0.87, 1.07 };
static const spread reserved_alone = { 0.90, 1.08 }, reserved_several = { 0.95, 1.15 };

/* Eight lengths between 64 or 512 tokens and the context, five models: two orders that were drawn reserved
 * 0.79 to 1.11 of what the order that is played does; lengths that only grow up to 1.49, those that only
 * shrink down to 0.68. */
static const spread reserved_unequal = { 0.75, torch_unequal_order };

static interval within(double likely, const spread *s) {
    return (interval){ (uint64_t)(likely * s->low), (uint64_t)likely, (uint64_t)(likely * s->high) };
}

/* DeepSpeed's buckets are as large as its configuration says: with overlap_comm 4.5 times two of 5e8 numbers
 * of 16 bits, as transformers' page on DeepSpeed has it. Measurements without the host's help, which the
 * factors come from, have them within; where little else is on the device they are most of it. */
static const uint64_t largest_buckets = 9000000000;

static void intervals(const torch_settings *s, torch_result *r, uint64_t live, uint64_t held) {
    double whole = 0, lost = live ? (double)held / (double)live : 1;
    for (int t = 0; t < TAPE_TERMS; t++) whole += (double)r->by_term[t];
    double reserved = whole * fmax(lost, 1);
    bool several = s->gpus > 1 || torch_is_shared(s);
    bool unequal = s->cuda && s->shortest && s->shortest < s->context;
    r->live = within(whole, several ? &live_several : &live_alone);
    r->reserved = within(reserved, unequal   ? &reserved_unequal
                                   : several ? &reserved_several
                                             : &reserved_alone);
    r->reserved.low = r->reserved.low > r->live.low ? r->reserved.low : r->live.low;
    if (s->host_keeps && s->shard != TORCH_FSDP)
        r->live.high += largest_buckets, r->reserved.high += largest_buckets;
}

/* The head's gradient of tied weights waits for that of the embedding, and autograd's sum of both is a third
 * table: seen in f32 on an H100, at two points of bench/results/gpu_drawn.md. Where autocast's cast made the
 * first, it is added to in place. Whatever was there before the step is added to in place as well. */
static bool adds_anew(const torch_settings *s) {
    bool were_there = torch_accumulation(s) > 1 || torch_fills_gradients(s) || s->keeps_gradients;
    return s->types != TORCH_AUTOCAST && s->gpus < 2 && !torch_is_shared(s) && !were_there;
}

static tape_settings settings_of(const torch_settings *s, const trained *c) {
    return (tape_settings){ .checkpointing = s->checkpointing,
                            .reentrant = s->checkpointing && s->reentrant,
                            .evaluates = s->pass.asked,
                            .frames = s->transformers,
                            .within = s->pass.within,
                            .accumulates = torch_accumulation(s) > 1,
                            .adds_anew = adds_anew(s),
                            .fills = torch_fills_gradients(s),
                            .clears_late = s->keeps_gradients,
                            .optimizer_bytes = state_bytes(c),
                            .update_bytes = update_bytes(c, s),
                            .update_spread = s->update == TORCH_FOREACH,
                            .workspace = s->cuda ? s->workspace : 0 };
}

/* ---- samples of unequal lengths ---- */

enum { LENGTHS = 8 };
typedef struct {
    tape of[LENGTHS];
    uint32_t count;
} lengths;

static status read_length(const torch_settings *s, int64_t context, const tape *as, tape *t) {
    graph g;
    torch_settings with = *s;
    model_ports ports = { 0 };
    with.context = context;
    TRY(graph_open(&g));
    s->of->build(s->of, &g, &(model_run){ .mode = MODEL_TRAIN, .batch = s->batch, .context = context },
                 &ports);
    status result = graph_status(&g);
    if (result == STATUS_OK) result = torch_read(&g, &with, t);
    graph_close(&g);
    if (result == STATUS_OK && (t->items.count != as->items.count || t->calls.count != as->calls.count))
        result = status_set(STATUS_INVALID,
                            "--shortest %lld: a step of %lld tokens makes other calls than one of %lld; say "
                            "more tokens",
                            (long long)s->shortest, (long long)context, (long long)s->context);
    return result;
}

/* Between the shortest and the context, each far from the one before: a training set is in no order. */
static status read_lengths(const torch_settings *s, const tape *as, lengths *l) {
    static const int64_t order[LENGTHS] = { 0, 4, 2, 6, 1, 5, 3, 7 };
    l->count = 0;
    if (!s->shortest || !s->of || s->shortest >= s->context) return STATUS_OK;
    for (int i = 0; i < LENGTHS; i++) {
        TRY(tape_open(&l->of[l->count++]));
        TRY(read_length(s, s->shortest + (s->context - s->shortest) * order[i] / LENGTHS, as, &l->of[i]));
    }
    return STATUS_OK;
}

static void close_lengths(lengths *l) {
    while (l->count) tape_close(&l->of[--l->count]);
}

/* `w`: NULL: nobody watches. */
static status play(const torch_settings *s, const tape *t, const lengths *l, const trained *c,
                   tape_watcher *w, torch_result *r) {
    allocator a;
    tape_result played;
    tape_settings how = settings_of(s, c);
    how.others = l->of, how.other_count = l->count;
    TRY(share_out(t, s, c, &how));
    TRY(allocator_open(&a));
    a.limit = s->limit, a.expandable = s->expandable;
    tape_listener listener = { allocator_take, allocator_give, &a };
    if (s->cuda) how.listener = &listener;
    if (w) w->reserved = s->cuda ? &a.reserved : NULL;
    how.watcher = w;
    status result = tape_play(t, &how, &played);
    if (w) w->reserved = NULL;
    if (result == STATUS_OK && a.failed) result = status_set(STATUS_FAILED, "no memory to estimate");
    r->peak_in = played.peak_in;
    for (int k = 0; k < TAPE_TERMS; k++) r->by_term[k] = played.at_peak[k];
    r->held = s->cuda ? a.most : played.peak;
    intervals(s, r, played.peak, r->held);
    allocator_close(&a);
    return result;
}

/* Of several devices also what a unit of theirs is, which settings of the tape hold in sums alone. */
static status open_besides(const torch_settings *s, tape *t, const trained *c, tape_settings *how,
                           torch_besides_of *q) {
    unit_bytes u;
    *how = settings_of(s, c);
    TRY(share_out(t, s, c, how));
    TRY(units_of(t, s, &u));
    *q = (torch_besides_of){ .s = s,
                             .t = t,
                             .how = how,
                             .trained = c->elements * c->width,
                             .whole = u.whole,
                             .block = u.block,
                             .outside = u.outside };
    return STATUS_OK;
}

/* The first pass over the texts, if they are nearly all prompt, or the last token, if they are made one by
 * one: `last` is the tape of one token. Least: prompts are short. */
static status generate(const torch_besides_of *q, const torch_besides_of *last, interval *r) {
    uint64_t prompt, one, cache = torch_cache_bytes(q->s, q->s->context, false);
    TRY(torch_besides_prompt(q, &prompt));
    TRY(torch_besides_prompt(last, &one));
    one += torch_cache_bytes(q->s, q->s->context, true);
    double least = (double)one, most = fmax(least, (double)(prompt + cache));
    *r = (interval){ (uint64_t)(0.97 * least), (uint64_t)most, (uint64_t)(1.05 * most) };
    return STATUS_OK;
}

/* The same model with texts of one token. */
static status play_generating(const model *m, const torch_besides_of *q, interval *r) {
    torch_settings one = *q->s;
    model_ports ports = { 0 };
    torch_besides_of last = { .s = &one };
    tape_settings how;
    graph g;
    tape t;
    trained c;
    one.context = 1;
    TRY(graph_open(&g));
    m->build(m, &g, &(model_run){ .mode = MODEL_TRAIN, .batch = one.batch, .context = 1 }, &ports);
    status result = graph_status(&g);
    if (result == STATUS_OK) result = count_trained(&g, &one, &c);
    if (result == STATUS_OK) result = tape_open(&t);
    if (result == STATUS_OK) {
        result = torch_read(&g, &one, &t);
        if (result == STATUS_OK) result = open_besides(&one, &t, &c, &how, &last);
        if (result == STATUS_OK) result = generate(q, &last, r);
        tape_close(&t);
    }
    graph_close(&g);
    return result;
}

/* `m`: NULL: what is besides the step is not asked for. */
static status play_besides(const model *m, const torch_settings *s, tape *t, const trained *c,
                           torch_besides *r) {
    torch_besides_of q;
    tape_settings how;
    if (!m) return STATUS_OK;
    TRY(open_besides(s, t, c, &how, &q));
    TRY(torch_besides_find(&q, r));
    return torch_generates(s) ? play_generating(m, &q, &r->generating) : STATUS_OK;
}

static void count_parameters(const graph *g, const torch_settings *s, const trained *c, torch_result *r) {
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (is_weight(graph_tensor(g, t))) {
            uint64_t numbers = (uint64_t)shape_elements(graph_shape(g, t));
            r->parameters += numbers;
            if (numbers > r->largest) r->largest = numbers;
        }
    r->trained = (uint64_t)c->elements;
    r->trained_bytes = (uint64_t)(c->elements * c->width), r->state = state_bytes(c);
    if (s->adapter_rank) r->parameters += r->trained;
}

/* Attention runs at half the speed of other products (llm-foundry's tables, 512 to 16,384 tokens), so it
 * counts twice; of causal attention that is the whole square, as shares of a peak are published. */
static void count_operations(const graph *g, torch_result *r) {
    double all = 0, convolved = 0;
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        op_cost c = n->op->cost(g, n);
        bool product =
            (n->op->traits & OP_PRODUCT) || c.kind == WORK_PRODUCTS || c.kind == WORK_PRODUCTS_HALF;
        double flops = product ? c.flops * (torch_is_attention(n) ? 2 : 1) : 0;
        all += flops;
        if (torch_is_convolution(n)) convolved += flops;
    }
    r->operations = all, r->convolutions = all > 0 ? convolved / all : 0;
}

static status estimate_graph(const model *m, const graph *g, const torch_settings *s, torch_result *r) {
    trained c = { 0 };
    tape t;
    lengths l = { .count = 0 };
    TRY(count_trained(g, s, &c));
    TRY(tape_open(&t));
    status result = torch_read(g, s, &t);
    if (result == STATUS_OK) result = read_lengths(s, &t, &l);
    if (result == STATUS_OK) result = play(s, &t, &l, &c, NULL, r);
    count_operations(g, r);
    r->calls = t.calls.count;
    if (result == STATUS_OK) result = play_besides(m, s, &t, &c, &r->besides);
    close_lengths(&l);
    tape_close(&t);
    count_parameters(g, s, &c, r);
    return result;
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void reach(torch_result *r, const torch_result *other) {
    r->live.high = larger(r->live.high, other->live.high);
    r->reserved.high = larger(r->reserved.high, other->reserved.high);
}

/* Where nobody says a version, the interval holds what the older ones take that these settings can be of.
 * Rules fall away as versions go up, so live bytes of the oldest are the most; what the allocator loses
 * follows no such order, so the first version of each set of rules is played. */
static status span_versions(const graph *g, const torch_settings *s, torch_result *r) {
    torch_version oldest = torch_oldest(s, torch_attends(g));
    const torch_version first[] = { oldest, TORCH_1_11, TORCH_2_0 };
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        torch_settings old = *s;
        torch_result older = { 0 };
        old.version = first[i];
        bool copies = s->update == TORCH_FOREACH && torch_foreach_copies(&old) > torch_foreach_copies(s);
        bool differs = copies || torch_fills_gradients(&old) || torch_softmax_keeps_input(&old);
        if ((i && first[i] <= oldest) || !differs) continue;
        TRY(estimate_graph(NULL, g, &old, &older));
        reach(r, &older);
    }
    return STATUS_OK;
}

/* Modules of torch.nn do norms and the loss in 16 bits where all is; torchtune's own, and others', widen
 * them. Which a program has nobody says, so the interval holds both. */
static status span_widening(const graph *g, const torch_settings *s, torch_result *r) {
    torch_settings wide = *s;
    torch_result other = { 0 };
    wide.widens = true;
    TRY(estimate_graph(NULL, g, &wide, &other));
    reach(r, &other);
    return s->version ? STATUS_OK : span_versions(g, &wide, r);
}

/* Whose code for flash attention repeated heads that share keys, until transformers 4.48; Llama's did not. */
static bool repeats_heads(const model *m, const torch_settings *s) {
    static const char *const which[] = { "mistral", "mixtral", "qwen2", "qwen2_moe", "phi3" };
    bool found = false;
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) found |= strcmp(m->family, which[i]) == 0;
    return found && s->transformers && s->older;
}

static torch_settings prepared(const model *m, const torch_settings *s) {
    torch_settings with = *s;
    with.positions = m->context;
    with.of = m;
    with.repeats_heads = repeats_heads(m, s);
    with.masters = s->types == TORCH_AUTOCAST && torch_is_shared(s) && s->shard >= TORCH_ZERO1;
    if (with.masters) with.types = TORCH_HALF;
    return with;
}

static status watch_graph(const graph *g, const torch_settings *s, tape_watcher *w) {
    trained c = { 0 };
    torch_result r = { 0 };
    tape t;
    lengths l = { .count = 0 };
    TRY(count_trained(g, s, &c));
    TRY(tape_open(&t));
    status result = torch_read(g, s, &t);
    if (result == STATUS_OK) result = read_lengths(s, &t, &l);
    if (result == STATUS_OK) result = play(s, &t, &l, &c, w, &r);
    close_lengths(&l);
    tape_close(&t);
    return result;
}

static status build_step(const model *m, const torch_settings *s, graph *g) {
    model_ports ports = { 0 };
    m->build(m, g, &(model_run){ .mode = MODEL_TRAIN, .batch = s->batch, .context = s->context }, &ports);
    return graph_status(g);
}

status torch_watch(const model *m, const torch_settings *settings, tape_watcher *w) {
    graph g;
    torch_settings with = prepared(m, settings), *s = &with;
    TRY(graph_open(&g));
    status result = build_step(m, s, &g);
    if (result == STATUS_OK) result = watch_graph(&g, s, w);
    graph_close(&g);
    return result;
}

status torch_estimate(const model *m, const torch_settings *settings, torch_result *r) {
    graph g;
    torch_settings with = prepared(m, settings), *s = &with;
    *r = (torch_result){ 0 };
    TRY(graph_open(&g));
    status result = build_step(m, s, &g);
    if (result == STATUS_OK) result = estimate_graph(s->pass.asked ? NULL : m, &g, s, r);
    bool narrow = s->types == TORCH_HALF && !s->transformers && !s->litgpt && !with.masters;
    if (result == STATUS_OK && !s->version && !s->litgpt) result = span_versions(&g, s, r);
    if (result == STATUS_OK && narrow) result = span_widening(&g, s, r);
    graph_close(&g);
    if (result == STATUS_OK && s->grpo.asked && !s->pass.asked) result = torch_grpo_phases(m, settings, r);
    return result;
}
