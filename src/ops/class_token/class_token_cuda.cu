/* Twins of class_token_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/class_token/class_token.h"
}

struct class_token_one {
    cuda_plain x, token, y;
    int64_t width, sample; /* elements of a token; of a sample of x */
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, sample + width);
        int64_t from = at.row * sample + at.column - width;
        y.set(i, at.column < width ? token.get(at.column) : x.get(from));
    }
};

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape;
    class_token_one f = { cuda_plain_of(&c->in[0]), cuda_plain_of(&c->in[1]), cuda_plain_of(&c->out[0]),
                          x->dim[2], x->dim[1] * x->dim[2] };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

/* Samples one after the other, in f32, as on the CPU. */
struct class_token_sums {
    cuda_span dy, before, dtoken; /* before.data may be NULL */
    int64_t samples, sample;      /* elements of one, of dy */
    __device__ __forceinline__ void operator()(int64_t i) const {
        float sum = before.data ? before.get(i) : 0;
        for (int64_t b = 0; b < samples; b++) sum += dy.get(b * sample + i);
        dtoken.set(i, sum);
    }
};

struct class_token_rest {
    cuda_plain dy, dx;
    int64_t width, sample; /* of dx */
    __device__ __forceinline__ void operator()(int64_t i) const {
        dx.set(i, dy.get(i + (cuda_split(i, sample).row + 1) * width));
    }
};

static void run_backward(const op_call *c) {
    const shape *dy = &c->in[0].shape;
    int64_t width = dy->dim[2], sample = dy->dim[1] * width;
    class_token_sums sums = { cuda_in(c, 0), cuda_in(c, 1), cuda_out(c, 0), dy->dim[0], sample };
    cuda_each(width, sums);
    class_token_rest rest = { cuda_plain_of(&c->in[0]), cuda_plain_of(&c->out[1]), width, sample - width };
    cuda_each(shape_elements(&c->out[1].shape), rest);
}

CUDA_KERNELS(class_token_cuda, { "class_token_cuda_copy", cuda_accepts, NULL, run });
CUDA_KERNELS(class_token_backward_cuda,
             { "class_token_backward_cuda_map", cuda_accepts, NULL, run_backward });
