/* Looks for numbers that are not finite (NaN and the two infinities) in arrays of any float type. Types
 * without such numbers are finite. */
#pragma once

#include "base/dtype.h"

/* The place of the first of n elements that is not finite; -1: all are. x may lie at any address. */
int64_t finite_find(dtype type, const void *x, int64_t n);
