/* The host's memory, through one gate. Nothing else calls malloc, mmap or their kin, so what the
 * process takes beside its planned pools can be counted here. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Zeroed; NULL when there is none. Small bookkeeping only: planned bytes come from device/. */
void *memory_new(size_t count, size_t size);
void *memory_resize(void *block, size_t count, size_t size);
char *memory_text(const char *text); /* a copy; free with memory_free */
void memory_free(void *block);

/* Address space without memory behind it: pages appear when touched, and go back on release. */
void *memory_reserve(size_t bytes);
void memory_release(void *block, size_t bytes);

/* Hands what was freed back to the system, so that it does not count as resident. */
void memory_trim(void);
