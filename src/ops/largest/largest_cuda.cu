/* The twin of largest_cpu.c: a warp looks over a piece, and one over what those have found. */
#include "ops/cuda_codes.h"

extern "C" {
#include "ops/largest/largest.h"
}

enum { PIECE = 4096 };

struct largest_piece {
    cuda_span x;
    int32_t *found;
    int64_t n;
    __device__ __forceinline__ void operator()(int64_t piece) const {
        int64_t first = piece * PIECE, left = n - first;
        int32_t largest = cuda_codes_largest(x, first, left < PIECE ? left : (int64_t)PIECE);
        if (cuda_lane() == 0) found[piece] = largest;
    }
};

struct largest_of_pieces {
    const int32_t *found;
    const float *before; /* may be `y` */
    float *y;
    int64_t count;
    __device__ __forceinline__ void operator()(int64_t) const {
        int32_t largest = codes_size(*before);
        for (int64_t i = cuda_lane(); i < count; i += GPU_WARP)
            largest = found[i] > largest ? found[i] : largest;
        largest = cuda_warp_most(largest);
        __syncwarp(); /* all have read what is written now */
        if (cuda_lane() == 0) *y = half_float((uint32_t)largest);
    }
};

static int64_t pieces_of(const op_call *c) { return (shape_elements(&c->in[0].shape) + PIECE - 1) / PIECE; }

static uint64_t scratch(const op_call *c, int) { return (uint64_t)pieces_of(c) * sizeof(int32_t); }

static void run(const op_call *c) {
    int32_t *found = (int32_t *)c->scratch;
    largest_piece f = { cuda_in(c, 0), found, shape_elements(&c->in[0].shape) };
    cuda_rows(pieces_of(c), f);
    largest_of_pieces all = { found, (const float *)c->in[1].data, (float *)c->out[0].data, pieces_of(c) };
    cuda_rows(1, all);
}

CUDA_KERNELS(largest_cuda, { "largest_cuda_pieces", cuda_accepts, scratch, run });
