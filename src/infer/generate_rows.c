/* Texts that go on, and answers: rows of the engine's steps, as many side by side as there are prompts. */
#include <string.h>

#include "base/clock.h"
#include "infer/engine.h"
#include "infer/generate_internal.h"
#include "run/unconfirmed.h"

enum { MOST_ROWS = 256 /* of a step */ };

/* Ids that the engine's text begins with: those of the prompt, or the one that an answer to it begins behind.
 */
static int64_t begins_with(const generation *g, const prompt *p) { return g->model->answers ? 1 : p->count; }

/* Tokens that are added to a prompt, at most. */
static int64_t tokens_for(const generation *g, const prompt *p) {
    int64_t left = g->context - begins_with(g, p);
    return g->options->tokens < left ? g->options->tokens : left;
}

/* As many texts side by side as there are prompts, and rows as they have ids; fewer where they don't fit. */
static engine_sizes sizes_of(const generation *g, dtype cache) {
    const generate_options *o = g->options;
    int64_t longest = o->next ? g->context : 1, rows = o->next ? MOST_ROWS : g->prompt_count, source = 0;
    for (uint32_t i = 0; i < o->prompt_count; i++) {
        const prompt *p = &g->prompts[i];
        int64_t length = begins_with(g, p) + tokens_for(g, p);
        longest = length > longest ? length : longest;
        if (g->model->answers) source = p->count > source ? p->count : source;
        rows += begins_with(g, p);
    }
    return (engine_sizes){ .texts =
                               g->prompt_count < MODEL_MOST_DECODED ? g->prompt_count : MODEL_MOST_DECODED,
                           .text_length = longest,
                           .source_length = source,
                           .rows = rows < MOST_ROWS ? rows : MOST_ROWS,
                           .least_texts = 1,
                           .cache = cache,
                           .sampling = sample_needs_of(&o->sample),
                           .held_bytes = generate_held(g) };
}

static status make_plan(generation *g, engine *e, dtype cache) {
    engine_sizes wanted = sizes_of(g, cache);
    TRY(engine_plan(e, &wanted));
    g->result->at_once = (uint32_t)engine_planned(e)->texts;
    g->result->planned_bytes = engine_planned_bytes(e);
    g->result->unconfirmed = unconfirmed_of(engine_plan_of(e));
    g->result->capability = engine_plan_of(e)->device->capability;
    return STATUS_OK;
}

/* ---- texts ---- */

static engine_request request_of(generation *g, uint32_t number, int32_t place) {
    const prompt *p = &g->prompts[number];
    engine_request r = { .ids = p->ids,
                         .count = p->count,
                         .tokens = tokens_for(g, p),
                         .sample = &g->options->sample,
                         .context = &g->rows[place] };
    if (g->model->answers)
        r.source = p->ids, r.source_count = p->count, r.ids = &g->model->start, r.count = 1;
    return r;
}

/* What the language is to know of a prompt before what comes behind it: nothing where that is an answer. */
static const prompt *before(const generation *g, uint32_t number) {
    static const prompt none = { 0 };
    return g->model->answers ? &none : &g->prompts[number];
}

/* Nothing is to be added: only what the text has to say at its end. */
static status pass_by(generation *g, uint32_t number) {
    TRY(generate_begin_text(g, 0, number, before(g, number)));
    return generate_end_text(&g->rows[0], GENERATE_LENGTH);
}

static status step(generation *g, engine *e) {
    double begin = clock_seconds();
    bool drew = g->result->new_tokens > g->new_before;
    TRY(engine_step(e, generate_take));
    for (int32_t i = 0; i < (int32_t)g->result->at_once; i++)
        if (engine_failure(e, i)) return status_set(STATUS_FAILED, "%s", engine_failure(e, i));
    *(drew && !engine_has_read(e) ? &g->result->seconds_new : &g->result->seconds_prompt) +=
        clock_seconds() - begin;
    return STATUS_OK;
}

/* Begins as many of the prompts from `*next` on as there is room for. */
static status begin_texts(generation *g, engine *e, uint32_t *next) {
    for (; *next < g->prompt_count; ++*next) {
        int32_t place = engine_room(e);
        if (place == ENGINE_NONE) return STATUS_OK;
        engine_request r = request_of(g, *next, place);
        if (engine_begin(e, &r) == ENGINE_NONE) return STATUS_OK;
        TRY(generate_begin_text(g, place, *next, before(g, *next)));
    }
    return STATUS_OK;
}

/* Texts that have ended make room. */
static void leave_texts(generation *g, engine *e) {
    for (int32_t i = 0; i < (int32_t)g->result->at_once; i++)
        if (g->rows[i].of && !g->rows[i].going) {
            engine_leave(e, i);
            g->rows[i].of = NULL;
        }
}

static status continue_prompts(generation *g, engine *e) {
    uint32_t next = 0;
    if (g->options->tokens == 0) {
        for (; next < g->prompt_count; next++) TRY(pass_by(g, next));
        return STATUS_OK;
    }
    TRY(begin_texts(g, e, &next));
    while (engine_going(e)) {
        TRY(step(g, e));
        leave_texts(g, e);
        TRY(begin_texts(g, e, &next));
    }
    return STATUS_OK;
}

static status continue_one(generation *g, engine *e, const char *words) {
    if (strlen(words) > g->options->prompt_bytes)
        return status_set(STATUS_INVALID, "a prompt of %zu bytes; memory is planned for %llu", strlen(words),
                          (unsigned long long)g->options->prompt_bytes);
    TRY(generate_read_prompt(g, 0, words));
    if (g->language->held_bytes > g->held_most)
        return status_set(STATUS_NO_FIT,
                          "the tokens of a prompt of %zu bytes take %llu bytes, %llu more than planned",
                          strlen(words), (unsigned long long)g->language->held_bytes,
                          (unsigned long long)(g->language->held_bytes - g->held_most));
    g->result->texts[0] = (generate_text){ 0 };
    g->new_before = g->result->new_tokens;
    if (g->options->tokens == 0) return pass_by(g, 0);
    engine_request r = request_of(g, 0, 0);
    if (engine_room(e) == ENGINE_NONE)
        g->result->known_tokens += engine_again(e, 0, &r);
    else
        engine_begin(e, &r);
    TRY(generate_begin_text(g, 0, 0, &g->prompts[0]));
    while (engine_going(e)) TRY(step(g, e));
    g->language->forget(g->language->context);
    return STATUS_OK;
}

static status continue_texts(generation *g, engine *e) {
    const generate_options *o = g->options;
    if (!o->next) return continue_prompts(g, e);
    for (const char *words = "";;) {
        TRY(o->next(o->context, &words));
        if (!words) return STATUS_OK;
        TRY(continue_one(g, e, words));
    }
}

static status run(generation *g, engine *e, dtype cache) {
    TRY(generate_read_prompts(g));
    TRY(make_plan(g, e, cache));
    TRY(engine_start(e));
    return continue_texts(g, e);
}

status generate_rows(generation *g, const model_folder *f) {
    const generate_options *o = g->options;
    engine *e;
    if (f->model.answers && o->next)
        return status_set(STATUS_INVALID,
                          "%s (%s) answers one text and knows no conversation; give it prompts",
                          f->model.name, f->model.family);
    status result = engine_open(
        &(engine_options){ .device = o->device, .threads = o->threads, .memory = o->memory }, f, &e);
    if (result == STATUS_OK) result = run(g, e, f->products);
    engine_close(e);
    return result;
}
