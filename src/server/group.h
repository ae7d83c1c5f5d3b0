/* Several answers to one request: jobs that share a connection, the first one's. A whole answer has them one
 * behind the other, events come as they are written, each from its own ring, and none is cut. */
#pragma once

#include "server/job.h"

/* `j`, which nobody has, becomes one more answer to what `first` asks for, with a seed of its own. */
void group_add(job *first, job *j);

/* All texts are there to be compared: those whose tokens are likelier on average come first. */
bool group_compared(const job *first);
void group_rank(job *first);

/* Bytes that come next; how many that were. */
size_t group_read(job *first, char *out, size_t most);
/* The one that is read. */
const job *group_reads(const job *first);
/* Nothing more comes, once what there is was read. */
bool group_over(const job *first);
/* All have ended, and all is read but what the last one has: the end of the answer is to be written there. */
bool group_ends(const job *first);
job *group_last(job *first);
