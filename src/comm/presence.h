/* Who of the ranks is there, where no MPI can ask them: ranks that NCCL alone has introduced. NCCL waits for
 * ever and doesn't say for whom. So each rank keeps a record of how far it has come, which the others can
 * read. Nothing of it is moved by a transport, and no movement costs a call of the system:
 *
 * - ranks of one host write to pages that they share, a file of rank 0's without a name;
 * - ranks of several hosts have a file each in a folder of the run, and write it twice a second while they
 *   wait. That such a folder shows what other hosts have written within PATIENCE is what an NFS
 *   promises to whoever opens a file anew; it was tried on one machine alone.
 *
 * And each rank learns from its own system when another one of its host has ended, however that came.
 *
 * Only the thread that moves calls these. Without records, or with MPI, they do nothing and know nobody. */
#pragma once

#include "comm/comm.h"
#include "comm/module.h"

/* All ranks call it, once words can be said. Where ranks can't see each other's records it goes on without.
 */
status presence_open(void);
/* The same, of a folder that is one for all; nothing where ranks have records already. */
status presence_in(const char *folder);
void presence_close(void);

void presence_comes_on(void); /* one movement more */
/* This rank waits, so far for so many of at most `limit` seconds. */
void presence_waits(double waited, double limit);

/* One that has ended, or that has said why it can't go on: a sentence of it. Of one that has ended it is said
 * from GRACE seconds after that was first seen: what it has sent before may be on its way. `at_once`: not so.
 */
bool presence_is_over(bool at_once, char sentence[COMM_SENTENCE]);

/* Asks for PATIENCE seconds whose records go on. The rank that has come least far of those whose don't, or
 * COMM_ALL_ANSWER, or COMM_NOBODY_ASKED without records. */
int presence_find_silent(void);
const char *presence_host(int rank); /* NULL: not known */

/* This rank can't go on: others hear why, and end with the same words. _names: it is another rank's fault. */
void presence_fails(const char *sentence);
void presence_names(const char *sentence);

/* Of what ends all ranks one of them speaks. */
void presence_speaks(void);
bool presence_has_spoken(void); /* one of them */
int presence_before(void);      /* ranks before this one that have not ended; COMM_NOBODY_ASKED */
