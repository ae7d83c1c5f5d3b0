#include "comm/comm.h"
#include "ops/exchange/exchange.h"

static void exchange_start(const op_call *c) {
    const exchange_attributes *a = c->attributes;
    uint64_t each = dtype_bytes(c->in[0].dtype);
    comm_start(&(comm_order){ .kind = COMM_EXCHANGE,
                              .from = c->in[0].data,
                              .to = c->out[0].data,
                              .whole = (uint64_t)shape_elements(&c->in[0].shape) * each,
                              .share = (uint64_t)a->share * each,
                              .first = (uint64_t)a->first * each,
                              .some = (uint64_t)a->some * each,
                              .group = a->ranks });
}

const op_kernel exchange_cpu[] = { { "exchange_start", NULL, NULL, exchange_start }, { 0 } };
