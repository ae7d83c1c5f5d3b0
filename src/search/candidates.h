/* What a search looks at: all combinations of micro-batches and of settings that the passes offer there, with
 * pins and allowances kept. They do not depend on a budget. */
#pragma once

#include "search/search.h"

enum { CANDIDATES_MOST = 4096 };

typedef struct {
    search_point *points; /* choice and class; not planned yet */
    uint32_t count;
} candidates;

/* STATUS_INVALID, with the pins, when they contradict each other or leave nothing to try. To be closed also
 * after a failure, with the count that it had. */
status candidates_list(const search_request *q, candidates *c);
void candidates_close(candidates *c);
