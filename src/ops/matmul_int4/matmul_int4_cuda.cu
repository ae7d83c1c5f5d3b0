/* Product with codes of 4 bits. Rows become codes of 8 bits in scratch, a warp for each group. Then a block
 * has 32 outputs, a lane for each, and up to 4 rows; each of its warps makes a slice of all their sums, and
 * slices are added in their order: the CPU's, with its bits. Codes are read as they lie, by words whose
 * neighbours belong to neighbouring outputs. What bounds it: memory, by the bytes of codes, for one row; up
 * to four share them. More rows read them again, from the second cache where they have room. */
#include "ops/cuda_rows.h"

extern "C" {
#include "ops/matmul_int4/matmul_int4.h"
}

/* ---- rows ---- */

struct matmul_int4_encode {
    cuda_span x;
    int8_t *codes;
    float *scales;
    int32_t *starts;

    /* A thread has a number of the group. */
    __device__ __forceinline__ void operator()(int64_t group) const {
        int64_t at = group * CODES4_GROUP + cuda_lane();
        float value = x.get(at);
        int32_t largest = codes_size(value);
        for (int lanes = GPU_WARP / 2; lanes; lanes /= 2) {
            int32_t other = __shfl_xor_sync(0xffffffffu, largest, lanes);
            largest = other > largest ? other : largest;
        }
        float scale = codes_scale(largest);
        int32_t code = codes_nearest(value, codes_inverse(scale)), sum = code;
        codes[at] = (int8_t)code;
        for (int lanes = GPU_WARP / 2; lanes; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
        if (cuda_lane() == 0) scales[group] = scale, starts[group] = -CODES4_ZERO * sum;
    }
};
static_assert((int)CODES4_GROUP == (int)GPU_WARP, "a thread for each number of a group");

/* ---- the product ---- */

enum {
    MATMUL_INT4_COLUMNS = GPU_WARP,           /* of a block */
    MATMUL_INT4_SLICES = GPU_BLOCK / GPU_WARP /* that it makes at a time */
};

struct matmul_int4_product {
    uint8_t *codes;
    const uint16_t *scales;
    const uint32_t *a; /* words of four codes */
    const float *scales_a;
    const int32_t *starts;
    cuda_span bias, residual, y; /* the first two may be absent */
    int64_t rows, outputs;
    int32_t groups;
    int32_t whole_words; /* codes are aligned to 4 */

    __device__ __forceinline__ uint32_t word(int64_t at) const {
        if (whole_words) return *GPU_WIDE(uint32_t, codes + at);
        uint32_t w = 0;
        for (int k = 0; k < 4; k++) w |= (uint32_t)codes[at + k] << 8 * k;
        return w;
    }
};

/* sum + four products of codes from 0 to 15 with signed ones */
GPU_INLINE int32_t matmul_int4_dot(uint32_t w, uint32_t a, int32_t sum) {
#ifdef __CUDA_ARCH__
    return __dp4a((int)w, (int)a, sum);
#else
    for (int k = 0; k < 4; k++) sum += (int32_t)(int8_t)(w >> 8 * k) * (int32_t)(int8_t)(a >> 8 * k);
    return sum;
#endif
}

/* Group g of an output, added to the sums of ROWS rows, whose first groups `line` has. */
template <int ROWS>
GPU_INLINE void matmul_int4_group(const matmul_int4_product &p, const int32_t (&line)[ROWS], int64_t output,
                                  int32_t g, float (&x)[ROWS]) {
    codes4_place at = codes4_at(p.outputs, p.groups, output, g);
    uint32_t word[CODES4_WORDS];
#pragma unroll
    for (int w = 0; w < CODES4_WORDS; w++) word[w] = p.word(at.code + w * at.lanes * 4);
    float scale = half_from_f16(p.scales[at.scale]);
    int32_t sum[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) sum[i] = p.starts[line[i] + g];
#pragma unroll
    for (int w = 0; w < CODES4_WORDS; w++)
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const uint32_t *a = p.a + (int64_t)(line[i] + g) * (CODES4_GROUP / 4) + 2 * w;
            sum[i] = matmul_int4_dot(word[w] & 0x0f0f0f0fu, a[0], sum[i]);
            sum[i] = matmul_int4_dot(word[w] >> 4 & 0x0f0f0f0fu, a[1], sum[i]);
        }
#pragma unroll
    for (int i = 0; i < ROWS; i++) x[i] += (float)sum[i] * (p.scales_a[line[i] + g] * scale);
}

template <int ROWS>
__global__ void __launch_bounds__(GPU_BLOCK, 2) matmul_int4_kernel(matmul_int4_product p) {
    GPU_SHARED(float, slices); /* (slice, row, column) */
    int warp = (int)threadIdx.x / GPU_WARP, lane = cuda_lane();
    int64_t output = (int64_t)blockIdx.x * MATMUL_INT4_COLUMNS + lane, row = (int64_t)blockIdx.y * ROWS;
    bool inside = output < p.outputs, adds = inside && warp < ROWS && row + warp < p.rows;
    int32_t line[ROWS]; /* rows that are not there repeat the last one */
#pragma unroll
    for (int i = 0; i < ROWS; i++) line[i] = (int32_t)(row + i < p.rows ? row + i : p.rows - 1) * p.groups;
    float y = 0;
    for (int32_t from = 0; from < p.groups; from += MATMUL_INT4_SLICES * MATMUL_INT4_SLICE) {
        int32_t first = from + warp * MATMUL_INT4_SLICE, last = first + MATMUL_INT4_SLICE;
        float x[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++) x[i] = 0;
#pragma unroll 1
        for (int32_t g = first; inside && g < (last < p.groups ? last : p.groups); g++)
            matmul_int4_group<ROWS>(p, line, output, g, x);
#pragma unroll
        for (int i = 0; i < ROWS; i++) slices[(warp * ROWS + i) * MATMUL_INT4_COLUMNS + lane] = x[i];
        __syncthreads();
        for (int s = 0; adds && s < MATMUL_INT4_SLICES && from + s * MATMUL_INT4_SLICE < p.groups; s++)
            y += slices[(s * ROWS + warp) * MATMUL_INT4_COLUMNS + lane];
        __syncthreads();
    }
    if (!adds) return;
    int64_t at = (row + warp) * p.outputs + output;
    if (p.bias.data) y = p.bias.get(output) + y;
    p.y.set(at, p.residual.data ? p.residual.get(at) + y : y);
}

template <int ROWS>
static void matmul_int4_launch(const matmul_int4_product &p) {
    GPU_LAUNCH((matmul_int4_kernel<ROWS>),
               dim3(gpu_blocks(p.outputs, MATMUL_INT4_COLUMNS), gpu_blocks(p.rows, ROWS)), GPU_BLOCK,
               MATMUL_INT4_SLICES * ROWS * MATMUL_INT4_COLUMNS * sizeof(float), p);
}

/* ---- the call ---- */

static uint64_t scratch(const op_call *c, int) {
    uint64_t n = (uint64_t)shape_elements(&op_in(c, MATMUL_INT4_A)->shape);
    return n + n / CODES4_GROUP * (sizeof(float) + sizeof(int32_t));
}

static void run(const op_call *c) {
    const op_arg *a = op_in(c, MATMUL_INT4_A), *codes = op_in(c, MATMUL_INT4_CODES);
    int64_t n = shape_elements(&a->shape), groups = n / CODES4_GROUP;
    matmul_int4_encode e = { cuda_span_of(a), (int8_t *)c->scratch, (float *)((char *)c->scratch + n),
                             (int32_t *)((char *)c->scratch + n) + groups };
    matmul_int4_product p = { (uint8_t *)codes->data,
                              (const uint16_t *)op_in(c, MATMUL_INT4_SCALES)->data,
                              (const uint32_t *)c->scratch,
                              e.scales,
                              e.starts,
                              cuda_in(c, MATMUL_INT4_BIAS),
                              cuda_in(c, MATMUL_INT4_RESIDUAL),
                              cuda_out(c, 0),
                              shape_rows(&a->shape),
                              codes->shape.dim[0],
                              (int32_t)codes4_groups(shape_last(&a->shape)),
                              (uintptr_t)codes->data % 4 == 0 };
    if (n == 0 || p.outputs == 0) return;
    cuda_rows(groups, e);
    if (p.rows == 1)
        matmul_int4_launch<1>(p);
    else
        matmul_int4_launch<4>(p); /* of eight some GPUs spill */
}

CUDA_KERNELS(matmul_int4_cuda, { "matmul_int4_cuda_dot", cuda_accepts, scratch, run });
