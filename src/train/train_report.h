/* What is told of a run while it goes on and at its end. */
#pragma once

#include "train/train.h"

/* Seconds of the arithmetic of all kernels in an optimizer step, recomputation included, at the rates of
 * products. */
double train_report_least(const setup *s, const decision *d);

/* Of a step that is done: loss, norm (NAN: not taken), rate and seconds are filled in already, `step` too.
 * `least`: as above; `elapsed`: since the first step of this start, which began after step `first`. */
void train_report_step(const setup *s, const decision *d, double least, int64_t first, double elapsed,
                       train_progress *p);

/* Median and rate of this start's steps, whose seconds are at times[r->first] and on (they are sorted), and
 * the memory that was measured. */
status train_report_end(const train_observer *o, const setup *s, const exec *e, double *times, double seconds,
                        train_result *r);

/* Adds bytes to the plan's reserve for tables, or takes them back. */
void train_keep(plan *p, int64_t bytes);
