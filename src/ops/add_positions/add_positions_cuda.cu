/* Twins of add_positions_cpu.c. */
#include "ops/cuda.h"

extern "C" {
#include "ops/add_positions/add_positions.h"
}
#include "ops/add_positions/add_positions_math.h"

struct add_positions_one {
    cuda_span x, table, y;
    const int32_t *offset; /* may be NULL */
    add_positions_attributes at;
    int64_t times, width, rows;

    __device__ __forceinline__ void operator()(int64_t i) const {
        add_positions_place p = add_positions_place_of(&at, offset);
        cuda_cell cell = cuda_split(i, width);
        int64_t row = add_positions_row(&p, cuda_split(cell.row, times).column, rows);
        y.set(i, x.get(i) + table.get(row * width + cell.column));
    }
};

static void run(const op_call *c) {
    const shape *x = &c->in[0].shape;
    add_positions_one f = { cuda_in(c, 0),
                            cuda_in(c, 1),
                            cuda_out(c, 0),
                            (const int32_t *)op_in(c, 2)->data,
                            *(const add_positions_attributes *)c->attributes,
                            x->dim[1],
                            x->dim[2],
                            c->in[1].shape.dim[0] };
    cuda_each(shape_elements(x), f);
}

/* A row of the table gets its batch rows one after the other, in f32, and is rounded once. */
struct add_positions_sums {
    cuda_span dy, accumulator, dtable; /* accumulator.data may be NULL */
    const int32_t *offset;             /* may be NULL */
    add_positions_attributes at;
    int64_t batch, times, width;

    __device__ __forceinline__ void operator()(int64_t i) const {
        add_positions_place p = add_positions_place_of(&at, offset);
        cuda_cell cell = cuda_split(i, width);
        add_positions_span span = add_positions_times(&p, cell.row, times);
        float sum = accumulator.data ? accumulator.get(i) : 0;
        for (int64_t b = 0; b < batch; b++)
#pragma unroll 4
            for (int64_t t = span.from; t < span.end; t++)
                sum += dy.get((b * times + t) * width + cell.column);
        dtable.set(i, sum);
    }
};

static void run_backward(const op_call *c) {
    const shape *dy = &c->in[0].shape;
    add_positions_sums f = { cuda_in(c, 0),
                             cuda_in(c, 2),
                             cuda_out(c, 0),
                             (const int32_t *)op_in(c, 1)->data,
                             ((const add_positions_backward_attributes *)c->attributes)->at,
                             dy->dim[0],
                             dy->dim[1],
                             dy->dim[2] };
    cuda_each(shape_elements(&c->out[0].shape), f);
}

CUDA_KERNELS(add_positions_cuda, { "add_positions_cuda_map", cuda_accepts, NULL, run });
CUDA_KERNELS(add_positions_backward_cuda,
             { "add_positions_backward_cuda_rows", cuda_accepts, NULL, run_backward });
