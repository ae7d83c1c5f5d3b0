/* Rates of this machine, measured: the library's own kernels on small made-up operands, each run many times.
 * A run during which other work had the processors is known by the process's own time: it doesn't count where
 * enough others do, and else with the time that it had of the processors. */
#pragma once

#include "device/device.h"

typedef struct {
    void *context;
    void (*told)(void *context, const char *what, double part); /* may be NULL; part in 0..1 is done */
    double seconds;                                             /* about what the whole may take */
} measure_observer;

typedef struct {
    int samples;   /* that were taken */
    int disturbed; /* of them, beside other work all the time */
} measure_result;

/* With `threads` threads; sets them and leaves them so. `r->source` is left for the caller to say. */
status measure_rates(int threads, const measure_observer *o, device_rates *r, measure_result *told);

/* The same in a short time and in little memory: of operands and scratch at most measure_brief_bytes at once,
 * which the reserve of any plan has, and none of it is kept. Rates that this can't tell are those of the
 * built-in table. */
uint64_t measure_brief_bytes(int threads);
status measure_rates_briefly(int threads, double seconds, device_rates *r, measure_result *told);

/* Processors that so many threads of this process can have at once: by affinity and quota. */
double measure_processors(int threads);

/* Had the process the processors that it asked for? `processors`: its own seconds of all of them, in
 * `seconds` by the clock. What shares a core, and what another virtual machine takes, doesn't show. */
bool measure_is_undisturbed(double seconds, double processors, double asked);
