/* The twin of adapter_matmul_cpu.c: two products for each adapter, of all tiles that have a row of it. Which
 * rows those are only the device knows, so a block looks first. What bounds it: ranks are small, so memory,
 * by x and y, where an adapter has many rows; starts of kernels where it has few. */
#include "ops/matmul/matmul_cuda.h"

extern "C" {
#include "ops/adapter_matmul/adapter_matmul.h"
}

/* Rows of adapter k have an end: their sums times `scale`, or onto what is there. Those of others between
 * them are zeros on the way, which the second product reads beside k's. */
struct adapter_matmul_end {
    const int32_t *adapter;
    int32_t k;
    bool adds, fours;
    float scale;
    cuda_span y;
    int64_t columns;

    __device__ __forceinline__ float before(int64_t, int64_t) const { return 0; }
    __device__ __forceinline__ void end(int64_t row, int64_t column, float sum) const {
        int64_t to = row * columns + column;
        if (adapter[row] == k)
            y.set(to, adds ? sum + y.get(to) : sum * scale);
        else if (!adds)
            y.set(to, 0);
    }
    __device__ __forceinline__ void before4(int64_t, int64_t, float x[4]) const {
        x[0] = x[1] = x[2] = x[3] = 0;
    }
    __device__ __forceinline__ void end4(int64_t row, int64_t column, float x[4]) const {
        for (int i = 0; i < 4; i++) end(row, column + i, x[i]);
    }
};

typedef matmul_medium tile;

__global__ void __launch_bounds__(tile::THREADS, tile::BLOCKS)
    adapter_matmul_kernel(matmul_matrix a, matmul_matrix b, adapter_matmul_end e, matmul_extent n) {
    int64_t first = (int64_t)blockIdx.y * tile::ROWS;
    bool any = false;
    for (int64_t row = first; row < first + tile::ROWS && row < n.rows; row++) any |= e.adapter[row] == e.k;
    if (any) matmul_block<tile>(a, b, e, n, first, (int64_t)blockIdx.x * tile::COLUMNS);
}

static void product(const matmul_matrix &a, const matmul_matrix &b, const adapter_matmul_end &e,
                    const matmul_extent &n) {
    if (n.rows > 0 && n.columns > 0)
        GPU_LAUNCH((adapter_matmul_kernel),
                   dim3(gpu_blocks(n.columns, tile::COLUMNS), gpu_blocks(n.rows, tile::ROWS)), tile::THREADS,
                   tile::SHARED, a, b, e, n);
}

struct adapter_matmul_rest {
    cuda_plain from, to;
    __device__ __forceinline__ void operator()(int64_t i) const { to.set(i, from.get(i)); }
};

static uint64_t scratch(const op_call *c, int) {
    return (uint64_t)(op_in(c, 2)->shape.dim[0] * adapter_matmul_most_rank(c)) * sizeof(float);
}

static void run(const op_call *c) {
    const op_arg *y = op_in(c, 0), *x = op_in(c, 1), *out = &c->out[0];
    const int32_t *adapter = (const int32_t *)op_in(c, 2)->data;
    int64_t rows = op_in(c, 2)->shape.dim[0], in = shape_last(&x->shape), columns = shape_last(&out->shape);
    adapter_matmul_rest rest = { cuda_plain_of(y), cuda_plain_of(out) };
    if (y->data != out->data) cuda_each(rows * columns, rest);
    cuda_span h = { c->scratch, (int32_t)DTYPE_F32 };
    for (int64_t k = 0; k < adapter_matmul_count(c); k++) {
        adapter_part p = adapter_matmul_part(c, k);
        if (!p.rank) continue;
        adapter_matmul_end down = { adapter, (int32_t)k, false, false, p.scale, h, p.rank },
                           up = { adapter, (int32_t)k, true, false, 1, cuda_span_of(out), columns };
        matmul_matrix of_h = matmul_matrix_at(h, p.rank, false);
        product(matmul_matrix_of(x, false), matmul_matrix_of(op_in(c, (uint32_t)(3 + 2 * k)), false), down,
                { rows, p.rank, in });
        product(of_h, matmul_matrix_of(op_in(c, (uint32_t)(4 + 2 * k)), false), up,
                { rows, columns, p.rank });
    }
}

CUDA_KERNELS(adapter_matmul_cuda, { "adapter_matmul_cuda_tiles", cuda_accepts, scratch, run });
