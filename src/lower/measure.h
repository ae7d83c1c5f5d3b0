/* Rates of this machine, measured: the library's own kernels on small made-up operands, each run many times;
 * the best time counts, since whatever else the machine does can only add to it. */
#pragma once

#include "device/device.h"

typedef struct {
    void *context;
    void (*told)(void *context, const char *what, double part); /* may be NULL; part in 0..1 is done */
    double seconds;                                             /* about what the whole may take */
} measure_observer;

/* With `threads` threads; sets them and leaves them so. `r->source` is left for the caller to say. */
status measure_rates(int threads, const measure_observer *o, device_rates *r);
