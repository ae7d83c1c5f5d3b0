/* A model and the adapter that was trained beside it, made one model. */
#pragma once

#include "base/status.h"

/* Reads the model directory and the adapter's, and writes a model directory to `out` (made if missing): each
 * weight plus what the adapter does beside it, in f32, rounded once. All weights are in memory at once.
 * STATUS_INVALID where the two don't belong together, or where `out` holds a model. */
status merge_run(const char *directory, const char *adapter, const char *out);
