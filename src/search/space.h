/* The candidates of a search: micro-batches, and for each of them the settings that the passes offer there,
 * as far as pins and allowances permit. They do not depend on the budget. A wider request (more allowed, less
 * pinned, a folder given) has all candidates of the narrower one: this is why it is never worse.
 *
 * A stem is a micro-batch with a setting for each forward pass. It has a list of settings for each step pass,
 * and every combination of these is a candidate. There may be hundreds of thousands, so none is stored: a
 * candidate is a code of 16 bytes. None is dropped: where a code cannot say it, space_open fails. */
#pragma once

#include "search/search.h"

enum { SPACE_STEPS = 14 }; /* step passes at most */

/* A candidate: its stem and, for each step pass in the order of pass_table, an index into the stem's list. */
typedef struct {
    uint16_t stem;
    uint8_t at[SPACE_STEPS];
} space_code;

typedef struct {
    uint32_t first; /* in space.places */
    uint8_t count;
} space_list;

typedef struct {
    int64_t micro_batch;
    uint8_t forward[PASS_MAX];     /* by pass: its setting, as an index into space.known */
    space_list lists[SPACE_STEPS]; /* by step pass */
    bool spare;                    /* it lacks a technique that is nearly free: looked at last */
} space_stem;

/* The settings of a pass, each once; the first is "off". */
typedef struct {
    pass_setting *settings;
    uint32_t count;
} space_known;

typedef struct {
    space_known known[PASS_MAX];
    space_stem *stems; /* largest micro-batch first */
    uint32_t stem_count;
    uint8_t *places; /* the lists of all stems: indexes into `known` */
    uint32_t place_count;
    uint32_t step_count;          /* how many step passes there are, */
    uint8_t step_of[SPACE_STEPS]; /* and their indexes in pass_table */
} space;

/* STATUS_INVALID, with a sentence that names the pins, where they contradict each other or leave nothing to
 * try. Close it also after a failure. */
status space_open(const search_request *q, space *s);
void space_close(space *s);

/* How many candidates there are. */
uint64_t space_size(const space *s);

const pass_setting *space_setting(const space *s, const space_code *c, uint32_t step);
compose_choice space_choice(const space *s, const space_code *c);
pass_class space_class(const space *s, const space_code *c);

/* The order of candidates: by stem, then by the indexes of their settings. Below 0: a comes first. */
int space_compare(const space_code *a, const space_code *b);
