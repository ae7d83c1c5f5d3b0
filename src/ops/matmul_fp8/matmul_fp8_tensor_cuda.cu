/* The product of floats of 8 bits on tensor cores: in a file of its own, since compiling it takes long. */
#include "ops/matmul_fp8/matmul_fp8_tensor_cuda.h"

extern "C" {
#include "base/least.h"
}

static bool accepts(const op_call *c) {
    const matmul_fp8_attributes *t = matmul_fp8_of(c);
    bool codes = gpu_mma_fp8_known(c->capability) && t->b_form == FP8_E4M3;
    return instructions_tensor() && (t->ta ? c->capability >= GPU_MMA_LEAST : codes) && cuda_accepts(c);
}

/* A weight's codes in scratch, as lines of depths that begin at 16 bytes, and its scales behind them. */
struct matmul_fp8_scratch {
    int64_t stride;
    uint64_t scales, all;
};
static matmul_fp8_scratch matmul_fp8_scratch_of(const op_call *c, const matmul_fp8_sizes &s) {
    enum { COPY = 16, LINE = 64 };
    int64_t stride = divide_up(s.depth, COPY) * COPY, codes = divide_up(s.columns * stride, LINE) * LINE;
    int64_t squares = fp8_blocks(s.columns) * fp8_blocks(s.depth);
    if (op_in(c, MATMUL_FP8_B)->dtype == DTYPE_U8) return { 0, 0, 0 };
    return { stride, (uint64_t)codes, (uint64_t)(codes + divide_up(squares, LINE) * LINE) };
}

static uint64_t scratch(const op_call *c, int) {
    return matmul_fp8_scratch_of(c, matmul_fp8_sizes_here(c)).all;
}

/* ---- along rows ---- */

template <class T>
static void run_along(const op_call *c, const matmul_fp8_sizes &s) {
    const shape *w = &op_in(c, MATMUL_FP8_B)->shape;
    bool turned = !matmul_fp8_of(c)->tb;
    matmul_fp8_scratch place = matmul_fp8_scratch_of(c, s);
    uint8_t *codes = (uint8_t *)c->scratch, *squares = codes + place.scales;
    int64_t rows = shape_rows(w), width = shape_last(w), blocks = fp8_blocks(s.depth);
    matmul_fp8_weight weight = {
        cuda_in(c, MATMUL_FP8_B), rows, width, codes, squares, place.stride, FP8_E4M3
    };
    if (turned)
        matmul_fp8_round<true>(weight);
    else
        matmul_fp8_round<false>(weight);
    const uint8_t *scales = (const uint8_t *)op_in(c, MATMUL_FP8_A_SCALES)->data;
    matmul_fp8_numbers<T> numbers = { scales,
                                      squares,
                                      s.rows,
                                      s.columns,
                                      blocks,
                                      turned ? 1 : fp8_blocks(width),
                                      turned ? fp8_blocks(width) : 1,
                                      blocks % 4 == 0 && (uintptr_t)scales % 4 == 0 };
    tensor_product<tensor_operand> p = {
        { op_in(c, MATMUL_FP8_A)->data, s.depth, s.rows }, { codes, place.stride, s.columns }, s.depth, false
    };
    tensor_choose<false, false>(p, numbers, matmul_fp8_end(c, s));
}

/* ---- over rows ---- */

static matmul_fp8_lines lines_of(const op_call *c, uint32_t codes, uint32_t scales, int32_t form) {
    const op_arg *x = op_in(c, codes);
    int64_t width = shape_last(&x->shape);
    bool e4m3 = form == FP8_E4M3;
    return { (const uint8_t *)x->data,
             (const uint8_t *)op_in(c, scales)->data,
             width,
             fp8_blocks(width),
             e4m3 ? 20 : 21,
             e4m3 ? 0x1p120f : 0x1p112f,
             width % 8 == 0 && (uintptr_t)x->data % 8 == 0 };
}

static void run_over_rows(const op_call *c, const matmul_fp8_sizes &s) {
    const matmul_fp8_attributes *t = matmul_fp8_of(c);
    tensor_product<matmul_fp8_lines> p = { lines_of(c, MATMUL_FP8_A, MATMUL_FP8_A_SCALES, t->a_form),
                                           lines_of(c, MATMUL_FP8_B, MATMUL_FP8_B_SCALES, t->b_form), s.depth,
                                           op_in(c, MATMUL_FP8_ACCUMULATOR)->data != NULL };
    tensor_sized<matmul_fp8_widens, true, true>(p, tensor_halves<gpu_bf16>{}, matmul_fp8_end(c, s));
}

static void run(const op_call *c) {
    matmul_fp8_sizes s = matmul_fp8_sizes_here(c);
    if (s.rows <= 0 || s.columns <= 0) return;
    if (matmul_fp8_of(c)->ta)
        run_over_rows(c, s);
    else if (matmul_fp8_of(c)->a_form == FP8_E4M3)
        run_along<gpu_e4m3>(c, s);
    else
        run_along<gpu_e5m2>(c, s);
}

CUDA_KERNELS(matmul_fp8_tensor, { "matmul_fp8_cuda_tensor", accepts, scratch, run });
