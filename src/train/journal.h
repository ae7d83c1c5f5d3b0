/* What a run writes down as it goes on: DIR/metrics.jsonl, a line per step and per validation, and an event
 * file for TensorBoard with the same numbers. A thread of its own writes; the run hands over a record and
 * goes on, so that a slow disk costs no step any time (a disk that stands still makes it wait when the queue
 * is full: no line is ever dropped).
 *
 * metrics.jsonl is the history of one run, however often it was stopped and resumed: going on after step N
 * cuts off what was written behind that step. Each start adds a line of its own, and so does each end; a
 * history without an end is that of a run that goes on or was killed. docs/formats.md has the lines.
 *
 * All memory is taken at the beginning: JOURNAL_BYTES, part of what every plan reserves for tables. */
#pragma once

#include "train/train.h"

typedef struct journal journal;

enum { JOURNAL_QUEUE = 256, JOURNAL_BYTES = 192 << 10 };

/* `done`: steps that the run has behind it; 0 begins a new history. `*out` is NULL, which all calls below
 * accept, where the run writes nothing. */
status journal_open(const setup *s, const decision *d, const identity *run, int64_t done, journal **out);

/* STATUS_FAILED as soon as something could not be written. */
status journal_step(journal *j, const train_progress *p);
status journal_evaluated(journal *j, int64_t step, double loss);

/* Returns when all of it is with the operating system: before a checkpoint that counts on it. */
status journal_flush(journal *j);

/* Writes how it ended and closes: `outcome` of the run after `step` steps. A journal that is closed without
 * an end says the run was killed. STATUS_FAILED when something could not be written. */
status journal_close(journal *j, status outcome, int64_t step);
