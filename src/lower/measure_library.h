/* Which products and which attention the libraries of a device's maker (device.library) make faster than
 * snug's kernels: both are run there, on made-up operands of shapes that networks have. */
#pragma once

#include "device/device.h"

typedef struct {
    device_library by;
    const char *what;   /* "f32", "bf16"; of attention "bf16 forward" and "bf16 gradient" */
    int64_t sizes[4];   /* rows, columns, depth; or samples, tokens, heads, size of a head */
    device_shape shape; /* what predictions know it by: of snug's kernels, without seconds */
    double own;         /* seconds of a call */
    double by_library;  /* 0: the library declines it */
} measure_pair;

enum { MEASURE_PAIRS = 32 };

/* Shapes from small to large, as many as are done in about so many seconds, and no larger than the device has
 * memory for. The library is open. */
status measure_library(const device *d, device_library by, double seconds, measure_pair pairs[MEASURE_PAIRS],
                       int *count);
