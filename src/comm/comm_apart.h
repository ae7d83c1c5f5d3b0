/* What comm.c and comm_apart.c have of each other. */
#pragma once

#include "comm/comm.h"
#include "comm/module.h"

double comm_limit_seconds(void);
status comm_take_words(int world); /* the room of words; comm_close ends it */
void comm_be(comm_ranks ranks);    /* on this host */

/* What this one of so many ranks has of a movement with rank r; with itself as well, which is copied. */
comm_pair comm_part(const comm_order *o, int r, comm_ranks ranks);

/* By MPI, where it is there and moves nothing meanwhile, and without it by presence.h. answer: a rank that
 * asks is told that this one is there. find_silent asks all others: the first that gives no answer, or one of
 * these. */
enum { COMM_ALL_ANSWER = -1, COMM_NOBODY_ASKED = -2 };
void comm_answer(void);
int comm_find_silent(void);

/* As comm_share, by NCCL. */
status comm_apart_share(const void *mine, void *all, uint64_t bytes);
status comm_apart_pass(const comm_piece *list, int count); /* as comm_pass */
void comm_apart_close(void);
