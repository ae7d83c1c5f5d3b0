/* Which nodes of a cluster would do: the fewest devices on which something fits, and among kinds of nodes
 * that need as few, the smallest device. What fits is the asker's to say. */
#pragma once

#include "estimate/clusters/cluster.h"

/* Numbers of devices that a framework accepts, ascending. Not every number is: heads may have to divide
 * evenly. */
enum { CHOOSE_MOST_DEVICES = 1024 };
typedef struct {
    int64_t of[CHOOSE_MOST_DEVICES];
    int64_t count; /* at least 1: one device is always accepted */
} device_counts;

typedef struct {
    const char *device; /* this one only; NULL: any */
    int64_t gpus;       /* so many, to be taken or left; 1: as few as do */
    const char *option; /* that says how many, for messages: "--gpus" */
    /* Both with STATUS_INVALID where it can't be asked so of these nodes. */
    status (*counts)(const void *context, const cluster_nodes *k, device_counts *out);
    status (*fits)(const void *context, const cluster_nodes *k, int64_t gpus, bool *fits);
    const void *context; /* of both */
} choose_question;

typedef struct {
    cluster of;
    const cluster_nodes *kind; /* of `of` */
    int64_t nodes, gpus;       /* gpus: of each node */
} choose_answer;

/* Of out->of. STATUS_NO_FIT: no kind has enough of them. STATUS_INVALID: on no kind can it be asked so. `out`
 * must not move. */
status choose_nodes(const choose_question *q, choose_answer *out);
