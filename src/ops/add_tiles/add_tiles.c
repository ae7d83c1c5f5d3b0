#include "ops/add_tiles/add_tiles.h"

tensor_id add_tiles_apply(graph *g, tensor_id tiles, const add_tiles_attributes *attributes) {
    return graph_add(g, &op_add_tiles, &tiles, 1, attributes);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const add_tiles_attributes *a = node_attributes(g, n);
    const shape *s = graph_shape(g, node_in(g, n, 0));
    if (a->first < 0 || a->share < 1 || a->first > s->dim[1] - a->share || a->whole < 0 ||
        a->whole > a->share * s->dim[0])
        return status_set(STATUS_INVALID, "%lld tiles are not in %lld rows of %lld", (long long)a->whole,
                          (long long)s->dim[0], (long long)s->dim[1]);
    out[0] = (tensor){ .shape = SHAPE(1), .dtype = DTYPE_F32 };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    const add_tiles_attributes *a = node_attributes(g, n);
    return (op_cost){ .flops = (double)a->whole,
                      .bytes_read = (double)a->whole * sizeof(double),
                      .bytes_written = sizeof(float) };
}

static const op_input inputs[] = { { "tiles", 1u << DTYPE_F64, 2, 2, false } };

static const op_case cases[] = {
    { "all of two rows",
      { { DTYPE_F64, { { 2, 33 }, 2 }, -1, 1 } },
      &(add_tiles_attributes){ 0, 33, 66 },
      1e-7,
      true },
    { "some in the middle",
      { { DTYPE_F64, { { 3, 21 }, 2 }, -1, 1 } },
      &(add_tiles_attributes){ 5, 7, 16 },
      1e-7,
      true },
    { "one", { { DTYPE_F64, { { 1, 4 }, 2 }, -1, 1 } }, &(add_tiles_attributes){ 3, 1, 1 }, 1e-7, true },
    { 0 }
};

const op_def op_add_tiles = { .name = "add_tiles",
                              .inputs = inputs,
                              .in_count = 1,
                              .out_count = 1,
                              .attribute_bytes = sizeof(add_tiles_attributes),
                              .infer = infer,
                              .cost = cost,
                              .cpu = add_tiles_cpu,
                              .cuda = OP_CUDA(add_tiles_cuda),
                              .cases = cases };
