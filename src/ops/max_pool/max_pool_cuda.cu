/* Twins of max_pool_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/max_pool/max_pool.h"
}

struct max_pool_one {
    cuda_span x, y;
    int32_t *places;
    max_pool_attributes a;
    int64_t height, width, channels;   /* of x */
    int64_t height_after, width_after; /* of y */

    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, channels), row = cuda_split(at.row, width_after);
        cuda_cell sample = cuda_split(row.row, height_after);
        int64_t image = sample.row * height * width, top = sample.column * a.stride - a.padding;
        int64_t left = row.column * a.stride - a.padding, best = -1;
        float most = 0;
        for (int64_t r = top; r < top + a.size; r++)
            for (int64_t s = left; s < left + a.size; s++) {
                if (r < 0 || s < 0 || r >= height || s >= width) continue;
                float here = x.get((image + r * width + s) * channels + at.column);
                if (best < 0 || here > most) best = r * width + s, most = here;
            }
        y.set(i, most);
        places[i] = (int32_t)best;
    }
};

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape, *y = &c->out[0].shape;
    max_pool_one f = { cuda_in(c, 0),
                       cuda_out(c, 0),
                       (int32_t *)c->out[1].data,
                       *(const max_pool_attributes *)c->attributes,
                       x->dim[1],
                       x->dim[2],
                       x->dim[3],
                       y->dim[1],
                       y->dim[2] };
    cuda_each_long(shape_elements(y), f);
}

/* ---- the gradient: windows may overlap, and what meets is added in the order of y ---- */

struct max_pool_begin {
    cuda_span dx;
    __device__ __forceinline__ void operator()(int64_t i) const { dx.set(i, 0); }
};

/* A thread has a channel of a sample: nobody else adds to its numbers. What it adds is read some at a time,
 * as each sum waits for the one before. */
struct max_pool_slope {
    enum { AHEAD = 8 };
    const int32_t *places;
    cuda_span dy, dx;
    int64_t channels, image, count; /* places of a sample: of dx, of y */

    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, channels);
        int64_t from = at.row * count * channels + at.column, to = at.row * image * channels + at.column;
        for (int64_t p = 0; p < count; p += AHEAD) {
            int32_t place[AHEAD];
            float d[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; k++) {
                bool is = p + k < count;
                place[k] = is ? places[from + (p + k) * channels] : -1;
                d[k] = is ? dy.get(from + (p + k) * channels) : 0;
            }
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (place[k] >= 0 && place[k] < image) add(to + place[k] * channels, d[k]);
        }
    }

    __device__ __forceinline__ void add(int64_t i, float d) const { dx.set(i, dx.get(i) + d); }
};

static void run_backward(const op_call *c) {
    const shape *dx = &c->out[0].shape, *y = &c->in[0].shape;
    max_pool_begin begin = { cuda_out(c, 0) };
    cuda_each(shape_elements(dx), begin);
    max_pool_slope f = { (const int32_t *)c->in[0].data, cuda_in(c, 1),        cuda_out(c, 0), dx->dim[3],
                         dx->dim[1] * dx->dim[2],        y->dim[1] * y->dim[2] };
    cuda_each_long(y->dim[0] * y->dim[3], f);
}

CUDA_KERNELS(max_pool_cuda, { "max_pool_cuda_map", cuda_accepts, NULL, run });
CUDA_KERNELS(max_pool_backward_cuda, { "max_pool_backward_cuda_channels", cuda_accepts, NULL, run_backward });
