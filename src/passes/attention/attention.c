/* Attention without the score matrix: every `attention` node becomes `attention_flash`, whose memory is
 * linear in the context. Paper: Dao, "FlashAttention-2", arXiv:2307.08691; Rabe, Staats, "Self-attention does
 * not need O(n^2) memory", arXiv:2112.05682. */
#include <string.h>

#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_tile.h"
#include "ops/attention_flash/attention_flash.h"
#include "passes/pass.h"

static status parse(const char *text, pass_setting *out) {
    if (strcmp(text, "plain") == 0) {
        *out = (pass_setting){ .text = "off" };
        return STATUS_OK;
    }
    if (strcmp(text, "flash") != 0)
        return status_set(STATUS_INVALID, "--attention: '%s' is neither auto, flash nor plain", text);
    *out = (pass_setting){ .text = "flash", .class = PASS_REASSOCIATING };
    return STATUS_OK;
}

/* Are the probabilities of this node no more than what the tiles of flash may take, of which each thread has
 * its own? Then plain attention may be the smaller one. */
static bool is_small(const graph *g, const node *n, const pass_context *c) {
    enum { BUFFERS = 3, OPERANDS = 8 }; /* of scores; of rows of a head: no fewer than any kernel has */
    const shape *probs = graph_shape(g, node_out(g, n, 1)), *y = graph_shape(g, node_out(g, n, 0));
    int64_t keys = probs->dim[3], size = y->dim[y->rank - 1] / probs->dim[1];
    int64_t tiles = (int64_t)c->threads * ATTENTION_TILE * BUFFERS * (keys + OPERANDS * size);
    return shape_elements(probs) <= tiles;
}

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    bool any = false;
    for (node_id id = 1; room && id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (n->op != &op_attention) continue;
        if (!any) *without = PASS_NEARLY_FREE; /* but for sums of rows, and operands of its calls in tables */
        if (is_small(g, n, c)) *without = PASS_OPTIONAL;
        any = true;
    }
    return any ? parse("flash", &out[0]) == STATUS_OK : 0;
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    (void)s, (void)c;
    rewrite r;
    TRY(rewrite_open(&r, in, out));
    for (node_id id = 1; id < in->nodes.count; id++) {
        const node *n = graph_node(in, id);
        if (n->op == &op_attention)
            rewrite_node_with(&r, id, &op_attention_flash);
        else
            rewrite_node(&r, id);
    }
    return rewrite_close(&r);
}

const pass pass_attention = { .name = "attention",
                              .help = "attention without the score matrix, memory linear in the context",
                              .values = "auto, flash, plain",
                              .paper = "arXiv:2307.08691",
                              .class = PASS_REASSOCIATING,
                              .stage = PASS_FORWARD,
                              .parse = parse,
                              .settings = settings,
                              .run = run };
