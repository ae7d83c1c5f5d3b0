/* Twin of the packed product on floats of 8 bits: the plain product, whose operands are read from codes, one
 * by one where they are not aligned. */
#include "ops/matmul_fp8/matmul_fp8_plain_cuda.h"

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

static uint64_t scratch(const op_call *c, int) { return matmul_fp8_coded_of(op_in(c, MATMUL_FP8_B)).all; }

static matmul_fp8_codes codes_of_weight(const op_call *c, fp8_form form, bool along) {
    const shape *s = &op_in(c, MATMUL_FP8_B)->shape;
    int64_t rows = shape_rows(s), width = shape_last(s);
    uint8_t *codes = (uint8_t *)c->scratch;
    uint8_t *scales = codes + matmul_fp8_coded_of(op_in(c, MATMUL_FP8_B)).scales;
    matmul_fp8_round<false>({ cuda_in(c, MATMUL_FP8_B), rows, width, codes, scales, width, form });
    return { codes, scales, width, fp8_blocks(width), FP8_TILE, form, along };
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

/* Do sixteens of a line's codes, or pairs of a depth's, lie in as many aligned bytes, and is none partly
 * outside? */
static bool is_aligned(const matmul_fp8_codes &x) {
    int together = x.along ? 16 : 2;
    return x.width % together == 0 && (uintptr_t)x.codes % (uintptr_t)together == 0;
}

/* O: matmul_fp8_along or matmul_fp8_across. */
template <class O>
static O aligned(const matmul_fp8_codes &x) {
    O o;
    o.codes = x.codes, o.scales = x.scales, o.width = x.width, o.blocks = x.blocks;
    o.shift = matmul_fp8_shift(x.form), o.up = matmul_fp8_up(x.form), o.special = fp8_special(x.form);
    return o;
}

static void multiply(const matmul_fp8_codes &a, const matmul_fp8_codes &b, const matmul_end &e,
                     const matmul_extent &n) {
    typedef matmul_fp8_along<1> along;
    typedef matmul_fp8_across<1> across;
    if (!is_aligned(a) || !is_aligned(b))
        matmul_gathered(a, b, e, n);
    else if (!a.along)
        matmul_gathered(aligned<across>(a), aligned<across>(b), e, n);
    else if (b.along)
        matmul_gathered(aligned<along>(a), aligned<matmul_fp8_along<FP8_TILE>>(b), e, n);
    else
        matmul_gathered(aligned<along>(a), aligned<matmul_fp8_across<FP8_TILE>>(b), e, n);
}

static void run(const op_call *c) {
    const matmul_fp8_attributes *t = matmul_fp8_of(c);
    fp8_form a_form = (fp8_form)t->a_form, b_form = (fp8_form)t->b_form;
    matmul_fp8_sizes s = matmul_fp8_sizes_here(c);
    matmul_fp8_codes a = codes_of(c, MATMUL_FP8_A, MATMUL_FP8_A_SCALES, a_form, !t->ta);
    matmul_fp8_codes b = op_in(c, MATMUL_FP8_B)->dtype == DTYPE_U8
                             ? codes_of(c, MATMUL_FP8_B, MATMUL_FP8_B_SCALES, b_form, t->tb != 0)
                             : codes_of_weight(c, b_form, t->tb != 0);
    multiply(a, b, matmul_fp8_end(c, s), { s.rows, s.columns, s.depth });
}

CUDA_KERNELS(matmul_fp8_cuda, { "matmul_fp8_cuda_plain", cuda_accepts, scratch, run });
