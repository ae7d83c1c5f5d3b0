/* Proves that a graph is sound. Lowering asks that of every graph that is planned, not of those outlined:
 * - every input is produced before it is read;
 * - a value whose memory is written over is read by nobody afterwards, views and parts included, nor by
 * another input of the node that writes, nor by the host;
 * - persistent sources have unique names; parts of a gather have one place each. */
#pragma once

#include "ir/graph.h"

status verify_graph(const graph *g);
