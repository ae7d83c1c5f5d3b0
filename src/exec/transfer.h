/* Pieces on their way between the file and the slots in the pool, on a thread of their own. The thread is
 * told what to do in the order of the pieces: the first of a program are read as soon as it begins, and
 * whenever one has been used it is written back and its slot is filled with the next that has none. So
 * reading stays a whole buffer ahead, beside whatever is computed, as far as what is to be read has been
 * written. */
#pragma once

#include "exec/exec.h"
#include "lower/pieces.h"

typedef struct transfer transfer;

/* `slots`: the address of the plan's buffer PLAN_SLOTS. */
status transfer_open(const plan *p, char *slots, transfer **t);
void transfer_close(transfer *t); /* NULL is fine */

/* A run of a program begins: reading starts. */
void transfer_begin(transfer *t, const plan_program *next);
/* Runs a step that has something in the file, piece by piece. */
void transfer_run(transfer *t, uint32_t step, const op_call *call);

/* Between runs. All is written that was used; STATUS_FAILED where anything since opening could not be. */
status transfer_settle(transfer *t);
/* The first slot, which is the caller's until the next run, and bytes of the file to and from it. */
void *transfer_room(const transfer *t);
status transfer_read(transfer *t, uint64_t at, uint64_t bytes);
status transfer_write(transfer *t, uint64_t at, uint64_t bytes);
/* What has failed so far, without waiting. */
status transfer_failed(const transfer *t);
