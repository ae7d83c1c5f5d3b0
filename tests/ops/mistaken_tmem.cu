extern "C" {
#include "mistaken_tmem.h"
}

#include <stdio.h>
#include <string.h>

#include <vector>

#include "base/half.h"
#include "device/cuda/emulate_hooks.h"
#include "ops/matmul/matmul_tmem_cuda.h"
#include "packed_matrix.h"

/* ---- one mistake each ---- */

enum { LINES = 100, COLUMNS = 50, SLICES = 3, DEPTH = 150, STRIDE = 160 /* words */, HIGH = 152 /* rows */ };
enum { ROWS = 128, EDGE = 64, OF_A = ROWS * EDGE, STAGE = (ROWS + EDGE) * EDGE /* words */, TAKEN = 128 };
enum { CAME, DONE, FREE, BARRIERS };
enum { MULTIPLIES = ROWS, BRINGS = MULTIPLIES + GPU_WARP, THREADS = BRINGS + GPU_WARP };
enum {
    NONE,
    UNTAKEN,
    TWICE,
    ODD_COLUMNS,
    UNGIVEN,
    OTHER_WARP,
    UNWAITED,
    WARP_UNWAITED,
    UNCOMMITTED,
    UNAFTER,
    UNAFTER_MULTIPLIES,
    UNBEFORE,
    UNLANDED,
    EARLY,
    OTHER_LANES,
    BEYOND,
    ELSEWHERE,
    UNBROUGHT,
    OVERWRITTEN,
    GIVEN_BACK,
    UNTOLD,
    UNMET,
    GOES_ON,
    ANEW,
    VERSION,
    SWIZZLE,
    LINES_64,
    TWO_TYPES,
    ACROSS,
    STRIDES,
    OUTSIDE,
    TWO_MULTIPLY
};

extern "C" {
const tmem_mistake tmem_mistakes[] = {
    { "none", NULL },
    { "nobody takes tensor memory", "that nobody has taken" },
    { "tensor memory is taken twice", "is taken twice" },
    { "columns are no power of two", "cannot be taken" },
    { "it is not given back", "has not given its tensor memory back" },
    { "another warp gives it back", "another warp gives" },
    { "nobody waits for the products", "tensor memory is read" },
    { "a warp does not wait for the products", "tensor memory is read" },
    { "products are not committed", "wait for ever" },
    { "no fence behind the wait of who reads", "after_thread_sync" },
    { "no fence behind the wait of who multiplies", "after_thread_sync" },
    { "no fence before who has read arrives", "before_thread_sync" },
    { "who arrives has not what it reads", "before what it reads" },
    { "what is read is used before it has come", NULL },
    { "a warp reads the lanes of another", "that others may" },
    { "columns behind those that were taken", "that nobody has taken" },
    { "a product goes to other columns", NULL },
    { "operands are multiplied before they have come", "has not come yet" },
    { "an operand is written before its products are done", "a product under way reads" },
    { "sums are given back before they are read", "sums in tensor memory are" },
    { "who multiplies is not told that sums were read", "sums in tensor memory are" },
    { "one lane alone calls the fence for its warp", "was not told" },
    { "a slice goes on from the one before", NULL },
    { "each product begins anew", "that nobody has read" },
    { "a descriptor of wgmma", "what is fixed" },
    { "rows that are not swizzled", "not swizzled by 128" },
    { "a form of 64 lines", "none that there is" },
    { "a form of two types", "of two types" },
    { "floats of 8 bits lie across their depths", "lie across" },
    { "eight lines are elsewhere", NULL },
    { "a descriptor points beyond", "out of shared memory" },
    { "two threads multiply", "two threads" },
    { NULL, NULL }
};
}

struct mistaken_maps {
    gpu_bulk_map a, b;
};

/* UNTOLD: the stage's place is free when its products are done, and nobody waits for who reads their sums. */
GPU_INLINE void mistaken_bring(const mistaken_maps &m, uint16_t *stage, gpu_barrier *bars, int mistake,
                               bool crossed) {
    for (int s = 0; s < SLICES; s++) {
        const int depth = s * EDGE;
        gpu_barrier_wait(bars + (mistake == UNTOLD ? DONE : FREE), (unsigned)s % 2 ^ 1);
        gpu_barrier_expect(bars + CAME, STAGE * 2);
        for (int l = 0; l < ROWS; l += crossed ? (int)EDGE : (int)ROWS)
            gpu_bulk_copy(stage + l * EDGE, &m.a, crossed ? l : depth, crossed ? depth : l, bars + CAME);
        gpu_bulk_copy(stage + OF_A, &m.b, crossed ? 0 : depth, crossed ? depth : 0, bars + CAME);
    }
}

GPU_INLINE uint32_t mistaken_form(int mistake, bool crossed) {
    uint32_t form =
        crossed ? gpu_tmem_form<gpu_bf16, EDGE, true, true>() : gpu_tmem_form<gpu_bf16, EDGE, false, false>();
    if (mistake == LINES_64) form = (form & ~(31u << 24)) | 4u << 24;
    if (mistake == ACROSS) return gpu_tmem_form<gpu_e4m3, EDGE, true, false>();
    return mistake == TWO_TYPES ? form & ~(7u << 10) : form;
}

GPU_INLINE void mistaken_multiply(uint16_t *stage, gpu_barrier *bars, uint32_t memory, int mistake,
                                  bool crossed) {
    const unsigned stride = mistake == STRIDES ? 512 : 1024, leading = crossed ? EDGE * GPU_GROUP_ROW : 16;
    uint64_t a = gpu_tmem_operand(stage, leading, stride), b = gpu_tmem_operand(stage + OF_A, leading, 1024);
    if (mistake == VERSION) a &= ~(7ull << 46);
    if (mistake == SWIZZLE) a &= ~(7ull << 61);
    if (mistake == OUTSIDE) b = gpu_group_further(b, STAGE * 2);
    for (int s = 0; s < SLICES; s++) {
        const uint32_t to = memory + (mistake == ELSEWHERE && s == 1 ? (uint32_t)EDGE : 0u);
        if (mistake != UNBROUGHT) gpu_barrier_wait(bars + CAME, (unsigned)s % 2);
        if (mistake != UNAFTER_MULTIPLIES && mistake != UNBROUGHT) gpu_tmem_after();
        for (unsigned k = 0; k < EDGE / 16; k++) {
            const unsigned step = k * (crossed ? 16 * GPU_GROUP_ROW : 32);
            const bool onto = mistake == ANEW ? false : k > 0 || (mistake == GOES_ON && s == 2);
            const uint64_t of_a = gpu_group_further(a, step), of_b = gpu_group_further(b, step);
            if (mistake == ACROSS)
                gpu_tmem_mma<1>(to, of_a, of_b, mistaken_form(mistake, crossed), onto);
            else
                gpu_tmem_mma<2>(to, of_a, of_b, mistaken_form(mistake, crossed), onto);
        }
        if (mistake == OVERWRITTEN) gpu_set16(stage, { 1, 2, 3, 4 });
        if (mistake != UNCOMMITTED) gpu_tmem_commit(bars + DONE);
    }
}

GPU_INLINE void mistaken_add(gpu_barrier *bars, uint32_t memory, int mistake, float (&sum)[EDGE]) {
    const int warp = (int)threadIdx.x / GPU_WARP;
    const bool gives = threadIdx.x % GPU_WARP == 0;
    memory += (uint32_t)(mistake == OTHER_LANES ? 0 : warp * GPU_WARP) << 16;
    for (int s = 0; s < SLICES; s++) {
        if (mistake != UNWAITED && (mistake != WARP_UNWAITED || warp != 2))
            gpu_barrier_wait(bars + DONE, (unsigned)s % 2);
        if (mistake != UNAFTER) gpu_tmem_after();
        if (mistake == GIVEN_BACK && gives) {
            gpu_barrier_arrive(bars + FREE);
            emulate::let_others_run({ "a warp that is late", __FILE__, __LINE__ });
        }
        for (int c = 0; c < EDGE; c += GPU_TMEM_READ) {
            float x[GPU_TMEM_READ];
            gpu_tmem_read(x, memory + (uint32_t)(mistake == BEYOND ? c + TAKEN : c));
            if (mistake == UNLANDED && gives) gpu_barrier_arrive(bars + FREE);
            for (int i = 0; mistake == EARLY && i < GPU_TMEM_READ; i++) sum[c + i] += x[i];
            gpu_tmem_wait(x);
            for (int i = 0; mistake != EARLY && i < GPU_TMEM_READ; i++) sum[c + i] += x[i];
        }
        if (mistake != UNBEFORE && (mistake != UNMET || gives)) gpu_tmem_before();
        if (mistake != UNMET) __syncwarp();
        if (mistake != GIVEN_BACK && gives) gpu_barrier_arrive(bars + FREE);
    }
}

GPU_INLINE void mistaken_take(uint32_t *address, int warp, int mistake) {
    const bool takes = warp == MULTIPLIES / GPU_WARP || (mistake == TWICE && warp == BRINGS / GPU_WARP);
    if (!takes || mistake == UNTAKEN) return;
    if (mistake == ODD_COLUMNS)
        gpu_tmem_take<96>(address);
    else
        gpu_tmem_take<TAKEN>(address);
}

__global__ void mistaken_tmem(const __grid_constant__ mistaken_maps m, float *d, int mistake, bool crossed) {
    GPU_SHARED(unsigned char, all);
    uint16_t *stage = (uint16_t *)gpu_group_aligned(all);
    gpu_barrier *bars = (gpu_barrier *)(stage + STAGE);
    uint32_t *address = (uint32_t *)(bars + BARRIERS);
    const int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
    float sum[EDGE] = {};
    if (threadIdx.x == 0)
        for (int i = 0; i < BARRIERS; i++) gpu_barrier_make(bars + i, i == FREE ? 4 : 1);
    mistaken_take(address, warp, mistake);
    gpu_tmem_before();
    gpu_group_show();
    __syncthreads();
    gpu_tmem_after();
    const uint32_t memory = mistake == UNTAKEN ? 0 : *address;
    if (warp < MULTIPLIES / GPU_WARP)
        mistaken_add(bars, memory, mistake, sum);
    else if (warp == MULTIPLIES / GPU_WARP) {
        if (lane < (mistake == TWO_MULTIPLY ? 2 : 1))
            mistaken_multiply(stage, bars, memory, mistake, crossed);
    } else if (lane == 0)
        mistaken_bring(m, stage, bars, mistake, crossed);
    gpu_tmem_before();
    __syncthreads();
    gpu_tmem_after();
    if (mistake != UNGIVEN && warp == (mistake == OTHER_WARP ? BRINGS : MULTIPLIES) / GPU_WARP)
        gpu_tmem_give<TAKEN>(memory);
    for (int i = 0; warp < MULTIPLIES / GPU_WARP && i < EDGE; i++) d[(int)threadIdx.x * EDGE + i] = sum[i];
}

static int place(bool crossed, int line, int depth) {
    return crossed ? depth * STRIDE + line : line * STRIDE + depth;
}

/* What surrounds a matrix is NaN: it counts as 0 where it is outside. */
static void draw_matrix(uint16_t *x, bool crossed, int lines, int seed) {
    for (int i = 0; i < HIGH * STRIDE; i++) x[i] = 0x7fff;
    for (int line = 0; line < lines; line++)
        for (int depth = 0; depth < DEPTH; depth++)
            x[place(crossed, line, depth)] =
                half_to_bf16((float)((line * 7 + depth * 3 + line * depth % 5 + seed) % 11 - 5));
}

extern "C" bool tmem_mistake_run(int which, bool crossed) {
    alignas(16) static uint16_t a[HIGH * STRIDE], b[HIGH * STRIDE];
    static float d[ROWS * EDGE];
    draw_matrix(a, crossed, LINES, 1), draw_matrix(b, crossed, COLUMNS, 4);
    mistaken_maps m;
    gpu_bulk_matrix of_a = { a, crossed ? LINES : DEPTH, crossed ? DEPTH : LINES, STRIDE * 2,
                             2, crossed ? EDGE : ROWS };
    gpu_bulk_matrix of_b = { b, crossed ? COLUMNS : DEPTH, crossed ? DEPTH : COLUMNS, STRIDE * 2, 2, EDGE };
    if (!gpu_bulk_map_make(&m.a, of_a) || !gpu_bulk_map_make(&m.b, of_b)) return false;
    GPU_LAUNCH((mistaken_tmem), 1, THREADS,
               STAGE * 2 + GPU_GROUP_ALIGNED - 16 + BARRIERS * (int)sizeof(gpu_barrier) + 16, m, d, which,
               crossed);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < EDGE; j++) {
            float sum = 0;
            for (int k = 0; k < DEPTH && i < LINES && j < COLUMNS; k++)
                sum += half_from_bf16(a[place(crossed, i, k)]) * half_from_bf16(b[place(crossed, j, k)]);
            if (sum != d[i * EDGE + j]) return false;
        }
    return true;
}

/* ---- bits ---- */

extern "C" uint32_t tmem_form_of_floats(bool e5m2) {
    return e5m2 ? gpu_tmem_form<gpu_e5m2, 64, false, false>() : gpu_tmem_form<gpu_e4m3, 64, false, false>();
}

extern "C" uint32_t tmem_form(bool bf16, bool a_crossed, bool b_crossed, bool wide) {
    if (wide) return gpu_tmem_form<gpu_bf16, 256, false, false>();
    if (!bf16) return gpu_tmem_form<gpu_f16, 64, false, true>();
    if (a_crossed && b_crossed) return gpu_tmem_form<gpu_bf16, 64, true, true>();
    return a_crossed ? gpu_tmem_form<gpu_bf16, 64, true, false>()
                     : gpu_tmem_form<gpu_bf16, 64, false, false>();
}

/* From a place of shared memory that a kernel has. */
__global__ void tmem_describe(uint64_t *said, unsigned leading, unsigned stride) {
    GPU_SHARED(unsigned char, all);
    if (threadIdx.x) return;
    uint64_t at = (gpu_shared_at(gpu_group_aligned(all)) & 0x3ffff) >> 4;
    *said = gpu_tmem_operand(gpu_group_aligned(all), leading, stride) - at;
}

extern "C" uint64_t tmem_descriptor(unsigned leading, unsigned stride) {
    uint64_t said = 0;
    GPU_LAUNCH((tmem_describe), 1, GPU_WARP, 4 * GPU_GROUP_ALIGNED, &said, leading, stride);
    return said;
}

/* ---- the same bits in both ways ---- */

template <class S, bool TA, bool B_CROSSED>
static bool are_same(const two_products &t, int *brought) {
    typedef tensor_halves<gpu_bf16> numbers;
    packed_matrix a(TA ? t.depth : t.rows, TA ? t.rows : t.depth, t.rows, 1);
    packed_matrix b(B_CROSSED ? t.depth : t.columns, B_CROSSED ? t.columns : t.depth, t.columns, 2);
    std::vector<float> y[3];
    bool came = false;
    for (int way = 0; way < 3; way++) {
        y[way].assign((size_t)(t.rows * t.columns), t.starts ? 0.25f : NAN);
        cuda_span none = { NULL, DTYPE_F32 }, at = { y[way].data(), DTYPE_F32 };
        matmul_end end = matmul_end_of(none, none, t.starts ? at : none, at, t.columns);
        tensor_product<tensor_operand> p = { a.of, b.of, t.depth, t.starts };
        if (way == 0) /* wgmma's: what is before, and slices, are added alike */
            group_launch<group_small, tensor_copies, TA, B_CROSSED>(p, numbers(), end);
        else if (way == 1)
            came = tmem_bulk_launch<S, TA, B_CROSSED>(p, numbers(), end);
        else
            tmem_launch<tmem_least, tensor_reads, TA, B_CROSSED>(p, numbers(), end);
    }
    *brought += came;
    bool same = came && memcmp(y[0].data(), y[1].data(), y[0].size() * sizeof(float)) == 0 &&
                memcmp(y[0].data(), y[2].data(), y[0].size() * sizeof(float)) == 0;
    if (!same)
        printf("%lld x %lld x %lld, %d columns, ta %d, b crossed %d: %s\n", (long long)t.rows,
               (long long)t.depth, (long long)t.columns, (int)S::COLUMNS, TA, B_CROSSED,
               came ? "other bits" : "not brought");
    return same;
}

extern "C" int tmem_products_differ(int *brought) {
    static const two_products all[] = {
        { 130, 530, 600, false }, { 129, 769, 257, true }, { 1, 1, 1, false }, { 70, 64, 519, true }
    };
    int differ = 0;
    *brought = 0;
    for (const two_products &t : all) {
        differ += !are_same<tmem_wide, false, true>(t, brought);
        differ += !are_same<tmem_wide, true, false>(t, brought);
        differ += !are_same<tmem_small, false, false>(t, brought);
        differ += !are_same<tmem_small, true, true>(t, brought);
    }
    return differ;
}
