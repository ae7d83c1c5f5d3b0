#include "ops/arrive/arrive.h"

#include <string.h>

#include "comm/comm.h"

tensor_id arrive_apply(graph *g, tensor_id received, tensor_id sent) {
    return graph_add(g, &op_arrive, (tensor_id[]){ received, sent }, 2, NULL);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

/* The bytes are those of the node that has begun. */
static op_cost cost(const graph *g, const node *n) {
    (void)g, (void)n;
    return (op_cost){ 0 };
}

/* It arrived where it stays; only tests call it elsewhere. */
static void arrive_wait(const op_call *c) {
    comm_wait(c->in[0].data);
    if (c->out[0].data == c->in[0].data) return;
    memcpy(c->out[0].data, c->in[0].data,
           (size_t)shape_elements(&c->in[0].shape) * dtype_bytes(c->in[0].dtype));
}

const op_kernel arrive_cpu[] = { { "arrive_wait", NULL, NULL, arrive_wait }, { 0 } };

static const op_input inputs[] = { { "received", 0, 1, 4, false }, { "sent", 0, 1, 4, true } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true } };

/* With one rank it is there at once. */
static const op_case cases[] = { { "alone",
                                   { { DTYPE_F32, { { 7, 33 }, 2 }, -1, 1 },
                                     { DTYPE_F32, { { 231 }, 1 }, -1, 1 } },
                                   NULL,
                                   0,
                                   true },
                                 { 0 } };

const op_def op_arrive = { .name = "arrive",
                           .inputs = inputs,
                           .in_count = 2,
                           .aliases = aliases,
                           .alias_count = 1,
                           .out_count = 1,
                           .traits = OP_COLLECTIVE,
                           .infer = infer,
                           .cost = cost,
                           .cpu = arrive_cpu,
                           .cuda = OP_CUDA(arrive_cuda),
                           .cases = cases };
