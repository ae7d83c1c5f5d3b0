/* Twin of adamw_cpu.c's fast kernels. */
#include "ops/cuda_update.h"

extern "C" {
#include "ops/adamw/adamw.h"
}
#include "ops/adamw/adamw_math.h"

struct adamw_cuda_update {
    typedef adamw_attributes attributes;
    typedef adamw_step step;
    GPU_MEMBER step step_of(const attributes *a, float lr, int32_t t, float scale) {
        return adamw_step_of(a, lr, t, scale);
    }
    GPU_MEMBER void update(const step *s, float *w, float g, float state[STATE_MOST]) {
        adamw_element x = { *w, state[0], state[1] };
        x = adamw_update(s, x, g);
        *w = x.w, state[0] = x.m, state[1] = x.v;
    }
};

static const cuda_update_inputs inputs = { .lr = 4, .t = 5, .scale = 6, .ok = 7 };

static void run(const op_call *c) { cuda_update_run<adamw_cuda_update>(c, op_adamw.update, inputs); }
void adamw_cuda_sweep(const op_call *calls, uint32_t count) {
    cuda_update_sweep<adamw_cuda_update>(calls, count, op_adamw.update, inputs);
}

CUDA_KERNELS(adamw_cuda, { "adamw_cuda_blocks", cuda_accepts, NULL, run });
