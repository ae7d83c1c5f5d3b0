/* Papers, which are bodies of requests and long answers, in a planned pool of pages that all of them share: a
 * long one takes pages that no other one needs just then. One thread has the pool and its papers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json_reader.h"

enum { PAGES_BYTES = 4096, PAGES_NONE = -1 };

typedef struct {
    char *bytes;   /* count times PAGES_BYTES */
    int32_t *next; /* by page: of its paper, or of those that are free */
    int32_t free;  /* the first one; PAGES_NONE: none */
    int64_t count, left;
} pages;

/* Its pages lie one behind the other but for the jumps that `next` tells. */
typedef struct {
    const pages *pool;
    int32_t first, last; /* PAGES_NONE: it has none */
    uint64_t count;      /* bytes */
} paper;

uint64_t pages_bytes(int64_t count); /* that a pool of so many takes */
void pages_open(pages *p, int64_t count, void *memory);
int64_t pages_for(uint64_t bytes); /* how many a paper of this length has */

void pages_begin(paper *a, const pages *p); /* empty */
/* More at its end. False: there are too few pages; then nothing was added. */
bool pages_add(paper *a, pages *p, const char *bytes, size_t count);
/* From `at` on; how many bytes that were, at most `most`. */
size_t pages_read(const paper *a, uint64_t at, char *out, size_t most);
/* Its pages are free. Fine on an empty one. */
void pages_end(paper *a, pages *p);
/* As JSON; the paper must stay where it is until it was read. */
json_source pages_source(const paper *a, const char *path, const char *what);
