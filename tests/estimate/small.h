/* A tape that is written by hand, call by call, as a reading of a model would write it. */
#pragma once

#include "estimate/torch/torch_adapters.h"

enum { SMALL_CASTS = 64 };

typedef struct {
    tape t;
    torch_settings s;
    torch_reading r;
    tape_value cast[SMALL_CASTS];
} small;

/* Not to be moved; close its tape. Fails the test where there is no memory. */
void small_open(small *x, torch_settings s);
tape_value small_source(small *x, int64_t elements, double width, tape_term term, bool wants);
