/* --cluster where snug plans: how fast ranks of such nodes reach each other. */
#pragma once

#include "cli/options.h"
#include "estimate/clusters/cluster.h"
#include "run/links.h"

/* Sets o->run.links, which are `said` from then on, to those of the kind of nodes that has --gpu, or of the
 * first one. STATUS_INVALID with a sentence where there is one rank, where the file says nothing of links, or
 * where no such node has so many devices as a host would have ranks. Without --cluster it does nothing. */
status cluster_links_choose(options *o, links_said *said);

/* The same for nodes that were chosen already, where the file says how fast their links are; false: it says
 * nothing. `name` is the cluster's, and stays with `said`. */
bool cluster_links_take(options *o, const cluster_nodes *kind, const char *name, links_said *said);
