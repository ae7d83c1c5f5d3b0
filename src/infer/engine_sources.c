/* Sources: what answers are given to. */
#include "infer/engine_internal.h"

int64_t engine_source_blocks(int64_t count) { return (count + CACHE_BLOCK - 1) / CACHE_BLOCK; }

int64_t engine_source_needs(const engine_text *t) {
    return engine_source_blocks(t->source_count) - t->source_blocks;
}

void engine_source_take(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    for (int64_t n = engine_source_needs(t); n > 0; n--)
        engine_source_line(e, number)[t->source_blocks++] = blocks_take(&e->blocks);
}

void engine_source_give(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    while (t->source_blocks) blocks_give(&e->blocks, engine_source_line(e, number)[--t->source_blocks]);
    t->source_read = false;
}

static void add_rows(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    engine_rows *s = &e->step;
    for (int64_t i = 0; i < t->source_count; i++, s->count++) {
        int32_t block = engine_source_line(e, number)[i / CACHE_BLOCK];
        s->tokens[s->count] = t->source[i];
        s->position[s->count] = (int32_t)i;
        s->source_last[s->count] = (int32_t)t->source_count - 1;
        s->text[s->count] = number, s->adapter[s->count] = t->adapter;
        s->slot[s->count] = block * CACHE_BLOCK + (int32_t)(i % CACHE_BLOCK);
    }
    if (t->reached) e->stats.again_tokens += (uint64_t)t->source_count;
    t->source_read = true;
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
