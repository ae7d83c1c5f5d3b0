/* Twins of soft_cross_entropy_cpu.c's fast kernels: a warp has a row. */
#include "ops/cuda_order.h"
#include "ops/cuda_rows.h"

extern "C" {
#include "base/threads.h"
#include "ops/soft_cross_entropy/soft_cross_entropy.h"
}
#include "ops/soft_cross_entropy/soft_cross_entropy_math.h"

static float weight_of(const op_call *c) {
    return ((const soft_cross_entropy_attributes *)c->attributes)->weight;
}

struct soft_cross_entropy_rows {
    cuda_span x, target;
    float *lse, *terms;
    int64_t classes;

    __device__ __forceinline__ void operator()(int64_t row) const {
        int64_t at = row * classes;
        float largest = x.get(at);
        for (int64_t i = cuda_lane(); i < classes; i += GPU_WARP) {
            float one = x.get(at + i);
            largest = one > largest ? one : largest;
        }
        largest = cuda_warp_largest(largest);
        float sum = cuda_row_sum(
            classes, [&](int64_t j) { return soft_cross_entropy_exponential(x.get(at + j), largest); });
        float of_row = soft_cross_entropy_lse(largest, sum);
        float term = cuda_row_sum(classes, [&](int64_t j) {
            return soft_cross_entropy_term(x.get(at + j), target.get(at + j), of_row);
        });
        if (cuda_lane() == 0) lse[row] = of_row, terms[row] = term;
    }
};

struct soft_cross_entropy_sums {
    const float *terms;
    double *tiles;

    __device__ __forceinline__ double start(int64_t) const { return 0; }
    __device__ __forceinline__ double term(int64_t row) const { return (double)terms[row]; }
    __device__ __forceinline__ void add(double &to, int64_t, double x) const { to += x; }
    __device__ __forceinline__ void end(int64_t tile, double sum) const { tiles[tile] = sum; }
};

struct soft_cross_entropy_of_tiles {
    const double *tiles;
    double weight;
    cuda_span scale, accumulator, loss; /* accumulator.data may be NULL */

    __device__ __forceinline__ float start(int64_t) const { return cuda_number(accumulator, 0); }
    __device__ __forceinline__ double term(int64_t i) const {
        return (double)scale.get(0) * weight * tiles[i];
    }
    __device__ __forceinline__ void add(float &to, int64_t, double x) const { to = (float)((double)to + x); }
    __device__ __forceinline__ void end(int64_t, float x) const { loss.set(0, x); }
};

static uint64_t scratch(const op_call *c, int) {
    return (uint64_t)cuda_pieces(shape_rows(&c->in[0].shape), THREADS_ROW_TILE) * sizeof(double);
}

static void run(const op_call *c) {
    int64_t rows = shape_rows(&c->in[0].shape), tiles = cuda_pieces(rows, THREADS_ROW_TILE);
    soft_cross_entropy_rows f = { cuda_in(c, 0), cuda_in(c, 1), (float *)c->out[1].data,
                                  (float *)c->out[2].data, shape_last(&c->in[0].shape) };
    soft_cross_entropy_sums sums = { f.terms, (double *)c->scratch };
    soft_cross_entropy_of_tiles loss = { sums.tiles, (double)weight_of(c), cuda_in(c, 2), cuda_in(c, 3),
                                         cuda_out(c, 0) };
    cuda_rows(rows, f);
    cuda_in_order(rows, THREADS_ROW_TILE, sums);
    cuda_in_order(tiles, tiles, loss);
}

struct soft_cross_entropy_slopes {
    cuda_span x, target, scale, dloss, dx;
    const float *lse;
    int64_t classes;
    float weight;

    __device__ __forceinline__ void operator()(int64_t row) const {
        int64_t at = row * classes;
        float factor = scale.get(0) * weight * dloss.get(0), of_row = lse[row];
        float all = cuda_row_sum(classes, [&](int64_t j) { return target.get(at + j); });
        for (int64_t j = cuda_lane(); j < classes; j += GPU_WARP)
            dx.set(at + j, soft_cross_entropy_slope(factor, all, x.get(at + j), target.get(at + j), of_row));
    }
};

static void run_backward(const op_call *c) {
    soft_cross_entropy_slopes f = { cuda_in(c, 0),
                                    cuda_in(c, 1),
                                    cuda_in(c, 2),
                                    cuda_in(c, 4),
                                    cuda_out(c, 0),
                                    (const float *)c->in[3].data,
                                    shape_last(&c->in[0].shape),
                                    weight_of(c) };
    cuda_rows(shape_rows(&c->in[0].shape), f);
}

CUDA_KERNELS(soft_cross_entropy_cuda, { "soft_cross_entropy_cuda_rows", cuda_accepts, scratch, run });
CUDA_KERNELS(soft_cross_entropy_backward_cuda,
             { "soft_cross_entropy_backward_cuda_rows", cuda_accepts, NULL, run_backward });
