#include "device/cuda/parts_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- libraries that are opened when the program runs ---- */

/* Of libcuda, in its own words; 0 is success. */
static struct {
    int (*retain)(void **context, int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*memory)(size_t *free, size_t *total);
    int (*uuid)(unsigned char uuid[16], int device);
} driver;

/* Of libnvidia-ml; 0 is success. */
typedef struct {
    unsigned long long total, free, used;
} counted_memory;
typedef struct {
    unsigned process;
    unsigned long long bytes;
    unsigned instance, compute;
} counted_process;
static struct {
    void *device; /* NULL: it is not there, or does not know the GPU */
    int (*memory)(void *device, counted_memory *m);
    int (*processes)(void *device, unsigned *count, counted_process *p);
} counters;

template <class F>
static bool find(void *library, const char *name, F *f) {
    *f = (F)dlsym(library, name);
    return *f != NULL;
}

static bool open_driver() {
    void *l = dlopen("libcuda.so.1", RTLD_NOW);
    return l && find(l, "cuDevicePrimaryCtxRetain", &driver.retain) &&
           find(l, "cuCtxPushCurrent_v2", &driver.push) && find(l, "cuCtxPopCurrent_v2", &driver.pop) &&
           find(l, "cuMemGetInfo_v2", &driver.memory) && find(l, "cuDeviceGetUuid_v2", &driver.uuid);
}

/* "GPU-", or of a slice "MIG-", and the number as it is written. */
static void write_uuid(const char *kind, const unsigned char u[16], char text[64]) {
    int n = snprintf(text, 64, "%s", kind);
    for (int i = 0; i < 16; i++)
        n += snprintf(text + n, 64 - (size_t)n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                      u[i]);
}

static void open_counters(int number) {
    int (*begin)(void), (*by_uuid)(const char *uuid, void **device);
    unsigned char u[16];
    void *l = dlopen("libnvidia-ml.so.1", RTLD_NOW), *device = NULL;
    if (!l || !find(l, "nvmlInit_v2", &begin) || !find(l, "nvmlDeviceGetHandleByUUID", &by_uuid)) return;
    if (!find(l, "nvmlDeviceGetMemoryInfo", &counters.memory)) return;
    if (!find(l, "nvmlDeviceGetComputeRunningProcesses_v3", &counters.processes)) return;
    if (begin() != 0 || driver.uuid(u, number) != 0) return;
    for (const char *kind : { "GPU-", "MIG-" }) {
        char text[64];
        write_uuid(kind, u, text);
        if (!device && by_uuid(text, &device) != 0) device = NULL;
    }
    counters.device = device;
}

/* ---- what is taken ---- */

static uint64_t more(uint64_t after, uint64_t before) { return after > before ? after - before : 0; }

/* Of the whole GPU, by its counters; 0: not known. */
static uint64_t counted_used() {
    counted_memory m = {};
    return counters.device && counters.memory(counters.device, &m) == 0 ? m.used : 0;
}

/* By this process, as the counters have it; 0: not known. */
static uint64_t counted_own() {
    enum { MOST = 256 };
    static counted_process all[MOST];
    unsigned count = MOST;
    if (!counters.device || counters.processes(counters.device, &count, all) != 0) return 0;
    for (unsigned i = 0; i < count && i < MOST; i++)
        if (all[i].process == (unsigned)getpid() && all[i].bytes != ~0ull) return all[i].bytes;
    return 0;
}

static uint64_t used_now() {
    size_t free = 0, total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? total - free : 0;
}

static uint64_t others; /* what was taken of the GPU, and not by this process, when it was opened */

void cuda_parts_begin(void) { setenv("CUDA_MODULE_LOADING", "EAGER", 1); }

static __global__ void touch_kernel() {}

cudaError_t cuda_parts_touch(cudaStream_t lane) {
    touch_kernel<<<1, 1, 0, lane>>>();
    cudaError_t e = cudaGetLastError();
    return e == cudaSuccess ? cudaStreamSynchronize(lane) : e;
}

/* The context alone, before the runtime puts code into it; what is taken of the GPU then. The context is the
 * primary one, which the runtime uses as well, and stays. */
static uint64_t open_context(int number, uint64_t *context) {
    void *c = NULL;
    size_t free = 0, total = 0;
    if (!open_driver()) return 0;
    open_counters(number);
    uint64_t before = counted_used();
    if (driver.retain(&c, number) != 0 || driver.push(c) != 0) return 0;
    if (driver.memory(&free, &total) != 0) free = total = 0;
    driver.pop(&c);
    *context = counters.device ? more(counted_used(), before) : total - free;
    return total - free;
}

cudaError_t cuda_parts_open(int number, cudaError_t (*handles)(void), device_parts *parts) {
    *parts = {};
    uint64_t used = open_context(number, &parts->context);
    cudaError_t e = cudaSetDevice(number);
    if (e == cudaSuccess) e = cudaFree(NULL); /* brings the code of all kernels */
    if (e == cudaSuccess) e = cuda_parts_touch(0);
    if (e != cudaSuccess) return e;
    uint64_t loaded = used_now();
    parts->code = used ? more(loaded, used) : 0;
    if (!used) parts->context = loaded; /* the two could not be told apart */
    e = handles();
    uint64_t all = used_now();
    parts->handles = more(all, loaded);
    others = more(all, device_parts_sum(parts));
    return e;
}

uint64_t cuda_parts_own(void) {
    uint64_t own = counted_own();
    return own ? own : more(used_now(), others);
}

device_parts cuda_parts_now(const device_parts *parts, uint64_t pool_bytes, bool joined) {
    device_parts now = *parts;
    uint64_t own = cuda_parts_own();
    (joined ? now.ranks : now.code) += more(more(own, pool_bytes), device_parts_sum(parts));
    return now;
}
