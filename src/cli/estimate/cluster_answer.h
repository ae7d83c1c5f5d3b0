/* Which nodes of a cluster hold what is asked, and the script that asks Slurm for them. */
#pragma once

#include "cli/estimate/ask.h"
#include "run/links.h"

typedef struct {
    choose_answer nodes;
    links_said links;  /* of these nodes, for snug's own ranks: with.run.links are these */
    options with;      /* the question's options with this device, so many of them, and what is switched on */
    unsigned switched; /* cluster_switches.h: on though nobody asked, since fewer devices do with it */
    int64_t as_asked;  /* devices without; 0: too few there are */
    bool counted;      /* the question says how many devices: they need not be the fewest */
} cluster_answer;

/* As choose_nodes. `out` must not move. */
status cluster_answer_find(const options *o, cluster_answer *out);

/* A line for people on what was chosen. */
void cluster_answer_say(const cluster_answer *c, text *out);

/* The script, for the options of the choice, which is known to fit; `people` gets what is to be known of it.
 */
status cluster_answer_write(const cluster_answer *c, const ask_answer *a, text *out, text *people);
