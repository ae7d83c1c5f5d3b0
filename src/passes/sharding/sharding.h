/* The parts of the pass `sharding`: its settings (sharding.c), what is cut (cut.c), how weights are fetched
 * (fetch.c), how sums travel and what updates run on (share.c); and how one sum goes from rank to rank
 * (chain.c). */
#pragma once

#include "ir/rewrite.h"
#include "passes/pass.h"

/* What a rank has a share of; of a chain it has none. */
typedef enum { SHARE_SUMS, SHARE_STATES, SHARE_WEIGHTS, SHARE_CHAIN } share_stage;

typedef struct {
    share_stage stage;
    int64_t ahead; /* fetches that are begun before the one that is waited for */
    int64_t keep;  /* blocks, from the last one on, whose fetched weights stay from forward to backward */
    int64_t group; /* ranks that have the shares of one copy; 0: all */
    int64_t late;  /* not 0: groups are told sums when all of them have been handed on, not in between */
} share_setting;

enum {
    CELL = 4096,    /* elements: shares are whole cells, equal on all ranks, ... */
    SMALL = 65536,  /* ... and what has fewer elements than this stays whole */
    MOST_AHEAD = 8, /* fetches at once: beside them a sum travels (COMM_AT_ONCE) */
};

static inline int64_t share_of(int64_t elements, int64_t ranks) {
    int64_t cells = (elements + CELL - 1) / CELL;
    return (cells + ranks - 1) / ranks * CELL;
}

static inline bool share_is_large(const graph *g, tensor_id t) {
    return t && shape_elements(graph_shape(g, t)) >= SMALL;
}

/* t of the new graph, which stands for `like` of the old one, is a gradient where that is. */
static inline tensor_id share_flagged(const rewrite *r, tensor_id t, tensor_id like) {
    if (t) graph_tensor(r->out, t)->flags |= graph_tensor(r->in, like)->flags & TENSOR_GRADIENT;
    return t;
}

/* ---- what is cut ---- */

/* By tensor of g. cut: of a source that is kept as a share, how many elements of what is cut one of its
 * elements stands for (1, or STATE_BLOCK for scales); 0: it is whole. Sums of large gradients are cut in any
 * case. in_parts: does the update of what lives in this storage run on shares? */
status cut_find(const graph *g, share_stage stage, int64_t *cut, bool *in_parts);

/* Is there a large weight whose update runs on shares? *name: one whose update can't; "" where there is none.
 */
bool cut_any(const graph *g, const char **name);

/* ---- weights that are fetched ---- */

typedef struct fetcher fetcher;

/* For weights that are kept as shares: `r` is being rewritten, its sources are there. */
status fetch_open(rewrite *r, const share_setting *s, const int64_t *cut, fetcher **out);
void fetch_close(fetcher *f);

/* Is the node made anew wherever it is read, so that it has no place of its own? */
bool fetch_takes(const fetcher *f, node_id id);

/* Before node `id` is copied: its inputs that are shares of weights, or made of such, are whole in r->map. */
void fetch_inputs(fetcher *f, node_id id);

/* ---- sums that go from rank to rank ---- */

/* Why sums of this training graph would have other bits than one process; NULL: they have the same. */
const char *chain_refusal(const graph *g, const pass_context *c);

status chain_run(const graph *in, const pass_context *c, graph *out);

/* ---- all of it ---- */

status share_run(const graph *in, const share_setting *s, const pass_context *c, graph *out);
