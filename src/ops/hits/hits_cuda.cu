/* The twin of hits_cpu.c: a warp looks through a row, and one counts the rows. */
#include "ops/cuda_whole.h"

extern "C" {
#include "ops/hits/hits.h"
}

/* All lanes begin with the row's first number, so that one which nothing is larger than, NaN, stays. */
struct hits_row {
    cuda_span x;
    const int32_t *labels;
    int32_t *met;
    int64_t width;
    __device__ __forceinline__ void operator()(int64_t row) const {
        float most = x.get(row * width);
        int32_t best = 0;
        for (int64_t j = cuda_lane(); j < width; j += GPU_WARP) {
            float here = x.get(row * width + j);
            if (here > most) most = here, best = (int32_t)j;
        }
        for (int lanes = GPU_WARP / 2; lanes; lanes /= 2) {
            float other = __shfl_xor_sync(0xffffffffu, most, lanes);
            int32_t at = __shfl_xor_sync(0xffffffffu, best, lanes);
            if (other > most || (other == most && at < best)) most = other, best = at;
        }
        if (cuda_lane() == 0) met[row] = best == labels[row];
    }
};

struct hits_count {
    const int32_t *met;
    float *hits;
    int64_t rows;
    __device__ __forceinline__ void operator()(int64_t) const {
        int32_t count = 0;
        for (int64_t r = cuda_lane(); r < rows; r += GPU_WARP) count += met[r];
        count = cuda_warp_count(count);
        if (cuda_lane() == 0) *hits = (float)count;
    }
};

static uint64_t scratch(const op_call *c, int) {
    return (uint64_t)shape_rows(&c->in[0].shape) * sizeof(int32_t);
}

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape;
    int32_t *met = (int32_t *)c->scratch;
    hits_row f = { cuda_in(c, 0), (const int32_t *)c->in[1].data, met, shape_last(x) };
    cuda_rows(shape_rows(x), f);
    hits_count count = { met, (float *)c->out[0].data, shape_rows(x) };
    cuda_rows(1, count);
}

CUDA_KERNELS(hits_cuda, { "hits_cuda_rows", cuda_accepts, scratch, run });
