/* What the parts of the engine share. */
#pragma once

#include "infer/blocks.h"
#include "infer/engine.h"
#include "infer/lookup.h"

enum { ENGINE_SENTENCE = 160 };

/* A place for a text. Its line of the table has blocks [first, blocks), of which those below done /
 * CACHE_BLOCK are full and end with `chain`; `promised` more are left for it whatever others do. Those before
 * `first` lie behind all that its next rows see, and were given back. */
typedef struct {
    bool used, going, paused;
    bool waits;          /* it was put back, and has no blocks */
    int32_t *ids;        /* prompt and what was drawn; room for text_length + 1 */
    int64_t count, done; /* ids; of these in the cache, or in the step that is gathered */
    int64_t reached;     /* that were there when it was put back */
    int64_t prompt;      /* ids that it began with; of these */
    int64_t cached;      /* were in the cache */
    int64_t most;        /* ids at which it ends */
    int64_t first, blocks, promised;
    int64_t floor;         /* no row of this step, or the next one, is before this position */
    bool stays;            /* it keeps all its blocks to its end: no row stands so far behind its beginning */
    int32_t *source;       /* room for source_length */
    int64_t source_count;  /* 0: none */
    int64_t source_blocks; /* that it has: all, or none where it has to be read again */
    bool source_read, source_shares;
    bool source_known; /* it had been read, or found, when the text was put back */
    uint64_t chain, owner;
    bool shares;
    bool scores;    /* ids of its prompt are told: */
    int64_t scored; /* its first rows, of which that was done */
    lookup lookup;
    int64_t guessed, right; /* rows of this step for ids that were guessed; of these came true */
    sample_options sample;
    constraint *constraint;        /* NULL: none */
    pooled *pooled;                /* NULL: tokens are drawn */
    char failure[ENGINE_SENTENCE]; /* "": none */
    int32_t adapter;               /* its number; -1: none */
    void *context;
} engine_text;

/* Values of a program that the host writes and reads. */
typedef struct {
    exec_value tokens, position, text, slot, table, wanted, sources, source_last, adapter, place, last,
        logits, hidden;
} engine_program;

/* What is drawn from logits of the step. */
typedef struct {
    sample_drawn drawn;
    status result;
} engine_draw_of;

/* What a step hands in, by row. */
typedef struct {
    int32_t *tokens, *position, *text, *slot, *wanted, *adapter;
    int32_t *last;  /* position of its source, or of its text where that is read whole, that a row sees */
    int32_t *place; /* of models that read whole (models/paged.h); else NULL */
    int64_t count, drawn; /* rows; those of them that a token is drawn from, in `wanted` */
    bool reads;           /* they are of sources */
} engine_rows;

struct engine {
    engine_options options;
    const model_folder *folder;
    engine_sizes sizes;
    compose_steps steps, source_steps;  /* the programs: these, and behind them those that read sources */
    int64_t text_blocks, source_blocks; /* of a line of the table of answers, and of that of sources */
    plan plan;
    exec *exec;
    engine_program programs[2 * COMPOSE_MOST_ROWS];
    blocks blocks;
    int32_t *table;   /* (texts, text_blocks) */
    int32_t *sources; /* (texts, source_blocks) */
    int32_t *numbers; /* that the arrays of `step` are parts of */
    int32_t *ids;     /* of all texts, and of their sources */
    engine_text *texts;
    int32_t *order; /* those that are used, as they came */
    int64_t order_count;
    engine_rows step;
    bool read_before;                 /* the step before it read sources */
    engine_draw_of *draws;            /* by the place of logits */
    const sample_drawn *handed;       /* out, in `drew` */
    char *sampling;                   /* of each thread: */
    uint64_t sampling_bytes, mask_at; /* in these: where the mask of what is allowed stands */
    int64_t promised, doubles;        /* blocks, to all texts; and see engine_blocks.c */
    double share;                     /* of the tokens that they might have, that texts got of late */
    engine_stats stats;               /* what is counted; what there is now is looked up */
};

/* Rows of a step of any kind, at most. */
static inline int64_t engine_most_rows(const engine_sizes *s) {
    return s->rows > s->source_length ? s->rows : s->source_length;
}

/* Rows that logits are made of, at most. */
static inline int64_t engine_wanted(const engine_sizes *s) { return s->texts * (1 + s->guesses); }

/* Not all of its prompt was told. */
static inline bool engine_is_scoring(const engine_text *t) { return t->scores && t->scored < t->prompt; }

/* ---- engine_blocks.c ---- */

/* Finds of the blocks behind those that the text has what is known, takes those of its source, and promises
 * the rest that it needs to have `most` ids, the last of which is not read. False: so many are not left, and
 * nothing has changed. */
bool engine_reserve(engine *e, int32_t number, int64_t most);
int64_t engine_blocks_for(int64_t most); /* that such a text has had at its end, given back or not */
/* Blocks that a text has at once from now on, at most, until it has `most` ids: it has `count`, none of its
 * rows is before `floor`, and its first `first` blocks were given back. */
typedef struct {
    int64_t first, floor, count, most;
} engine_stretch;
int64_t engine_needs(const engine_sizes *s, const engine_stretch *x);
/* Those behind the first `keep`, the last first, and what was promised. */
void engine_give_back(engine *e, int32_t number, int64_t keep);
/* After a step: blocks behind all that its next rows see. */
void engine_give_front(engine *e, int32_t number);
/* Who lives until `most` ids keeps its blocks, or does not. The blocks that text `number` has are another's
 * from now on, for whom so many more must be left than engine_left_behind says. */
bool engine_stays(const engine_sizes *s, int64_t most);
void engine_set_stays(engine *e, int32_t number, bool stays);
int64_t engine_more_for(const engine *e, int32_t number, int64_t keep, bool stays);
/* Blocks that are left, and promised to nobody, once those behind the first `keep` are given back. */
int64_t engine_left_behind(const engine *e, int32_t number, int64_t keep);
/* A block for position `done` of the text; false: none is left that was not promised to others. */
bool engine_grow(engine *e, int32_t number);
/* The next of its ids is at the end of its blocks, and they are known: their block becomes the text's. */
bool engine_find_next(engine *e, int32_t number);
/* One more of its ids is in the cache. */
void engine_advance(engine *e, int32_t number);
/* A block for the oldest, from texts that came after it. */
bool engine_make_room(engine *e, int32_t number);
/* Texts that were put back, in the order in which they came; true: none waits any more. */
bool engine_bring_back(engine *e);
static inline int32_t *engine_line(const engine *e, int32_t number) {
    return e->table + number * e->text_blocks;
}

/* ---- engine_sources.c ---- */

/* Blocks for its source that it does not have; none where another text of its group has the same source. */
int64_t engine_source_needs(const engine *e, int32_t number);
void engine_source_take(engine *e, int32_t number); /* so many, which must be left, or another text's */
void engine_source_give(engine *e, int32_t number); /* all of them */
/* Rows of sources that are to be read, of one or more; false: there are none. */
bool engine_source_gather(engine *e);
/* It has a source that is not read. */
static inline bool engine_source_waits(const engine_text *t) { return t->source_count && !t->source_read; }
static inline int32_t *engine_source_line(const engine *e, int32_t number) {
    return e->sources + number * e->source_blocks;
}
