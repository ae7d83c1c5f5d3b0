/* Twins of embedding_cpu.c. What bounds them: memory. For the gradient ids are counted and sorted first, in
 * kernels that read four bytes a row and wait for each other: they bound it where rows are short and few. */
#include "ops/cuda.h"

extern "C" {
#include "ops/embedding/embedding.h"
}
#include "ops/embedding/embedding_math.h"

struct embedding_copy {
    const int32_t *ids;
    cuda_plain table, y;
    int64_t rows, width;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, width);
        y.set(i, table.get(embedding_row(ids[at.row], rows) * width + at.column));
    }
};

static void run(const op_call *c) {
    const op_arg *table = op_in(c, 1);
    embedding_copy f = { (const int32_t *)c->in[0].data, cuda_plain_of(table), cuda_plain_of(&c->out[0]),
                         table->shape.dim[0], table->shape.dim[1] };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

/* ---- the gradient ----
 *
 * Every number of the table is added to in the order of the rows of dy, as on the CPU. So the rows are first
 * put in the order of their ids, those of one id in their own; then a thread has a column of a row of the
 * table.
 *
 * They are sorted by four bits of the id after the other, from the lowest. A thread has SOME neighbours and
 * counts them by digit; what stands before a thread's rows of a digit are all rows of lower digits, and those
 * of this digit of the threads before it. */

enum { BITS = 4, DIGITS = 1 << BITS, SOME = 32, PART = GPU_BLOCK * SOME /* rows of a block */ };

struct embedding_sort {
    const int32_t *ids, *order; /* so far; NULL: none yet */
    int32_t *places;            /* (digit, thread) */
    int64_t count, threads;
    int32_t rows, shift;

    __device__ __forceinline__ int32_t row(int64_t i) const { return order ? order[i] : (int32_t)i; }
    __device__ __forceinline__ int32_t id(int64_t i) const { /* outside of the table: last */
        int32_t own = ids[row(i)];
        return own >= 0 && own < rows ? own : rows;
    }
    __device__ __forceinline__ int digit(int64_t i) const { return id(i) >> shift & (DIGITS - 1); }
};

/* f(i) for the thread's numbers, one after the other. */
template <class F>
GPU_INLINE void embedding_own(const embedding_sort &s, const F &f) {
    int64_t first = (int64_t)blockIdx.x * PART + threadIdx.x * SOME;
    for (int64_t i = first; i < first + SOME && i < s.count; i++) f(i);
}

/* `own` numbers of each thread, by digit: nobody else touches them. */
__global__ void __launch_bounds__(GPU_BLOCK) embedding_count_kernel(embedding_sort s) {
    GPU_SHARED(int32_t, own);
    int32_t *mine = own + threadIdx.x;
    int64_t thread = (int64_t)blockIdx.x * GPU_BLOCK + threadIdx.x;
    for (int d = 0; d < DIGITS; d++) mine[d * GPU_BLOCK] = 0;
    embedding_own(s, [&](int64_t i) { mine[s.digit(i) * GPU_BLOCK]++; });
    for (int d = 0; d < DIGITS; d++) s.places[d * s.threads + thread] = mine[d * GPU_BLOCK];
}

/* Each number becomes the sum of those before it; one block does it. */
__global__ void __launch_bounds__(GPU_BLOCK) embedding_before_kernel(int32_t *x, int64_t n) {
    GPU_SHARED(int32_t, sums);
    int64_t each = n / GPU_BLOCK, first = threadIdx.x * each;
    int32_t sum = 0, before = 0;
#pragma unroll 8
    for (int64_t i = first; i < first + each; i++) sum += x[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
#pragma unroll 8
    for (int t = 0; t < (int)threadIdx.x; t++) before += sums[t];
    for (int64_t i = first; i < first + each; i++) {
        int32_t here = x[i];
        x[i] = before, before += here;
    }
}

__global__ void __launch_bounds__(GPU_BLOCK) embedding_place_kernel(embedding_sort s, int32_t *to) {
    GPU_SHARED(int32_t, own);
    int32_t *mine = own + threadIdx.x;
    int64_t thread = (int64_t)blockIdx.x * GPU_BLOCK + threadIdx.x;
    for (int d = 0; d < DIGITS; d++) mine[d * GPU_BLOCK] = s.places[d * s.threads + thread];
    embedding_own(s, [&](int64_t i) { to[mine[s.digit(i) * GPU_BLOCK]++] = s.row(i); });
}

/* How many rows have the id of a place's, where it is the first of them, else 0. */
struct embedding_same {
    embedding_sort s;
    int32_t *same;

    __device__ __forceinline__ void operator()(int64_t i) const {
        int32_t id = s.id(i);
        bool first = id < s.rows && (i == 0 || s.id(i - 1) != id);
        int64_t low = i + 1, high = first ? s.count : low;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (s.id(middle) == id)
                low = middle + 1;
            else
                high = middle;
        }
        same[i] = first ? (int32_t)(low - i) : 0;
    }
};

static int64_t embedding_threads(int64_t count) { return (count + PART - 1) / PART * GPU_BLOCK; }

/* Sorts into one of two rooms of `count` numbers, and into the other goes how many there are of each id.
 * After the rooms come the places. */
static embedding_same embedding_sorted(const int32_t *ids, int64_t count, int64_t rows, int32_t *rooms) {
    enum { SHARED = DIGITS * GPU_BLOCK * sizeof(int32_t) };
    embedding_sort s = { ids, NULL, rooms + 2 * count, count, embedding_threads(count), (int32_t)rows, 0 };
    unsigned blocks = gpu_blocks(count, PART);
    int32_t *to = rooms, *other = rooms + count;
    for (; rows >> s.shift; s.shift += BITS) {
        GPU_LAUNCH((embedding_count_kernel), blocks, GPU_BLOCK, SHARED, s);
        GPU_LAUNCH((embedding_before_kernel), 1, GPU_BLOCK, GPU_BLOCK * sizeof(int32_t), s.places,
                   s.threads * DIGITS);
        GPU_LAUNCH((embedding_place_kernel), blocks, GPU_BLOCK, SHARED, s, to);
        s.order = to, to = other, other = (int32_t *)s.order;
    }
    embedding_same same = { s, to };
    cuda_each(count, same);
    return same;
}

struct embedding_begin {
    cuda_plain accumulator, dtable; /* accumulator.data may be NULL */
    __device__ __forceinline__ void operator()(int64_t i) const {
        dtable.set(i, accumulator.data ? accumulator.get(i) : 0);
    }
};

struct embedding_sums {
    const int32_t *ids, *order, *same; /* see embedding_same */
    cuda_span dy, dtable;
    int64_t width;

    /* What the table holds after a number is added: 16 bits are rounded each time. */
    __device__ __forceinline__ float kept(float x) const {
        if (dtable.type == DTYPE_F32) return x;
        return dtable.type == DTYPE_BF16 ? half_from_bf16(half_to_bf16(x)) : half_from_f16(half_to_f16(x));
    }

    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, width);
        int32_t count = same[at.row];
        if (count == 0) return;
        const int32_t *row = order + at.row;
        int64_t id = ids[*row];
        float sum = dtable.get(id * width + at.column);
#pragma unroll 8
        for (int32_t k = 0; k < count; k++) sum = kept(sum + dy.get(row[k] * width + at.column));
        dtable.set(id * width + at.column, sum);
    }
};

static void run_backward(const op_call *c) {
    const op_arg *before = op_in(c, 2), *dtable = &c->out[0];
    const int32_t *ids = (const int32_t *)c->in[0].data;
    int64_t count = shape_elements(&c->in[0].shape), width = dtable->shape.dim[1];
    embedding_begin begin = { cuda_plain_of(before), cuda_plain_of(dtable) };
    if (before->data != dtable->data) cuda_each(shape_elements(&dtable->shape), begin);
    if (count == 0) return;
    embedding_same sorted = embedding_sorted(ids, count, dtable->shape.dim[0], (int32_t *)c->scratch);
    embedding_sums add = { ids, sorted.s.order, sorted.same, cuda_in(c, 1), cuda_out(c, 0), width };
    cuda_each(count * width, add);
}

static uint64_t backward_scratch(const op_call *c, int) {
    int64_t count = shape_elements(&c->in[0].shape);
    return (uint64_t)(2 * count + embedding_threads(count) * DIGITS) * sizeof(int32_t);
}

CUDA_KERNELS(embedding_cuda, { "embedding_cuda_copy", cuda_accepts, NULL, run });
CUDA_KERNELS(embedding_backward_cuda,
             { "embedding_backward_cuda_ordered", cuda_accepts, backward_scratch, run_backward });
