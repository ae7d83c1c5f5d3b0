/* Switches of a training step that change nothing in what is learned: on a cluster they come before more
 * devices.
 */
#pragma once

#include "cli/options.h"

/* The cheapest first; a set of them is a mask of bits. */
enum {
    CLUSTER_FUSED_UPDATE = 1,
    CLUSTER_FUSED_LOSS = 2,
    CLUSTER_CUT_BATCH =
        4, /* samples one by one, whose gradients add up: not for a batch norm, which sees them all */
    CLUSTER_RECOMPUTE = 8,
    CLUSTER_SWITCHES = 4
};

/* The options with those switches on. Fewer bits come back where a switch is on already, was decided by what
 * is said, or is none of the framework's. */
unsigned cluster_switches_apply(unsigned wanted, options *o);
