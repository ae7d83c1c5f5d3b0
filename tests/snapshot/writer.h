/* Writes snapshots as PyTorch does, of any length, schema and protocol, with what is true of them: a random
 * course of allocations and frees, counted here by itself. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t seed;
    uint32_t events, frames, stacks; /* at least so many events; frames of a stack; different stacks */
    uint32_t before;                 /* allocations of before the recording, of which half are freed in it */
    uint32_t most;                   /* alive at once */
    int protocol;                    /* 2 to 5 */
    int devices;
    bool history;     /* blocks as of 2022: no address, and what was asked for in their history */
    bool no_times;    /* events as of 2022 */
    bool more_keys;   /* keys of later versions, and some that nobody has yet */
    bool one_batch;   /* as libtorch writes: no batches of 1000 */
    bool early_lists; /* segments before the events, as dicts have them; else behind them: nothing is held */
    bool bare;        /* the segments alone, as memory_snapshot() returns them */
    bool python;      /* as pickle.py writes: every list of one by APPEND, every text new */
} writer_options;

typedef struct {
    uint64_t peak, end, before; /* bytes */
    uint32_t peak_at, events;   /* instants as snapshot.h has them */
    uint64_t peak_time;
} writer_truth;

/* `truth` has room for all devices. */
void writer_write(const char *path, const writer_options *o, writer_truth *truth);
