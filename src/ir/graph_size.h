/* How large graphs are, and may become. */
#pragma once

#include <stdint.h>

/* How many of each, and bytes of names and attributes. */
typedef struct {
    uint32_t tensors, nodes, edges, bytes;
} graph_size;

/* Memory that a graph may take: so many bytes in all, where each tensor, node and edge takes so many. */
typedef struct {
    uint64_t bytes; /* 0: there is no limit */
    uint32_t tensor, node, edge;
} graph_room;

/* At least as large as either. */
static inline graph_size graph_size_larger(graph_size a, graph_size b) {
    return (graph_size){ a.tensors > b.tensors ? a.tensors : b.tensors, a.nodes > b.nodes ? a.nodes : b.nodes,
                         a.edges > b.edges ? a.edges : b.edges, a.bytes > b.bytes ? a.bytes : b.bytes };
}

static inline uint64_t graph_size_bytes(const graph_size *s, const graph_room *each) {
    return s->tensors * (uint64_t)each->tensor + s->nodes * (uint64_t)each->node +
           s->edges * (uint64_t)each->edge + s->bytes;
}

/* The room of each graph that this thread opens from now on. A search holds no graph that it has no memory
 * for. */
void graph_limit(const graph_room *room);
graph_room graph_limit_now(void);
