/* How long the samples were that a model's weights were last trained on, from what the run has left beside
 * them: the beginning of metrics.jsonl, or a checkpoint's trainer_state.json. */
#pragma once

#include <stdint.h>

#include "base/status.h"

/* 0: the folder doesn't say. Fails where it may say so and can't be read. */
status trained_context(const char *folder, int64_t *context);
