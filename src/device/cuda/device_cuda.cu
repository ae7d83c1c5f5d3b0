/* An NVIDIA GPU as a device. Pools are allocations of the driver, opened before a run and never within one;
 * kernels and copies have a stream each, and events order them. The host waits where a run ends, and nowhere
 * else. It is one GPU, chosen once, of those that CUDA_VISIBLE_DEVICES leaves.
 *
 * What the process takes of its memory beside pools is taken when it is opened, part by part (parts_cuda.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime.h>

extern "C" {
#include "base/units.h"
#include "device/device_gpu.h"
#include "device/library.h"
#include "device/library_attention.h"
}
#include "device/cuda/gpu.h"
#include "device/cuda/parts_cuda.h"

enum { FEW_EVENTS = 64, HOST_PAGE = 4096 };

struct cuda_gpu {
    int number; /* below 0: that of device_local, until it was opened */
    bool found;
    bool joined; /* a library moves between ranks on it */
    char why_not[256];
    cudaDeviceProp is;
    device_gpu gpu;          /* the same in the words of plans */
    device_parts parts;      /* beside pools, when it was opened; */
    uint64_t host_bytes;     /* and what opening it took of the host's memory */
    uint64_t before_capture; /* of its memory this process had so much */
    cudaStream_t lane[LANE_COUNT];
    cudaEvent_t events[LANE_COUNT][FEW_EVENTS]; /* of the last marks, by number */
    uint64_t marks[LANE_COUNT];
    uint64_t pool_bytes;
    cudaEvent_t anchor, *stamp; /* at `begin`; by number since then */
    double **stamped;           /* where their times go */
    uint64_t stamp_room, stamp_count;
    double anchor_seconds;
    cudaError_t failed; /* the first error since opening; a run that has one is worth nothing */
};
static cuda_gpu g;

/* Remembers the first error; the run goes on to its end and is refused there. */
static void heed(cudaError_t e) {
    if (e != cudaSuccess && g.failed == cudaSuccess) g.failed = e;
}

/* ---- which it is ---- */

static int attribute(cudaDeviceAttr a) {
    int value = 0;
    cudaDeviceGetAttribute(&value, a, g.number);
    return value;
}

/* Fused multiply-adds of f32 that a multiprocessor begins in a clock (CUDA C++ Programming Guide, throughput
 * of arithmetic instructions). */
static int lanes_of(int major, int minor) {
    bool wide = (major == 8 && minor > 0) || major >= 9;
    return wide ? 128 : 64;
}

/* A slice of a GPU (MIG) says so in its name, and has multiprocessors and memory of its own. */
static void describe(int count) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    device_gpu *d = &g.gpu;
    snprintf(d->title, sizeof d->title, "%.95s", g.is.name);
    d->capability = (uint32_t)(g.is.major * 10 + g.is.minor);
    d->multiprocessors = g.is.multiProcessorCount, d->threads = g.is.maxThreadsPerMultiProcessor;
    d->memory = g.is.totalGlobalMem;
    d->f32 = 2e3 * lanes_of(g.is.major, g.is.minor) * d->multiprocessors * attribute(cudaDevAttrClockRate);
    d->bandwidth =
        2e3 * attribute(cudaDevAttrMemoryClockRate) * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
    d->cache_bytes = attribute(cudaDevAttrL2CacheSize);
    d->shows = attribute(cudaDevAttrKernelExecTimeout) != 0;
    memcpy(d->uuid, &g.is.uuid, sizeof d->uuid);
    if (visible)
        snprintf(d->chosen, sizeof d->chosen, "cuda:%d of %d that CUDA_VISIBLE_DEVICES=%.40s leaves",
                 g.number, count, visible);
    else if (count > 1)
        snprintf(d->chosen, sizeof d->chosen, "cuda:%d of %d", g.number, count);
}

/* ---- opening it ---- */

static bool refuse(const char *why) {
    snprintf(g.why_not, sizeof g.why_not, "%s", why);
    return false;
}

/* The runtime has one error for a driver that is too old and for none. */
static bool refuse_driver(cudaError_t e) {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (e != cudaErrorInsufficientDriver) return refuse(cudaGetErrorString(e));
    if (!driver) return refuse("there is no driver of NVIDIA's on this machine");
    snprintf(g.why_not, sizeof g.why_not,
             "its driver is too old: it knows CUDA %d.%d, and this snug wants %d.%d", driver / 1000,
             driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return false;
}

static bool refuse_number(int count) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    snprintf(g.why_not, sizeof g.why_not, "there %s %d GPU%s%s%.60s%s", count == 1 ? "is" : "are", count,
             count == 1 ? "" : "s", visible ? " that CUDA_VISIBLE_DEVICES=" : "", visible ? visible : "",
             visible ? " leaves" : "");
    return false;
}

static bool refuse_capability() {
    bool by_older = g.gpu.capability >= DEVICE_GPU_LEAST && g.gpu.capability < 75;
    snprintf(g.why_not, sizeof g.why_not, "%.90s has capability %d.%d, for which this snug has no kernels%s",
             g.is.name, g.is.major, g.is.minor, by_older ? "; build it with nvcc of CUDA 12" : "");
    return false;
}

static cudaError_t open_lanes() {
    cudaError_t e = cudaSuccess;
    for (int l = 0; e == cudaSuccess && l < LANE_COUNT; l++) {
        e = cudaStreamCreateWithFlags(&g.lane[l], cudaStreamNonBlocking);
        for (int i = 0; e == cudaSuccess && i < FEW_EVENTS; i++)
            e = cudaEventCreateWithFlags(&g.events[l][i], cudaEventDisableTiming);
        if (e == cudaSuccess) e = cuda_parts_touch(g.lane[l]);
    }
    return e;
}

static bool open_gpu() {
    int count = 0;
    cuda_parts_begin();
    cudaError_t e = cudaGetDeviceCount(&count);
    if (e == cudaErrorNoDevice) return refuse_number(0);
    if (e != cudaSuccess) return refuse_driver(e);
    if (g.number < 0) g.number = device_local_number() % count;
    if (count <= g.number) return refuse_number(count);
    e = cudaGetDeviceProperties(&g.is, g.number);
    if (e != cudaSuccess) return refuse(cudaGetErrorString(e));
    describe(count);
    if (g.gpu.capability < DEVICE_GPU_LEAST) return refuse_capability();
    e = cuda_parts_open(g.number, open_lanes, &g.parts);
    if (e == cudaErrorNoKernelImageForDevice) return refuse_capability();
    return e == cudaSuccess || refuse(cudaGetErrorString(e));
}

static bool start() {
    static bool tried;
    if (tried) return g.found;
    tried = true;
    uint64_t before = device_resident();
    g.found = open_gpu();
    uint64_t after = device_resident();
    g.host_bytes = after > before ? after - before : 0;
    return g.found;
}

/* ---- memory ---- */

static status open_pool(const device *, device_pool *p, uint64_t bytes) {
    *p = {};
    if (!start()) return status_set(STATUS_NO_FIT, "--device cuda: %s", g.why_not);
    cudaError_t e = cudaMalloc(&p->data, bytes ? bytes : 1);
    if (e == cudaSuccess) e = cudaMemset(p->data, 0, bytes ? bytes : 1);
    if (e == cudaSuccess)
        e = cudaDeviceSynchronize(); /* it is not on a lane, and returns before it is done */
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

/* The driver pins what it allocates, in whole pages, and zeroing it makes it resident. */
static status open_host(const device *, device_pool *p, uint64_t bytes) {
    *p = {};
    uint64_t size = units_align(bytes ? bytes : 1, HOST_PAGE), available = device_available();
    if (size > available)
        return status_set(STATUS_NO_FIT, "the machine has %llu bytes of memory left, and its pool takes %llu",
                          (unsigned long long)available, (unsigned long long)size);
    cudaError_t e = cudaHostAlloc(&p->data, size, cudaHostAllocDefault);
    if (e != cudaSuccess) {
        cudaGetLastError(); /* which is of this call alone */
        *p = {};
        return status_set(STATUS_NO_FIT, DEVICE_NOT_PINNED, (unsigned long long)size, g.is.name,
                          cudaGetErrorString(e));
    }
    memset(p->data, 0, size);
    p->bytes = size;
    return STATUS_OK;
}

static void close_host(const device *, device_pool *p) {
    if (p->data) heed(cudaFreeHost(p->data));
    *p = {};
}

/* On the lane of kernels, which wait for no other stream: what comes from memory that is not pinned may still
 * be on its way when the driver's call returns. */
static void pass(void *to, const void *from, uint64_t bytes) {
    heed(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, g.lane[LANE_COMPUTE]));
    heed(cudaStreamSynchronize(g.lane[LANE_COMPUTE]));
}

static void put(const device *, void *to, const void *from, uint64_t bytes) { pass(to, from, bytes); }

static void get(const device *, void *to, const void *from, uint64_t bytes) { pass(to, from, bytes); }

/* ---- lanes ---- */

static double seconds() {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Where kernels are timed, the clocks of the host and of the device are compared first: nothing is waited for
 * that is not done. */
static void begin(const device *) {
    if (!g.stamp_room) return;
    heed(cudaEventRecord(g.anchor, g.lane[LANE_COMPUTE]));
    heed(cudaEventSynchronize(g.anchor));
    g.anchor_seconds = seconds();
}

static void end(const device *) {
    for (cudaStream_t lane : g.lane) heed(cudaStreamSynchronize(lane));
    heed(cudaGetLastError());
    for (uint64_t i = 0; i < g.stamp_count; i++) {
        float since = 0;
        heed(cudaEventElapsedTime(&since, g.anchor, g.stamp[i]));
        *g.stamped[i] = g.anchor_seconds + 1e-3 * (double)since;
    }
    g.stamp_count = 0;
}

/* The events of kernels that are timed; they stay for the rest of the process. */
static status stamps(const device *, uint64_t most) {
    cudaError_t e = cudaSuccess;
    if (!g.stamp_room) e = cudaEventCreate(&g.anchor);
    cudaEvent_t *events = (cudaEvent_t *)realloc(g.stamp, most * sizeof *events);
    if (events) g.stamp = events;
    double **places = (double **)realloc(g.stamped, most * sizeof *places);
    if (places) g.stamped = places;
    if (!events || !places) return status_set(STATUS_FAILED, "no memory for the times of kernels");
    for (; e == cudaSuccess && g.stamp_room < most; g.stamp_room++)
        e = cudaEventCreate(&g.stamp[g.stamp_room]);
    if (e == cudaSuccess) return STATUS_OK;
    return status_set(STATUS_FAILED, "%s has no events to time kernels by: %s", g.is.name,
                      cudaGetErrorString(e));
}

static void stamp(const device *, double *at) {
    if (g.stamp_count == g.stamp_room) return;
    heed(cudaEventRecord(g.stamp[g.stamp_count], g.lane[LANE_COMPUTE]));
    g.stamped[g.stamp_count++] = at;
}

static void fill(const device *, void *at, int byte, uint64_t bytes) {
    heed(cudaMemsetAsync(at, byte, bytes, g.lane[LANE_COMPUTE]));
}

static void copy(const device *, void *to, const void *from, uint64_t bytes) {
    heed(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, g.lane[LANE_COPY]));
}

static void carry(const device *, void *to, const void *from, uint64_t bytes) {
    heed(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, g.lane[LANE_COMPUTE]));
}

static void call(const device *, void (*function)(void *), void *context) {
    heed(cudaLaunchHostFunc(g.lane[LANE_COPY], function, context));
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

/* ---- captured programs ---- */

/* The error is of this call alone. */
static status no_capture(cudaError_t e) {
    cudaGetLastError();
    return status_set(STATUS_FAILED, "%s captures no program: %s; --eager yes starts kernels one by one",
                      g.is.name, cudaGetErrorString(e));
}

/* A launch that the driver can't capture ends the capture, and EndCapture says so. */
static status capture(const device *) {
    g.before_capture = cuda_parts_own();
    cudaError_t e = cudaStreamBeginCapture(g.lane[LANE_COMPUTE], cudaStreamCaptureModeThreadLocal);
    return e == cudaSuccess ? STATUS_OK : no_capture(e);
}

/* What it takes of the device's memory is there before it returns. */
static status captured(const device *, void **sequence) {
    cudaGraph_t kernels = NULL;
    cudaGraphExec_t ready = NULL;
    cudaError_t e = cudaStreamEndCapture(g.lane[LANE_COMPUTE], &kernels);
    if (e == cudaSuccess) e = cudaGraphInstantiate(&ready, kernels, 0);
    if (kernels) cudaGraphDestroy(kernels);
    if (e == cudaSuccess) e = cudaGraphUpload(ready, g.lane[LANE_COMPUTE]);
    if (e == cudaSuccess) e = cudaStreamSynchronize(g.lane[LANE_COMPUTE]);
    uint64_t after = cuda_parts_own();
    if (after > g.before_capture) g.parts.captured += after - g.before_capture;
    *sequence = ready;
    return e == cudaSuccess ? STATUS_OK : no_capture(e);
}

static void replay(const device *, void *sequence) {
    heed(cudaGraphLaunch((cudaGraphExec_t)sequence, g.lane[LANE_COMPUTE]));
}

/* What the driver keeps of its memory for the next one stays counted. */
static void release(const device *, void *sequence) {
    uint64_t before = cuda_parts_own();
    heed(cudaGraphExecDestroy((cudaGraphExec_t)sequence));
    uint64_t after = cuda_parts_own(), back = before > after ? before - after : 0;
    g.parts.captured -= back < g.parts.captured ? back : g.parts.captured;
}

static uint64_t capture_bytes(const device *, uint64_t calls) { return device_gpu_capture_bytes(calls); }

/* ---- between ranks ---- */

static void *stream(const device *) {
    g.joined = true;
    return g.lane[LANE_RANKS];
}

static bool happened(const device *, uint64_t event) {
    cudaError_t e = cudaEventQuery(g.events[LANE_RANKS][event % FEW_EVENTS]);
    if (e == cudaErrorNotReady) return cudaGetLastError(), false;
    heed(e);
    return true;
}

/* ---- a library's products, and its attention ---- */

static int libraries_open() { return (library_name()[0] != 0) + (library_attention_name()[0] != 0); }

/* Its handle counts as code, and so does what it takes of the host's memory as the driver's. */
static status library(const device *, device_library which) {
    bool attends = which == DEVICE_LIBRARY_ATTENTION;
    if ((attends ? library_attention_name() : library_name())[0]) return STATUS_OK;
    uint64_t before = cuda_parts_own(), host_before = device_resident();
    TRY((attends ? library_attention_open : library_open)(g.lane[LANE_COMPUTE], false));
    cudaDeviceSynchronize();
    uint64_t after = cuda_parts_own(), host_after = device_resident();
    if (after > before) g.parts.code += after - before;
    if (host_after > host_before) g.host_bytes += host_after - host_before;
    return STATUS_OK;
}

/* ---- what it says of itself ---- */

static device_rates rates(const device *, int threads) {
    return start() ? device_gpu_rates(&g.gpu, threads) : device_rates_default(threads);
}

static uint64_t available(const device *) {
    size_t free = 0, total = 0;
    if (start()) cudaMemGetInfo(&free, &total);
    return free;
}

static device_parts beside(const device *) {
    return start() ? cuda_parts_now(&g.parts, g.pool_bytes, g.joined) : device_parts{};
}

static device_parts reserve(const device *) {
    device_parts r = device_gpu_reserve_seen(&g.parts);
    r.code += (uint64_t)libraries_open() * device_gpu_library_later();
    return r;
}

/* Some of it comes with the first kernels and copies. */
static uint64_t driver(const device *) {
    const uint64_t later = 128u << 20;
    return g.host_bytes + later > device_gpu_driver() ? g.host_bytes + later : device_gpu_driver();
}

static status failed(const device *) {
    if (g.failed == cudaSuccess)
        return library_failed() == STATUS_OK ? library_attention_failed() : library_failed();
    return status_set(STATUS_FAILED, "%s failed in the run: %s", g.is.name, cudaGetErrorString(g.failed));
}

static device cuda() {
    device d = {};
    d.name = "cuda", d.kind = DEVICE_CUDA, d.apart = true;
    d.capability = start() ? g.gpu.capability : 0, d.gpu = &g.gpu;
    d.rates = rates, d.available = available, d.reserve = reserve, d.beside = beside, d.driver = driver;
    d.open = open_pool, d.close = close_pool, d.put = put, d.get = get;
    d.open_host = open_host, d.close_host = close_host;
    d.begin = begin, d.end = end, d.fill = fill, d.copy = copy, d.mark = mark, d.after = after;
    d.failed = failed, d.carry = carry, d.call = call, d.stamps = stamps, d.stamp = stamp;
    d.stream = stream, d.happened = happened;
    d.capture = capture, d.captured = captured, d.replay = replay, d.release = release;
    d.capture_bytes = capture_bytes, d.library = library;
    return d;
}

cudaStream_t device_cuda_stream() { return g.lane[LANE_COMPUTE]; }

status device_cuda_find(int number, const device **found) {
    static bool chosen;
    if (!chosen) g.number = number, chosen = true;
    static const device d = cuda();
    *found = &d;
    if (!start())
        return status_set(STATUS_INVALID, "--device cuda:%d: %s", number < 0 ? 0 : number, g.why_not);
    if (number >= 0 && g.number != number)
        return status_set(STATUS_INVALID, "--device cuda:%d: this process uses cuda:%d", number, g.number);
    return STATUS_OK;
}
