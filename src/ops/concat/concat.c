#include "ops/concat/concat.h"

#include "ops/add/add.h"
#include "ops/slice/slice.h"

tensor_id concat_apply(graph *g, const tensor_id *parts, uint32_t count) {
    return graph_add(g, &op_concat, parts, count, NULL);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *first = graph_tensor(g, node_in(g, n, 0));
    shape whole = first->shape;
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    whole.dim[0] = 0;
    for (uint32_t i = 0; i < n->in_count; i++) {
        const tensor *part = graph_tensor(g, node_in(g, n, i));
        shape expected = first->shape;
        expected.dim[0] = part->shape.dim[0];
        if (!shape_equal(&part->shape, &expected) || part->dtype != first->dtype)
            return status_set(STATUS_INVALID, "part %u is %s %s, the first is %s %s", i,
                              dtype_name(part->dtype), shape_text(&part->shape, is), dtype_name(first->dtype),
                              shape_text(&first->shape, should));
        whole.dim[0] += part->shape.dim[0];
    }
    out[0] = (tensor){ .shape = whole, .dtype = first->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    int64_t start = 0;
    for (uint32_t i = 0; i < n->in_count; i++) {
        int64_t count = graph_shape(g, node_in(g, n, i))->dim[0];
        if (want[i]) din[i] = add_gather(g, din[i], slice_apply(g, dout[0], start, count));
        start += count;
    }
}

static op_cost cost(const graph *g, const node *n) {
    (void)g, (void)n;
    return (op_cost){ 0 };
}

static const op_input inputs[] = { { "part", 0, 1, 4, false } };

static const op_case cases[] = { { "three",
                                   { { DTYPE_F32, { { 3, 5 }, 2 }, -1, 1 },
                                     { DTYPE_F32, { { 1, 5 }, 2 }, -1, 1 },
                                     { DTYPE_F32, { { 4, 5 }, 2 }, -1, 1 } },
                                   NULL,
                                   0,
                                   false },
                                 { "one", { { DTYPE_F32, { { 7 }, 1 }, -1, 1 } }, NULL, 0, false },
                                 { 0 } };

const op_def op_concat = { .name = "concat",
                           .inputs = inputs,
                           .in_count = 1,
                           .out_count = 1,
                           .variadic = true,
                           .traits = OP_GATHER | OP_HALF,
                           .infer = infer,
                           .grad = grad,
                           .cost = cost,
                           .cases = cases };
