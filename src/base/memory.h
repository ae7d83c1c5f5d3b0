/* The host's memory, through one gate. Nothing else calls malloc, mmap or their kin, so what the
 * process takes beside its planned pools can be counted here. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Zeroed; NULL when there is none. Small bookkeeping only: planned bytes come from device/. */
void *memory_new(size_t count, size_t size);
void *memory_room(size_t count, size_t size); /* not zeroed: for what is written before it is read */
void *memory_resize(void *block, size_t count, size_t size);
char *memory_text(const char *text); /* a copy; free with memory_free */
void memory_free(void *block);

/* How often this thread asked for one of these and there was none. A caller that tries many things, and takes
 * what fails for impossible, learns by it that something failed for another reason. */
uint64_t memory_refused(void);

/* Address space without memory behind it: zeroed pages appear when touched. Of a block that is released the
 * first `used` bytes may have been written and no others; a few blocks are kept, zeroed again, for the next
 * reservation of the same size: a search makes thousands of graphs, and fresh pages were a third of its time.
 */
void *memory_reserve(size_t bytes);
/* `bytes`, or where the process has a limit on its address space (ulimit -v) a share of that: what may be
 * asked of memory_reserve without leaving nothing for the rest. At least `least`. */
size_t memory_reserve_share(size_t bytes, size_t least);
void memory_release(void *block, size_t bytes, size_t used);

/* So many bytes of a file, which processes that have it in common see alike; NULL where that can't be. */
void *memory_shared(int file, size_t bytes);
void memory_unshare(void *block, size_t bytes); /* NULL: nothing */

/* Hands what was freed and released back to the system, so that it does not count as resident. */
void memory_trim(void);
