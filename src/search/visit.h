/* Plans or outlines a list of choices on several threads. Choices that share a stem must be neighbours in the
 * list: then the graphs that they have in common are made once (compose_stem, compose_trunk). At most as many
 * stems are open at once as threads work, and at most as many threads work as the memory has room for. */
#pragma once

#include "chain/sketch.h"

/* What the visits of a search have seen so far. The number of threads follows from it: their candidates must
 * fit into what the chosen plan will take at least, so it is (least_peak - code) / table_bytes. */
typedef struct {
    uint64_t least_peak;  /* the smallest peak: the chosen plan takes no less; UINT64_MAX: none seen yet */
    uint64_t table_bytes; /* the largest tables of a candidate; 0: none seen yet */
    uint64_t held;        /* the most memory that was held at once, code included */
} visit_memory;
static const visit_memory visit_memory_none = { .least_peak = UINT64_MAX };

typedef struct {
    const compose_run *run;
    visit_memory *memory;
    bool plan;           /* true: choices are planned; false: they are outlined, */
    bool sketch;         /* or sketched */
    compose_reach reach; /* an outline beyond this is given up; its context and index are the visit's */
    void *context;       /* handed to `choice`, `take` and `reach.beyond` */
    void (*choice)(const void *context, uint32_t index, compose_choice *out);
    /* Receives what was found, on any thread, once for each index. peak_bytes 0: it cannot be planned. Of a
     * plan only peak_bytes, away_bytes, seconds and table_bytes are set. */
    void (*take)(void *context, uint32_t index, const compose_least *found);
} visit;

status visit_all(const visit *v, uint32_t count);

/* Choices that all visits of this process have looked at: for a line of progress, also within a handler of
 * signals. */
uint64_t visit_looked_at(void);
