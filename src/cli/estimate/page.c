/* The page of an estimate: the answer, its intervals, what is live at the peak, the step, and what would
 * change it. */
#include "cli/estimate/page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"

/* ---- the answer ---- */

static framework_layer outer(const framework_result *r) { return r->last_layer; }

static void add_verdict(text *t, const estimate_question *e, const framework_advice *a) {
    const framework_result *r = &e->result;
    const hardware *h = &e->hardware;
    char has[UNITS_TEXT_BYTES], more[UNITS_TEXT_BYTES], then[UNITS_TEXT_BYTES];
    uint64_t all = h->memory + h->leaves;
    units_bytes_text(all, has);
    units_column_text(r->beyond, all, more);
    text_add(t, "%s %s %s, %s", e->model.name,
             r->surely ? "fits"
             : r->fits ? "may fit"
                       : "does not fit",
             h->title, has);
    if (r->fits)
        text_add(t, ": %s %s.", more, r->left ? r->left : "are left");
    else if (a->text[0])
        text_add(t, ": %s%s makes it fit, in %s.", a->text, estimate_altered(a),
                 units_column_text(a->result.layers[outer(r)].likely, all, then));
    else
        text_add(t, ": %s too much, and no change that is known here is enough.", more);
}

static void add_answer(text *t, const estimate_question *e, const framework_advice *a) {
    const framework_result *r = &e->result;
    const interval *b = &r->layers[outer(r)];
    char low[UNITS_TEXT_BYTES], likely[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES];
    if (e->hardware.memory) {
        add_verdict(t, e, a);
        return;
    }
    text_add(t, "%s in %s likely takes %s, between %s and %s.", e->model.name, e->framework->title,
             units_bytes_text(b->likely, likely), units_column_text(b->low, b->likely, low),
             units_column_text(b->high, b->likely, high));
}

/* The settings, as people read them; lines become sentences. */
static void add_further(text *t, const estimate_question *e) {
    text lines = { 0 };
    text_add(&lines, "%s: ", e->framework->title);
    e->framework->describe(&e->subject, &e->settings, &e->result, &lines);
    if (e->notes.length) text_add(&lines, "%s", e->notes.data);
    for (size_t i = 0; i < lines.length; i++)
        if (lines.data[i] == '\n' && i + 1 < lines.length)
            text_add(t, "; ");
        else if (lines.data[i] != '\n')
            text_add(t, "%c", lines.data[i]);
    text_add(t, ".");
    t->failed |= lines.failed;
    text_close(&lines);
}

/* ---- intervals and terms ---- */

static void put_layers(page *p, const estimate_question *e) {
    static const char *const about[FRAMEWORK_LAYERS] = { "tensors", "by its allocators",
                                                         "by the driver's count" };
    const framework_result *r = &e->result;
    page_bar bars[FRAMEWORK_LAYERS + 1];
    uint32_t n = 0;
    for (int l = (int)r->least_layer; l <= (int)r->last_layer; l++)
        bars[n++] = (page_bar){ .label = framework_layer_name((framework_layer)l),
                                .note = about[l],
                                .value = (double)r->layers[l].likely,
                                .marks = { (double)r->layers[l].low, (double)r->layers[l].high } };
    if (e->hardware.memory)
        bars[n++] = (page_bar){ .label = "what there is",
                                .note = "of the device",
                                .value = (double)(e->hardware.memory + e->hardware.leaves),
                                .marks = { NAN, NAN } };
    page_put_bars(p,
                  &(page_bars){ .name = "Memory, as intervals",
                                .about = "A bar is the likely value; marks are what it may be at least and "
                                         "at most.",
                                .label_word = "layer",
                                .note_word = "what it counts",
                                .unit = PAGE_BYTES,
                                .value_name = "likely",
                                .mark_names = { "at least", "at most" },
                                .bars = bars,
                                .count = n });
}

static void put_terms(page *p, const framework_result *r) {
    page_bar bars[FRAMEWORK_MOST_TERMS];
    char about[160];
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->term_count; i++)
        if (r->terms[i].bytes)
            bars[n++] = (page_bar){ .label = r->terms[i].name, .value = (double)r->terms[i].bytes };
    snprintf(about, sizeof about,
             r->peak_in ? "They add up to the likely value of '%s', at its peak in %s."
                        : "They add up to the likely value of '%s'.",
             framework_layer_name(r->terms_of), r->peak_in);
    page_put_bars(p, &(page_bars){ .name = "What it is made of",
                                   .about = about,
                                   .label_word = "term",
                                   .unit = PAGE_BYTES,
                                   .value_name = "bytes",
                                   .bars = bars,
                                   .count = n });
}

/* ---- changes ---- */

enum { MOST_CHANGES = 32 };
typedef struct {
    char text[FRAMEWORK_CHANGE_BYTES],
        own[FRAMEWORK_CHANGE_BYTES]; /* options; the framework's words, or "" */
    uint64_t bytes;
    bool alters;
} change;

static void sort_changes(change *all, uint32_t count) {
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i; k > 0 && all[k].bytes < all[k - 1].bytes; k--) {
            change other = all[k];
            all[k] = all[k - 1], all[k - 1] = other;
        }
}

/* Each by itself, those that make it less. */
static uint32_t find_changes(const estimate_question *e, change all[MOST_CHANGES]) {
    const framework *f = e->framework;
    uint64_t before = e->result.layers[outer(&e->result)].likely;
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->change_count && n < MOST_CHANGES; i++) {
        framework_settings s = e->settings;
        framework_result r;
        if (!f->changes[i].apply(&e->subject, &s, all[n].text)) continue;
        if (f->estimate(&e->subject, &s, &r) != STATUS_OK) continue;
        all[n].own[0] = 0;
        if (f->changes[i].own) f->changes[i].own(&s, all[n].own);
        all[n].bytes = r.layers[outer(&e->result)].likely;
        all[n].alters = f->changes[i].alters;
        if (all[n].bytes < before) n++;
    }
    sort_changes(all, n);
    return n;
}

static void put_how(page *p, const change *all, uint32_t count, uint64_t before) {
    static const page_column columns[] = {
        { "change", false }, { "saves bytes", true }, { "in the framework's words", false }, { "", false }
    };
    char few[REPORT_NUMBER_BYTES];
    page_table_begin(p, "What each change does", columns, 4);
    for (uint32_t i = 0; i < count; i++) {
        page_row(p, false);
        page_cell(p, &columns[0], all[i].text);
        page_cell(p, &columns[1], report_count(before - all[i].bytes, few));
        page_cell(p, &columns[2], all[i].own);
        page_cell(p, &columns[3], all[i].alters ? "changes what is trained" : "");
    }
    page_table_end(p);
}

static void put_changes(page *p, const estimate_question *e, const framework_advice *a) {
    change all[MOST_CHANGES];
    page_bar bars[MOST_CHANGES];
    const framework_result *r = &e->result;
    uint64_t before = r->layers[outer(r)].likely;
    uint32_t n = find_changes(e, all);
    page_section(p, "What would change it");
    if (a->text[0]) page_say(p, "The cheapest change that makes it fit: %s%s.", a->text, estimate_altered(a));
    for (uint32_t i = 0; i < n; i++)
        bars[i] = (page_bar){ .label = all[i].text,
                              .value = (double)all[i].bytes,
                              .marks = { (double)before, NAN } };
    if (!n) page_say(p, "No change that is known here makes it less.");
    page_put_bars(p,
                  &(page_bars){ .name = "With each change by itself",
                                .about = "Likely values of the outermost layer above. Changes don't add up.",
                                .label_word = "change",
                                .unit = PAGE_BYTES,
                                .value_name = "likely with it",
                                .mark_names = { "without it", NULL },
                                .bars = bars,
                                .count = n });
    if (n) put_how(p, all, n, before);
}

/* ---- facts ---- */

static const char *fact_text(const framework_fact *f, double value, char out[2 * PAGE_VALUE_BYTES]) {
    if (f->unit == FRAMEWORK_BYTES) return page_exact((uint64_t)value, out);
    snprintf(out, 2 * PAGE_VALUE_BYTES,
             f->unit == FRAMEWORK_HOURS     ? "%.4g h"
             : f->unit == FRAMEWORK_SECONDS ? "%.3g s"
             : f->unit == FRAMEWORK_TIMES   ? "%.2f"
                                            : "%.0f",
             value);
    return out;
}

static void put_facts(page *p, const framework_result *r) {
    static const page_column columns[] = {
        { "", false }, { "likely", true }, { "at least", true }, { "at most", true }
    };
    char few[2 * PAGE_VALUE_BYTES];
    for (uint32_t i = 0; i < r->fact_count; i++) {
        const framework_fact *f = &r->facts[i];
        if (i == 0) page_section(p, "What else is to be known");
        if (i && r->under[i]) page_table_end(p);
        if (i == 0 || r->under[i])
            page_table_begin(p, r->under[i] ? r->under[i] : "What that holds", columns, 4);
        page_row(p, false);
        page_cell(p, &columns[0], f->label);
        page_cell(p, &columns[1], fact_text(f, f->likely, few));
        page_cell(p, &columns[2], fact_text(f, f->low, few));
        page_cell(p, &columns[3], fact_text(f, f->high, few));
    }
    if (r->fact_count) page_table_end(p);
    if (r->unknown_count) page_section(p, "Without a rule");
    for (uint32_t i = 0; i < r->unknown_count; i++) page_say(p, "%s", r->unknown[i]);
}

/* ---- the whole ---- */

status estimate_page(io_writer *file, const estimate_question *e, const framework_advice *a) {
    page p;
    text title = { 0 }, answer = { 0 }, further = { 0 };
    text_add(&title, "snug estimate %s", e->model.name);
    add_answer(&answer, e, a);
    add_further(&further, e);
    bool failed = title.failed || answer.failed || further.failed;
    page_begin(&p, file, &(page_head){ title.data, answer.data, further.data, !e->result.fits });
    p.out.failed |= failed;
    text_close(&title);
    text_close(&answer);
    text_close(&further);
    page_section(&p, "Memory");
    put_layers(&p, e);
    put_terms(&p, &e->result);
    status played = estimate_page_step(&p, e);
    put_changes(&p, e, a);
    put_facts(&p, &e->result);
    status written = page_end(&p);
    return played == STATUS_OK ? written : played;
}
