#include "ops/join/join.h"

#include "ops/add/add.h"
#include "ops/columns/columns.h"

tensor_id join_apply(graph *g, const tensor_id *parts, uint32_t count) {
    return graph_add(g, &op_join, parts, count, NULL);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *first = graph_tensor(g, node_in(g, n, 0));
    shape whole = first->shape;
    uint32_t last = whole.rank - 1;
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    if (n->in_count > JOIN_MOST)
        return status_set(STATUS_INVALID, "%u parts; the most are %d", n->in_count, JOIN_MOST);
    whole.dim[last] = 0;
    for (uint32_t i = 0; i < n->in_count; i++) {
        const tensor *part = graph_tensor(g, node_in(g, n, i));
        shape expected = first->shape;
        expected.dim[last] = part->shape.rank == whole.rank ? part->shape.dim[last] : 0;
        if (!shape_equal(&part->shape, &expected) || part->dtype != first->dtype)
            return status_set(STATUS_INVALID, "part %u is %s %s, the first is %s %s", i,
                              dtype_name(part->dtype), shape_text(&part->shape, is), dtype_name(first->dtype),
                              shape_text(&first->shape, should));
        whole.dim[last] += part->shape.dim[last];
    }
    out[0] = (tensor){ .shape = whole, .dtype = first->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node n = *graph_node(g, id);
    int64_t start = 0;
    for (uint32_t i = 0; i < n.in_count; i++) {
        int64_t width = shape_last(graph_shape(g, node_in(g, &n, i)));
        columns_attributes a = { .start = (int32_t)start, .width = (int32_t)width, .count = 1 };
        if (want[i]) din[i] = add_gather(g, din[i], columns_apply(g, dout[0], &a));
        start += width;
    }
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 0); }

static const op_input inputs[] = { { "part", DTYPE_MASK_FLOAT, 1, 4, false } };

static const op_case cases[] = { { "three",
                                   { { DTYPE_F32, { { 3, 7, 5 }, 3 }, -1, 1 },
                                     { DTYPE_F32, { { 3, 7, 1 }, 3 }, -1, 1 },
                                     { DTYPE_F32, { { 3, 7, 4 }, 3 }, -1, 1 } },
                                   NULL,
                                   0,
                                   false },
                                 { "several pieces",
                                   { { DTYPE_F32, { { 501, 40 }, 2 }, -1, 1 },
                                     { DTYPE_F32, { { 501, 33 }, 2 }, -1, 1 } },
                                   NULL,
                                   0,
                                   true },
                                 { "one", { { DTYPE_F32, { { 7 }, 1 }, -1, 1 } }, NULL, 0, false },
                                 { 0 } };

const op_def op_join = { .name = "join",
                         .inputs = inputs,
                         .in_count = 1,
                         .out_count = 1,
                         .variadic = true,
                         .traits = OP_HALF,
                         .infer = infer,
                         .grad = grad,
                         .cost = cost,
                         .cpu = join_cpu,
                         .cuda = OP_CUDA(join_cuda),
                         .cases = cases };
