/* What a plan for a GPU has that no GPU of its capability has confirmed (base/confirmed.h): people are told
 * when it is chosen, since it was tested without one. */
#pragma once

#include "io/json.h"
#include "plan/plan.h"

/* A bit for each confirm_kind. 0: there is none; on a CPU always. */
uint32_t unconfirmed_of(const plan *p);

/* "No GPU of capability 9.0 has confirmed products on tensor cores and captured programs: they were tested
 * without one"; "" where there are none. */
enum { UNCONFIRMED_BYTES = 512 };
const char *unconfirmed_text(uint32_t kinds, uint32_t capability, char said[UNCONFIRMED_BYTES]);

/* "unconfirmed": their names. */
void unconfirmed_put(json_writer *w, uint32_t kinds);
