/* Answers to "how much at most?" and "how few?", where more of something never takes fewer bytes: by doubling
 * until it no longer fits, then by halving what is between. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Does it fit with this value? A failure ends the search with its sentence. */
typedef status solve_body(void *context, int64_t value, bool *fits);

/* The largest value of 1 .. most that fits; 0: not even 1 does. */
status solve_largest(int64_t most, solve_body *body, void *context, int64_t *value);
/* The least value of 1 .. most that fits; 0: none does. Here more of it never takes more bytes. */
status solve_least(int64_t most, solve_body *body, void *context, int64_t *value);
