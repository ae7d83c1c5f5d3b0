/* What plan.c and away.c share. */
#pragma once

#include "plan/plan.h"

enum { TRANSFER_BYTES = 256 << 10 }; /* of who moves pieces to a file: a thread's stack and its queue */

/* The entry of this name among the first `count`; NULL: there is none. Programs list their persistent tensors
 * in nearly the same order: going on from the last find makes this linear in practice. */
plan_persistent *plan_find_from(plan *p, uint32_t count, const char *name, uint32_t *cursor);

/* Adds one behind all others of its pool. */
plan_persistent *plan_add(plan *p, const char *name, uint64_t bytes, category c, int pool);
