/* Reads batches ahead of the training, in threads of its own, into memory that the caller planned.
 *
 * The memory is a ring of `depth` slots, each one global batch. Samples are numbered in the order they are
 * used; sample k of the run stands at place k mod batch of batch k / batch, whoever reads it and whenever. So
 * the data is the same for any number of workers, and a resumed run gives `first_sample` and goes on.
 *
 * Everything the loader knows lies in that memory too. What it takes beside it are the workers' stacks, small
 * on purpose. One thread takes batches; another may close the loader while that one waits in loader_next. */
#pragma once

#include <stdbool.h>

#include "data/masking.h"
#include "data/source.h"

typedef struct loader loader;

enum { LOADER_MAX_WORKERS = 64, LOADER_MAX_DEPTH = 64, LOADER_ALIGNMENT = 64, LOADER_STACK_BYTES = 64 << 10 };

typedef struct {
    const data_source *source; /* must outlive the loader */
    uint32_t batch;            /* samples in a batch, of this rank */
    uint32_t ranks, rank;      /* of ranks that share the batches; 0: one. Each has every ranks-th unit */
    uint32_t unit;             /* samples that stay together; of one rank unused */
    uint32_t depth;            /* batches in memory; 2: one in use, one being read */
    uint32_t workers;          /* 0: loader_next reads by itself, on the caller's thread and stack */
    uint32_t stack_bytes;      /* of a worker; 0: LOADER_STACK_BYTES */
    uint64_t seed;             /* of the order */
    uint64_t
        first_sample; /* where to begin; a multiple of all ranks' `batch` unless a run was begun otherwise */
    /* Without it samples come shuffled, epoch after epoch, for ever, and every batch is full; or in the order
     * that the source has of itself. With it they come once in their own order, and the last batch has what
     * is left. */
    bool sequential;
    data_masking masking; /* where it is on, fields 0 and 1 of the source are tokens and labels */
} loader_options;

/* One batch. Field f of sample i is at (char *)fields[f] + i * source->field_bytes[f]. */
typedef struct {
    void *fields[DATA_MAX_FIELDS];
    uint32_t samples;        /* `batch`, or less at the end of a sequential pass; 0: there are no more */
    uint64_t first_sample;   /* number within the run of the first */
    uint64_t counted_labels; /* labels that are not ignored; without a label field the samples */
} loader_batch;

/* The bytes that loader_open needs; STATUS_INVALID when the options make no sense. */
status loader_bytes(const loader_options *options, uint64_t *bytes);

/* `memory`: loader_bytes of them, aligned to LOADER_ALIGNMENT, the loader's until loader_close. */
status loader_open(const loader_options *options, void *memory, loader **l);

/* Waits for the next batch. It stays valid until loader_done gives the oldest one back; at most `depth` can
 * be out. A worker's failure comes out here, with its sentence, when its batch is due, and again on each
 * later call; STATUS_INTERRUPTED when the loader is being closed. */
status loader_next(loader *l, loader_batch *batch);
void loader_done(loader *l);

/* Stops the threads as soon as the reads they are in come back, drops what was read; returns when no thread
 * uses the memory any more, also not one that waits in loader_next. NULL is fine. */
void loader_close(loader *l);
