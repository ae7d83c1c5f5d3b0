/* Product on codes of 8 bits. Floats become codes in scratch first, as words of four that follow each other
 * along the sum, [four][line]; stored codes are read where they lie. Then a block makes 64 x 64 sums, whose
 * integers are exact in any order, on tensor cores too, where these are asked for; what is made of them has
 * the CPU's order: tile after tile of the sum, then bias and residual.
 *
 * What bounds it: without tensor cores products of four codes at once (dp4a), and the words that they read.
 * With them shared memory: of 32 depths a block's four warps read 8 KiB and 4 are written, 96 cycles, of
 * which tensor cores of 8.0 need 64. */
#include "device/cuda/mma.h"
#include "ops/cuda_rows.h"

extern "C" {
#include "base/instructions.h"
#include "base/threads.h"
#include "ops/matmul_int8/matmul_int8.h"
}
#include "ops/matmul_int8/matmul_int8_math.h"

/* ---- operands ---- */

struct matmul_int8_floats {
    cuda_span x;
    int64_t stride, lines, depth, tile; /* tile: depths that have a scale of their own */
    bool across;               /* neighbouring lines are neighbours in memory, else neighbouring depths */
    const float *fixed, *fold; /* one scale for all lines; what numbers are multiplied by; may be NULL */
    const philox_key *key;     /* across: codes are rounded stochastically; may be NULL */
    uint32_t stream;
    int64_t first, sample_rows;
    uint32_t *words; /* [four][line] */
    float *scales;   /* [tile][line] */

    __device__ __forceinline__ float get(int64_t line, int64_t d) const {
        if (across) return x.get(d * stride + line);
        float value = x.get(line * stride + d);
        return fold ? value * fold[d] : value;
    }
    __device__ __forceinline__ int32_t code(int64_t line, int64_t d, float inverse) const {
        if (!key) return codes_nearest(get(line, d), inverse);
        int64_t row = first + d, within = row % sample_rows;
        codes_draw draw = { { *key, stream }, (uint32_t)(row / sample_rows) };
        uint32_t byte = codes_draw_byte(&draw, within * codes_draws_of(stride) + line / CODES_DRAWN,
                                        (int)(line % CODES_DRAWN));
        return codes_stochastic_coarse(get(line, d), inverse, byte);
    }
    /* Codes d .. d+3, as far as they are below `end`. */
    __device__ __forceinline__ uint32_t four(int64_t line, int64_t d, int64_t end, float inverse) const {
        uint32_t word = 0;
        for (int k = 0; k < 4; k++)
            if (d + k < end) word |= ((uint32_t)code(line, d + k, inverse) & 0xffu) << 8 * k;
        return word;
    }
    GPU_MEMBER int64_t codes_draws_of(int64_t columns) { return (columns + CODES_DRAWN - 1) / CODES_DRAWN; }
};

/* Lines that lie across: a thread has a line of a tile. */
struct matmul_int8_across {
    matmul_int8_floats o;

    __device__ __forceinline__ void operator()(int64_t i) const {
        int64_t line = i % o.lines, tile = i / o.lines, from = tile * o.tile, end = from + o.tile;
        int32_t largest = 0;
        if (end > o.depth) end = o.depth;
        for (int64_t d = from; d < end; d++) {
            int32_t size = codes_size(o.get(line, d));
            largest = size > largest ? size : largest;
        }
        float scale = matmul_int8_scale_of(o.fixed, largest), inverse = codes_inverse(scale);
        o.scales[i] = scale;
        for (int64_t d = from; d < end; d += 4)
            o.words[d / 4 * o.lines + line] = o.four(line, d, end, inverse);
    }
};

/* Lines that follow their depths: a warp has a line. */
struct matmul_int8_code_along {
    matmul_int8_floats o;

    __device__ __forceinline__ void operator()(int64_t line) const {
        int32_t largest = 0;
        for (int64_t d = cuda_lane(); d < o.depth; d += GPU_WARP) {
            int32_t size = codes_size(o.get(line, d));
            largest = size > largest ? size : largest;
        }
        for (int lanes = GPU_WARP / 2; lanes; lanes /= 2) {
            int32_t other = __shfl_xor_sync(0xffffffffu, largest, lanes);
            largest = other > largest ? other : largest;
        }
        float scale = matmul_int8_scale_of(o.fixed, largest), inverse = codes_inverse(scale);
        if (cuda_lane() == 0) o.scales[line] = scale;
        for (int64_t d = 4 * cuda_lane(); d < o.depth; d += 4 * GPU_WARP)
            o.words[d / 4 * o.lines + line] = o.four(line, d, o.depth, inverse);
    }
};

static void matmul_int8_encode(const matmul_int8_floats &o) {
    matmul_int8_across across = { o };
    matmul_int8_code_along along = { o };
    if (o.across)
        cuda_each(o.lines * ((o.depth + o.tile - 1) / o.tile), across);
    else
        cuda_rows(o.lines, along);
}

/* What the product reads of an operand: codes that were made, */
struct matmul_int8_made {
    const uint32_t *words;
    const float *scales;
    int64_t lines;
    __device__ __forceinline__ uint32_t four(int64_t line, int64_t f) const {
        return words[f * lines + line];
    }
    __device__ __forceinline__ float scale(int64_t line, int64_t tile) const {
        return scales[tile * lines + line];
    }
};

/* and those that were stored. */
struct matmul_int8_stored {
    const int8_t *codes;
    const float *scales; /* by line; NULL: 1 */
    int64_t by_line, by_depth, depth;
    __device__ __forceinline__ uint32_t four(int64_t line, int64_t f) const {
        const int8_t *at = codes + line * by_line;
        uint32_t word = 0;
        for (int k = 0; k < 4; k++)
            if (4 * f + k < depth) word |= (uint32_t)(uint8_t)at[(4 * f + k) * by_depth] << 8 * k;
        return word;
    }
    __device__ __forceinline__ float scale(int64_t line, int64_t) const {
        return scales ? scales[line] : 1.0f;
    }
};

/* ---- the product ---- */

enum {
    MATMUL_INT8_LINES = 64,
    MATMUL_INT8_FOURS =
        16, /* in shared memory at a time; a tile of the sum is whole such steps, but the last */
    MATMUL_INT8_EACH = 4
};
static_assert(THREADS_ROW_TILE % (4 * MATMUL_INT8_FOURS) == 0, "a tile is whole steps");

struct matmul_int8_extent {
    int64_t rows, columns, depth, tile;
};

struct matmul_int8_end {
    cuda_span bias, residual, accumulator, y; /* the first three may be absent */
};

/* sum + the four products of codes */
GPU_INLINE int32_t matmul_int8_dot(uint32_t a, uint32_t b, int32_t sum) {
#ifdef __CUDA_ARCH__
    return __dp4a((int)a, (int)b, sum);
#else
    for (int k = 0; k < 4; k++) sum += (int32_t)(int8_t)(a >> 8 * k) * (int32_t)(int8_t)(b >> 8 * k);
    return sum;
#endif
}

template <class O>
GPU_INLINE void matmul_int8_load(uint32_t *to, const O &o, int64_t line, int64_t lines, int64_t four,
                                 int64_t fours) {
#pragma unroll
    for (int i = (int)threadIdx.x; i < MATMUL_INT8_LINES * MATMUL_INT8_FOURS; i += GPU_BLOCK) {
        int l = i % MATMUL_INT8_LINES, f = i / MATMUL_INT8_LINES;
        to[i] = line + l < lines && four + f < fours ? o.four(line + l, four + f) : 0;
    }
}

/* What sums of a tile add: the first of all is not added to a 0. */
template <class B>
GPU_INLINE void matmul_int8_add(float x[4][4], int32_t sum[4][4], const matmul_int8_made &a, const B &b,
                                const matmul_int8_extent &n, const int64_t at[4]) {
    int64_t row = at[0], column = at[1], tile = at[2];
    bool begins = at[3] != 0;
#pragma unroll
    for (int i = 0; i < MATMUL_INT8_EACH; i++)
#pragma unroll
        for (int j = 0; j < MATMUL_INT8_EACH; j++) {
            if (row + i < n.rows && column + j < n.columns) {
                float more = (float)sum[i][j] * (a.scale(row + i, tile) * b.scale(column + j, tile));
                x[i][j] = begins ? more : x[i][j] + more;
            }
            sum[i][j] = 0;
        }
}

template <class B>
__global__ void __launch_bounds__(GPU_BLOCK, 2)
    matmul_int8_kernel(matmul_int8_made a, B b, matmul_int8_end e, matmul_int8_extent n) {
    GPU_SHARED(uint32_t, of_a); /* (four, line) */
    uint32_t *of_b = of_a + MATMUL_INT8_LINES * MATMUL_INT8_FOURS;
    int64_t row = (int64_t)blockIdx.y * MATMUL_INT8_LINES, column = (int64_t)blockIdx.x * MATMUL_INT8_LINES;
    int r = (int)threadIdx.x / 16 * MATMUL_INT8_EACH, k = (int)threadIdx.x % 16 * MATMUL_INT8_EACH;
    int64_t fours = (n.depth + 3) / 4;
    float x[MATMUL_INT8_EACH][MATMUL_INT8_EACH];
    int32_t sum[MATMUL_INT8_EACH][MATMUL_INT8_EACH];
#pragma unroll
    for (int i = 0; i < MATMUL_INT8_EACH; i++)
#pragma unroll
        for (int j = 0; j < MATMUL_INT8_EACH; j++) {
            bool inside = row + r + i < n.rows && column + k + j < n.columns;
            int64_t at = (row + r + i) * n.columns + column + k + j;
            x[i][j] = inside && e.accumulator.data ? e.accumulator.get(at) + 0.0f : 0.0f;
            sum[i][j] = 0;
        }
    for (int64_t f = 0; f < fours; f += MATMUL_INT8_FOURS) {
        matmul_int8_load(of_a, a, row, n.rows, f, fours);
        matmul_int8_load(of_b, b, column, n.columns, f, fours);
        __syncthreads();
        for (int q = 0; q < MATMUL_INT8_FOURS; q++) {
            const uint32_t *left = of_a + q * MATMUL_INT8_LINES + r,
                           *right = of_b + q * MATMUL_INT8_LINES + k;
#pragma unroll
            for (int i = 0; i < MATMUL_INT8_EACH; i++)
#pragma unroll
                for (int j = 0; j < MATMUL_INT8_EACH; j++)
                    sum[i][j] = matmul_int8_dot(left[i], right[j], sum[i][j]);
        }
        __syncthreads();
        int64_t done = 4 * (f + MATMUL_INT8_FOURS), tile = 4 * f / n.tile;
        if (done % n.tile && done < n.depth) continue;
        int64_t at[4] = { row + r, column + k, tile, !e.accumulator.data && tile == 0 };
        matmul_int8_add(x, sum, a, b, n, at);
    }
#pragma unroll
    for (int i = 0; i < MATMUL_INT8_EACH; i++)
#pragma unroll
        for (int j = 0; j < MATMUL_INT8_EACH; j++) {
            if (row + r + i >= n.rows || column + k + j >= n.columns) continue;
            int64_t at = (row + r + i) * n.columns + column + k + j;
            float y = e.bias.data ? e.bias.get(column + k + j) + x[i][j] : x[i][j];
            e.y.set(at, e.residual.data ? e.residual.get(at) + y : y);
        }
}

/* ---- the product on tensor cores ----
 * The same sums, and so the same bits. A block's four warps have 32 x 32 of its 64 x 64 each; what it reads
 * next waits in registers while it multiplies. */

enum {
    MATMUL_INT8_CORE_THREADS = 128,
    MATMUL_INT8_CORE_LINE = MATMUL_INT8_LINES + 8, /* words from one four to the next: in other banks */
    MATMUL_INT8_CORE_OPERAND = MATMUL_INT8_FOURS * MATMUL_INT8_CORE_LINE,
    MATMUL_INT8_CORE_EACH = MATMUL_INT8_LINES * MATMUL_INT8_FOURS / MATMUL_INT8_CORE_THREADS,
    MATMUL_INT8_CORE_DOWN = 2,
    MATMUL_INT8_CORE_ACROSS = 4 /* fragments of a warp */
};

template <class O>
GPU_INLINE void matmul_int8_read(uint32_t (&words)[MATMUL_INT8_CORE_EACH], const O &o, int64_t line,
                                 int64_t lines, int64_t four, int64_t fours) {
    int l = (int)threadIdx.x % MATMUL_INT8_LINES, f = (int)threadIdx.x / MATMUL_INT8_LINES;
#pragma unroll
    for (int i = 0; i < MATMUL_INT8_CORE_EACH; i++, f += MATMUL_INT8_CORE_THREADS / MATMUL_INT8_LINES)
        words[i] = line + l < lines && four + f < fours ? o.four(line + l, four + f) : 0;
}
GPU_INLINE void matmul_int8_put(uint32_t *to, const uint32_t (&words)[MATMUL_INT8_CORE_EACH]) {
    int l = (int)threadIdx.x % MATMUL_INT8_LINES, f = (int)threadIdx.x / MATMUL_INT8_LINES;
#pragma unroll
    for (int i = 0; i < MATMUL_INT8_CORE_EACH; i++, f += MATMUL_INT8_CORE_THREADS / MATMUL_INT8_LINES)
        to[f * MATMUL_INT8_CORE_LINE + l] = words[i];
}

typedef int32_t matmul_int8_core_sums[MATMUL_INT8_CORE_DOWN][MATMUL_INT8_CORE_ACROSS][4];
typedef float matmul_int8_core_floats[MATMUL_INT8_CORE_DOWN][MATMUL_INT8_CORE_ACROSS][4];

/* f(i, j, k, row, column) for each sum of a thread. */
template <class F>
GPU_INLINE void matmul_int8_each(const F &f) {
    int lane = cuda_lane(), warp = (int)threadIdx.x / GPU_WARP;
    int row = warp / 2 * 16 * MATMUL_INT8_CORE_DOWN + lane / 4,
        column = warp % 2 * 8 * MATMUL_INT8_CORE_ACROSS + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < MATMUL_INT8_CORE_DOWN; i++)
#pragma unroll
        for (int j = 0; j < MATMUL_INT8_CORE_ACROSS; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) f(i, j, k, row + i * 16 + k / 2 * 8, column + j * 8 + k % 2);
}

/* A step's words onto the sums: eight fours of both, from the warp's lines, by an mma. */
GPU_INLINE void matmul_int8_core_multiply(matmul_int8_core_sums &sum, const uint32_t *a, const uint32_t *b) {
    int lane = cuda_lane(), warp = (int)threadIdx.x / GPU_WARP;
    a += lane % 4 * MATMUL_INT8_CORE_LINE + warp / 2 * 16 * MATMUL_INT8_CORE_DOWN + lane / 4;
    b += lane % 4 * MATMUL_INT8_CORE_LINE + warp % 2 * 8 * MATMUL_INT8_CORE_ACROSS + lane / 4;
#pragma unroll
    for (int f = 0; f < MATMUL_INT8_FOURS * MATMUL_INT8_CORE_LINE; f += 8 * MATMUL_INT8_CORE_LINE) {
        enum { HALF = 4 * MATMUL_INT8_CORE_LINE };
        uint32_t of_a[MATMUL_INT8_CORE_DOWN][4];
#pragma unroll
        for (int i = 0; i < MATMUL_INT8_CORE_DOWN; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) of_a[i][k] = a[f + k / 2 * HALF + i * 16 + k % 2 * 8];
#pragma unroll
        for (int j = 0; j < MATMUL_INT8_CORE_ACROSS; j++) {
            uint32_t of_b[2] = { b[f + j * 8], b[f + HALF + j * 8] };
#pragma unroll
            for (int i = 0; i < MATMUL_INT8_CORE_DOWN; i++) gpu_mma_codes(sum[i][j], of_a[i], of_b);
        }
    }
}

template <class B>
GPU_INLINE void matmul_int8_core_add(matmul_int8_core_floats &x, matmul_int8_core_sums &sum,
                                     const matmul_int8_made &a, const B &b, const matmul_int8_extent &n,
                                     const int64_t at[4]) {
    int64_t row = at[0], column = at[1], tile = at[2];
    bool begins = at[3] != 0;
    matmul_int8_each([&](int i, int j, int k, int r, int c) {
        if (row + r < n.rows && column + c < n.columns) {
            float more = (float)sum[i][j][k] * (a.scale(row + r, tile) * b.scale(column + c, tile));
            x[i][j][k] = begins ? more : x[i][j][k] + more;
        }
        sum[i][j][k] = 0;
    });
}

template <class B>
__global__ void __launch_bounds__(MATMUL_INT8_CORE_THREADS, 3)
    matmul_int8_core_kernel(matmul_int8_made a, B b, matmul_int8_end e, matmul_int8_extent n) {
#if GPU_HAS_MMA
    GPU_SHARED(uint32_t, of_a); /* (four, line) */
    uint32_t *of_b = of_a + MATMUL_INT8_CORE_OPERAND;
    int64_t row = (int64_t)blockIdx.y * MATMUL_INT8_LINES, column = (int64_t)blockIdx.x * MATMUL_INT8_LINES;
    int64_t fours = (n.depth + 3) / 4;
    matmul_int8_core_floats x;
    matmul_int8_core_sums sum;
    matmul_int8_each([&](int i, int j, int k, int r, int c) {
        bool inside = row + r < n.rows && column + c < n.columns;
        int64_t at = (row + r) * n.columns + column + c;
        x[i][j][k] = inside && e.accumulator.data ? e.accumulator.get(at) + 0.0f : 0.0f;
        sum[i][j][k] = 0;
    });
    uint32_t next_a[MATMUL_INT8_CORE_EACH], next_b[MATMUL_INT8_CORE_EACH];
    matmul_int8_read(next_a, a, row, n.rows, 0, fours),
        matmul_int8_read(next_b, b, column, n.columns, 0, fours);
#pragma unroll 1
    for (int64_t f = 0; f < fours; f += MATMUL_INT8_FOURS) {
        matmul_int8_put(of_a, next_a), matmul_int8_put(of_b, next_b);
        __syncthreads();
        matmul_int8_read(next_a, a, row, n.rows, f + MATMUL_INT8_FOURS, fours);
        matmul_int8_read(next_b, b, column, n.columns, f + MATMUL_INT8_FOURS, fours);
        matmul_int8_core_multiply(sum, of_a, of_b);
        __syncthreads();
        int64_t done = 4 * (f + MATMUL_INT8_FOURS), tile = 4 * f / n.tile;
        if (done % n.tile && done < n.depth) continue;
        int64_t at[4] = { row, column, tile, !e.accumulator.data && tile == 0 };
        matmul_int8_core_add(x, sum, a, b, n, at);
    }
    matmul_int8_each([&](int i, int j, int k, int r, int c) {
        if (row + r >= n.rows || column + c >= n.columns) return;
        int64_t at = (row + r) * n.columns + column + c;
        float y = e.bias.data ? e.bias.get(column + c) + x[i][j][k] : x[i][j][k];
        e.y.set(at, e.residual.data ? e.residual.get(at) + y : y);
    });
#endif
}

/* ---- the call ---- */

struct matmul_int8_job {
    matmul_int8_floats a, b; /* b: where it is floats */
    matmul_int8_extent n;
    uint64_t bytes; /* of scratch */
};

/* Takes the place for the codes and scales of an operand. */
static void matmul_int8_take(matmul_int8_job *j, matmul_int8_floats *o, char *scratch) {
    uint64_t lines = (uint64_t)o->lines, words = lines * (((uint64_t)o->depth + 3) / 4) * sizeof(uint32_t);
    uint64_t scales =
        lines * (((uint64_t)o->depth + (uint64_t)o->tile - 1) / (uint64_t)o->tile) * sizeof(float);
    if (scratch)
        o->words = (uint32_t *)(scratch + j->bytes), o->scales = (float *)(scratch + j->bytes + words);
    j->bytes += (words + scales + 63) / 64 * 64;
}

static matmul_int8_floats matmul_int8_floats_of(const op_call *c, uint32_t input, int64_t lines,
                                                const matmul_int8_extent &n) {
    const matmul_int8_attributes *t = (const matmul_int8_attributes *)c->attributes;
    const op_arg *x = op_in(c, input), *key = op_in(c, MATMUL_INT8_KEY);
    bool is_a = input == MATMUL_INT8_A;
    matmul_int8_floats o = {};
    o.x = cuda_span_of(x), o.stride = shape_last(&x->shape);
    o.lines = lines, o.depth = n.depth, o.tile = n.tile;
    o.across = is_a ? t->ta != 0 : t->tb == 0;
    if (is_a) o.fixed = (const float *)op_in(c, MATMUL_INT8_FIXED)->data;
    if (is_a && t->folded) o.fold = (const float *)op_in(c, MATMUL_INT8_SCALES)->data;
    if (t->ta) o.key = (const philox_key *)key->data;
    o.stream = (uint32_t)t->stream + (is_a ? 0 : 1);
    o.first = t->first;
    o.sample_rows = t->sample_rows ? t->sample_rows : shape_rows(&x->shape) / x->shape.dim[0];
    return o;
}

static matmul_int8_job matmul_int8_job_of(const op_call *c) {
    const matmul_int8_attributes *t = (const matmul_int8_attributes *)c->attributes;
    const op_arg *b = op_in(c, MATMUL_INT8_B);
    matmul_int8_sizes s;
    matmul_int8_sizes_of(&op_in(c, MATMUL_INT8_A)->shape, &b->shape, t, &s);
    matmul_int8_job j = {};
    j.n = { s.rows, s.columns, s.depth,
            t->ta && s.depth > THREADS_ROW_TILE ? (int64_t)THREADS_ROW_TILE : s.depth };
    j.a = matmul_int8_floats_of(c, MATMUL_INT8_A, s.rows, j.n);
    matmul_int8_take(&j, &j.a, (char *)c->scratch);
    if (b->dtype == DTYPE_I8) return j;
    j.b = matmul_int8_floats_of(c, MATMUL_INT8_B, s.columns, j.n);
    matmul_int8_take(&j, &j.b, (char *)c->scratch);
    return j;
}

template <bool CORES, class B>
static void matmul_int8_multiply(const op_call *c, const matmul_int8_job &j, const B &b) {
    matmul_int8_made a = { j.a.words, j.a.scales, j.a.lines };
    matmul_int8_end e = { cuda_in(c, MATMUL_INT8_BIAS), cuda_in(c, MATMUL_INT8_RESIDUAL),
                          cuda_in(c, MATMUL_INT8_ACCUMULATOR), cuda_out(c, 0) };
    dim3 blocks(gpu_blocks(j.n.columns, MATMUL_INT8_LINES), gpu_blocks(j.n.rows, MATMUL_INT8_LINES));
    if (j.n.rows <= 0 || j.n.columns <= 0) return;
    if (CORES)
        GPU_LAUNCH((matmul_int8_core_kernel<B>), blocks, MATMUL_INT8_CORE_THREADS,
                   2 * MATMUL_INT8_CORE_OPERAND * sizeof(uint32_t), a, b, e, j.n);
    else
        GPU_LAUNCH((matmul_int8_kernel<B>), blocks, GPU_BLOCK,
                   2 * MATMUL_INT8_LINES * MATMUL_INT8_FOURS * sizeof(uint32_t), a, b, e, j.n);
}

template <bool CORES>
static void run(const op_call *c) {
    const matmul_int8_attributes *t = (const matmul_int8_attributes *)c->attributes;
    const op_arg *b = op_in(c, MATMUL_INT8_B), *scales = op_in(c, MATMUL_INT8_SCALES);
    matmul_int8_job j = matmul_int8_job_of(c);
    matmul_int8_encode(j.a);
    if (b->dtype != DTYPE_I8) {
        matmul_int8_made made = { j.b.words, j.b.scales, j.b.lines };
        matmul_int8_encode(j.b);
        matmul_int8_multiply<CORES>(c, j, made);
        return;
    }
    int64_t wide = shape_last(&b->shape);
    matmul_int8_stored stored = { (const int8_t *)b->data, t->folded ? NULL : (const float *)scales->data,
                                  t->tb ? wide : 1, t->tb ? 1 : wide, j.n.depth };
    matmul_int8_multiply<CORES>(c, j, stored);
}

static uint64_t scratch(const op_call *c, int) { return matmul_int8_job_of(c).bytes; }

static bool accepts_cores(const op_call *c) {
    return c->capability >= GPU_MMA_LEAST && instructions_tensor(CONFIRM_CODES, c->capability) &&
           cuda_accepts(c);
}

CUDA_KERNELS(matmul_int8_cuda, { "matmul_int8_cuda_cores", accepts_cores, scratch, run<true> },
             { "matmul_int8_cuda_dot", cuda_accepts, scratch, run<false> });
