#include "server/fit.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "language/chat.h"

enum {
    CHAT_MEMORY = 1 << 20 /* of a rendering, beside CHAT_PER_BYTE for each of a prompt */,
    CHAT_PER_BYTE = 16
};

/* What is tried. `whole`: the cache holds all texts at their full length; `exact`: as it is, or not at all.
 */
typedef struct {
    int64_t length, texts, rows;
    bool whole, exact;
} fit_case;

static status plan_case(server *s, const fit_case *c, serve_sizes *z) {
    const serve_options *o = s->options;
    *z = serve_sizes_of(o, c->texts, c->length, s->language, &s->measured);
    template_options bounds = { .memory = CHAT_MEMORY + CHAT_PER_BYTE * z->words, .output = z->words };
    if (o->chat) chat_limit(o->chat, &bounds), chat_reserve(o->chat, &bounds);
    s->held = serve_sizes_held(o, z, s->language, &s->measured);
    bool whole = s->folder.model.reads_whole;
    engine_sizes wanted = { .texts = c->texts,
                            .text_length = c->length,
                            .source_length = s->measured.answers ? c->length : 0,
                            .rows = c->rows,
                            .least_texts = c->whole ? c->texts : 1,
                            .exact = c->exact,
                            .cache = o->cache ? o->cache : s->folder.products,
                            .sampling = { .changes = !whole, .counts = !whole },
                            .expects = o->expects,
                            .guesses = whole ? 0 : o->guesses,
                            .constrained = s->measured.vocabulary > 0,
                            .pools = s->measured.vector > 0,
                            .held_bytes = serve_sizes_sum(&s->held) };
    return engine_plan(s->engine, &wanted);
}

/* ---- the most that fits ---- */

/* One of a case's numbers is varied between two values, of which `low` fits and `high` does not. */
typedef struct {
    server *server;
    fit_case *which;
    int64_t *x;
    int64_t low, high;
    double low_bytes, high_bytes; /* peaks there */
} walk;

static status try_at(walk *w, int64_t x, bool *fits) {
    serve_sizes z;
    *w->x = x;
    status result = plan_case(w->server, w->which, &z);
    *fits = result == STATUS_OK;
    if (result != STATUS_OK && result != STATUS_NO_FIT) return result;
    double bytes = (double)engine_planned_bytes(w->server->engine);
    if (*fits)
        w->low = x, w->low_bytes = bytes;
    else
        w->high = x, w->high_bytes = bytes;
    return STATUS_OK;
}

static int64_t between(const walk *w, double x) {
    if (!(x > (double)w->low)) return w->low + 1;
    return x < (double)w->high ? (int64_t)x == w->low ? w->low + 1 : (int64_t)x : w->high - 1;
}

/* The peak is nearly a line: a straight line through both ends says where to look, and then a step to the
 * other side closes in on it. */
static status close_in(walk *w) {
    bool fits = false;
    int64_t step = 1;
    for (bool straight = true; w->low + 1 < w->high; straight = !straight) {
        double budget = (double)w->server->options->engine.memory, all = w->high_bytes - w->low_bytes;
        double line = (double)w->low + (budget - w->low_bytes) / all * (double)(w->high - w->low);
        double side = fits ? (double)(w->low + step) : (double)(w->high - step);
        if (w->high - w->low <= step)
            line = side = (double)w->low + (double)(w->high - w->low) / 2;
        else if (!straight)
            step *= 8;
        TRY(try_at(w, between(w, straight ? line : side), &fits));
    }
    return STATUS_OK;
}

/* The largest value of *x from 1 to `most` with which it fits; 0: none. */
static status largest(server *s, fit_case *c, int64_t *x, int64_t most, int64_t *found) {
    walk w = { .server = s, .which = c, .x = x };
    bool fits;
    *found = 0;
    TRY(try_at(&w, most, &fits));
    if (!fits && most > 1) TRY(try_at(&w, 1, &fits));
    if (!fits) return STATUS_OK;
    if (w.low < most) TRY(close_in(&w));
    *found = *x = w.low;
    return STATUS_OK;
}

/* With as many rows in a step as are asked for; where nothing fits so, with one. */
static status largest_of(server *s, fit_case *c, int64_t *x, int64_t most) {
    int64_t found;
    c->whole = c->exact = true;
    TRY(largest(s, c, x, most, &found));
    if (found) return STATUS_OK;
    c->rows = 1;
    TRY(largest(s, c, x, most, &found));
    if (!found) *x = 1; /* which is refused with its numbers */
    return STATUS_OK;
}

static status choose_sizes(server *s, int64_t context, fit_case *c) {
    const serve_options *o = s->options;
    fit_case lengths = { .texts = o->texts == SERVE_FITTED ? 1 : o->texts, .rows = o->rows };
    if (o->text_length == SERVE_FITTED) {
        TRY(largest_of(s, &lengths, &lengths.length, context));
        c->length = lengths.length;
    }
    fit_case texts = { .length = c->length, .rows = o->rows };
    if (o->texts == SERVE_FITTED) {
        TRY(largest_of(s, &texts, &texts.texts, LANGUAGE_TEXTS));
        c->texts = texts.texts;
    }
    return STATUS_OK;
}

/* In which memory such texts would fit, or how long they may be in this one. */
static status say_what_fits(server *s, const fit_case *asked) {
    char sentence[512], least[UNITS_TEXT_BYTES];
    fit_case c = { .texts = 1, .rows = 1, .whole = true, .exact = true };
    serve_sizes z;
    int64_t longest;
    snprintf(sentence, sizeof sentence, "%s", status_message());
    TRY(largest(s, &c, &c.length, asked->length, &longest));
    if (longest)
        return status_set(STATUS_NO_FIT, "%s; --max-num-seqs 1 --max-model-len %lld would fit", sentence,
                          (long long)longest);
    c.length = asked->length;
    status result = plan_case(s, &c, &z); /* refused, and its numbers are there */
    if (result != STATUS_NO_FIT) return result;
    uint64_t bytes = engine_planned_bytes(s->engine);
    return status_set(STATUS_NO_FIT, "%s; --max-num-seqs 1 --memory %llu (%s) would fit", sentence,
                      (unsigned long long)bytes, units_bytes_text(bytes, least));
}

status fit_plan(server *s, int64_t context, serve_sizes *z) {
    const serve_options *o = s->options;
    bool least = o->solve == SERVE_SOLVE_MEMORY;
    fit_case c = { .length = o->text_length ? o->text_length : context,
                   .texts = o->texts,
                   .rows = o->rows,
                   .whole = least,
                   .exact = least };
    TRY(choose_sizes(s, context, &c));
    status result = plan_case(s, &c, z);
    if (result == STATUS_NO_FIT) return say_what_fits(s, &c);
    TRY(result);
    s->plan = (serve_plan){ .options = o,
                            .plan = engine_plan_of(s->engine),
                            .sizes = engine_planned(s->engine),
                            .held = &s->held,
                            .pooling = &s->pooling };
    s->result->planned_bytes = engine_planned_bytes(s->engine);
    return STATUS_OK;
}
