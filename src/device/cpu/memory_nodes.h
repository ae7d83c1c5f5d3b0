/* Memory nodes: on a server with several sockets each has memory of its own, and a page lies on the node
 * whose processor touches it first. A pool is touched by one thread, so all of it would lie on one node, and
 * the threads of the others would read through the link between sockets. Which thread reads which part of a
 * tensor changes from op to op, so pages are dealt to the nodes in turns. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

enum { MEMORY_NODES_MOST = 1024, MEMORY_NODES_WORDS = MEMORY_NODES_MOST / 64 };

/* The nodes of the processors in `mask`, bit by bit, and how many they are; 0 where the system does not tell.
 * `root` stands before the paths that are read ("" but in tests). */
int memory_nodes_of(const char *root, const cpu_set_t *mask, uint64_t nodes[MEMORY_NODES_WORDS]);

/* Pages of this range, none of them touched yet, are to lie on these nodes in turns. False where the system
 * refuses: it has no such nodes, or a container forbids the call. The range is as usable as before. */
bool memory_nodes_deal(void *data, uint64_t bytes, const uint64_t nodes[MEMORY_NODES_WORDS]);

/* The same with the nodes that this process may compute on. Left alone where that is one, and where the user
 * has said where memory is to lie (numactl). How many nodes share the range: 1 where it was left alone. */
int memory_nodes_spread(const char *root, void *data, uint64_t bytes);

/* How many would share a range. */
int memory_nodes_shared(const char *root);
