/* What configurations of all families are checked for. Each refuses with the value's name, what it is and
 * what it may be: STATUS_INVALID. Names are those of the family's config.json. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    const char *name;
    int64_t value, least, most;
} model_range;

#define MODEL_CHECK_RANGES(ranges) model_check_ranges(ranges, sizeof(ranges) / sizeof *(ranges))

status model_check_ranges(const model_range *ranges, size_t count);
status model_check_between(const char *name, double value, double below,
                           double usual);                       /* 0 < value < below */
status model_check_epsilon(const char *name, double value);     /* what a norm adds to a variance */
status model_check_deviation(double value);                     /* of initial weights */
status model_check_dropout(const double *values, size_t count); /* each in [0, 1) */

/* Each head has as many channels as the others. The names are those of both. */
status model_check_heads(const char *name, int64_t heads, const char *width, int64_t channels);
