/* Twin of clip_factor.c's kernel: in double, one sum after the other. */
#include "ops/cuda_order.h"

extern "C" {
#include "ops/clip_factor/clip_factor.h"
}
#include "ops/clip_factor/clip_factor_math.h"

enum { MOST = 256 }; /* sums of a launch: arguments are few */

struct clip_factor_sums {
    cuda_span factor, norm, scale; /* scale.data may be NULL */
    double *before;                /* what earlier launches added up; NULL: this is the first */
    double *after;                 /* for later ones; NULL: this is the last */
    float limit;
    int32_t type;
    void *sum[MOST];

    __device__ __forceinline__ double start(int64_t) const { return before ? *before : 0; }
    __device__ __forceinline__ double term(int64_t i) const {
        cuda_span one = { sum[i], type };
        return (double)one.get(0);
    }
    __device__ __forceinline__ void add(double &to, int64_t, double x) const { to += x; }
    __device__ __forceinline__ void end(int64_t, double all) const {
        if (after) {
            *after = all;
            return;
        }
        double by = (double)cuda_number(scale, 1), size = clip_factor_norm(all, by);
        factor.set(0, (float)clip_factor_value(size, (double)limit, by));
        norm.set(0, (float)size);
    }
};

static uint64_t scratch(const op_call *, int) { return sizeof(double); }

static void run(const op_call *c) {
    const clip_factor_attributes *a = (const clip_factor_attributes *)c->attributes;
    uint32_t first = a->scaled != 0, i = first;
    do {
        uint32_t here = c->in_count - i < MOST ? c->in_count - i : (uint32_t)MOST;
        clip_factor_sums f = { cuda_out(c, 0), cuda_out(c, 1),           {}, NULL, NULL,
                               a->max_norm,    (int32_t)c->out[0].dtype, {} };
        if (a->scaled) f.scale = cuda_in(c, 0);
        for (uint32_t k = 0; k < here; k++) f.sum[k] = c->in[i + k].data;
        if (i > first) f.before = (double *)c->scratch;
        if (i + here < c->in_count) f.after = (double *)c->scratch;
        cuda_in_order(here, MOST, f);
        i += here;
    } while (i < c->in_count);
}

CUDA_KERNELS(clip_factor_cuda, { "clip_factor_cuda_in_order", cuda_accepts, scratch, run });
