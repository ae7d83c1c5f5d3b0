/* What an engine has done, and what it has now: numbers for whoever watches a server. */
#pragma once

#include <stdint.h>

typedef struct {
    /* Since its start. */
    uint64_t steps, rows;     /* rows: those that stood for a token */
    uint64_t begun, finished; /* texts; finished: with all their tokens, or ended by `drew` */
    uint64_t failed;          /* texts that ended because their numbers were not finite */
    uint64_t prompt_tokens;   /* of the texts that began */
    uint64_t cached_tokens;   /* of these: were in the cache, and not computed again */
    uint64_t drawn;           /* tokens that were added */
    uint64_t put_back;        /* texts that gave up their blocks, to be computed again later */
    uint64_t again_tokens;    /* tokens that were computed again for them */
    uint64_t proposed;        /* tokens that were looked up and put into a step unasked */
    uint64_t accepted;        /* of these: were drawn indeed */
    /* Now. */
    int64_t texts;   /* that have not ended; of them */
    int64_t waiting; /* were put back, and wait for blocks */
    int64_t blocks;  /* of the cache: each is one of the following three */
    int64_t blocks_used;
    int64_t blocks_kept;     /* free, with what somebody may ask for again */
    int64_t blocks_free;     /* free, with nothing of use */
    int64_t blocks_promised; /* of kept and free ones: texts will get them when they need them */
} engine_stats;

typedef struct engine engine;

/* Not while a text begins or leaves, or a step is gathered or drawn; a step may compute meanwhile. */
void engine_stats_of(const engine *e, engine_stats *out);
