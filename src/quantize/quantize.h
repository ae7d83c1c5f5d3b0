/* A trained model, quantized: its products' weights as codes of 8 or 4 bits in another directory, and what
 * that does to the loss where there is something to evaluate on.
 *
 * Memory: evaluating, calibrating and converting run one after the other, by plans that are all within the
 * budget before the first begins; weights pass through a buffer while they are converted
 * (io/quantized_files.h). */
#pragma once

#include "io/quantized_files.h"
#include "run/setup.h"

typedef struct {
    const char *directory, *out;
    bool is_narrow;        /* 4 bits; else 8 */
    bool is_static;        /* of 8: one stored scale for what a product is given, not one for each token */
    bool all;              /* tables of embeddings too, and projections tied to them */
    const char *calibrate; /* text that those scales come from: all but its last tenth */
    /* Of it: data, eval_data, data_kind, context, eval_batch, eval_samples, memory, memory_auto, threads.
     * Without data the last tenth of `calibrate` validates; without either nothing does. */
    setup_options run;
} quantize_options;

typedef struct {
    quantized_files_bytes bytes;
    const char *setting; /* "int8:static", as the directory has it */
    bool evaluated;
    double loss_before, loss_after;
    int64_t samples, calibrated; /* that were evaluated, and calibrated on */
    uint64_t planned_bytes;      /* the largest of the plans */
    uint64_t resident_peak_bytes;
    int64_t context; /* of the samples */
    bool trained;    /* it is what the model was trained on, and its own is longer */
    bool no_text;    /* it can't continue a text */
} quantize_result;

/* STATUS_INVALID for what can't be quantized, or would be written over, before anything is written;
 * STATUS_NO_FIT where a plan is beyond the budget. */
status quantize_run(const quantize_options *o, quantize_result *r);
