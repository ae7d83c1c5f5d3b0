/* Twins of cast_cpu.c: floats among themselves in f32, which holds them all; with whole numbers on one side
 * in double, which holds these too. */
#include "ops/cuda.h"

extern "C" {
#include "ops/cast/cast.h"
}

struct cast_floats {
    GPU_MEMBER float of(float x) { return x; }
};

struct cast_numbers {
    void *data;
    int32_t type;

    __device__ __forceinline__ double get(int64_t i) const {
        if (type == DTYPE_I32) return (double)((const int32_t *)data)[i];
        if (type == DTYPE_I8) return (double)((const int8_t *)data)[i];
        if (type == DTYPE_U8) return (double)((const uint8_t *)data)[i];
        cuda_span floats = { data, type };
        return (double)floats.get(i);
    }
    __device__ __forceinline__ void set(int64_t i, double x) const {
        cuda_span floats = { data, type };
        if (type == DTYPE_I32)
            ((int32_t *)data)[i] = (int32_t)x;
        else if (type == DTYPE_I8)
            ((int8_t *)data)[i] = (int8_t)x;
        else if (type == DTYPE_U8)
            ((uint8_t *)data)[i] = (uint8_t)x;
        else
            floats.set(i, (float)x);
    }
};

struct cast_any {
    cast_numbers x, y;
    __device__ __forceinline__ void operator()(int64_t i) const { y.set(i, x.get(i)); }
};

static void run(const op_call *c) {
    const op_arg *x = op_in(c, 0), *y = &c->out[0];
    if (dtype_is_float(x->dtype) && dtype_is_float(y->dtype)) {
        cuda_map<cast_floats>(c);
        return;
    }
    cast_any f = { { x->data, (int32_t)x->dtype }, { y->data, (int32_t)y->dtype } };
    cuda_each(shape_elements(&y->shape), f);
}

CUDA_KERNELS(cast_cuda, { "cast_cuda_map", cuda_accepts, NULL, run });
