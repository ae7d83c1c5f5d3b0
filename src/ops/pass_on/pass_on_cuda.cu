/* The twin of pass_on_cpu.c: what moves does so on the lane of movements. */
#include "ops/cuda.h"

extern "C" {
#include "comm/comm.h"
#include "ops/pass_on/pass_on.h"
}

struct pass_on_one {
    cuda_plain x, y;
    __device__ __forceinline__ void operator()(int64_t i) const { y.set(i, x.get(i)); }
};

static comm_kind kind_of(int64_t step) {
    switch (step) {
    case PASS_FROM_BEFORE: return COMM_FROM_BEFORE;
    case PASS_TO_NEXT: return COMM_TO_NEXT;
    case PASS_AROUND: return COMM_AROUND;
    case PASS_SPREAD: return COMM_SPREAD;
    case PASS_COLLECT: return COMM_COLLECT;
    default: return COMM_FROM_LAST;
    }
}

static void run(const op_call *c) {
    int64_t elements = shape_elements(&c->in[0].shape);
    pass_on_one f = { cuda_words_of(&c->in[0]), cuda_words_of(&c->out[0]) };
    if (c->out[0].data != c->in[0].data) cuda_each(elements * cuda_words_each(&c->in[0]), f);
    comm_order o = {};
    const pass_on_attributes *a = (const pass_on_attributes *)c->attributes;
    o.kind = kind_of(a->step), o.group = a->group;
    o.from = c->out[0].data, o.to = c->out[0].data;
    uint64_t each = dtype_bytes(c->in[0].dtype);
    o.whole = (uint64_t)elements * each;
    o.first = (uint64_t)a->first * each, o.some = (uint64_t)a->some * each;
    comm_start_apart(&o);
}

CUDA_KERNELS(pass_on_cuda, { "pass_on_cuda_start", NULL, NULL, run });
