/* The memo of a pickle: values by number, in the order in which they were put there. Pages that lie behind
 * hold only what may still be asked for: nothing of what was let go, and of what says nothing by itself (a
 * container that the reader gave no meaning, None) one bit. That a container gets its meaning so late that
 * its page lies behind, some thousand values later, is true of the outermost alone, which nothing comes back
 * to. */
#pragma once

#include "io/pickle.h"

enum { PICKLE_PAGE = 1024, PICKLE_LAG = 8 }; /* values of a page; pages that stay as they are */

typedef struct {
    uint32_t *all;  /* of a page that does not lie behind; NULL: */
    uint64_t *kept; /* a bit per value; a bit per plain one; how many are kept before each 64; these */
} pickle_page;

typedef struct {
    array pages; /* pickle_page */
    uint32_t count, packed;
    uint64_t bytes; /* of all pages */
} pickle_memo;

status pickle_memo_open(pickle_memo *m);
void pickle_memo_close(pickle_memo *m); /* fine on a zeroed one */
status pickle_memo_add(pickle_memo *m, uint32_t word);
/* Of value `i`, from 0, below count; 0: it was let go; PICKLE_TUPLE: it says nothing by itself. */
uint32_t pickle_memo_at(const pickle_memo *m, uint32_t i);
/* What was let go stays so. */
void pickle_memo_set(pickle_memo *m, uint32_t i, uint32_t word);
