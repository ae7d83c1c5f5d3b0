#include "ir/rewrite.h"

#include <string.h>

#include "base/memory.h"
#include "ir/op.h"

status rewrite_open(rewrite *r, const graph *in, graph *out) {
    *r = (rewrite){ .in = in, .out = out, .map = memory_new(in->tensors.count, sizeof(tensor_id)) };
    if (!r->map) graph_no_memory(out);
    if (!r->map) return graph_status(out);
    out->group = in->group;
    for (tensor_id t = 1; t < in->tensors.count; t++) {
        const tensor *x = graph_tensor(in, t);
        if (x->producer) continue;
        r->map[t] = graph_add_source(out, &(graph_source){ .name = x->name ? graph_name(in, t) : NULL,
                                                           .shape = x->shape,
                                                           .dtype = x->dtype,
                                                           .role = x->role,
                                                           .flags = x->flags });
        if (!r->map[t]) continue;
        graph_tensor(out, r->map[t])->gradient = x->gradient;
        graph_tensor(out, r->map[t])->away = x->away;
        graph_tensor(out, r->map[t])->global = x->global;
    }
    return graph_status(out) == STATUS_OK ? STATUS_OK : rewrite_close(r);
}

status rewrite_close(rewrite *r) {
    memory_free(r->map);
    r->map = NULL;
    return graph_status(r->out);
}

void rewrite_source_type(rewrite *r, tensor_id t, dtype type) {
    if (!r->out->failed) graph_tensor(r->out, r->map[t])->dtype = (uint8_t)type;
}

void rewrite_source_shape(rewrite *r, tensor_id t, shape s) {
    if (!r->out->failed) graph_tensor(r->out, r->map[t])->shape = s;
}

void rewrite_source_drop(rewrite *r, tensor_id t) {
    if (!r->out->failed) graph_tensor(r->out, r->map[t])->role = ROLE_INPUT;
}

static void copy_flags(rewrite *r, const node *n, tensor_id first, tensor_id *to) {
    for (uint32_t i = 0; i < n->out_count; i++) {
        tensor_id old = node_out(r->in, n, i);
        to[old] = first ? first + i : 0;
        if (!first) continue;
        const tensor *x = graph_tensor(r->in, old);
        tensor *y = graph_tensor(r->out, first + i);
        y->flags |= x->flags, y->gradient = x->gradient, y->away = x->away;
        if (shape_equal(&x->shape, &y->shape)) y->global = x->global;
        if (x->flags & TENSOR_KEEP) graph_keep(r->out, first + i, graph_name(r->in, old));
    }
}

static void emit(rewrite *r, const node *n, const tensor_id *inputs, uint32_t in_count, tensor_id *to) {
    r->out->site = n->site;
    copy_flags(r, n, graph_add_copy(r->out, inputs, in_count, r->in, n), to);
}

enum { FEW = 32 };

/* Inputs of a node through `map`: in `few`, or in a list to be freed where there are more; NULL: no memory.
 */
static tensor_id *map_inputs(rewrite *r, const node *n, const tensor_id *map, tensor_id few[FEW]) {
    tensor_id *inputs = n->in_count <= FEW ? few : memory_new(n->in_count, sizeof *inputs);
    if (!inputs) graph_no_memory(r->out);
    for (uint32_t i = 0; inputs && i < n->in_count; i++) {
        tensor_id t = node_in(r->in, n, i);
        inputs[i] = t ? map[t] : 0;
    }
    return inputs;
}

/* Copies a node with inputs through `map`; `to` receives the new outputs. */
static void copy_mapped(rewrite *r, const node *n, const tensor_id *map, tensor_id *to) {
    tensor_id few[FEW], *inputs = map_inputs(r, n, map, few);
    if (inputs) emit(r, n, inputs, n->in_count, to);
    if (inputs != few) memory_free(inputs);
}

void rewrite_node_as(rewrite *r, node_id id, const tensor_id *map, tensor_id *to, phase as) {
    const node *n = graph_node(r->in, id);
    r->out->phase = as;
    copy_mapped(r, n, map, to);
}

void rewrite_node(rewrite *r, node_id id) {
    const node *n = graph_node(r->in, id);
    r->out->phase = n->phase;
    copy_mapped(r, n, r->map, r->map);
}

void rewrite_node_with(rewrite *r, node_id id, const op_def *op) {
    const node *n = graph_node(r->in, id);
    tensor_id few[FEW], *inputs = map_inputs(r, n, r->map, few);
    r->out->phase = n->phase;
    r->out->site = n->site;
    if (inputs)
        copy_flags(r, n, graph_add(r->out, op, inputs, n->in_count, node_attributes(r->in, n)), r->map);
    if (inputs != few) memory_free(inputs);
}

void rewrite_made(rewrite *r, node_id id, tensor_id first) {
    copy_flags(r, graph_node(r->in, id), first, r->map);
}

void rewrite_node_inputs(rewrite *r, node_id id, const tensor_id *inputs, uint32_t in_count) {
    const node *n = graph_node(r->in, id);
    r->out->phase = n->phase;
    emit(r, n, inputs, in_count, r->map);
}

/* What opening has put there is the same in both. */
static status copy_items(const array *from, array *to) {
    uint32_t added;
    TRY(array_add(to, from->count - to->count, &added));
    memcpy(to->data, from->data, (size_t)from->count * from->item_bytes);
    return STATUS_OK;
}

status rewrite_nothing(const graph *from, graph *to) {
    TRY(graph_open(to));
    to->phase = from->phase;
    to->site = from->site;
    to->group = from->group;
    TRY(copy_items(&from->tensors, &to->tensors));
    TRY(copy_items(&from->nodes, &to->nodes));
    TRY(copy_items(&from->edges, &to->edges));
    return copy_items(&from->bytes, &to->bytes);
}
