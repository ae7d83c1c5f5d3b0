/* A recorded step, played: at a batch and a length, by its storages' lifetimes, with what `torch_settings`
 * say that the recording does not. */
#pragma once

#include "estimate/recorded/recorded_course.h"
#include "estimate/recorded/recording.h"
#include "estimate/torch/torch.h"

/* Bytes that a device receives from the others: for each micro-batch, and once for a step. */
typedef struct {
    double each, once;
} recorded_link;

/* The sizes of all storages at a batch and a length: those of a run where one was recorded so. Others are
 * computed, each dimension by itself: it grows with the batch, or with the length, by so much for each sample
 * and token; one that grows with both is their product. */
typedef struct {
    const recording_program *program;
    uint64_t *bytes;               /* by storage, from 1 */
    bool was_recorded;             /* exactly that batch and length */
    bool has_batches, has_lengths; /* two batches were recorded, two lengths */
    double operations;             /* of products, in forward */
    uint64_t parameters, trained;  /* how many of the whole, where settings have rewritten it; else 0 */
    uint32_t head;                 /* the module that is computed with the loss, in pieces; 0: none */
    recorded_link link;            /* nothing where there is one device */
} recorded_sizes;

/* `again`: with --gradient-checkpointing, where the model's own code may do otherwise. STATUS_INVALID where
 * nothing tells how the step grows to that. Close it in any case. */
status recorded_sizes_find(const recording *r, int64_t batch, int64_t length, bool again, recorded_sizes *s);
void recorded_sizes_close(recorded_sizes *s);
/* Operations of each call at that batch and length, which `s` was found for; `out` has room for all calls. */
void recorded_sizes_operations(const recorded_sizes *s, int64_t batch, int64_t length, double *out);

/* Of one run, with torch_settings' batch and context. Fills live, reserved, held, by_term, peak_in,
 * parameters, trained, state and trained_bytes. */
status recorded_play(const recording *r, const torch_settings *s, torch_result *out);
/* The same of a course and sizes that are there, which are of one program. */
status recorded_play_course(const recording *r, const torch_settings *s, const recorded_sizes *sizes,
                            const recorded_course *course, torch_result *out);
