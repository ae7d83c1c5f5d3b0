/* The smaller, the larger, and how many pieces. */
#pragma once

#include <stdint.h>

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }
