/* What kernels for products of floats of 8 bits share: a weight becomes codes in one sweep, which memory
 * bounds, its end, and the call. */
#pragma once

#include "ops/cuda_codes.h"
#include "ops/matmul/matmul_cuda.h"

extern "C" {
#include "ops/matmul_fp8/matmul_fp8.h"
}

/* A code that is a number, exactly: it is `shift` bits below an f32 of its number times 1 / up. */
GPU_INLINE float matmul_fp8_widened(uint32_t code, int shift, float up, float scale) {
    return half_float((code & 0x80u) << 24 | (code & 0x7fu) << shift) * up * scale;
}
static inline int matmul_fp8_shift(fp8_form form) { return form == FP8_E4M3 ? 20 : 21; }
static inline float matmul_fp8_up(fp8_form form) { return form == FP8_E4M3 ? 0x1p120f : 0x1p112f; }

/* A weight (rows, width) and the codes that it becomes, with a scale for each square. Codes lie as the weight
 * does, a row `stride` bytes from the next, or turned: a column is a line then, `stride` is a multiple of 4,
 * and what a line has behind `rows`, up to a multiple of 4, becomes 0. */
struct matmul_fp8_weight {
    cuda_span w;
    int64_t rows, width;
    uint8_t *codes, *scales; /* scales: (blocks of rows, blocks of columns) */
    int64_t stride;
    fp8_form form;
};

/* A square is read once: a thread keeps 4 x 4 of its numbers in each EACH rows of it, columns a warp apart,
 * until the largest of all is known. */
enum {
    MATMUL_FP8_THREADS = 512, /* with half as many, ptxas spills for 10.0 */
    MATMUL_FP8_WARPS = MATMUL_FP8_THREADS / GPU_WARP,
    MATMUL_FP8_EACH = MATMUL_FP8_WARPS * 4,
    MATMUL_FP8_TIMES = FP8_TILE / MATMUL_FP8_EACH,
    MATMUL_FP8_WORDS = FP8_TILE / 4,    /* of a line of codes */
    MATMUL_FP8_LINE = FP8_TILE / 4 + 1, /* words from one to the next in shared memory: in other banks */
    MATMUL_FP8_SHARED = FP8_TILE * MATMUL_FP8_LINE * 4
};
static_assert(FP8_TILE == 4 * GPU_WARP, "a warp has a row in four reads");

typedef float matmul_fp8_numbers_kept[MATMUL_FP8_TIMES][4][4];

/* f(row in the square, a thread's four numbers of it). */
template <class F>
GPU_INLINE void matmul_fp8_each(matmul_fp8_numbers_kept &x, const F &f) {
    int row = (int)threadIdx.x / GPU_WARP * 4;
#pragma unroll
    for (int t = 0; t < MATMUL_FP8_TIMES; t++)
#pragma unroll
        for (int r = 0; r < 4; r++) f(t * MATMUL_FP8_EACH + row + r, x[t][r]);
}

/* The scale of the square, from what each thread found; `shared` has room for a number of each warp. */
GPU_INLINE uint8_t matmul_fp8_scale(fp8_form form, int32_t mine, int32_t *shared) {
    mine = cuda_warp_most(mine);
    if (cuda_lane() == 0) shared[threadIdx.x / GPU_WARP] = mine;
    __syncthreads();
    for (int warp = 0; warp < MATMUL_FP8_WARPS; warp++) mine = shared[warp] > mine ? shared[warp] : mine;
    __syncthreads();
    return fp8_scale(form, mine);
}

/* Codes of four rows below each other are a word of a turned line. */
GPU_INLINE void matmul_fp8_turn(const matmul_fp8_weight &m, const matmul_fp8_numbers_kept &x, float inverse,
                                int64_t row, int64_t column, uint32_t *shared) {
    int warp = (int)threadIdx.x / GPU_WARP, lane = cuda_lane();
#pragma unroll
    for (int t = 0; t < MATMUL_FP8_TIMES; t++)
#pragma unroll
        for (int c = 0; c < 4; c++) {
            uint32_t word = 0;
#pragma unroll
            for (int r = 0; r < 4; r++) word |= (uint32_t)fp8_encode(m.form, x[t][r][c] * inverse) << 8 * r;
            shared[(c * GPU_WARP + lane) * MATMUL_FP8_LINE + (t * MATMUL_FP8_EACH) / 4 + warp] = word;
        }
    __syncthreads();
    if (row + 4 * lane >= m.rows) return;
    for (int line = warp; line < FP8_TILE && column + line < m.width; line += MATMUL_FP8_WARPS)
        *GPU_WIDE(uint32_t, m.codes + (column + line) * m.stride + row + 4 * lane) =
            shared[line * MATMUL_FP8_LINE + lane];
}

/* One square to a block. */
template <bool TURNED>
__global__ void __launch_bounds__(MATMUL_FP8_THREADS)
    matmul_fp8_square_kernel(matmul_fp8_weight m, int64_t blocks) {
    GPU_SHARED(uint32_t, shared);
    const cuda_cell at = cuda_split((int64_t)blockIdx.x, blocks);
    const int64_t row = at.row * FP8_TILE, column = at.column * FP8_TILE;
    const int64_t columns = m.width - column < FP8_TILE ? m.width - column : (int64_t)FP8_TILE;
    matmul_fp8_numbers_kept x;
    int32_t largest = 0;
    matmul_fp8_each(x, [&](int r, float(&four)[4]) {
        int64_t first = (row + r) * m.width + column;
        m.w.get_some(first + cuda_lane(), GPU_WARP, row + r < m.rows ? first + columns : first, four);
#pragma unroll
        for (int c = 0; c < 4; c++) largest = codes_size(four[c]) > largest ? codes_size(four[c]) : largest;
    });
    uint8_t scale = matmul_fp8_scale(m.form, largest, (int32_t *)shared);
    float inverse = fp8_inverse(scale);
    if (threadIdx.x == 0) m.scales[blockIdx.x] = scale;
    if (TURNED) {
        matmul_fp8_turn(m, x, inverse, row, column, shared);
        return;
    }
    matmul_fp8_each(x, [&](int r, float(&four)[4]) {
#pragma unroll
        for (int c = 0; c < 4; c++)
            if (row + r < m.rows && c * GPU_WARP + cuda_lane() < columns)
                m.codes[(row + r) * m.stride + column + c * GPU_WARP + cuda_lane()] =
                    fp8_encode(m.form, four[c] * inverse);
    });
}

template <bool TURNED>
static void matmul_fp8_round(const matmul_fp8_weight &m) {
    int64_t blocks = fp8_blocks(m.width), squares = fp8_blocks(m.rows) * blocks;
    if (squares > 0)
        GPU_LAUNCH((matmul_fp8_square_kernel<TURNED>), (unsigned)squares, MATMUL_FP8_THREADS,
                   MATMUL_FP8_SHARED, m, blocks);
}

/* ---- from the call ---- */

static inline const matmul_fp8_attributes *matmul_fp8_of(const op_call *c) {
    return (const matmul_fp8_attributes *)c->attributes;
}

static inline matmul_fp8_sizes matmul_fp8_sizes_here(const op_call *c) {
    matmul_fp8_sizes s;
    matmul_fp8_sizes_of(&op_in(c, MATMUL_FP8_A)->shape, &op_in(c, MATMUL_FP8_B)->shape, matmul_fp8_of(c), &s);
    return s;
}

static inline matmul_end matmul_fp8_end(const op_call *c, const matmul_fp8_sizes &s) {
    return matmul_end_of(cuda_in(c, MATMUL_FP8_BIAS), cuda_in(c, MATMUL_FP8_RESIDUAL),
                         cuda_in(c, MATMUL_FP8_ACCUMULATOR), cuda_out(c, 0), s.columns);
}

/* On tensor cores by groups of warps (matmul_fp8_group_cuda.cu), and in tensor memory. */
void matmul_fp8_group_run(const op_call *c);
void matmul_fp8_tmem_run(const op_call *c);
