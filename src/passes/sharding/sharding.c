/* Training by several ranks, each of which has some of a batch's units of samples. `copies` (data parallel):
 * every rank has all weights and states, and makes the same update from the same sums.
 *
 * Where one process adds the finished sum of a unit to those of the units before it, ranks exchange theirs:
 * of a large tensor each gets its share of what the others have, adds the parts in the order of ranks, which
 * is that of units, and before the update all gather the shares. So the sum over units takes a rank's share
 * of memory between programs, twice the tensor's bytes travel, and the bits are those of one process. Small
 * tensors stay whole: each rank gets them from all.
 *
 * What a rank receives lives from the start of a movement on, what it sends until that is over. One gradient
 * travels while backward makes the next one; then it has arrived, and dies.
 *
 * S. Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, 2020, without
 * its stages so far. */
#include <string.h>

#include "base/memory.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/add_into/add_into.h"
#include "ops/add_parts/add_parts.h"
#include "ops/arrive/arrive.h"
#include "ops/exchange/exchange.h"
#include "ops/gather_ranks/gather_ranks.h"
#include "passes/pass.h"

enum { CELL = 4096, SMALL = 65536 }; /* elements: shares are whole cells; what is smaller stays whole */

static status parse(const char *text, pass_setting *out) {
    if (strcmp(text, "copies") != 0)
        return status_set(
            STATUS_INVALID,
            "--sharding: '%s' is neither auto nor copies; shares of states, gradients and weights "
            "don't exist yet",
            text);
    *out = (pass_setting){ .class = PASS_EXACT, .gradients = true };
    strcpy(out->text, "copies");
    return STATUS_OK;
}

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    (void)g;
    if (!c->training || c->ranks < 2 || !room) return 0;
    *without = PASS_NEEDED; /* ranks that know nothing of each other train several models */
    return parse("copies", &out[0]) == STATUS_OK;
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    (void)g;
    if (!c->training || c->ranks > 1) return STATUS_OK;
    return status_set(STATUS_INVALID, "--sharding %s is of several ranks, and there is one; leave it out",
                      s->text);
}

/* ---- rewriting ---- */

/* A movement that has begun. */
typedef struct {
    tensor_id received, sent; /* of `out`; received 0: none */
    tensor_id sum;            /* what its parts are added to; 0: it is a whole that was gathered */
    tensor_id of;             /* the sum of units, as a tensor of `in` */
} movement;

typedef struct {
    rewrite r;
    int64_t ranks;
    tensor_id *share;      /* by tensor of `in`: this rank's share of a sum; 0: it has none */
    movement parts, whole; /* under way: parts of one sum, and what was gathered of the one before */
} sharder;

static int64_t share_of(const sharder *k, int64_t elements) {
    int64_t cells = (elements + CELL - 1) / CELL;
    return (cells + k->ranks - 1) / k->ranks * CELL;
}

static bool is_large(const graph *g, tensor_id t) { return shape_elements(graph_shape(g, t)) >= SMALL; }

static tensor_id flagged(sharder *k, tensor_id t, tensor_id like) {
    if (t) graph_tensor(k->r.out, t)->flags |= graph_tensor(k->r.in, like)->flags & TENSOR_GRADIENT;
    return t;
}

/* A gathered sum is there. */
static void end_whole(sharder *k) {
    movement m = k->whole;
    if (!m.received) return;
    k->whole = (movement){ 0 };
    k->r.out->phase = PHASE_REDUCE, k->r.out->site = SITE_NONE;
    k->r.map[m.of] = flagged(k, arrive_apply(k->r.out, m.received, m.sent), m.of);
}

/* The parts of a sum are there, and are added; where each rank has a share, all are gathered. */
static void end_parts(sharder *k) {
    movement m = k->parts;
    if (!m.received) return;
    k->parts = (movement){ 0 };
    k->r.out->phase = PHASE_REDUCE, k->r.out->site = SITE_NONE;
    tensor_id parts = flagged(k, arrive_apply(k->r.out, m.received, m.sent), m.of);
    tensor_id sum = flagged(k, add_parts_apply(k->r.out, m.sum, parts), m.of);
    k->r.map[m.of] = sum;
    if (!is_large(k->r.in, m.of)) return;
    k->share[m.of] = sum;
    tensor_id whole = flagged(k, gather_ranks_apply(k->r.out, sum, *graph_shape(k->r.in, m.of)), m.of);
    k->whole = (movement){ .received = whole, .sent = sum, .of = m.of };
}

static void end_all(sharder *k) {
    end_whole(k);
    end_parts(k);
    end_whole(k);
}

/* In the place of sum = add_into(sum, x). */
static void begin_parts(sharder *k, const node *n) {
    const graph *in = k->r.in;
    tensor_id of = node_out(in, n, 0), x = k->r.map[node_in(in, n, 1)], received;
    int64_t elements = shape_elements(graph_shape(in, of));
    end_whole(k);
    end_parts(k);
    k->r.out->phase = PHASE_REDUCE, k->r.out->site = n->site;
    if (is_large(in, of))
        received = exchange_apply(k->r.out, x, k->ranks, share_of(k, elements));
    else
        received = gather_ranks_apply(k->r.out, x, SHAPE(k->ranks, elements));
    k->parts = (movement){ flagged(k, received, of), x, k->r.map[node_in(in, n, 0)], of };
}

/* Does the node wait for what is under way, or write over what is being sent? */
static bool waits(const sharder *k, const node *n) {
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(k->r.in, n, i);
        if (t && (t == k->parts.of || t == k->whole.of)) return true;
        if (t && k->parts.received && k->r.map[t] == k->parts.sent) return true;
    }
    return false;
}

static void copy_node(sharder *k, node_id id) {
    enum { MOST = 64 };
    const graph *in = k->r.in;
    const node *n = graph_node(in, id);
    tensor_id inputs[MOST];
    bool place = false; /* who only gives a result its place means the sum where it stays */
    if (waits(k, n)) end_all(k);
    for (uint32_t i = 0; i < n->in_count && i < MOST; i++) {
        tensor_id t = node_in(in, n, i);
        bool stays = t && k->share[t] && n->op->places >> i & 1u;
        inputs[i] = !t ? 0 : stays ? k->share[t] : k->r.map[t];
        place |= stays;
    }
    if (place)
        rewrite_node_inputs(&k->r, id, inputs, n->in_count);
    else
        rewrite_node(&k->r, id);
}

/* Sums of large tensors are kept as shares. */
static void keep_shares(sharder *k) {
    const graph *in = k->r.in;
    for (node_id id = 1; id < in->nodes.count; id++) {
        const node *n = graph_node(in, id);
        if (n->op != &op_add_into || !is_large(in, node_out(in, n, 0))) continue;
        tensor_id source = node_in(in, n, 0);
        rewrite_source_shape(&k->r, source, SHAPE(share_of(k, shape_elements(graph_shape(in, source)))));
    }
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    (void)s;
    sharder k = { .ranks = c->ranks, .share = memory_new(in->tensors.count, sizeof(tensor_id)) };
    status result = rewrite_open(&k.r, in, out);
    if (!k.share) graph_no_memory(out);
    bool apply = c->training && c->ranks > 1;
    if (!out->failed && apply) keep_shares(&k);
    for (node_id id = 1; id < in->nodes.count && !out->failed; id++) {
        const node *n = graph_node(in, id);
        if (apply && n->op == &op_add_into)
            begin_parts(&k, n);
        else
            copy_node(&k, id);
    }
    if (!out->failed) end_all(&k);
    memory_free(k.share);
    status closed = rewrite_close(&k.r);
    return result != STATUS_OK ? result : closed;
}

const pass pass_sharding = { .name = "sharding",
                             .help = "what ranks share of a training: copies, sums alone",
                             .values = "auto, copies",
                             .paper = "Rajbhandari et al. 2020",
                             .class = PASS_EXACT,
                             .stage = PASS_STEP,
                             .frees = 1u << ROLE_GRADIENT,
                             .training_only = true,
                             .parse = parse,
                             .settings = settings,
                             .check = check,
                             .run = run };
