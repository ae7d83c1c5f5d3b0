/* Programs that start others: srun, torchrun, accelerate, python, env and so on. */
#pragma once

#include "admit/admit.h"
#include "admit/shell.h"
#include "admit/trainer.h"

typedef struct {
    trainer_words words; /* what is left */
    int64_t processes;   /* on a node, as a launcher says; 0: none did */
    int64_t nodes;       /* likewise */
    bool one_node;       /* it starts them on one node, unless `nodes` says more */
    bool of_all_nodes;   /* `processes` is of all nodes */
    bool all;            /* one process for each device */
    bool launched;       /* one that starts a process a device */
    bool line_unsure;    /* something of `line` is not known */
    const char *line;    /* of `bash -c`: a script; its words are in `words` behind it */
    const char *script;  /* of `bash FILE`: a file with one */
} launch_found;

/* Takes launchers off the front, one after the other. What they say of processes and sharding goes to `found`
 * and `out`. */
void launch_take(const resources *asks, const trainer_files *files, launch_found *found, recipe *out);
