/* Weights that ranks have shares of are gathered where forward or backward reads them, and die with the last
 * reader nearby: in a block's forward, and again in its backward. A cast of a weight is made of the share,
 * and its narrower numbers travel; views are made anew of what has come.
 *
 * Which gathers there are, and in which order, is settled before the first node is copied (find_needs). So
 * some can be under way ahead of the one that is waited for. */
#include "base/memory.h"
#include "ir/op.h"
#include "ops/arrive/arrive.h"
#include "ops/cast/cast.h"
#include "ops/gather_ranks/gather_ranks.h"
#include "ops/move/move.h"
#include "passes/sharding/sharding.h"

typedef struct {
    tensor_id root;           /* a weight, or a cast of one */
    node_id by;               /* that it is first gathered for */
    tensor_id received, sent; /* once it is under way */
} need;

struct fetcher {
    rewrite *r;
    share_setting setting;
    tensor_id *share;  /* by weight: what this rank has of it, in r->out */
    tensor_id *root;   /* by tensor: the weight, cast or copy that it is, or is a view of; 0: none */
    uint32_t *held;    /* by root: 1 + the need whose result is in r->map; 0: none */
    uint32_t *made_of; /* by view: the same, when it was made; 0: it was not */
    need *needs;       /* in the order of nodes */
    uint32_t count, begun, come;
};

/* ---- what is fetched ---- */

static bool is_lazy_copy(const graph *g, const node *n, const tensor_id *root) {
    tensor_id x = node_in(g, n, 0), y = node_out(g, n, 0);
    return (n->op == &op_cast || n->op == &op_move) && x && root[x] == x && !graph_tensor(g, x)->producer &&
           y && !graph_tensor(g, y)->base && !(graph_tensor(g, y)->flags & TENSOR_KEEP);
}

static bool is_lazy_view(const graph *g, const node *n, const tensor_id *root) {
    tensor_id x = node_in(g, n, 0);
    return n->op->traits & OP_VIEW && x && root[x];
}

static void find_roots(fetcher *f, const int64_t *cut) {
    const graph *g = f->r->in;
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (cut[t] && graph_tensor(g, t)->role == ROLE_PARAMETER) f->root[t] = t;
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (n->phase >= PHASE_REDUCE) continue;
        if (is_lazy_copy(g, n, f->root)) f->root[node_out(g, n, 0)] = node_out(g, n, 0);
        if (is_lazy_view(g, n, f->root)) f->root[node_out(g, n, 0)] = f->root[node_in(g, n, 0)];
    }
}

bool fetch_takes(const fetcher *f, node_id id) {
    const node *n = graph_node(f->r->in, id);
    return n->phase < PHASE_REDUCE && n->out_count && f->root[node_out(f->r->in, n, 0)] != 0;
}

/* ---- when ---- */

static int32_t first_kept(const fetcher *f) {
    const graph *g = f->r->in;
    int32_t blocks = 0;
    for (node_id id = 1; id < g->nodes.count; id++)
        if (graph_node(g, id)->site >= blocks) blocks = graph_node(g, id)->site + 1;
    return f->setting.keep < blocks ? blocks - (int32_t)f->setting.keep : 0;
}

/* Nodes of one block and phase that follow each other are a visit. What was read in this one or in the one
 * before is still there; in blocks that are kept so is what forward has fetched. */
static void find_needs(fetcher *f, uint32_t *visited) {
    const graph *g = f->r->in;
    int32_t site = SITE_NONE, kept = first_kept(f);
    uint32_t visit = 2;
    phase now = PHASE_FORWARD;
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (n->phase >= PHASE_REDUCE || fetch_takes(f, id)) continue;
        if (n->site != site || n->phase != now) visit++, site = n->site, now = (phase)n->phase;
        for (uint32_t i = 0; i < n->in_count; i++) {
            tensor_id root = f->root[node_in(g, n, i)];
            if (!root) continue;
            bool stays = f->setting.keep && n->site != SITE_NONE && n->site >= kept && visited[root];
            if (!stays && visited[root] + 1 < visit) f->needs[f->count++] = (need){ .root = root, .by = id };
            visited[root] = visit;
        }
    }
}

static uint32_t most_needs(const fetcher *f) {
    const graph *g = f->r->in;
    uint32_t most = 1;
    for (node_id id = 1; id < g->nodes.count; id++)
        for (uint32_t i = 0; i < graph_node(g, id)->in_count; i++)
            most += f->root[node_in(g, graph_node(g, id), i)] != 0;
    return most;
}

static status fill_tables(fetcher *f, const int64_t *cut) {
    uint32_t tensors = f->r->in->tensors.count;
    f->share = memory_new(tensors, sizeof *f->share);
    f->root = memory_new(tensors, sizeof *f->root);
    f->held = memory_new(tensors, sizeof *f->held);
    f->made_of = memory_new(tensors, sizeof *f->made_of);
    uint32_t *visited = memory_new(tensors, sizeof *visited);
    if (f->root) find_roots(f, cut);
    if (f->root) f->needs = memory_new(most_needs(f), sizeof *f->needs);
    bool enough = f->share && f->root && f->held && f->made_of && visited && f->needs;
    if (enough) find_needs(f, visited);
    for (tensor_id t = 1; enough && t < tensors; t++)
        if (f->root[t] == t) f->share[t] = f->r->map[t];
    memory_free(visited);
    return enough ? STATUS_OK : status_set(STATUS_FAILED, "no memory to rewrite a graph");
}

status fetch_open(rewrite *r, const share_setting *s, const int64_t *cut, fetcher **out) {
    fetcher *f = *out = memory_new(1, sizeof *f);
    if (!f) return status_set(STATUS_FAILED, "no memory to rewrite a graph");
    *f = (fetcher){ .r = r, .setting = *s };
    return fill_tables(f, cut);
}

void fetch_close(fetcher *f) {
    if (!f) return;
    memory_free(f->share);
    memory_free(f->root);
    memory_free(f->held);
    memory_free(f->made_of);
    memory_free(f->needs);
    memory_free(f);
}

/* ---- how ---- */

/* A cast or copy is made of the share each time: so its numbers live only as long as they travel. */
static void begin(fetcher *f, need *x) {
    const graph *in = f->r->in;
    graph *out = f->r->out;
    node_id maker = graph_tensor(in, x->root)->producer;
    const node *copy = graph_node(in, maker);
    x->sent = f->share[maker ? node_in(in, copy, 0) : x->root];
    if (maker) x->sent = graph_add(out, copy->op, &x->sent, 1, node_attributes(in, copy));
    x->received = gather_group_apply(out, x->sent, 0, *graph_shape(in, x->root), f->setting.group);
}

static void await(fetcher *f, uint32_t which) {
    need *x = &f->needs[which];
    while (f->begun < f->count && f->begun <= which + (uint32_t)f->setting.ahead)
        begin(f, &f->needs[f->begun++]);
    f->r->map[x->root] = arrive_apply(f->r->out, x->received, x->sent);
    f->held[x->root] = which + 1;
}

static void make_view(fetcher *f, tensor_id t, phase as) {
    const graph *in = f->r->in;
    node_id maker = graph_tensor(in, t)->producer;
    tensor_id root = f->root[t];
    if (t == root) return;
    make_view(f, node_in(in, graph_node(in, maker), 0), as);
    if (f->made_of[t] != f->held[root]) rewrite_node_as(f->r, maker, f->r->map, f->r->map, as);
    f->made_of[t] = f->held[root];
}

void fetch_inputs(fetcher *f, node_id id) {
    const node *n = graph_node(f->r->in, id);
    f->r->out->phase = n->phase, f->r->out->site = n->site;
    while (f->come < f->count && f->needs[f->come].by == id) await(f, f->come++);
    for (uint32_t i = 0; i < n->in_count; i++)
        if (f->root[node_in(f->r->in, n, i)]) make_view(f, node_in(f->r->in, n, i), (phase)n->phase);
}
