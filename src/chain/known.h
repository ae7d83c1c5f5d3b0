/* What was found of choices of one run, for all searches that ask again: a search with a larger limit, and
 * those which look for what would make a run fit. Kept is what depends on the run and the choice alone, and
 * on no limit. */
#pragma once

#include "base/memo.h"
#include "chain/compose.h"

typedef struct compose_known {
    compose_run run; /* what is kept is of runs like this one */
    bool sketches;   /* sketch_possible() of the run */
    memo *memo;      /* NULL: nothing is kept */
} compose_known;

/* The run is given k, so that k must outlive it. */
void known_open(compose_known *k, compose_run *r);
void known_close(compose_known *k);

/* The memo of this run; NULL: it has none, or is another run in anything but its memory, its room and its
 * layers. */
memo *known_of(const compose_run *r);

/* Bytes that it takes, which count as held by a search. Which outlines of shallow models it has depends on
 * which thread was first, so where there are any it counts with all that it may take. */
uint64_t known_bytes(const compose_run *r);

/* A key in that memo: a text that says what is asked, then the choice's micro-batch and the settings of the
 * passes up to `stage`. */
enum { KNOWN_KEY_BYTES = PASS_MAX * (PASS_SETTING_BYTES + 1) + 128 };
size_t known_key(const char *asked, const compose_choice *c, pass_stage stage, char key[KNOWN_KEY_BYTES]);
