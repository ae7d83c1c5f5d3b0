#include "passes/precision/precision_weights.h"

#include "base/memory.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/cast/cast.h"
#include "ops/embedding/embedding.h"
#include "ops/matmul/matmul.h"
#include "passes/pass.h"

enum { TABLE = 1 }; /* place of an embedding's */

/* By tensor: something reads it that wants f32. */
static void mark_wide(const graph *g, bool *wide) {
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->in_count; i++)
            wide[node_in(g, n, i)] |=
                !(n->op == &op_matmul && i == MATMUL_B) && !(n->op == &op_embedding && i == TABLE);
    }
}

/* An adapter's weights have files of their own. */
static bool is_matrix_of_model(const graph *g, tensor_id t) {
    const tensor *x = graph_tensor(g, t);
    float deviation;
    return !x->producer && x->role == ROLE_PARAMETER && x->dtype == DTYPE_F32 && x->shape.rank >= 2 &&
           !pass_of_parameter(graph_name(g, t), &x->shape, &deviation);
}

/* Rows of a table are widened as they are picked. */
static void rewrite_one(rewrite *r, node_id id) {
    const node *n = graph_node(r->in, id);
    tensor_id y = node_out(r->in, n, 0);
    rewrite_node(r, id);
    if (n->op == &op_embedding && r->map[y] && dtype_is_half((dtype)graph_tensor(r->out, r->map[y])->dtype))
        r->map[y] = cast_apply(r->out, r->map[y], DTYPE_F32);
}

status precision_weights_run(const graph *in, dtype type, graph *out) {
    rewrite r;
    TRY(rewrite_open(&r, in, out));
    bool *wide = memory_new(in->tensors.count, sizeof *wide);
    if (!wide) graph_no_memory(out);
    if (wide) mark_wide(in, wide);
    for (tensor_id t = 1; t < in->tensors.count && wide; t++)
        if (!wide[t] && is_matrix_of_model(in, t)) rewrite_source_type(&r, t, type);
    for (node_id id = 1; id < in->nodes.count && !out->failed; id++) rewrite_one(&r, id);
    memory_free(wide);
    return rewrite_close(&r);
}
