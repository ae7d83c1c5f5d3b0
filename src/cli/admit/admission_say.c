/* The answer to a job in words, and for programs. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/admit/admission.h"
#include "io/json.h"

const char *admission_name(admission_answer a) {
    static const char *const names[] = { "unknown", "fits", "may fit", "likely does not fit",
                                         "does not fit" };
    return names[a];
}

/* ---- people ---- */

static void add_verdict(const admission_run *r, text *t) {
    char likely[UNITS_TEXT_BYTES], low[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES], has[UNITS_TEXT_BYTES];
    uint64_t memory = r->memory;
    if (!r->bytes.likely) {
        text_add(t, "what it takes is not known.\n");
        return;
    }
    uint64_t largest = memory > r->bytes.high ? memory : r->bytes.high;
    units_column_text(r->bytes.likely, largest, likely), units_column_text(r->bytes.low, largest, low);
    units_column_text(r->bytes.high, largest, high), units_column_text(memory, largest, has);
    if (!memory)
        text_add(t, "takes about %s of each device (%s to %s); which that is is not known.\n", likely, low,
                 high);
    else
        text_add(t, "%s %s: about %s (%s to %s) of %s.\n", admission_name(r->answer), r->device, likely, low,
                 high, has);
}

static void add_change(const admission_run *r, text *t) {
    char then[UNITS_TEXT_BYTES];
    if (r->answer < ADMISSION_UNLIKELY || !r->change[0]) return;
    text_add(t, "  The cheapest change that makes it fit: %s%s, then %s.\n", r->change,
             r->alters ? " (changes what is trained)" : "", units_column_text(r->changed, r->memory, then));
}

/* Each sentence on a line of its own, under one heading. */
static void add_unseen(const char *heading, const text *sentences, text *t) {
    const char *at = sentences->data;
    while (at && *at) {
        int length = (int)strcspn(at, "\n");
        text_add(t, "  %s%.*s.\n", heading, length, at);
        at += length + (at[length] == '\n');
    }
}

static void say_run(const admission_run *r, const admission *a, text *t) {
    char name[REPORT_NAME_BYTES], file[REPORT_NAME_BYTES];
    report_name(a->name, name);
    report_name(r->of->file, file);
    text_add(t, "%s: %s with %s", name, file, r->model[0] ? r->model : "a model that is not named");
    if (r->gpus > 1) text_add(t, " on %lld devices", (long long)r->gpus);
    text_add(t, ": ");
    add_verdict(r, t);
    add_change(r, t);
    if (r->line.length) text_add(t, "  It was read as: %s\n", r->line.data);
    add_unseen("Not seen: ", &r->unseen, t);
}

void admission_say(const admission *a, text *t) {
    char name[REPORT_NAME_BYTES];
    for (uint32_t i = 0; i < a->count; i++) say_run(&a->runs[i], a, t);
    if (!a->count)
        text_add(t,
                 "%s: no command that trains or serves was found that is known here; the job is admitted.\n",
                 report_name(a->name, name));
    add_unseen("Not seen: ", &a->unseen, t);
    if (a->count && a->place.several)
        text_add(t, "  Of the devices that it may get, %s has the most memory, and counts.\n",
                 a->place.device);
}

/* ---- programs ---- */

static void put_sentences(json_writer *w, const char *key, const text *sentences) {
    json_begin_array(w, key);
    const char *at = sentences->data;
    while (at && *at) {
        char one[STATUS_SENTENCE + 64];
        int length = (int)strcspn(at, "\n");
        snprintf(one, sizeof one, "%.*s", length, at);
        json_put_string(w, NULL, one);
        at += length + (at[length] == '\n');
    }
    json_end_array(w);
}

static void put_interval(json_writer *w, const char *key, const interval *b) {
    json_begin_object(w, key);
    json_put_unsigned(w, "low", b->low);
    json_put_unsigned(w, "likely", b->likely);
    json_put_unsigned(w, "high", b->high);
    json_end_object(w);
}

static void put_run(json_writer *w, const admission_run *r) {
    json_begin_object(w, NULL);
    json_put_string(w, "program", r->of->file);
    json_put_string(w, "framework", r->of->framework);
    json_put_string(w, "model", r->model[0] ? r->model : NULL);
    json_put_string(w, "answer", admission_name(r->answer));
    json_put_integer(w, "gpus", r->gpus);
    if (r->bytes.likely) put_interval(w, r->memory ? "device_bytes" : "reserved_bytes", &r->bytes);
    if (r->memory) json_put_unsigned(w, "memory_bytes", r->memory);
    if (r->least) json_put_unsigned(w, "least_bytes", r->least);
    json_put_string(w, "line", r->line.length ? r->line.data : NULL);
    if (r->change[0]) {
        json_put_string(w, "change", r->change);
        json_put_bool(w, "changes_training", r->alters);
        json_put_unsigned(w, "changed_device_bytes", r->changed);
    }
    put_sentences(w, "unseen", &r->unseen);
    json_end_object(w);
}

void admission_put_json(const admission *a, text *t) {
    json_writer w = { .out = t, .lines = true };
    json_begin_object(&w, NULL);
    json_put_string(&w, "answer", admission_name(admission_of(a)));
    if (admission_of(a) == ADMISSION_UNKNOWN)
        json_put_null(&w, "fits");
    else
        json_put_bool(&w, "fits", admission_of(a) <= ADMISSION_MAY_FIT);
    json_put_bool(&w, "refused", admission_of(a) == ADMISSION_NO_FIT && a->o->admit.policy == POLICY_REFUSE);
    json_put_string(&w, "device", a->place.device[0] ? a->place.device : NULL);
    json_begin_array(&w, "runs");
    for (uint32_t i = 0; i < a->count; i++) put_run(&w, &a->runs[i]);
    json_end_array(&w);
    put_sentences(&w, "unseen", &a->unseen);
    json_end_object(&w);
    text_add(t, "\n");
}
