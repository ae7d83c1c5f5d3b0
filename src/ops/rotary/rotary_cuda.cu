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

/* y may be x. A thread has a pair of numbers, or one that is not turned, of some neighbouring heads, whose
 * angle it reads once. */
enum { ROTARY_HEADS = 8 };

struct rotary_turn {
    cuda_span x, angles, y;
    int64_t width, times, groups, columns; /* of a row: groups of heads, and what threads have of a head */
    rotary_attributes a;

    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell row = cuda_split(i, groups * columns), at = cuda_split(row.column, columns);
        int64_t half = a.turned / 2, head = at.row * ROTARY_HEADS, last = head + ROTARY_HEADS;
        int64_t step = a.neighbours ? 2 : 1, apart = a.neighbours ? 1 : half; /* rotary_layout */
        if (last > a.heads) last = a.heads;
        int64_t from = row.row * width + head * a.size, end = row.row * width + last * a.size;
        if (at.column >= half) {
            for (from += half + at.column; x.data != y.data && from < end; from += a.size)
                y.set(from, x.get(from));
            return;
        }
        int64_t angle = cuda_split(row.row, times).column * a.turned + at.column;
        float cosine = angles.get(angle), sine = (a.back ? -1.0f : 1.0f) * angles.get(angle + half);
        for (from += at.column * step; from < end; from += a.size) {
            float left = x.get(from), right = x.get(from + apart);
            y.set(from, left * cosine - right * sine);
            y.set(from + apart, right * cosine + left * sine);
        }
    }
};

/* What of a row belongs to no head that is turned. */
struct rotary_rest {
    cuda_span x, y;
    int64_t width, first;

    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, width - first);
        int64_t k = at.row * width + first + at.column;
        y.set(k, x.get(k));
    }
};

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape;
    const rotary_attributes a = *(const rotary_attributes *)c->attributes;
    int64_t rows = x->dim[0] * x->dim[1], width = x->dim[2], heads = a.heads * a.size,
            groups = (a.heads + ROTARY_HEADS - 1) / ROTARY_HEADS, columns = a.size - a.turned / 2;
    rotary_turn f = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0), width, x->dim[1], groups, columns, a };
    cuda_each(rows * groups * columns, f);
    rotary_rest rest = { f.x, f.y, width, heads };
    if (f.x.data != f.y.data) cuda_each(rows * (width - heads), rest);
}

CUDA_KERNELS(rotary_angles_cuda, { "rotary_angles_cuda_pairs", cuda_accepts, NULL, run_angles });
CUDA_KERNELS(rotary_cuda, { "rotary_cuda_map", cuda_accepts, NULL, run });
