/* The twin of add_parts_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/add_parts/add_parts.h"
}

struct add_parts_one {
    cuda_span sum, parts, y;
    int64_t n, ranks, first, begin; /* rows of n elements, from element `first` of the sum on */
    __device__ __forceinline__ void operator()(int64_t k) const {
        int64_t i = begin + k, at = i - first;
        float x = sum.data ? sum.get(i) : 0.0f;
        if (at >= 0 && at < n)
            for (int64_t r = 0; r < ranks; r++) x = x + parts.get(r * n + at);
        y.set(i, x);
    }
};

static void run(const op_call *c) {
    int64_t all = shape_elements(&c->out[0].shape), n = shape_last(&c->in[1].shape),
            first = ((const add_parts_attributes *)c->attributes)->first;
    bool in_place = c->in[0].data == c->out[0].data; /* then the rest is there */
    add_parts_one f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0), n, c->in[1].shape.dim[0], first, 0 };
    if (in_place) f.begin = first;
    cuda_each(in_place ? n : all, f);
}

CUDA_KERNELS(add_parts_cuda, { "add_parts_cuda_map", cuda_accepts, NULL, run });
