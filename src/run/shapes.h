/* What `snug devices --measure` found products and attention to take on the GPU that is here, by shape
 * (device/device_shapes.h): a file beside those of rates, for each kind of GPU and way of multiplying 16
 * bits. It changes predicted seconds and nothing else. */
#pragma once

#include "device/device.h"
#include "lower/measure_library.h"

/* Replaces the file with what was measured on d: pairs of its own kernels and of a library, `name` with its
 * version. Pairs of either library may be none. */
typedef struct {
    const char *name;
    const measure_pair *pairs;
    int count;
} shapes_measured;
status shapes_store(const device *d, const shapes_measured of[DEVICE_LIBRARIES]);

/* Puts into `r` what was measured on d, and says so in its source; or what is wrong with the file. A GPU that
 * is named (--gpu) has the rates of its name, wherever the plan is made: nothing is put in. */
void shapes_join(const device *d, device_rates *r);
