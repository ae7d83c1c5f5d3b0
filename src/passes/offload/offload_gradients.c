/* Gradients away from memory, for as long as nothing needs them: from the block that made one to its update,
 * and where micro-batches add up from one of them to the next. What adds to a gradient or takes its norm
 * reads it in memory; updates read it piece by piece where it is.
 *
 * Which uses lie together is told by blocks: while the same one is at work, or none at all, a gradient stays.
 * Sums of squares are taken right where their gradient is finished, for that needs nothing else, and so each
 * leaves once. Sums over micro-batches are away from the beginning, others get a place
 * there when they first leave. */
#include "base/memory.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/move/move.h"
#include "passes/offload/offload.h"

/* ---- which ---- */

static bool is_large(const graph *g, tensor_id owner) {
    return shape_elements(graph_shape(g, owner)) >= OFFLOAD_SMALL;
}

/* Does node n write its input i, a parameter, anew? */
static bool updates(const graph *g, const node *n) {
    for (uint32_t a = 0; a < n->op->alias_count && n->phase == PHASE_UPDATE; a++) {
        tensor_id t = n->op->aliases[a].must ? node_in(g, n, n->op->aliases[a].in) : 0;
        if (t && graph_tensor(g, graph_storage(g, t, NULL))->role == ROLE_PARAMETER) return true;
    }
    return false;
}

/* By owner of a storage: is it a gradient that may leave? Those that several programs add to are known by
 * being added to, in every one of them; others by their update. */
static bool *find_gradients(const graph *g) {
    bool *leaves = memory_new(g->tensors.count, sizeof *leaves);
    for (node_id id = 1; leaves && id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->in_count && updates(g, n); i++) {
            tensor_id t = node_in(g, n, i), owner = t ? graph_storage(g, t, NULL) : 0;
            if (owner && graph_tensor(g, t)->flags & TENSOR_GRADIENT) leaves[owner] |= is_large(g, owner);
        }
        for (uint32_t i = 0; i < n->out_count; i++) {
            tensor_id t = node_out(g, n, i), owner = graph_storage(g, t, NULL);
            if (graph_tensor(g, t)->flags & TENSOR_GRADIENT && graph_tensor(g, owner)->role == ROLE_GRADIENT)
                leaves[owner] |= is_large(g, owner);
        }
    }
    for (tensor_id t = 1; leaves && t < g->tensors.count; t++) { /* sums of units, also where no unit ends */
        const tensor *x = graph_tensor(g, t);
        if (!x->producer && x->role == ROLE_GRADIENT && x->flags & TENSOR_GRADIENT)
            leaves[t] = is_large(g, t);
    }
    for (node_id id = 1; leaves && id < g->nodes.count; id++) { /* views would have to move along */
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->in_count && n->op->traits & (OP_VIEW | OP_GATHER); i++)
            if (node_in(g, n, i)) leaves[graph_storage(g, node_in(g, n, i), NULL)] = false;
    }
    return leaves;
}

bool offload_any_gradient(const graph *g) {
    bool *leaves = find_gradients(g), any = false;
    for (tensor_id t = 1; leaves && t < g->tensors.count; t++) any |= leaves[t];
    memory_free(leaves);
    return any;
}

/* ---- when ---- */

/* A node that uses a gradient, and the next one that does. */
typedef struct {
    uint32_t next; /* of the same gradient: a place in `order`; 0: none */
    uint32_t more; /* of the same node; 0: none */
    tensor_id owner;
} gradient_use;

typedef struct {
    rewrite r;
    bool *leaves;     /* by tensor, as are: */
    tensor_id *there; /* what it is away; 0: it has no place there yet */
    bool *here;       /* what r.map says of it is in memory */
    bool *changed;    /* since it came */
    node_id *order;   /* nodes as they run, from 1 on */
    uint32_t *blocks; /* by place in the order: how often another block, or none, has begun to work */
    gradient_use *uses;
    uint32_t *first; /* by place in the order: its uses; 0: none */
    uint32_t count;  /* of places, + 1 */
} mover;

/* What needs nothing but one gradient and sources, and changes nothing that lasts, runs as soon as it is
 * there. Returns what it waits for; 0: it stays. */
static node_id runs_after(const mover *m, node_id id) {
    const graph *g = m->r.in;
    const node *n = graph_node(g, id);
    node_id after = 0;
    if (n->phase != PHASE_UPDATE || n->op->traits & (OP_VIEW | OP_GATHER) || n->op->alias_count) return 0;
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(g, n, i);
        if (!t || !graph_tensor(g, t)->producer) continue;
        if (after || !m->leaves[graph_storage(g, t, NULL)]) return 0;
        after = graph_tensor(g, t)->producer;
    }
    return after;
}

static bool put_in_order(mover *m) {
    uint32_t nodes = m->r.in->nodes.count;
    node_id *head = memory_new(nodes, sizeof *head), *next = memory_new(nodes, sizeof *next);
    bool *moved = memory_new(nodes, sizeof *moved), enough = head && next && moved;
    for (node_id id = nodes; enough && id-- > 1;) {
        node_id after = runs_after(m, id);
        if (!after) continue;
        next[id] = head[after], head[after] = id, moved[id] = true;
    }
    m->count = 1;
    for (node_id id = 1; enough && id < nodes; id++) {
        if (moved[id]) continue;
        m->order[m->count++] = id;
        for (node_id early = head[id]; early; early = next[early]) m->order[m->count++] = early;
    }
    memory_free(head);
    memory_free(next);
    memory_free(moved);
    return enough;
}

/* Updates belong to the block that they come after. */
static void count_blocks(mover *m) {
    int32_t site = SITE_NONE;
    uint32_t changes = 0;
    for (uint32_t k = 1; k < m->count; k++) {
        const node *n = graph_node(m->r.in, m->order[k]);
        if (n->phase != PHASE_UPDATE && n->site != site) site = n->site, changes++;
        m->blocks[k] = changes;
    }
}

static void list_uses(mover *m, uint32_t *latest) {
    const graph *g = m->r.in;
    uint32_t count = 1;
    for (uint32_t k = m->count; k-- > 1;) {
        const node *n = graph_node(g, m->order[k]);
        for (uint32_t i = 0; i < (uint32_t)n->in_count + n->out_count; i++) {
            tensor_id t = i < n->in_count ? node_in(g, n, i) : node_out(g, n, i - n->in_count);
            tensor_id owner = t ? graph_storage(g, t, NULL) : 0;
            bool known = false;
            if (!owner || !m->leaves[owner]) continue;
            for (uint32_t u = m->first[k]; u; u = m->uses[u].more) known |= m->uses[u].owner == owner;
            if (known) continue;
            m->uses[count] = (gradient_use){ latest[owner], m->first[k], owner };
            m->first[k] = count++;
        }
        for (uint32_t u = m->first[k]; u; u = m->uses[u].more) latest[m->uses[u].owner] = k;
    }
}

/* ---- rewriting ---- */

static void bring(mover *m, tensor_id t, tensor_id owner) {
    graph *out = m->r.out;
    tensor_id copy = move_apply(out, m->there[owner], false);
    if (copy) graph_tensor(out, copy)->flags |= TENSOR_GRADIENT;
    m->r.map[t] = copy;
    m->here[owner] = true, m->changed[owner] = false;
}

/* What node n reads as its input i. */
static tensor_id read_as(mover *m, const node *n, uint32_t i) {
    tensor_id t = node_in(m->r.in, n, i), owner = t ? graph_storage(m->r.in, t, NULL) : 0;
    if (!owner || !m->leaves[owner]) return t ? m->r.map[t] : 0;
    if (n->op->places >> i & 1u && m->there[owner]) return m->there[owner];
    if (!m->here[owner] && op_in_pieces(n->op)) return m->there[owner];
    if (!m->here[owner]) bring(m, t, owner);
    return m->r.map[t];
}

/* Is what a gradient holds now read again, and by whom? */
static uint32_t next_reader(const mover *m, const gradient_use *u) {
    const node *n = u->next ? graph_node(m->r.in, m->order[u->next]) : NULL;
    for (uint32_t i = 0; n && i < n->in_count; i++) {
        tensor_id t = node_in(m->r.in, n, i);
        if (t && graph_storage(m->r.in, t, NULL) == u->owner && n->op->places >> i & 1u) return 0;
    }
    return u->next;
}

static void after_use(mover *m, uint32_t place, const gradient_use *u, tensor_id now) {
    uint32_t next = next_reader(m, u);
    bool stored = graph_tensor(m->r.in, u->owner)->role == ROLE_GRADIENT;
    bool last = !next && (!stored || u->next); /* what it holds is worth nothing any more */
    bool near = next && m->blocks[next] == m->blocks[place];
    if (!m->here[u->owner] || near) return;
    m->here[u->owner] = false;
    if (last || !m->changed[u->owner]) return;
    m->there[u->owner] = m->there[u->owner] ? move_into(m->r.out, m->r.map[now], m->there[u->owner])
                                            : move_apply(m->r.out, m->r.map[now], true);
}

/* The tensor of a gradient that node n leaves behind. */
static tensor_id version_after(const graph *g, const node *n, tensor_id owner) {
    for (uint32_t i = 0; i < n->out_count; i++)
        if (graph_storage(g, node_out(g, n, i), NULL) == owner) return node_out(g, n, i);
    for (uint32_t i = 0; i < n->in_count; i++)
        if (node_in(g, n, i) && graph_storage(g, node_in(g, n, i), NULL) == owner) return node_in(g, n, i);
    return 0;
}

static void copy_user(mover *m, uint32_t place) {
    enum { MOST = 64 };
    const graph *in = m->r.in;
    node_id id = m->order[place];
    const node *n = graph_node(in, id);
    tensor_id inputs[MOST];
    if (n->in_count > MOST) {
        graph_fail(m->r.out, "--offload gradients: %s has too many inputs", n->op->name);
        return;
    }
    m->r.out->phase = (phase)n->phase, m->r.out->site = n->site;
    for (uint32_t i = 0; i < n->in_count; i++) inputs[i] = read_as(m, n, i);
    rewrite_node_inputs(&m->r, id, inputs, n->in_count);
    for (uint32_t i = 0; i < n->out_count && !m->r.out->failed; i++) {
        tensor_id owner = graph_storage(in, node_out(in, n, i), NULL), now = m->r.map[node_out(in, n, i)];
        if (!m->leaves[owner]) continue;
        bool is_away = graph_tensor(m->r.out, graph_storage(m->r.out, now, NULL))->away;
        m->here[owner] = m->changed[owner] = !is_away;
        if (is_away) m->there[owner] = now;
    }
    for (uint32_t u = m->first[place]; u && !m->r.out->failed; u = m->uses[u].more)
        after_use(m, place, &m->uses[u], version_after(in, n, m->uses[u].owner));
}

static void copy_all(mover *m) {
    graph *out = m->r.out;
    for (tensor_id t = 1; t < m->r.in->tensors.count; t++) {
        if (!m->leaves[t] || graph_tensor(m->r.in, t)->producer) continue;
        graph_tensor(out, m->r.map[t])->away = true;
        m->there[t] = m->r.map[t];
    }
    for (uint32_t k = 1; k < m->count && !out->failed; k++) {
        if (m->first[k])
            copy_user(m, k);
        else
            rewrite_node(&m->r, m->order[k]);
    }
}

static bool mover_open(mover *m, const graph *in) {
    uint32_t tensors = in->tensors.count, nodes = in->nodes.count;
    m->leaves = find_gradients(in);
    m->there = memory_new(tensors, sizeof *m->there);
    m->here = memory_new(tensors, sizeof *m->here);
    m->changed = memory_new(tensors, sizeof *m->changed);
    m->order = memory_new(nodes, sizeof *m->order);
    m->blocks = memory_new(nodes, sizeof *m->blocks);
    m->first = memory_new(nodes, sizeof *m->first);
    m->uses = memory_new((size_t)in->edges.count + 1, sizeof *m->uses);
    uint32_t *latest = memory_new(tensors, sizeof *latest);
    bool enough = m->leaves && m->there && m->here && m->changed && m->order && m->blocks && m->first &&
                  m->uses && latest && put_in_order(m);
    if (enough) count_blocks(m), list_uses(m, latest);
    memory_free(latest);
    return enough;
}

status offload_gradients(const graph *in, graph *out) {
    mover m = { 0 };
    TRY(rewrite_open(&m.r, in, out));
    if (mover_open(&m, in))
        copy_all(&m);
    else
        graph_no_memory(out);
    void *all[] = { m.leaves, m.there, m.here, m.changed, m.order, m.blocks, m.first, m.uses };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) memory_free(all[i]);
    return rewrite_close(&m.r);
}
