/* An NVIDIA GPU as a device. Pools are allocations of the driver, opened before a run and never within one;
 * kernels and copies have a stream each, and events order them. The host waits where a run ends, and nowhere
 * else. It is one GPU, chosen once, of those that CUDA_VISIBLE_DEVICES leaves.
 *
 * What the process takes of its memory beside pools (the context, the code of kernels) is all that is taken
 * and is no pool: of a GPU that others use too it is an upper bound. */
#include <stdio.h>
#include <string.h>

#include <cuda_runtime.h>

extern "C" {
#include "device/device.h"
}
#include "device/cuda/gpu.h"

enum { FEW_EVENTS = 64 };

struct cuda_gpu {
    int number;
    bool found;
    char why_not[192];
    cudaDeviceProp is;
    cudaStream_t lane[LANE_COUNT];
    cudaEvent_t events[LANE_COUNT][FEW_EVENTS]; /* of the last marks, by number */
    uint64_t marks[LANE_COUNT];
    uint64_t pool_bytes;
    cudaError_t failed; /* the first error since opening; a run that has one is worth nothing */
};
static cuda_gpu g;

/* Remembers the first error; the run goes on to its end and is refused there. */
static void heed(cudaError_t e) {
    if (e != cudaSuccess && g.failed == cudaSuccess) g.failed = e;
}

static bool start() {
    static bool tried;
    if (tried) return g.found;
    tried = true;
    int count = 0;
    cudaError_t e = cudaGetDeviceCount(&count);
    if (e == cudaSuccess && count <= g.number)
        snprintf(g.why_not, sizeof g.why_not, count ? "there are %d GPUs" : "there is no GPU", count);
    if (e == cudaSuccess && count <= g.number) return false;
    size_t free = 0, total = 0;
    if (e == cudaSuccess) e = cudaGetDeviceProperties(&g.is, g.number);
    if (e == cudaSuccess) e = cudaSetDevice(g.number);
    for (int l = 0; e == cudaSuccess && l < LANE_COUNT; l++) {
        e = cudaStreamCreateWithFlags(&g.lane[l], cudaStreamNonBlocking);
        for (int i = 0; e == cudaSuccess && i < FEW_EVENTS; i++)
            e = cudaEventCreateWithFlags(&g.events[l][i], cudaEventDisableTiming);
    }
    if (e == cudaSuccess) e = cudaMemGetInfo(&free, &total);
    if (e != cudaSuccess) snprintf(g.why_not, sizeof g.why_not, "%s", cudaGetErrorString(e));
    return g.found = e == cudaSuccess;
}

/* ---- memory ---- */

static status open_pool(const device *, device_pool *p, uint64_t bytes) {
    *p = {};
    if (!start()) return status_set(STATUS_NO_FIT, "--device cuda: %s", g.why_not);
    cudaError_t e = cudaMalloc(&p->data, bytes ? bytes : 1);
    if (e == cudaSuccess) e = cudaMemset(p->data, 0, bytes ? bytes : 1);
    if (e != cudaSuccess) {
        size_t free = 0, total = 0;
        cudaGetLastError();
        cudaMemGetInfo(&free, &total);
        return status_set(STATUS_NO_FIT, "%s has %zu bytes of memory left, and the pool takes %llu: %s",
                          g.is.name, free, (unsigned long long)bytes, cudaGetErrorString(e));
    }
    p->bytes = bytes;
    g.pool_bytes += bytes;
    return STATUS_OK;
}

static void close_pool(const device *, device_pool *p) {
    if (p->data) heed(cudaFree(p->data)), g.pool_bytes -= p->bytes;
    *p = {};
}

static void put(const device *, void *to, const void *from, uint64_t bytes) {
    heed(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
}

static void get(const device *, void *to, const void *from, uint64_t bytes) {
    heed(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

/* ---- lanes ---- */

static void begin(const device *) {}

static void end(const device *) {
    for (cudaStream_t lane : g.lane) heed(cudaStreamSynchronize(lane));
    heed(cudaGetLastError());
}

static void fill(const device *, void *at, int byte, uint64_t bytes) {
    heed(cudaMemsetAsync(at, byte, bytes, g.lane[LANE_COMPUTE]));
}

static void copy(const device *, void *to, const void *from, uint64_t bytes) {
    heed(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, g.lane[LANE_COPY]));
}

static uint64_t mark(const device *, device_lane l) {
    uint64_t number = g.marks[l]++;
    heed(cudaEventRecord(g.events[l][number % FEW_EVENTS], g.lane[l]));
    return number;
}

/* An event that was recorded anew since says more than is needed, never less. */
static void after(const device *, device_lane l, device_lane other, uint64_t event) {
    heed(cudaStreamWaitEvent(g.lane[l], g.events[other][event % FEW_EVENTS], 0));
}

/* ---- what it says of itself ---- */

static int attribute(cudaDeviceAttr a) {
    int value = 0;
    cudaDeviceGetAttribute(&value, a, g.number);
    return value;
}

/* Fused multiply-adds of f32 that a multiprocessor begins in a clock (CUDA C++ Programming Guide, throughput
 * of arithmetic instructions). */
static int lanes_of(int major, int minor) {
    bool wide = (major == 8 && minor > 0) || major >= 9 || major == 10 || major == 12;
    return wide ? 128 : 64;
}

static device_rates rates(const device *, int threads) {
    device_rates r = device_rates_default(threads);
    if (!start()) return r;
    double clock = 1e3 * attribute(cudaDevAttrClockRate);
    double peak = 2.0 * lanes_of(g.is.major, g.is.minor) * g.is.multiProcessorCount * clock;
    double bandwidth =
        2e3 * attribute(cudaDevAttrMemoryClockRate) * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
    for (double &f : r.flops) f = 0.3 * peak;
    r.flops[WORK_PRODUCTS] = r.flops[WORK_PRODUCTS_HALF] = 0.5 * peak;
    r.draws = 0.05 * peak, r.cached = 3 * bandwidth;
    r.moved = r.fetched = r.bandwidth = 0.85 * bandwidth;
    r.cache_bytes = attribute(cudaDevAttrL2CacheSize), r.call_seconds = 3e-6, r.copied = 2e10;
    snprintf(r.source, sizeof r.source, "%s: its clocks and units", g.is.name);
    return r;
}

static uint64_t available(const device *) {
    size_t free = 0, total = 0;
    if (start()) cudaMemGetInfo(&free, &total);
    return free;
}

static uint64_t beside(const device *) {
    size_t free = 0, total = 0;
    if (start()) cudaMemGetInfo(&free, &total);
    return total - free > g.pool_bytes ? total - free - g.pool_bytes : 0;
}

/* Some code is loaded with the first kernels that are called. */
static uint64_t reserve(const device *d) { return beside(d) + (64u << 20); }

static status failed(const device *) {
    if (g.failed == cudaSuccess) return STATUS_OK;
    return status_set(STATUS_FAILED, "%s failed in the run: %s", g.is.name, cudaGetErrorString(g.failed));
}

static device cuda() {
    device d = {};
    d.name = "cuda", d.kind = DEVICE_CUDA, d.apart = true;
    d.capability = start() ? (uint32_t)(g.is.major * 10 + g.is.minor) : 0;
    d.rates = rates, d.available = available, d.reserve = reserve, d.beside = beside;
    d.open = open_pool, d.close = close_pool, d.put = put, d.get = get;
    d.begin = begin, d.end = end, d.fill = fill, d.copy = copy, d.mark = mark, d.after = after;
    d.failed = failed;
    return d;
}

cudaStream_t device_cuda_stream() { return g.lane[LANE_COMPUTE]; }

status device_cuda_find(int number, const device **found) {
    static bool chosen;
    if (!chosen) g.number = number, chosen = true;
    static const device d = cuda();
    *found = &d;
    if (!start()) return status_set(STATUS_INVALID, "--device cuda:%d: %s", number, g.why_not);
    if (g.number != number)
        return status_set(STATUS_INVALID, "--device cuda:%d: this process uses cuda:%d", number, g.number);
    return STATUS_OK;
}
