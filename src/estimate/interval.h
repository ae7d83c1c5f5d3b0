/* An estimate is three numbers: what it may be at least, what it likely is, what it may be at most. */
#pragma once

#include <stdint.h>

typedef struct {
    uint64_t low, likely, high;
} interval;
