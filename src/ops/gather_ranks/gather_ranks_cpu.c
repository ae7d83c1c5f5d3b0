#include "comm/comm.h"
#include "ops/gather_ranks/gather_ranks.h"

static void gather_ranks_start(const op_call *c) {
    const gather_ranks_attributes *a = c->attributes;
    uint64_t each = dtype_bytes(c->in[0].dtype);
    comm_start(&(comm_order){ .kind = COMM_GATHER,
                              .from = c->in[0].data,
                              .to = c->out[0].data,
                              .whole = (uint64_t)shape_elements(&c->out[0].shape) * each,
                              .share = (uint64_t)shape_elements(&c->in[0].shape) * each,
                              .group = a->group });
}

const op_kernel gather_ranks_cpu[] = { { "gather_ranks_start", NULL, NULL, gather_ranks_start }, { 0 } };
