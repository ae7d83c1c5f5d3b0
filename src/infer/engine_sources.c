/* Sources: what answers are given to. */
#include <string.h>

#include "infer/engine_internal.h"

/* A text that may share its source with t, and has it in blocks. */
static int32_t find_same(const engine *e, const engine_text *t) {
    for (int32_t i = 0; i < e->sizes.texts && t->source_shares; i++) {
        const engine_text *x = &e->texts[i];
        if (x != t && x->used && x->source_blocks && x->source_shares && x->owner == t->owner &&
            x->source_count == t->source_count &&
            memcmp(x->source, t->source, (size_t)t->source_count * sizeof *t->source) == 0)
            return i;
    }
    return ENGINE_NONE;
}

int64_t engine_source_needs(const engine *e, int32_t number) {
    const engine_text *t = &e->texts[number];
    int64_t needed = engine_blocks(t->source_count) - t->source_blocks;
    return needed && find_same(e, t) == ENGINE_NONE ? needed : 0;
}

static void share(engine *e, int32_t number, int32_t with) {
    engine_text *t = &e->texts[number];
    for (; t->source_blocks < engine_blocks(t->source_count); t->source_blocks++) {
        int32_t block = engine_source_line(e, with)[t->source_blocks];
        blocks_use(&e->blocks, block);
        engine_source_line(e, number)[t->source_blocks] = block;
    }
    t->source_read = e->texts[with].source_read;
    if (t->source_known) return; /* it has come back */
    t->cached = t->source_count, e->stats.cached_tokens += (uint64_t)t->source_count;
}

void engine_source_take(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    int32_t same = t->source_blocks < engine_blocks(t->source_count) ? find_same(e, t) : ENGINE_NONE;
    if (same != ENGINE_NONE) share(e, number, same);
    while (t->source_blocks < engine_blocks(t->source_count))
        engine_source_line(e, number)[t->source_blocks++] = blocks_take(&e->blocks);
}

void engine_source_give(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    while (t->source_blocks) blocks_give(&e->blocks, engine_source_line(e, number)[--t->source_blocks]);
    t->source_read = false;
}

/* The text's source is read, and so is that of all that share its blocks. */
static void set_read(engine *e, int32_t number) {
    for (int32_t i = 0; i < e->sizes.texts; i++)
        if (e->texts[i].source_blocks && *engine_source_line(e, i) == *engine_source_line(e, number))
            e->texts[i].source_read = true;
}

static void add_rows(engine *e, int32_t number) {
    const engine_text *t = &e->texts[number];
    engine_rows *s = &e->step;
    for (int64_t i = 0; i < t->source_count; i++, s->count++) {
        int32_t block = engine_source_line(e, number)[i / CACHE_BLOCK];
        s->tokens[s->count] = t->source[i];
        s->position[s->count] = (int32_t)i;
        s->last[s->count] = (int32_t)t->source_count - 1;
        s->text[s->count] = number, s->adapter[s->count] = t->adapter;
        s->slot[s->count] = block * CACHE_BLOCK + (int32_t)(i % CACHE_BLOCK);
    }
    if (t->source_known) e->stats.again_tokens += (uint64_t)t->source_count;
    set_read(e, number);
}

bool engine_source_gather(engine *e) {
    for (int64_t k = 0; k < e->order_count; k++) {
        const engine_text *t = &e->texts[e->order[k]];
        if (!t->going || t->paused || t->waits || !engine_source_waits(t)) continue;
        if (e->step.count + t->source_count > e->sizes.source_length) break;
        add_rows(e, e->order[k]);
    }
    return e->step.count > 0;
}
