/* Twins of rotary_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/rotary/rotary.h"
}
#include "ops/rotary/rotary_math.h"

/* In double, as on the CPU: few numbers, once in a program. */
struct rotary_pair_angles {
    cuda_span y;
    rotary_places places;
    rotary_angles_attributes a;

    __device__ __forceinline__ void operator()(int64_t i) const {
        int64_t half = a.turned / 2;
        cuda_cell at = cuda_split(i, half); /* row, pair */
        double gain = a.gain > 0 ? a.gain : 1;
        double speed = rotary_speed_of(&a, at.column, rotary_length(&places, at.row));
        wide_turn turn = wide_turn_of((double)rotary_place(&places, at.row) * speed);
        y.set(2 * at.row * half + at.column, (float)(gain * turn.cosine));
        y.set((2 * at.row + 1) * half + at.column, (float)(gain * turn.sine));
    }
};

static void run_angles(const op_call *c) {
    const op_arg *offset = op_in(c, 0);
    int64_t rows = c->out[0].shape.dim[0];
    rotary_places places = { (const int32_t *)offset->data, offset->data ? offset->shape.dim[0] : 1, rows };
    rotary_pair_angles f = { cuda_out(c, 0), places, *(const rotary_angles_attributes *)c->attributes };
    cuda_each(rows * (f.a.turned / 2), f);
}

/* y may be x: the thread of a pair's left number turns both, and that of the right one does nothing. */
struct rotary_turn {
    cuda_span x, angles, y;
    int64_t width, times;
    rotary_attributes a;

    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, width), head = cuda_split(at.column, a.size);
        int64_t half = a.turned / 2, angle = cuda_split(at.row, times).column * a.turned + head.column;
        if (head.row >= a.heads || head.column >= a.turned) {
            if (x.data != y.data) y.set(i, x.get(i));
            return;
        }
        if (head.column >= half) return;
        float left = x.get(i), right = x.get(i + half), cosine = angles.get(angle);
        float sine = (a.back ? -1.0f : 1.0f) * angles.get(angle + half);
        y.set(i, left * cosine - right * sine);
        y.set(i + half, right * cosine + left * sine);
    }
};

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape;
    rotary_turn f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0),
                      x->dim[2],     x->dim[1],     *(const rotary_attributes *)c->attributes };
    cuda_each(shape_elements(x), f);
}

CUDA_KERNELS(rotary_angles_cuda, { "rotary_angles_cuda_pairs", cuda_accepts, NULL, run_angles });
CUDA_KERNELS(rotary_cuda, { "rotary_cuda_map", cuda_accepts, NULL, run });
