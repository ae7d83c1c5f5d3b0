#include "estimate/framework.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "estimate/solve.h"

const framework *framework_of(framework_name n) {
    static const framework *const list[FRAMEWORKS] = { [FRAMEWORK_HF] = &framework_hf,
                                                       [FRAMEWORK_PYTORCH] = &framework_pytorch,
                                                       [FRAMEWORK_VLLM] = &framework_vllm,
                                                       [FRAMEWORK_LLAMA_CPP] = &framework_llama_cpp,

                                                       [FRAMEWORK_LITGPT] = &framework_litgpt,
                                                       [FRAMEWORK_LLMC] = &framework_llmc,
                                                       [FRAMEWORK_MEGATRON] = &framework_megatron,
                                                       [FRAMEWORK_SGLANG] = &framework_sglang,
                                                       [FRAMEWORK_TRTLLM] = &framework_trtllm,
                                                       [FRAMEWORK_TITAN] = &framework_titan };
    return list[n];
}

/* ---- answers ---- */

const char *framework_layer_name(framework_layer l) {
    static const char *const names[FRAMEWORK_LAYERS] = { "live", "reserved", "whole device" };
    return names[l];
}

const framework_term *framework_largest(const framework_result *r) {
    const framework_term *most = &r->terms[0];
    for (uint32_t i = 1; i < r->term_count; i++)
        if (r->terms[i].bytes > most->bytes) most = &r->terms[i];
    return most;
}

void framework_add_term(framework_result *r, const char *name, uint64_t bytes) {
    assert(r->term_count < FRAMEWORK_MOST_TERMS);
    r->terms[r->term_count++] = (framework_term){ name, bytes };
}

void framework_add_fact(framework_result *r, const framework_fact *f) {
    assert(r->fact_count < FRAMEWORK_MOST_FACTS);
    r->facts[r->fact_count++] = *f;
}

void framework_place(const framework_subject *q, framework_result *r, const interval *reserved) {
    const hardware *h = q->hardware;
    interval *whole = &r->layers[FRAMEWORK_DEVICE];
    r->layers[FRAMEWORK_RESERVED] = *reserved;
    const interval *b = &r->beside;
    *whole = (interval){ reserved->low + h->context[0] + b->low,
                         reserved->likely + h->context[1] + h->workspace + b->likely,
                         reserved->high + h->context[2] + h->workspace + b->high };
    if (h->overhead)
        *whole = (interval){ reserved->low + h->overhead, reserved->likely + h->overhead,
                             reserved->high + h->overhead };
    r->fits = !h->memory || whole->likely <= h->memory;
    r->surely = r->spares = !h->memory || whole->high <= h->memory;
    r->beyond = r->fits ? h->memory - whole->likely : whole->likely - h->memory;
    if (!h->memory) r->beyond = 0;
}

bool framework_has_room(const framework_subject *q, const framework_result *r) {
    uint64_t memory = q->hardware->memory, likely = r->layers[FRAMEWORK_DEVICE].likely;
    if (!memory) return true;
    /* What is asked for at once and kept for itself, as vLLM's cache, fills the device by intent. */
    return r->fits && r->spares && (r->left || likely <= memory - memory / 50);
}

/* ---- advice ---- */

/* A walk through the changes, alone and together. */
typedef struct {
    const framework *framework;
    const framework_subject *subject;
    const framework_settings *asked;
    bool (*enough)(const framework_subject *q, const framework_result *r);
    framework_advice *at;     /* what is tried now */
    framework_advice nearest; /* of those tried what leaves the least missing; "": none helps */
    uint64_t missing;         /* with that */
} walk;

static bool fits(const framework_subject *q, const framework_result *r) {
    (void)q;
    return r->fits;
}

static bool never(const framework_subject *q, const framework_result *r) {
    (void)q, (void)r;
    return false;
}

static bool is_enough(const walk *w) { return w->at->text[0] && w->enough(w->subject, &w->at->result); }

static status attempt(walk *w) {
    framework_result *r = &w->at->result;
    TRY(w->framework->estimate(w->subject, &w->at->settings, r));
    if (!r->fits && r->beyond < w->missing) w->nearest = *w->at, w->missing = r->beyond;
    return STATUS_OK;
}

static void restart(walk *w) {
    w->at->settings = *w->asked;
    w->at->text[0] = 0;
    w->at->alters = false;
}

/* What changes may be: switches leave what is learned and take no more devices. */
typedef enum { SWITCHES, DEVICES, ALTERING } change_kind;

static change_kind kind_of(const framework_change *c) {
    return c->alters ? ALTERING : c->repeats ? DEVICES : SWITCHES;
}

static status try_each(walk *w, change_kind kind) {
    const framework *f = w->framework;
    char one[FRAMEWORK_CHANGE_BYTES];
    for (uint32_t i = 0; i < f->change_count && !is_enough(w); i++) {
        if (kind_of(&f->changes[i]) != kind) continue;
        restart(w);
        if (!f->changes[i].apply(w->subject, &w->at->settings, one)) continue;
        snprintf(w->at->text, sizeof w->at->text, "%s", one);
        w->at->alters = kind == ALTERING;
        TRY(attempt(w));
    }
    return STATUS_OK;
}

/* Takes options and their values out of `said` that `change` says anew. */
static void drop_said_anew(char *said, const char *change) {
    for (const char *name = change; *name; name += strcspn(name, " "), name += *name == ' ') {
        size_t length = strcspn(name, " ");
        if (strncmp(name, "--", 2) != 0) continue;
        for (char *at = said; *at; at += strcspn(at, " "), at += *at == ' ') {
            if (strcspn(at, " ") != length || strncmp(at, name, length) != 0) continue;
            char *next = strstr(at + length, " --");
            if (next)
                memmove(at, next + 1, strlen(next));
            else
                at[at > said ? -1 : 0] = 0;
            break;
        }
    }
}

/* Takes one change on top of those before it, as often as it helps. */
static status add_change(walk *w, const framework_change *c, bool repeating) {
    char one[FRAMEWORK_CHANGE_BYTES];
    framework_advice *at = w->at;
    size_t length = strlen(at->text);
    do {
        framework_settings before = at->settings;
        if (!c->apply(w->subject, &at->settings, one)) {
            at->settings = before;
            break;
        }
        at->text[length] = 0;
        drop_said_anew(at->text, one);
        length = strlen(at->text);
        snprintf(at->text + length, sizeof at->text - length, "%s%s", length ? " " : "", one);
        at->alters = at->alters || c->alters;
        TRY(attempt(w));
    } while (c->repeats && repeating && !is_enough(w));
    return STATUS_OK;
}

/* Changes of all kinds up to `most`, one on top of the other, until it is enough. */
static status add_together(walk *w, change_kind most, bool repeating) {
    const framework *f = w->framework;
    for (uint32_t i = 0; i < f->change_count && !is_enough(w); i++) {
        const framework_change *c = &f->changes[i];
        if (!c->alone && kind_of(c) <= most) TRY(add_change(w, c, repeating));
    }
    return STATUS_OK;
}

static status try_together(walk *w, change_kind most, bool repeating) {
    restart(w);
    return add_together(w, most, repeating);
}

/* What alters, each with the switches on top: adapters with blocks that are computed again. */
static status try_each_with_switches(walk *w) {
    const framework *f = w->framework;
    for (uint32_t i = 0; i < f->change_count && !is_enough(w); i++) {
        if (kind_of(&f->changes[i]) != ALTERING) continue;
        restart(w);
        TRY(add_change(w, &f->changes[i], false));
        if (w->at->text[0]) TRY(add_together(w, SWITCHES, false));
    }
    return STATUS_OK;
}

static bool any_alters(const framework *f) {
    for (uint32_t i = 0; i < f->change_count; i++)
        if (f->changes[i].alters) return true;
    return false;
}

/* Of a framework whose changes may alter what is learned: what does not comes first, and of that what takes
 * no more devices. */
static status try_by_cost(walk *w) {
    TRY(try_each(w, SWITCHES));
    if (!is_enough(w)) TRY(try_together(w, SWITCHES, false));
    if (!is_enough(w)) TRY(try_each(w, DEVICES));
    if (!is_enough(w)) TRY(try_together(w, DEVICES, false));
    if (!is_enough(w)) TRY(try_each(w, ALTERING));
    if (!is_enough(w)) TRY(try_each_with_switches(w));
    return STATUS_OK;
}

static status try_all(walk *w) {
    restart(w);
    if (any_alters(w->framework)) {
        TRY(try_by_cost(w));
    } else {
        TRY(try_each(w, SWITCHES));
        if (!is_enough(w)) TRY(try_each(w, DEVICES));
    }
    if (!is_enough(w)) TRY(try_together(w, ALTERING, true));
    if (!is_enough(w)) restart(w);
    return STATUS_OK;
}

status framework_advise(const framework *f, const framework_subject *q, const framework_settings *s,
                        framework_advice *out) {
    walk w = { .framework = f, .subject = q, .asked = s, .enough = fits, .at = out };
    return try_all(&w);
}

status framework_advise_room(const framework *f, const framework_subject *q, const framework_settings *s,
                             framework_advice *out) {
    walk w = { .framework = f, .subject = q, .asked = s, .enough = framework_has_room, .at = out };
    return try_all(&w);
}

status framework_nearest(const framework *f, const framework_subject *q, const framework_settings *s,
                         framework_advice *out) {
    framework_result r;
    TRY(f->estimate(q, s, &r));
    walk w = { .framework = f, .subject = q, .asked = s, .enough = never, .at = out, .missing = r.beyond };
    TRY(try_all(&w));
    *out = w.nearest;
    return STATUS_OK;
}

enum { CONTEXT_STEP = 256 };

typedef struct {
    const framework *framework;
    const framework_subject *subject;
    const framework_settings *settings;
} shortening;

static status fits_in_steps(void *context, int64_t steps, bool *fits) {
    const shortening *x = context;
    framework_settings tried = *x->settings;
    framework_result r;
    *x->framework->variable(&tried, FRAMEWORK_CONTEXT) = steps * CONTEXT_STEP;
    TRY(x->framework->estimate(x->subject, &tried, &r));
    *fits = r.fits;
    return STATUS_OK;
}

bool framework_shorten(const framework *f, const framework_subject *q, framework_settings *s,
                       char out[FRAMEWORK_CHANGE_BYTES]) {
    int64_t *context = f->variable(s, FRAMEWORK_CONTEXT), steps = 0;
    shortening x = { f, q, s };
    int64_t most = context ? (*context - 1) / CONTEXT_STEP : 0; /* shorter than it is */
    if (most < 1 || solve_largest(most, fits_in_steps, &x, &steps) != STATUS_OK || !steps) return false;
    *context = steps * CONTEXT_STEP;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--context %lld", (long long)*context);
    return true;
}

bool framework_spread(const framework *f, const framework_subject *q, framework_settings *s,
                      char out[FRAMEWORK_CHANGE_BYTES]) {
    enum { MOST = 1024 };
    int64_t *gpus = f->variable(s, FRAMEWORK_GPUS);
    while (gpus && *gpus <= MOST / 2) {
        framework_result r;
        *gpus = *gpus < 1 ? 2 : 2 * *gpus;
        if (f->check(q, s) != STATUS_OK || f->estimate(q, s, &r) != STATUS_OK || !r.fits) continue;
        snprintf(out, FRAMEWORK_CHANGE_BYTES, "--gpus %lld", (long long)*gpus);
        return true;
    }
    return false;
}
