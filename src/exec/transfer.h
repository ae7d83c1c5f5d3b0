/* Moves pieces (lower/pieces.h) between where they wait and the slots in the pool, on a lane beside
 * computing: a thread of its own where that is a file (transfer_file.c), the device's lane of copies where it
 * is the host's memory (transfer_copy.c). The lane gets orders in the sequence of pieces. When a program
 * begins, its first pieces are read into all slots. When a piece has been computed on, it is written back,
 * and its slot is filled with the next piece that has none. So reading is a whole buffer ahead of computing,
 * unless what is to be read has still to be written. */
#pragma once

#include "exec/exec.h"
#include "lower/pieces.h"

typedef struct transfer transfer;

/* `slots`: the address of the plan's buffer PLAN_SLOTS; `host`: that of its pool POOL_HOST. */
status transfer_open(const plan *p, char *slots, char *host, transfer **t);
void transfer_close(transfer *t); /* NULL is fine */

/* A program is about to run: reading starts. */
void transfer_begin(transfer *t, const plan_program *next);
/* Runs a step that reads or writes what is away, piece by piece. */
void transfer_run(transfer *t, uint32_t step, const op_call *call);

/* Between runs: waits until everything is written. STATUS_FAILED if any reading or writing since opening
 * failed. */
status transfer_settle(transfer *t);
/* Whether anything has failed so far, without waiting. */
status transfer_failed(const transfer *t);

/* Between runs, of a plan with a file: the caller may use the first slot, and read bytes of the file into it
 * or write them from it. */
void *transfer_room(const transfer *t);
status transfer_read(transfer *t, uint64_t at, uint64_t bytes);
status transfer_write(transfer *t, uint64_t at, uint64_t bytes);
/* The file's bytes, as the operating system counts them; 0: there is none. */
uint64_t transfer_file_bytes(const transfer *t);
