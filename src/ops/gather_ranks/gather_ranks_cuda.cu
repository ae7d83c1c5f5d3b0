/* This rank's own share is copied to its place by computing; the others' come on the lane of movements, which
 * begins behind that. */
#include "ops/cuda.h"

extern "C" {
#include "comm/comm.h"
#include "ops/gather_ranks/gather_ranks.h"
}

struct gather_ranks_own {
    cuda_plain share, whole;
    int64_t first; /* of the whole, in words */
    __device__ __forceinline__ void operator()(int64_t i) const { whole.set(first + i, share.get(i)); }
};

static void run(const op_call *c) {
    int64_t group = ((const gather_ranks_attributes *)c->attributes)->group;
    int64_t elements = shape_elements(&c->out[0].shape), share = shape_elements(&c->in[0].shape),
            place = group ? comm_world().rank % group : comm_world().rank, first = place * share,
            left = elements - first;
    uint64_t each = dtype_bytes(c->in[0].dtype);
    int64_t words = cuda_words_each(&c->in[0]);
    gather_ranks_own f = { cuda_words_of(&c->in[0]), cuda_words_of(&c->out[0]), first * words };
    cuda_each((left < share ? left : share) * words, f);
    comm_order o = {};
    o.kind = COMM_GATHER, o.from = c->in[0].data, o.to = c->out[0].data;
    o.whole = (uint64_t)elements * each, o.share = (uint64_t)share * each;
    o.group = group;
    comm_start_apart(&o);
}

CUDA_KERNELS(gather_ranks_cuda, { "gather_ranks_cuda_start", NULL, NULL, run });
