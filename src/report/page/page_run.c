/* The pages of what was measured: a profile, a run. */
#include <math.h>
#include <stdio.h>

#include "base/units.h"
#include "report/page/page_curves.h"
#include "report/page/page_memory.h"
#include "report/page/page_plan.h"
#include "report/page/page_time.h"
#include "report/parts.h"

/* ---- memory: planned and measured ---- */

/* Every category but runtime is the planned one, and that is not more. */
static bool as_planned(const decision *d, const parts_measured *m) {
    for (int c = 0; c < CATEGORY_COUNT; c++) {
        uint64_t planned = d->plan.by_category[c];
        if (c == CATEGORY_RUNTIME ? m->by_category[c] > planned : m->by_category[c] != planned) return false;
    }
    return true;
}

static void put_measured(page *p, const decision *d, const train_result *r) {
    page_bar bars[CATEGORY_COUNT + 1];
    parts_measured m = parts_measured_of(d, r);
    uint32_t n = 0;
    for (int c = 0; c < CATEGORY_COUNT; c++) {
        uint64_t planned = d->plan.by_category[c], seen = m.by_category[c];
        if (!planned && !seen) continue;
        const char *note = seen == planned                           ? "equal"
                           : c == CATEGORY_RUNTIME && seen < planned ? "within"
                                                                     : "apart";
        bars[n++] =
            (page_bar){ category_name((category)c), note, (double)seen, { (double)planned, NAN }, NULL };
    }
    bars[n++] = (page_bar){ d->plan.device->apart ? "device, peak" : "process, peak",
                            m.peak_bytes <= d->plan.peak_bytes ? "within" : "apart",
                            (double)m.peak_bytes,
                            { (double)d->plan.peak_bytes, NAN },
                            NULL };
    page_put_bars(p, &(page_bars){ .name = "Memory by category: measured and planned",
                                   .label_word = "category",
                                   .note_word = "against the plan",
                                   .unit = PAGE_BYTES,
                                   .value_name = "measured",
                                   .mark_names = { "planned", NULL },
                                   .bars = bars,
                                   .count = n });
}

static const char *planned_text(const decision *d, const train_result *r, char few[128]) {
    parts_measured m = parts_measured_of(d, r);
    char peak[UNITS_TEXT_BYTES];
    units_bytes_text(m.peak_bytes, peak);
    snprintf(few, 128, as_planned(d, &m) ? "%s of memory, as planned" : "%s of memory, other than planned",
             peak);
    return few;
}

/* ---- a profile ---- */

static void put_steps(page *p, const profile_result *r) {
    enum { SHOWN = 1000 };
    double x[SHOWN], y[SHOWN];
    uint32_t n = r->steps < SHOWN ? (uint32_t)r->steps : SHOWN;
    for (uint32_t i = 0; i < n; i++) x[i] = i + 1.0, y[i] = r->step[i].end - r->step[i].begin;
    page_put_lines(p, &(page_lines){ .name = "Time of each step",
                                     .x_word = "step",
                                     .unit = PAGE_SECONDS,
                                     .lines = &(page_line){ "step", x, y, n },
                                     .count = 1 });
}

static void begin_profile(page *p, io_writer *file, const setup *s, const decision *d,
                          const profile_result *r) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], c[REPORT_NUMBER_BYTES], few[128];
    text title = { 0 }, answer = { 0 }, further = { 0 };
    const profile_row *longest = r->op_count ? &r->ops[0] : NULL;
    text_add(&title, "snug profile %s", s->model.name);
    text_add(&answer, "A step of %s takes %s (%s predicted), and %s.", s->model.name,
             units_seconds_text(r->run.step_seconds, a), units_seconds_text(d->point.seconds, b),
             planned_text(d, &r->run, few));
    if (longest)
        text_add(&further, "%.0f %% of it goes to %s in %s. ", 100 * longest->seconds / r->run.step_seconds,
                 longest->op, parts_phase_name(longest->phase));
    text_add(&further, "%lld step%s on %d thread%s, the median one is shown; %s tokens/s.",
             (long long)r->steps, r->steps == 1 ? "" : "s", d->plan.threads, d->plan.threads == 1 ? "" : "s",
             report_rate(r->run.tokens_per_second, c));
    bool failed = title.failed || answer.failed || further.failed;
    page_begin(p, file, &(page_head){ title.data, answer.data, further.data, false });
    p->out.failed |= failed;
    text_close(&title);
    text_close(&answer);
    text_close(&further);
}

status report_profile_page(io_writer *file, const setup *s, const decision *d, const profile_result *r) {
    page p;
    begin_profile(&p, file, s, d, r);
    page_put_numbers(&p, s, d);
    page_section(&p, "Time");
    page_put_time(&p, s, d, r);
    put_steps(&p, r);
    page_section(&p, "Memory");
    put_measured(&p, d, &r->run);
    page_put_memory(&p, s, d, r, r->run.lives);
    page_put_holders(&p, d);
    page_put_techniques(&p, s, d);
    page_put_front(&p, s, d, false);
    return page_end(&p);
}

/* ---- a run ---- */

static void add_losses(text *out, const train_result *r) {
    int64_t known = 0;
    while (known + 1 < r->steps && isnan(r->losses[known])) known++;
    if (r->steps) text_add(out, "the loss went from %.4f to %.4f", r->losses[known], r->losses[r->steps - 1]);
    if (r->evaluation_count)
        text_add(out, ", on validation it is %.4f", r->evaluations[r->evaluation_count - 1].loss);
}

static void begin_run(page *p, io_writer *file, const setup *s, const decision *d, const train_result *r) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], c[REPORT_NUMBER_BYTES], e[REPORT_NUMBER_BYTES], few[128];
    text title = { 0 }, answer = { 0 }, further = { 0 };
    bool ran = r->steps > r->first, whole = r->steps >= s->options.steps || r->stopped_early;
    text_add(&title, "snug train %s", s->model.name);
    text_add(&answer, "%s %s %lld steps", s->model.name, whole ? "was trained for" : "was stopped after",
             (long long)r->steps);
    if (!whole) text_add(&answer, " of %lld", (long long)s->options.steps);
    text_add(&answer, ": ");
    add_losses(&answer, r);
    text_add(&answer, ".");
    if (ran)
        text_add(&further, "It took %s, %s a step where %s were predicted, %s %s/s, and %s.",
                 report_duration(r->seconds, c), units_seconds_text(r->step_seconds, a),
                 units_seconds_text(d->point.seconds, b), report_rate(r->tokens_per_second, e),
                 s->model.sees ? "images" : "tokens", planned_text(d, r, few));
    bool failed = title.failed || answer.failed || further.failed;
    page_begin(p, file, &(page_head){ title.data, answer.data, further.data, false });
    p->out.failed |= failed;
    text_close(&title);
    text_close(&answer);
    text_close(&further);
}

status report_run_page(io_writer *file, const setup *s, const decision *d, const train_result *r) {
    page p;
    begin_run(&p, file, s, d, r);
    page_section(&p, "How it went");
    if (s->options.out) {
        status read = page_put_curves(&p, s->options.out);
        if (p.result == STATUS_OK) p.result = read;
    }
    page_section(&p, "What was planned");
    page_put_numbers(&p, s, d);
    page_section(&p, "Memory");
    if (r->steps > r->first) put_measured(&p, d, r);
    page_put_memory(&p, s, d, NULL, r->lives);
    page_put_holders(&p, d);
    page_put_techniques(&p, s, d);
    page_put_front(&p, s, d, false);
    page_section(&p, "Time");
    page_put_time(&p, s, d, NULL);
    return page_end(&p);
}

/* ---- validation alone ---- */

status report_evaluation_page(io_writer *file, const setup *s, const decision *d, const evaluate_result *r) {
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], few[128];
    text title = { 0 }, answer = { 0 };
    page p;
    text_add(&title, "snug train %s --eval-only", s->model.name);
    text_add(&answer, "The loss of %s is %.4f", s->model.name, r->loss);
    if (s->model.head.kind == HEAD_LANGUAGE) text_add(&answer, ", a perplexity of %.2f", exp(r->loss));
    if (!isnan(r->accuracy)) text_add(&answer, ", %.2f %% of the samples are told right", 100 * r->accuracy);
    text_add(&answer, "; it took %s (%s predicted) and %s.", units_seconds_text(r->seconds, a),
             units_seconds_text(d->point.seconds, b), planned_text(d, &r->run, few));
    bool failed = title.failed || answer.failed;
    page_begin(&p, file, &(page_head){ title.data, answer.data, NULL, false });
    p.out.failed |= failed;
    text_close(&title);
    text_close(&answer);
    page_put_numbers(&p, s, d);
    page_section(&p, "Memory");
    put_measured(&p, d, &r->run);
    page_put_memory(&p, s, d, NULL, NULL);
    page_put_holders(&p, d);
    page_put_techniques(&p, s, d);
    page_put_front(&p, s, d, false);
    page_section(&p, "Time");
    page_put_time(&p, s, d, NULL);
    return page_end(&p);
}
