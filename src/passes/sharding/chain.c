/* Runs without units: one sum travels through all ranks, which have one part each of the batch.
 *
 * A gradient is a chain of links, each of which adds its rows to what the one before has made, and so is the
 * loss. In one process the rows are those of the batch; here each rank has the next ones. So the first link
 * of a rank adds to what the rank before has made (on the first one to zeros), what its last link has made
 * goes to the next rank, and the last rank has what one process has: the same additions in the same order. It
 * goes to all before the update, a large one in two steps: a piece to each rank, and from there to the rest.
 * So no rank sends such a sum twice, however many there are. Where a chain has links of several kinds (a
 * token embedding tied to the logits), one process adds all rows of the one before any of the other: each
 * such stretch goes through all ranks by itself, and the next one begins with what the last rank has.
 *
 * A rank may have several micro-batches. Then the sum goes through all ranks with the first of each, comes
 * back to the first rank, and goes through them again with the second: each is a call of a program, and its
 * sum a stored one (passes/accumulate), which all have, and which the last rank has whole between calls. So
 * every call begins with bringing it around; before the first one what comes is zeros. Where a chain has
 * links of several kinds, these are no longer the sums of the whole batch: all rows of one kind would have to
 * come first.
 *
 * Ranks wait for each other in a ring unless sums are taken up in the order in which they are handed on. Then
 * a rank's k-th sum waits for nothing but the k-th of the rank before, and for what comes before it here. */
#include "base/memory.h"
#include "base/threads.h"
#include "ir/op.h"
#include "ops/arrive/arrive.h"
#include "ops/pass_on/pass_on.h"
#include "ops/zeros/zeros.h"
#include "passes/links.h"
#include "passes/sharding/sharding.h"

/* Links of one kind, that follow each other in a chain. Tensors are those of `in`. */
typedef struct {
    tensor_id first, last; /* what its first and its last link make */
    tensor_id
        before;      /* what the first one adds to: a source, or the last of the stretch before; 0: nothing */
    bool again;      /* a stretch of the same chain is before it */
    bool ends_chain; /* none is behind it: what it comes to goes to all */
    bool begun, ended;
    tensor_id brought; /* of `out`: what comes around for it from the call before; 0: nothing does */
    tensor_id sum;     /* of `out`: what the first link adds to, once it has begun */
} stretch;

typedef struct {
    rewrite r;
    int64_t ranks;
    stretch *list; /* in the order of their ends */
    uint32_t count, begun;
    uint32_t *begins, *ends; /* by tensor of `in`: 1 + the stretch whose first, last it is; 0: none */
    bool *moving;            /* by tensor of `in`: what stands for it in `out` is under way */
    bool told;               /* all sums are on their way to all ranks */
    bool in_calls;           /* there are several micro-batches, each a call of its own */
} chainer;

/* ---- what there is ---- */

const char *chain_refusal(const graph *g, const pass_context *c) {
    if (c->micro_batch * c->least_rows % THREADS_ROW_TILE)
        return "what a rank computes at once is no whole tiles of 256 rows";
    for (node_id id = 1; id < g->nodes.count; id++) {
        if (graph_node(g, id)->op->traits & OP_SUMS_SUMS)
            return "this model has a weight whose gradient is of sums over samples, not over rows";
    }
    return NULL;
}

static void add_stretch(chainer *k, const tensor_id *made, uint32_t from, uint32_t to, uint32_t count,
                        tensor_id source) {
    k->list[k->count++] = (stretch){ .first = made[from],
                                     .last = made[to - 1],
                                     .before = from ? made[from - 1] : source,
                                     .again = from > 0,
                                     .ends_chain = to == count };
}

/* A chain falls into stretches of one kind. */
static void add_chain(chainer *k, const tensor_id *made, uint32_t count, tensor_id source) {
    const graph *in = k->r.in;
    for (uint32_t from = 0, to; from < count; from = to) {
        const node *first = graph_node(in, graph_tensor(in, made[from])->producer);
        for (to = from + 1; to < count; to++)
            if (!links_of_one_kind(in, graph_node(in, graph_tensor(in, made[to])->producer), first)) break;
        add_stretch(k, made, from, to, count, source);
    }
}

/* What is made on the way to `last`, first to last; ends at a source, or where the memory begins. */
static uint32_t find_made(const graph *g, tensor_id last, tensor_id made[LINKS_MOST], tensor_id *source) {
    uint32_t count = 0;
    tensor_id t = last;
    for (; t && graph_tensor(g, t)->producer; t = graph_tensor(g, t)->base) count++;
    *source = t;
    if (count > LINKS_MOST) return 0;
    uint32_t place = count;
    for (t = last; place; t = graph_tensor(g, t)->base) made[--place] = t;
    return count;
}

static void add_gradient(chainer *k, const links_updated *u, tensor_id made[LINKS_MOST]) {
    const graph *in = k->r.in;
    tensor_id source;
    uint32_t count = find_made(in, u->gradient, made, &source);
    const node *first = count ? graph_node(in, graph_tensor(in, made[0])->producer) : NULL;
    if (!first || source || links_accumulator(in, first, made[0]) == UINT32_MAX)
        graph_fail(k->r.out, "the gradient of '%s' is no sum that ranks could continue; say --unit N",
                   graph_name(in, u->parameter));
    else
        add_chain(k, made, count, 0);
}

/* The last that forward and backward make in the place of a result: the loss. */
static tensor_id last_in(const graph *g, tensor_id source) {
    tensor_id last = 0;
    for (tensor_id t = source + 1; t < g->tensors.count; t++) {
        node_id maker = graph_tensor(g, t)->producer;
        bool early = maker && graph_node(g, maker)->phase < PHASE_REDUCE;
        if (early && graph_tensor(g, t)->base && graph_storage(g, t, NULL) == source) last = t;
    }
    return last;
}

static void find_chains(chainer *k, tensor_id made[LINKS_MOST]) {
    const graph *in = k->r.in;
    for (tensor_id t = 1; t < in->tensors.count; t++) {
        const tensor *x = graph_tensor(in, t);
        tensor_id last = !x->producer && x->role == ROLE_RESULT ? last_in(in, t) : 0, source;
        if (last) add_chain(k, made, find_made(in, last, made, &source), t);
    }
    for (node_id id = 1; id < in->nodes.count && !k->r.out->failed; id++) {
        links_updated u;
        if (links_update(in, graph_node(in, id), &u)) add_gradient(k, &u, made);
    }
}

/* By their ends, which is the order of tensors. */
static void sort_stretches(chainer *k) {
    for (uint32_t i = 1; i < k->count; i++)
        for (uint32_t j = i; j && k->list[j].last < k->list[j - 1].last; j--) {
            stretch x = k->list[j];
            k->list[j] = k->list[j - 1], k->list[j - 1] = x;
        }
    for (uint32_t i = 0; i < k->count; i++) k->begins[k->list[i].first] = k->ends[k->list[i].last] = i + 1;
}

static status find_stretches(chainer *k) {
    uint32_t tensors = k->r.in->tensors.count;
    tensor_id *made = memory_new(LINKS_MOST, sizeof *made);
    k->list = memory_new(tensors, sizeof *k->list); /* each tensor ends one at most */
    k->begins = memory_new(tensors, sizeof *k->begins);
    k->ends = memory_new(tensors, sizeof *k->ends);
    k->moving = memory_new(tensors, sizeof *k->moving);
    bool enough = made && k->list && k->begins && k->ends && k->moving;
    if (enough) find_chains(k, made);
    if (enough) sort_stretches(k);
    memory_free(made);
    return enough ? STATUS_OK : status_set(STATUS_FAILED, "no memory to rewrite a graph");
}

/* ---- how it travels ---- */

static tensor_id start(chainer *k, tensor_id x, tensor_id like, pass_on_step step) {
    return share_flagged(&k->r, pass_on_apply(k->r.out, x, k->ranks, step), like);
}

static tensor_id move(chainer *k, tensor_id x, tensor_id like, pass_on_step step) {
    return share_flagged(&k->r, arrive_apply(k->r.out, start(k, x, like, step), 0), like);
}

/* What stands for t is there. */
static void settle(chainer *k, tensor_id t) {
    if (k->moving[t]) k->r.map[t] = share_flagged(&k->r, arrive_apply(k->r.out, k->r.map[t], 0), t);
    k->moving[t] = false;
}

/* While another sum is on its way the first rank and the last could wait for each other. */
static bool any_under_way(const chainer *k) {
    bool any = false;
    for (uint32_t i = 0; i < k->count; i++) any |= k->list[i].begun && !k->list[i].ended;
    return any;
}

static const char *op_name_of(const chainer *k, tensor_id t) {
    return graph_node(k->r.in, graph_tensor(k->r.in, t)->producer)->op->name;
}

static tensor_id place_of(chainer *k, const stretch *s) {
    if (s->brought) return share_flagged(&k->r, arrive_apply(k->r.out, s->brought, 0), s->first);
    if (!s->before)
        return share_flagged(&k->r, zeros_apply(k->r.out, *graph_shape(k->r.in, s->first)), s->first);
    settle(k, s->before);
    return k->r.map[s->before];
}

/* What the last rank has of the calls before goes to the first one, while no sum is on its way. */
static void bring_around(chainer *k) {
    k->r.out->phase = PHASE_FORWARD, k->r.out->site = SITE_NONE;
    for (uint32_t i = 0; i < k->count && !k->r.out->failed; i++) {
        stretch *s = &k->list[i];
        if (!s->again) s->brought = start(k, place_of(k, s), s->first, PASS_AROUND);
    }
}

/* Sums are begun in the order in which they are handed on, or refused. */
static void begin(chainer *k, uint32_t which) {
    stretch *s = &k->list[which];
    if (which != k->begun || (s->again && any_under_way(k))) {
        graph_fail(k->r.out,
                   "--sharding chain: '%s' begins a sum of this model within others, which go on "
                   "before it does: ranks would wait for each other; say --unit N",
                   op_name_of(k, s->first));
        return;
    }
    k->begun++;
    tensor_id place = place_of(k, s);
    if (s->again) place = move(k, place, s->first, PASS_AROUND);
    s->sum = move(k, place, s->first, PASS_FROM_BEFORE);
    if (s->before) k->r.map[s->before] = s->sum;
    s->begun = true;
}

static void end(chainer *k, stretch *s) {
    k->r.map[s->last] = start(k, k->r.map[s->last], s->last, PASS_TO_NEXT);
    k->moving[s->last] = s->ended = true;
}

/* A call that is not the last one ends before there is an update, and what it has begun to move is there. */
static void end_call(chainer *k) {
    phase now = (phase)k->r.out->phase;
    k->r.out->phase = PHASE_BACKWARD, k->r.out->site = SITE_NONE;
    for (uint32_t i = 0; i < k->count; i++) settle(k, k->list[i].last);
    k->r.out->phase = now;
}

/* If the last rank told all by itself, it would send a sum of E elements to N - 1 others. In two steps nobody
 * sends more than 2 E (N - 1) / N. The second step has a latency of its own, which is worth it where as much
 * is spared as a large tensor has. */
static bool in_two_steps(const chainer *k, tensor_id sum) {
    int64_t elements = shape_elements(graph_shape(k->r.in, sum));
    return elements * (k->ranks - 1) * (k->ranks - 2) / k->ranks >= SMALL;
}

/* The second step begins behind the first one, as all that moves: nothing waits in between. */
static void tell(chainer *k, const stretch *s) {
    bool in_two = in_two_steps(k, s->last);
    settle(k, s->last);
    tensor_id told = start(k, k->r.map[s->last], s->last, in_two ? PASS_SPREAD : PASS_FROM_LAST);
    k->r.map[s->last] = in_two ? start(k, told, s->last, PASS_COLLECT) : told;
    k->moving[s->last] = true;
}

/* All ranks have come to their updates, or soon will. */
static void tell_all(chainer *k) {
    if (k->in_calls) end_call(k);
    k->told = true;
    k->r.out->site = SITE_NONE;
    for (uint32_t i = 0; i < k->count; i++)
        if (k->list[i].ends_chain) tell(k, &k->list[i]);
}

/* ---- nodes ---- */

/* Does this tensor begin a sum for which the graph as it was has no accumulator? */
static bool begins_without(const chainer *k, tensor_id t) {
    return k->begins[t] && !k->list[k->begins[t] - 1].before;
}

/* A first link without anything before it gets its accumulator; what is no link may read any number. */
static void copy_link(chainer *k, node_id id) {
    enum { MOST = 64 };
    const graph *in = k->r.in;
    const node *n = graph_node(in, id);
    tensor_id inputs[MOST] = { 0 };
    uint32_t count = n->in_count;
    bool any = false;
    for (uint32_t o = 0; o < n->out_count; o++) any |= begins_without(k, node_out(in, n, o));
    if (!any) {
        rewrite_node(&k->r, id);
        return;
    }
    if (n->op->in_count > MOST || count > MOST) {
        graph_fail(k->r.out, "--sharding chain: %s has too many inputs", n->op->name);
        return;
    }
    for (uint32_t i = 0; i < count; i++) inputs[i] = node_in(in, n, i) ? k->r.map[node_in(in, n, i)] : 0;
    for (uint32_t o = 0; o < n->out_count; o++) {
        tensor_id t = node_out(in, n, o);
        if (!begins_without(k, t)) continue;
        uint32_t i = links_accumulator(in, n, t);
        inputs[i] = k->list[k->begins[t] - 1].sum;
        if (i >= count) count = i + 1;
    }
    rewrite_node_inputs(&k->r, id, inputs, count);
}

/* A sum that is not whole yet is read by nobody but the next link. */
static void settle_inputs(chainer *k, const node *n) {
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(k->r.in, n, i);
        if (!t || !k->moving[t]) continue;
        if (k->told)
            settle(k, t);
        else
            graph_fail(k->r.out, "%s reads a sum before all ranks have added to it; say --unit N",
                       n->op->name);
    }
}

static void copy_node(chainer *k, node_id id) {
    const graph *in = k->r.in;
    const node *n = graph_node(in, id);
    k->r.out->phase = n->phase, k->r.out->site = n->site;
    if (n->phase >= PHASE_REDUCE && !k->told) tell_all(k);
    for (uint32_t o = 0; o < n->out_count; o++)
        if (k->begins[node_out(in, n, o)]) begin(k, k->begins[node_out(in, n, o)] - 1);
    if (k->r.out->failed) return;
    settle_inputs(k, n);
    copy_link(k, id);
    for (uint32_t o = 0; o < n->out_count && !k->r.out->failed; o++) {
        k->r.out->phase = n->phase, k->r.out->site = n->site;
        if (k->ends[node_out(in, n, o)]) end(k, &k->list[k->ends[node_out(in, n, o)] - 1]);
    }
}

/* Also what no update reads, such as the loss. */
static void settle_all(chainer *k) {
    for (uint32_t i = 0; i < k->count && !k->r.out->failed; i++) settle(k, k->list[i].last);
}

status chain_run(const graph *in, const pass_context *c, graph *out) {
    chainer k = { .ranks = c->ranks, .in_calls = c->micro_batch < c->unit };
    status result = rewrite_open(&k.r, in, out);
    const char *why = chain_refusal(in, c);
    if (why) graph_fail(out, "--sharding chain: %s; say --unit N", why);
    if (result == STATUS_OK && !out->failed) result = find_stretches(&k);
    if (result == STATUS_OK && k.in_calls) bring_around(&k);
    for (node_id id = 1; id < in->nodes.count && result == STATUS_OK && !out->failed; id++) copy_node(&k, id);
    if (result == STATUS_OK && !out->failed) settle_all(&k);
    memory_free(k.list);
    memory_free(k.begins);
    memory_free(k.ends);
    memory_free(k.moving);
    status closed = rewrite_close(&k.r);
    return result != STATUS_OK ? result : closed;
}
