/* Products on tensor cores on a GPU: bench-gpu-tensor DEVICE [seconds]
 *
 * 1. Each instruction of device/cuda/mma.h on whole numbers, whose sums are exact in any order: the same as
 * what is documented of it, and so as its twin.
 * 2. Every tile on small products of all forms: near the sum in f64; each with the bits of the others, rows
 * alone with those that they have among others, and cut at a slice with those of the whole.
 * 3. Floats of 8 bits, where the GPU has them: whole numbers, whose sums are exact, in both tiles.
 * 4. The same of groups of warps (device/cuda/mma_group.h), where GPU and build have them (capability 9.0,
 * code for 90a): the instruction, a tile that the copy engine brings (device/cuda/bulk.h), every tile with
 * operands that threads copy and that the engine brings, floats of 8 bits. Says whether bits are those of
 * mma.sync.
 * 5. The same of tensor memory (device/cuda/mma_tmem.h), where GPU and build have it (capability 10.0, code
 * for 100a): the instruction, and every tile with operands that the engine and that threads bring. Where they
 * have not, a sentence says so.
 * 6. With a second argument: TFLOP/s of every tile on gpt2's shapes (4 x 1024 tokens) and one large square,
 * the best of three rounds of so many launches that each takes about 20 ms; and of floats of 8 bits.
 *
 * Which tile a product takes (tensor_sized, group_sized, tensor_in_tmem) was chosen by what tiles read,
 * before anything could be timed; this program says what to choose. Exit 0: nothing was wrong. */
#include <time.h>

#include "tensor_instructions.h"

/* ---- tiles ---- */

struct form {
    int64_t rows, columns, depth;
    bool ta, tb;
    dtype type;
};

/* A product in the pool. */
struct product {
    form f;
    tensor_operand a, b;
    float *before, *y; /* `before` may be NULL */
};

template <class T, class S, class F>
static void launch(const product &p) {
    cuda_span none = { NULL, DTYPE_F32 }, before = { p.before, DTYPE_F32 }, y = { p.y, DTYPE_F32 };
    matmul_end end = matmul_end_of(none, none, before, y, p.f.columns);
    tensor_product<tensor_operand> t = { p.a, p.b, p.f.depth, p.before != NULL };
    const tensor_halves<T> numbers = {};
    if (p.f.ta)
        tensor_launch<S, F, true, true>(t, numbers, end);
    else if (p.f.tb)
        tensor_launch<S, F, false, false>(t, numbers, end);
    else
        tensor_launch<S, F, false, true>(t, numbers, end);
}

template <class T, class S, class F>
static void launch_group(const product &p) {
    cuda_span none = { NULL, DTYPE_F32 }, before = { p.before, DTYPE_F32 }, y = { p.y, DTYPE_F32 };
    matmul_end end = matmul_end_of(none, none, before, y, p.f.columns);
    tensor_product<tensor_operand> t = { p.a, p.b, p.f.depth, p.before != NULL };
    if (p.f.ta)
        group_launch<S, F, true, true>(t, tensor_halves<T>(), end);
    else if (p.f.tb)
        group_launch<S, F, false, false>(t, tensor_halves<T>(), end);
    else
        group_launch<S, F, false, true>(t, tensor_halves<T>(), end);
}

/* Where the engine can't bring an operand, whose lines begin elsewhere than at 16 bytes, threads do. */
template <class T, class S, bool TA, bool B_CROSSED>
static void launch_tmem_form(const tensor_product<tensor_operand> &t, const matmul_end &end) {
    if (!tmem_bulk_launch<S, TA, B_CROSSED>(t, tensor_halves<T>(), end))
        tmem_launch<tmem_least, tensor_reads, TA, B_CROSSED>(t, tensor_halves<T>(), end);
}

template <class T, class S>
static void launch_tmem(const product &p) {
    cuda_span none = { NULL, DTYPE_F32 }, before = { p.before, DTYPE_F32 }, y = { p.y, DTYPE_F32 };
    matmul_end end = matmul_end_of(none, none, before, y, p.f.columns);
    tensor_product<tensor_operand> t = { p.a, p.b, p.f.depth, p.before != NULL };
    if (p.f.ta)
        launch_tmem_form<T, S, true, true>(t, end);
    else if (p.f.tb)
        launch_tmem_form<T, S, false, false>(t, end);
    else
        launch_tmem_form<T, S, false, true>(t, end);
}

typedef void (*runner)(const product &);
struct variant {
    const char *name;
    runner packed[2], unpacked[2]; /* bf16, f16 */
};
#define VARIANT(...)                                                                                         \
    {                                                                                                        \
#__VA_ARGS__, { launch < gpu_bf16, tensor_tile < __VA_ARGS__>, tensor_copies>, launch < gpu_f16,     \
                        tensor_tile < __VA_ARGS__>, tensor_copies> },                                        \
        {                                                                                                    \
            launch<gpu_bf16, tensor_tile<__VA_ARGS__>, tensor_reads>,                                        \
                launch<gpu_f16, tensor_tile<__VA_ARGS__>, tensor_reads>                                      \
        }                                                                                                    \
    }
/* Warps down and across, sixteens of rows and eights of columns of each, depths, stages, blocks. */
static const variant variants[] = {
    VARIANT(2, 4, 4, 4, 32, 4, 1), /* tensor_large */
    VARIANT(2, 2, 2, 4, 32, 4, 3), /* tensor_small */
    VARIANT(2, 4, 4, 4, 64, 3, 1), VARIANT(2, 4, 4, 4, 32, 6, 1),
    VARIANT(2, 2, 4, 4, 32, 4, 2), VARIANT(4, 2, 2, 4, 32, 4, 1),
};

/* Groups, columns, stages, blocks. What does not lie at 16 bytes comes in group_slim, or group_small. */
#define GROUP_VARIANT(SLIM, ...)                                                                             \
    {                                                                                                        \
        "group " #__VA_ARGS__,                                                                               \
            { launch_group<gpu_bf16, group_tile<__VA_ARGS__>, tensor_copies>,                                \
              launch_group<gpu_f16, group_tile<__VA_ARGS__>, tensor_copies> },                               \
        {                                                                                                    \
            launch_group<gpu_bf16, SLIM, tensor_reads>, launch_group<gpu_f16, SLIM, tensor_reads>            \
        }                                                                                                    \
    }
#define BULK_VARIANT(...)                                                                                    \
    {                                                                                                        \
        "bulk " #__VA_ARGS__,                                                                                \
            { launch_group<gpu_bf16, group_tile<__VA_ARGS__>, group_bulk>,                                   \
              launch_group<gpu_f16, group_tile<__VA_ARGS__>, group_bulk> },                                  \
        {                                                                                                    \
            launch_group<gpu_bf16, group_slim, tensor_reads>,                                                \
                launch_group<gpu_f16, group_slim, tensor_reads>                                              \
        }                                                                                                    \
    }
static const variant group_variants[] = {
    GROUP_VARIANT(group_slim, 2, 192, 5, 1), /* group_wide */
    GROUP_VARIANT(group_slim, 2, 128, 6, 1), /* group_large */
    GROUP_VARIANT(group_slim, 2, 64, 4, 1),  /* group_slim */
    GROUP_VARIANT(group_small, 1, 64, 4, 3), /* group_small */
    BULK_VARIANT(2, 192, 5, 1),              /* the same by the copy engine */
    BULK_VARIANT(2, 128, 6, 1),
    BULK_VARIANT(1, 64, 4, 3),
};

/* Columns, groups that add, stages, blocks. What does not lie at 16 bytes comes in tmem_least. */
#define TMEM_VARIANT(...)                                                                                    \
    {                                                                                                        \
        "tmem " #__VA_ARGS__,                                                                                \
            { launch_tmem<gpu_bf16, tmem_tile<__VA_ARGS__>>, launch_tmem<gpu_f16, tmem_tile<__VA_ARGS__>> }, \
        {                                                                                                    \
            launch_tmem<gpu_bf16, tmem_tile<__VA_ARGS__>>, launch_tmem<gpu_f16, tmem_tile<__VA_ARGS__>>      \
        }                                                                                                    \
    }
static const variant tmem_variants[] = {
    TMEM_VARIANT(256, 2, 4, 1), /* tmem_wide */
    TMEM_VARIANT(64, 1, 4, 2),  /* tmem_small */
    TMEM_VARIANT(128, 1, 4, 1),
    TMEM_VARIANT(128, 2, 4, 1),
};

struct variant_list {
    const char *name; /* NULL: what others are compared with */
    bool (*is_here)();
    const variant *first;
    size_t count;
};
static bool has_warps() { return true; }
static bool has_groups() { return gpu_group_known(gpu->capability); }
static bool has_tmem() { return gpu_tmem_known(gpu->capability); }
static const variant_list lists[] = {
    { NULL, has_warps, variants, sizeof variants / sizeof *variants },
    { "group", has_groups, group_variants, sizeof group_variants / sizeof *group_variants },
    { "tmem", has_tmem, tmem_variants, sizeof tmem_variants / sizeof *tmem_variants },
};

static void run(const variant &v, const product &p) {
    bool packed = tensor_packed(p.a) && tensor_packed(p.b);
    (packed ? v.packed : v.unpacked)[p.f.type == DTYPE_F16](p);
}

static tensor_operand operand_of(const form &f, bool b, const uint16_t *data) {
    if (b) return { data, 2 * (f.tb ? f.depth : f.columns), f.columns };
    return { data, 2 * (f.ta ? f.rows : f.depth), f.rows };
}

struct host_product {
    uint16_t *a, *b;
    float *y, *other;
    product p; /* in the pool */
};

static host_product open_product(const form &f) {
    size_t n_a = (size_t)(f.rows * f.depth), n_b = (size_t)(f.depth * f.columns),
           n = (size_t)(f.rows * f.columns);
    host_product h = { (uint16_t *)malloc(n_a * 2),
                       (uint16_t *)malloc(n_b * 2),
                       (float *)malloc(n * 4),
                       (float *)malloc(n * 4),
                       {} };
    if (!h.a || !h.b || !h.y || !h.other) die("no memory");
    for (size_t i = 0; i < n_a; i++) h.a[i] = narrow(f.type, (float)draw() * 0x1p-53f - 0.5f);
    for (size_t i = 0; i < n_b; i++) h.b[i] = narrow(f.type, (float)draw() * 0x1p-53f - 0.5f);
    taken = 0;
    uint16_t *a = (uint16_t *)take(n_a * 2), *b = (uint16_t *)take(n_b * 2);
    gpu->put(gpu, a, h.a, n_a * 2), gpu->put(gpu, b, h.b, n_b * 2);
    h.p = { f, operand_of(f, false, a), operand_of(f, true, b), NULL, (float *)take(n * 4) };
    return h;
}
static void close_product(host_product &h) { free(h.a), free(h.b), free(h.y), free(h.other); }

static void get(const variant &v, const product &p, float *y) {
    gpu->begin(gpu);
    run(v, p);
    gpu->end(gpu);
    gpu->get(gpu, y, p.y, (uint64_t)(p.f.rows * p.f.columns) * sizeof *y);
}

static void check_near(const variant &v, const host_product &h) {
    const form &f = h.p.f;
    for (int64_t i = 0; i < f.rows; i += 5)
        for (int64_t j = 0; j < f.columns; j += 3) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < f.depth; k++) {
                double x = (double)wide(f.type, h.a[f.ta ? k * f.rows + i : i * f.depth + k]) *
                           (double)wide(f.type, h.b[f.tb ? j * f.depth + k : k * f.columns + j]);
                sum += x, size += fabs(x);
            }
            if (!(fabs(sum - (double)h.y[i * f.columns + j]) <= 2e-6 * size))
                say_wrong("far from f64", v.name);
        }
}

static tensor_operand further(tensor_operand o, int64_t bytes) {
    o.data = (const char *)o.data + bytes;
    return o;
}

/* Rows from 40 on: of a as it lies, which is shorter. */
static void check_alone(const variant &v, const host_product &h) {
    product p = h.p;
    p.f.rows = p.a.lines = 10;
    p.a = further(p.a, p.f.ta ? 40 * 2 : 40 * p.a.stride);
    get(v, p, h.other);
    if (memcmp(h.other, h.y + 40 * p.f.columns, (size_t)(10 * p.f.columns) * 4) != 0)
        say_wrong("rows alone have other bits", v.name);
}

static void check_cut(const variant &v, const host_product &h) {
    const int64_t cut = MATMUL_SLICE;
    product first = h.p, rest = h.p;
    first.f.depth = cut, rest.f.depth -= cut, rest.before = rest.y;
    rest.a = further(rest.a, rest.f.ta ? cut * rest.a.stride : cut * 2);
    rest.b = further(rest.b, rest.f.tb ? cut * 2 : cut * rest.b.stride);
    get(v, first, h.other);
    get(v, rest, h.other);
    if (memcmp(h.other, h.y, (size_t)(h.p.f.rows * h.p.f.columns) * 4) != 0) say_wrong("cut", v.name);
}

static void check_tiles(const variant_list &all) {
    static const form forms[] = {
        { 200, 136, 600, false, false, DTYPE_BF16 }, { 200, 136, 608, true, false, DTYPE_F16 },
        { 136, 264, 520, false, true, DTYPE_BF16 },  { 77, 139, 301, false, false, DTYPE_F16 },
        { 131, 67, 300, true, false, DTYPE_BF16 },   { 70, 35, 279, false, true, DTYPE_F16 }
    };
    for (const form &f : forms) {
        host_product h = open_product(f);
        size_t bytes = (size_t)(f.rows * f.columns) * 4;
        float *first = (float *)malloc(bytes);
        if (!first) die("no memory");
        for (size_t i = 0; i < all.count; i++) {
            const variant &v = all.first[i];
            get(v, h.p, h.y);
            if (i == 0) memcpy(first, h.y, bytes);
            if (memcmp(first, h.y, bytes) != 0) say_wrong("a tile has other bits than the first", v.name);
            check_near(v, h), check_alone(v, h), check_cut(v, h);
        }
        get(variants[0], h.p, h.y);
        if (all.name)
            printf("%s, %lld deep: %s bits\n", all.name, (long long)f.depth,
                   memcmp(first, h.y, bytes) ? "other" : "mma.sync's");
        free(first);
        close_product(h);
    }
}

/* ---- floats of 8 bits ---- */

/* e4m3 by e4m3 in the pool, whose scales are 1: along rows, or over them. */
struct floats {
    int64_t rows, columns, depth;
    bool over_rows;
    uint8_t *a, *b, *scales;
    float *y;
};

/* Which kernel, in which tile. */
template <class S>
struct float_warps {
    template <class F, bool CROSSED, class P, class N, class E>
    static void launch(const P &p, const N &numbers, const E &e) {
        tensor_launch<S, F, CROSSED, CROSSED>(p, numbers, e);
    }
};
template <class S>
struct float_groups {
    template <class F, bool CROSSED, class P, class N, class E>
    static void launch(const P &p, const N &numbers, const E &e) {
        group_launch<S, F, CROSSED, CROSSED>(p, numbers, e);
    }
};

/* What lies at 16 bytes comes by the copy engine. */
template <class S>
struct float_bulk {
    template <class F, bool CROSSED, class P, class N, class E>
    static void launch(const P &p, const N &numbers, const E &e) {
        typedef typename std::conditional<std::is_same<F, tensor_copies>::value, group_bulk, F>::type way;
        group_launch<S, way, CROSSED, CROSSED>(p, numbers, e);
    }
};

/* In tensor memory: what the engine can't read comes in tmem_least. */
template <class S>
struct float_tmem {
    template <class F, bool CROSSED, class P, class N, class E>
    static void launch(const P &p, const N &numbers, const E &e) {
        if constexpr (!std::is_same<F, tensor_copies>::value)
            tmem_launch<tmem_least, F, CROSSED, CROSSED>(p, numbers, e);
        else if (!tmem_bulk_launch<S, CROSSED, CROSSED>(p, numbers, e))
            tmem_launch<tmem_least, tensor_reads, CROSSED, CROSSED>(p, numbers, e);
    }
};

static bool has_floats() { return gpu_mma_fp8_known(gpu->capability); }

/* READS: the kernel of what does not lie at 16 bytes. */
template <class BY, class READS>
static void run_floats(const floats &p) {
    cuda_span none = { NULL, DTYPE_F32 }, y = { p.y, DTYPE_F32 };
    matmul_end end = matmul_end_of(none, none, none, y, p.columns);
    int64_t blocks = fp8_blocks(p.depth);
    if (p.over_rows) {
        matmul_fp8_lines a = { p.a, p.scales, p.rows, fp8_blocks(p.rows), 20, 0x1p120f, p.rows % 8 == 0 };
        matmul_fp8_lines b = { p.b, p.scales, p.columns,         fp8_blocks(p.columns),
                               20,  0x1p120f, p.columns % 8 == 0 };
        tensor_product<matmul_fp8_lines> t = { a, b, p.depth, false };
        BY::template launch<matmul_fp8_widens, true>(t, tensor_halves<gpu_bf16>{}, end);
        return;
    }
    matmul_fp8_numbers<gpu_e4m3> numbers = { p.scales, p.scales, p.rows, p.columns,
                                             blocks,   blocks,   1,      blocks % 4 == 0 };
    tensor_product<tensor_operand> t = {
        { p.a, p.depth, p.rows }, { p.b, p.depth, p.columns }, p.depth, false
    };
    if (p.depth % 16 == 0)
        BY::template launch<tensor_copies, false>(t, numbers, end);
    else
        READS::template launch<tensor_reads, false>(t, numbers, end);
}

static const struct {
    const char *name;
    bool (*is_here)();
    void (*run)(const floats &);
} float_variants[] = {
    { "large", has_floats, run_floats<float_warps<tensor_large>, float_warps<tensor_large>> },
    { "small", has_floats, run_floats<float_warps<tensor_small>, float_warps<tensor_small>> },
    { "group, large", has_groups, run_floats<float_groups<group_large>, float_groups<group_slim>> },
    { "group, small", has_groups, run_floats<float_groups<group_small>, float_groups<group_small>> },
    { "bulk, large", has_groups, run_floats<float_bulk<group_large>, float_groups<group_slim>> },
    { "bulk, small", has_groups, run_floats<float_bulk<group_small>, float_groups<group_small>> },
    { "tmem, wide", has_tmem, run_floats<float_tmem<tmem_wide>, float_tmem<tmem_wide>> },
    { "tmem, small", has_tmem, run_floats<float_tmem<tmem_small>, float_tmem<tmem_small>> },
};

/* Whole numbers, some of them, again and again. */
static floats open_floats(int64_t rows, int64_t columns, int64_t depth, bool over_rows) {
    const uint64_t SOME = 1 << 16;
    static uint8_t drawn[SOME], ones[SOME];
    for (uint64_t i = 0; i < SOME; i++) drawn[i] = whole_code(FP8_E4M3), ones[i] = 127;
    taken = 0;
    int64_t most = rows > columns ? rows : columns;
    uint64_t n_a = (uint64_t)(rows * depth), n_b = (uint64_t)(columns * depth);
    uint64_t scales = (uint64_t)(over_rows ? depth * fp8_blocks(most) : most * fp8_blocks(depth));
    floats p = {
        rows, columns, depth, over_rows, (uint8_t *)take(n_a), (uint8_t *)take(n_b), (uint8_t *)take(scales),
        NULL
    };
    p.y = (float *)take((uint64_t)(rows * columns) * sizeof *p.y);
    for (uint64_t i = 0; i < n_a; i += SOME) gpu->put(gpu, p.a + i, drawn, n_a - i < SOME ? n_a - i : SOME);
    for (uint64_t i = 0; i < n_b; i += SOME / 2)
        gpu->put(gpu, p.b + i, drawn + SOME / 2, n_b - i < SOME / 2 ? n_b - i : SOME / 2);
    for (uint64_t i = 0; i < scales; i += SOME)
        gpu->put(gpu, p.scales + i, ones, scales - i < SOME ? scales - i : SOME);
    return p;
}

static void check_float_tiles() {
    static const struct {
        int64_t rows, columns, depth;
        bool over_rows;
    } forms[] = {
        { 150, 70, 512, false }, { 67, 140, 301, false }, { 150, 72, 300, true }, { 67, 35, 70, true }
    };
    for (const auto &f : forms) {
        floats p = open_floats(f.rows, f.columns, f.depth, f.over_rows);
        uint64_t n_a = (uint64_t)(f.rows * f.depth), n_b = (uint64_t)(f.columns * f.depth);
        uint8_t *a = (uint8_t *)malloc(n_a), *b = (uint8_t *)malloc(n_b);
        float *y = (float *)malloc((size_t)(f.rows * f.columns) * sizeof *y);
        if (!a || !b || !y) die("no memory");
        gpu->get(gpu, a, p.a, n_a), gpu->get(gpu, b, p.b, n_b);
        for (const auto &v : float_variants) {
            if (!v.is_here()) continue;
            gpu->begin(gpu);
            v.run(p);
            gpu->end(gpu);
            gpu->get(gpu, y, p.y, (uint64_t)(f.rows * f.columns) * sizeof *y);
            for (int64_t i = 0; i < f.rows; i++)
                for (int64_t j = 0; j < f.columns; j++) {
                    float sum = 0;
                    for (int64_t k = 0; k < f.depth; k++)
                        sum += fp8_decode(FP8_E4M3, a[f.over_rows ? k * f.rows + i : i * f.depth + k]) *
                               fp8_decode(FP8_E4M3, b[f.over_rows ? k * f.columns + j : j * f.depth + k]);
                    if (sum != y[i * f.columns + j]) say_wrong("products of floats of 8 bits", v.name);
                }
        }
        free(a), free(b), free(y);
    }
}

/* ---- time ---- */

static double seconds_now() {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(const variant &v, const product &p, int launches) {
    double began = seconds_now();
    gpu->begin(gpu);
    for (int i = 0; i < launches; i++) run(v, p);
    gpu->end(gpu);
    return (seconds_now() - began) / launches;
}

static double rate_of(const variant &v, const product &p, double work) {
    double once = seconds_of(v, p, 2), best = 1e9;
    int launches = once > 0.02 ? 1 : (int)(0.02 / once);
    for (int round = 0; round < 3; round++) best = fmin(best, seconds_of(v, p, launches));
    return 1e-12 * work / best;
}

static void time_form(const form &f, bool before) {
    taken = 0;
    const uint64_t some = 1 << 20, n_a = (uint64_t)(f.rows * f.depth), n_b = (uint64_t)(f.depth * f.columns);
    uint16_t *a = (uint16_t *)take(2 * n_a), *b = (uint16_t *)take(2 * n_b),
             *drawn = (uint16_t *)malloc(2 * some);
    if (!drawn) die("no memory");
    for (uint64_t i = 0; i < some; i++) drawn[i] = narrow(f.type, (float)draw() * 0x1p-53f - 0.5f);
    for (uint64_t i = 0; i < n_a; i += some)
        gpu->put(gpu, a + i, drawn, 2 * (n_a - i < some ? n_a - i : some));
    for (uint64_t i = 0; i < n_b; i += some)
        gpu->put(gpu, b + i, drawn, 2 * (n_b - i < some ? n_b - i : some));
    free(drawn);
    float *y = (float *)take((uint64_t)(f.rows * f.columns) * 4);
    product p = { f, operand_of(f, false, a), operand_of(f, true, b), before ? y : NULL, y };
    double work = 2.0 * (double)f.rows * (double)f.columns * (double)f.depth;
    printf("%6lld x %6lld x %6lld %s%s", (long long)f.rows, (long long)f.depth, (long long)f.columns,
           f.ta   ? "tn"
           : f.tb ? "nt"
                  : "nn",
           before ? "+" : " ");
    for (const variant_list &all : lists)
        for (size_t i = 0; all.is_here() && i < all.count; i++)
            printf(" %8.1f", rate_of(all.first[i], p, work));
    printf("\n");
    fflush(stdout);
}

static void time_all() {
    enum { TOKENS = 4096, WORDS = 50257 };
    printf("\nTFLOP/s, f32 results; tiles as in this file:\n%-27s", "rows x depth x columns");
    for (const variant_list &all : lists)
        for (size_t i = 0; all.is_here() && i < all.count; i++)
            printf(" %6s %zu", all.name ? all.name : "", i);
    printf("\n");
    static const int64_t layers[][2] = { { 768, 2304 }, { 768, 768 }, { 768, 3072 }, { 3072, 768 } };
    for (const int64_t(&w)[2] : layers) {
        time_form({ TOKENS, w[1], w[0], false, false, DTYPE_BF16 }, false);
        time_form({ TOKENS, w[0], w[1], false, true, DTYPE_BF16 }, false);
        time_form({ w[0], w[1], TOKENS, true, false, DTYPE_BF16 }, true);
    }
    time_form({ TOKENS, WORDS, 768, false, true, DTYPE_BF16 }, false);
    time_form({ TOKENS, 768, WORDS, false, false, DTYPE_BF16 }, false);
    time_form({ WORDS, 768, TOKENS, true, false, DTYPE_BF16 }, true);
    time_form({ 1, 3072, 768, false, true, DTYPE_BF16 }, false);
    time_form({ 32, 3072, 768, false, true, DTYPE_BF16 }, false);
    time_form({ 8192, 8192, 8192, false, false, DTYPE_BF16 }, false);
}

static void time_floats(int64_t rows, int64_t columns, int64_t depth, bool over_rows) {
    floats p = open_floats(rows, columns, depth, over_rows);
    double work = 2.0 * (double)rows * (double)columns * (double)depth;
    printf("%6lld x %6lld x %6lld %s ", (long long)rows, (long long)depth, (long long)columns,
           over_rows ? "tn" : "nt");
    for (const auto &v : float_variants) {
        if (!v.is_here()) continue;
        double best = 1e9;
        for (int round = 0, launches = 1; round < 4; round++) {
            double began = seconds_now();
            gpu->begin(gpu);
            for (int i = 0; i < launches; i++) v.run(p);
            gpu->end(gpu);
            double each = (seconds_now() - began) / launches;
            if (round) best = fmin(best, each);
            launches = each > 0.02 ? 1 : (int)(0.02 / each) + 1;
        }
        printf(" %8.1f", 1e-12 * work / best);
    }
    printf("\n");
    fflush(stdout);
}

static void time_all_floats() {
    enum { TOKENS = 4096 };
    printf("\nfloats of 8 bits, their products alone: TFLOP/s in");
    for (const auto &v : float_variants)
        if (v.is_here()) printf(" (%s)", v.name);
    printf("\n");
    static const int64_t layers[][2] = { { 768, 2304 }, { 768, 768 }, { 768, 3072 }, { 3072, 768 } };
    for (const int64_t(&w)[2] : layers)
        time_floats(TOKENS, w[1], w[0], false), time_floats(w[0], w[1], TOKENS, true);
    time_floats(8192, 8192, 8192, false), time_floats(8192, 8192, 8192, true);
}

static void say_what_is_left_out() {
    const unsigned c = gpu->capability;
    if (!has_groups() && c == 90)
        printf("tensor cores: this build has no code for 90a: groups of warps were left out\n");
    if (!has_tmem() && c == 100)
        printf("tensor cores: this build has no code for 100a: products in tensor memory were left out\n");
    if (c != 100)
        printf("tensor cores: this GPU's capability is %u.%u: products in tensor memory, which 10.0 alone "
               "has, were left out\n",
               c / 10, c % 10);
}

int main(int count, char **arguments) {
    if (count < 2 || count > 3) die("usage: bench-gpu-tensor DEVICE [seconds]");
    bool timed = count == 3;
    if (device_find(arguments[1], &gpu) != STATUS_OK) die(status_message());
    if (!gpu->apart) die("this device is no GPU");
    if (gpu->open(gpu, &pool, timed ? 1600ull << 20 : 16 << 20) != STATUS_OK) die(status_message());
    if (gpu->capability < GPU_MMA_LEAST) die("this GPU has none of these instructions");
    check_instructions<gpu_bf16, false, false>(DTYPE_BF16),
        check_instructions<gpu_bf16, true, true>(DTYPE_BF16);
    check_instructions<gpu_f16, false, true>(DTYPE_F16), check_instructions<gpu_f16, true, false>(DTYPE_F16);
    check_codes();
    if (has_floats()) check_floats<gpu_e4m3>(FP8_E4M3), check_floats<gpu_e5m2>(FP8_E5M2);
    check_numbers();
    check_eights();
    if (wrong) printf("tensor cores: instructions are wrong\n");
    if (has_groups()) check_groups(), check_bulk();
    if (has_tmem()) check_bulk(), check_tmem();
    size_t tiles = 0;
    for (const variant_list &all : lists)
        if (all.is_here()) check_tiles(all), tiles += all.count;
    check_float_tiles();
    if (!wrong) printf("tensor cores: instructions, and %zu tiles: right\n", tiles);
    say_what_is_left_out();
    if (timed) time_all();
    if (timed && (has_floats() || has_groups() || has_tmem())) time_all_floats();
    if (gpu->failed && gpu->failed(gpu) != STATUS_OK) die(status_message());
    gpu->close(gpu, &pool);
    return wrong > 0;
}
