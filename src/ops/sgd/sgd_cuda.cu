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

static const cuda_update_inputs inputs = { .lr = 3, .t = 0, .scale = 4, .ok = 5 };

static bool has_buffer(const op_call *c) { return op_in(c, 2)->data != NULL; }

static void run(const op_call *c) {
    if (has_buffer(c))
        cuda_update_run<sgd_cuda_update>(c, op_sgd.update, inputs);
    else
        cuda_update_run<sgd_cuda_plain>(c, op_sgd.update, inputs);
}

void sgd_cuda_sweep(const op_call *calls, uint32_t count) {
    for (uint32_t i = 0, some; i < count; i += some) {
        bool buffered = has_buffer(&calls[i]);
        for (some = 1; i + some < count && has_buffer(&calls[i + some]) == buffered;) some++;
        if (buffered)
            cuda_update_sweep<sgd_cuda_update>(&calls[i], some, op_sgd.update, inputs);
        else
            cuda_update_sweep<sgd_cuda_plain>(&calls[i], some, op_sgd.update, inputs);
    }
}

CUDA_KERNELS(sgd_cuda, { "sgd_cuda_blocks", cuda_accepts, NULL, run });
