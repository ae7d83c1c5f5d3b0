/* Twins of gradient_scale_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/gradient_scale/gradient_scale.h"
}
#include "ops/gradient_scale/gradient_scale_math.h"

struct gradient_scale_read {
    cuda_span state, y;
    __device__ __forceinline__ void operator()() const {
        y.set(0, (float)gradient_scale_value((double)state.get(0)));
    }
};

static void run_now(const op_call *c) {
    gradient_scale_read f = { cuda_in(c, 0), cuda_out(c, 0) };
    cuda_once(f);
}

struct gradient_scale_step {
    cuda_span state, scale;
    const int32_t *good, *ok;
    int32_t *good_after, interval;
    __device__ __forceinline__ void operator()() const {
        gradient_scale_next next = gradient_scale_go_on((double)state.get(0), *good, *ok != 0, interval);
        scale.set(0, (float)next.scale);
        *good_after = next.good;
    }
};

static void run_update(const op_call *c) {
    gradient_scale_step f = { cuda_in(c, 0),
                              cuda_out(c, 0),
                              (const int32_t *)c->in[1].data,
                              (const int32_t *)c->in[2].data,
                              (int32_t *)c->out[1].data,
                              ((const gradient_scale_attributes *)c->attributes)->interval };
    cuda_once(f);
}

CUDA_KERNELS(gradient_scale_now_cuda, { "gradient_scale_now_cuda_once", cuda_accepts, NULL, run_now });
CUDA_KERNELS(gradient_scale_update_cuda,
             { "gradient_scale_update_cuda_once", cuda_accepts, NULL, run_update });
