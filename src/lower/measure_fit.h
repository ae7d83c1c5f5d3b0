/* From times of samples to rates: the model of time (lower/predict.h) the other way round. */
#pragma once

#include "device/device.h"
#include "ir/op.h"

/* Which rate a sample is for. */
typedef enum {
    MEASURE_CALL,
    MEASURE_CACHE,
    MEASURE_WORK,
    MEASURE_DRAWS,
    MEASURE_MEMORY,
    MEASURE_PRODUCTS,
    MEASURE_OTHER_PRODUCTS, /* on codes, and on numbers of 16 bits */
    MEASURE_FETCH
} measure_purpose;

/* What one call did, and how long it took. */
typedef struct {
    measure_purpose of;
    op_cost cost;
    double memory_bytes; /* that came from memory or went there, of the purposes MEMORY and FETCH */
    double seconds;      /* 0: was not measured */
} measure_taken;

/* Rates under which the samples take what they took. `r` has rates already; those that no sample tells stay
 * as they are, but those of 16 bits, which keep their ratio to those of 32. `thread_seconds`: what all
 * threads take to begin and to end. */
void measure_fit(const measure_taken *m, int count, double thread_seconds, device_rates *r);
