/* Gradient accumulation: a batch in several micro-batches, whose gradients add up in storage that outlives a
 * program. The program of all but the last micro-batch (`accumulate`) adds and stops; the last one (`step`)
 * adds, updates, and clears the sums. Where a run has units of samples all this is done for each unit: its
 * last micro-batch hands the finished sum on, and the sum begins again at zero.
 *
 * Every parameter's gradient is a chain of accumulating nodes. The first link gets the stored sum as its
 * accumulator: then micro-batches whose rows are whole row tiles give the very bits of the undivided batch.
 * A second kind of contribution (a token embedding tied to the logits) would change the order: micro-batch
 * 1's rows would come before micro-batch 2's logits. Such links, where they add row by row, can be put off
 * ("defer"): their rows wait in a buffer of the whole batch and the last program adds them all. "add" adds
 * them at once, in another order.
 *
 * Where ranks hand one sum on (passes/sharding/chain.c), a gradient begins with zeros that are on their way:
 * the stored sum stands in their place. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ir/row_sum.h"
#include "ops/cache_append/cache_append.h"
#include "ops/fill/fill.h"
#include "ops/reshape/reshape.h"
#include "ops/zeros/zeros.h"
#include "passes/links.h"
#include "passes/pass.h"

enum { SETTING_DEFER = 0 };

static bool may_defer(const graph *g, const node *n, const pass_context *c) {
    if (!n->op->row_sum) return false;
    const tensor *ids = graph_tensor(g, node_in(g, n, n->op->row_sum->ids));
    bool row_a_token = shape_elements(&ids->shape) == ids->shape.dim[0] * c->tokens;
    return !ids->producer && ids->role == ROLE_INPUT && row_a_token;
}

/* Has this graph a gradient with links of two kinds; can the later kind wait, and in how many bytes per row?
 */
typedef struct {
    bool mixed, deferrable;
    bool narrow; /* there are weights of 16 bits: undivided, their gradients would not be f32 */
    int64_t row_bytes, parameter_bytes;
} chain_survey;

static chain_survey look_at_chains(const graph *g, const pass_context *c) {
    chain_survey found = { .deferrable = true };
    for (node_id id = 1; id < g->nodes.count; id++) {
        links_updated u;
        node_id links[LINKS_MOST];
        if (!links_update(g, graph_node(g, id), &u)) continue;
        uint32_t count = links_find(g, u.gradient, links);
        found.narrow |= dtype_is_half((dtype)graph_tensor(g, u.parameter)->dtype);
        found.parameter_bytes += (int64_t)graph_tensor_bytes(g, u.parameter);
        for (uint32_t i = 0; i + 1 < count; i++) {
            const node *link = graph_node(g, links[i]);
            if (links_of_one_kind(g, link, graph_node(g, links[count - 1]))) continue;
            found.mixed = true;
            found.deferrable = found.deferrable && may_defer(g, link, c);
            if (!found.deferrable) continue;
            const tensor *rows = graph_tensor(g, node_in(g, link, link->op->row_sum->rows));
            found.row_bytes += shape_last(&rows->shape) * dtype_bytes(rows->dtype);
        }
    }
    return found;
}

/* ---- settings ---- */

static status parse(const char *text, pass_setting *out) {
    bool defer = strcmp(text, "defer") == 0;
    if (!defer && strcmp(text, "add") != 0)
        return status_set(STATUS_INVALID, "--accumulation: '%s' is neither auto, defer nor add", text);
    *out = (pass_setting){ .value = { defer }, .class = PASS_REASSOCIATING, .gradients = true };
    strcpy(out->text, defer ? "defer" : "add");
    return STATUS_OK;
}

static bool has_trait(const graph *g, uint32_t trait) {
    for (node_id id = 1; id < g->nodes.count; id++)
        if (graph_node(g, id)->op->traits & trait) return true;
    return false;
}

/* Statistics of a batch become those of each micro-batch: another training, as in PyTorch. */
static bool couples_samples(const graph *g) { return has_trait(g, OP_COUPLES_SAMPLES); }

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    if (!c->training || c->micro_batch >= c->unit) return 0;
    *without = PASS_NEEDED; /* several micro-batches need this pass */
    if (couples_samples(g)) {
        if (!room || parse("add", &out[0]) != STATUS_OK) return 0;
        out[0].class = PASS_LOSSY;
        return 1;
    }
    bool in_order = true;
    for (node_id id = 1; id < g->nodes.count; id++)
        in_order &= !(graph_node(g, id)->op->traits & OP_SUMS_SUMS);
    chain_survey found = look_at_chains(g, c);
    found.narrow &= c->unit == c->batch; /* beside other units sums are f32 in any case */
    bool tiles = in_order && c->micro_batch * c->least_rows % THREADS_ROW_TILE == 0,
         defer = found.mixed && found.deferrable && tiles && !c->chained;
    uint32_t count = 0;
    if (defer && count < room && parse("defer", &out[count]) == STATUS_OK)
        out[count++].class = found.narrow ? PASS_REASSOCIATING : PASS_EXACT;
    /* the same bits at every budget are worth a buffer, unless the batch is so large that it dwarfs the model
     */
    bool add = !defer || found.row_bytes * c->unit * c->tokens > found.parameter_bytes / 4;
    if (add && count < room && parse("add", &out[count]) == STATUS_OK)
        out[count++].class = tiles && !found.mixed && !found.narrow ? PASS_EXACT : PASS_REASSOCIATING;
    return count;
}

/* A batch of one sample has no statistics, also not the rest that is left of a batch. */
static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    if (c->chained && c->micro_batch < c->unit && s->value[SETTING_DEFER])
        return status_set(
            STATUS_INVALID,
            "--accumulation defer: %lld ranks without --unit have %lld samples each in "
            "micro-batches of %lld, whose rows can't wait for each other; say --micro-batch %lld, "
            "or leave it out",
            (long long)c->ranks, (long long)c->unit, (long long)c->micro_batch, (long long)c->unit);
    int64_t last = c->unit % c->micro_batch, least = last ? last : c->micro_batch;
    if (!c->training || c->micro_batch >= c->unit || least > 1 || !has_trait(g, OP_WANTS_SAMPLES))
        return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "--accumulation %s: a batch of %lld in micro-batches of %lld has one of 1, and this model "
        "normalises by the mean and variance of each",
        s->text, (long long)c->batch, (long long)c->micro_batch);
}

/* ---- rewriting ---- */

typedef struct {
    rewrite r;
    const pass_context *c;
    tensor_id *sum;  /* by tensor of `in`: the stored sum that its maker gets as accumulator; 0: none */
    tensor_id *wait; /* by node: a link that is put off, and of which parameter's gradient; 0: it is not */
    tensor_id first_row; /* input: row of the unit at which this micro-batch begins */
} accumulator;

static tensor_id persistent(accumulator *k, const char *prefix, tensor_id parameter, shape s, dtype type) {
    char name[96];
    snprintf(name, sizeof name, "%s.%s", prefix, graph_name(k->r.in, parameter));
    return graph_add_source(
        k->r.out, &(graph_source){ .name = name, .shape = s, .role = ROLE_GRADIENT, .dtype = type });
}

/* Gives every gradient its stored sum, and marks the links that wait. */
static void prepare(accumulator *k, const pass_setting *s) {
    const graph *in = k->r.in;
    for (node_id id = 1; id < in->nodes.count && !k->r.out->failed; id++) {
        links_updated u;
        node_id links[LINKS_MOST];
        if (!links_update(in, graph_node(in, id), &u)) continue;
        uint32_t count = links_find(in, u.gradient, links);
        tensor_id owner = graph_storage(in, u.gradient, NULL);
        const node *first = count ? graph_node(in, links[count - 1]) : NULL;
        if (!first || (first->op != &op_zeros && links_accumulator(in, first, owner) == UINT32_MAX)) {
            graph_fail(k->r.out,
                       "the gradient of '%s' cannot be accumulated; pin --micro-batch to the whole batch",
                       graph_name(in, u.parameter));
            return;
        }
        k->sum[owner] = persistent(k, "gradient", u.parameter, *graph_shape(in, owner),
                                   (dtype)graph_tensor(in, owner)->dtype);
        for (uint32_t i = 0; s->value[SETTING_DEFER] && i + 1 < count; i++)
            if (!links_of_one_kind(in, graph_node(in, links[i]), first) &&
                may_defer(in, graph_node(in, links[i]), k->c))
                k->wait[links[i]] = u.parameter;
    }
}

/* The buffer of a link that waits; of a parameter's second one under a name of its own. */
static tensor_id buffer_of(accumulator *k, node_id id, shape s, dtype type) {
    char prefix[32] = "deferred";
    int earlier = 0;
    for (node_id other = 1; other < id; other++) earlier += k->wait[other] == k->wait[id];
    if (earlier) snprintf(prefix, sizeof prefix, "deferred.%d", earlier + 1);
    return persistent(k, prefix, k->wait[id], s, type);
}

/* A link that waits: its rows go to the batch's buffer; the last program then adds those of the whole batch.
 */
static void put_off(accumulator *k, node_id id) {
    graph *out = k->r.out;
    const graph *in = k->r.in;
    const node *n = graph_node(in, id);
    tensor_id old = node_out(in, n, 0), rows = node_in(in, n, n->op->row_sum->rows),
              ids = node_in(in, n, n->op->row_sum->ids);
    const shape *s = graph_shape(in, rows);
    int64_t width = shape_last(s), here = shape_rows(s), whole = k->c->unit * k->c->tokens;
    out->phase = (phase)n->phase, out->site = n->site;
    tensor_id buffer = buffer_of(k, id, SHAPE(1, whole, width), (dtype)graph_tensor(in, rows)->dtype);
    if (!k->first_row)
        k->first_row = graph_add_source(
            out, &(graph_source){
                     .name = "first_row", .shape = SHAPE(1), .dtype = DTYPE_I32, .role = ROLE_INPUT });
    tensor_id piece = reshape_apply(out, k->r.map[rows], SHAPE(1, here, width));
    buffer =
        cache_append_apply(out, buffer, piece, k->first_row, &(cache_append_attributes){ 0, (int32_t)width });
    tensor_id sum = k->r.map[node_in(in, n, n->op->row_sum->accumulator)];
    k->r.map[old] = sum;
    if (k->c->accumulating) return;
    char name[96];
    snprintf(name, sizeof name, "%.80s.batch", graph_name(in, ids));
    tensor_id all = graph_add_source(
        out, &(graph_source){ .name = name, .shape = SHAPE(whole), .dtype = DTYPE_I32, .role = ROLE_INPUT });
    tensor_id inputs[3] = { 0 };
    inputs[n->op->row_sum->ids] = all;
    inputs[n->op->row_sum->rows] = reshape_apply(out, buffer, SHAPE(whole, width));
    inputs[n->op->row_sum->accumulator] = sum;
    rewrite_node_inputs(&k->r, id, inputs, 3);
}

/* A node whose outputs may begin gradients: those get their stored sums. */
static void add_to_sums(accumulator *k, node_id id) {
    enum { MOST = 64 };
    const graph *in = k->r.in;
    const node *n = graph_node(in, id);
    tensor_id inputs[MOST] = { 0 };
    uint32_t count = n->in_count;
    bool any = false;
    for (uint32_t o = 0; o < n->out_count; o++) any |= k->sum[node_out(in, n, o)] != 0;
    if (!any) {
        rewrite_node(&k->r, id);
        return;
    }
    if (n->op == &op_zeros) {
        k->r.map[node_out(in, n, 0)] = k->sum[node_out(in, n, 0)];
        return;
    }
    if (n->op->in_count > MOST || count > MOST) {
        graph_fail(k->r.out, "--accumulation: %s has too many inputs", n->op->name);
        return;
    }
    for (uint32_t i = 0; i < count; i++) inputs[i] = node_in(in, n, i) ? k->r.map[node_in(in, n, i)] : 0;
    for (uint32_t o = 0; o < n->out_count; o++) {
        tensor_id t = node_out(in, n, o);
        if (!k->sum[t]) continue;
        uint32_t i = links_accumulator(in, n, t);
        inputs[i] = k->sum[t];
        if (i >= count) count = i + 1;
    }
    rewrite_node_inputs(&k->r, id, inputs, count);
}

/* By tensor: what takes its place next, as it is changed there; 0: nothing does. */
static void find_later(const graph *g, tensor_id *later) {
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        for (uint32_t a = 0; a < n->op->alias_count; a++) {
            const op_alias *alias = &n->op->aliases[a];
            if (!alias->must || alias->in >= n->in_count || alias->out >= n->out_count) continue;
            later[node_in(g, n, alias->in)] = node_out(g, n, alias->out);
        }
    }
}

/* After the update, or where it is handed on, the sum begins again at zero. */
static void clear_sums(accumulator *k) {
    const graph *in = k->r.in;
    tensor_id *later = memory_new(in->tensors.count, sizeof *later);
    if (!later) graph_no_memory(k->r.out);
    if (later) find_later(in, later);
    k->r.out->phase = k->c->unit < k->c->batch && !k->c->chained ? PHASE_REDUCE : PHASE_UPDATE;
    for (node_id id = 1; id < in->nodes.count && !k->r.out->failed; id++) {
        links_updated u;
        if (!links_update(in, graph_node(in, id), &u)) continue;
        tensor_id last = u.gradient;
        while (later[last]) last = later[last];
        fill_apply(k->r.out, k->r.map[last], 0);
    }
    memory_free(later);
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    accumulator k = { .c = c,
                      .sum = memory_new(in->tensors.count, sizeof(tensor_id)),
                      .wait = memory_new(in->nodes.count, sizeof(tensor_id)) };
    status result = rewrite_open(&k.r, in, out);
    if (!k.sum || !k.wait) graph_no_memory(out);
    bool apply = c->micro_batch < c->unit; /* a pinned setting has nothing to do for one micro-batch */
    if (!out->failed && apply) prepare(&k, s);
    for (node_id id = 1; id < in->nodes.count && !out->failed; id++) {
        const node *n = graph_node(in, id);
        if (n->phase >= PHASE_REDUCE && c->accumulating) continue;
        if (!apply)
            rewrite_node(&k.r, id);
        else if (k.wait[id])
            put_off(&k, id);
        else
            add_to_sums(&k, id);
    }
    if (!out->failed && apply && !c->accumulating) clear_sums(&k);
    memory_free(k.sum);
    memory_free(k.wait);
    status closed = rewrite_close(&k.r);
    return result != STATUS_OK ? result : closed;
}

const pass pass_accumulate = { .name = "accumulate",
                               .option = "accumulation", /* --accumulate is the number of micro-batches */
                               .help = "gradients of several micro-batches add up before the update",
                               .values = "auto, defer, add",
                               .class = PASS_REASSOCIATING,
                               .stage = PASS_STEP,
                               .of_state = true,
                               .training_only = true,
                               .by_program = true,
                               .parse = parse,
                               .settings = settings,
                               .check = check,
                               .run = run };
