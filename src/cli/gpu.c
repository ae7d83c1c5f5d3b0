#include "cli/gpu.h"

#include <stdio.h>
#include <string.h>

#include "estimate/hardware_files.h"

static uint32_t capability_of(const char *said) {
    unsigned major, minor;
    char end;
    return sscanf(said, "%2u.%1u%c", &major, &minor, &end) == 2 ? 10 * major + minor : 0;
}

device_gpu gpu_of(const hardware *h) {
    device_gpu g = { .capability = capability_of(h->capability),
                     .multiprocessors = (int)h->multiprocessors,
                     .threads = (int)h->threads,
                     .memory = h->memory,
                     .f32 = h->f32,
                     .f16 = h->f16,
                     .bandwidth = h->bandwidth,
                     .link = h->link,
                     .cache_bytes = h->cache,
                     .call_seconds = h->call };
    snprintf(g.name, sizeof g.name, "%s", h->name);
    snprintf(g.title, sizeof g.title, "%s", h->title);
    memcpy(g.context, h->context, sizeof g.context);
    return g;
}

/* What may be here: the device that was asked for, or for want of one that of CUDA. */
static status find_here(const char *said, const device **here) {
    return device_find(!said || strcmp(said, "auto") == 0 ? "cuda" : said, here);
}

static status check(const hardware *h, const device_gpu *g) {
    if (!(g->f32 > 0) || !(g->bandwidth > 0))
        return status_set(STATUS_INVALID,
                          "--gpu %s: its file has no f32 or no bandwidth, so no time can be told", h->name);
    return STATUS_OK;
}

uint64_t gpu_beside(const hardware *h, const device_elsewhere *at) {
    device_parts reserve = device_gpu_reserve(&at->gpu);
    return h->overhead ? h->overhead : device_parts_sum(&reserve);
}

bool gpu_elsewhere(const hardware *h, options *o, device_elsewhere *at) {
    device_gpu g = gpu_of(h);
    if (g.capability < DEVICE_GPU_LEAST || !(g.f32 > 0) || !(g.bandwidth > 0)) return false;
    if (device_elsewhere_plan(&g, at) != STATUS_OK) return false;
    device_parts reserve = device_gpu_reserve(&at->gpu);
    uint64_t all = h->memory + device_parts_sum(&reserve), beside = gpu_beside(h, at);
    o->run.on = &at->device;
    o->run.memory = all > beside ? all - beside : 1;
    return true;
}

status gpu_choose(options *o, bool runs, device_elsewhere *at) {
    hardware h;
    const device *here;
    const char *said = o->run.device;
    if (!o->gpu) return STATUS_OK;
    TRY(hardware_find(o->gpu, &h));
    device_gpu g = gpu_of(&h);
    if (g.capability >= DEVICE_GPU_LEAST) TRY(check(&h, &g));
    bool any = !said || strcmp(said, "auto") == 0 || strncmp(said, "cuda", 4) == 0;
    if (any && !runs) {
        TRY(device_elsewhere_plan(&g, at));
    } else {
        TRY(find_here(said, &here));
        TRY(device_elsewhere_here(&g, here, at));
    }
    o->run.on = &at->device;
    if (!o->run.memory && !o->run.memory_auto) o->run.memory = g.memory;
    return STATUS_OK;
}
