/* NCCL, by which ranks on GPUs move: opened when the program runs, so that one process loads nothing and a
 * build needs neither the library nor its header. One communicator; it moves bytes and adds nothing.
 *
 * What of its interface is used stands in nccl_calls.h. A failure is STATUS_FAILED or, before anything runs,
 * STATUS_INVALID, with a sentence. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "comm/module.h"

enum { NCCL_ID_BYTES = 128, NCCL_LEAST = 2700 /* 2.7: the first with ncclSend and ncclRecv */ };

/* Finds the library. STATUS_INVALID: it is not there, or too old. */
status nccl_find(void);

/* An id that joins those who have it. One rank asks and tells the others; with NCCL_COMM_ID in the
 * environment each may ask, and gets the same. */
status nccl_id(unsigned char id[NCCL_ID_BYTES]);

/* Waits for all ranks; the device that this one computes on is current. */
status nccl_join(const unsigned char id[NCCL_ID_BYTES], int rank, int world);

/* Both are put on a stream, in the same order on all ranks, and return before anything has moved. `all` has
 * this rank's bytes already, at rank * bytes. A pair without bytes is left out. */
status nccl_gather(void *all, uint64_t bytes, void *stream);
status nccl_swap(const comm_pair *pairs, void *stream);

/* What has gone wrong since, on this rank or another. */
status nccl_failed(void);

void nccl_close(void);   /* all ranks; also where nothing is open */
void nccl_abandon(void); /* whatever is under way ends, and moves nothing */
