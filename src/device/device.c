#include "device/device.h"

#include <string.h>

/* The best first: that is what "auto" means. */
static const device *const all[] = {
    &device_cpu,
#ifdef SNUG_CUDA_EMULATED
    &device_emulated,
#endif
};

const device *device_default(void) { return all[0]; }

status device_find(const char *name, const device **found) {
    *found = device_default();
    if (strcmp(name, "auto") == 0) return STATUS_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *found = all[i];
        if (strcmp(name, all[i]->name) == 0) return STATUS_OK;
    }
    *found = NULL;
    if (strncmp(name, "cuda", 4) == 0)
        return status_set(STATUS_INVALID,
                          "--device %s: this snug computes on the cpu only; 'snug estimate --gpu NAME' says "
                          "what a GPU needs",
                          name);
    return status_set(STATUS_INVALID, "--device: '%s' is no device; there is cpu, and auto for the best",
                      name);
}
