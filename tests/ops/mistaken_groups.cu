extern "C" {
#include "mistaken_groups.h"
}

#include <string.h>

#include "base/half.h"
#include "device/cuda/mma_group.h"

enum { EDGE = 64, DEPTH = 64, ROW = 64 /* words of a row of 128 bytes */, TILE = EDGE * DEPTH };
enum {
    NONE,
    UNSHOWN,
    UNFENCED,
    EARLY,
    OVERWRITTEN,
    UNFINISHED,
    TOUCHED,
    DIFFERENT,
    UNSWIZZLED,
    STRIDE,
    UNALIGNED,
    BEYOND,
    UNARRIVED,
    UNCOMMITTED
};

extern "C" {
const group_mistake group_mistakes[] = {
    { "none", NULL },
    { "no fence of the proxy", "haven't been shown what they multiply" },
    { "no fence of registers", "no wgmma.fence" },
    { "sums are read before the wait", NULL },
    { "an operand is written before the wait", "shared memory is written" },
    { "no wait", "before its group's products are done" },
    { "sums are written before the wait", "sums of a product under way are written" },
    { "a thread has another descriptor", "different products" },
    { "rows are not swizzled", NULL },
    { "eight lines are elsewhere", NULL },
    { "an operand does not begin at 1024 bytes", NULL },
    { "a descriptor points beyond", "out of shared memory" },
    { "copies have not landed", "before its copies have landed" },
    { "no commit", "before its group's products are done" },
    { NULL, NULL }
};
}

/* a and b along their depths, swizzled but for the mistake. */
GPU_INLINE void bring(const uint16_t *from, uint16_t *to, int mistake) {
    for (int n = (int)threadIdx.x; n < TILE / 8; n += GPU_GROUP) {
        int line = n / 8, piece = n % 8, at = mistake == UNSWIZZLED ? piece : piece ^ line % 8;
        gpu_copy16(to + line * ROW + at * 8, from + n * 8, 16);
    }
}

GPU_INLINE void put(const float (&sum)[8][4], float *d) {
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    for (int i = 0; i < 32; i++)
        d[(warp * 16 + lane / 4 + i % 4 / 2 * 8) * EDGE + i / 4 * 8 + lane % 4 * 2 + i % 2] =
            sum[i / 4][i % 4];
}

__global__ void mistaken_group(const uint16_t *a, const uint16_t *b, float *d, int mistake) {
    GPU_SHARED(unsigned char, all);
    uint16_t *x = (uint16_t *)(mistake == UNALIGNED ? all : gpu_group_aligned(all)), *y = x + TILE;
    float sum[8][4];
    bring(a, x, mistake), bring(b, y, mistake);
    gpu_copies_commit();
    if (mistake != UNARRIVED) gpu_copies_wait<0>();
    if (mistake != UNSHOWN) gpu_group_show();
    __syncthreads();
    uint64_t at_x = gpu_group_operand(x, 16, mistake == STRIDE ? 512 : 1024);
    uint64_t at_y = gpu_group_operand(y, 16, 1024);
    if (mistake == BEYOND) at_y = gpu_group_further(at_y, 4 * TILE);
    if (mistake == DIFFERENT && threadIdx.x == 77) at_x = at_y;
    if (mistake != UNFENCED) gpu_group_fence();
    for (unsigned k = 0; k < DEPTH / 16; k++)
        gpu_group_mma<false, false>(gpu_bf16(), sum, gpu_group_further(at_x, 32 * k),
                                    gpu_group_further(at_y, 32 * k), k > 0);
    if (mistake != UNCOMMITTED) gpu_group_commit();
    if (mistake == EARLY) put(sum, d);
    if (mistake == TOUCHED) sum[3][1] = 7;
    if (mistake == OVERWRITTEN && threadIdx.x == 3) gpu_set16(x, { 1, 2, 3, 4 });
    if (mistake != UNFINISHED) gpu_group_wait<0>(sum);
    if (mistake != EARLY) put(sum, d);
}

/* Where sixteen bytes of a lie, in bytes from where it begins: piece j of line i along the depth, or of depth
 * i across. `wide` pieces are in a row of the swizzle; eight rows of it follow each other. Along the depth
 * those are lines, and the depths that a row has no place for come behind all lines; across they are depths.
 */
GPU_INLINE unsigned laid(int i, int j, int wide, bool crossed) {
    int rows = crossed ? DEPTH : EDGE;
    unsigned at = (unsigned)((j / wide * rows + i) * wide + j % wide) * 16;
    return at ^ (at >> 7 & (unsigned)(wide - 1)) << 4;
}

__global__ void laid_group(const uint16_t *a, const uint16_t *b, float *d, int swizzle, bool crossed) {
    GPU_SHARED(unsigned char, all);
    unsigned char *x = gpu_group_aligned(all);
    uint16_t *y = (uint16_t *)x + TILE;
    const int wide = swizzle == 0 ? 1 : 16 >> swizzle, rows = crossed ? DEPTH : EDGE;
    float sum[8][4];
    bring(b, y, NONE);
    for (int n = (int)threadIdx.x; n < TILE / 8; n += GPU_GROUP) {
        uint32_t w[4];
        memcpy(w, a + n * 8, sizeof w);
        gpu_set16(x + laid(n / 8, n % 8, wide, crossed), w);
    }
    gpu_copies_commit();
    gpu_copies_wait<0>();
    gpu_group_show();
    __syncthreads();
    const unsigned eight = (unsigned)wide * 128, across = (unsigned)(rows * wide) * 16;
    /* without a swizzle across, the two distances change their places */
    const bool turned = swizzle == 0 && crossed;
    uint64_t at_x = gpu_group_operand(x, turned ? eight : across, turned ? across : eight);
    at_x = (at_x & ~(3ull << 62)) | (uint64_t)swizzle << 62;
    gpu_group_fence();
    for (int k = 0; k < DEPTH / 16; k++) {
        unsigned further = crossed ? 2 * eight : (unsigned)(2 * k / wide * rows * wide + 2 * k % wide) * 16;
        uint64_t here = gpu_group_further(at_x, crossed ? further * (unsigned)k : further);
        uint64_t there = gpu_group_further(gpu_group_operand(y, 16, 1024), 32 * (unsigned)k);
        if (crossed)
            gpu_group_mma<true, false>(gpu_bf16(), sum, here, there, k > 0);
        else
            gpu_group_mma<false, false>(gpu_bf16(), sum, here, there, k > 0);
    }
    gpu_group_commit();
    gpu_group_wait<0>(sum);
    put(sum, d);
}

static uint16_t number(int i) { return half_to_bf16((float)((i * 7 + i / 64 * 5) % 11 - 5)); }

static bool is_right(const uint16_t *a, const uint16_t *b, const float *d, bool crossed) {
    for (int i = 0; i < EDGE; i++)
        for (int j = 0; j < EDGE; j++) {
            float sum = 0;
            for (int k = 0; k < DEPTH; k++)
                sum += half_from_bf16(a[crossed ? k * EDGE + i : i * DEPTH + k]) *
                       half_from_bf16(b[j * DEPTH + k]);
            if (sum != d[i * EDGE + j]) return false;
        }
    return true;
}

enum { SHARED = 2 * TILE * 2 + GPU_GROUP_ALIGNED - 16 };

extern "C" bool group_mistake_run(int which) {
    alignas(16) static uint16_t a[TILE], b[TILE];
    static float d[EDGE * EDGE];
    for (int i = 0; i < TILE; i++) a[i] = number(i), b[i] = number(i + 3);
    GPU_LAUNCH((mistaken_group), 1, GPU_GROUP, SHARED, a, b, d, which);
    return is_right(a, b, d, false);
}

extern "C" bool group_layout_run(int swizzle, bool crossed) {
    alignas(16) static uint16_t a[TILE], b[TILE];
    static float d[EDGE * EDGE];
    for (int i = 0; i < TILE; i++) a[i] = number(i), b[i] = number(i + 3);
    GPU_LAUNCH((laid_group), 1, GPU_GROUP, SHARED, a, b, d, swizzle, crossed);
    return is_right(a, b, d, crossed);
}
