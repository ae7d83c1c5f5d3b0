/* Moves pieces (lower/pieces.h) between the file and the slots in the pool, on a thread of its own. The
 * thread gets orders in the sequence of pieces. When a program begins, its first pieces are read into all
 * slots. When a piece has been computed on, it is written back, and its slot is filled with the next piece
 * that has none. So reading is a whole buffer ahead of computing, unless what is to be read has still to be
 * written. */
#pragma once

#include "exec/exec.h"
#include "lower/pieces.h"

typedef struct transfer transfer;

/* `slots`: the address of the plan's buffer PLAN_SLOTS. */
status transfer_open(const plan *p, char *slots, transfer **t);
void transfer_close(transfer *t); /* NULL is fine */

/* A program is about to run: reading starts. */
void transfer_begin(transfer *t, const plan_program *next);
/* Runs a step that reads or writes the file, piece by piece. */
void transfer_run(transfer *t, uint32_t step, const op_call *call);

/* Between runs: waits until everything is written. STATUS_FAILED if any reading or writing since opening
 * failed. */
status transfer_settle(transfer *t);
/* Between runs the caller may use the first slot, and read bytes of the file into it or write them from it.
 */
void *transfer_room(const transfer *t);
status transfer_read(transfer *t, uint64_t at, uint64_t bytes);
status transfer_write(transfer *t, uint64_t at, uint64_t bytes);
/* Whether anything has failed so far, without waiting. */
status transfer_failed(const transfer *t);
