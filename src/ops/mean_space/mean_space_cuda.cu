/* Twins of mean_space_cpu.c: a thread has a channel of a sample, and adds in double, as on the CPU. */
#include "ops/cuda.h"

extern "C" {
#include "ops/mean_space/mean_space.h"
}

struct mean_space_one {
    cuda_span x, y;
    int64_t places, channels;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, channels); /* sample, channel */
        double sum = 0;
#pragma unroll 4
        for (int64_t p = 0; p < places; p++)
            sum += (double)x.get((at.row * places + p) * channels + at.column);
        y.set(i, (float)(sum / (double)places));
    }
};

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape;
    mean_space_one f = { cuda_in(c, 0), cuda_out(c, 0), x->dim[1] * x->dim[2], x->dim[3] };
    cuda_each_long(shape_elements(&c->out[0].shape), f);
}

struct mean_space_slope {
    cuda_span dy, dx;
    int64_t places, channels;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, channels);
        int64_t sample = cuda_split(at.row, places).row;
        dx.set(i, dy.get(sample * channels + at.column) / (float)places);
    }
};

static void run_backward(const op_call *c) {
    const shape *dx = &c->out[0].shape;
    mean_space_slope f = { cuda_in(c, 0), cuda_out(c, 0), dx->dim[1] * dx->dim[2], dx->dim[3] };
    cuda_each(shape_elements(dx), f);
}

CUDA_KERNELS(mean_space_cuda, { "mean_space_cuda_map", cuda_accepts, NULL, run });
CUDA_KERNELS(mean_space_backward_cuda, { "mean_space_backward_cuda_map", cuda_accepts, NULL, run_backward });
