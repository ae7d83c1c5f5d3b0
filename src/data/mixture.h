/* In which order parts of data take turns where each has a share of the places.
 *
 * Shares are whole numbers of places in a period, so the place alone says whose turn it is and how many turns
 * that part has had: one table of a period serves a run of any length. The period is the least at which the
 * weights come out whole; where that is more than MIXTURE_PERIOD, or never, they are rounded to so many
 * parts.
 *
 * Nothing is drawn: up to any place a part has had its share of the places to within one, so of any run of
 * places to within one for two parts, and less than two for more. (No order does one for three parts or more,
 * whatever their shares: Fraenkel's conjecture is about the few that have one.)
 * Paper: Tijdeman, "The chairman assignment problem", Discrete Mathematics 32, 1980. */
#pragma once

#include <stdint.h>

#include "base/status.h"

enum { MIXTURE_PARTS = 64, MIXTURE_PERIOD = 1 << 16 };

typedef struct {
    uint32_t parts, period;
    uint32_t share[MIXTURE_PARTS]; /* places of a period; at least 1, together the period */
    uint8_t *part;                 /* (period) whose turn it is */
    uint16_t *turn;                /* (period) how many that part has had before, in the period */
    uint64_t held_bytes;
} mixture;

/* `weights` of 1 to MIXTURE_PARTS parts, above 0 and finite; what counts is their proportion. STATUS_INVALID
 * names, as `part`, the first whose share is none of MIXTURE_PERIOD. End with mixture_close. */
status mixture_open(const double *weights, uint32_t parts, mixture *m, uint32_t *part);
void mixture_close(mixture *m); /* fine on a zeroed or closed one */

/* The part at a place, and which of its turns that is, from 0. */
uint32_t mixture_at(const mixture *m, uint64_t place, uint64_t *turn);

/* The place of a part's turn. STATUS_INVALID where that is no number of a place. */
status mixture_place(const mixture *m, uint32_t part, uint64_t turn, uint64_t *place);
