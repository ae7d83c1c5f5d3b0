#include "infer/generate.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "infer/engine.h"
#include "infer/stop.h"
#include "io/tokenizer_files.h"
#include "io/trained_context.h"
#include "ops/cache_write/cache_write.h"

const char *generate_end_name(generate_end e) {
    static const char *const names[] = { "length", "context", "stop", "end" };
    return names[e];
}

/* ---- texts ---- */

typedef struct {
    const int32_t *ids;
    int64_t count;
} prompt;

/* One text that is being continued: its number is the engine's. */
typedef struct {
    struct generation *of;
    uint32_t number; /* its place among the prompts */
    int32_t place;   /* its number in the engine */
    bool going;
    stop_watch stops;
} row;

typedef struct generation {
    const generate_options *options;
    generate_result *result;
    engine *engine;
    row rows[MODEL_MOST_DECODED]; /* by number in the engine */
    language bytes;               /* where no other is given */
    language *language;
    prompt *prompts;
    uint32_t prompt_count; /* at once: one where they come one after the other */
    bool begun;            /* of such, the first one */
    int64_t new_before;    /* new tokens of texts before these */
    uint64_t held_most;    /* by the language, as planned */
} generation;

static status check_prompt(const generation *g, uint32_t i) {
    const int64_t context = engine_context(g->engine), vocabulary = engine_model(g->engine)->vocabulary;
    const prompt *p = &g->prompts[i];
    char which[32] = "the prompt";
    if (g->options->next) snprintf(which, sizeof which, "the conversation");
    if (g->prompt_count > 1) snprintf(which, sizeof which, "prompt %u", i + 1);
    if (p->count >= context && g->options->tokens > 0)
        return status_set(STATUS_INVALID, "%s has %lld tokens and the context %lld: nothing can be added",
                          which, (long long)p->count, (long long)context);
    for (int64_t k = 0; k < p->count; k++)
        if (p->ids[k] < 0 || p->ids[k] >= vocabulary)
            return status_set(STATUS_INVALID, "%s %lld of %s is %d; the model knows the ids 0 to %lld",
                              g->language->unit, (long long)k, which, p->ids[k], (long long)vocabulary - 1);
    return STATUS_OK;
}

static status read_prompt(generation *g, uint32_t i, const char *words) {
    TRY(g->language->encode(g->language->context, words, &g->prompts[i].ids, &g->prompts[i].count));
    return check_prompt(g, i);
}

/* All of them become ids before there is a plan, which counts them; or as they come. */
static status read_prompts(generation *g) {
    const generate_options *o = g->options;
    g->prompt_count = o->next ? 1 : o->prompt_count;
    g->prompts = memory_new(g->prompt_count, sizeof *g->prompts);
    g->result->texts = memory_new(g->prompt_count, sizeof *g->result->texts);
    if (!g->prompts || !g->result->texts)
        return status_set(STATUS_FAILED, "no memory for %u prompts", g->prompt_count);
    for (uint32_t i = 0; i < o->prompt_count; i++) TRY(read_prompt(g, i, o->prompts[i]));
    return STATUS_OK;
}

static status check_options(const generate_options *o) {
    if (o->tokens < 0) return status_set(STATUS_INVALID, "%lld tokens cannot be added", (long long)o->tokens);
    if (!o->prompt_count && !o->next) return status_set(STATUS_INVALID, "there is no prompt");
    if (o->prompt_count && o->next) return status_set(STATUS_INVALID, "prompts come at once or one by one");
    TRY(sample_check(&o->sample));
    return stop_check(o->stops, o->stop_count);
}

/* ---- the plan ---- */

enum {
    GATHERED = 16, /* per byte of a text: twice while it grows, and six as escapes in JSON, twice as well */
    ENCODED =
        48, /* what a tokenizer holds per byte of the longest text, ids included; looked at when it has */
    MOST_ROWS = 256 /* of a step */
};

/* What the caller may gather of the texts, with an encoding of it as JSON. */
static uint64_t text_bytes(const generation *g) {
    const generate_options *o = g->options;
    int64_t context = engine_context(g->engine), most = o->tokens < context ? o->tokens : context;
    uint64_t bytes =
        g->held_most + o->held_bytes + g->prompt_count * (sizeof(prompt) + sizeof(generate_text) + 128);
    for (uint32_t i = 0; i < o->prompt_count; i++)
        bytes += GATHERED * (strlen(o->prompts[i]) + (uint64_t)most * g->language->piece_bytes);
    return bytes;
}

/* Tokens that are added to a prompt, at most. */
static int64_t tokens_for(const generation *g, const prompt *p) {
    int64_t left = engine_context(g->engine) - p->count;
    return g->options->tokens < left ? g->options->tokens : left;
}

/* As many texts side by side as there are prompts, and rows as they have ids; fewer where they don't fit. */
static engine_sizes sizes_of(const generation *g) {
    const generate_options *o = g->options;
    int64_t longest = o->next ? engine_context(g->engine) : 1, rows = o->next ? MOST_ROWS : g->prompt_count;
    for (uint32_t i = 0; i < o->prompt_count; i++) {
        int64_t length = g->prompts[i].count + tokens_for(g, &g->prompts[i]);
        longest = length > longest ? length : longest;
        rows += g->prompts[i].count;
    }
    return (engine_sizes){ .texts =
                               g->prompt_count < MODEL_MOST_DECODED ? g->prompt_count : MODEL_MOST_DECODED,
                           .text_length = longest,
                           .rows = rows < MOST_ROWS ? rows : MOST_ROWS,
                           .least_blocks = (longest + CACHE_BLOCK - 1) / CACHE_BLOCK,
                           .cache = DTYPE_F32,
                           .cuts_mass = o->sample.top_p < 1,
                           .penalises = o->sample.repetition_penalty != 1,
                           .held_bytes = text_bytes(g) + sizeof *g };
}

static status make_plan(generation *g) {
    engine_sizes wanted = sizes_of(g);
    TRY(engine_plan(g->engine, &wanted));
    g->result->at_once = (uint32_t)engine_planned(g->engine)->texts;
    g->result->planned_bytes = engine_planned_bytes(g->engine), g->result->language_bytes = g->held_most;
    return STATUS_OK;
}

/* ---- what comes out ---- */

static void say(const generation *g, const row *x, const char *bytes, size_t count) {
    if (count && g->options->said) g->options->said(g->options->context, x->number, bytes, count);
}

/* Hands on what is known to belong to the text; false: a stop string is complete, and the text is over. */
static bool say_piece(const generation *g, row *x, const language_piece *more) {
    char out[STOP_BYTES];
    bool found = false;
    for (size_t i = 0; i < more->count && !found; i++)
        say(g, x, out, stop_take(&x->stops, more->bytes[i], out, &found));
    return !found;
}

static status end_row(generation *g, row *x, generate_end how) {
    char out[STOP_BYTES];
    language_piece rest;
    TRY(g->language->end(g->language->context, (uint32_t)(x - g->rows), &rest));
    x->going = false;
    if (how != GENERATE_STOP && !say_piece(g, x, &rest)) how = GENERATE_STOP;
    say(g, x, out, stop_rest(&x->stops, out));
    g->result->texts[x->number].end = how;
    if (g->options->ended) g->options->ended(g->options->context, x->number, how);
    return STATUS_OK;
}

/* ---- texts ---- */

/* What was drawn becomes text, or its end. */
static status take_token(void *context, int32_t id, bool *over) {
    row *x = context;
    generation *g = x->of;
    language_piece more;
    generate_text *t = &g->result->texts[x->number];
    t->new_tokens++, g->result->new_tokens++;
    *over = true;
    if (g->language->ends(g->language->context, id)) return end_row(g, x, GENERATE_OVER);
    TRY(g->language->add(g->language->context, (uint32_t)(x - g->rows), id, &more));
    if (!say_piece(g, x, &more)) return end_row(g, x, GENERATE_STOP);
    if (t->new_tokens == g->options->tokens) return end_row(g, x, GENERATE_LENGTH);
    if (t->prompt_tokens + t->new_tokens == engine_context(g->engine)) return end_row(g, x, GENERATE_CONTEXT);
    *over = false;
    return STATUS_OK;
}

/* The text in this place of the engine's. */
static status begin_row(generation *g, int32_t place, uint32_t number) {
    const generate_options *o = g->options;
    const prompt *p = &g->prompts[number];
    row *x = &g->rows[place];
    *x = (row){ .of = g,
                .number = number,
                .place = place,
                .going = true,
                .stops = { .strings = o->stops, .count = o->stop_count } };
    g->result->texts[number].prompt_tokens = p->count;
    g->result->prompt_tokens += p->count;
    return g->language->begin(g->language->context, (uint32_t)place, p->ids, p->count);
}

static engine_request request_of(generation *g, uint32_t number, int32_t place) {
    const prompt *p = &g->prompts[number];
    return (engine_request){ .ids = p->ids,
                             .count = p->count,
                             .tokens = tokens_for(g, p),
                             .sample = &g->options->sample,
                             .context = &g->rows[place] };
}

/* Nothing is to be added: only what the text has to say at its end. */
static status pass_by(generation *g, uint32_t number) {
    TRY(begin_row(g, 0, number));
    return end_row(g, &g->rows[0], GENERATE_LENGTH);
}

static status step(generation *g) {
    double begin = clock_seconds();
    bool drew = g->result->new_tokens > g->new_before;
    TRY(engine_step(g->engine, take_token));
    *(drew ? &g->result->seconds_new : &g->result->seconds_prompt) += clock_seconds() - begin;
    return STATUS_OK;
}

/* Begins as many of the prompts from `*next` on as there is room for. */
static status begin_texts(generation *g, uint32_t *next) {
    for (; *next < g->prompt_count; ++*next) {
        int32_t place = engine_room(g->engine);
        if (place == ENGINE_NONE) return STATUS_OK;
        engine_request r = request_of(g, *next, place);
        if (engine_begin(g->engine, &r) == ENGINE_NONE) return STATUS_OK;
        TRY(begin_row(g, place, *next));
    }
    return STATUS_OK;
}

/* Texts that have ended make room. */
static void leave_texts(generation *g) {
    for (int32_t i = 0; i < (int32_t)g->result->at_once; i++)
        if (g->rows[i].of && !g->rows[i].going) {
            engine_leave(g->engine, i);
            g->rows[i].of = NULL;
        }
}

static status continue_prompts(generation *g) {
    uint32_t next = 0;
    if (g->options->tokens == 0) {
        for (; next < g->prompt_count; next++) TRY(pass_by(g, next));
        return STATUS_OK;
    }
    TRY(begin_texts(g, &next));
    while (engine_going(g->engine)) {
        TRY(step(g));
        leave_texts(g);
        TRY(begin_texts(g, &next));
    }
    return STATUS_OK;
}

static status continue_one(generation *g, const char *words) {
    if (strlen(words) > g->options->prompt_bytes)
        return status_set(STATUS_INVALID, "a prompt of %zu bytes; memory is planned for %llu", strlen(words),
                          (unsigned long long)g->options->prompt_bytes);
    TRY(read_prompt(g, 0, words));
    if (g->language->held_bytes > g->held_most)
        return status_set(STATUS_NO_FIT,
                          "the tokens of a prompt of %zu bytes take %llu bytes, %llu more than planned",
                          strlen(words), (unsigned long long)g->language->held_bytes,
                          (unsigned long long)(g->language->held_bytes - g->held_most));
    g->result->texts[0] = (generate_text){ 0 };
    g->new_before = g->result->new_tokens;
    if (g->options->tokens == 0) return pass_by(g, 0);
    engine_request r = request_of(g, 0, 0);
    if (g->begun)
        g->result->known_tokens += engine_again(g->engine, 0, &r);
    else
        engine_begin(g->engine, &r);
    g->begun = true;
    TRY(begin_row(g, 0, 0));
    while (engine_going(g->engine)) TRY(step(g));
    g->language->forget(g->language->context);
    return STATUS_OK;
}

static status continue_texts(generation *g) {
    const generate_options *o = g->options;
    if (!o->next) return continue_prompts(g);
    for (const char *words = "";;) {
        TRY(o->next(o->context, &words));
        if (!words) return STATUS_OK;
        TRY(continue_one(g, words));
    }
}

static status choose_language(generation *g) {
    const generate_options *o = g->options;
    g->language = o->language ? o->language : &g->bytes;
    if (o->language) return STATUS_OK;
    if (!o->bytes) TRY(tokenizer_files_refuse(o->directory, "a prompt"));
    return language_of_bytes(engine_model(g->engine)->vocabulary, &g->bytes);
}

static status run(generation *g) {
    const generate_options *o = g->options;
    TRY(check_options(o));
    TRY(engine_open(&(engine_options){ .directory = o->directory,
                                       .adapter = o->adapter,
                                       .device = o->device,
                                       .threads = o->threads,
                                       .memory = o->memory },
                    &g->engine));
    TRY(choose_language(g));
    if (engine_model(g->engine)->learned_positions) TRY(trained_context(o->directory, &g->result->learned));
    TRY(read_prompts(g));
    g->held_most = g->language->held_bytes + (o->next ? ENCODED * o->prompt_bytes : 0);
    TRY(make_plan(g));
    TRY(engine_start(g->engine));
    TRY(continue_texts(g));
    g->result->resident_peak_bytes = device_resident_peak();
    return STATUS_OK;
}

status generate_run(const generate_options *o, generate_result *r) {
    *r = (generate_result){ 0 };
    generation *g = memory_new(1, sizeof *g); /* large for a stack */
    if (!g) return status_set(STATUS_FAILED, "no memory to generate");
    g->options = o, g->result = r;
    status result = run(g);
    engine_close(g->engine);
    language_of_bytes_close(&g->bytes);
    memory_free(g->prompts);
    memory_free(g);
    return result;
}

void generate_result_close(generate_result *r) {
    memory_free(r->texts);
    r->texts = NULL;
}
