#include "infer/generate.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "infer/generate_internal.h"
#include "io/tokenizer_files.h"
#include "io/trained_context.h"

const char *generate_end_name(generate_end e) {
    static const char *const names[] = { "length", "context", "stop", "end" };
    return names[e];
}

/* ---- prompts ---- */

enum {
    GATHERED = 16, /* per byte of a text: twice while it grows, and six as escapes in JSON, twice as well */
    ENCODED =
        48, /* what a tokenizer holds per byte of the longest text, ids included; looked at when it has */
};

/* What the caller may gather of the texts, with an encoding of it as JSON, is a part. */
uint64_t generate_held(const generation *g) {
    const generate_options *o = g->options;
    int64_t most = o->tokens < g->context ? o->tokens : g->context;
    uint64_t bytes = sizeof *g + g->held_most + o->held_bytes +
                     g->prompt_count * (sizeof(prompt) + sizeof(generate_text) + 128);
    for (uint32_t i = 0; i < o->prompt_count; i++)
        bytes += GATHERED * (strlen(o->prompts[i]) + (uint64_t)most * g->language->piece_bytes);
    return bytes;
}

static status check_prompt(const generation *g, uint32_t i) {
    const int64_t context = g->context, vocabulary = g->model->vocabulary;
    const prompt *p = &g->prompts[i];
    char which[32] = "the prompt";
    if (g->options->next) snprintf(which, sizeof which, "the conversation");
    if (g->prompt_count > 1) snprintf(which, sizeof which, "prompt %u", i + 1);
    if (g->model->answers && !p->count)
        return status_set(STATUS_INVALID, "%s has no tokens: there is nothing to answer", which);
    if (g->model->answers && p->count > context)
        return status_set(STATUS_INVALID, "%s has %lld tokens, and the model reads %lld", which,
                          (long long)p->count, (long long)context);
    if (!g->model->answers && p->count >= context && g->options->tokens > 0)
        return status_set(STATUS_INVALID, "%s has %lld tokens and the context %lld: nothing can be added",
                          which, (long long)p->count, (long long)context);
    for (int64_t k = 0; k < p->count; k++)
        if (p->ids[k] < 0 || p->ids[k] >= vocabulary)
            return status_set(STATUS_INVALID, "%s %lld of %s is %d; the model knows the ids 0 to %lld",
                              g->language->unit, (long long)k, which, p->ids[k], (long long)vocabulary - 1);
    return STATUS_OK;
}

status generate_read_prompt(generation *g, uint32_t i, const char *words) {
    TRY(g->language->encode(g->language->context, words, &g->prompts[i].ids, &g->prompts[i].count));
    return check_prompt(g, i);
}

/* All of them become ids before there is a plan, which counts them; or as they come. */
static status read_all(generation *g) {
    const generate_options *o = g->options;
    g->prompt_count = o->next ? 1 : o->prompt_count;
    g->prompts = memory_new(g->prompt_count, sizeof *g->prompts);
    g->result->texts = memory_new(g->prompt_count, sizeof *g->result->texts);
    if (!g->prompts || !g->result->texts)
        return status_set(STATUS_FAILED, "no memory for %u prompts", g->prompt_count);
    for (uint32_t i = 0; i < o->prompt_count; i++) TRY(generate_read_prompt(g, i, o->prompts[i]));
    return STATUS_OK;
}

status generate_read_prompts(generation *g) {
    TRY(read_all(g));
    g->held_most = g->language->held_bytes + (g->options->next ? ENCODED * g->options->prompt_bytes : 0);
    g->result->language_bytes = g->held_most;
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

status generate_end_text(row *x, generate_end how) {
    generation *g = x->of;
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

status generate_take(void *context, int32_t id, bool *over) {
    row *x = context;
    generation *g = x->of;
    language_piece more;
    generate_text *t = &g->result->texts[x->number];
    t->new_tokens++, g->result->new_tokens++;
    *over = true;
    if (g->language->ends(g->language->context, id)) return generate_end_text(x, GENERATE_OVER);
    TRY(g->language->add(g->language->context, (uint32_t)(x - g->rows), id, &more));
    if (!say_piece(g, x, &more)) return generate_end_text(x, GENERATE_STOP);
    if (t->new_tokens == g->options->tokens) return generate_end_text(x, GENERATE_LENGTH);
    int64_t before = g->model->answers ? 1 : t->prompt_tokens; /* an answer is a text of its own */
    if (before + t->new_tokens == g->context) return generate_end_text(x, GENERATE_CONTEXT);
    *over = false;
    return STATUS_OK;
}

status generate_begin_text(generation *g, int32_t place, uint32_t number, const prompt *ids) {
    const generate_options *o = g->options;
    row *x = &g->rows[place];
    *x = (row){
        .of = g, .number = number, .going = true, .stops = { .strings = o->stops, .count = o->stop_count }
    };
    g->result->texts[number].prompt_tokens = g->prompts[number].count;
    g->result->prompt_tokens += g->prompts[number].count;
    return g->language->begin(g->language->context, (uint32_t)place, ids->ids, ids->count);
}

/* ---- the whole ---- */

static status check_options(const generate_options *o) {
    if (o->tokens < 0) return status_set(STATUS_INVALID, "%lld tokens cannot be added", (long long)o->tokens);
    if (!o->prompt_count && !o->next) return status_set(STATUS_INVALID, "there is no prompt");
    if (o->prompt_count && o->next) return status_set(STATUS_INVALID, "prompts come at once or one by one");
    TRY(sample_check(&o->sample));
    return stop_check(o->stops, o->stop_count);
}

static status choose_language(generation *g) {
    const generate_options *o = g->options;
    g->language = o->language ? o->language : &g->bytes;
    if (o->language) return STATUS_OK;
    if (!o->bytes) TRY(tokenizer_files_refuse(o->directory, "a prompt"));
    return language_of_bytes(g->model->vocabulary, &g->bytes);
}

static status run(generation *g, model_folder *f) {
    const generate_options *o = g->options;
    TRY(check_options(o));
    TRY(model_folder_open(o->directory, o->adapter, o->products, o->memory ? o->memory : UINT64_MAX, f));
    TRY(model_continues(&f->model));
    g->model = &f->model, g->context = families_context(&f->config);
    TRY(choose_language(g));
    if (families_learns_positions(&f->config)) TRY(trained_context(o->directory, &g->result->learned));
    TRY(generate_rows(g, f));
    g->result->resident_peak_bytes = device_resident_peak();
    return STATUS_OK;
}

status generate_run(const generate_options *o, generate_result *r) {
    *r = (generate_result){ 0 };
    generation *g = memory_new(1, sizeof *g); /* large for a stack, as the other one is */
    model_folder *f = memory_new(1, sizeof *f);
    status result = g && f ? STATUS_OK : status_set(STATUS_FAILED, "no memory to generate");
    if (g) g->options = o, g->result = r;
    if (result == STATUS_OK) result = run(g, f);
    if (g) language_of_bytes_close(&g->bytes);
    if (g) memory_free(g->prompts);
    memory_free(g);
    memory_free(f);
    return result;
}

void generate_result_close(generate_result *r) {
    memory_free(r->texts);
    r->texts = NULL;
}
