/* The primitives of a device: its memory, what it reports of it, and its rates. A pool is one allocation,
 * touched before use, so that what was planned is really there (Linux overcommits). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    void *data;
    uint64_t bytes;
} device_pool;

status device_pool_open(device_pool *p, uint64_t bytes); /* zeroed and resident */
void device_pool_close(device_pool *p);

/* One allocation of exactly `bytes` for the separate mode of the executor, where a sanitizer watches the
 * edges. NULL when there is none. */
void *device_block_new(uint64_t bytes);
void device_block_free(void *block);

/* Of this process, in bytes, as the operating system counts: now, and the highest so far. */
uint64_t device_resident(void);
uint64_t device_resident_peak(void);

/* What this process may still take: free memory of the machine and of its control group. */
uint64_t device_available(void);

/* Rates for the model of time, per second. */
typedef struct {
    double flops;        /* multiply-adds count two; all threads together, in large products */
    double vector_flops; /* elementwise arithmetic, all threads together */
    double bandwidth;    /* bytes of memory, all threads together */
    double call_seconds; /* of starting one kernel */
    const char *source;  /* where the numbers come from: "built-in table: AVX-512" */
} device_rates;
device_rates device_rates_default(int threads);

/* What code, libraries, stacks and bookkeeping take beside the planned pools: reserved in every plan,
 * compared with what is measured before the first step. In bytes, for this build and `threads` threads. */
typedef struct {
    uint64_t code;    /* program and libraries */
    uint64_t threads; /* stacks and thread-local memory */
    uint64_t tables;  /* buffers of files and output; a plan adds its own graphs and tables */
} device_runtime;
device_runtime device_runtime_reserve(int threads);

/* What the program around the library holds beyond that: part of `code` in every reserve from now on. */
void device_runtime_host(uint64_t bytes);
