/* Optimizer state in a file: what only updates read and write lies on a disk, and passes through a few slots
 * of memory while they run. The pass only says where states live (POOL_FILE); their pieces are made by
 * lower/pieces.h and moved by exec/transfer.c, ahead of the updates and behind them.
 *
 * States of fewer than 4,096 elements stay: together they are some thousandth of the bytes, and each would be
 * a transfer of its own. Paper: Ren et al., "ZeRO-Offload: democratizing billion-scale model training",
 * arXiv:2101.06840; Rajbhandari et al., "ZeRO-Infinity", arXiv:2104.07857, for disks. */
#include <string.h>

#include "ir/op.h"
#include "ir/rewrite.h"
#include "passes/pass.h"

enum { SMALL = 4096 };

static status parse(const char *text, pass_setting *out) {
    *out = (pass_setting){ .text = "optimizer", .class = PASS_EXACT };
    if (strcmp(text, "optimizer") == 0) return STATUS_OK;
    return status_set(STATUS_INVALID, "--offload: '%s' is neither off nor optimizer", text);
}

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

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    (void)without;
    if (!room || !c->training || !c->folder || !any_state(g)) return 0;
    return parse("optimizer", out) == STATUS_OK;
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    if (!c->folder)
        return status_set(STATUS_INVALID,
                          "--offload %s: where to? name a folder on a disk with --offload-to DIR", s->text);
    if (!c->training || any_state(g)) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--offload %s: this optimizer keeps no state of 4,096 numbers or more; say --optimizer "
                      "adamw, or leave --offload out",
                      s->text);
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    (void)s, (void)c;
    rewrite r;
    TRY(rewrite_open(&r, in, out));
    for (node_id id = 1; id < in->nodes.count && !out->failed; id++) {
        const node *n = graph_node(in, id);
        for (uint32_t k = 0; k < n->op->state_count; k++) {
            tensor_id t = large_state(in, n, k);
            if (t) graph_tensor(out, r.map[t])->pool = POOL_FILE;
        }
        rewrite_node(&r, id);
    }
    return rewrite_close(&r);
}

const pass pass_offload = { .name = "offload",
                            .help = "the optimizer's state in a file in --offload-to, through small buffers",
                            .values = "auto, off, optimizer",
                            .paper = "arXiv:2104.07857",
                            .class = PASS_EXACT,
                            .stage = PASS_STEP,
                            .training_only = true,
                            .parse = parse,
                            .settings = settings,
                            .check = check,
                            .run = run };
