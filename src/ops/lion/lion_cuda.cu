/* Twin of lion_cpu.c's fast kernels. */
#include "ops/cuda_update.h"

extern "C" {
#include "ops/lion/lion.h"
}
#include "ops/lion/lion_math.h"

struct lion_cuda_update {
    typedef lion_attributes attributes;
    typedef lion_step step;
    GPU_MEMBER step step_of(const attributes *a, float lr, int32_t, float scale) {
        return lion_step_of(a, lr, scale);
    }
    GPU_MEMBER void update(const step *s, float *w, float g, float state[STATE_MOST]) {
        lion_element x = { *w, state[0] };
        x = lion_update(s, x, g);
        *w = x.w, state[0] = x.m;
    }
};

static const cuda_update_inputs inputs = { .lr = 3, .t = 0, .scale = 4, .ok = 5 };

static void run(const op_call *c) { cuda_update_run<lion_cuda_update>(c, op_lion.update, inputs); }
void lion_cuda_sweep(const op_call *calls, uint32_t count) {
    cuda_update_sweep<lion_cuda_update>(calls, count, op_lion.update, inputs);
}

CUDA_KERNELS(lion_cuda, { "lion_cuda_blocks", cuda_accepts, NULL, run });
