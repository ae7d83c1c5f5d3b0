/* The plan as text: what a run needs, what was chosen for it and at what price, and who holds the peak.
 * Numbers that a person acts on come first; what explains them follows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "ir/op.h"
#include "report/places.h"

enum { HOLDERS_SHOWN = 8, LINE = 100 };

/* ---- small texts ---- */

static const char *bytes_text(uint64_t bytes, char buffer[UNITS_TEXT_BYTES]) {
    return units_bytes_text(bytes, buffer);
}

static const char *change_text(int64_t bytes, char buffer[UNITS_TEXT_BYTES + 1]) {
    uint64_t size = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
    buffer[0] = bytes < 0 ? '-' : '+';
    units_bytes_text(size, buffer + 1);
    return bytes ? buffer : "none";
}

static const char *seconds_change_text(double seconds, char buffer[UNITS_TEXT_BYTES + 1]) {
    if (fabs(seconds) < 0.5e-6) return "none";
    buffer[0] = seconds < 0 ? '-' : '+';
    units_seconds_text(fabs(seconds), buffer + 1);
    return buffer;
}

/* "48 samples of 256 tokens". */
static void add_samples(text *out, const setup *s, int64_t count) {
    text_add(out, "%lld sample%s", (long long)count, count == 1 ? "" : "s");
    if (s->model.context) text_add(out, " of %lld tokens", (long long)s->request.run.context);
}

/* What seconds are of: a step, or the whole of a validation that is alone. */
typedef struct {
    const char *row, *after, *heading; /* "step time", "a step", "time a step" */
} seconds_words;
static const seconds_words *words_of(const setup *s) {
    static const seconds_words step = { "step time", "a step", "time a step" };
    static const seconds_words whole = { "time", "in all", "time" };
    return s->request.run.training ? &step : &whole;
}

/* ---- what it needs ---- */

static void add_title(text *out, const setup *s, const decision *d, const parts_colours *k) {
    char count[REPORT_NUMBER_BYTES], name[REPORT_NAME_BYTES];
    parts_parameters n = parts_parameters_of(s, d);
    text_add(out, "%s%s%s: %s parameters, ", k->bold, report_name(s->model.name, name), k->end,
             report_count(n.all, count));
    if (n.trained && n.trained != n.all) text_add(out, "%s trained, ", report_count(n.trained, count));
    const compose_run *r = &s->request.run;
    if (r->training)
        text_add(out, "%s, a batch of ", optimizer_title(r->optimizer.kind));
    else
        text_add(out, "no training, evaluation on ");
    add_samples(out, s, r->training ? r->batch : r->eval_samples);
    text_add(out, "\n\n");
}

static void add_needs(text *out, const setup *s, const decision *d, const parts_colours *k) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], m[UNITS_TEXT_BYTES], c[REPORT_NUMBER_BYTES];
    const search_point *plain = &d->front.plain;
    places_add_gpu(out, &d->plan);
    text_add(out, "  %-15s %s%11s%s   ", "predicted peak", k->bold, bytes_text(d->plan.peak_bytes, a),
             k->end);
    if (plain->peak_bytes)
        text_add(out, "%s plain, that is without any technique", bytes_text(plain->peak_bytes, b));
    text_add(out, "\n");
    if (d->budget == UINT64_MAX)
        text_add(out, "  %-15s %11s   set one with --memory; smaller budgets are met at a price in time\n",
                 "budget", "none");
    else
        text_add(out, "  %-15s %11s   %s of it left over%s%s%s\n", "budget", bytes_text(d->budget, a),
                 bytes_text(d->budget - d->plan.peak_bytes, b),
                 s->margin ? "; it is what is free less a margin of " : "",
                 s->margin ? bytes_text(s->margin, m) : "", s->margin ? " for others" : "");
    uint64_t least = search_least(&d->front);
    const seconds_words *words = words_of(s);
    text_add(out, "  %-15s %11s   %s bytes, at %s %s\n", "least budget", bytes_text(least, a),
             report_count(least, c), units_seconds_text(d->front.points[0].seconds, b), words->after);
    text_add(out, "  %-15s %11s   ", words->row, units_seconds_text(d->point.seconds, a));
    if (plain->peak_bytes) text_add(out, "%s plain; ", units_seconds_text(plain->seconds, b));
    text_add(out, "predicted, with rates of the %s\n", s->request.run.lower.rates.source);
    if (s->request.run.ranks > 1)
        text_add(out, "  %-15s %11s   of it for other ranks; the rest of what they send moves meanwhile\n",
                 "waiting", units_seconds_text(compose_waiting(&s->request.run, &d->plan), a));
}

/* ---- what was chosen ---- */

static const search_share *share_of(const decision *d, const pass *p) {
    for (uint32_t i = 0; i < d->share_count; i++)
        if (strcmp(d->shares[i].name, p->name) == 0) return &d->shares[i];
    return NULL;
}

static void add_technique(text *out, const setup *s, const decision *d, int i, const parts_colours *k) {
    static const char *const pinned[] = {
        [SEARCH_AUTO] = "", [SEARCH_OFF] = "pinned", [SEARCH_PINNED] = "pinned", [SEARCH_ON] = ""
    };
    const pass *p = pass_table[i];
    const search_share *share = share_of(d, p);
    char option[PASS_OPTION_BYTES], bytes[UNITS_TEXT_BYTES + 1], seconds[UNITS_TEXT_BYTES + 1];
    const char *note = pinned[s->request.pins[i].kind];
    if (share)
        text_add(out, "  --%-14s %-18s %12s  %12s  %s%s%s\n", pass_option(p, option), share->setting,
                 change_text(share->bytes, bytes), seconds_change_text(share->seconds, seconds),
                 pass_class_name(share->class), *note ? ", " : "", note);
    else
        text_add(out, "%s  --%-14s off%s%s%s\n", k->dim, pass_option(p, option), *note ? ", " : "", note,
                 k->end);
}

static void add_batch(text *out, const setup *of, const decision *d) {
    const compose_split *s = &d->split;
    const compose_run *r = &of->request.run;
    bool training = r->training;
    long long micro = (long long)d->point.choice.micro_batch;
    if (!training)
        text_add(out, "  ");
    else if (s->accumulate && s->last == micro)
        text_add(out, "  batch: %lld micro-batches of %lld", (long long)s->accumulate + 1, micro);
    else if (s->accumulate)
        text_add(out, "  batch: %lld micro-batches of %lld and one of %lld", (long long)s->accumulate, micro,
                 (long long)s->last);
    else
        text_add(out, "  batch: %lld at once", (long long)s->last);
    if (training && r->ranks > 1) text_add(out, " on each of %lld ranks", (long long)r->ranks);
    if (compose_units(r)) text_add(out, ", in units of %lld", (long long)compose_unit(r));
    if (s->eval_calls || s->eval_rest) text_add(out, "%svalidation: ", training ? "; " : "");
    if (s->eval_calls) text_add(out, "%lld x %lld", (long long)s->eval_calls, (long long)s->eval_batch);
    if (s->eval_rest) text_add(out, "%s%lld", s->eval_calls ? " + " : "", (long long)s->eval_rest);
    text_add(out, "\n");
}

static void add_choices(text *out, const setup *s, const decision *d, const parts_colours *k) {
    char seconds[UNITS_TEXT_BYTES];
    text_add(out, "\n%sWhat was chosen%s, of %llu combinations in %s\n", k->bold, k->end,
             (unsigned long long)d->front.candidates, units_seconds_text(d->front.elapsed, seconds));
    text_add(out, "%s  %-16s %-18s %12s  %12s  %s%s\n", k->dim, "technique", "setting", "memory",
             words_of(s)->heading, "results", k->end);
    bool training = s->request.run.training;
    for (int i = 0; pass_table[i]; i++)
        if (training || !pass_table[i]->training_only) add_technique(out, s, d, i, k);
    add_batch(out, s, d);
    char said[PARTS_SAID_BYTES];
    for (int i = 0; pass_table[i]; i++) {
        const char *remark = parts_remark(d, i);
        if (remark) text_add(out, "  %s\n", remark);
    }
    for (uint32_t i = 0; i < d->declined_count; i++)
        text_add(out, "  %s\n", parts_declined(&d->declined[i], said));
    if (*parts_unconfirmed(d, said)) text_add(out, "  %s\n", said);
}

/* ---- memory ---- */

static void add_bar(text *out, double part, const report_style *style) {
    enum { WIDTH = 30 };
    static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    int units = (int)(part * WIDTH * 8 + 0.5);
    if (!style->unicode) units = (units + 4) / 8 * 8;
    for (int i = 0; i < units / 8; i++) text_add(out, style->unicode ? "█" : "#");
    text_add(out, "%s", eighths[units % 8]);
}

static void add_memory(text *out, const setup *s, const decision *d, const report_style *style,
                       const parts_colours *k) {
    const plan *p = &d->plan;
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], c[UNITS_TEXT_BYTES], e[UNITS_TEXT_BYTES];
    text_add(out, "\n%sMemory at the peak%s\n", k->bold, k->end);
    for (int i = 0; i < CATEGORY_COUNT; i++) {
        if (!p->by_category[i]) continue;
        double part = (double)p->by_category[i] / (double)p->peak_bytes;
        text_add(out, "  %-15s %11s  %4.1f %%  ", category_name((category)i),
                 bytes_text(p->by_category[i], a), 100 * part);
        add_bar(out, part, style);
        text_add(out, "\n");
    }
    text_add(out, "  %-15s %11s  = persistent %s + arena %s + runtime %s\n", "total",
             bytes_text(p->peak_bytes, a), bytes_text(p->pools[POOL_MEMORY].persistent_bytes, b),
             bytes_text(p->pools[POOL_MEMORY].arena_bytes, c),
             bytes_text(p->pools[POOL_MEMORY].runtime_bytes, e));
    if (p->runtime.ranks)
        text_add(out, "  of runtime %s are for the transport between %d ranks; each of them has this plan\n",
                 bytes_text(p->runtime.ranks, a), s->comm.world);
    text_add(out, "  the arena's lower bound, most bytes alive at once, is %s: packing adds %.2f %%\n",
             bytes_text(p->lower_bound_bytes, a),
             p->lower_bound_bytes
                 ? 100 * ((double)p->pools[POOL_MEMORY].arena_bytes / (double)p->lower_bound_bytes - 1)
                 : 0);
    places_add(out, s, d, k);
}

/* ---- the peak ---- */

/* The name and shape of the largest; of a long name the end, from a dot on. */
static void add_largest(text *out, const parts_holder *h, size_t room) {
    char form[SHAPE_TEXT_BYTES];
    const char *before = h->count > 1 ? "largest: " : "", *name = h->name, *dot = name;
    room -= strlen(before) + strlen(shape_text(&h->shape, form)) + 1;
    while (strlen(dot) + 2 > room && strchr(dot + 1, '.')) dot = strchr(dot + 1, '.');
    if (strlen(name) <= room) dot = name;
    text_add(out, "%s%s%s %s", before, dot > name ? ".." : "", dot > name ? dot + 1 : name, form);
}

static void add_holder(text *out, const parts_holder *h) {
    char what[SHAPE_TEXT_BYTES + 32], form[SHAPE_TEXT_BYTES], bytes[UNITS_TEXT_BYTES];
    if (h->persistent)
        snprintf(what, sizeof what, "%u tensor%s", (unsigned)h->count, h->count == 1 ? "" : "s");
    else if (!h->shape.rank)
        snprintf(what, sizeof what, "one call");
    else
        snprintf(what, sizeof what, "%u x %s %s", (unsigned)h->count, shape_text(&h->shape, form),
                 dtype_name(h->dtype));
    text_add(out, "  %11s   %-26s %-11s  ", bytes_text(h->bytes, bytes), what, category_name(h->category));
    if (h->persistent && h->shape.rank)
        add_largest(out, h, LINE - 2 - 11 - 3 - 26 - 1 - 11 - 2);
    else if (h->from)
        text_add(out, "%s%s", h->category == CATEGORY_SCRATCH ? "of " : "from ", h->from);
    else
        text_add(out, "%s", h->name);
    text_add(out, "\n");
}

static void add_peak(text *out, const decision *d, const parts_colours *k) {
    if (!d->plan.program_count) return;
    const plan_program *pp = &d->plan.programs[d->plan.peak_program];
    if (!pp->program.count) return;
    const graph *g = &pp->program.graph;
    const node *n = graph_node(g, pp->program.steps[pp->peak.step].node);
    char site[REPORT_NUMBER_BYTES], bytes[UNITS_TEXT_BYTES];
    text_add(out, "\n%sThe peak%s is in program %s, kernel %u of %u: %s, %s, %s. Alive there:\n", k->bold,
             k->end, pp->program.shape.name, (unsigned)pp->peak.step + 1, (unsigned)pp->program.count,
             n->op->name, parts_phase_name((phase)n->phase), parts_site_text(n->site, site));
    parts_holder holders[HOLDERS_SHOWN];
    uint64_t rest;
    uint32_t count = 0;
    if (parts_holders(&d->plan, holders, HOLDERS_SHOWN, &count, &rest) != STATUS_OK) out->failed = true;
    for (uint32_t i = 0; i < count && i < HOLDERS_SHOWN; i++) add_holder(out, &holders[i]);
    if (count > HOLDERS_SHOWN)
        text_add(out, "  %11s   in %u smaller kinds\n", bytes_text(rest, bytes),
                 (unsigned)(count - HOLDERS_SHOWN));
}

/* ---- where nothing fits ---- */

static void add_refusal(text *out, const setup *s, const decision *d, const parts_colours *k) {
    uint64_t least = search_least(&d->front);
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], name[REPORT_NAME_BYTES];
    text_add(out, "%s%s does not fit%s into %s: the smallest of %llu combinations needs %s.\n\n", k->bad,
             report_name(s->model.name, name), k->end, bytes_text(d->budget, a),
             (unsigned long long)d->front.candidates, bytes_text(least, b));
    text_add(out, "  %-15s %11s\n", "missing", bytes_text(least - d->budget, a));
    text_add(out, "  %-15s %11s   --memory %llu, at %s %s\n", "least budget", bytes_text(least, a),
             (unsigned long long)least, units_seconds_text(d->front.points[0].seconds, b),
             words_of(s)->after);
    text_add(out, "\n%sWhat would make it fit%s\n", k->bold, k->end);
    if (d->advice[0])
        text_add(out, "  %s\n", d->advice);
    else
        text_add(out,
                 "  no option stands in the way: it takes a smaller model, --context%s, or more memory\n",
                 s->request.run.training ? " or --batch" : "");
}

void report_plan_text(text *out, const setup *s, const decision *d, const report_style *style) {
    parts_colours k = parts_colours_of(style);
    if (report_fits(d)) {
        add_title(out, s, d, &k);
        add_needs(out, s, d, &k);
    } else {
        add_refusal(out, s, d, &k);
        if (style->brief) return;
        text_add(out, "\nThe plan that needs least:\n");
    }
    add_choices(out, s, d, &k);
    if (style->brief) return;
    add_memory(out, s, d, style, &k);
    add_peak(out, d, &k);
}
