/* Twins of relative_bias_cpu.c. All of one distance are in one bucket, so the gradient is added up along
 * distances first: in double, and rounded once. */
#include "ops/cuda.h"

extern "C" {
#include "ops/relative_bias/relative_bias.h"
}
#include "ops/relative_bias/relative_bias_math.h"

struct relative_bias_one {
    cuda_plain table, y;
    relative_bias_attributes a;
    int64_t buckets, heads;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, a.keys), query = cuda_split(at.row, a.queries); /* head, query */
        int64_t distance = at.column - query.column - a.place;
        int32_t bucket = relative_bias_bucket(distance, (int32_t)buckets, &a);
        y.set(i, table.get(bucket * heads + query.row));
    }
};

static void run(const op_call *c) {
    const shape *table = &c->in[0].shape;
    relative_bias_one f = { cuda_plain_of(&c->in[0]), cuda_plain_of(&c->out[0]),
                            *(const relative_bias_attributes *)c->attributes, table->dim[0], table->dim[1] };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

/* sums (head, distance); distance 0 is that of the first key from the last query. */
struct relative_bias_distances {
    cuda_span dbias;
    double *sums;
    int64_t queries, keys;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, queries + keys - 1);
        int64_t away = at.column - (queries - 1); /* key - query */
        int64_t first = away < 0 ? -away : 0, end = keys - away < queries ? keys - away : queries;
        double sum = 0;
        for (int64_t t = first; t < end; t++)
            sum += (double)dbias.get((at.row * queries + t) * keys + t + away);
        sums[i] = sum;
    }
};

struct relative_bias_buckets {
    cuda_span before, dtable; /* before.data may be NULL */
    const double *sums;
    relative_bias_backward_attributes a;
    int64_t heads;
    __device__ __forceinline__ void operator()(int64_t i) const {
        cuda_cell at = cuda_split(i, heads); /* bucket, head */
        int64_t distances = (int64_t)a.of.queries + a.of.keys - 1;
        double sum = 0;
        for (int64_t d = 0; d < distances; d++)
            if (relative_bias_bucket(d - (a.of.queries - 1) - a.of.place, a.buckets, &a.of) == at.row)
                sum += sums[at.column * distances + d];
        dtable.set(i, (float)((before.data ? (double)before.get(i) : 0) + sum));
    }
};

static uint64_t backward_scratch(const op_call *c, int) {
    const shape *dbias = &c->in[0].shape;
    return (uint64_t)(dbias->dim[0] * (dbias->dim[1] + dbias->dim[2] - 1)) * sizeof(double);
}

static void run_backward(const op_call *c) {
    const shape *dbias = &c->in[0].shape;
    double *sums = (double *)c->scratch;
    relative_bias_distances distances = { cuda_in(c, 0), sums, dbias->dim[1], dbias->dim[2] };
    cuda_each(dbias->dim[0] * (dbias->dim[1] + dbias->dim[2] - 1), distances);
    relative_bias_buckets buckets = { cuda_in(c, 1), cuda_out(c, 0), sums,
                                      *(const relative_bias_backward_attributes *)c->attributes,
                                      dbias->dim[0] };
    cuda_each(shape_elements(&c->out[0].shape), buckets);
}

CUDA_KERNELS(relative_bias_cuda, { "relative_bias_cuda_map", cuda_accepts, NULL, run });
CUDA_KERNELS(relative_bias_backward_cuda,
             { "relative_bias_backward_cuda_distances", cuda_accepts, backward_scratch, run_backward });
