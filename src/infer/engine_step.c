/* The steps that texts share. */
#include <stdio.h>
#include <string.h>

#include "base/threads.h"
#include "infer/engine_internal.h"
#include "ops/cache_write/cache_write.h"

/* ---- which rows ---- */

static bool is_full(const engine *e) { return e->step.count == e->sizes.rows; }

/* Are logits made of this row? */
static bool is_wanted(const engine_text *t, int64_t position) {
    if (t->pooled) return false;
    return position + 1 >= t->count || (engine_is_scoring(t) && position >= t->scored);
}

/* Is there room for its logits, where it is wanted? */
static bool has_logits(const engine *e, const engine_text *t, int64_t position) {
    return !is_wanted(t, position) || e->step.drawn < engine_wanted(&e->sizes);
}

static void add_row(engine *e, int32_t number, int64_t position) {
    const engine_text *t = &e->texts[number];
    engine_rows *s = &e->step;
    int32_t block = engine_line(e, number)[position / CACHE_BLOCK];
    s->tokens[s->count] = t->ids[position];
    s->position[s->count] = (int32_t)position;
    s->text[s->count] = number, s->adapter[s->count] = t->adapter;
    s->slot[s->count] = block * CACHE_BLOCK + (int32_t)(position % CACHE_BLOCK);
    s->last[s->count] = (int32_t)(e->sizes.whole ? t->count : t->source_count) - 1;
    if (s->place) s->place[s->count] = e->folder->model.first_position + (int32_t)position;
    if (is_wanted(t, position)) s->wanted[s->drawn++] = (int32_t)s->count;
    s->count++;
}

static bool takes_part(const engine_text *t) {
    return t->going && !t->paused && !t->waits && !engine_source_waits(t);
}

/* Rows that were in the cache before what they tell was: they stand in a step once more, and write what is
 * there. */
static void add_again(engine *e, int32_t number) {
    const engine_text *t = &e->texts[number];
    for (int64_t i = t->scored; i < t->done && !is_full(e) && has_logits(e, t, i); i++) add_row(e, number, i);
}

/* Its next ids, as many as there is room for; those that somebody has computed, or does in this step before
 * it, have no rows. */
static void add_text(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    while (t->done < t->count && !is_full(e)) {
        if (engine_find_next(e, number)) continue;
        if (!has_logits(e, t, t->done)) return;
        if (!engine_grow(e, number)) return;
        e->stats.again_tokens += t->done < t->reached;
        add_row(e, number, t->done);
        engine_advance(e, number);
    }
}

/* The last id of every text that writes. A text of which blocks are taken here came later, and has no row
 * yet. */
static void add_last_ids(engine *e) {
    for (int64_t k = 0; k < e->order_count && !is_full(e); k++) {
        const engine_text *t = &e->texts[e->order[k]];
        if (takes_part(t) && t->count - t->done == 1 && !engine_is_scoring(t) &&
            engine_make_room(e, e->order[k]))
            add_text(e, e->order[k]);
    }
}

static void add_prompts(engine *e) {
    for (int64_t k = 0; k < e->order_count && !is_full(e); k++) {
        const engine_text *t = &e->texts[e->order[k]];
        if (!takes_part(t)) continue;
        if (engine_is_scoring(t)) add_again(e, e->order[k]);
        if (engine_is_scoring(t) || t->count - t->done > 1) add_text(e, e->order[k]);
    }
}

/* Behind the last id of a text, where it has a row in this step, what may come then. */
static void add_guess(engine *e, int32_t number, int64_t most) {
    engine_text *t = &e->texts[number];
    int64_t room = e->sizes.rows - e->step.count, left = t->most - 1 - t->count, done = t->done;
    if (most > left) most = left;
    if (most > room) most = room;
    if (most < 1) return;
    int64_t guessed = lookup_guess(&t->lookup, t->ids, t->count, most);
    for (t->guessed = 0; t->guessed < guessed; t->guessed++, t->done++) {
        if (!has_logits(e, t, t->done) || !engine_grow(e, number)) break;
        add_row(e, number, t->done);
    }
    t->done = done;
    e->stats.proposed += (uint64_t)t->guessed;
}

static void add_guesses(engine *e) {
    for (int64_t k = 0; k < e->order_count && !is_full(e); k++) {
        const engine_text *t = &e->texts[e->order[k]];
        if (takes_part(t) && !t->constraint && !t->pooled && !engine_is_scoring(t) && t->done == t->count)
            add_guess(e, e->order[k], e->sizes.guesses);
    }
}

/* Texts that are read whole, as many as there is room for. The first of those that wait always has it. */
static void add_whole(engine *e) {
    for (int64_t k = 0; k < e->order_count; k++) {
        const engine_text *t = &e->texts[e->order[k]];
        if (takes_part(t) && t->count <= e->sizes.rows - e->step.count) add_text(e, e->order[k]);
    }
}

static void gather_texts(engine *e) {
    if (e->sizes.whole) {
        add_whole(e);
        return;
    }
    add_last_ids(e);
    add_prompts(e);
    if (e->sizes.guesses) add_guesses(e);
}

/* Sources and texts take turns where there are both. */
static void gather(engine *e) {
    bool texts_first = e->read_before;
    e->step.count = e->step.drawn = 0;
    engine_bring_back(e);
    if (texts_first) gather_texts(e);
    e->step.reads = !e->step.count && engine_source_gather(e);
    if (!texts_first && !e->step.count) gather_texts(e);
    e->read_before = e->step.reads;
}

/* The smallest program that holds the rows; those beyond stand nowhere. */
static uint32_t fill_up(engine *e) {
    engine_rows *s = &e->step;
    const compose_steps *steps = s->reads ? &e->source_steps : &e->steps;
    uint32_t k = 0;
    while (steps->rows[k] < s->count) k++;
    for (int64_t i = s->count; i < steps->rows[k]; i++) {
        s->tokens[i] = s->text[i] = 0;
        s->position[i] = s->slot[i] = s->adapter[i] = s->last[i] = -1;
        if (s->place) s->place[i] = -1;
    }
    for (int64_t i = s->drawn; i < engine_wanted(&e->sizes) && i < steps->rows[k]; i++) s->wanted[i] = 0;
    return s->reads ? e->steps.count + k : k;
}

bool engine_gather(engine *e, uint32_t *k) {
    gather(e);
    if (!e->step.count) return false;
    e->stats.steps++, e->stats.rows += (uint64_t)e->step.count;
    *k = fill_up(e);
    return true;
}

/* ---- what they are ---- */

/* Hands in what the step needs, and runs it. */
static status run(engine *e, uint32_t k) {
    const engine_program *p = &e->programs[k];
    const engine_rows *s = &e->step;
    TRY(exec_write(e->exec, &p->tokens, 0, s->tokens, p->tokens.bytes));
    TRY(exec_write(e->exec, &p->text, 0, s->text, p->text.bytes));
    TRY(exec_write(e->exec, &p->slot, 0, s->slot, p->slot.bytes));
    if (p->table.bytes) TRY(exec_write(e->exec, &p->table, 0, e->table, p->table.bytes));
    if (p->position.bytes) TRY(exec_write(e->exec, &p->position, 0, s->position, p->position.bytes));
    if (p->wanted.bytes) TRY(exec_write(e->exec, &p->wanted, 0, s->wanted, p->wanted.bytes));
    if (p->sources.bytes) {
        TRY(exec_write(e->exec, &p->sources, 0, e->sources, p->sources.bytes));
        TRY(exec_write(e->exec, &p->source_last, 0, s->last, p->source_last.bytes));
    }
    if (p->place.bytes) TRY(exec_write(e->exec, &p->place, 0, s->place, p->place.bytes));
    if (p->last.bytes) TRY(exec_write(e->exec, &p->last, 0, s->last, p->last.bytes));
    if (p->adapter.bytes) TRY(exec_write(e->exec, &p->adapter, 0, s->adapter, p->adapter.bytes));
    exec_run(e->exec, k);
    return STATUS_OK;
}

/* ---- what is drawn ---- */

typedef struct {
    engine *engine;
    const float *logits;
} drawing;

/* The logits of the step. */
static status view(engine *e, uint32_t k, drawing *d) {
    exec_part logits;
    TRY(exec_view(e->exec, &e->programs[k].logits, 0, &logits));
    *d = (drawing){ e, logits.data };
    return STATUS_OK;
}

/* From the logits that stand at `place` among those of the step. Behind a guess the text has it, as if it had
 * come true. */
static status draw(const drawing *d, int64_t place, int thread, sample_drawn *drawn) {
    const engine *e = d->engine;
    int64_t row = e->step.wanted[place], count = e->step.position[row] + 1;
    int64_t vocabulary = e->folder->model.vocabulary;
    const engine_text *t = &e->texts[e->step.text[row]];
    char *memory = e->sampling + (uint64_t)thread * e->sampling_bytes;
    constraint_mask *mask = t->constraint ? (constraint_mask *)(memory + e->mask_at) : NULL;
    if (mask) constraint_allow(t->constraint, mask);
    sample_from from = { .logits = d->logits + place * vocabulary,
                         .ids = t->ids,
                         .count = count,
                         .prompt = t->prompt,
                         .vocabulary = vocabulary,
                         .position = (uint32_t)count,
                         .allowed = mask ? mask->bits : NULL,
                         .memory = memory };
    if (count < t->prompt) return sample_told(&t->sample, &from, t->ids[count], drawn);
    return sample_next(&t->sample, &from, drawn);
}

static void draw_one(void *context, int64_t place, int thread) {
    const drawing *d = context;
    engine_draw_of *o = &d->engine->draws[place];
    o->result = draw(d, place, thread, &o->drawn);
}

/* On all threads, each text by itself. */
static status draw_all(engine *e, uint32_t k) {
    drawing d;
    if (!e->step.drawn) return STATUS_OK;
    TRY(view(e, k, &d));
    threads_for(e->step.drawn, draw_one, &d);
    return STATUS_OK;
}

/* ---- what is pooled ---- */

/* Row i of the hidden states, part for part as the host can have them; `part` begins at byte `first`. */
static status pool_row(engine *e, const exec_value *hidden, int64_t i, exec_part *part, uint64_t *first) {
    const engine_text *t = &e->texts[e->step.text[i]];
    uint64_t row = (uint64_t)t->pooled->how->width * sizeof(float), begin = (uint64_t)i * row;
    for (uint64_t at = begin, n; at < begin + row; at += n) {
        if (at < *first || at >= *first + part->bytes) {
            TRY(exec_view(e->exec, hidden, at, part));
            *first = at;
        }
        n = *first + part->bytes - at < begin + row - at ? *first + part->bytes - at : begin + row - at;
        pooling_add(t->pooled,
                    &(pooled_part){ .numbers = (const float *)part->data + (at - *first) / sizeof(float),
                                    .from = (int64_t)((at - begin) / sizeof(float)),
                                    .n = (int64_t)(n / sizeof(float)),
                                    .position = e->step.position[i],
                                    .count = t->count });
    }
    return STATUS_OK;
}

static status pool_all(engine *e, uint32_t k) {
    exec_part part = { 0 };
    uint64_t first = 0;
    for (int64_t i = 0; i < e->step.count; i++)
        if (e->texts[e->step.text[i]].pooled) TRY(pool_row(e, &e->programs[k].hidden, i, &part, &first));
    return STATUS_OK;
}

status engine_compute(engine *e, uint32_t k) {
    TRY(run(e, k));
    if (e->step.reads) return STATUS_OK;
    if (e->sizes.pools) TRY(pool_all(e, k));
    return draw_all(e, k);
}

/* ---- handing it out ---- */

/* Its numbers are not finite: it ends, with the sentence that was set, and nobody finds what it has
 * computed. */
static void end_failed(engine *e, int32_t number) {
    engine_text *t = &e->texts[number];
    for (int64_t i = t->first; i < t->blocks; i++) blocks_forget(&e->blocks, engine_line(e, number)[i]);
    snprintf(t->failure, sizeof t->failure, "%s", status_message());
    t->going = false, e->stats.failed++;
}

/* It is drawn once more, for the sentence, which was another thread's. */
static status fail(engine *e, uint32_t k, int64_t place, int32_t number) {
    drawing d;
    TRY(view(e, k, &d));
    if (draw(&d, place, 0, &e->draws[place].drawn) == STATUS_OK)
        return status_set(STATUS_FAILED, "logits changed while a token was drawn");
    end_failed(e, number);
    return STATUS_OK;
}

static status hand_out(engine *e, uint32_t k, int64_t place, int32_t number, engine_drew drew) {
    engine_text *t = &e->texts[number];
    const engine_draw_of *o = &e->draws[place];
    bool over = false;
    if (o->result != STATUS_OK) return fail(e, k, place, number);
    e->handed = &o->drawn;
    if (o->drawn.id == SAMPLE_NONE) {
        t->going = false, e->stats.finished++;
        return drew(t->context, ENGINE_NONE, &over);
    }
    if (t->constraint) constraint_take(t->constraint, o->drawn.id);
    t->ids[t->count++] = o->drawn.id;
    e->stats.drawn++;
    TRY(drew(t->context, o->drawn.id, &over));
    if (over || t->count == t->most) t->going = false, e->stats.finished++;
    return STATUS_OK;
}

/* Of a text whose prompt is told, what comes next is handed out and nothing else: a row behind one that was
 * not told stands in a later step again. */
static bool is_next(engine_text *t, int64_t position) {
    if (!engine_is_scoring(t)) return true;
    if (t->paused || position != t->scored) return false;
    return ++t->scored, true;
}

static status hand_score(engine *e, uint32_t k, int64_t place, int32_t number, engine_drew drew) {
    engine_text *t = &e->texts[number];
    const engine_draw_of *o = &e->draws[place];
    bool over = false;
    if (o->result != STATUS_OK) return fail(e, k, place, number);
    e->handed = &o->drawn;
    TRY(drew(t->context, o->drawn.id, &over));
    if (over) t->going = false, e->stats.finished++;
    return STATUS_OK;
}

bool engine_has_read(const engine *e) { return e->step.reads; }
const sample_drawn *engine_drawn(const engine *e) { return e->handed; }

/* The row stands for the last id of its text: that one, or a guess that came true. */
static bool is_last(const engine *e, int64_t row) {
    const engine_text *t = &e->texts[e->step.text[row]];
    int64_t at = e->step.position[row];
    return at + 1 == t->count && e->step.tokens[row] == t->ids[at];
}

static void learn(engine *e) {
    for (int64_t i = 0; i < e->sizes.texts; i++) {
        engine_text *t = &e->texts[i];
        if (t->guessed) lookup_learn(&t->lookup, t->guessed, t->right);
        t->guessed = t->right = 0;
    }
}

/* Texts whose last row was in the step are vectors now. */
static status hand_pooled(engine *e, engine_drew drew) {
    bool over;
    for (int64_t i = 0; i < e->step.count; i++) {
        engine_text *t = &e->texts[e->step.text[i]];
        if (!t->pooled || !t->going || e->step.position[i] + 1 != t->count) continue;
        if (pooling_end(t->pooled, t->count) != STATUS_OK) {
            end_failed(e, e->step.text[i]);
            continue;
        }
        t->going = false, e->stats.finished++;
        TRY(drew(t->context, ENGINE_POOLED, &over));
    }
    return STATUS_OK;
}

/* What texts that go on do not see any more. */
static void give_fronts(engine *e) {
    for (int32_t i = 0; i < e->sizes.texts; i++)
        if (e->texts[i].going && !e->texts[i].waits) engine_give_front(e, i);
}

status engine_draw(engine *e, uint32_t k, engine_drew drew) {
    if (e->step.reads) return STATUS_OK;
    if (e->sizes.pools) TRY(hand_pooled(e, drew));
    for (int64_t i = 0; i < e->step.drawn; i++) {
        int64_t row = e->step.wanted[i];
        int32_t number = e->step.text[row];
        engine_text *t = &e->texts[number];
        if (!t->going || !is_next(t, e->step.position[row])) continue;
        if (e->step.position[row] + 1 < t->prompt) {
            TRY(hand_score(e, k, i, number, drew));
            continue;
        }
        if (!is_last(e, row)) continue;
        if (t->done < t->count) { /* what the guess wrote is what the id would have */
            engine_advance(e, number);
            t->right++, e->stats.accepted++;
        }
        TRY(hand_out(e, k, i, number, drew));
    }
    if (e->sizes.guesses) learn(e);
    give_fronts(e);
    return STATUS_OK;
}

status engine_step(engine *e, engine_drew drew) {
    uint32_t k;
    if (!engine_gather(e, &k)) return STATUS_OK;
    TRY(engine_compute(e, k));
    return engine_draw(e, k, drew);
}
