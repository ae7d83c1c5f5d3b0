/* Many texts at once over one cache in blocks of CACHE_BLOCK positions: what generating and serving share.
 *
 * A step has rows: one of every text that writes, then as much of the prompts as is left, in the order in
 * which texts came. It runs the smallest of the plan's programs that holds them. A text's logits have the
 * same bits whatever else is in its steps (models/paged.h), and what is drawn for it depends on them, its
 * options and its position: never on its neighbours.
 *
 * Admission is certain: a text begins when there are blocks for its prompt and for every token that it may
 * get. So whoever has begun ends as if alone, and nobody is put back. Or it is expected: room for as many
 * tokens as texts got of late is enough. Where the oldest then finds no block, the text that came last gives
 * its own up. It comes back before any other begins, once it is certain to end, reads what it had been given
 * as if that were its prompt, and goes on with the same bits.
 *
 * Full blocks of ids are shared by texts of one group, and stay after them until others need the room
 * (infer/blocks.h). Of a model whose layers all have windows a text gives blocks back that lie behind them,
 * and is admitted to what it has at once. What a text is likely to go on with can be looked up in itself
 * (infer/lookup.h) and stand in a step beside the last of its ids; of what is drawn then, as many tokens
 * count as were guessed.
 *
 * A model that answers reads the text of a request first, its source, at once: a source is not cut into
 * steps. Several that fit into a step are read side by side, and between two such steps texts that write get
 * one of theirs. A source has blocks of its own, which texts of one group share where they have the whole of
 * it in common, as long as one of them is there; the text of the engine is the answer, which shares none.
 *
 * A model that reads texts whole (model.reads_whole) has vectors of them alone. Each has all its rows in one
 * step, which has room for the longest one, and its blocks are of use until then: so there are few.
 *
 * In this order: engine_open, engine_plan, engine_start; then texts and steps; engine_close in any case. */
#pragma once

#include "exec/exec.h"
#include "infer/constraint/constraint.h"
#include "infer/engine_stats.h"
#include "infer/model_folder.h"
#include "infer/pooling.h"
#include "infer/sample.h"

typedef struct {
    const char *device; /* that computes: device_find; NULL: auto */
    const device *on;   /* instead of it: planned for, and run where it is here; NULL: that one */
    int threads;        /* 0: all there are */
    uint64_t memory;    /* budget in bytes; 0 or UINT64_MAX: unlimited */
} engine_options;

/* What is planned for. */
typedef struct {
    int64_t texts;         /* at once, at most */
    int64_t text_length;   /* positions of one, at most */
    int64_t source_length; /* ids of a source, at most; 0: the model has none */
    int64_t rows;   /* of a step, at most; but room for the longest text that is read whole. Steps of sources
                       have source_length */
    int64_t blocks; /* of the cache, at most; but room for */
    int64_t least_texts;   /* so many of the full length, with their sources */
    int64_t window;        /* of the model, */
    bool whole;            /* and whether it reads texts whole: set by the plan */
    bool exact;            /* texts and rows as they are, or not at all */
    dtype cache;           /* type of keys and values */
    sample_needs sampling; /* what drawing may be asked for */
    bool constrained;      /* texts may have a constraint */
    bool pools;            /* texts may be asked for their vector */
    bool expects;          /* admission is expected, not certain */
    int64_t guesses;       /* tokens of a text that a step has unasked, at most */
    uint64_t held_bytes;   /* memory of the caller's own, a part of the plan */
} engine_sizes;

status engine_open(const engine_options *o, const model_folder *f, engine **out); /* f must outlive it */
void engine_close(engine *e);

/* Blocks that a text has at once, at most: of `count` ids, to become `most`, the last of which is not read.
 * All of them, or where all layers have windows those of a window and of what a step adds. */
int64_t engine_sizes_blocks(const engine_sizes *s, int64_t count, int64_t most);
int64_t engine_blocks(int64_t positions);            /* that so many positions lie in: all of a source's */
int64_t engine_sizes_longest(const engine_sizes *s); /* of a text of the full length and its source */

/* That all texts of the full length have a use for together; where they are read whole those of a step. */
int64_t engine_sizes_useful(const engine_sizes *s);

/* The most of what `wanted` asks for that the budget has room for: rows and texts are halved and blocks left
 * away until it fits. STATUS_NO_FIT with the numbers where not even one text, or least_texts, does. */
status engine_plan(engine *e, const engine_sizes *wanted);
const engine_sizes *engine_planned(const engine *e);
uint64_t engine_planned_bytes(const engine *e);
const plan *engine_plan_of(const engine *e);

status engine_start(engine *e); /* allocates, and loads the weights */
/* What the programs that have run took, by category; not while one runs. Nothing of one that never started.
 */
status engine_measure(const engine *e, exec_measured *out);

/* ---- texts ---- */

typedef struct {
    const int32_t *ids;    /* the prompt; copied */
    int64_t count;         /* at least 1 */
    const int32_t *source; /* of a model that answers: what is answered; copied */
    int64_t source_count;  /* from 1 to source_length */
    int64_t tokens; /* to add, at least 1; count + tokens <= text_length + 1: the last one is not read */
    const sample_options *sample;
    constraint *constraint; /* which tokens may come; lent, begun, and kept up to date; NULL: any */
    pooled *pooled;  /* lent, begun: no token is drawn, and the text becomes this vector. `tokens` is 1 */
    bool scores;     /* ids of the prompt are told, with their logarithms, before one is drawn */
    uint64_t group;  /* below 2^48: texts of one group share blocks of equal ids; or ENGINE_ALONE */
    int32_t adapter; /* its number in the folder and one; 0: none */
    void *context;
} engine_request;

#define ENGINE_ALONE UINT64_MAX
enum { ENGINE_NONE = -1, ENGINE_POOLED = -2 };
int32_t
engine_room(const engine *e); /* the number that the next text gets, below sizes.texts; or ENGINE_NONE */
/* The text's number; ENGINE_NONE: there is no room for it now. */
int32_t engine_begin(engine *e, const engine_request *r);
bool engine_ever(const engine *e, const engine_request *r); /* would there be, if it were alone */
/* Instead of begin: text `number`, which has ended and was not left, goes on as r, which has no source. What
 * its ids begin with as before is not computed again; returns how many, ENGINE_NONE where there is no room.
 */
int64_t engine_again(engine *e, int32_t number, const engine_request *r);
/* Ends a text between steps or within `drew`; its blocks are free for others once it is left. */
void engine_end(engine *e, int32_t number);
void engine_leave(engine *e, int32_t number);

/* A text that is paused has no rows until it goes on. */
void engine_pause(engine *e, int32_t number, bool paused);
bool engine_goes_on(const engine *e, int32_t number); /* it has not ended */
/* Why the text ended although neither drew, its tokens nor anybody ended it: its numbers are not finite. A
 * sentence that stays until it is left; NULL: it did not. */
const char *engine_failure(const engine *e, int32_t number);
int64_t engine_cached(const engine *e, int32_t number); /* ids of its prompt that were in the cache */

/* Runs a step, and draws. For every token drew(context of the request, id) is called; *over: the text ends
 * with it. A text that has all its tokens ends by itself, after that call; so does one whose constraint
 * allows no token, with the id ENGINE_NONE, and one that is pooled, with ENGINE_POOLED. One whose numbers are
 * not finite ends without it. Where a prompt is told drew is called first for each of its ids but the first,
 * in their order: as many in a step as it has logits for; and for none more of the step once the text is
 * paused, which `drew` may do. */
typedef status (*engine_drew)(void *context, int32_t id, bool *over);
status engine_step(engine *e, engine_drew drew);
/* The same in three parts: the rows of the next step, for program *k, or false: there is nothing to do; the
 * step, and what is drawn, on all threads, during which nobody may touch the engine; handing it out. */
bool engine_gather(engine *e, uint32_t *k);
status engine_compute(engine *e, uint32_t k);
status engine_draw(engine *e, uint32_t k, engine_drew drew);
/* Within `drew`: what was drawn, with what the text's options ask for beside. */
const sample_drawn *engine_drawn(const engine *e);
bool engine_has_read(const engine *e); /* the step that was gathered last is one of sources */
int64_t engine_going(const engine *e); /* texts that have not ended */
