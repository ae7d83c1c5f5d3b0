/* Who gets which blocks. */
#include "infer/engine_internal.h"
#include "ops/cache_write/cache_write.h"

int64_t engine_blocks_for(int64_t most) { return (most - 1 + CACHE_BLOCK - 1) / CACHE_BLOCK; }

/* Left, and promised to nobody. */
static int64_t spare(const engine *e) { return blocks_left(&e->blocks) - e->promised; }

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

static void adopt(engine *e, int32_t number, int32_t found) {
    engine_text *t = &e->texts[number];
    blocks_use(&e->blocks, found);
    engine_line(e, number)[t->blocks++] = found;
    t->chain = e->blocks.all[found].chain, t->done += CACHE_BLOCK;
    if (t->done > t->prompt || t->done <= t->reached) return; /* it is read again */
    t->cached += CACHE_BLOCK, e->stats.cached_tokens += CACHE_BLOCK;
}

bool engine_reserve(engine *e, int32_t number, int64_t most) {
    engine_text *t = &e->texts[number];
    int64_t n = t->blocks, kept = 0, needed = engine_blocks_for(most);
    uint64_t chain = t->chain;
    int32_t *found = engine_line(e, number) + n, i = BLOCKS_NONE;
    if (t->done == n * CACHE_BLOCK)
        while ((i = find_block(e, t, chain, n)) != BLOCKS_NONE) {
            engine_line(e, number)[n++] = i;
            kept += !e->blocks.all[i].users, chain = e->blocks.all[i].chain;
        }
    int64_t more = needed > n ? needed - n : 0;
    if (more + kept > spare(e)) return false;
    for (int64_t k = n - t->blocks; k > 0; k--) adopt(e, number, *found++);
    t->promised = more, e->promised += more;
    return true;
}

void engine_give_back(engine *e, int32_t number, int64_t keep) {
    engine_text *t = &e->texts[number];
    while (t->blocks > keep) blocks_give(&e->blocks, engine_line(e, number)[--t->blocks]);
    e->promised -= t->promised, t->promised = 0;
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
    engine_line(e, number)[t->blocks++] = blocks_take(&e->blocks);
    return true;
}

bool engine_find_next(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    if (t->done != t->blocks * CACHE_BLOCK) return false;
    int32_t found = find_block(e, t, t->chain, t->blocks);
    if (found == BLOCKS_NONE || !draw_on(e, t, !e->blocks.all[found].users)) return false;
    adopt(e, number, found);
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

static bool is_certain(const engine_text *t) { return t->blocks + t->promised >= engine_blocks_for(t->most); }

static void put_back(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    engine_give_back(e, number, 0);
    if (t->done > t->reached) t->reached = t->done;
    t->waits = true, t->done = 0, t->chain = 0;
    e->stats.put_back++;
}

/* Who came last, after text `number`, and is not certain to end: it may give its blocks up. */
static int32_t find_last(const engine *e, int32_t number) {
    for (int64_t k = e->order_count; k-- > 0 && e->order[k] != number;) {
        const engine_text *t = &e->texts[e->order[k]];
        if (t->going && !t->waits && !is_certain(t)) return e->order[k];
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
