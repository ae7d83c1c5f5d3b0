/* The twin of dropout_cpu.c: a warp draws 128 words, a block of Philox in each lane, and hands them out so
 * that neighbours have neighbouring elements. */
#include "ops/cuda_rows.h"

extern "C" {
#include "ops/dropout/dropout.h"
}
#include "ops/dropout/dropout_math.h"

enum { PHILOX_WORDS = 4, DRAWN = PHILOX_WORDS * GPU_WARP };

/* Of word `which` of a block, what its lane has drawn. */
GPU_INLINE uint32_t dropout_word(const philox_block &block, int lane, int which) {
    uint32_t got = 0;
#pragma unroll
    for (int w = 0; w < PHILOX_WORDS; w++) {
        uint32_t word = __shfl_sync(0xffffffffu, block.word[w], lane);
        got = w == which ? word : got;
    }
    return got;
}

struct dropout_warp {
    cuda_span x, y;
    const philox_key *key;
    int64_t size, draws; /* of a sample: elements; warps that they take */
    float p, factor;
    uint32_t stream;

    __device__ __forceinline__ void operator()(int64_t draw) const {
        cuda_cell at = cuda_split(draw, draws); /* sample; which of its draws */
        int lane = cuda_lane();
        uint64_t seed = (uint64_t)key->seed_high << 32 | key->seed_low;
        philox_block counter = { { (uint32_t)(at.column * GPU_WARP + lane),
                                   key->first_sample + (uint32_t)at.row, key->step, stream } };
        philox_block block = philox_draw(seed, counter);
#pragma unroll
        for (int k = 0; k < PHILOX_WORDS; k++) {
            int from = (k * GPU_WARP + lane) / PHILOX_WORDS;
            uint32_t word = dropout_word(block, from, lane % PHILOX_WORDS);
            int64_t e = at.column * DRAWN + k * GPU_WARP + lane, i = at.row * size + e;
            if (e < size) y.set(i, dropout_value(word, p, factor, x.get(i)));
        }
    }
};

static void run(const op_call *c) {
    const dropout_attributes *a = (const dropout_attributes *)c->attributes;
    const shape *x = &c->in[0].shape;
    int64_t samples = x->dim[0], size = shape_elements(x) / samples, draws = (size + DRAWN - 1) / DRAWN;
    dropout_warp f = {
        cuda_in(c, 0),        cuda_out(c, 0),     (const philox_key *)c->in[1].data, size, draws, a->p,
        dropout_factor(a->p), (uint32_t)a->stream
    };
    cuda_rows(samples * draws, f);
}

CUDA_KERNELS(dropout_cuda, { "dropout_cuda_warps", cuda_accepts, NULL, run });
