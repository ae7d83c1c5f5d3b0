#include "infer/generate.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "exec/exec.h"
#include "infer/stop.h"
#include "io/adapter_files.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "io/quantized_files.h"
#include "io/tokenizer_files.h"
#include "io/trained_context.h"
#include "io/weight_files.h"
#include "run/rates.h"

const char *generate_end_name(generate_end e) {
    static const char *const names[] = { "length", "context", "stop", "end" };
    return names[e];
}

/* ---- texts ---- */

typedef struct {
    const int32_t *ids;
    int64_t count;
} prompt;

/* One text that is being continued. */
typedef struct {
    uint32_t number; /* its place among the prompts */
    prompt prompt;
    int32_t last; /* the token drawn last */
    bool over;
    stop_watch stops;
} row;

typedef struct {
    const generate_options *options;
    generate_result *result;
    model_config config;
    model model;
    compose_choice pinned; /* what the adapter asks for */
    plan plan;
    exec *exec;
    row rows[MODEL_MOST_DECODED];
    uint32_t row_count;          /* that are in use */
    exec_value tokens, position; /* what the program reads: by row; one */
    exec_value logits;           /* by row and token */
    uint8_t *seen;               /* by row and token: the text has it; NULL: nobody asks */
    void *sampling;
    uint64_t listed_bytes; /* that reading the files' tensors holds */
    language bytes;        /* where no other is given */
    language *language;
    prompt *prompts;
    uint32_t prompt_count; /* at once: one where they come one after the other */
    /* Where they do: the ids whose keys and values are there, and how many of them the text that is being
     * continued begins with. */
    int32_t *cached;
    int64_t cached_count, known;
    uint64_t held_most; /* by the language, as planned */
} generation;

static status check_prompt(const generation *g, uint32_t i) {
    const int64_t context = families_context(&g->config), vocabulary = families_vocabulary(&g->config);
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
    if (o->next) g->cached = memory_new((size_t)g->model.context, sizeof *g->cached);
    if (!g->prompts || !g->result->texts || (o->next && !g->cached))
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
        48 /* what a tokenizer holds per byte of the longest text, ids included; looked at when it has */
};

/* What the caller may gather of the texts, with an encoding of it as JSON. */
static uint64_t text_bytes(const generation *g) {
    const generate_options *o = g->options;
    int64_t most = o->tokens < g->model.context ? o->tokens : g->model.context;
    uint64_t bytes =
        g->held_most + o->held_bytes + g->prompt_count * (sizeof(prompt) + sizeof(generate_text) + 128);
    for (uint32_t i = 0; i < o->prompt_count; i++)
        bytes += GATHERED * (strlen(o->prompts[i]) + (uint64_t)most * g->language->piece_bytes);
    if (o->next) bytes += (uint64_t)g->model.context * sizeof *g->cached;
    return bytes;
}

static status plan_rows(generation *g, uint32_t rows) {
    const generate_options *o = g->options;
    int threads = o->threads > 0 ? o->threads : threads_available();
    uint64_t sampling = sample_bytes(&o->sample, g->model.vocabulary);
    const device *on;
    TRY(device_find(o->device ? o->device : "auto", &on));
    compose_run run = {
        .model = &g->model,
        .batch = rows,
        .kept_bytes = text_bytes(g) + sizeof *g + g->listed_bytes,
        .lower = { .device = on, .threads = threads, .rates = rates_find(RATES_KNOWN, on, threads) }
    };
    if (sampling) run.buffers[run.buffer_count++] = (plan_buffer){ "sampling", sampling };
    if (o->sample.repetition_penalty != 1)
        run.buffers[run.buffer_count++] = (plan_buffer){ "seen", rows * (uint64_t)g->model.vocabulary };
    threads_set(threads);
    plan_close(&g->plan);
    TRY(compose_decode(&run, &g->pinned, &g->plan));
    g->row_count = rows;
    g->result->planned_bytes = g->plan.peak_bytes, g->result->language_bytes = g->held_most;
    return STATUS_OK;
}

/* As many texts side by side as there are prompts, fewer where they don't fit. */
static status make_plan(generation *g) {
    const generate_options *o = g->options;
    uint32_t rows = g->prompt_count < MODEL_MOST_DECODED ? g->prompt_count : MODEL_MOST_DECODED;
    TRY(plan_rows(g, rows));
    while (o->memory && g->plan.peak_bytes > o->memory && rows > 1) TRY(plan_rows(g, rows = (rows + 1) / 2));
    memory_trim();
    g->result->at_once = rows;
    uint64_t needed = g->plan.peak_bytes;
    if (!o->memory || needed <= o->memory) return STATUS_OK;
    char budget[UNITS_TEXT_BYTES], bytes[UNITS_TEXT_BYTES], more[UNITS_TEXT_BYTES];
    return status_set(STATUS_NO_FIT, "generating with %s does not fit %s: it needs %s (%llu bytes), %s more",
                      g->model.name, units_bytes_text(o->memory, budget), units_bytes_text(needed, bytes),
                      (unsigned long long)needed, units_bytes_text(needed - o->memory, more));
}

static status load_weights(const generation *g) {
    model_weight *weights;
    uint32_t count;
    TRY(exec_weights(g->exec, &weights, &count));
    uint32_t own = adapter_files_own(weights, count);
    status result = model_files_load(g->options->directory, weights, own);
    if (result == STATUS_OK && g->options->adapter)
        result = adapter_files_load(g->options->adapter,
                                    &(adapter_files_part){ .weights = weights, .count = count });
    memory_free(weights);
    return result;
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
    if (how != GENERATE_STOP && !say_piece(g, x, &rest)) how = GENERATE_STOP;
    say(g, x, out, stop_rest(&x->stops, out));
    x->over = true;
    g->result->texts[x->number].end = how;
    if (g->options->ended) g->options->ended(g->options->context, x->number, how);
    return STATUS_OK;
}

/* ---- one position after the other ---- */

static uint8_t *seen_by(const generation *g, const row *x) {
    return g->seen ? g->seen + (x - g->rows) * g->model.vocabulary : NULL;
}

static status begin_row(generation *g, uint32_t which, uint32_t number) {
    const generate_options *o = g->options;
    row *x = &g->rows[which];
    *x = (row){ .number = number, .stops = { .strings = o->stops, .count = o->stop_count } };
    x->prompt = g->prompts[number];
    g->result->texts[number].prompt_tokens = x->prompt.count;
    g->result->prompt_tokens += x->prompt.count;
    if (g->seen) memset(seen_by(g, x), 0, (size_t)g->model.vocabulary);
    for (int64_t k = 0; g->seen && k < g->known; k++) seen_by(g, x)[x->prompt.ids[k]] = 1;
    TRY(g->language->begin(g->language->context, which, x->prompt.ids, x->prompt.count));
    return o->tokens == 0 ? end_row(g, x, GENERATE_LENGTH) : STATUS_OK;
}

/* The tokens at `position` go in; those that are over take part with any token. */
static status feed(generation *g, int64_t position) {
    int32_t tokens[MODEL_MOST_DECODED], at = (int32_t)position;
    for (uint32_t i = 0; i < g->result->at_once; i++) {
        row *x = &g->rows[i];
        bool reads = i < g->row_count && !x->over;
        tokens[i] = !reads ? 0 : position < x->prompt.count ? x->prompt.ids[position] : x->last;
        if (reads && g->seen) seen_by(g, x)[tokens[i]] = 1;
    }
    if (g->cached) g->cached[position] = tokens[0], g->cached_count = position + 1;
    TRY(exec_write(g->exec, &g->tokens, 0, tokens, g->result->at_once * sizeof *tokens));
    TRY(exec_write(g->exec, &g->position, 0, &at, sizeof at));
    exec_run(g->exec, 0);
    return STATUS_OK;
}

/* What was drawn at `position` becomes text, or its end. */
static status take_token(generation *g, row *x, int64_t position) {
    language_piece more;
    if (g->language->ends(g->language->context, x->last)) return end_row(g, x, GENERATE_OVER);
    TRY(g->language->add(g->language->context, (uint32_t)(x - g->rows), x->last, &more));
    if (!say_piece(g, x, &more)) return end_row(g, x, GENERATE_STOP);
    if (g->result->texts[x->number].new_tokens == g->options->tokens) return end_row(g, x, GENERATE_LENGTH);
    return position + 1 == g->model.context ? end_row(g, x, GENERATE_CONTEXT) : STATUS_OK;
}

/* Draws the token at `position` for a text whose prompt is over. */
static status draw(generation *g, row *x, int64_t position) {
    const generate_options *o = g->options;
    generate_text *t = &g->result->texts[x->number];
    exec_part logits;
    uint64_t row_bytes = (uint64_t)g->model.vocabulary * sizeof(float);
    TRY(exec_view(g->exec, &g->logits, (uint64_t)(x - g->rows) * row_bytes, &logits));
    sample_from from = { .logits = logits.data,
                         .seen = seen_by(g, x),
                         .vocabulary = g->model.vocabulary,
                         .position = (uint32_t)position,
                         .memory = g->sampling };
    TRY(sample_next(&o->sample, &from, &x->last));
    t->new_tokens++;
    g->result->new_tokens++;
    return take_token(g, x, position);
}

/* The texts of the rows, from what is known of them to the end. */
static status run_rows(generation *g) {
    int64_t before = g->result->new_tokens;
    bool going = true;
    for (int64_t position = g->known; going; position++) {
        double begin = clock_seconds();
        bool drew = g->result->new_tokens > before;
        going = false;
        for (uint32_t i = 0; i < g->row_count; i++) going = going || !g->rows[i].over;
        if (!going) break;
        TRY(feed(g, position));
        for (uint32_t i = 0; i < g->row_count; i++) {
            row *x = &g->rows[i];
            if (x->over || position + 1 < x->prompt.count) continue;
            TRY(draw(g, x, position + 1));
        }
        *(drew ? &g->result->seconds_new : &g->result->seconds_prompt) += clock_seconds() - begin;
    }
    return STATUS_OK;
}

/* How many of the ids were there before, in the same order; not the last one, whose logits are wanted. */
static int64_t known_of(const generation *g, const prompt *p) {
    int64_t n = 0;
    while (n < g->cached_count && n + 1 < p->count && g->cached[n] == p->ids[n]) n++;
    return n;
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
    g->known = known_of(g, &g->prompts[0]);
    g->result->known_tokens += g->known;
    g->result->texts[0] = (generate_text){ 0 };
    TRY(begin_row(g, 0, 0));
    TRY(run_rows(g));
    g->language->forget(g->language->context);
    return STATUS_OK;
}

static status continue_texts(generation *g) {
    const generate_options *o = g->options;
    g->tokens = exec_input(g->exec, 0, "tokens"); /* the plan has one program */
    g->position = exec_input(g->exec, 0, "position");
    g->logits = exec_output(g->exec, 0, "logits");
    g->seen = exec_buffer(g->exec, "seen");
    g->sampling = exec_buffer(g->exec, "sampling");
    for (uint32_t first = 0; first < o->prompt_count; first += g->result->at_once) {
        uint32_t left = o->prompt_count - first;
        g->row_count = left < g->result->at_once ? left : g->result->at_once;
        for (uint32_t i = 0; i < g->row_count; i++) TRY(begin_row(g, i, first + i));
        TRY(run_rows(g));
    }
    for (const char *words = ""; o->next;) {
        TRY(o->next(o->context, &words));
        if (!words) break;
        TRY(continue_one(g, words));
    }
    return STATUS_OK;
}

static status read_adapter(generation *g) {
    const pass *p = NULL;
    pass_setting s;
    if (!g->options->adapter) return STATUS_OK;
    TRY(adapter_files_read(g->options->adapter, false, &p, &s));
    TRY(adapter_files_check_base(g->options->adapter, g->options->directory));
    for (int i = 0; pass_table[i]; i++)
        if (pass_table[i] == p) g->pinned.settings[i] = s;
    return STATUS_OK;
}

/* Both files are listed one after the other. */
static status count_listed(generation *g) {
    const generate_options *o = g->options;
    uint64_t beside = 0;
    char path[4096];
    TRY(weight_files_held(o->directory, &g->listed_bytes));
    if (o->adapter &&
        snprintf(path, sizeof path, "%s/adapter_model.safetensors", o->adapter) < (int)sizeof path)
        TRY(weight_files_held(path, &beside));
    if (beside > g->listed_bytes) g->listed_bytes = beside;
    if (!o->memory || g->listed_bytes < o->memory) return STATUS_OK;
    return status_set(STATUS_NO_FIT,
                      "the lists of tensors in the files of %s take %llu bytes, more than --memory allows",
                      o->directory, (unsigned long long)g->listed_bytes);
}

/* Weights that only one technique reads. */
static status read_stored(generation *g) {
    const pass *p;
    pass_setting s;
    TRY(quantized_files_read(g->options->directory, &p, &s));
    for (int i = 0; p && pass_table[i]; i++)
        if (pass_table[i] == p) g->pinned.settings[i] = s;
    return STATUS_OK;
}

static status choose_language(generation *g) {
    const generate_options *o = g->options;
    g->language = o->language ? o->language : &g->bytes;
    if (o->language) return STATUS_OK;
    if (!o->bytes) TRY(tokenizer_files_refuse(o->directory, "a prompt"));
    return language_of_bytes(g->model.vocabulary, &g->bytes);
}

static status run(generation *g) {
    const generate_options *o = g->options;
    uint64_t beside;
    TRY(check_options(o));
    TRY(model_config_read(o->directory, &g->config, NULL));
    families_model(&g->config, o->directory, &g->model);
    TRY(model_continues(&g->model));
    TRY(choose_language(g));
    if (families_learns_positions(&g->config)) TRY(trained_context(o->directory, &g->result->learned));
    TRY(count_listed(g));
    TRY(read_stored(g));
    TRY(read_adapter(g));
    TRY(read_prompts(g));
    g->held_most = g->language->held_bytes + (o->next ? ENCODED * o->prompt_bytes : 0);
    TRY(make_plan(g));
    TRY(exec_open(&g->plan, 0, &g->exec));
    TRY(exec_check_reserve(g->exec, &beside));
    TRY(load_weights(g));
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
    exec_close(g->exec);
    plan_close(&g->plan);
    language_of_bytes_close(&g->bytes);
    memory_free(g->prompts);
    memory_free(g->cached);
    memory_free(g);
    return result;
}

void generate_result_close(generate_result *r) {
    memory_free(r->texts);
    r->texts = NULL;
}
