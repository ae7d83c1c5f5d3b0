/* What waits in memory goes to a file: the optimizer's state, which only updates read and write, and
 * activations, from the last kernel of forward that reads them to the first of backward. The pass only says
 * what lives in a file (POOL_FILE) and puts copies there and back (ops/move) into the graph; pieces are cut
 * by lower/pieces.h and moved by exec/transfer.c, ahead of those who read them and behind those who write.
 *
 * States of fewer than 4,096 elements stay: together they are some thousandth of the bytes, and each would be
 * a transfer of its own. So do activations below 64 KiB, and what belongs to no block of the model: around
 * the loss backward reads at once what forward has made. Papers: Rajbhandari et al., "ZeRO-Infinity: breaking
 * the GPU memory wall for extreme scale deep learning", arXiv:2104.07857, for disks; Rhu et al., "vDNN:
 * virtualized deep neural networks for scalable, memory-efficient neural network design", arXiv:1602.08124,
 * for activations. */
#include <string.h>

#include "base/memory.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/move/move.h"
#include "passes/pass.h"

enum { SMALL = 4096, SMALL_BYTES = 64 << 10 };
enum { OPTIMIZER = 1, ACTIVATIONS = 2, FORMS = 3 };

static const char *const forms[] = { "", "optimizer", "activations", "optimizer+activations" };

static status parse(const char *text, pass_setting *out) {
    for (int what = OPTIMIZER; what <= FORMS; what++) {
        if (strcmp(text, forms[what]) != 0) continue;
        *out = (pass_setting){ .value = { what }, .class = PASS_EXACT };
        strcpy(out->text, text);
        return STATUS_OK;
    }
    return status_set(STATUS_INVALID,
                      "--offload: '%s' is neither off, optimizer, activations nor optimizer+activations",
                      text);
}

/* ---- what can move ---- */

/* State number s of node n, where it can live in a file; 0: it can't. */
static tensor_id large_state(const graph *g, const node *n, uint32_t s) {
    tensor_id t = node_in(g, n, n->op->states[s].in);
    if (!t || graph_tensor(g, t)->producer || graph_tensor(g, t)->role != ROLE_STATE) return 0;
    return shape_elements(graph_shape(g, t)) < SMALL ? 0 : t;
}

static bool any_state(const graph *g) {
    for (node_id id = 1; id < g->nodes.count; id++)
        for (uint32_t s = 0; s < graph_node(g, id)->op->state_count; s++)
            if (large_state(g, graph_node(g, id), s)) return true;
    return false;
}

/* By tensor: the last node of forward that reads it, where it waits for backward; 0: it does not, or stays.
 * What is read through a view is read. */
static node_id *find_waiting(const graph *g) {
    node_id *last = memory_new(g->tensors.count, sizeof *last);
    bool *waits = memory_new(g->tensors.count, sizeof *waits);
    for (node_id id = 1; last && waits && id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (n->phase == PHASE_FORWARD)
            for (uint32_t i = 0; i < n->out_count; i++) last[graph_storage(g, node_out(g, n, i), NULL)] = id;
        for (uint32_t i = 0; i < n->in_count; i++) {
            tensor_id owner = node_in(g, n, i) ? graph_storage(g, node_in(g, n, i), NULL) : 0;
            if (n->phase == PHASE_FORWARD)
                last[owner] = id;
            else
                waits[owner] = true;
        }
    }
    for (tensor_id t = 0; last && waits && t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        const node *maker = t && x->producer ? graph_node(g, x->producer) : NULL;
        bool may = maker && maker->phase == PHASE_FORWARD && maker->site != SITE_NONE &&
                   x->role == ROLE_ACTIVATION && !x->base && !(maker->op->traits & OP_GATHER) &&
                   !(x->flags & TENSOR_KEEP);
        if (!may || !waits[t] || graph_tensor_bytes(g, t) < SMALL_BYTES) last[t] = 0;
    }
    memory_free(waits);
    return last;
}

static bool any_waiting(const graph *g) {
    node_id *last = find_waiting(g);
    bool any = false;
    for (tensor_id t = 1; last && t < g->tensors.count; t++) any |= last[t] != 0;
    memory_free(last);
    return any;
}

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    (void)without;
    uint32_t count = 0;
    if (!c->training || !c->folder) return 0;
    int what = (any_state(g) ? OPTIMIZER : 0) | (any_waiting(g) ? ACTIVATIONS : 0);
    for (int some = OPTIMIZER; some <= what && count < room; some++)
        if ((some & what) == some && parse(forms[some], &out[count]) == STATUS_OK) count++;
    return count;
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    if (!c->folder)
        return status_set(STATUS_INVALID,
                          "--offload %s: where to? name a folder on a disk with --offload-to DIR", s->text);
    if (c->training && s->value[0] & OPTIMIZER && !any_state(g))
        return status_set(
            STATUS_INVALID,
            "--offload %s: this optimizer keeps no state of 4,096 numbers or more; say --optimizer "
            "adamw, or leave --offload out",
            s->text);
    if (c->training && s->value[0] & ACTIVATIONS && !any_waiting(g))
        return status_set(
            STATUS_INVALID,
            "--offload %s: nothing of 64 KiB or more waits for backward in a block of this model; "
            "leave activations out",
            s->text);
    return STATUS_OK;
}

/* ---- rewriting ---- */

typedef struct {
    rewrite r;
    const node_id *last; /* by tensor, see find_waiting; NULL: no activation moves */
    tensor_id *file;     /* by tensor: its copy in the file */
    tensor_id *again;    /* by tensor: what backward reads in its place; 0: not (yet) anything else */
} mover;

static void move_states(mover *m, const node *n) {
    for (uint32_t k = 0; k < n->op->state_count; k++) {
        tensor_id t = large_state(m->r.in, n, k);
        if (t) graph_tensor(m->r.out, m->r.map[t])->pool = POOL_FILE;
    }
}

/* After node id of forward, whatever is not read there any more. */
static void move_away(mover *m, node_id id) {
    const graph *in = m->r.in;
    const node *n = graph_node(in, id);
    for (uint32_t i = 0; m->last && i < (uint32_t)n->in_count + n->out_count; i++) {
        tensor_id t = i < n->in_count ? node_in(in, n, i) : node_out(in, n, i - n->in_count);
        tensor_id owner = t ? graph_storage(in, t, NULL) : 0;
        if (owner && m->last[owner] == id && !m->file[owner])
            m->file[owner] = move_apply(m->r.out, m->r.map[owner], POOL_FILE);
    }
}

/* What a node of a later phase reads instead of t: a copy from the file, or a view of one, made once. */
static tensor_id fetched(mover *m, tensor_id t) {
    const graph *in = m->r.in;
    node_id id = graph_tensor(in, t)->producer;
    if (m->again[t]) return m->again[t];
    if (m->file[t]) return m->again[t] = move_apply(m->r.out, m->file[t], POOL_MEMORY);
    const node *n = graph_node(in, id);
    if (!id || n->phase != PHASE_FORWARD || !(n->op->traits & OP_VIEW)) return m->r.map[t];
    if (fetched(m, node_in(in, n, 0)) == m->r.map[node_in(in, n, 0)]) return m->r.map[t];
    for (uint32_t i = 0; i < n->in_count; i++)
        if (node_in(in, n, i)) m->again[node_in(in, n, i)] = fetched(m, node_in(in, n, i));
    rewrite_node_as(&m->r, id, m->again, m->again, PHASE_BACKWARD);
    return m->again[t];
}

static void copy_later(mover *m, node_id id) {
    const graph *in = m->r.in;
    const node *n = graph_node(in, id);
    m->r.out->site = n->site;
    m->r.out->phase = (phase)n->phase;
    for (uint32_t i = 0; i < n->in_count; i++)
        if (node_in(in, n, i)) m->again[node_in(in, n, i)] = fetched(m, node_in(in, n, i));
    rewrite_node_as(&m->r, id, m->again, m->r.map, (phase)n->phase);
    for (uint32_t i = 0; i < n->out_count; i++) m->again[node_out(in, n, i)] = m->r.map[node_out(in, n, i)];
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    (void)c;
    mover m = { .file = memory_new(in->tensors.count, sizeof(tensor_id)),
                .again = memory_new(in->tensors.count, sizeof(tensor_id)),
                .last = s->value[0] & ACTIVATIONS ? find_waiting(in) : NULL };
    status result = rewrite_open(&m.r, in, out);
    if (!m.file || !m.again || (s->value[0] & ACTIVATIONS && !m.last))
        graph_fail(out, "no memory to rewrite a graph");
    for (node_id id = 1; id < in->nodes.count && !out->failed; id++) {
        const node *n = graph_node(in, id);
        if (s->value[0] & OPTIMIZER) move_states(&m, n);
        if (n->phase == PHASE_FORWARD) {
            rewrite_node(&m.r, id);
            move_away(&m, id);
        } else {
            copy_later(&m, id);
        }
    }
    memory_free(m.file);
    memory_free(m.again);
    memory_free((void *)m.last);
    status closed = rewrite_close(&m.r);
    return result != STATUS_OK ? result : closed;
}

const pass pass_offload = { .name = "offload",
                            .help = "the optimizer's state, or activations, in a file in --offload-to",
                            .values = "auto, off, optimizer, activations, optimizer+activations",
                            .paper = "arXiv:2104.07857",
                            .class = PASS_EXACT,
                            .stage = PASS_STEP,
                            .training_only = true,
                            .parse = parse,
                            .settings = settings,
                            .check = check,
                            .run = run };
