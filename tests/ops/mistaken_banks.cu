#include "mistaken_banks.h"

#include "device/cuda/mma.h"

enum { LANES = 32, BYTES = MISTAKEN_BANKS_FLOATS * 4 };

#define WARP(kernel, ...) GPU_LAUNCH((kernel), 1, LANES, BYTES, __VA_ARGS__)

/* Lane l reads and writes a word at l * APART. */
template <int APART>
__global__ void words(float *y) {
    GPU_SHARED(float, all);
    int lane = (int)threadIdx.x;
    all[lane * APART] = 1;
    __syncwarp();
    y[lane] = all[lane * APART];
}
template <int APART>
static void run_words(float *, float *y) {
    WARP(words<APART>, y);
}

/* All of them one word; and each byte of eight words. */
__global__ void one_word(float *y) {
    GPU_SHARED(float, all);
    y[threadIdx.x] = all[7];
}
static void run_one(float *, float *y) { WARP(one_word, y); }
__global__ void bytes(uint8_t *y) {
    GPU_SHARED(uint8_t, all);
    y[threadIdx.x] = all[threadIdx.x];
}
static void run_bytes(float *, float *y) { WARP(bytes, (uint8_t *)y); }

/* Sixteen lanes have eight bytes at once. */
template <int APART>
__global__ void pairs(uint64_t *y) {
    GPU_SHARED(uint64_t, all);
    y[threadIdx.x] = all[(int)threadIdx.x * APART];
}
template <int APART>
static void run_pairs(float *, float *y) {
    WARP(pairs<APART>, (uint64_t *)y);
}

/* Eight have sixteen: rows of 128 bytes, as they lie and swizzled. */
template <bool SWIZZLED>
GPU_INLINE float *row_of(float *all, int row) {
    return all + row * 32 + (SWIZZLED ? row % 8 * 4 : 0);
}
template <bool SWIZZLED>
__global__ void matrices(float *y) {
    GPU_SHARED(float, all);
    uint32_t r[4];
    gpu_ldmatrix(r, row_of<SWIZZLED>(all, (int)threadIdx.x));
    y[threadIdx.x] = (float)(r[0] & 1);
}
template <bool SWIZZLED>
static void run_matrices(float *, float *y) {
    WARP(matrices<SWIZZLED>, y);
}
/* A copy counts where it is asked for, and not where it lands. */
template <bool SWIZZLED>
__global__ void copies(const float *x) {
    GPU_SHARED(float, all);
    gpu_copy16(row_of<SWIZZLED>(all, (int)threadIdx.x), x + threadIdx.x * 4, 16);
    gpu_copies_commit();
    gpu_copies_wait<0>();
}
template <bool SWIZZLED>
static void run_copies(float *x, float *) {
    WARP(copies<SWIZZLED>, x);
}

/* Of a warp eight lanes alone. */
__global__ void few(float *y) {
    GPU_SHARED(float, all);
    if (threadIdx.x < 8) y[threadIdx.x] = all[threadIdx.x * 16];
}
static void run_few(float *, float *y) { WARP(few, y); }

extern "C" {
const mistaken_banks mistaken_banks_all[] = {
    { "neighbours", run_words<1>, { 1, 1 }, { 0, 0 } },
    { "every other word", run_words<2>, { 1, 1 }, { 1, 1 } },
    { "rows of 32 words", run_words<32>, { 1, 1 }, { 31, 31 } },
    { "rows of 33 words", run_words<33>, { 1, 1 }, { 0, 0 } },
    { "one word", run_one, { 1, 0 }, { 0, 0 } },
    { "bytes of a word", run_bytes, { 1, 0 }, { 0, 0 } },
    { "neighbours of 8 bytes", run_pairs<1>, { 2, 0 }, { 0, 0 } },
    { "every other 8 bytes", run_pairs<2>, { 2, 0 }, { 2, 0 } },
    { "rows of 128 bytes by 8", run_pairs<16>, { 2, 0 }, { 30, 0 } },
    { "matrices as they lie", run_matrices<false>, { 4, 0 }, { 28, 0 } },
    { "swizzled matrices", run_matrices<true>, { 4, 0 }, { 0, 0 } },
    { "copies as they lie", run_copies<false>, { 0, 4 }, { 0, 28 } },
    { "swizzled copies", run_copies<true>, { 0, 4 }, { 0, 0 } },
    { "some lanes", run_few, { 1, 0 }, { 3, 0 } },
    { 0, 0, { 0, 0 }, { 0, 0 } },
};
}
