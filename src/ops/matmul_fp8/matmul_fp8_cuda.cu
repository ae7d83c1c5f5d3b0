/* Twin of the packed product on floats of 8 bits: the plain product, whose operands are read from codes. */
#include "ops/cuda_codes.h"
#include "ops/matmul/matmul_cuda.h"

extern "C" {
#include "ops/matmul_fp8/matmul_fp8.h"
}

/* ---- a weight's codes: the largest of each row's part of a square, then scales, then codes ---- */

struct matmul_fp8_part {
    cuda_span w;
    int32_t *parts;
    int64_t width, blocks;
    __device__ __forceinline__ void operator()(int64_t k) const {
        cuda_cell at = cuda_split(k, blocks);
        int64_t begin = at.column * FP8_TILE;
        int64_t n = width - begin < FP8_TILE ? width - begin : (int64_t)FP8_TILE;
        int32_t largest = cuda_codes_largest(w, at.row * width + begin, n);
        if (cuda_lane() == 0) parts[k] = largest;
    }
};

struct matmul_fp8_square {
    const int32_t *parts;
    uint8_t *scales;
    int64_t rows, blocks;
    fp8_form form;
    __device__ __forceinline__ void operator()(int64_t k) const {
        cuda_cell at = cuda_split(k, blocks);
        int64_t first = at.row * FP8_TILE, last = first + FP8_TILE < rows ? first + FP8_TILE : rows;
        int32_t largest = 0;
        for (int64_t row = first + cuda_lane(); row < last; row += GPU_WARP) {
            int32_t size = parts[row * blocks + at.column];
            largest = size > largest ? size : largest;
        }
        largest = cuda_warp_most(largest);
        if (cuda_lane() == 0) scales[k] = fp8_scale(form, largest);
    }
};

struct matmul_fp8_round {
    cuda_span w;
    uint8_t *codes;
    const uint8_t *scales;
    int64_t width, blocks;
    fp8_form form;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, width);
        uint8_t scale = scales[at.row / FP8_TILE * blocks + at.column / FP8_TILE];
        codes[i] = fp8_encode(form, w.get(i) * fp8_inverse(scale));
    }
};

/* ---- operands ---- */

/* What of a code's place, and of its scale's, belongs to its line or to its depth. */
struct matmul_fp8_at {
    int64_t at, block;
};

struct matmul_fp8_codes {
    const uint8_t *codes, *scales;
    int64_t width, blocks; /* of a row as it lies: numbers, scales */
    int64_t rows_each;     /* rows that share their scales */
    fp8_form form;
    bool along;

    __device__ __forceinline__ matmul_fp8_at of_row(int64_t row) const {
        return { row * width, row / rows_each * blocks };
    }
    GPU_MEMBER matmul_fp8_at of_column(int64_t column) { return { column, column / FP8_TILE }; }
    __device__ __forceinline__ matmul_fp8_at of_line(int64_t line) const {
        return along ? of_row(line) : of_column(line);
    }
    __device__ __forceinline__ matmul_fp8_at of_depth(int64_t depth) const {
        return along ? of_column(depth) : of_row(depth);
    }
    __device__ __forceinline__ float get(const matmul_fp8_at &line, const matmul_fp8_at &depth) const {
        uint8_t code = codes[line.at + depth.at];
        float number = form == FP8_E4M3 ? fp8_decode(FP8_E4M3, code) : fp8_decode(FP8_E5M2, code);
        return number * fp8_scale_value(scales[line.block + depth.block]);
    }
};

static uint64_t parts_bytes(const op_arg *b) {
    if (b->dtype == DTYPE_U8) return 0;
    return (uint64_t)(shape_rows(&b->shape) * fp8_blocks(shape_last(&b->shape))) * sizeof(int32_t);
}

static uint64_t scratch(const op_call *c, int) {
    const op_arg *b = op_in(c, MATMUL_FP8_B);
    return matmul_fp8_coded_of(b).all + parts_bytes(b);
}

static matmul_fp8_codes codes_of_weight(const op_call *c, fp8_form form, bool along) {
    const shape *s = &op_in(c, MATMUL_FP8_B)->shape;
    matmul_fp8_coded place = matmul_fp8_coded_of(op_in(c, MATMUL_FP8_B));
    int64_t rows = shape_rows(s), width = shape_last(s), blocks = fp8_blocks(width);
    uint8_t *codes = (uint8_t *)c->scratch, *scales = codes + place.scales;
    int32_t *parts = (int32_t *)(void *)(codes + place.all);
    cuda_span w = cuda_in(c, MATMUL_FP8_B);
    cuda_rows(rows * blocks, matmul_fp8_part{ w, parts, width, blocks });
    cuda_rows(fp8_blocks(rows) * blocks, matmul_fp8_square{ parts, scales, rows, blocks, form });
    cuda_each(rows * width, matmul_fp8_round{ w, codes, scales, width, blocks, form });
    return { codes, scales, width, blocks, FP8_TILE, form, along };
}

static matmul_fp8_codes codes_of(const op_call *c, uint32_t codes, uint32_t scales, fp8_form form,
                                 bool along) {
    int64_t width = shape_last(&op_in(c, codes)->shape);
    return { (const uint8_t *)op_in(c, codes)->data,
             (const uint8_t *)op_in(c, scales)->data,
             width,
             fp8_blocks(width),
             1,
             form,
             along };
}

static void run(const op_call *c) {
    const matmul_fp8_attributes *t = (const matmul_fp8_attributes *)c->attributes;
    const op_arg *b = op_in(c, MATMUL_FP8_B);
    fp8_form a_form = (fp8_form)t->a_form, b_form = (fp8_form)t->b_form;
    matmul_fp8_sizes s;
    matmul_fp8_sizes_of(&op_in(c, MATMUL_FP8_A)->shape, &b->shape, t, &s);
    matmul_end end = matmul_end_of(cuda_in(c, MATMUL_FP8_BIAS), cuda_in(c, MATMUL_FP8_RESIDUAL),
                                   cuda_in(c, MATMUL_FP8_ACCUMULATOR), cuda_out(c, 0), s.columns);
    matmul_gathered(codes_of(c, MATMUL_FP8_A, MATMUL_FP8_A_SCALES, a_form, !t->ta),
                    b->dtype == DTYPE_U8 ? codes_of(c, MATMUL_FP8_B, MATMUL_FP8_B_SCALES, b_form, t->tb != 0)
                                         : codes_of_weight(c, b_form, t->tb != 0),
                    end, { s.rows, s.columns, s.depth });
}

CUDA_KERNELS(matmul_fp8_cuda, { "matmul_fp8_cuda_plain", cuda_accepts, scratch, run });
