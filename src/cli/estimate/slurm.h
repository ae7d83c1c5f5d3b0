/* Which nodes of a cluster would do, and the script that asks Slurm for them. */
#pragma once

#include "cli/cluster.h"
#include "cli/estimate/ask.h"

typedef struct {
    cluster of;
    const cluster_nodes *kind; /* of `of` */
    int64_t nodes, gpus;       /* gpus: of each node */
    options with;              /* the question's options with this device and so many of them */
} slurm_choice;

/* The fewest devices that hold what is asked, and among kinds of nodes that need as few, the smallest device.
 * STATUS_NO_FIT: no kind has enough of them. STATUS_INVALID: on no kind can it be asked so. `out` must not
 * move. */
status slurm_choose(const options *o, slurm_choice *out);

/* A line for people on what was chosen. */
void slurm_say(const slurm_choice *c, text *out);

/* The script, for the options of the choice, which is known to fit; `people` gets what is to be known of it.
 */
status slurm_write(const slurm_choice *c, const ask_answer *a, text *out, text *people);
