/* Twins of cross_entropy_cpu.c's fast kernels. What bounds them: memory. Logits are read once for the loss,
 * and read and written once for their gradient; an exponential for each takes some 14 operations. */
#include "ops/cuda_order.h"
#include "ops/cuda_rows.h"

extern "C" {
#include "base/threads.h"
#include "ops/cross_entropy/cross_entropy.h"
}
#include "ops/cross_entropy/cross_entropy_math.h"

/* ---- log sum exp of rows ----
 * A team of warps has a row, a warp a block of it, which it reads once and keeps in shared memory. A row of
 * one block has a warp, a longer one all of those that a block of threads has. */

enum { WARPS = 4, BLOCK = CROSS_ENTROPY_BLOCK, AHEAD = 16 /* numbers that a thread reads at a time */ };

/* The largest of n numbers, which come to stand in `kept`. */
GPU_INLINE float keep_block(const cuda_span &x, int64_t at, int64_t n, float *kept) {
    float largest = x.get(at);
    for (int64_t i = cuda_lane(); i < n; i += GPU_WARP * AHEAD) {
        float some[AHEAD];
        x.get_some(at + i, GPU_WARP, at + n, some);
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (i + k * GPU_WARP >= n) continue;
            kept[i + k * GPU_WARP] = some[k];
            largest = some[k] > largest ? some[k] : largest;
        }
    }
    return cuda_warp_largest(largest);
}

template <int TEAM>
GPU_INLINE void team_sync() {
    if (TEAM > 1)
        __syncthreads();
    else
        __syncwarp();
}

/* `largest` and `sum` are those of the blocks before, in all threads of the team alike. */
template <int TEAM>
__global__ void __launch_bounds__(WARPS *GPU_WARP)
    cross_entropy_lse_kernel(cuda_span x, float *lse, int64_t rows, int64_t classes, int64_t room) {
    GPU_SHARED(float, kept); /* (warp, room), then by warp the largest and the sum of a block */
    int warp = (int)threadIdx.x / GPU_WARP, member = warp % TEAM;
    int64_t row = (int64_t)blockIdx.x * (WARPS / TEAM) + warp / TEAM, at = row * classes;
    float *most = kept + WARPS * room + warp - member, *sums = most + WARPS;
    if (row >= rows) return;
    float largest = x.get(at), sum = 0;
    for (int64_t first = 0; first < classes; first += TEAM * BLOCK) {
        int64_t mine = first + member * BLOCK, n = classes - mine < BLOCK ? classes - mine : (int64_t)BLOCK;
        if (n > 0) {
            float high = keep_block(x, at + mine, n, kept + warp * room);
            if (cuda_lane() == 0) most[member] = high;
        }
        team_sync<TEAM>();
        if (n > 0) {
            float high = largest;
            for (int m = 0; m <= member; m++) high = most[m] > high ? most[m] : high;
            const float *block = kept + warp * room;
            float part =
                cuda_row_sum(n, [&](int64_t j) { return cross_entropy_exponential(block[j], high); });
            if (cuda_lane() == 0) sums[member] = part;
        }
        team_sync<TEAM>();
        for (int m = 0; m < TEAM && first + m * BLOCK < classes; m++) {
            if (most[m] > largest) {
                sum *= cross_entropy_shrink(largest, most[m]);
                largest = most[m];
            }
            sum += sums[m];
        }
        team_sync<TEAM>();
    }
    if (member == 0 && cuda_lane() == 0) lse[row] = cross_entropy_lse(largest, sum);
}

template <int TEAM>
static void run_lse(const op_call *c, int64_t rows, int64_t classes) {
    int64_t room = classes < BLOCK ? classes : (int64_t)BLOCK;
    if (rows > 0)
        GPU_LAUNCH((cross_entropy_lse_kernel<TEAM>), gpu_blocks(rows, WARPS / TEAM), WARPS * GPU_WARP,
                   (size_t)(WARPS * (room + 2)) * sizeof(float), cuda_in(c, 0), (float *)c->out[1].data, rows,
                   classes, room);
}

/* ---- the loss ---- */

struct cross_entropy_tiles {
    cuda_span logits;
    const int32_t *labels;
    const float *lse;
    int64_t classes;
    double *tiles;

    __device__ __forceinline__ double start(int64_t) const { return 0; }
    __device__ __forceinline__ double term(int64_t row) const {
        if (!cross_entropy_is_counted(labels[row], classes)) return 0;
        return (double)lse[row] - (double)logits.get(row * classes + labels[row]);
    }
    __device__ __forceinline__ void add(double &to, int64_t, double x) const { to += x; }
    __device__ __forceinline__ void end(int64_t tile, double sum) const { tiles[tile] = sum; }
};

static int64_t rows_of(const op_call *c) { return shape_elements(&c->in[1].shape); }

static uint64_t scratch(const op_call *c, int) {
    return (uint64_t)cuda_pieces(rows_of(c), THREADS_ROW_TILE) * sizeof(double);
}

static void run(const op_call *c) {
    int64_t rows = rows_of(c), classes = shape_last(&c->in[0].shape);
    int64_t tiles = cuda_pieces(rows, THREADS_ROW_TILE);
    if (classes > BLOCK)
        run_lse<WARPS>(c, rows, classes);
    else
        run_lse<1>(c, rows, classes);
    cross_entropy_tiles f = { cuda_in(c, 0), (const int32_t *)c->in[1].data, (const float *)c->out[1].data,
                              classes, (double *)c->scratch };
    cuda_loss_of_tiles loss = { f.tiles, cuda_in(c, 2), cuda_in(c, 3), cuda_out(c, 0) };
    cuda_in_order(rows, THREADS_ROW_TILE, f);
    cuda_in_order(tiles, tiles, loss);
}

/* ---- the gradient ---- */

enum { COLUMNS = GPU_BLOCK * CUDA_EACH }; /* that a block has of a row */

struct cross_entropy_slopes {
    cuda_span logits, scale, dloss, dlogits;
    const int32_t *labels;
    const float *lse;
    int64_t classes, pieces; /* of a row */
};

__global__ void __launch_bounds__(GPU_BLOCK) cross_entropy_slopes_kernel(cross_entropy_slopes f) {
    int64_t row = blockIdx.x / f.pieces, first = blockIdx.x % f.pieces * COLUMNS;
    int32_t label = f.labels[row];
    float factor = f.scale.get(0) * f.dloss.get(0), lse = f.lse[row];
    bool counted = cross_entropy_is_counted(label, f.classes);
    float some[CUDA_EACH];
    f.logits.get_some(row * f.classes + first + threadIdx.x, GPU_BLOCK, (row + 1) * f.classes, some);
#pragma unroll
    for (int k = 0; k < CUDA_EACH; k++) {
        int64_t j = first + k * GPU_BLOCK + threadIdx.x, at = row * f.classes + j;
        if (j >= f.classes) return;
        float x = some[k];
        float slope =
            j == label ? cross_entropy_slope_chosen(factor, x, lse) : cross_entropy_slope(factor, x, lse);
        f.dlogits.set(at, counted ? slope : 0.0f);
    }
}

static void run_backward(const op_call *c) {
    int64_t rows = rows_of(c), classes = shape_last(&c->in[0].shape),
            pieces = (classes + COLUMNS - 1) / COLUMNS;
    cross_entropy_slopes f = { cuda_in(c, 0),
                               cuda_in(c, 2),
                               cuda_in(c, 4),
                               cuda_out(c, 0),
                               (const int32_t *)c->in[1].data,
                               (const float *)c->in[3].data,
                               classes,
                               pieces };
    if (rows > 0) GPU_LAUNCH_APART((cross_entropy_slopes_kernel), (unsigned)(rows * pieces), GPU_BLOCK, f);
}

CUDA_KERNELS(cross_entropy_cuda, { "cross_entropy_cuda_online", cuda_accepts, scratch, run });
CUDA_KERNELS(cross_entropy_backward_cuda,
             { "cross_entropy_backward_cuda_rows", cuda_accepts, NULL, run_backward });
