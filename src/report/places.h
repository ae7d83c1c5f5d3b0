/* The three kinds of memory that a run has: the device's, the host's where that is another, and files; each
 * with its budget where one was given. */
#pragma once

#include "io/json.h"
#include "report/parts.h"

/* The GPU that the plan is for, as a row and as an object; nothing where it is for none. */
void places_add_gpu(text *out, const plan *p);
void places_put_gpu(json_writer *w, const plan *p);

/* What is planned of each kind. */
void places_add(text *out, const setup *s, const decision *d, const parts_colours *k);

/* The pools, as "pools". `m`: what was measured; NULL before a run. */
void places_put(json_writer *w, const setup *s, const decision *d, const parts_measured *m);

/* "budget_bytes", null where there is none. */
void places_put_budget(json_writer *w, const char *key, uint64_t bytes);
