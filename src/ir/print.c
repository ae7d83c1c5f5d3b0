#include "ir/print.h"

#include "base/hash.h"
#include "ir/op.h"

static void print_flags(const tensor *x, text *out) {
    static const struct {
        uint8_t flag;
        const char *name;
    } flags[] = { { TENSOR_KEEP, "keep" },
                  { TENSOR_TRAINABLE, "trainable" },
                  { TENSOR_DECAY, "decay" },
                  { TENSOR_GRADIENT, "gradient" } };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (x->flags & flags[i].flag) text_add(out, " %s", flags[i].name);
}

/* Shape, dtype, whose storage, flags. */
static void print_type(const graph *g, tensor_id t, text *out) {
    const tensor *x = graph_tensor(g, t);
    char sizes[SHAPE_TEXT_BYTES];
    text_add(out, " %s %s", shape_text(&x->shape, sizes), dtype_name((dtype)x->dtype));
    if (x->base) text_add(out, " in %%%u", x->base);
    if (x->offset) text_add(out, " +%lld", (long long)x->offset);
    print_flags(x, out);
    if (x->producer && x->name) text_add(out, " '%s'", graph_name(g, t));
}

static void print_source(const graph *g, tensor_id t, text *out) {
    static const char *const roles[] = { [ROLE_ACTIVATION] = "activation",
                                         [ROLE_INPUT] = "input",
                                         [ROLE_PARAMETER] = "parameter",
                                         [ROLE_STATE] = "state",
                                         [ROLE_GRADIENT] = "gradient",
                                         [ROLE_RESULT] = "result",
                                         [ROLE_CACHE] = "cache" };
    text_add(out, "%%%u = %s '%s'", t, roles[graph_tensor(g, t)->role], graph_name(g, t));
    print_type(g, t, out);
    text_add(out, "\n");
}

static void print_inputs(const graph *g, const node *n, text *out) {
    text_add(out, " = %s(", n->op->name);
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(g, n, i);
        text_add(out, "%s", i ? ", " : "");
        if (t)
            text_add(out, "%%%u", t);
        else
            text_add(out, "-");
        if (t && graph_tensor(g, t)->name) text_add(out, " '%s'", graph_name(g, t));
    }
    text_add(out, ")");
    uint32_t bytes = n->op->attribute_bytes;
    if (bytes) text_add(out, " #%08x", hash_bytes(node_attributes(g, n), bytes));
}

static void print_node(const graph *g, const node *n, text *out) {
    static const char *const phases[] = { "forward", "backward", "reduce", "update" };
    for (uint32_t i = 0; i < n->out_count; i++) {
        text_add(out, "%s%%%u", i ? ", " : "", node_out(g, n, i));
        if (n->out_count > 1) print_type(g, node_out(g, n, i), out);
    }
    print_inputs(g, n, out);
    if (n->out_count == 1) print_type(g, node_out(g, n, 0), out);
    text_add(out, " %s", phases[n->phase]);
    if (n->site != SITE_NONE) text_add(out, " block %d", (int)n->site);
    text_add(out, "\n");
}

void print_graph(const graph *g, text *out) {
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (!graph_tensor(g, t)->producer) print_source(g, t, out);
    for (node_id id = 1; id < g->nodes.count; id++) print_node(g, graph_node(g, id), out);
}
