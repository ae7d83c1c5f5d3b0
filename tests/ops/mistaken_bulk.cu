extern "C" {
#include "mistaken_bulk.h"
}

#include <stdio.h>
#include <string.h>

#include <vector>

#include "base/half.h"
#include "device/cuda/emulate_hooks.h"
#include "ops/matmul/matmul_group_cuda.h"
#include "packed_matrix.h"

/* ---- one mistake each ---- */

enum { LINES = 50, DEPTH = 150, STRIDE = 160 /* words */, HIGH = 152 /* rows of memory */ };
enum { EDGE = 64, WORDS = EDGE * EDGE /* of a tile */, RING = 2, COMES = 3 /* stages */ };
enum {
    NONE,
    UNSHOWN,
    UNMET,
    UNAWAITED,
    WARP_UNAWAITED,
    PARITY,
    A_ALONE,
    FEWER,
    MORE,
    UNARRIVED,
    EARLY,
    UNFREED,
    TWICE,
    OVERWRITTEN,
    STRIPS,
    UNALIGNED,
    BEYOND,
    ELSEWHERE,
    UNUSED,
    UNMADE,
    WRITTEN
};

extern "C" {
const bulk_mistake bulk_mistakes[] = {
    { "none", NULL },
    { "barriers are not shown", "has not been shown a barrier" },
    { "nobody meets when barriers are made", "a barrier is used" },
    { "nobody waits for what comes", "has not come yet" },
    { "a warp does not wait for what comes", "(mbarrier)" },
    { "the other parity is waited for", "(mbarrier)" },
    { "of two tiles the bytes of one are expected", "(mbarrier)" },
    { "fewer bytes are expected than come", "wait for ever" },
    { "more bytes are expected than come", "wait for ever" },
    { "a warp does not give back", "wait for ever" },
    { "a stage is given back before its products are done", "shared memory is written" },
    { "no wait for a free place", "more threads arrive" },
    { "two threads bring", "more threads arrive" },
    { "a barrier lies in a stage", "was written over" },
    { "what threads wrote is not shown", "haven't shown it" },
    { "a tile begins between", "no multiple of 1024" },
    { "a tile ends beyond", "out of shared memory" },
    { "a tile of other depths", NULL },
    { "a stage is brought that nobody wants", "before its bulk copies have come" },
    { "a barrier that there is not", "nobody has made" },
    { "a thread writes where a tile comes", "where a bulk copy is on its way" },
    { NULL, NULL }
};
}

struct mistaken_matrices {
    gpu_bulk_map a, b;
};

GPU_INLINE void mistaken_bring(const mistaken_matrices &m, uint16_t *stages, gpu_barrier *full, int mistake,
                               bool crossed) {
    gpu_barrier *empty = full + RING;
    const unsigned both = 2 * WORDS * 2;
    const unsigned bytes = mistake == A_ALONE ? both / 2
                           : mistake == FEWER ? both - 16
                           : mistake == MORE  ? both + 16
                                              : both;
    for (int s = 0; s < COMES + (mistake == UNUSED); s++) {
        int at = s % RING, depth = s * EDGE;
        uint16_t *to = stages + at * 2 * WORDS;
        if (mistake == UNALIGNED) to += 64;
        if (mistake == BEYOND) to += 2 * RING * WORDS;
        if (mistake == ELSEWHERE && s == 1) depth += 8;
        if (mistake != UNFREED) gpu_barrier_wait(empty + at, (unsigned)(s / RING) % 2 ^ 1);
        gpu_barrier_expect(full + at, bytes);
        gpu_bulk_copy(to, &m.a, crossed ? 0 : depth, crossed ? depth : 0, full + at);
        gpu_bulk_copy(to + WORDS, &m.b, crossed ? 0 : depth, crossed ? depth : 0, full + at);
        if (mistake == WRITTEN && s == 1) gpu_set16(to, { 1, 2, 3, 4 });
    }
}

template <bool CROSSED>
GPU_INLINE void mistaken_multiply(const uint16_t *stages, gpu_barrier *full, int mistake,
                                  float (&sum)[8][4]) {
    gpu_barrier *empty = full + RING;
    const int warp = (int)threadIdx.x / GPU_WARP, step = CROSSED ? 16 * GPU_GROUP_ROW : 32;
    for (int s = 0; s < COMES; s++) {
        int at = s % RING;
        unsigned parity = (unsigned)(s / RING + (mistake == PARITY)) % 2;
        if (mistake != UNAWAITED && (mistake != WARP_UNAWAITED || warp != 2))
            gpu_barrier_wait((mistake == UNMADE ? full - RING : full) + at, parity);
        const uint16_t *x = stages + at * 2 * WORDS;
        gpu_group_fence();
        for (int k = 0; k < EDGE / 16; k++)
            gpu_group_mma<CROSSED, CROSSED>(
                gpu_bf16(), sum, gpu_group_further(gpu_group_operand(x, 16, 1024), (unsigned)(k * step)),
                gpu_group_further(gpu_group_operand(x + WORDS, 16, 1024), (unsigned)(k * step)), s + k > 0);
        gpu_group_commit();
        bool gives = threadIdx.x % GPU_WARP == 0 && (mistake != UNARRIVED || warp != 1);
        if (mistake == EARLY && gives) gpu_barrier_arrive(empty + at);
        gpu_group_wait<0>(sum);
        if (mistake != EARLY && gives) gpu_barrier_arrive(empty + at);
    }
}

__global__ void mistaken_bulk(const __grid_constant__ mistaken_matrices m, float *d, int mistake,
                              bool crossed) {
    GPU_SHARED(unsigned char, all);
    uint16_t *stages = (uint16_t *)gpu_group_aligned(all);
    gpu_barrier *full = (gpu_barrier *)(stages + 2 * RING * WORDS);
    const int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
    float sum[8][4];
    if (mistake == OVERWRITTEN) full = (gpu_barrier *)stages;
    if (threadIdx.x == 0)
        for (int s = 0; s < RING; s++) gpu_barrier_make(full + s, 1), gpu_barrier_make(full + RING + s, 4);
    if (mistake != OVERWRITTEN) ((float *)stages)[threadIdx.x] = 7; /* as strips are */
    if (mistake != UNSHOWN && (mistake != STRIPS || warp == 0)) gpu_group_show();
    if (mistake != UNMET) __syncthreads();
    if (warp == 4) {
        if (lane < (mistake == TWICE ? 2 : 1)) mistaken_bring(m, stages, full, mistake, crossed);
        return;
    }
    if (crossed)
        mistaken_multiply<true>(stages, full, mistake, sum);
    else
        mistaken_multiply<false>(stages, full, mistake, sum);
    for (int i = 0; i < 32; i++)
        d[(warp * 16 + lane / 4 + i % 4 / 2 * 8) * EDGE + i / 4 * 8 + lane % 4 * 2 + i % 2] =
            sum[i / 4][i % 4];
}

static int place(bool crossed, int line, int depth) {
    return crossed ? depth * STRIDE + line : line * STRIDE + depth;
}

/* What surrounds a matrix is NaN: it counts as 0 where it is outside. */
static void draw_matrix(uint16_t *x, bool crossed, int seed) {
    for (int i = 0; i < HIGH * STRIDE; i++) x[i] = 0x7fff;
    for (int line = 0; line < LINES; line++)
        for (int depth = 0; depth < DEPTH; depth++)
            x[place(crossed, line, depth)] =
                half_to_bf16((float)((line * 7 + depth * 3 + line * depth % 5 + seed) % 11 - 5));
}

extern "C" bool bulk_mistake_run(int which, bool crossed) {
    alignas(16) static uint16_t a[HIGH * STRIDE], b[HIGH * STRIDE];
    static float d[EDGE * EDGE];
    draw_matrix(a, crossed, 1), draw_matrix(b, crossed, 4);
    mistaken_matrices m;
    gpu_bulk_matrix of_a = { a, crossed ? LINES : DEPTH, crossed ? DEPTH : LINES, STRIDE * 2, 2, EDGE };
    gpu_bulk_matrix of_b = of_a;
    of_b.data = b;
    if (!gpu_bulk_map_make(&m.a, of_a) || !gpu_bulk_map_make(&m.b, of_b)) return false;
    GPU_LAUNCH((mistaken_bulk), 1, 5 * GPU_WARP,
               2 * RING * WORDS * 2 + GPU_GROUP_ALIGNED - 16 + 2 * RING * (int)sizeof(gpu_barrier), m, d,
               which, crossed);
    for (int i = 0; i < EDGE; i++)
        for (int j = 0; j < EDGE; j++) {
            float sum = 0;
            for (int k = 0; k < DEPTH && i < LINES && j < LINES; k++)
                sum += half_from_bf16(a[place(crossed, i, k)]) * half_from_bf16(b[place(crossed, j, k)]);
            if (sum != d[i * EDGE + j]) return false;
        }
    return true;
}

/* ---- the same bits in both ways ---- */

template <class S, bool TA, bool B_CROSSED>
static bool are_same(const two_products &t, int *brought) {
    packed_matrix a(TA ? t.depth : t.rows, TA ? t.rows : t.depth, t.rows, 1);
    packed_matrix b(B_CROSSED ? t.depth : t.columns, B_CROSSED ? t.columns : t.depth, t.columns, 2);
    std::vector<float> y[2];
    bool came = false;
    for (int way = 0; way < 2; way++) {
        y[way].assign((size_t)(t.rows * t.columns), t.starts ? 0.25f : NAN);
        cuda_span none = { NULL, DTYPE_F32 }, at = { y[way].data(), DTYPE_F32 };
        matmul_end end = matmul_end_of(none, none, t.starts ? at : none, at, t.columns);
        tensor_product<tensor_operand> p = { a.of, b.of, t.depth, t.starts };
        if (way)
            came = group_bulk_launch<S, TA, B_CROSSED>(p, tensor_halves<gpu_bf16>(), end);
        else
            group_launch<S, tensor_copies, TA, B_CROSSED>(p, tensor_halves<gpu_bf16>(), end);
    }
    *brought += came;
    bool same = came && memcmp(y[0].data(), y[1].data(), y[0].size() * sizeof(float)) == 0;
    if (!same)
        printf("%lld x %lld x %lld, %d columns, ta %d, b crossed %d: %s\n", (long long)t.rows,
               (long long)t.depth, (long long)t.columns, (int)S::COLUMNS, TA, B_CROSSED,
               came ? "other bits" : "not brought");
    return same;
}

extern "C" int bulk_products_differ(int *brought) {
    static const two_products all[] = {
        { 200, 400, 600, false }, { 129, 193, 257, true }, { 1, 1, 1, false }, { 70, 64, 1031, true }
    };
    int differ = 0;
    *brought = 0;
    for (const two_products &t : all) {
        differ += !are_same<group_wide, false, true>(t, brought);
        differ += !are_same<group_wide, true, false>(t, brought);
        differ += !are_same<group_large, false, false>(t, brought);
        differ += !are_same<group_small, true, true>(t, brought);
    }
    return differ;
}

/* ---- which way is taken ---- */

static int by_bulk, by_threads;

static void saw_launch(const emulate::launch_shape &s, const void *, size_t) {
    by_bulk += strstr(s.kernel, "matmul_group_bulk_kernel") != NULL;
    by_threads += strstr(s.kernel, "matmul_group_kernel") != NULL;
}

extern "C" bool bulk_is_taken(void) {
    enum { EACH = 40 };
    alignas(16) static uint16_t a[EACH * EACH + 8], b[EACH * EACH + 8];
    static float y[EACH * EACH];
    static const emulate::watcher watcher = { 0,
                                              saw_launch,
                                              [](const unsigned char *, size_t, const void *, size_t) {},
                                              []() {},
                                              [](unsigned, unsigned, bool) {},
                                              [](unsigned, unsigned) {} };
    const matmul_attributes t = { false, false, DTYPE_F32 };
    op_arg in[5] = {}, out = {};
    for (int i = 0; i < 2; i++) {
        in[i].shape = { { EACH, EACH }, 2 };
        in[i].dtype = DTYPE_BF16, in[i].data = i ? b : a;
    }
    out.shape = in[0].shape, out.dtype = DTYPE_F32, out.data = y;
    op_call c = {};
    c.in = in, c.in_count = 5, c.out = &out, c.out_count = 1, c.attributes = &t, c.capability = 90;
    by_bulk = by_threads = 0;
    emulate::watching = &watcher;
    matmul_group_run(&c);
    bool taken = by_bulk == 1 && by_threads == 0;
    in[1].data = b + 1;
    matmul_group_run(&c);
    emulate::watching = NULL;
    return taken && by_bulk == 1 && by_threads == 1;
}

extern "C" bool bulk_reads_what_it_can(void) {
    alignas(16) static unsigned char data[32];
    const int64_t most = INT32_MAX - GPU_BULK_MOST;
    const gpu_bulk_matrix good[] = { { data, 8, 1, 16, 2, 64 },
                                     { data, 1, 1, 16, 1, 1 },
                                     { data, most, most, 2 * most + 16 - 2 * most % 16, 2, 256 } };
    const gpu_bulk_matrix bad[] = { { data + 2, 8, 1, 16, 2, 64 },
                                    { data, 8, 1, 24, 2, 64 },
                                    { data, 16, 1, 16, 2, 64 },
                                    { data, 0, 1, 16, 2, 64 },
                                    { data, 8, 0, 16, 2, 64 },
                                    { data, 8, most + 1, 16, 2, 64 },
                                    { data, most + 1, 1, (int64_t)1 << 33, 2, 64 },
                                    { data, 8, 1, 16, 2, 257 } };
    gpu_bulk_map map;
    for (const gpu_bulk_matrix &m : good)
        if (!gpu_bulk_map_make(&map, m)) return false;
    for (const gpu_bulk_matrix &m : bad)
        if (gpu_bulk_map_make(&map, m)) return false;
    return true;
}
