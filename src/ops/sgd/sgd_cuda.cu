/* Twin of sgd_cpu.c's fast kernels. */
#include "ops/cuda_update.h"

extern "C" {
#include "ops/sgd/sgd.h"
}
#include "ops/sgd/sgd_math.h"

struct sgd_cuda_update {
    typedef sgd_attributes attributes;
    typedef sgd_step step;
    GPU_MEMBER step step_of(const attributes *a, float lr, int32_t, float scale) {
        return sgd_step_of(a, lr, scale);
    }
    GPU_MEMBER void update(const step *s, float *w, float g, float state[STATE_MOST]) {
        sgd_element x = { *w, state[0] };
        x = sgd_update(s, x, g);
        *w = x.w, state[0] = x.buffer;
    }
};

/* Without a buffer. */
struct sgd_cuda_plain : sgd_cuda_update {
    GPU_MEMBER void update(const step *s, float *w, float g, float *) { *w = sgd_update_plain(s, *w, g); }
};

static void run(const op_call *c) {
    const cuda_update_inputs at = { .lr = 3, .t = 0, .scale = 4, .ok = 5 };
    if (op_in(c, 2)->data)
        cuda_update_run<sgd_cuda_update>(c, op_sgd.update, at);
    else
        cuda_update_run<sgd_cuda_plain>(c, op_sgd.update, at);
}

CUDA_KERNELS(sgd_cuda, { "sgd_cuda_blocks", cuda_accepts, NULL, run });
