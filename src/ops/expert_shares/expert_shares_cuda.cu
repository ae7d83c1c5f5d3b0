/* The twin of expert_shares_cpu.c: a warp counts the labels, and one thread goes through the experts, which
 * are few, in the CPU's order. */
#include "ops/cuda_whole.h"

extern "C" {
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/expert_shares/expert_shares.h"
}
#include "ops/expert_shares/expert_shares_math.h"

struct expert_shares_all {
    const int32_t *ends, *labels; /* labels may be NULL, as may before.data */
    cuda_span before, scale, shares;
    int64_t experts, label_count;
    double coefficient;
    int32_t chosen;

    __device__ __forceinline__ int32_t counted() const {
        int32_t count = 0;
        for (int64_t i = cuda_lane(); i < label_count; i += GPU_WARP)
            count += labels[i] != CROSS_ENTROPY_IGNORE;
        return cuda_warp_count(count);
    }

    __device__ __forceinline__ void operator()(int64_t) const {
        int32_t count = labels ? counted() : 0;
        if (cuda_lane() != 0) return;
        double load = 0;
        for (int64_t e = 0; e < experts; e++) {
            double own = (double)(ends[e] - (e ? ends[e - 1] : 0));
            if (before.data) own += (double)before.get(e);
            shares.set(e, (float)own);
            load += (double)shares.get(e); /* as it was rounded */
        }
        if (!labels) return;
        double factor =
            expert_shares_factor(load, (double)count, (double)scale.get(0), coefficient, experts, chosen);
        for (int64_t e = 0; e < experts; e++) shares.set(e, (float)(factor * (double)shares.get(e)));
    }
};

static void run(const op_call *c) {
    const expert_shares_attributes *a = (const expert_shares_attributes *)c->attributes;
    const op_arg *labels = op_in(c, 2);
    expert_shares_all f = { (const int32_t *)c->in[0].data,
                            (const int32_t *)labels->data,
                            cuda_in(c, 1),
                            cuda_in(c, 3),
                            cuda_out(c, 0),
                            shape_elements(&c->out[0].shape),
                            labels->data ? shape_elements(&labels->shape) : 0,
                            (double)a->coefficient,
                            a->chosen };
    cuda_rows(1, f);
}

CUDA_KERNELS(expert_shares_cuda, { "expert_shares_cuda_warp", cuda_accepts, NULL, run });
