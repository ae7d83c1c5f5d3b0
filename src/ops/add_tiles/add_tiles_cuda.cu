/* Twin of add_tiles_cpu.c. */
#include "ops/cuda_order.h"

extern "C" {
#include "ops/add_tiles/add_tiles.h"
}

struct add_tiles_all {
    const double *tiles;
    float *sum;
    int64_t width, first, share;

    __device__ __forceinline__ double start(int64_t) const { return 0; }
    __device__ __forceinline__ double term(int64_t i) const {
        return tiles[i / share * width + first + i % share];
    }
    __device__ __forceinline__ void add(double &to, int64_t, double x) const { to += x; }
    __device__ __forceinline__ void end(int64_t, double x) const { *sum = (float)x; }
};

static void run(const op_call *c) {
    const add_tiles_attributes *a = (const add_tiles_attributes *)c->attributes;
    add_tiles_all f = { (const double *)c->in[0].data, (float *)c->out[0].data, c->in[0].shape.dim[1],
                        a->first, a->share };
    cuda_in_order(a->whole, a->whole, f);
}

CUDA_KERNELS(add_tiles_cuda, { "add_tiles_cuda_order", NULL, NULL, run });
