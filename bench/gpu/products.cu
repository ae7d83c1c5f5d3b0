/* Products of f32 matrices on a GPU in each tile that the op can take, and in others: the median time of a
 * shape in a tile, operations and bytes of operands a second, and whether all had the same bits. `*` is the
 * way that the op takes: it should be the fastest of the first ones. What that function reckons with
 * (matmul_cuda.h) is to be set by these figures, and a tile that is faster to be taken.
 *
 *   nvcc -O3 -std=c++17 -arch=native -fmad=false -Isrc -Iinclude -DSNUG_CUDA -DSNUG_CUDA_DEVICE \
 *       bench/gpu/products.cu -o products
 *   ./products [ROWS COLUMNS DEPTH FORM]...
 *
 * FORM: ab, abt (b as it lies has a row for each column of the result), atb (a transposed, onto an
 * accumulator). Without arguments: the shapes of gpt2 with 4 x 1024 tokens, and small ones. Takes up to
 * 4 GiB of the GPU. Exit 1: bits differ. 2: no GPU, or it failed. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "ops/matmul/matmul_cuda.h"

extern "C" cudaStream_t device_cuda_stream(void) { return 0; }

static void check(cudaError_t code, const char *call) {
    if (code == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(code));
    exit(2);
}
#define CHECK(CALL) check(CALL, #CALL)

struct shape_of {
    int64_t rows, columns, depth;
    const char *form;
};

static const shape_of usual[] = {
    { 4096, 2304, 768, "abt" }, { 4096, 768, 768, "abt" },   { 4096, 3072, 768, "abt" },
    { 4096, 768, 3072, "abt" }, { 4096, 50257, 768, "abt" }, { 4096, 768, 2304, "ab" },
    { 4096, 3072, 768, "ab" },  { 4096, 768, 50257, "ab" },  { 768, 2304, 4096, "atb" },
    { 768, 768, 4096, "atb" },  { 3072, 768, 4096, "atb" },  { 50257, 768, 4096, "atb" },
    { 1024, 128, 128, "abt" },  { 1024, 512, 128, "abt" },   { 128, 512, 1024, "atb" },
    { 1, 768, 768, "abt" },     { 8, 3072, 768, "abt" },     { 8, 50257, 768, "abt" },
    { 64, 3072, 768, "abt" },   { 1000, 130, 1001, "atb" },
};

static float *a, *b, *accumulator, *y, *first; /* first: the result of the first tile */

__global__ void numbers(float *x, int64_t n, uint32_t random) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        uint32_t h = (uint32_t)i * 2654435761u + random;
        h = (h ^ h >> 15) * 2246822519u, h = (h ^ h >> 13) * 3266489917u;
        x[i] = (float)(int32_t)(h ^ h >> 16) * 0x1p-31f;
    }
}

__global__ void compare(const float *x, const float *z, int64_t n, unsigned *differ) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x)
        if (__float_as_uint(x[i]) != __float_as_uint(z[i])) *differ = 1;
}

static float *room(int64_t n, uint32_t random) {
    float *x = NULL;
    CHECK(cudaMalloc(&x, (size_t)n * sizeof *x));
    numbers<<<1024, 256>>>(x, n, random);
    return x;
}

static double median_ms(const std::function<void()> &f, int times) {
    cudaEvent_t from, to;
    std::vector<float> all((size_t)times);
    CHECK(cudaEventCreate(&from)), CHECK(cudaEventCreate(&to));
    f();
    for (float &ms : all) {
        CHECK(cudaEventRecord(from)), f(), CHECK(cudaEventRecord(to));
        CHECK(cudaEventSynchronize(to)), CHECK(cudaEventElapsedTime(&ms, from, to));
    }
    CHECK(cudaGetLastError());
    CHECK(cudaEventDestroy(from)), CHECK(cudaEventDestroy(to));
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
}

static matmul_end end_of(const shape_of &s) {
    cuda_span before = { strcmp(s.form, "atb") == 0 ? accumulator : NULL, DTYPE_F32 };
    return matmul_end_of({}, {}, before, { y, DTYPE_F32 }, s.columns);
}

static bool differs(int64_t n) {
    unsigned *flag = NULL, differ = 0;
    CHECK(cudaMalloc(&flag, sizeof *flag)), CHECK(cudaMemset(flag, 0, sizeof *flag));
    compare<<<1024, 256>>>(y, first, n, flag);
    CHECK(cudaMemcpy(&differ, flag, sizeof differ, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(flag));
    return differ != 0;
}

struct operands {
    matmul_matrix a, b;
    matmul_extent n;
};

/* In tiles of T. */
template <class T>
struct by_tile {
    static void launch(const operands &o, const matmul_end &e) { matmul_launch<T>(o.a, o.b, e, o.n); }
    static void name(char *text, size_t bytes) {
        snprintf(text, bytes, "%3d x %3d, %d x %d, %2d deep, %d blocks", (int)T::ROWS, (int)T::COLUMNS,
                 (int)T::DOWN, (int)T::ACROSS, (int)T::DEPTHS, (int)T::BLOCKS);
    }
};
/* As few rows. */
struct by_few {
    static void launch(const operands &o, const matmul_end &e) { matmul_few(o.a, o.b, e, o.n); }
    static void name(char *text, size_t bytes) { snprintf(text, bytes, "few rows"); }
};

/* One line. The first way's result is what the others' are compared with. */
template <class W>
static bool run(const shape_of &s, bool is_first, bool chosen) {
    bool ta = strcmp(s.form, "atb") == 0, tb = strcmp(s.form, "abt") == 0;
    matmul_matrix of_a = matmul_matrix_at({ a, DTYPE_F32 }, ta ? s.rows : s.depth, ta);
    matmul_matrix of_b = matmul_matrix_at({ b, DTYPE_F32 }, tb ? s.depth : s.columns, !tb);
    operands o = { of_a, of_b, { s.rows, s.columns, s.depth } };
    char name[64];
    W::name(name, sizeof name);
    int64_t results = s.rows * s.columns;
    double work = 2.0 * (double)results * (double)s.depth;
    CHECK(cudaMemset(y, 255, (size_t)results * sizeof *y));
    double ms = median_ms([&] { W::launch(o, end_of(s)); }, work > 1e11 ? 3 : 20);
    if (is_first) CHECK(cudaMemcpy(first, y, (size_t)results * sizeof *y, cudaMemcpyDeviceToDevice));
    bool wrong = differs(results);
    double bytes = 4.0 * (double)(s.rows * s.depth + s.columns * s.depth + results * (ta ? 2 : 1));
    printf("  %c %-36s %9.4f ms %7.2f TFLOP/s %7.1f GB/s%s\n", chosen ? '*' : ' ', name, ms, work / ms * 1e-9,
           bytes / ms * 1e-6, wrong ? "  OTHER BITS" : "");
    return wrong;
}

static bool run_all(const shape_of &s) {
    matmul_extent n = { s.rows, s.columns, s.depth };
    bool few = s.rows <= MATMUL_FEW;
    int is = few ? -1 : matmul_choose(n, gpu_size_here(), MATMUL_LARGE);
    printf("%lld x %lld, depth %lld, %s\n", (long long)s.rows, (long long)s.columns, (long long)s.depth,
           s.form);
    bool wrong = run<by_tile<matmul_small>>(s, true, is == MATMUL_SMALL);
    wrong |= run<by_tile<matmul_medium>>(s, false, is == MATMUL_MEDIUM);
    wrong |= run<by_tile<matmul_large>>(s, false, is == MATMUL_LARGE);
    if (few) wrong |= run<by_few>(s, false, true);
    wrong |= run<by_tile<matmul_tile<128, 64, 8, 8, 8, 2>>>(s, false, false);
    wrong |= run<by_tile<matmul_tile<64, 128, 8, 8, 8, 3>>>(s, false, false);
    wrong |= run<by_tile<matmul_tile<64, 64, 8, 8, 8, 6>>>(s, false, false);
    wrong |= run<by_tile<matmul_tile<64, 64, 8, 4, 8, 3>>>(s, false, false);
    wrong |= run<by_tile<matmul_tile<64, 64, 8, 4, 16, 4>>>(s, false, false);
    wrong |= run<by_tile<matmul_tile<32, 32, 4, 4, 32, 6>>>(s, false, false);
    return wrong;
}

int main(int argc, char **argv) {
    std::vector<shape_of> shapes(usual, usual + sizeof usual / sizeof *usual);
    if (argc > 1) shapes.clear();
    for (int i = 1; i + 3 < argc; i += 4)
        shapes.push_back({ atoll(argv[i]), atoll(argv[i + 1]), atoll(argv[i + 2]), argv[i + 3] });
    int64_t most[3] = { 1, 1, 1 };
    for (const shape_of &s : shapes) {
        if (s.rows < 1 || s.columns < 1 || s.depth < 1) return fputs("a size is below 1\n", stderr), 2;
        most[0] = std::max(most[0], s.rows * s.depth), most[1] = std::max(most[1], s.columns * s.depth);
        most[2] = std::max(most[2], s.rows * s.columns);
    }
    cudaDeviceProp gpu;
    CHECK(cudaGetDeviceProperties(&gpu, 0));
    printf("%s, %d multiprocessors\n", gpu.name, gpu.multiProcessorCount);
    a = room(most[0], 1), b = room(most[1], 2);
    accumulator = room(most[2], 3), y = room(most[2], 4), first = room(most[2], 5);
    bool wrong = false;
    for (const shape_of &s : shapes) wrong |= run_all(s);
    puts(wrong ? "Some tiles have OTHER BITS." : "All tiles have the same bits.");
    return wrong;
}
