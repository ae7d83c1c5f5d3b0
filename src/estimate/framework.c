#include "estimate/framework.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "estimate/solve.h"

const framework *framework_of(framework_name n) {
    static const framework *const list[FRAMEWORKS] = {
        [FRAMEWORK_HF] = &framework_hf,         [FRAMEWORK_PYTORCH] = &framework_pytorch,
        [FRAMEWORK_VLLM] = &framework_vllm,     [FRAMEWORK_LLAMA_CPP] = &framework_llama_cpp,

        [FRAMEWORK_LITGPT] = &framework_litgpt, [FRAMEWORK_LLMC] = &framework_llmc
    };
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
    interval *device = &r->layers[FRAMEWORK_DEVICE];
    r->layers[FRAMEWORK_RESERVED] = *reserved;
    const interval *b = &r->beside;
    *device = (interval){ reserved->low + h->context[0] + b->low,
                          reserved->likely + h->context[1] + h->workspace + b->likely,
                          reserved->high + h->context[2] + h->workspace + b->high };
    r->fits = !h->memory || device->likely <= h->memory;
    r->surely = !h->memory || device->high <= h->memory;
    r->beyond = r->fits ? h->memory - device->likely : device->likely - h->memory;
    if (!h->memory) r->beyond = 0;
}

/* ---- advice ---- */

static status attempt(const framework *f, const framework_subject *q, framework_advice *a) {
    return f->estimate(q, &a->settings, &a->result);
}

static status advise_one(const framework *f, const framework_subject *q, const framework_settings *s,
                         framework_advice *out) {
    char one[FRAMEWORK_CHANGE_BYTES];
    for (uint32_t i = 0; i < f->change_count; i++) {
        out->settings = *s;
        if (!f->changes[i].apply(q, &out->settings, one)) continue;
        snprintf(out->text, sizeof out->text, "%s", one);
        TRY(attempt(f, q, out));
        if (out->result.fits) return STATUS_OK;
    }
    out->result.fits = false;
    return STATUS_OK;
}

/* Takes one change on top of those before it, as often as it helps. */
static status add_change(const framework *f, const framework_subject *q, const framework_change *c,
                         framework_advice *out) {
    char one[FRAMEWORK_CHANGE_BYTES];
    size_t length = strlen(out->text);
    do {
        framework_settings before = out->settings;
        if (!c->apply(q, &out->settings, one)) {
            out->settings = before;
            break;
        }
        snprintf(out->text + length, sizeof out->text - length, "%s%s", length ? " " : "", one);
        TRY(attempt(f, q, out));
    } while (c->repeats && !out->result.fits);
    return STATUS_OK;
}

status framework_advise(const framework *f, const framework_subject *q, const framework_settings *s,
                        framework_advice *out) {
    TRY(advise_one(f, q, s, out));
    if (out->result.fits) return STATUS_OK;
    out->settings = *s;
    out->text[0] = 0;
    for (uint32_t i = 0; i < f->change_count && !out->result.fits; i++)
        if (!f->changes[i].alone) TRY(add_change(f, q, &f->changes[i], out));
    if (!out->result.fits) out->text[0] = 0;
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
    int64_t most = (*context - 1) / CONTEXT_STEP; /* shorter than it is */
    if (most < 1 || solve_largest(most, fits_in_steps, &x, &steps) != STATUS_OK || !steps) return false;
    *context = steps * CONTEXT_STEP;
    snprintf(out, FRAMEWORK_CHANGE_BYTES, "--context %lld", (long long)*context);
    return true;
}
