/* Twins of embedding_cpu.c. */
#include "ops/cuda_whole.h"

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
 * table. */

/* Where the rows of dy stand in that order: a warp counts what comes before its row. Each row is compared
 * with each, 32 at a time: the square of their number is little beside what a model's products do for them.
 */
struct embedding_ranks {
    const int32_t *ids;
    int32_t *order,
        *same; /* of each place: the row; how many rows have its id, where it is the first, else 0 */
    int64_t count;

    __device__ __forceinline__ void operator()(int64_t row) const {
        int32_t id = ids[row], before = 0, earlier = 0, equal = 0;
        for (int64_t k = cuda_lane(); k < count; k += GPU_WARP) {
            int32_t other = ids[k];
            before += other < id;
            earlier += other == id && k < row;
            equal += other == id;
        }
        earlier = cuda_warp_count(earlier), equal = cuda_warp_count(equal);
        int32_t place = cuda_warp_count(before) + earlier;
        if (cuda_lane() == 0) order[place] = (int32_t)row, same[place] = earlier ? 0 : equal;
    }
};

struct embedding_begin {
    cuda_plain accumulator, dtable; /* accumulator.data may be NULL */
    __device__ __forceinline__ void operator()(int64_t i) const {
        dtable.set(i, accumulator.data ? accumulator.get(i) : 0);
    }
};

struct embedding_sums {
    const int32_t *ids, *order, *same;
    cuda_span dy, dtable;
    int64_t rows, width;

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
        int32_t id = ids[*row];
        if (id < 0 || id >= rows) return;
        float sum = dtable.get(id * width + at.column);
#pragma unroll 4
        for (int32_t k = 0; k < count; k++) sum = kept(sum + dy.get(row[k] * width + at.column));
        dtable.set(id * width + at.column, sum);
    }
};

static void run_backward(const op_call *c) {
    const op_arg *before = op_in(c, 2), *dtable = &c->out[0];
    const int32_t *ids = (const int32_t *)c->in[0].data;
    int64_t count = shape_elements(&c->in[0].shape), width = dtable->shape.dim[1];
    int32_t *order = (int32_t *)c->scratch, *same = order + count;
    embedding_ranks rank = { ids, order, same, count };
    cuda_rows(count, rank);
    embedding_begin begin = { cuda_plain_of(before), cuda_plain_of(dtable) };
    if (before->data != dtable->data) cuda_each(shape_elements(&dtable->shape), begin);
    embedding_sums add = { ids, order, same, cuda_in(c, 1), cuda_out(c, 0), dtable->shape.dim[0], width };
    cuda_each(count * width, add);
}

static uint64_t backward_scratch(const op_call *c, int) {
    return (uint64_t)shape_elements(&c->in[0].shape) * 2 * sizeof(int32_t);
}

CUDA_KERNELS(embedding_cuda, { "embedding_cuda_copy", cuda_accepts, NULL, run });
CUDA_KERNELS(embedding_backward_cuda,
             { "embedding_backward_cuda_ordered", cuda_accepts, backward_scratch, run_backward });
