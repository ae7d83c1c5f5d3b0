/* What a text is likely to go on with, found in itself: what stood behind the last of its ids where they
 * stood before (prompt lookup decoding, A. Saxena 2023; the idea is LLMA's, arXiv:2304.04487). A guess costs
 * a row of a step, and a text whose guesses are wrong guesses less and more seldom. */
#pragma once

#include <stdint.h>

typedef struct {
    int64_t reach; /* ids of the next guess, at most; 0: as many as may be */
    int64_t rest;  /* steps before it */
    int64_t wrong; /* guesses of which nothing came true, in a row */
} lookup;

/* Writes up to `most` ids behind ids[count - 1], and returns how many. */
int64_t lookup_guess(lookup *l, int32_t *ids, int64_t count, int64_t most);
/* Of a guess of `guessed` ids, `right` came true. */
void lookup_learn(lookup *l, int64_t guessed, int64_t right);
