/* The twin of quantize_cpu.c: first all scales, then all codes. */
#include "ops/cuda_codes.h"

extern "C" {
#include "ops/quantize/quantize.h"
}

/* What there was before, which stays where `ok` is 0. All may be NULL; so may `ok`. */
struct quantize_before {
    const int32_t *ok;
    const int8_t *codes;
    const float *scales;
    __device__ __forceinline__ bool stays() const { return ok && *ok == 0; }
};

struct quantize_row_scale {
    quantize_before before;
    cuda_span x;
    float *scales;
    int64_t columns;
    __device__ __forceinline__ void operator()(int64_t row) const {
        float scale =
            before.stays() ? before.scales[row] : codes_scale(cuda_codes_largest(x, row * columns, columns));
        if (cuda_lane() == 0) scales[row] = scale;
    }
};

struct quantize_column_scale {
    quantize_before before;
    cuda_codes_parts parts;
    int64_t count;
    float *scales;
    __device__ __forceinline__ void operator()(int64_t column) const {
        scales[column] = before.stays() ? before.scales[column] : cuda_codes_column(parts, count, column);
    }
};

/* CODES_DRAWN neighbours of a row. Lane b has every 32nd of them from b on, whose bits are those of block b
 * of their draw: two from each word, the lower half first. */
struct quantize_codes {
    quantize_before before;
    const float *x, *scales;
    int8_t *codes;
    const philox_key *key; /* NULL: to the nearest */
    uint32_t stream;
    bool by_columns;
    int64_t columns, draws; /* of a row */

    __device__ __forceinline__ void operator()(int64_t number) const {
        cuda_cell at = cuda_split(number, draws); /* row, which of its draws */
        int64_t first = at.column * CODES_DRAWN + cuda_lane();
        philox_block block = { { 0, 0, 0, 0 } };
        if (key) {
            uint64_t seed = (uint64_t)key->seed_high << 32 | key->seed_low;
            philox_block counter = { { (uint32_t)number * GPU_WARP + (uint32_t)cuda_lane(), 0, key->step,
                                       stream } };
            block = philox_draw(seed, counter);
        }
#pragma unroll
        for (int k = 0; k < CODES_DRAWN / GPU_WARP; k++) {
            int64_t column = first + k * GPU_WARP, i = at.row * columns + column;
            if (column < columns)
                put(i, by_columns ? column : at.row, block.word[k / 2] >> k % 2 * 16 & 0xffffu);
        }
    }

    __device__ __forceinline__ void put(int64_t i, int64_t lane, uint32_t bits) const {
        if (before.stays()) {
            codes[i] = before.codes[i];
            return;
        }
        float inverse = codes_inverse(scales[lane]);
        codes[i] = (int8_t)(key ? codes_stochastic(x[i], inverse, bits) : codes_nearest(x[i], inverse));
    }
};

static uint64_t scratch(const op_call *c, int) {
    const shape *x = &c->in[0].shape;
    if (!((const quantize_attributes *)c->attributes)->columns) return 0;
    return (uint64_t)(cuda_codes_parts_of(shape_rows(x)) * shape_last(x)) * sizeof(int32_t);
}

static void run(const op_call *c) {
    const quantize_attributes *a = (const quantize_attributes *)c->attributes;
    const shape *x = &c->in[0].shape;
    int64_t rows = shape_rows(x), columns = shape_last(x), count = cuda_codes_parts_of(rows);
    float *scales = (float *)c->out[1].data;
    quantize_before before = { (const int32_t *)op_in(c, 2)->data, (const int8_t *)op_in(c, 3)->data,
                               (const float *)op_in(c, 4)->data };
    cuda_codes_parts parts = { cuda_in(c, 0), (int32_t *)c->scratch, rows, columns };
    quantize_column_scale column_scale = { before, parts, count, scales };
    quantize_row_scale row_scale = { before, cuda_in(c, 0), scales, columns };
    if (a->columns) {
        cuda_each(count * columns, parts);
        cuda_each(columns, column_scale);
    } else {
        cuda_rows(rows, row_scale);
    }
    quantize_codes codes = { before,
                             (const float *)c->in[0].data,
                             scales,
                             (int8_t *)c->out[0].data,
                             (const philox_key *)op_in(c, 1)->data,
                             (uint32_t)a->stream,
                             a->columns != 0,
                             columns,
                             codes_draws(columns) };
    cuda_rows(rows * codes.draws, codes);
}

CUDA_KERNELS(quantize_cuda, { "quantize_cuda_warps", cuda_accepts, scratch, run });
