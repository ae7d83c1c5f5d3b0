/* What a plan runs on: a device as a value, and the primitives of the host: its memory, what it reports of
 * it, and its rates. A pool is one allocation, touched before use, so that what was planned is really there
 * (Linux overcommits). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/confirmed.h"
#include "base/links.h"
#include "base/status.h"
#include "base/work.h"
#include "device/device_shapes.h"

typedef struct {
    void *data;
    uint64_t bytes;
} device_pool;

/* Rates for the model of time, per second, of all threads together. */
enum { DEVICE_SOURCE_BYTES = 256 };
typedef struct {
    double flops[WORK_KINDS];           /* multiply-adds count two */
    double by_library, by_library_half; /* products by a library (device/library.h), of f32 and of 16 bits; 0:
                                           there is none */
    double by_library_attention;        /* and attention by one (device/library_attention.h) */
    double draws;                       /* random numbers */
    double moved;                       /* bytes that products pack and add up */
    double cached;                      /* bytes of operands that are in a cache */
    double bandwidth;                   /* bytes of memory, one after the other */
    double fetched;                     /* bytes of memory that products read and write in pieces */
    double cache_bytes;                 /* how much of what was touched last is still in a cache */
    double call_seconds;                /* of starting one kernel, */
    double captured_seconds; /* and one of a program that was captured; 0: none is (device.capture) */
    double file_read;        /* bytes from a file, past all caches */
    double file_written;
    double copied;        /* bytes between a device apart and the host's memory */
    double scale;         /* on the whole: what a run took over what was predicted; 1: nothing known */
    device_shapes shapes; /* what was measured by shape, which these rates give way to */
    struct links links;   /* between the ranks that it is asked for */
    char source[DEVICE_SOURCE_BYTES]; /* where the numbers come from: "built-in table: AVX-512" */
} device_rates;

/* Queues of work that go on side by side, each in its own order: kernels, copies of what is away, and what
 * moves between ranks. */
typedef enum { LANE_COMPUTE, LANE_COPY, LANE_RANKS, LANE_COUNT } device_lane;

/* What a process takes of the memory of a device apart beside its pools: what the driver keeps for it, its
 * kernels, streams with their events, the transport between ranks, and programs that were captured. */
typedef struct {
    uint64_t context, code, handles, ranks, captured;
} device_parts;
static inline uint64_t device_parts_sum(const device_parts *p) {
    return p->context + p->code + p->handles + p->ranks + p->captured;
}

/* What is known of a GPU without opening it, from a file (device_gpu.h), or what its driver says of it. 0:
 * not known. */
typedef struct {
    char name[64];       /* as --gpu takes it; "": what is here */
    char title[96];      /* as its maker calls it */
    uint32_t capability; /* 90 */
    int multiprocessors;
    int threads;         /* that each of them holds */
    uint64_t memory;     /* bytes that processes can have */
    uint64_t context[3]; /* bytes of it that a context takes: least, likely, most */
    double f32, f16;     /* operations a second; f16: of tensor cores, dense, sums in f32 */
    double bandwidth;    /* bytes a second of its memory, */
    double link;         /* and of copies between it and the host's */
    double cache_bytes, call_seconds;
    bool shows;      /* a screen hangs on it, whose programs take of its memory as well */
    char chosen[96]; /* among others: "the first of 2 that CUDA_VISIBLE_DEVICES=1,0 leaves"; "": alone */
    unsigned char uuid[16]; /* of the one that is here; zeros: not known */
} device_gpu;

/* Libraries of a GPU's maker that kernels may be taken from. */
typedef enum {
    DEVICE_LIBRARY_PRODUCTS,  /* device/library.h */
    DEVICE_LIBRARY_ATTENTION, /* device/library_attention.h */
    DEVICE_LIBRARIES
} device_library;

/* Whose memory a plan's tensors live in, and who computes on them. Plan, lowering and executor are handed
 * one; nobody asks which it is. What it offers is all that they need of it. */
typedef enum { DEVICE_CPU, DEVICE_CUDA } device_kind; /* of its kernels */
typedef struct device device;
struct device {
    const char *name;
    device_kind kind;
    uint32_t capability; /* its generation: kernels may use what this and earlier ones have (op_call) */
    bool apart; /* the host can't look at its pools: `put` and `get` copy, and it has a pool of its own */
    const device_gpu *gpu;                               /* which it is; NULL: none */
    device_rates (*rates)(const device *d, int threads); /* where nothing was measured */

    /* Bytes of the memory that its pools are in: what this process may still take of it; what is reserved in
     * every plan for what the process takes there beside pools, and how much that is now. The latter two are
     * NULL where the device is not apart: what the process takes is the host's (device_runtime_reserve). */
    uint64_t (*available)(const device *d);
    device_parts (*reserve)(const device *d);
    device_parts (*beside)(const device *d);
    uint64_t (*driver)(const device *d); /* what its driver takes of the host's memory; NULL: nothing */

    status (*open)(const device *d, device_pool *p, uint64_t bytes); /* zeroed and resident */
    void (*close)(const device *d, device_pool *p); /* also of a pool that could not be opened */

    /* Of the host's memory, pinned where the device copies: its lanes reach it while the host does something
     * else. NULL where not apart. */
    status (*open_host)(const device *d, device_pool *p, uint64_t bytes); /* zeroed and resident */
    void (*close_host)(const device *d, device_pool *p);
#define DEVICE_NOT_PINNED                                                                                    \
    "the system does not pin %llu bytes of the host's memory, where %s copies from and to: %s; raise "       \
    "'ulimit -l' or the limit of the control group, or let less wait there"

    void (*put)(const device *d, void *to, const void *from, uint64_t bytes); /* NULL where not apart */
    void (*get)(const device *d, void *to, const void *from, uint64_t bytes);
    void (*begin)(const device *d); /* kernels are called, and copies asked for, from now on */
    void (*end)(const device *d);   /* they have all been: returns when all lanes are done */
    void (*fill)(const device *d, void *at, int byte, uint64_t bytes); /* in between, on LANE_COMPUTE */

    /* Copies between its pools and the host's memory, either way, on LANE_COPY; NULL where not apart. `mark`
     * is an event: all that the lane has been given so far is done. What `lane` is given after `after`
     * begins when that event of the other lane has happened. */
    void (*copy)(const device *d, void *to, const void *from, uint64_t bytes);
    void (*carry)(const device *d, void *to, const void *from, uint64_t bytes); /* on LANE_COMPUTE */
    uint64_t (*mark)(const device *d, device_lane l);
    /* A function of the host that LANE_COPY calls when it comes to it, on whatever thread; it asks nothing of
     * the device, and may wait for what is sure to happen without it. A device that has failed calls none. */
    void (*call)(const device *d, void (*function)(void *context), void *context);
    void (*after)(const device *d, device_lane l, device_lane other, uint64_t event);

    /* LANE_RANKS is given its work by a library that moves between ranks; NULL where not apart. `stream`: the
     * lane as that library takes it, which from now on may take memory of the device (device_parts.ranks).
     * `happened`: whether an event of it has; also between `end` and the next `begin`. */
    void *(*stream)(const device *d);
    bool (*happened)(const device *d, uint64_t event);

    /* A program as one thing to start (a CUDA graph). What LANE_COMPUTE is given between `capture` and
     * `captured` is kept, with its addresses and numbers, and is not done; `replay` gives all of it to the
     * lane again, for ever, until `release`. Nothing but kernels is captured, and nothing else is asked of
     * the device in between. `capture_bytes`: of the device's memory, what so many calls of kernels take at
     * most (device_parts.captured), and of the host's as well. NULL: each kernel is started by itself. */
    status (*capture)(const device *d);
    status (*captured)(const device *d, void **sequence);
    void (*replay)(const device *d, void *sequence);
    void (*release)(const device *d, void *sequence);
    uint64_t (*capture_bytes)(const device *d, uint64_t calls);

    /* Times of kernels; NULL: they are over when their call returns, so whoever called them knows. `stamps`
     * before `begin`: room for so many of them until `end`. `stamp`: when LANE_COMPUTE comes to it, in
     * seconds of the monotonic clock; `*at` is written when `end` returns. */
    status (*stamps)(const device *d, uint64_t most);
    void (*stamp)(const device *d, double *at);

    /* Opens a library, before anything is planned: what it takes of either memory counts as the device's own
     * from then on. INVALID: it is not to be had. NULL: the device knows of none. */
    status (*library)(const device *d, device_library which);

    /* Only of a device that is emulated: before (`begins`) and after a kernel of the host's, which runs
     * where the device has none. NULL: there has to be one. */
    void (*host)(const device *d, bool begins);
    /* And how much of what this process has resident is its memory. NULL: nothing. */
    uint64_t (*resident)(const device *d);

    /* The first error since the program began, which makes what was computed worthless. NULL: it has none. */
    status (*failed)(const device *d);
};
extern const device device_cpu;
extern const device device_emulated; /* where it is built: SNUG_CUDA=EMULATED */
/* The GPU of this number, where they are built: SNUG_CUDA=ON. Below 0: that of device_local. STATUS_INVALID:
 * there is none. */
status device_cuda_find(int number, const device **found);

/* This process is one of several of its host, this one of them counted from 0: of GPUs of which no number is
 * said it takes one of its own, round and round. Before any is found. */
void device_local(int number);
int device_local_number(void);

/* Whether programs are captured, where a device can: said once, before anything is planned. Nothing said: on
 * capabilities of which a GPU has confirmed it (base/confirmed.h). */
void device_capture_allow(bool yes);
bool device_capture_allowed(uint32_t capability);
static inline bool device_captures(const device *d) {
    return d->capture && device_capture_allowed(d->capability);
}

const device *device_default(void); /* the best there is */
/* By the name that --device takes: "cpu", or "auto" for the best that there is. */
status device_find(const char *name, const device **found);

/* Pools of the host. */
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

/* What there is, of the machine or of its control group if that has less. */
uint64_t device_memory(void);

/* The processor: its model as it calls itself, and the instruction sets that kernels use, best first. */
enum { DEVICE_NAME_BYTES = 96 };
const char *device_processor(char name[DEVICE_NAME_BYTES]);
const char *device_instructions(void);

/* Writes these bytes back and takes them out of all caches, so that whoever reads them next waits for
 * memory. false, and nothing happens, where the processor has no way to do it. */
bool device_cache_drop(const void *data, uint64_t bytes);

/* Of the processor, where nothing was measured. */
device_rates device_rates_default(int threads);

/* What code, libraries, stacks and bookkeeping take beside the planned pools: reserved in every plan,
 * compared with what is measured before the first step. In bytes, for this build and `threads` threads. */
typedef struct {
    uint64_t code;    /* program and libraries */
    uint64_t ranks;   /* of code: the transport between ranks */
    uint64_t threads; /* stacks and thread-local memory */
    uint64_t tables;  /* buffers of files and output; a plan adds its own graphs and tables */
} device_runtime;
device_runtime device_runtime_reserve(int threads);

/* What the transport between ranks takes: part of `code` too, and named. And what it takes of the memory of a
 * device apart. */
void device_runtime_ranks(uint64_t bytes, uint64_t apart);
/* Of a device apart: what is reserved in every plan for what the process takes there beside pools. */
device_parts device_reserve(const device *d);

/* What the program around the library holds beyond that: part of `code` in every reserve from now on. */
void device_runtime_host(uint64_t bytes);
