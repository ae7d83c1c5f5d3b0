/* The front of (peak, seconds) of a space of candidates. Few candidates are looked at.
 *
 * Each stem gives its candidates, most of them by a lower bound alone (search/stem.h).
 *
 * Then the leanest or the fastest candidate by what is known is asked for, again and again. If only its bound
 * is known, the candidate is outlined. If its outline is known, it is planned. If it is planned, it is the
 * answer: all other candidates are bounded from below by something worse. */
#pragma once

#include "search/search.h"
#include "search/space.h"

/* Puts the points of the front that are wished for (NULL: all of them) into `front`: peak rising, seconds
 * falling; between equals the more exact one, then the earlier one. What cannot be planned, or has a peak
 * above `limit`, is left out; so front->count may become 0. Sets candidates, outlined, given_up, planned and
 * held_bytes as well; w->plain is the caller's.
 */
status front_find(const compose_run *r, const space *s, uint64_t limit, const search_wish *w,
                  search_front *front);
