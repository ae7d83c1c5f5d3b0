#include "mistaken_kernels.h"

#include "device/cuda/mma_group.h"

enum { N = MISTAKEN_NUMBERS };

/* y is x backwards, through the block's shared memory. */
__global__ void turn_block(const float *x, float *y, bool mended) {
    GPU_SHARED(float, all);
    int i = (int)threadIdx.x;
    all[i] = x[i];
    if (mended) __syncthreads();
    y[i] = all[N - 1 - i];
}
static void run_block(bool mended, float *x, float *y, float *) {
    GPU_LAUNCH(turn_block, 1, N, N * sizeof(float), x, y, mended);
}

/* The same within warps. A shuffle is no order of memory. */
template <bool SHUFFLES>
__global__ void turn_warp(const float *x, float *y, bool mended) {
    GPU_SHARED(float, all);
    int i = (int)threadIdx.x;
    all[i] = x[i];
    float nothing = SHUFFLES ? __shfl_xor_sync(0xffffffffu, 0.0f, 1) : 0;
    if (mended) __syncwarp();
    y[i] = all[i ^ 31] + nothing;
}
template <bool SHUFFLES>
static void run_warp(bool mended, float *x, float *y, float *) {
    GPU_LAUNCH((turn_warp<SHUFFLES>), 1, N, N * sizeof(float), x, y, mended);
}

/* Halves of a warp meet on their own, and are not in order with each other. */
__global__ void turn_half(const float *x, float *y, bool mended) {
    GPU_SHARED(float, all);
    int i = (int)threadIdx.x;
    all[i] = x[i];
    __syncwarp(i & 16 ? 0xffff0000u : 0x0000ffffu);
    y[i] = all[i ^ (mended ? 15 : 31)];
}
static void run_half(bool mended, float *x, float *y, float *) {
    GPU_LAUNCH(turn_half, 1, N, N * sizeof(float), x, y, mended);
}

/* A row less its first number, in place. */
__global__ void less_first(float *x, bool mended) {
    float first = x[threadIdx.x / 32 * 32];
    if (mended) __syncwarp();
    x[threadIdx.x] -= first;
}
static void run_place(bool mended, float *x, float *, float *) { GPU_LAUNCH(less_first, 1, N, 0, x, mended); }

/* A group multiplies what another one writes, the same numbers as before. */
__global__ void group_beside(float *y, bool mended) {
    enum { A = 64 * GPU_GROUP_ROW, B = 8 * GPU_GROUP_ROW /* bytes */ };
    GPU_SHARED(unsigned char, all);
    unsigned char *a = gpu_group_aligned(all);
    const int i = (int)threadIdx.x;
    float sum[1][4] = { { 0, 0, 0, 0 } };
    for (int k = i; k < (A + B) / 16; k += N) gpu_set16(a + 16 * k, { 0, 0, 0, 0 });
    gpu_group_show();
    __syncthreads();
    if (i < GPU_GROUP) {
        gpu_group_fence();
        gpu_group_mma<false, false>(gpu_bf16(), sum, gpu_group_operand(a, 16, 8 * GPU_GROUP_ROW),
                                    gpu_group_operand(a + A, 16, 8 * GPU_GROUP_ROW), 0);
        gpu_group_commit();
        gpu_group_wait<0>(sum);
    }
    if (mended) __syncthreads();
    if (i == N - 1) *(float *)a = 0;
    y[i] = sum[0][0];
}
static void run_group(bool mended, float *, float *y, float *) {
    GPU_LAUNCH(group_beside, 1, N, 72 * GPU_GROUP_ROW + GPU_GROUP_ALIGNED, y, mended);
}

/* Shared memory is used again before all have read it. */
__global__ void twice(const float *x, float *y, bool mended) {
    GPU_SHARED(float, all);
    int i = (int)threadIdx.x;
    float sum = 0;
    for (int round = 0; round < 2; round++) {
        all[i] = x[i] + (float)round;
        __syncthreads();
        sum += all[N - 1 - i];
        if (mended) __syncthreads();
    }
    y[i] = sum;
}
static void run_twice(bool mended, float *x, float *y, float *) {
    GPU_LAUNCH(twice, 1, N, N * sizeof(float), x, y, mended);
}

/* Blocks at one place. */
__global__ void last_block(int *x, bool mended) {
    if (mended)
        atomicMax(x, (int)blockIdx.x);
    else
        *x = (int)blockIdx.x;
}
static void run_blocks(bool mended, float *x, float *, float *) {
    GPU_LAUNCH_APART(last_block, N, 1, (int *)x, mended);
}

/* Numbers of 16 bits, where one thread writes its neighbour's. */
__global__ void halves(uint16_t *y, bool mended) {
    y[threadIdx.x] = 1;
    if (threadIdx.x == 1 && !mended) y[0] = 2;
}
static void run_halves(bool mended, float *, float *y, float *) {
    GPU_LAUNCH_APART(halves, 1, N, (uint16_t *)y, mended);
}

__global__ void next(const float *x, float *y, bool mended) {
    int i = (int)threadIdx.x;
    y[i] = i + 1 < N || !mended ? x[i + 1] : 0;
}
static void run_beyond(bool mended, float *x, float *y, float *) {
    GPU_LAUNCH_APART(next, 1, N, x, y, mended);
}

__global__ void plain(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void plain_one(const float *x, float *y) { *y = *x; }
static void run_host(bool mended, float *x, float *y, float *host) {
    GPU_LAUNCH_APART(plain, 1, N, mended ? x : host, y);
}

/* A constant is compiled into the code; what changes is the host's, and so is what run() has on its stack. */
static float changes = 1;
static void run_global(bool mended, float *x, float *y, float *) {
    changes += 1;
    GPU_LAUNCH_APART(plain_one, 1, 1, mended ? x : &changes, y);
}
static void run_stack(bool mended, float *x, float *y, float *) {
    float own = 1;
    GPU_LAUNCH_APART(plain_one, 1, 1, mended ? x : &own, y);
}

__global__ void shared_beyond(const float *x, float *y, bool mended) {
    GPU_SHARED(float, all);
    int i = (int)threadIdx.x;
    all[mended ? i : i + 1] = x[i];
    y[i] = 0;
}
static void run_shared(bool mended, float *x, float *y, float *) {
    GPU_LAUNCH(shared_beyond, 1, N, N * sizeof(float), x, y, mended);
}

/* y holds nothing yet. */
__global__ void unwritten(float *y, bool mended) {
    int i = (int)threadIdx.x;
    if (mended || i < N - 1) y[i] = 1;
    y[i] += 1;
}
static void run_unwritten(bool mended, float *, float *y, float *) {
    GPU_LAUNCH_APART(unwritten, 1, N, y, mended);
}

extern "C" {
const mistaken_kernel mistaken_kernels[] = {
    { "no barrier", "a race", run_block },
    { "no barrier of a warp", "a race", run_warp<false> },
    { "a shuffle for a barrier", "a race", run_warp<true> },
    { "the other half of a warp", "a race", run_half },
    { "in place", "a race", run_place },
    { "shared memory again", "a race", run_twice },
    { "what a product of another group reads", "a race", run_group },
    { "blocks at one place", "of another block", run_blocks },
    { "a neighbour of 16 bits", "a race", run_halves },
    { "beyond an operand", "reads what is not its memory", run_beyond },
    { "the host's memory", "reads what is not its memory", run_host },
    { "the host's variable", "reads what is not its memory", run_global },
    { "the host's stack", "reads what is not its memory", run_stack },
    { "beyond shared memory", "writes what is not its memory", run_shared },
    { "nobody wrote", "reads what nobody has written", run_unwritten },
    { 0, 0, 0 },
};
}
