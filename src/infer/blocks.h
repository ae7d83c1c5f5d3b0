/* Which blocks of a cache are free. Blocks are numbers; what is in them is no matter here. Lines of a table
 * say which a text has. */
#pragma once

#include <stdint.h>

#include "base/status.h"

typedef struct {
    int32_t *free; /* the first `left` of `count` */
    int64_t count, left;
} blocks;

status blocks_open(int64_t count, blocks *b);
void blocks_close(blocks *b);
uint64_t blocks_bytes(int64_t count); /* that it holds */

/* Moves n blocks into line[at..]; there must be as many left. */
void blocks_take(blocks *b, int32_t *line, int64_t at, int64_t n);
void blocks_give(blocks *b, const int32_t *line, int64_t n);
