/* This rank's own share is copied, and places are cleared behind a shorter one, by computing; the others'
 * come on the lane of movements, which begins behind that. */
#include "ops/cuda.h"

extern "C" {
#include "comm/comm.h"
#include "ops/exchange/exchange.h"
}

/* Word i of parts (ranks, some), `own` of which are in each row; x has `share` of them for each rank, and
 * those that move begin at `first` of it. */
struct exchange_own {
    cuda_plain x, parts;
    int64_t share, first, some, own, rank;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, some);
        if (at.column >= own)
            parts.set(i, 0);
        else if (at.row == rank)
            parts.set(i, x.get(at.row * share + first + at.column));
    }
};

static void run(const op_call *c) {
    const exchange_attributes *a = (const exchange_attributes *)c->attributes;
    int64_t elements = shape_elements(&c->in[0].shape), rank = comm_world().rank % a->ranks,
            some = a->some ? a->some : a->share, left = elements - rank * a->share - a->first,
            own = left < 0      ? 0
                  : left < some ? left
                                : some;
    uint64_t each = dtype_bytes(c->in[0].dtype);
    int64_t words = cuda_words_each(&c->in[0]);
    exchange_own f = { cuda_words_of(&c->in[0]),
                       cuda_words_of(&c->out[0]),
                       a->share * words,
                       a->first * words,
                       some * words,
                       own * words,
                       rank };
    cuda_each(a->ranks * some * words, f);
    comm_order o = {};
    o.kind = COMM_EXCHANGE, o.from = c->in[0].data, o.to = c->out[0].data;
    o.whole = (uint64_t)elements * each, o.share = (uint64_t)a->share * each;
    o.first = (uint64_t)a->first * each, o.some = (uint64_t)a->some * each, o.group = a->ranks;
    comm_start_apart(&o);
}

CUDA_KERNELS(exchange_cuda, { "exchange_cuda_start", NULL, NULL, run });
