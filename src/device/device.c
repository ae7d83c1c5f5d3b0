#include "device/device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const device *const all[] = {
    &device_cpu,
#ifdef SNUG_CUDA_EMULATED
    &device_emulated,
#endif
};

const device *device_default(void) { return all[0]; }

static atomic_int capture = -1; /* as long as nothing was said */

void device_capture_allow(bool yes) { atomic_store_explicit(&capture, yes, memory_order_relaxed); }

bool device_capture_allowed(uint32_t capability) {
    int said = atomic_load_explicit(&capture, memory_order_relaxed);
    return said < 0 ? confirmed_on(CONFIRM_CAPTURE, capability) : said > 0;
}

static int local_number;

void device_local(int number) { local_number = number; }
int device_local_number(void) { return local_number; }

/* "cuda", "cuda:1" */
#ifdef SNUG_CUDA_DEVICE
static status find_cuda(const char *name, const device **found) {
    unsigned number;
    char end;
    if (!name[4]) return device_cuda_find(-1, found);
    if (sscanf(name + 4, ":%3u%c", &number, &end) != 1)
        return status_set(STATUS_INVALID, "--device: '%s' is no device; GPUs are cuda:0, cuda:1 ...", name);
    return device_cuda_find((int)number, found);
}
#else
static status find_cuda(const char *name, const device **found) {
    *found = NULL;
    return status_set(STATUS_INVALID,
                      "--device %s: this snug is built for the CPU only (see -DSNUG_CUDA=ON); 'snug plan "
                      "--gpu NAME' plans for a GPU that is elsewhere",
                      name);
}
#endif

status device_find(const char *name, const device **found) {
    if (strncmp(name, "cuda", 4) == 0) return find_cuda(name, found);
    *found = device_default();
    if (strcmp(name, "auto") == 0) {
        const device *gpu;
        if (find_cuda("cuda", &gpu) == STATUS_OK) *found = gpu;
        return STATUS_OK;
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *found = all[i];
        if (strcmp(name, all[i]->name) == 0) return STATUS_OK;
    }
    *found = NULL;
    return status_set(STATUS_INVALID,
                      "--device: '%s' is no device; there are cpu, cuda, and auto for the best", name);
}
