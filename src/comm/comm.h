/* The ranks of a run and what they do together, behind one table of functions per transport: another
 * transport is one more file and one more line in comm.c.
 *
 * What exists: `self`, a run of one rank, where a sum over all ranks is the value itself. MPI and NCCL do not
 * exist yet, nor does anything in the library that needs them. */
#pragma once

#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

typedef enum { COMM_SUM, COMM_MAX } comm_reduction;

/* Elements in the memory of this rank; the other ranks have as many of the same type. */
typedef struct {
    void *data;
    int64_t count;
    dtype dtype;
} comm_buffer;

typedef struct comm comm;

typedef struct {
    const char *name;
    status (*open)(comm *c); /* sets rank, world and state */
    void (*close)(comm *c);
    status (*all_reduce)(const comm *c, const comm_buffer *b, comm_reduction r);
    status (*broadcast)(const comm *c, const comm_buffer *b, int root);
    status (*barrier)(const comm *c);
} comm_transport;

extern const comm_transport comm_self;

struct comm {
    const comm_transport *transport;
    int rank, world; /* this one, counted from 0; how many there are */
    void *state;     /* the transport's own */
};

/* STATUS_INVALID when this build has no such transport. Close also after failure. */
status comm_open(const char *transport, comm *c);
void comm_close(comm *c); /* fine on a zeroed or closed one */

/* Called by all ranks in the same order; each returns when its own part is done. */
status comm_all_reduce(const comm *c, const comm_buffer *b, comm_reduction r); /* in place */
status comm_broadcast(const comm *c, const comm_buffer *b, int root);          /* from rank `root` to all */
status comm_barrier(const comm *c);
