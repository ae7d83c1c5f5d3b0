/* A GPU that is emulated, for tests: kernels are those of the CUDA device, compiled for the CPU (emulate.h),
 * and so are its memory and its lanes. Two mistakes that a GPU shows now and then show here every time:
 *
 * - The host touches memory of the device. Its pages are closed but while an operation of a lane runs.
 * - An event is missing. What a lane was given runs as soon, as late, or in as random an order as events
 *   allow; a result that depends on it waited for too little. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

#include "device/device.h"

typedef enum {
    EMULATED_EAGER,        /* everything as soon as it may run */
    EMULATED_LATE_COPIES,  /* kernels first, a copy when somebody waits for it */
    EMULATED_LATE_KERNELS, /* the other way round */
    EMULATED_RANDOM,
    EMULATED_PACES
} emulated_pace;
void emulated_pace_set(emulated_pace pace, uint64_t seed);

typedef struct {
    uint64_t open_bytes, most_bytes;          /* of its pools: now, and at most */
    uint64_t pinned_bytes, pinned_most_bytes; /* of the host's pools that it copies from and to */
    uint64_t pools, pinned_pools;             /* that were opened */
    uint64_t operations;                      /* kernels and copies of all kinds */
    uint64_t launches;                        /* of kernels, and of */
    uint64_t products, attentions;            /* libraries */
    uint64_t captured, replayed;              /* programs */
    uint64_t by_host;                /* calls of the CPU's kernels, where there are none of the device's */
    uint64_t copies, copied_bytes;   /* on the lane of copies */
    uint64_t calls;                  /* of the host's functions there */
    uint64_t moves;                  /* between ranks */
    uint64_t put_bytes, got_bytes;   /* between runs */
    uint64_t carried, carried_bytes; /* on the lane of kernels */
    uint64_t waits;                  /* of the host for lanes, or for a copy */
} emulated_counts;
extern emulated_counts emulated_seen; /* of one thread that runs plans at a time */

/* What tests have it be. */
typedef struct {
    device_gpu gpu;      /* capability 0: whichever --gpu names */
    uint64_t memory;     /* of its own; 0: what the machine has */
    uint64_t others;     /* of it, held by others */
    device_parts beside; /* what the process holds there beside pools, */
    uint64_t moves;      /* and what is added to that with the first kernel */
} emulated_gpu;
extern const emulated_gpu emulated_usual;
void emulated_be(const emulated_gpu *is);

#ifdef __cplusplus
}
#endif
