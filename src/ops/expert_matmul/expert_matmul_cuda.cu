/* Products of groups of rows: blocks of the plain product, each of which finds the expert that its rows have.
 * A sum has the order of a product of those rows alone, wherever they lie (matmul_tile_cuda.h).
 * What bounds it: what bounds that, where an expert has rows for whole tiles; memory, by experts' weights,
 * where it has few. */
#include "ops/matmul/matmul_cuda.h"

extern "C" {
#include "ops/expert_matmul/expert_matmul.h"
}

/* Rows first .. last - 1 of an expert; those that no expert has come after all of them. */
struct expert_matmul_rows {
    int64_t expert, first, last;
};

struct expert_matmul_ends {
    const int32_t *ends;
    int64_t experts, rows;

    __device__ __forceinline__ expert_matmul_rows begin() const { return { -1, 0, 0 }; }
    __device__ __forceinline__ void next(expert_matmul_rows *r) const {
        r->expert++, r->first = r->last;
        int64_t end = r->expert < experts ? ends[r->expert] : rows;
        r->last = end < r->first ? r->first : end > rows ? rows : end;
    }
};

typedef matmul_medium tile;

/* ---- y ---- */

/* Tiles of rows of one expert are counted through all of them: at most so many. */
static inline int64_t expert_matmul_tiles(int64_t rows, int64_t experts) {
    return rows / tile::ROWS + experts + 1;
}

__global__ void __launch_bounds__(tile::THREADS, tile::BLOCKS)
    expert_matmul_kernel(matmul_matrix x, matmul_matrix w, matmul_end end, expert_matmul_ends ends,
                         matmul_extent n) {
    int64_t left = blockIdx.y, matrix = n.depth * n.columns;
    expert_matmul_rows r = ends.begin();
    for (bool here = false; !here;) {
        if (r.expert == ends.experts) return;
        ends.next(&r);
        int64_t tiles = (r.last - r.first + tile::ROWS - 1) / tile::ROWS;
        here = left < tiles;
        if (!here) left -= tiles;
    }
    w.first = r.expert * matrix;
    n.rows = r.last;
    if (r.expert == ends.experts) n.depth = 0; /* nobody's rows are 0 */
    matmul_block<tile>(x, w, end, n, r.first + left * tile::ROWS, (int64_t)blockIdx.x * tile::COLUMNS);
}

static void run(const op_call *c) {
    const op_arg *x = op_in(c, 0), *w = op_in(c, 1), *ends = op_in(c, 2);
    bool tb = ((const expert_matmul_attributes *)c->attributes)->tb != 0;
    matmul_extent n = { x->shape.dim[0], c->out[0].shape.dim[1], x->shape.dim[1] };
    expert_matmul_ends e = { (const int32_t *)ends->data, ends->shape.dim[0], n.rows };
    matmul_end end = matmul_end_of({}, {}, {}, cuda_out(c, 0), n.columns);
    int64_t tiles = expert_matmul_tiles(n.rows, e.experts);
    if (n.rows > 0 && n.columns > 0)
        GPU_LAUNCH((expert_matmul_kernel), dim3(gpu_blocks(n.columns, tile::COLUMNS), (unsigned)tiles),
                   tile::THREADS, tile::SHARED, matmul_matrix_of(x, false), matmul_matrix_of(w, !tb), end, e,
                   n);
}

/* ---- gradients of the weights ---- */

struct expert_matmul_sum_end {
    cuda_span accumulator, sums; /* (E,M,K); the first may be absent */
    int64_t first, columns;      /* first: of the expert's matrix */
    bool fours;

    __device__ __forceinline__ float before(int64_t row, int64_t column) const {
        return accumulator.data ? accumulator.get(first + row * columns + column) : 0;
    }
    __device__ __forceinline__ void end(int64_t row, int64_t column, float sum) const {
        sums.set(first + row * columns + column, sum);
    }
    __device__ __forceinline__ void before4(int64_t row, int64_t column, float x[4]) const {
        matmul_before4(accumulator, first + row * columns + column, x);
    }
    __device__ __forceinline__ void end4(int64_t row, int64_t column, float x[4]) const {
        sums.set4(first + row * columns + column, x);
    }
};

/* n.depth: of all rows. */
__global__ void __launch_bounds__(tile::THREADS, tile::BLOCKS)
    expert_matmul_weights_kernel(matmul_matrix a, matmul_matrix b, expert_matmul_sum_end end,
                                 expert_matmul_ends ends, matmul_extent n) {
    int64_t wide = (n.columns + tile::COLUMNS - 1) / tile::COLUMNS, expert = blockIdx.x / wide;
    expert_matmul_rows r = ends.begin();
    while (r.expert < expert) ends.next(&r);
    a.first = r.first * n.rows, b.first = r.first * n.columns;
    end.first = expert * n.rows * n.columns;
    n.depth = r.last - r.first;
    matmul_block<tile>(a, b, end, n, (int64_t)blockIdx.y * tile::ROWS, blockIdx.x % wide * tile::COLUMNS);
}

static void run_weights(const op_call *c) {
    const op_arg *a = op_in(c, 0), *b = op_in(c, 1), *ends = op_in(c, 2);
    matmul_extent n = { a->shape.dim[1], b->shape.dim[1], a->shape.dim[0] };
    expert_matmul_ends e = { (const int32_t *)ends->data, ends->shape.dim[0], n.depth };
    cuda_span accumulator = cuda_in(c, 3), sums = cuda_out(c, 0);
    expert_matmul_sum_end end = { accumulator, sums, 0, n.columns,
                                  matmul_fours(n.columns, accumulator, sums) };
    if (n.rows > 0 && n.columns > 0 && e.experts > 0)
        GPU_LAUNCH((expert_matmul_weights_kernel),
                   dim3((unsigned)(gpu_blocks(n.columns, tile::COLUMNS) * e.experts),
                        gpu_blocks(n.rows, tile::ROWS)),
                   tile::THREADS, tile::SHARED, matmul_matrix_of(a, true), matmul_matrix_of(b, true), end, e,
                   n);
}

CUDA_KERNELS(expert_matmul_cuda, { "expert_matmul_cuda_plain", cuda_accepts, NULL, run });
CUDA_KERNELS(expert_matmul_weights_cuda,
             { "expert_matmul_weights_cuda_plain", cuda_accepts, NULL, run_weights });
