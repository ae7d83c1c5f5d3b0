/* Moves pieces (lower/pieces.h) between where they wait and the slots in the pool, on a lane beside
 * computing: a thread of its own where that is a file (transfer_file.c), the device's lane of copies where it
 * is the host's memory (transfer_copy.c), and both where a file is behind that. The lane gets orders in the
 * sequence of pieces. When a program begins, its first pieces are read into all slots. When a piece has been
 * computed on, it is written back, and its slot is filled with the next piece that has none. So reading is a
 * whole buffer ahead of computing, unless what is to be read has still to be written. */
#pragma once

#include "exec/exec.h"
#include "lower/pieces.h"

typedef struct transfer transfer;

/* `slots`: the address of the plan's buffer PLAN_SLOTS; `host`: that of its pool POOL_HOST; `ring`: that of
 * PLAN_RING, or NULL where the plan has none. */
status transfer_open(const plan *p, char *slots, char *host, char *ring, transfer **t);
void transfer_close(transfer *t); /* NULL is fine */

/* A program is about to run: reading starts. From here on each of its steps that reads or writes what is away
 * is run by transfer_run, once and in order. Where moving fails, transfer_failed says so, and what is
 * computed until somebody asks is worth nothing. */
void transfer_begin(transfer *t, const plan_program *next);
/* Piece by piece. */
void transfer_run(transfer *t, uint32_t step, const op_call *call);

/* Between runs: everything is written when it returns (a device's copies are since device.end). STATUS_FAILED
 * if any reading or writing since opening failed. */
status transfer_settle(transfer *t);
/* The same without waiting: of what has been moved so far. */
status transfer_failed(const transfer *t);

/* After transfer_settle, of a plan with a file: a slot of the host's is the caller's, for bytes of the file.
 * `at` is a multiple of PIECES_PAGE, and `bytes`, rounded up to one, are no more than a slot has. */
void *transfer_buffer(const transfer *t);
status transfer_read(transfer *t, uint64_t at, uint64_t bytes);
status transfer_write(transfer *t, uint64_t at, uint64_t bytes);
/* The file's bytes, as the operating system counts them; 0: there is none. */
uint64_t transfer_file_bytes(const transfer *t);
