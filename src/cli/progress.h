/* What people see while a run goes on: one live line on a terminal, plain lines now and then elsewhere. */
#pragma once

#include "cli/output.h"

typedef struct {
    output *out;
    double last; /* when the last line was written, in seconds of the monotonic clock */
    bool live;   /* a live line stands on the terminal, unfinished */
} progress;

progress progress_of(output *out);
void progress_step(progress *p, const train_progress *step);
void progress_evaluated(progress *p, int64_t step, double loss, int64_t samples);
void progress_end(progress *p); /* clears the live line */
