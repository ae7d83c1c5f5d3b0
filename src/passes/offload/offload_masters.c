/* Master weights away from memory. Beside precisions that compute with copies of 16 bits, the f32 weights
 * themselves are read by the casts that make the copies and by their updates, and both can be run piece by
 * piece. So they are away, pass through the slots for a cast, and again for the update.
 *
 * What else reads one, such as the table of embeddings, gets a copy of the whole in memory for as long as the
 * phase needs it. */
#include "base/memory.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/cast/cast.h"
#include "ops/move/move.h"
#include "passes/offload/offload.h"

enum { READ_AS_COPY = 1, READ_AS_VIEW = 2, UPDATED_WHOLE = 4 };

static bool may_be_master(const graph *g, tensor_id t) {
    const tensor *x = graph_tensor(g, t);
    return t && !x->producer && x->role == ROLE_PARAMETER && x->dtype == DTYPE_F32 &&
           x->flags & TENSOR_TRAINABLE && shape_elements(&x->shape) >= OFFLOAD_SMALL;
}

/* Does node n write over its input i? */
static bool writes_over(const node *n, uint32_t i) {
    for (uint32_t a = 0; a < n->op->alias_count; a++)
        if (n->op->aliases[a].must && n->op->aliases[a].in == i) return true;
    return false;
}

/* By tensor: how it is read. NULL: no memory. */
static uint8_t *find_uses(const graph *g) {
    uint8_t *use = memory_new(g->tensors.count, sizeof *use);
    for (node_id id = 1; use && id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->in_count; i++) {
            tensor_id t = node_in(g, n, i);
            if (!may_be_master(g, t)) continue;
            if (n->op->traits & (OP_VIEW | OP_GATHER)) use[t] |= READ_AS_VIEW;
            if (n->op == &op_cast && dtype_is_half((dtype)graph_tensor(g, node_out(g, n, 0))->dtype))
                use[t] |= READ_AS_COPY;
            if (writes_over(n, i) && !op_in_pieces(n->op)) use[t] |= UPDATED_WHOLE;
        }
    }
    return use;
}

static bool any_use(const graph *g, uint8_t of) {
    uint8_t *use = find_uses(g);
    bool any = false;
    for (tensor_id t = 1; use && t < g->tensors.count; t++) any |= use[t] == of;
    memory_free(use);
    return any;
}

bool offload_any_master(const graph *g) { return any_use(g, READ_AS_COPY); }
bool offload_masters_whole(const graph *g) { return any_use(g, READ_AS_COPY | UPDATED_WHOLE); }

/* ---- rewriting ---- */

typedef struct {
    rewrite r;
    const uint8_t *use;
    tensor_id *whole[2]; /* by tensor: its copy in memory, in forward and after it; 0: none yet */
} mover;

static void copy_node(mover *m, node_id id) {
    const graph *in = m->r.in;
    const node *n = graph_node(in, id);
    bool any = false;
    if (op_in_pieces(n->op)) {
        rewrite_node(&m->r, id);
        return;
    }
    tensor_id *inputs = memory_new(n->in_count, sizeof *inputs);
    if (!inputs) {
        graph_no_memory(m->r.out);
        return;
    }
    m->r.out->phase = (phase)n->phase, m->r.out->site = n->site;
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(in, n, i);
        inputs[i] = t ? m->r.map[t] : 0;
        if (!t || m->use[t] != READ_AS_COPY) continue;
        tensor_id *whole = &m->whole[n->phase != PHASE_FORWARD][t];
        if (!*whole) *whole = move_apply(m->r.out, m->r.map[t], false);
        inputs[i] = *whole, any = true;
    }
    if (any)
        rewrite_node_inputs(&m->r, id, inputs, n->in_count);
    else
        rewrite_node(&m->r, id);
    memory_free(inputs);
}

status offload_masters(const graph *in, graph *out) {
    mover m = { .use = find_uses(in),
                .whole = { memory_new(in->tensors.count, sizeof(tensor_id)),
                           memory_new(in->tensors.count, sizeof(tensor_id)) } };
    status result = rewrite_open(&m.r, in, out);
    if (!m.use || !m.whole[0] || !m.whole[1]) graph_no_memory(out);
    for (tensor_id t = 1; t < in->tensors.count && !out->failed; t++)
        if (m.use[t] == READ_AS_COPY) graph_tensor(out, m.r.map[t])->away = true;
    for (node_id id = 1; id < in->nodes.count && !out->failed; id++) copy_node(&m, id);
    memory_free((void *)m.use);
    memory_free(m.whole[0]);
    memory_free(m.whole[1]);
    status closed = rewrite_close(&m.r);
    return result != STATUS_OK ? result : closed;
}
