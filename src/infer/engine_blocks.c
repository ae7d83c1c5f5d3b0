/* Who gets which blocks.
 *
 * Where every layer has a window, rows see only so many positions behind them, and blocks that lie behind all
 * that a text's next rows see are given back while it goes on. It is promised what it has at once: a window,
 * and what a step adds.
 *
 * A shared block that one text gives back stays with the others, while that text needs another one in its
 * place. So who may give blocks back pays for each that it has, whoever has it too; those who keep theirs to
 * their end, stayers, pay for one once. `doubles` is what is paid beyond one for every used block: spare()
 * leaves it, and it is there when the block is another's alone. */
#include "infer/engine_internal.h"
#include "ops/cache_write/cache_write.h"

int64_t engine_blocks(int64_t positions) { return (positions + CACHE_BLOCK - 1) / CACHE_BLOCK; }
int64_t engine_blocks_for(int64_t most) { return engine_blocks(most - 1); }

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- what a text needs ---- */

/* Positions from `floor` on that rows of one step stand at, or that are found in it, at most. */
static int64_t reach(const engine_sizes *s, int64_t floor, int64_t count) {
    return smaller(larger(s->rows, CACHE_BLOCK), count - floor + s->guesses);
}

/* Blocks that so many positions lie in, wherever they begin, at most. */
static int64_t across(int64_t positions) { return (positions + 2 * (CACHE_BLOCK - 1)) / CACHE_BLOCK; }

int64_t engine_needs(const engine_sizes *s, const engine_stretch *x) {
    int64_t all = engine_blocks_for(x->most) - x->first;
    return s->window ? smaller(all, across(s->window - 1 + reach(s, x->floor, x->count))) : all;
}

static int64_t needs(const engine *e, const engine_text *t) {
    return engine_needs(&e->sizes, &(engine_stretch){ t->first, t->floor, t->count, t->most });
}

int64_t engine_sizes_blocks(const engine_sizes *s, int64_t count, int64_t most) {
    return engine_needs(s, &(engine_stretch){ .count = count, .most = most });
}

int64_t engine_sizes_useful(const engine_sizes *s) {
    int64_t all = s->texts * engine_sizes_longest(s);
    return s->whole ? smaller(all, (s->rows + s->texts * (CACHE_BLOCK - 1)) / CACHE_BLOCK) : all;
}

/* Blocks before the first that a row at this position sees. */
static int64_t behind(const engine_sizes *s, int64_t position) {
    return s->window && position >= s->window ? (position - s->window + 1) / CACHE_BLOCK : 0;
}

int64_t engine_sizes_longest(const engine_sizes *s) {
    return engine_sizes_blocks(s, s->text_length, s->text_length + 1) + engine_blocks(s->source_length);
}

bool engine_stays(const engine_sizes *s, int64_t most) { return !behind(s, most - 1); }

/* ---- who pays ---- */

/* What a text pays for a block when it comes to it, and no more when it has given it back. */
static int64_t price(const blocks_one *x, bool stays) { return !stays || !x->stayers; }
static int64_t refund(const blocks_one *x, bool stays) { return !stays || x->stayers == 1; }

static void use_block(engine *e, int32_t block, bool stays) {
    blocks_one *x = &e->blocks.all[block];
    e->doubles += price(x, stays) - !x->users;
    blocks_use(&e->blocks, block);
    x->stayers = (int16_t)(x->stayers + stays);
}

static int32_t take_block(engine *e, bool stays) {
    int32_t block = blocks_take(&e->blocks);
    e->blocks.all[block].stayers = stays;
    return block;
}

/* Returns what is not paid any more. */
static int64_t give_block(engine *e, int32_t block, bool stays) {
    blocks_one *x = &e->blocks.all[block];
    int64_t paid = refund(x, stays);
    e->doubles -= paid - (x->users == 1);
    x->stayers = (int16_t)(x->stayers - stays);
    blocks_give(&e->blocks, block);
    return paid;
}

/* Left, paid for by nobody and promised to nobody. */
static int64_t spare(const engine *e) { return blocks_left(&e->blocks) - e->promised - e->doubles; }

int64_t engine_left_behind(const engine *e, int32_t number, int64_t keep) {
    const engine_text *t = &e->texts[number];
    int64_t left = spare(e) + t->promised;
    for (int64_t i = larger(keep, t->first); i < t->blocks; i++)
        left += refund(&e->blocks.all[engine_line(e, number)[i]], t->stays);
    return left;
}

int64_t engine_more_for(const engine *e, int32_t number, int64_t keep, bool stays) {
    const engine_text *t = &e->texts[number];
    int64_t more = 0;
    for (int64_t i = t->first; i < keep && t->stays && !stays; i++)
        more += e->blocks.all[engine_line(e, number)[i]].stayers > 1;
    return more;
}

void engine_set_stays(engine *e, int32_t number, bool stays) {
    engine_text *t = &e->texts[number];
    for (int64_t i = t->first; i < t->blocks && t->stays != stays; i++) {
        blocks_one *x = &e->blocks.all[engine_line(e, number)[i]];
        e->doubles -= refund(x, t->stays);
        x->stayers = (int16_t)(x->stayers - t->stays);
        e->doubles += price(x, stays);
        x->stayers = (int16_t)(x->stayers + stays);
    }
    t->stays = stays;
}

/* ---- what is known ---- */

/* Rows of all its ids are needed, whoever has computed them before. */
static bool reads_all(const engine_text *t) {
    return engine_is_scoring(t) || (t->pooled && pooling_reads_all(t->pooled->how));
}

/* The block with the ids behind n blocks, or BLOCKS_NONE; the last id is not looked for: its logits are
 * wanted. */
static int32_t find_block(const engine *e, const engine_text *t, uint64_t chain, int64_t n) {
    if (!t->shares || reads_all(t) || (n + 1) * CACHE_BLOCK >= t->count) return BLOCKS_NONE;
    return blocks_find(&e->blocks, chain, t->owner, t->ids + n * CACHE_BLOCK);
}

/* The next block of the text is this one, which it has no more use for where it lies before the first that it
 * sees. */
static void adopt(engine *e, int32_t number, int32_t found, bool seen) {
    engine_text *t = &e->texts[number];
    if (seen) use_block(e, found, t->stays);
    engine_line(e, number)[t->blocks++] = seen ? found : BLOCKS_NONE;
    t->chain = e->blocks.all[found].chain, t->done += CACHE_BLOCK;
    if (t->done > t->prompt || t->done <= t->reached) return; /* it is read again */
    t->cached += CACHE_BLOCK, e->stats.cached_tokens += CACHE_BLOCK;
}

/* Puts what is known behind the blocks of a text into its line; how many it has then. */
static int64_t find_blocks(engine *e, int32_t number) {
    const engine_text *t = &e->texts[number];
    int64_t n = t->blocks;
    uint64_t chain = t->chain;
    if (t->done != n * CACHE_BLOCK) return n;
    for (int32_t i; (i = find_block(e, t, chain, n)) != BLOCKS_NONE; n++)
        engine_line(e, number)[n] = i, chain = e->blocks.all[i].chain;
    return n;
}

/* Blocks of the text before block `to` are given back; what was paid for them stays promised, as far as it
 * may be needed. */
static void give_front(engine *e, int32_t number, int64_t to) {
    engine_text *t = &e->texts[number];
    int32_t *line = engine_line(e, number);
    int64_t paid = 0;
    for (; t->first < to && t->first < t->blocks; line[t->first++] = BLOCKS_NONE)
        paid += give_block(e, line[t->first], t->stays);
    int64_t most = larger(needs(e, t) - (t->blocks - t->first), 0),
            promised = smaller(t->promised + paid, most);
    e->promised += promised - t->promised, t->promised = promised;
}

/* What is known beyond the window behind it is kept a while longer: only through it others find the rest. */
static void renew(engine *e, int32_t number, int64_t from, int64_t to) {
    while (to-- > from) blocks_renew(&e->blocks, engine_line(e, number)[to]);
}

bool engine_reserve(engine *e, int32_t number, int64_t most) {
    engine_text *t = &e->texts[number];
    const int32_t *line = engine_line(e, number);
    int64_t n = find_blocks(e, number), done = n > t->blocks ? n * CACHE_BLOCK : t->done;
    engine_stretch x = { larger(t->first, behind(&e->sizes, done)), done, t->count, most };
    int64_t from = larger(x.first, t->blocks), cost = -(smaller(x.first, t->blocks) - t->first);
    int64_t more = larger(engine_needs(&e->sizes, &x) - (n - x.first), 0);
    for (int64_t i = from; i < n; i++) cost += price(&e->blocks.all[line[i]], t->stays);
    if (more + cost + engine_source_needs(e, number) > spare(e)) return false;
    t->floor = done;
    give_front(e, number, x.first);
    renew(e, number, t->blocks, smaller(from, n));
    while (t->blocks < n) adopt(e, number, line[t->blocks], t->blocks >= from);
    t->first = x.first;
    engine_source_take(e, number);
    e->promised += more - t->promised, t->promised = more;
    return true;
}

void engine_give_back(engine *e, int32_t number, int64_t keep) {
    engine_text *t = &e->texts[number];
    while (t->blocks > keep && t->blocks > t->first)
        give_block(e, engine_line(e, number)[--t->blocks], t->stays);
    if (!keep) t->first = t->blocks = 0;
    e->promised -= t->promised, t->promised = 0;
}

void engine_give_front(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    t->floor = engine_is_scoring(t) ? smaller(t->scored, t->done) : t->done;
    if (!t->stays) give_front(e, number, behind(&e->sizes, t->floor));
}

/* One of those that were promised, or else a spare one; `taken`: it is not left any more. */
static bool draw_on(engine *e, engine_text *t, bool taken) {
    if (!t->promised) return !taken || spare(e) > 0;
    t->promised--, e->promised--;
    return true;
}

bool engine_grow(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    if (t->done / CACHE_BLOCK < t->blocks) return true;
    if (!draw_on(e, t, true)) return false;
    engine_line(e, number)[t->blocks++] = take_block(e, t->stays);
    return true;
}

bool engine_find_next(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    bool begins = t->floor == t->done; /* none of its rows is in the step yet */
    if (t->done != t->blocks * CACHE_BLOCK) return false;
    int32_t found = find_block(e, t, t->chain, t->blocks);
    if (found == BLOCKS_NONE) return false;
    if (!t->stays && t->done + CACHE_BLOCK - t->floor > reach(&e->sizes, t->floor, t->count)) return false;
    if (!draw_on(e, t, price(&e->blocks.all[found], t->stays))) return false;
    adopt(e, number, found, true);
    if (begins) engine_give_front(e, number);
    return true;
}

void engine_advance(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    int64_t n = ++t->done / CACHE_BLOCK;
    if (t->done % CACHE_BLOCK || !t->shares) return;
    t->chain = blocks_know(&e->blocks, engine_line(e, number)[n - 1], t->chain, t->owner,
                           t->ids + (n - 1) * CACHE_BLOCK);
}

/* ---- when they run out ---- */

static bool is_certain(const engine_text *t, const engine *e) {
    return t->blocks - t->first + t->promised >= needs(e, t);
}

static void put_back(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    t->source_known |= t->source_read || (t->source_count && t->cached);
    engine_give_back(e, number, 0);
    engine_source_give(e, number);
    if (t->done > t->reached) t->reached = t->done;
    t->waits = true, t->done = t->floor = 0, t->chain = 0;
    e->stats.put_back++;
}

/* Who came last, after text `number`, and is not certain to end: it may give its blocks up. */
static int32_t find_last(const engine *e, int32_t number) {
    for (int64_t k = e->order_count; k-- > 0 && e->order[k] != number;) {
        const engine_text *t = &e->texts[e->order[k]];
        if (t->going && !t->waits && !is_certain(t, e)) return e->order[k];
    }
    return ENGINE_NONE;
}

bool engine_make_room(engine *e, int32_t number) {
    int32_t last;
    while (!engine_grow(e, number)) {
        if ((last = find_last(e, number)) == ENGINE_NONE) return false;
        put_back(e, last);
    }
    return true;
}

/* Who comes back is certain to end: nobody is put back twice. */
bool engine_bring_back(engine *e) {
    for (int64_t k = 0; k < e->order_count; k++) {
        engine_text *t = &e->texts[e->order[k]];
        if (!t->waits || !t->going || t->paused) continue;
        if (!engine_reserve(e, e->order[k], t->most)) return false;
        t->waits = false;
    }
    return true;
}
