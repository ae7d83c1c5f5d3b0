/* Twins of element_loss_cpu.c's fast kernels. */
#include "ops/cuda_order.h"

extern "C" {
#include "base/threads.h"
#include "ops/element_loss/element_loss.h"
}
#include "ops/element_loss/element_loss_math.h"

static const element_loss_attributes *attributes_of(const op_call *c) {
    return (const element_loss_attributes *)c->attributes;
}

template <element_loss_function FUNCTION>
struct element_loss_sums {
    cuda_span x, target;
    double *tiles;

    __device__ __forceinline__ double start(int64_t) const { return 0; }
    __device__ __forceinline__ double term(int64_t i) const {
        return (double)element_loss_value_f32(FUNCTION, x.get(i), target.get(i));
    }
    __device__ __forceinline__ void add(double &to, int64_t, double term) const { to += term; }
    __device__ __forceinline__ void end(int64_t tile, double sum) const { tiles[tile] = sum; }
};

struct element_loss_of_tiles {
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

static int64_t numbers_of(const op_call *c) { return shape_elements(&c->in[0].shape); }

static uint64_t scratch(const op_call *c, int) {
    return (uint64_t)cuda_pieces(numbers_of(c), THREADS_ROW_TILE) * sizeof(double);
}

template <element_loss_function FUNCTION>
static void sum_tiles(const op_call *c) {
    element_loss_sums<FUNCTION> f = { cuda_in(c, 0), cuda_in(c, 1), (double *)c->scratch };
    cuda_in_order(numbers_of(c), THREADS_ROW_TILE, f);
}

static void run(const op_call *c) {
    int64_t tiles = cuda_pieces(numbers_of(c), THREADS_ROW_TILE);
    switch (attributes_of(c)->function) {
    case ELEMENT_LOSS_SQUARED: sum_tiles<ELEMENT_LOSS_SQUARED>(c); break;
    case ELEMENT_LOSS_ABSOLUTE: sum_tiles<ELEMENT_LOSS_ABSOLUTE>(c); break;
    default: sum_tiles<ELEMENT_LOSS_BINARY>(c);
    }
    element_loss_of_tiles loss = { (const double *)c->scratch, (double)attributes_of(c)->weight,
                                   cuda_in(c, 2), cuda_in(c, 3), cuda_out(c, 0) };
    cuda_in_order(tiles, tiles, loss);
}

template <element_loss_function FUNCTION>
struct element_loss_slopes {
    cuda_span x, target, scale, dloss, dx;
    float weight;

    __device__ __forceinline__ void operator()(int64_t i) const {
        float factor = scale.get(0) * weight * dloss.get(0);
        dx.set(i, factor * element_loss_slope_f32(FUNCTION, x.get(i), target.get(i)));
    }
};

template <element_loss_function FUNCTION>
static void slopes(const op_call *c) {
    element_loss_slopes<FUNCTION> f = { cuda_in(c, 0), cuda_in(c, 1),  cuda_in(c, 2),
                                        cuda_in(c, 3), cuda_out(c, 0), attributes_of(c)->weight };
    cuda_each(numbers_of(c), f);
}

static void run_backward(const op_call *c) {
    switch (attributes_of(c)->function) {
    case ELEMENT_LOSS_SQUARED: slopes<ELEMENT_LOSS_SQUARED>(c); break;
    case ELEMENT_LOSS_ABSOLUTE: slopes<ELEMENT_LOSS_ABSOLUTE>(c); break;
    default: slopes<ELEMENT_LOSS_BINARY>(c);
    }
}

CUDA_KERNELS(element_loss_cuda, { "element_loss_cuda_in_order", cuda_accepts, scratch, run });
CUDA_KERNELS(element_loss_backward_cuda,
             { "element_loss_backward_cuda_map", cuda_accepts, NULL, run_backward });
