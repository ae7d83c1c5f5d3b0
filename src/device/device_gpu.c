#include "device/device_gpu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

void device_gpu_context(int64_t multiprocessors, int64_t threads, uint64_t context[3]) {
    enum { DRIVER_MIB = 220, BYTES_PER_THREAD = 1200 };
    uint64_t likely = 450u << 20;
    if (multiprocessors && threads)
        likely = ((uint64_t)DRIVER_MIB << 20) +
                 (uint64_t)BYTES_PER_THREAD * (uint64_t)multiprocessors * (uint64_t)threads;
    context[0] = likely / 100 * 65, context[1] = likely, context[2] = likely / 100 * 150;
}

/* ---- rates ---- */

/* Of the second cache, where nobody said it: the least that a multiprocessor has of it in its generation. */
static double cache_of(const device_gpu *g) {
    static const struct {
        uint32_t capability; /* and later */
        double kib;
    } least[] = { { 120, 578 }, { 100, 870 }, { 90, 388 }, { 89, 576 }, { 86, 73 }, { 80, 379 }, { 0, 64 } };
    size_t i = 0;
    while (g->capability < least[i].capability) i++;
    return g->cache_bytes > 0 ? g->cache_bytes
                              : 1024 * least[i].kib * (g->multiprocessors ? g->multiprocessors : 16);
}

uint32_t device_gpu_shared(uint32_t capability) {
    static const struct {
        uint32_t capability; /* and later */
        uint32_t kib;
    } of[] = { { 120, 100 }, { 90, 228 }, { 89, 100 }, { 87, 164 },
               { 86, 100 },  { 80, 164 }, { 75, 64 },  { 0, 96 } };
    size_t i = 0;
    while (capability < of[i].capability) i++;
    return of[i].kib << 10;
}

/* Of tensor cores, where nobody said it: the least that a generation has of them, beside f32. */
static double tensor_cores_of(const device_gpu *g) {
    static const struct {
        uint32_t capability; /* and later */
        double times;
    } least[] = { { 120, 2 }, { 100, 28 }, { 90, 14 }, { 86, 2 }, { 80, 16 }, { 0, 0 } };
    size_t i = 0;
    while (g->capability < least[i].capability) i++;
    return g->f16 > 0 ? g->f16 : least[i].times * g->f32;
}

/* Which part of a peak our kernels reach, as an H200 was seen to take for gpt2 (bench/results/gpu_step.md).
 * Of tensor cores' and of a library's it is a guess: they have not been timed. WORK_PRODUCTS_HALF and
 * WORK_ATTENTION_HALF are for their kernels alone (lower_cost). */
enum { CAPTURE_BYTES = 16 << 10 /* of a call: not measured */ };
/* What starting a kernel of a graph takes of what starting one by itself takes: 0.5 of 0.9 microseconds on a
 * V100 (A. Gray, "Getting Started with CUDA Graphs", NVIDIA 2019). */
static const double CAPTURED_START = 0.55;

uint64_t device_gpu_capture_bytes(uint64_t calls) { return calls * CAPTURE_BYTES; }

device_rates device_gpu_rates(const device_gpu *g, int threads) {
    const char *title =
        strncmp(g->title, "A ", 2) == 0 ? g->title + 2 : g->title; /* "the slice 1g.10gb of …" */
    const double call = 4e-6, link = 2e10;                         /* where nobody said them */
    device_rates r = device_rates_default(threads);
    for (int k = 0; k < WORK_KINDS; k++) r.flops[k] = 0.3 * g->f32;
    r.flops[WORK_PRODUCTS] = 0.15 * g->f32;
    r.flops[WORK_PRODUCTS_HALF] = fmax(0.25 * tensor_cores_of(g), r.flops[WORK_PRODUCTS]);
    r.by_library = 0.6 * g->f32;
    r.by_library_half = fmax(0.5 * tensor_cores_of(g), r.by_library);
    r.by_library_attention = fmax(0.3 * tensor_cores_of(g), r.by_library);
    r.flops[WORK_ATTENTION] = 0.12 * g->f32;
    r.flops[WORK_ATTENTION_HALF] = fmax(0.15 * tensor_cores_of(g), r.flops[WORK_ATTENTION]);
    r.draws = 0.05 * g->f32;
    r.cached = 3 * g->bandwidth;
    r.moved = r.fetched = r.bandwidth = 0.85 * g->bandwidth;
    r.cache_bytes = cache_of(g);
    r.call_seconds = g->call_seconds > 0 ? g->call_seconds : call;
    r.captured_seconds = device_capture_allowed(g->capability) ? CAPTURED_START * r.call_seconds : 0;
    r.copied = g->link > 0 ? 0.8 * g->link : link;
    if (g->name[0])
        snprintf(r.source, sizeof r.source, "%s: published figures, nothing measured", title);
    else
        snprintf(r.source, sizeof r.source, "%s: its clocks and units, nothing measured", title);
    return r;
}

/* ---- beside the pools ---- */

/* Kernels of one capability are 14 MB in 62 modules (9.0, nvcc 13.0), of which each may begin a page of 2
 * MiB; streams and events are small, and come in such pages too. */
device_parts device_gpu_reserve(const device_gpu *g) {
    return (device_parts){ .context = g->context[2], .code = 128u << 20, .handles = 8u << 20 };
}

/* On an H200 nothing came later, and handles are streams and events, those that time kernels too. */
device_parts device_gpu_reserve_seen(const device_parts *seen) {
    const uint64_t mib = 1 << 20;
    return (device_parts){ .context = units_align(seen->context + 8 * mib, 32 * mib),
                           .code = units_align(seen->code + 8 * mib, 16 * mib),
                           .handles = units_align(seen->handles + 4 * mib, 8 * mib) };
}

uint64_t device_gpu_library_later(void) { return 64u << 20; }

uint64_t device_gpu_driver(void) { return 512u << 20; }

const char *device_gpu_text(const device_gpu *g, char text[DEVICE_GPU_TEXT_BYTES]) {
    char bytes[UNITS_TEXT_BYTES];
    snprintf(text, DEVICE_GPU_TEXT_BYTES, "capability %u.%u, %d multiprocessors, %s", g->capability / 10,
             g->capability % 10, g->multiprocessors, units_bytes_text(g->memory, bytes));
    return text;
}

/* ---- elsewhere ---- */

static device_rates rates(const device *d, int threads) { return device_gpu_rates(d->gpu, threads); }

static uint64_t available(const device *d) { return d->gpu->memory; }

static device_parts reserve(const device *d) { return device_gpu_reserve(d->gpu); }

static device_parts beside(const device *d) {
    (void)d;
    return (device_parts){ 0 };
}

static uint64_t driver(const device *d) {
    (void)d;
    return device_gpu_driver();
}

static uint64_t capture_bytes(const device *d, uint64_t calls) {
    (void)d;
    return device_gpu_capture_bytes(calls);
}

/* Nothing is run on it, so nothing is captured; that it would be is what a plan asks. */
static status capture(const device *d) {
    return status_set(STATUS_INVALID, "--gpu %s: nothing is run on it from here", d->gpu->name);
}

static status refuse(const device *d, device_pool *p, uint64_t bytes) {
    (void)bytes;
    *p = (device_pool){ 0 };
    return status_set(STATUS_INVALID, "--gpu %s: plans are made for it, and nothing is run on it from here",
                      d->gpu->name);
}

static void close_none(const device *d, device_pool *p) {
    (void)d;
    *p = (device_pool){ 0 };
}

static status check(const device_gpu *g) {
#ifndef SNUG_CUDA
    return status_set(STATUS_INVALID,
                      "--gpu %s: this snug was built without a C++ compiler, and knows no kernels for GPUs; "
                      "'snug estimate --gpu %s' knows the memory",
                      g->name, g->name);
#endif
    if (!g->capability)
        return status_set(STATUS_INVALID,
                          "--gpu %s: snug's kernels are for NVIDIA's GPUs of capability %d.%d and later; "
                          "'snug estimate --gpu %s' has the rules of frameworks",
                          g->name, DEVICE_GPU_LEAST / 10, DEVICE_GPU_LEAST % 10, g->name);
    if (g->capability >= DEVICE_GPU_LEAST) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--gpu %s: there are no kernels for capability %u.%u; they begin at %d.%d", g->name,
                      g->capability / 10, g->capability % 10, DEVICE_GPU_LEAST / 10, DEVICE_GPU_LEAST % 10);
}

status device_elsewhere_plan(const device_gpu *g, device_elsewhere *out) {
    TRY(check(g));
    out->gpu = *g;
    out->device = (device){ .name = "cuda",
                            .kind = DEVICE_CUDA,
                            .capability = g->capability,
                            .apart = true,
                            .gpu = &out->gpu,
                            .rates = rates,
                            .available = available,
                            .reserve = reserve,
                            .beside = beside,
                            .capture = capture,
                            .capture_bytes = capture_bytes,
                            .driver = driver,
                            .open = refuse,
                            .close = close_none,
                            .open_host = refuse,
                            .close_host = close_none };
    return STATUS_OK;
}

/* The driver's word for it is not asked for, since makers sell one GPU under several. */
static bool is_another(const device_gpu *g, const device_gpu *here) {
    enum { OFF_BY = 16 };                /* drivers keep more or less of the memory for themselves */
    if (!here->capability) return false; /* an emulated one is what is asked for */
    uint64_t apart = g->memory > here->memory ? g->memory - here->memory : here->memory - g->memory;
    return g->capability != here->capability || apart > g->memory / OFF_BY ||
           (g->multiprocessors && here->multiprocessors && g->multiprocessors != here->multiprocessors);
}

status device_elsewhere_here(const device_gpu *g, const device *here, device_elsewhere *out) {
    char is[DEVICE_GPU_TEXT_BYTES], wanted[DEVICE_GPU_TEXT_BYTES];
    TRY(check(g));
    if (!here->apart)
        return status_set(STATUS_INVALID, "--gpu %s: --device %s is no GPU; leave one of the two out",
                          g->name, here->name);
    if (here->gpu && is_another(g, here->gpu))
        return status_set(STATUS_INVALID, "--gpu %s has %s, and what is here is another: %s with %s", g->name,
                          device_gpu_text(g, wanted), here->gpu->title, device_gpu_text(here->gpu, is));
    out->gpu = *g;
    out->device = *here;
    if (here->gpu) memcpy(out->gpu.uuid, here->gpu->uuid, sizeof out->gpu.uuid);
    out->device.gpu = &out->gpu, out->device.capability = g->capability;
    out->device.rates = rates, out->device.reserve = reserve;
    return STATUS_OK;
}
