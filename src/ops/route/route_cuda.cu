/* Twins of route_cpu.c's kernels: a warp to a row, in double and in the CPU's order, as experts are few.
 * What bounds them: a row's additions in double, one after the other. All rows together are bytes enough for
 * microseconds. */
#include "ops/cuda_order.h"
#include "ops/cuda_rows.h"

extern "C" {
#include "ops/route/route.h"
}
#include "ops/wide_math.h"

/* The largest of a row. */
GPU_INLINE float largest_of(const cuda_span &x, int64_t at, int64_t experts) {
    float largest = -INFINITY;
    for (int64_t e = cuda_lane(); e < experts; e += GPU_WARP)
        largest = x.get(at + e) > largest ? x.get(at + e) : largest;
    return cuda_warp_largest(largest);
}

GPU_INLINE double exponential(const cuda_span &x, int64_t at, float largest) {
    return wide_exp((double)x.get(at) - (double)largest);
}

/* 1 / sum of exponentials: worked out side by side, added one after the other. */
GPU_INLINE double share_of(const cuda_span &x, int64_t at, int64_t experts, float largest) {
    double sum = 0;
    for (int64_t first = 0; first < experts; first += GPU_WARP) {
        int64_t e = first + cuda_lane();
        double one = e < experts ? exponential(x, at + e, largest) : 0;
        for (int lane = 0; lane < GPU_WARP; lane++) sum += __shfl_sync(0xffffffffu, one, lane);
    }
    return 1 / sum;
}

/* ---- the choice ---- */

/* Experts come from the largest to the smallest, and between equals the first one first. */
struct route_candidate {
    float value;
    int32_t expert; /* -1: none */
};

GPU_INLINE bool comes_before(const route_candidate &a, const route_candidate &b) {
    return a.value > b.value || (a.value == b.value && a.expert < b.expert);
}

/* The next one after `last`, in all threads of the warp. What is not a number comes last, so there is always
 * one. */
GPU_INLINE route_candidate next_after(const cuda_span &x, int64_t at, int64_t experts, route_candidate last) {
    route_candidate best = { 0, -1 };
    for (int64_t e = cuda_lane(); e < experts; e += GPU_WARP) {
        float value = x.get(at + e);
        route_candidate one = { value == value ? value : -INFINITY, (int32_t)e };
        if (comes_before(last, one) && (best.expert < 0 || comes_before(one, best))) best = one;
    }
    for (int lanes = GPU_WARP / 2; lanes; lanes /= 2) {
        route_candidate other = { __shfl_xor_sync(0xffffffffu, best.value, lanes),
                                  __shfl_xor_sync(0xffffffffu, best.expert, lanes) };
        if (other.expert >= 0 && (best.expert < 0 || comes_before(other, best))) best = other;
    }
    return best;
}

/* Weights, and in `places` the experts. */
struct route_rows {
    cuda_span x, weights;
    int32_t *places;
    int64_t experts;
    int32_t chosen, normalised;

    __device__ __forceinline__ void operator()(int64_t row) const {
        int64_t at = row * experts;
        int32_t *of = places + row * chosen;
        float largest = largest_of(x, at, experts);
        double each = normalised ? 0 : share_of(x, at, experts, largest), sum = 0;
        route_candidate next = { INFINITY, -1 };
        for (int32_t j = 0; j < chosen; j++) {
            next = next_after(x, at, experts, next);
            sum += exponential(x, at + next.expert, largest);
            if (cuda_lane() == 0) of[j] = next.expert;
        }
        __syncwarp();
        for (int32_t j = cuda_lane(); j < chosen; j += GPU_WARP) {
            double value = exponential(x, at + of[j], largest);
            weights.set(row * chosen + j, (float)(normalised ? value / sum : value * each));
        }
    }
};

/* ---- from experts to places ----
 * A part of GPU_BLOCK choices is counted on its own: counts (part, expert). Then they become what parts
 * before have of an expert, and a choice's place is the expert's begin, those, and the choices before it in
 * its part. */

/* How many of the part's choices before this thread's are of the same expert; with it, is it the last one? */
GPU_INLINE int32_t before_in_part(const int32_t *of, bool *last) {
    int32_t mine = of[threadIdx.x], before = 0;
    *last = true;
    for (int t = 0; t < GPU_BLOCK; t++) {
        if (of[t] != mine) continue;
        before += t < (int)threadIdx.x;
        if (t > (int)threadIdx.x) *last = false;
    }
    return before;
}

__global__ void __launch_bounds__(GPU_BLOCK)
    route_count_kernel(const int32_t *choices, int32_t *counts, int64_t n, int64_t experts) {
    GPU_SHARED(int32_t, of);
    int64_t i = (int64_t)blockIdx.x * GPU_BLOCK + threadIdx.x;
    int32_t *count = counts + blockIdx.x * experts, mine = i < n ? choices[i] : -1;
    of[threadIdx.x] = mine;
    for (int64_t e = threadIdx.x; e < experts; e += GPU_BLOCK) count[e] = 0;
    __syncthreads();
    bool last;
    int32_t before = before_in_part(of, &last);
    if (mine >= 0 && last) count[mine] = before + 1;
}

__global__ void __launch_bounds__(GPU_BLOCK)
    route_place_kernel(int32_t *places, const int32_t *counts, const int32_t *ends, int64_t n,
                       int64_t experts) {
    GPU_SHARED(int32_t, of);
    int64_t i = (int64_t)blockIdx.x * GPU_BLOCK + threadIdx.x;
    int32_t mine = i < n ? places[i] : -1;
    of[threadIdx.x] = mine;
    __syncthreads();
    bool last;
    int32_t before = before_in_part(of, &last);
    if (mine >= 0) places[i] = (mine ? ends[mine - 1] : 0) + counts[blockIdx.x * experts + mine] + before;
}

/* Of an expert: what each part has becomes what those before have. */
struct route_parts {
    int32_t *counts, *totals;
    int64_t parts, experts;

    __device__ __forceinline__ void operator()(int64_t e) const {
        int32_t total = 0;
        for (int64_t p = 0; p < parts; p++) {
            int32_t here = counts[p * experts + e];
            counts[p * experts + e] = total;
            total += here;
        }
        totals[e] = total;
    }
};

struct route_ends {
    int32_t *ends; /* totals at first */

    __device__ __forceinline__ int32_t start(int64_t) const { return 0; }
    __device__ __forceinline__ double term(int64_t e) const { return (double)ends[e]; }
    __device__ __forceinline__ void add(int32_t &to, int64_t e, double x) const {
        to += (int32_t)x;
        ends[e] = to;
    }
    __device__ __forceinline__ void end(int64_t, int32_t) const {}
};

static int64_t rows_of(const op_call *c) { return shape_rows(&c->in[0].shape); }
static int64_t experts_of(const op_call *c) { return shape_last(&c->in[0].shape); }
static int64_t parts_of(const op_call *c) { return gpu_blocks(shape_elements(&c->out[1].shape), GPU_BLOCK); }

static uint64_t scratch(const op_call *c, int) {
    return (uint64_t)(parts_of(c) * experts_of(c)) * sizeof(int32_t);
}

static void run(const op_call *c) {
    const route_attributes *a = (const route_attributes *)c->attributes;
    int64_t experts = experts_of(c), parts = parts_of(c), n = shape_elements(&c->out[1].shape);
    int32_t *places = (int32_t *)c->out[1].data, *ends = (int32_t *)c->out[2].data;
    int32_t *counts = (int32_t *)c->scratch;
    size_t shared = GPU_BLOCK * sizeof(int32_t);
    route_rows f = { cuda_in(c, 0), cuda_out(c, 0), places, experts, a->chosen, a->normalised };
    cuda_rows(rows_of(c), f);
    GPU_LAUNCH((route_count_kernel), (unsigned)parts, GPU_BLOCK, shared, places, counts, n, experts);
    cuda_each(experts, route_parts{ counts, ends, parts, experts });
    cuda_in_order(experts, experts, route_ends{ ends });
    GPU_LAUNCH((route_place_kernel), (unsigned)parts, GPU_BLOCK, shared, places, counts, ends, n, experts);
}

/* ---- the gradient ---- */

struct route_slopes {
    cuda_span x, dw, dx;
    const int32_t *places, *ends;
    int64_t rows, experts;
    int32_t chosen, normalised;
};

/* Of a warp. */
struct route_chosen {
    double value[ROUTE_MOST_CHOSEN];
    int32_t of[ROUTE_MOST_CHOSEN];
};

GPU_INLINE int32_t expert_of(const int32_t *ends, int32_t place, int64_t experts) {
    int32_t e = 0;
    while (e + 1 < experts && ends[e] <= place) e++;
    return e;
}

__global__ void __launch_bounds__(GPU_BLOCK) route_slopes_kernel(route_slopes f) {
    GPU_SHARED(route_chosen, warps);
    route_chosen *s = warps + threadIdx.x / GPU_WARP;
    int64_t row = (int64_t)blockIdx.x * CUDA_ROWS + threadIdx.x / GPU_WARP, at = row * f.experts;
    if (row >= f.rows) return;
    float largest = largest_of(f.x, at, f.experts);
    double each = f.normalised ? 0 : share_of(f.x, at, f.experts, largest), sum = 0, dot = 0;
    for (int32_t j = cuda_lane(); j < f.chosen; j += GPU_WARP) {
        s->of[j] = expert_of(f.ends, f.places[row * f.chosen + j], f.experts);
        s->value[j] = exponential(f.x, at + s->of[j], largest);
    }
    __syncwarp(); /* dx may live in x: from here on a thread reads only what it alone writes */
    for (int32_t j = 0; j < f.chosen; j++) sum += s->value[j];
    if (f.normalised) each = 1 / sum;
    for (int32_t j = 0; j < f.chosen; j++) dot += s->value[j] * each * (double)f.dw.get(row * f.chosen + j);
    for (int64_t e = cuda_lane(); e < f.experts; e += GPU_WARP) {
        double p = f.normalised ? 0 : exponential(f.x, at + e, largest) * each, d = 0;
        for (int32_t j = 0; j < f.chosen; j++)
            if (s->of[j] == e) p = s->value[j] * each, d = (double)f.dw.get(row * f.chosen + j);
        f.dx.set(at + e, (float)(p * (d - dot)));
    }
}

static void run_backward(const op_call *c) {
    const route_attributes *a = (const route_attributes *)c->attributes;
    route_slopes f = { cuda_in(c, 0),
                       cuda_in(c, 3),
                       cuda_out(c, 0),
                       (const int32_t *)c->in[1].data,
                       (const int32_t *)c->in[2].data,
                       rows_of(c),
                       experts_of(c),
                       a->chosen,
                       a->normalised };
    if (f.rows > 0)
        GPU_LAUNCH((route_slopes_kernel), gpu_blocks(f.rows, CUDA_ROWS), GPU_BLOCK,
                   CUDA_ROWS * sizeof(route_chosen), f);
}

CUDA_KERNELS(route_cuda, { "route_cuda_rows", cuda_accepts, scratch, run });
CUDA_KERNELS(route_backward_cuda, { "route_backward_cuda_rows", cuda_accepts, NULL, run_backward });
