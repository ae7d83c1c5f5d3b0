/* Texts, and the steps that they share. */
#include <string.h>

#include "infer/engine_internal.h"
#include "ops/cache_write/cache_write.h"

/* ---- texts ---- */

/* Of a text that ends at `most` ids: its last one is not read. */
static int64_t blocks_for(int64_t most) { return (most - 1 + CACHE_BLOCK - 1) / CACHE_BLOCK; }

static int32_t *line_of(const engine *e, int32_t number) { return e->table + number * e->text_blocks; }
static uint8_t *seen_by(const engine *e, int32_t number) {
    return e->seen + number * e->folder->model.vocabulary;
}

static void see(const engine *e, int32_t number, int64_t from) {
    const engine_text *t = &e->texts[number];
    for (int64_t i = from; e->seen && i < t->count; i++) seen_by(e, number)[t->ids[i]] = 1;
}

/* The text as r asks for, its first `done` ids being in the cache; false: there are too few blocks. */
static bool set_up(engine *e, int32_t number, const engine_request *r, int64_t done) {
    engine_text *t = &e->texts[number];
    int64_t most = r->count + r->tokens, needed = blocks_for(most);
    if (most > e->sizes.text_length + 1 || needed - t->blocks > e->blocks.left) return false;
    if (needed > t->blocks) {
        blocks_take(&e->blocks, line_of(e, number), t->blocks, needed - t->blocks);
        t->blocks = needed;
    }
    memcpy(t->ids, r->ids, (size_t)r->count * sizeof *t->ids);
    t->used = t->going = true, t->paused = false;
    t->count = r->count, t->done = done, t->most = most;
    t->sample = *r->sample, t->context = r->context, t->came = e->came++;
    if (e->seen) memset(seen_by(e, number), 0, (size_t)e->folder->model.vocabulary);
    see(e, number, 0);
    e->stats.begun++, e->stats.prompt_tokens += (uint64_t)r->count, e->stats.cached_tokens += (uint64_t)done;
    return true;
}

int32_t engine_room(const engine *e) {
    for (int32_t i = 0; i < e->sizes.texts; i++)
        if (!e->texts[i].used) return i;
    return ENGINE_NONE;
}

int32_t engine_begin(engine *e, const engine_request *r) {
    int32_t number = engine_room(e);
    return number != ENGINE_NONE && set_up(e, number, r, 0) ? number : ENGINE_NONE;
}

bool engine_ever(const engine *e, const engine_request *r) {
    int64_t most = r->count + r->tokens;
    return most <= e->sizes.text_length + 1 && blocks_for(most) <= e->sizes.blocks;
}

int64_t engine_again(engine *e, int32_t number, const engine_request *r) {
    const engine_text *t = &e->texts[number];
    int64_t same = 0; /* not the last id, whose logits are wanted */
    while (same < t->done && same + 1 < r->count && t->ids[same] == r->ids[same]) same++;
    return set_up(e, number, r, same) ? same : ENGINE_NONE;
}

void engine_pause(engine *e, int32_t number, bool paused) { e->texts[number].paused = paused; }
bool engine_goes_on(const engine *e, int32_t number) { return e->texts[number].going; }
void engine_end(engine *e, int32_t number) { e->texts[number].going = false; }

void engine_leave(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    blocks_give(&e->blocks, line_of(e, number), t->blocks);
    t->used = t->going = false, t->blocks = 0;
}

int64_t engine_going(const engine *e) {
    int64_t n = 0;
    for (int64_t i = 0; i < e->sizes.texts; i++) n += e->texts[i].going;
    return n;
}

void engine_stats_of(const engine *e, engine_stats *out) {
    *out = e->stats;
    out->texts = engine_going(e);
    out->blocks = e->blocks.count, out->blocks_free = e->blocks.left;
    out->blocks_used = out->blocks - out->blocks_free;
}

/* ---- a step ---- */

static void add_row(engine *e, int32_t number, int64_t position) {
    const engine_text *t = &e->texts[number];
    engine_rows *s = &e->step;
    int32_t block = line_of(e, number)[position / CACHE_BLOCK];
    s->tokens[s->count] = t->ids[position];
    s->position[s->count] = (int32_t)position;
    s->text[s->count] = number;
    s->slot[s->count] = block * CACHE_BLOCK + (int32_t)(position % CACHE_BLOCK);
    if (position + 1 == t->count) s->wanted[s->drawn++] = (int32_t)s->count;
    s->count++;
}

/* Its next ids, as many as there is room for. */
static void add_text(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    while (t->done < t->count && e->step.count < e->sizes.rows) add_row(e, number, t->done++);
}

/* The text that came next after turn `after` and still has a prompt to be read; ENGINE_NONE: none. */
static int32_t next_prompt(const engine *e, int64_t after) {
    int32_t found = ENGINE_NONE;
    for (int32_t i = 0; i < e->sizes.texts; i++) {
        const engine_text *t = &e->texts[i];
        if (!t->going || t->paused || t->count - t->done < 1 || t->came <= after) continue;
        if (found == ENGINE_NONE || t->came < e->texts[found].came) found = i;
    }
    return found;
}

static void gather(engine *e) {
    e->step.count = e->step.drawn = 0;
    for (int32_t i = 0; i < e->sizes.texts; i++)
        if (e->texts[i].going && !e->texts[i].paused && e->texts[i].count - e->texts[i].done == 1)
            add_text(e, i);
    for (int32_t i = next_prompt(e, -1); i != ENGINE_NONE; i = next_prompt(e, e->texts[i].came))
        add_text(e, i);
}

/* The smallest program that holds the rows; those beyond stand nowhere. */
static uint32_t fill_up(engine *e) {
    engine_rows *s = &e->step;
    uint32_t k = 0;
    while (e->rows[k] < s->count) k++;
    for (int64_t i = s->count; i < e->rows[k]; i++)
        s->tokens[i] = s->text[i] = 0, s->position[i] = s->slot[i] = -1;
    for (int64_t i = s->drawn; i < e->sizes.texts && i < e->rows[k]; i++) s->wanted[i] = 0;
    return k;
}

static status run(engine *e, uint32_t k) {
    const engine_program *p = &e->programs[k];
    const engine_rows *s = &e->step;
    TRY(exec_write(e->exec, &p->tokens, 0, s->tokens, p->tokens.bytes));
    TRY(exec_write(e->exec, &p->position, 0, s->position, p->position.bytes));
    TRY(exec_write(e->exec, &p->text, 0, s->text, p->text.bytes));
    TRY(exec_write(e->exec, &p->slot, 0, s->slot, p->slot.bytes));
    TRY(exec_write(e->exec, &p->table, 0, e->table, p->table.bytes));
    TRY(exec_write(e->exec, &p->wanted, 0, s->wanted, p->wanted.bytes));
    exec_run(e->exec, k);
    return STATUS_OK;
}

/* From the logits that stand at `place` among those of the step. */
static status draw(engine *e, uint32_t k, int64_t place, int32_t number, engine_drew drew) {
    engine_text *t = &e->texts[number];
    uint64_t bytes = (uint64_t)e->folder->model.vocabulary * sizeof(float);
    exec_part logits;
    int32_t id;
    bool over = false;
    TRY(exec_view(e->exec, &e->programs[k].logits, (uint64_t)place * bytes, &logits));
    sample_from from = { .logits = logits.data,
                         .seen = e->seen ? seen_by(e, number) : NULL,
                         .vocabulary = e->folder->model.vocabulary,
                         .position = (uint32_t)t->count,
                         .memory = e->sampling };
    TRY(sample_next(&t->sample, &from, &id));
    t->ids[t->count++] = id;
    see(e, number, t->count - 1);
    e->stats.drawn++;
    TRY(drew(t->context, id, &over));
    if (over || t->count == t->most) t->going = false, e->stats.finished++;
    return STATUS_OK;
}

bool engine_gather(engine *e, uint32_t *k) {
    gather(e);
    if (!e->step.count) return false;
    e->stats.steps++, e->stats.rows += (uint64_t)e->step.count;
    *k = fill_up(e);
    return true;
}

status engine_compute(engine *e, uint32_t k) { return run(e, k); }

status engine_draw(engine *e, uint32_t k, engine_drew drew) {
    for (int64_t i = 0; i < e->step.drawn; i++) {
        int32_t number = e->step.text[e->step.wanted[i]];
        if (e->texts[number].going) TRY(draw(e, k, i, number, drew));
    }
    return STATUS_OK;
}

status engine_step(engine *e, engine_drew drew) {
    uint32_t k;
    if (!engine_gather(e, &k)) return STATUS_OK;
    TRY(engine_compute(e, k));
    return engine_draw(e, k, drew);
}
