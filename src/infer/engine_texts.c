/* Texts: how they begin, go on and leave. */
#include <math.h>
#include <string.h>

#include "infer/engine_internal.h"
#include "ops/cache_write/cache_write.h"

static bool is_for(const engine *e, const engine_request *r) {
    bool sourced = e->sizes.source_length ? r->source_count > 0 : !r->source_count;
    return sourced && r->source_count <= e->sizes.source_length &&
           r->count + r->tokens <= e->sizes.text_length + 1;
}

bool engine_ever(const engine *e, const engine_request *r) {
    int64_t own = engine_sizes_blocks(&e->sizes, r->count, r->count + r->tokens);
    return is_for(e, r) && own + engine_blocks(r->source_count) <= e->sizes.blocks;
}

/* Ids that there must be room for before it begins. */
static int64_t admitted(const engine *e, const engine_request *r) {
    if (!e->sizes.expects) return r->count + r->tokens;
    return r->count + (int64_t)ceil(e->share * (double)r->tokens);
}

/* Whose blocks are alike: keys and values are those of one adapter. */
static uint64_t owner_of(const engine_request *r) { return r->group | (uint64_t)r->adapter << 48; }

/* The text is what r asks for, but for blocks: it goes on with those that it has. */
static void set_up(engine *e, int32_t number, const engine_request *r) {
    engine_text *t = &e->texts[number];
    memcpy(t->ids, r->ids, (size_t)r->count * sizeof *t->ids);
    if (r->source_count) memcpy(t->source, r->source, (size_t)r->source_count * sizeof *t->source);
    t->source_count = r->source_count, t->source_blocks = 0;
    t->source_read = t->source_known = false;
    t->source_shares = r->group != ENGINE_ALONE;
    t->count = t->prompt = r->count, t->most = r->count + r->tokens;
    engine_set_stays(e, number, engine_stays(&e->sizes, t->most));
    t->shares = r->group != ENGINE_ALONE && !r->source_count && !e->sizes.whole, t->owner = owner_of(r),
    t->adapter = r->adapter - 1;
    t->cached = t->reached = 0;
    t->lookup = (lookup){ 0 }, t->guessed = t->right = 0;
    t->sample = *r->sample, t->constraint = r->constraint, t->context = r->context;
    t->pooled = r->pooled, t->scores = r->scores, t->scored = 0;
    t->failure[0] = 0;
}

static void start(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    t->used = t->going = true, t->paused = t->waits = false;
    e->order[e->order_count++] = number;
    e->stats.begun++, e->stats.prompt_tokens += (uint64_t)(t->source_count ? t->source_count : t->count);
}

/* It is no more among those that came. */
static void leave_order(engine *e, int32_t number) {
    int64_t k = 0;
    while (e->order[k] != number) k++;
    for (e->order_count--; k < e->order_count; k++) e->order[k] = e->order[k + 1];
}

int32_t engine_room(const engine *e) {
    for (int32_t i = 0; i < e->sizes.texts; i++)
        if (!e->texts[i].used) return i;
    return ENGINE_NONE;
}

int32_t engine_begin(engine *e, const engine_request *r) {
    int32_t number = engine_room(e);
    if (number == ENGINE_NONE || !is_for(e, r) || !engine_bring_back(e)) return ENGINE_NONE;
    engine_text *t = &e->texts[number];
    t->first = t->blocks = t->done = t->floor = 0, t->chain = 0;
    set_up(e, number, r);
    if (!engine_reserve(e, number, admitted(e, r))) return ENGINE_NONE;
    start(e, number);
    return number;
}

/* ---- again ---- */

/* Ids of r that the text has in the cache; not the last one, whose logits are wanted. */
static int64_t common(const engine_text *t, const engine_request *r) {
    int64_t n = 0;
    if (r->scores || (r->pooled && pooling_reads_all(r->pooled->how))) return 0;
    if (t->shares != (r->group != ENGINE_ALONE) || t->owner != owner_of(r) || t->adapter != r->adapter - 1)
        return 0;
    while (n < t->done && n + 1 < r->count && t->ids[n] == r->ids[n]) n++;
    return n;
}

/* All that a row behind so many ids sees is there yet. */
static bool has_seen(const engine *e, const engine_text *t, int64_t same) {
    return !t->first || t->first * CACHE_BLOCK <= same - e->sizes.window + 1;
}

/* A block with some of these ids and then others is written anew: only where nobody else has it. */
static int64_t kept_of(const engine *e, int32_t number, int64_t same) {
    const engine_text *t = &e->texts[number];
    if (e->sizes.whole || !has_seen(e, t, same)) return 0; /* all its rows stand in one step */
    int32_t last = engine_line(e, number)[same / CACHE_BLOCK];
    if (same % CACHE_BLOCK && e->blocks.all[last].users > 1) same = same / CACHE_BLOCK * CACHE_BLOCK;
    return has_seen(e, t, same) ? same : 0;
}

/* The text has its first `same` ids. The chain of what was given back is known only where somebody has it
 * yet; else nobody will find the rest. */
static void go_back(engine *e, int32_t number, int64_t same) {
    engine_text *t = &e->texts[number];
    t->done = t->floor = same, t->chain = 0;
    for (int64_t n = 0; n < same / CACHE_BLOCK && t->shares; n++) {
        const int32_t *ids = t->ids + n * CACHE_BLOCK, *line = engine_line(e, number);
        int32_t i = n < t->first ? blocks_find(&e->blocks, t->chain, t->owner, ids) : line[n];
        if (i == BLOCKS_NONE)
            t->shares = false;
        else
            t->chain =
                n < t->first ? e->blocks.all[i].chain : blocks_know(&e->blocks, i, t->chain, t->owner, ids);
    }
}

int64_t engine_again(engine *e, int32_t number, const engine_request *r) {
    engine_text *t = &e->texts[number];
    int64_t same = kept_of(e, number, common(t, r)), keep = engine_blocks(same);
    engine_stretch x = { keep ? t->first : 0, same, r->count, admitted(e, r) };
    int64_t more = engine_needs(&e->sizes, &x) - (keep - x.first) +
                   engine_more_for(e, number, keep, engine_stays(&e->sizes, r->count + r->tokens));
    if (r->source_count || !is_for(e, r) || more > engine_left_behind(e, number, keep)) return ENGINE_NONE;
    leave_order(e, number);
    engine_give_back(e, number, keep);
    if (same % CACHE_BLOCK) blocks_forget(&e->blocks, engine_line(e, number)[keep - 1]);
    set_up(e, number, r);
    go_back(e, number, same);
    t->cached = same, e->stats.cached_tokens += (uint64_t)same;
    engine_reserve(e, number, admitted(e, r)); /* there are as many */
    start(e, number);
    return t->done;
}

/* ---- on and off ---- */

void engine_pause(engine *e, int32_t number, bool paused) { e->texts[number].paused = paused; }
bool engine_goes_on(const engine *e, int32_t number) { return e->texts[number].going; }
void engine_end(engine *e, int32_t number) { e->texts[number].going = false; }
int64_t engine_cached(const engine *e, int32_t number) { return e->texts[number].cached; }

const char *engine_failure(const engine *e, int32_t number) {
    return e->texts[number].failure[0] ? e->texts[number].failure : NULL;
}

/* How much of what they might have texts got of late. */
static void learn(engine *e, const engine_text *t) {
    enum { OF_LATE = 8 /* texts */ };
    double got = (double)(t->count - t->prompt) / (double)(t->most - t->prompt);
    e->share += (got - e->share) / OF_LATE;
}

void engine_leave(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    if (!t->pooled) learn(e, t);
    leave_order(e, number);
    engine_give_back(e, number, 0);
    engine_source_give(e, number);
    t->used = t->going = t->waits = false;
}

int64_t engine_going(const engine *e) {
    int64_t n = 0;
    for (int64_t i = 0; i < e->sizes.texts; i++) n += e->texts[i].going;
    return n;
}

void engine_stats_of(const engine *e, engine_stats *out) {
    *out = e->stats;
    out->texts = engine_going(e);
    for (int64_t i = 0; i < e->sizes.texts; i++) out->waiting += e->texts[i].going && e->texts[i].waits;
    out->blocks = e->blocks.count, out->blocks_free = e->blocks.free, out->blocks_kept = e->blocks.kept;
    out->blocks_used = out->blocks - blocks_left(&e->blocks);
    out->blocks_promised = e->promised;
}
