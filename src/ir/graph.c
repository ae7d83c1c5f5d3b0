#include "ir/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/op.h"

enum {
    MAX_TENSORS = 1 << 22,
    MAX_NODES = 1 << 21,
    MAX_EDGES = 1 << 24,
    MAX_BYTES = 1 << 26,
    MAX_OUTPUTS = 16
};

static _Thread_local graph_room limit;

void graph_limit(const graph_room *room) { limit = *room; }

graph_room graph_limit_now(void) { return limit; }

graph_size graph_size_of(const graph *g) {
    return (graph_size){ g->tensors.count, g->nodes.count, g->edges.count, g->bytes.count };
}

status graph_open(graph *g) {
    *g = (graph){ .site = SITE_NONE, .room = limit };
    status result = STATUS_OK;
    TRY_OR(failed, array_open(&g->tensors, sizeof(tensor), MAX_TENSORS));
    TRY_OR(failed, array_open(&g->nodes, sizeof(node), MAX_NODES));
    TRY_OR(failed, array_open(&g->edges, sizeof(tensor_id), MAX_EDGES));
    TRY_OR(failed, array_open(&g->bytes, 1, MAX_BYTES));
    g->bytes.count = 8; /* offset 0 is the empty name; attributes stay aligned to 8 */
    return STATUS_OK;
failed:
    graph_close(g);
    g->failed = result;
    return result;
}

void graph_close(graph *g) {
    array_close(&g->tensors);
    array_close(&g->nodes);
    array_close(&g->edges);
    array_close(&g->bytes);
}

tensor_id graph_fail(graph *g, const char *format, ...) {
    if (g->failed) return 0;
    char sentence[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    g->failed = status_set(STATUS_INVALID, "%s", sentence);
    return 0;
}

tensor_id graph_no_memory(graph *g) {
    if (!g->failed) g->failed = status_set(STATUS_FAILED, "there is no memory to make a graph");
    return 0;
}

const char *graph_name(const graph *g, tensor_id t) {
    return (const char *)g->bytes.data + graph_tensor(g, t)->name;
}

/* Room for `count` more items of one of the graph's arrays. */
static bool grow(graph *g, array *a, uint32_t count, uint32_t *first) {
    status result = array_add(a, count, first);
    if (result != STATUS_OK) g->failed = result;
    return result == STATUS_OK;
}

static uint32_t graph_store(graph *g, const void *data, size_t bytes) {
    uint32_t place = 0;
    if (!grow(g, &g->bytes, (uint32_t)((bytes + 7) & ~(size_t)7), &place)) return 0;
    memcpy((char *)g->bytes.data + place, data, bytes);
    return place;
}

tensor_id graph_find(const graph *g, const char *name) {
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (graph_tensor(g, t)->name && strcmp(graph_name(g, t), name) == 0) return t;
    return 0;
}

void graph_keep(graph *g, tensor_id t, const char *name) {
    if (g->failed) return;
    graph_tensor(g, t)->flags |= TENSOR_KEEP;
    graph_tensor(g, t)->name = graph_store(g, name, strlen(name) + 1);
}

tensor_id graph_add_source(graph *g, const graph_source *s) {
    if (g->failed) return 0;
    char sizes[SHAPE_TEXT_BYTES];
    if (!shape_valid(&s->shape, dtype_bytes(s->dtype)))
        return graph_fail(g, "tensor '%s' has the impossible shape %s", s->name ? s->name : "",
                          shape_text(&s->shape, sizes));
    tensor_id t;
    if (!grow(g, &g->tensors, 1, &t)) return 0;
    *graph_tensor(g, t) = (tensor){ .shape = s->shape,
                                    .global = s->shape,
                                    .dtype = (uint8_t)s->dtype,
                                    .role = (uint8_t)s->role,
                                    .flags = s->flags };
    if (s->name) graph_tensor(g, t)->name = graph_store(g, s->name, strlen(s->name) + 1);
    return g->failed ? 0 : t;
}

/* ---- adding a node: rules, inference, aliases ---- */

static const op_input *rule_of(const op_def *op, uint32_t i) {
    return &op->inputs[i < op->in_count ? i : op->in_count - 1u];
}

static bool inputs_allowed(graph *g, const op_def *op, const tensor_id *in, uint32_t in_count) {
    if (in_count > op->in_count && !op->variadic) {
        graph_fail(g, "%s takes %u inputs, not %u", op->name, op->in_count, in_count);
        return false;
    }
    uint32_t n = in_count > op->in_count ? in_count : op->in_count;
    for (uint32_t i = 0; i < n; i++) {
        const op_input *rule = rule_of(op, i);
        tensor_id t = i < in_count ? in[i] : 0;
        if (!t) {
            if (rule->optional) continue;
            graph_fail(g, "%s: input '%s' is missing", op->name, rule->name);
            return false;
        }
        const tensor *x = graph_tensor(g, t);
        char sizes[SHAPE_TEXT_BYTES];
        if (rule->dtypes && !(rule->dtypes >> x->dtype & 1u)) {
            graph_fail(g, "%s: input '%s' cannot be %s", op->name, rule->name, dtype_name(x->dtype));
            return false;
        }
        if (rule->rank_max && (x->shape.rank < rule->rank_min || x->shape.rank > rule->rank_max)) {
            graph_fail(g, "%s: input '%s' cannot have the shape %s", op->name, rule->name,
                       shape_text(&x->shape, sizes));
            return false;
        }
    }
    return true;
}

/* Must-aliases of a new node: its outputs move in with their inputs. */
static void link_aliases(graph *g, const node *n) {
    for (uint32_t a = 0; a < n->op->alias_count; a++) {
        const op_alias *alias = &n->op->aliases[a];
        tensor_id from = node_in(g, n, alias->in);
        if (!alias->must || !from || alias->out >= n->out_count) continue;
        tensor *to = graph_tensor(g, node_out(g, n, alias->out));
        to->base = from;
        to->role = graph_tensor(g, from)->role;
    }
}

/* The parts of a gather are born inside it: each part's storage becomes a piece of the output's. */
static void link_parts(graph *g, const node *n) {
    tensor_id whole = node_out(g, n, 0);
    int64_t place = 0;
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id part = node_in(g, n, i);
        int64_t inside;
        tensor_id owner = graph_storage(g, part, &inside);
        tensor *t = graph_tensor(g, owner);
        if (owner == whole || inside != 0 || !t->producer ||
            graph_tensor_bytes(g, owner) != graph_tensor_bytes(g, part)) {
            graph_fail(g, "%s: part %u is a part of something else already", n->op->name, i);
            return;
        }
        t->base = t->owner = whole;
        t->offset = place;
        place += (int64_t)graph_tensor_bytes(g, part);
    }
}

static bool is_full(const graph *g) {
    graph_size size = graph_size_of(g);
    return g->room.bytes && graph_size_bytes(&size, &g->room) > g->room.bytes;
}

/* A node with inputs and attributes, but no outputs yet; 0: there is no room. */
static node_id begin_node(graph *g, const op_def *op, const tensor_id *in, uint32_t in_count,
                          const void *attributes) {
    if (is_full(g)) {
        g->failed = status_set(STATUS_NO_FIT, "there is no memory for a graph of more than %u nodes",
                               g->nodes.count - 1); /* number 0 is none */
        return 0;
    }
    node_id id;
    uint32_t edges;
    if (!grow(g, &g->nodes, 1, &id)) return 0;
    if (!grow(g, &g->edges, in_count, &edges)) return 0;
    if (in_count) memcpy(graph_edges(g) + edges, in, in_count * sizeof *in);
    node *n = graph_node(g, id);
    *n = (node){
        .op = op, .in = edges, .in_count = (uint16_t)in_count, .site = g->site, .phase = (uint8_t)g->phase
    };
    if (op->attribute_bytes) n->attributes = graph_store(g, attributes, op->attribute_bytes);
    return g->failed ? 0 : id;
}

/* Room for n->out_count results, zeroed; the first of them, or 0: there is none. */
static tensor_id place_outputs(graph *g, node_id id) {
    node *n = graph_node(g, id);
    tensor_id first;
    if (!grow(g, &g->tensors, n->out_count, &first)) return 0;
    if (!grow(g, &g->edges, n->out_count, &n->out)) return 0;
    for (uint32_t i = 0; i < n->out_count; i++) graph_edges(g)[n->out + i] = first + i;
    return first;
}

static bool infer_outputs(graph *g, node_id id) {
    node *n = graph_node(g, id);
    tensor out[MAX_OUTPUTS];
    n->out_count = n->op->outputs ? n->op->outputs(g, n) : n->op->out_count;
    memset(out, 0, n->out_count * sizeof *out); /* all of them take longer than the rest of this function */
    status inferred = n->op->infer(g, n, out);
    if (inferred != STATUS_OK) {
        g->failed = status_prefix(inferred, "%s", n->op->name);
        return false;
    }
    tensor_id first = place_outputs(g, id);
    for (uint32_t i = 0; i < n->out_count && first; i++) {
        char sizes[SHAPE_TEXT_BYTES];
        if (!shape_valid(&out[i].shape, dtype_bytes(out[i].dtype))) {
            graph_fail(g, "%s: its result would have the impossible shape %s", n->op->name,
                       shape_text(&out[i].shape, sizes));
            return false;
        }
        out[i].producer = id;
        out[i].global = out[i].shape;
        *graph_tensor(g, first + i) = out[i];
    }
    return first != 0;
}

/* So that graph_storage goes no long way to the owner: each of the parts that are added to a sum moves in
 * with the one before. */
static void link_owners(graph *g, const node *n) {
    for (uint32_t i = 0; i < n->out_count; i++) {
        tensor *t = graph_tensor(g, node_out(g, n, i));
        if (t->base) t->owner = graph_storage(g, t->base, NULL);
    }
}

static tensor_id end_node(graph *g, node_id id) {
    const node *n = graph_node(g, id);
    link_aliases(g, n);
    link_owners(g, n);
    if (n->op->traits & OP_GATHER) link_parts(g, n);
    return g->failed ? 0 : node_out(g, n, 0);
}

tensor_id graph_add(graph *g, const op_def *op, const tensor_id *in, uint32_t in_count,
                    const void *attributes) {
    if (g->failed) return 0;
    for (uint32_t i = 0; i < in_count; i++)
        if (in[i] >= g->tensors.count) return graph_fail(g, "%s: input %u does not exist", op->name, i);
    if (in_count > UINT16_MAX)
        return graph_fail(g, "%s takes at most %d inputs, not %u", op->name, UINT16_MAX, in_count);
    if (!inputs_allowed(g, op, in, in_count)) return 0;
    node_id id = begin_node(g, op, in, in_count, attributes);
    return id && infer_outputs(g, id) ? end_node(g, id) : 0;
}

/* ---- copies ---- */

static bool alike(const graph *g, tensor_id t, const graph *from, tensor_id original) {
    if (!t || !original) return t == original;
    const tensor *x = graph_tensor(g, t), *y = graph_tensor(from, original);
    return x->dtype == y->dtype && shape_equal(&x->shape, &y->shape);
}

/* Rules look at nothing but shapes and types of inputs, and attributes. Results of views also say where they
 * lie, so views are always asked. */
static bool inputs_alike(const graph *g, const tensor_id *in, uint32_t in_count, const graph *from,
                         const node *n) {
    if (in_count != n->in_count || (n->op->traits & OP_VIEW)) return false;
    for (uint32_t i = 0; i < in_count; i++)
        if (!alike(g, in[i], from, node_in(from, n, i))) return false;
    return true;
}

tensor_id graph_add_copy(graph *g, const tensor_id *in, uint32_t in_count, const graph *from, const node *n) {
    if (g->failed) return 0;
    if (!inputs_alike(g, in, in_count, from, n))
        return graph_add(g, n->op, in, in_count, node_attributes(from, n));
    node_id id = begin_node(g, n->op, in, in_count, node_attributes(from, n));
    if (!id) return 0;
    graph_node(g, id)->out_count = n->out_count;
    tensor_id first = place_outputs(g, id);
    for (uint32_t i = 0; i < n->out_count && first; i++) {
        const tensor *x = graph_tensor(from, node_out(from, n, i));
        tensor *y = graph_tensor(g, first + i);
        y->shape = y->global = x->shape;
        y->dtype = x->dtype, y->producer = id;
    }
    return first ? end_node(g, id) : 0;
}
