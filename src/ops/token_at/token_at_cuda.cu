/* Twins of token_at_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/token_at/token_at.h"
}

struct token_at_one {
    cuda_plain x, y;
    const int32_t *place;
    int64_t tokens, width;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, width);
        int32_t p = place[at.row];
        y.set(i, p >= 0 && p < tokens ? x.get((at.row * tokens + p) * width + at.column) : 0);
    }
};

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape;
    token_at_one f = { cuda_plain_of(&c->in[0]), cuda_plain_of(&c->out[0]), (const int32_t *)c->in[1].data,
                       x->dim[1], x->dim[2] };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

/* Without an accumulator nothing is added, and dy's bits are moved as they are. */
struct token_at_alone {
    cuda_plain dy, dx;
    const int32_t *place;
    int64_t tokens, width;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, width), token = cuda_split(at.row, tokens); /* sample, which */
        dx.set(i, place[token.row] == token.column ? dy.get(token.row * width + at.column) : 0);
    }
};

struct token_at_added {
    cuda_span dy, before, dx;
    const int32_t *place;
    int64_t tokens, width;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, width), token = cuda_split(at.row, tokens);
        float d = place[token.row] == token.column ? dy.get(token.row * width + at.column) : 0;
        dx.set(i, before.get(i) + d);
    }
};

static void run_backward(const op_call *c) {
    const shape *dx = &c->out[0].shape;
    const int32_t *place = (const int32_t *)c->in[0].data;
    token_at_alone alone = { cuda_plain_of(&c->in[1]), cuda_plain_of(&c->out[0]), place, dx->dim[1],
                             dx->dim[2] };
    token_at_added added = { cuda_in(c, 1), cuda_in(c, 2), cuda_out(c, 0), place, dx->dim[1], dx->dim[2] };
    if (added.before.data)
        cuda_each(shape_elements(dx), added);
    else
        cuda_each(shape_elements(dx), alone);
}

CUDA_KERNELS(token_at_cuda, { "token_at_cuda_copy", cuda_accepts, NULL, run });
CUDA_KERNELS(token_at_backward_cuda, { "token_at_backward_cuda_map", cuda_accepts, NULL, run_backward });
