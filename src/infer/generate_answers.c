/* Answers of a model that reads a whole text before: all prompts of a round side by side and once; then one
 * token of each answer at a time over caches, all at the same position. A row has the same bits whoever is
 * beside it. */
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "exec/exec.h"
#include "infer/generate_internal.h"
#include "infer/sample.h"
#include "run/rates.h"

enum { DECODE, ENCODE }; /* programs of the plan */

typedef struct {
    generation *g;
    const model_folder *folder;
    plan plan;
    exec *exec;
    exec_value tokens, position, lengths, logits;        /* of DECODE */
    exec_value text_tokens, text_lengths, text_position; /* of ENCODE */
    int32_t *text;                                       /* one of them, padded */
    int32_t next[MODEL_MOST_DECODED];                    /* the token that each answer goes on with */
    uint32_t count;                                      /* answers of this round */
    int32_t *written; /* by place: the token that an answer begins with, and what was drawn */
    void *sampling;
} answers;

/* ---- the plan ---- */

static status plan_places(answers *a, uint32_t places) {
    const generation *g = a->g;
    const generate_options *o = g->options;
    int threads = o->threads > 0 ? o->threads : threads_available();
    sample_needs needs = sample_needs_of(&o->sample);
    const device *on;
    TRY(device_find(o->device ? o->device : "auto", &on));
    compose_run run = {
        .model = g->model,
        .batch = places,
        .kept_bytes = generate_held(g) + sizeof *a + a->folder->listed_bytes +
                      (uint64_t)g->context * (sizeof *a->text + places * sizeof *a->written),
        .lower = { .device = on, .threads = threads, .rates = rates_find(RATES_KNOWN, on, threads) }
    };
    run.buffers[run.buffer_count++] = (plan_buffer){ "sampling", sample_bytes(&needs, g->model->vocabulary) };
    threads_set(threads);
    plan_close(&a->plan);
    TRY(compose_decode(&run, &a->folder->pinned, &a->plan));
    g->result->at_once = places, g->result->planned_bytes = a->plan.peak_bytes;
    return STATUS_OK;
}

/* As many side by side as there are prompts, fewer where they don't fit. */
static status make_plan(answers *a) {
    const generate_options *o = a->g->options;
    uint32_t places = a->g->prompt_count < MODEL_MOST_DECODED ? a->g->prompt_count : MODEL_MOST_DECODED;
    TRY(plan_places(a, places));
    while (o->memory && a->plan.peak_bytes > o->memory && places > 1)
        TRY(plan_places(a, places = (places + 1) / 2));
    memory_trim();
    uint64_t needed = a->plan.peak_bytes;
    if (!o->memory || needed <= o->memory) return STATUS_OK;
    char budget[UNITS_TEXT_BYTES], bytes[UNITS_TEXT_BYTES], more[UNITS_TEXT_BYTES];
    return status_set(STATUS_NO_FIT, "generating with %s does not fit %s: it needs %s (%llu bytes), %s more",
                      a->g->model->name, units_bytes_text(o->memory, budget), units_bytes_text(needed, bytes),
                      (unsigned long long)needed, units_bytes_text(needed - o->memory, more));
}

static status start(answers *a) {
    uint64_t beside;
    TRY(exec_open(&a->plan, 0, &a->exec));
    TRY(exec_check_reserve(a->exec, &beside));
    TRY(model_folder_load(a->folder, a->exec));
    a->text = memory_new((size_t)a->g->context, sizeof *a->text);
    a->written = memory_new((size_t)a->g->context * a->g->result->at_once, sizeof *a->written);
    if (!a->text || !a->written) return status_set(STATUS_FAILED, "no memory for a text");
    a->tokens = exec_input(a->exec, DECODE, "tokens");
    a->position = exec_input(a->exec, DECODE, "position");
    a->lengths = exec_input(a->exec, DECODE, "source_length");
    a->logits = exec_output(a->exec, DECODE, "logits");
    a->text_tokens = exec_input(a->exec, ENCODE, "tokens");
    a->text_lengths = exec_input(a->exec, ENCODE, "source_length");
    a->text_position = exec_input(a->exec, ENCODE, "position");
    a->sampling = exec_buffer(a->exec, "sampling");
    return STATUS_OK;
}

/* ---- texts ---- */

/* What stands in a place: those beyond the prompts of the round have the first one's again. */
static uint32_t number_at(const answers *a, uint32_t place) {
    return a->g->rows[place < a->count ? place : 0].number;
}

static status read_text(answers *a, uint32_t place) {
    const generation *g = a->g;
    const prompt *p = &g->prompts[number_at(a, place)];
    uint64_t bytes = (uint64_t)g->context * sizeof *a->text;
    int32_t length = (int32_t)p->count;
    memset(a->text, 0, (size_t)bytes);
    memcpy(a->text, p->ids, (size_t)p->count * sizeof *a->text);
    TRY(exec_write(a->exec, &a->text_tokens, place * bytes, a->text, bytes));
    return exec_write(a->exec, &a->text_lengths, place * sizeof length, &length, sizeof length);
}

static status read_texts(answers *a) {
    int32_t begin = 0;
    for (uint32_t i = 0; i < a->g->result->at_once; i++) TRY(read_text(a, i));
    TRY(exec_write(a->exec, &a->text_position, 0, &begin, sizeof begin));
    exec_run(a->exec, ENCODE);
    return STATUS_OK;
}

static int32_t *written_at(const answers *a, uint32_t place) {
    return a->written + place * (uint64_t)a->g->context;
}

/* ---- one position after the other ---- */

/* The tokens at `position` go in; those that are over take part with any token. */
static status feed(answers *a, int64_t position) {
    int32_t tokens[MODEL_MOST_DECODED], lengths[MODEL_MOST_DECODED], at = (int32_t)position;
    uint32_t places = a->g->result->at_once;
    for (uint32_t i = 0; i < places; i++) {
        bool reads = i < a->count && a->g->rows[i].going;
        lengths[i] = reads ? (int32_t)a->g->prompts[a->g->rows[i].number].count : 1;
        tokens[i] = reads ? a->next[i] : 0;
        if (reads) written_at(a, i)[position] = tokens[i];
    }
    TRY(exec_write(a->exec, &a->tokens, 0, tokens, places * sizeof *tokens));
    TRY(exec_write(a->exec, &a->position, 0, &at, sizeof at));
    TRY(exec_write(a->exec, &a->lengths, 0, lengths, places * sizeof *lengths));
    exec_run(a->exec, DECODE);
    return STATUS_OK;
}

/* Draws the token at `position` of an answer. */
static status draw(answers *a, uint32_t place, int64_t position) {
    exec_part logits;
    uint64_t row_bytes = (uint64_t)a->g->model->vocabulary * sizeof(float);
    bool over;
    TRY(exec_view(a->exec, &a->logits, place * row_bytes, &logits));
    sample_from from = { .logits = logits.data,
                         .ids = written_at(a, place),
                         .count = position,
                         .prompt = 1,
                         .vocabulary = a->g->model->vocabulary,
                         .position = (uint32_t)position,
                         .memory = a->sampling };
    sample_drawn drawn;
    TRY(sample_next(&a->g->options->sample, &from, &drawn));
    a->next[place] = drawn.id;
    return generate_take(&a->g->rows[place], a->next[place], &over);
}

static bool goes_on(const answers *a) {
    bool going = false;
    for (uint32_t i = 0; i < a->count; i++) going = going || a->g->rows[i].going;
    return going;
}

/* The answers of a round, to the end. */
static status write_answers(answers *a) {
    generation *g = a->g;
    for (int64_t position = 0; goes_on(a); position++) {
        double begin = clock_seconds();
        TRY(feed(a, position));
        for (uint32_t i = 0; i < a->count; i++)
            if (g->rows[i].going) TRY(draw(a, i, position + 1));
        g->result->seconds_new += clock_seconds() - begin;
    }
    return STATUS_OK;
}

static status begin_answers(answers *a, uint32_t first) {
    generation *g = a->g;
    static const prompt none = { 0 };
    uint32_t left = g->prompt_count - first;
    a->count = left < g->result->at_once ? left : g->result->at_once;
    for (uint32_t i = 0; i < a->count; i++) {
        TRY(generate_begin_text(g, (int32_t)i, first + i, &none));
        a->next[i] = g->model->start;
        if (g->options->tokens == 0) TRY(generate_end_text(&g->rows[i], GENERATE_LENGTH));
    }
    return STATUS_OK;
}

static status run(answers *a) {
    generation *g = a->g;
    TRY(generate_read_prompts(g));
    TRY(make_plan(a));
    TRY(start(a));
    for (uint32_t first = 0; first < g->prompt_count; first += g->result->at_once) {
        TRY(begin_answers(a, first));
        double begin = clock_seconds();
        TRY(read_texts(a));
        g->result->seconds_prompt += clock_seconds() - begin;
        TRY(write_answers(a));
    }
    return STATUS_OK;
}

status generate_answers(generation *g, const model_folder *f) {
    if (g->options->next)
        return status_set(STATUS_INVALID,
                          "%s (%s) answers one text and knows no conversation; give it prompts",
                          g->model->name, g->model->family);
    answers a = { .g = g, .folder = f };
    status result = run(&a);
    exec_close(a.exec);
    plan_close(&a.plan);
    memory_free(a.text);
    memory_free(a.written);
    return result;
}
