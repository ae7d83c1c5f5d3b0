/* A warp to a row. In double, as on the CPU, so that results are rounded once: a row has one factor. */
#include "ops/cuda_rows.h"

extern "C" {
#include "ops/row_gate/row_gate.h"
}
#include "ops/wide_math.h"

GPU_INLINE double row_gate_factor(const cuda_span &gate, int64_t row) {
    return 1 / (1 + wide_exp(-(double)gate.get(row)));
}

struct row_gate_row {
    cuda_span x, gate, y;
    int64_t width;
    __device__ __forceinline__ void operator()(int64_t row) const {
        double by = row_gate_factor(gate, row);
        for (int64_t i = row * width + cuda_lane(); i < (row + 1) * width; i += GPU_WARP)
            y.set(i, (float)(by * (double)x.get(i)));
    }
};

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape;
    row_gate_row f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0), shape_last(x) };
    cuda_rows(shape_rows(x), f);
}

/* dx may live where x or dy does: a lane reads an element before it writes it, and no other lane does. */
struct row_gate_slope {
    cuda_span x, gate, dy, dx, dgate;
    int64_t width;
    __device__ __forceinline__ void operator()(int64_t row) const {
        double by = row_gate_factor(gate, row), dot = 0;
        for (int64_t i = row * width + cuda_lane(); i < (row + 1) * width; i += GPU_WARP) {
            double d = (double)dy.get(i);
            dot += d * (double)x.get(i);
            dx.set(i, (float)(by * d));
        }
        for (int lanes = GPU_WARP / 2; lanes; lanes /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, lanes);
        if (cuda_lane() == 0) dgate.set(row, (float)(dot * by * (1 - by)));
    }
};

static void run_backward(const op_call *c) {
    const shape *x = &c->in[0].shape;
    row_gate_slope f = { cuda_in(c, 0),  cuda_in(c, 1),  cuda_in(c, 2),
                         cuda_out(c, 0), cuda_out(c, 1), shape_last(x) };
    cuda_rows(shape_rows(x), f);
}

CUDA_KERNELS(row_gate_cuda, { "row_gate_cuda_rows", cuda_accepts, NULL, run });
CUDA_KERNELS(row_gate_backward_cuda, { "row_gate_backward_cuda_rows", cuda_accepts, NULL, run_backward });
