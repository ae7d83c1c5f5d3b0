/* The page of a run that is over or still goes on: where it stands, its curves, and what was planned beside
 * what was measured. */
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/units.h"
#include "io/checkpoint_folder.h"
#include "io/json.h"
#include "report/page/page_curves.h"
#include "report/report.h"

/* ---- the answer ---- */

static void add_answer(text *out, const standing *s) {
    const train_progress *p = &s->at;
    char few[REPORT_NUMBER_BYTES];
    long long step = (long long)p->step, steps = (long long)p->steps;
    switch (s->state) {
    case STANDING_MAKING_TOKENS:
        text_add(out, "Tokens are being made; training begins when they are.");
        return;
    case STANDING_FINISHED: text_add(out, "The run is finished: %lld steps", step); break;
    case STANDING_INTERRUPTED:
        text_add(out, "The run was interrupted at step %lld of %lld", step, steps);
        break;
    case STANDING_FAILED: text_add(out, "The run failed at step %lld of %lld", step, steps); break;
    case STANDING_KILLED: text_add(out, "The run was killed at step %lld of %lld", step, steps); break;
    case STANDING_RUNNING: text_add(out, "The run is at step %lld of %lld", step, steps); break;
    }
    if (s->steps_seen) text_add(out, ", loss %.4f", p->loss);
    if (s->eval_step) text_add(out, ", validation loss %.4f", s->eval_loss);
    if (s->state == STANDING_RUNNING && isfinite(p->seconds_left))
        text_add(out, ", %s left", report_duration(p->seconds_left, few));
    text_add(out, ".");
}

static void add_further(text *out, const standing *s) {
    char few[REPORT_NUMBER_BYTES];
    if (*s->reason) text_add(out, "%s. ", s->reason);
    if (s->state == STANDING_KILLED)
        text_add(out, "It ended without a word. %s",
                 s->checkpoint ? "The same command with --resume goes on. "
                               : "There is no checkpoint to go on from. ");
    if (s->state <= STANDING_RUNNING && *s->owner) text_add(out, "It is %s. ", s->owner);
    if (s->state != STANDING_MAKING_TOKENS)
        text_add(out, "Last heard of %s before this page was written. ",
                 report_duration(s->silent > 0 ? s->silent : 0, few));
    if (s->checkpoint) text_add(out, "Its newest checkpoint is of step %lld.", (long long)s->checkpoint);
}

/* ---- numbers ---- */

enum { FACTS = 8 };
typedef struct {
    page_fact facts[FACTS];
    char values[FACTS][2 * PAGE_VALUE_BYTES], notes[FACTS][2 * PAGE_VALUE_BYTES];
    uint32_t count;
} fact_list;

static void add_number(fact_list *l, const char *name, double value) {
    char few[PAGE_VALUE_BYTES];
    snprintf(l->values[l->count], sizeof *l->values, "%s", page_value(PAGE_NUMBER, value, few));
    l->facts[l->count] = (page_fact){ name, l->values[l->count], NULL };
    l->count++;
}

static void add_bytes(fact_list *l, const char *name, uint64_t bytes, const char *note) {
    if (bytes == UINT64_MAX) return;
    l->facts[l->count] = (page_fact){ name, page_exact(bytes, l->values[l->count]), note };
    l->count++;
}

static void put_numbers(page *p, const standing *s) {
    const train_progress *x = &s->at;
    fact_list l = { .count = 0 };
    char few[REPORT_NUMBER_BYTES], value[PAGE_VALUE_BYTES];
    if (s->steps_seen) {
        add_number(&l, "loss of the last step", x->loss);
        if (isfinite(x->norm)) add_number(&l, "gradient norm", x->norm);
        add_number(&l, "learning rate", x->learning_rate);
        snprintf(l.values[l.count], sizeof *l.values, "%s", page_value(PAGE_SECONDS, x->seconds, value));
        snprintf(l.notes[l.count], sizeof *l.notes, "%s tokens a second",
                 report_rate(x->tokens_per_second, few));
        l.facts[l.count] = (page_fact){ "the last step", l.values[l.count], l.notes[l.count] };
        l.count++;
        add_bytes(&l, "memory of the process", x->resident_bytes, "after the last step");
    }
    if (s->state != STANDING_MAKING_TOKENS) {
        add_bytes(&l, "planned", x->planned_bytes, "at the peak");
        add_bytes(&l, "budget", x->budget_bytes, NULL);
    }
    if (l.count) page_facts(p, l.facts, l.count);
}

/* ---- planned and measured, of run.json ---- */

/* 0 where the key is not there, or no number. */
static double number_at(json_value v, const char *key) {
    double x = 0;
    if (json_optional_number(v, key, 0, 1e300, &x) != STATUS_OK) return 0;
    return x;
}

static void put_memory(page *p, json_value planned, json_value measured) {
    enum { MOST = 32 };
    page_bar bars[MOST];
    uint32_t n = 0;
    json_value a, b, member;
    if (!json_find(planned, "by_category", &a) || !json_find(measured, "by_category", &b)) return;
    if (json_as_object(a) != STATUS_OK || json_as_object(b) != STATUS_OK) return;
    void *cursor = NULL;
    while (n + 1 < MOST && json_next(a, &cursor, &member)) {
        double wanted = number_at(a, member.key), seen = number_at(b, member.key);
        const char *note = wanted == seen ? "equal" : seen < wanted ? "within" : "apart";
        if (wanted > 0 || seen > 0)
            bars[n++] =
                (page_bar){ .label = member.key, .note = note, .value = seen, .marks = { wanted, NAN } };
    }
    double wanted = number_at(planned, "peak_bytes"), seen = number_at(measured, "peak_bytes");
    bars[n++] = (page_bar){ .label = "process, peak",
                            .note = seen <= wanted ? "within" : "apart",
                            .value = seen,
                            .marks = { wanted, NAN } };
    page_put_bars(p, &(page_bars){ .name = "Memory by category: measured and planned",
                                   .label_word = "category",
                                   .note_word = "against the plan",
                                   .unit = PAGE_BYTES,
                                   .value_name = "measured",
                                   .mark_names = { "planned", NULL },
                                   .bars = bars,
                                   .count = n });
}

static void put_time(page *p, json_value planned, json_value measured) {
    double wanted = number_at(planned, "step_seconds"), seen = number_at(measured, "step_seconds");
    char a[PAGE_VALUE_BYTES], b[PAGE_VALUE_BYTES];
    if (wanted > 0 && seen > 0)
        page_say(p, "A step took %s; %s were predicted.", page_value(PAGE_SECONDS, seen, a),
                 page_value(PAGE_SECONDS, wanted, b));
}

/* A run has this file when it is over; what is strange in it is passed over. */
static void put_result(page *p, const char *folder) {
    enum { MOST = 64 << 20 };
    static const uint64_t tree = UINT64_C(1) << 30;
    char path[CHECKPOINT_PATH_BYTES], *data = NULL;
    uint64_t bytes = 0;
    json_document d = { 0 };
    json_value planned, measured;
    if (snprintf(path, sizeof path, "%s/run.json", folder) >= (int)sizeof path) return;
    if (io_read_file(path, MOST, &data, &bytes) != STATUS_OK) return;
    if (json_parse_within(path, data, bytes, tree, &d) == STATUS_OK && json_as_object(d.root) == STATUS_OK &&
        json_find(d.root, "predicted", &planned) && json_find(d.root, "measured", &measured) &&
        json_as_object(planned) == STATUS_OK && json_as_object(measured) == STATUS_OK) {
        page_section(p, "Planned and measured");
        put_time(p, planned, measured);
        put_memory(p, planned, measured);
    }
    json_close(&d);
    memory_free(data);
}

/* ---- the whole ---- */

status report_status_page(io_writer *file, const char *folder, const standing *s) {
    page p;
    text title = { 0 }, answer = { 0 }, further = { 0 };
    text_add(&title, "snug status %s", folder);
    add_answer(&answer, s);
    add_further(&further, s);
    bool failed = title.failed || answer.failed || further.failed,
         bad = s->state == STANDING_FAILED || s->state == STANDING_KILLED;
    page_begin(&p, file, &(page_head){ title.data, answer.data, further.data, bad });
    p.out.failed |= failed;
    text_close(&title);
    text_close(&answer);
    text_close(&further);
    page_section(&p, "How it goes");
    put_numbers(&p, s);
    status read = s->state == STANDING_MAKING_TOKENS ? STATUS_OK : page_put_curves(&p, folder);
    put_result(&p, folder);
    status written = page_end(&p);
    return read == STATUS_OK ? written : read;
}
