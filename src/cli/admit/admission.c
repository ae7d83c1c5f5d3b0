#define _GNU_SOURCE /* environ */
#include "cli/admit/admission.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/estimate/ask.h"
#include "io/published.h"

/* Scripts are others': of their words nothing reaches a terminal that would move it. */
static void tame(char *words) {
    for (unsigned char *c = (unsigned char *)words; c && *c; c++)
        if (*c < ' ' || *c == 0x7f) *c = '?';
}

static void unseen(text *t, const char *sentence) {
    char plain[RECIPE_WORD_BYTES + STATUS_SENTENCE];
    snprintf(plain, sizeof plain, "%s", sentence);
    tame(plain);
    if (!t->data || !strstr(t->data, plain)) text_add(t, "%s\n", plain);
}

static void unseen_all(text *t, const text *sentences) {
    if (sentences->length) text_add(t, "%s", sentences->data);
}

/* ---- options of one run ---- */

/* options_read, with no habits of whoever asks: the job runs in another environment. Rates stay, as they are
 * the machine's. */
static status read_line(const option_table *table, int count, char **words, options *out) {
    char *rates[] = { NULL, NULL }, **habits = environ;
    for (char **v = environ; v && *v; v++)
        if (strncmp(*v, "SNUG_RATES=", 11) == 0) rates[0] = *v;
    environ = rates;
    status result = options_read(table, COMMAND_ESTIMATE, count, words, out);
    environ = habits;
    return result;
}

/* The words of `snug estimate`, read as its own line would be. The device and what a site's file says are the
 * admission's. */
static status read_words(const admission *a, recipe_options *words, const char *named, options *out) {
    static option_table table; /* large for a stack */
    options_table(&table);
    TRY(read_line(&table, (int)words->count, words->words, out));
    out->subject = named, out->run.model = named;
    out->estimate.cluster = NULL, out->estimate.emit = EMIT_NONE, out->html = NULL;
    out->estimate.device = a->place.device[0] ? a->place.device : NULL;
    return STATUS_OK;
}

static void add_line(const admission *a, const recipe_options *words, const char *named, text *out) {
    text_add(out, "snug estimate ");
    text_add_quoted(out, named);
    for (uint32_t i = 0; i < words->count; i++) {
        text_add(out, " ");
        text_add_quoted(out, words->words[i]);
    }
    if (a->place.device[0]) {
        text_add(out, " --gpu ");
        text_add_quoted(out, a->place.device);
    }
    tame(out->data);
}

/* ---- models ---- */

/* What the program calls it here. False: it is none that is known. */
static bool find_model(const admission *a, recipe *r, const char **name, text *why) {
    model_config c;
    char sentence[RECIPE_WORD_BYTES + 80];
    const char *published = NULL;
    if (!r->model[0]) {
        unseen(why, "it names no model");
        return false;
    }
    published_match match = published_find(r->model, &c, &published);
    bool encoder = match != PUBLISHED_NONE && families_fills(&c);
    if (r->judges && encoder) r->labels = 2; /* more of them take next to nothing */
    if (r->judges && !encoder)
        unseen(why, "its model ends in classes, and is counted with a head for a vocabulary");
    if (!a->o->admit.script_only) {
        if (match == PUBLISHED_SIZE) unseen(why, "a size is no model's name");
        return true; /* a folder of that name is looked at too */
    }
    if (match == PUBLISHED_NAME || match == PUBLISHED_VARIANT) {
        *name = published;
        return true;
    }
    if (families_preset(r->model, &c)) return true;
    snprintf(sentence, sizeof sentence, "%s is no published model, and its files are not looked at",
             r->model);
    unseen(why, sentence);
    return false;
}

/* ---- one estimate ---- */

static void note_failed(admission_run *run) {
    char sentence[STATUS_SENTENCE + 40];
    snprintf(sentence, sizeof sentence, "what it says can't be estimated: %s", status_message());
    unseen(&run->unseen, sentence);
}

/* The least that the device must give: of a server weights and the least cache, since it fills what it is let
 * to, whatever there is. */
static uint64_t lower_end(const estimate_question *e) {
    const framework_result *r = &e->result;
    return r->least ? r->least : r->layers[FRAMEWORK_DEVICE].low;
}

static void find_change(const admission *a, estimate_question *e, admission_run *run) {
    framework_advice advice = { .text = "" };
    if (a->o->admit.script_only) return;
    if (framework_advise(e->framework, &e->subject, &e->settings, &advice) != STATUS_OK) return;
    snprintf(run->change, sizeof run->change, "%s", advice.text);
    run->alters = advice.alters;
    run->changed = advice.result.layers[FRAMEWORK_DEVICE].likely;
}

static status estimate_words(const admission *a, const recipe *r, const char *named, admission_run *run) {
    recipe_options words;
    options o;
    estimate_question e;
    if (!recipe_estimate(r, run->gpus, RECIPE_LIKELY, &words)) return status_set(STATUS_FAILED, "no memory");
    add_line(a, &words, named, &run->line);
    status result = read_words(a, &words, named, &o);
    if (result == STATUS_OK) {
        result = estimate_open(&o, named, &e);
        if (result == STATUS_OK) result = e.framework->estimate(&e.subject, &e.settings, &e.result);
        if (result == STATUS_OK) {
            const framework_result *f = &e.result;
            snprintf(run->model, sizeof run->model, "%s", e.model.name);
            snprintf(run->device, sizeof run->device, "%s", e.hardware.title);
            run->memory = e.hardware.memory;
            run->bytes = f->layers[run->memory ? FRAMEWORK_DEVICE : FRAMEWORK_RESERVED];
            run->least = lower_end(&e);
            run->answer = !run->memory ? ADMISSION_UNKNOWN
                          : f->surely  ? ADMISSION_FITS
                          : f->fits    ? ADMISSION_MAY_FIT
                                       : ADMISSION_UNLIKELY;
            if (run->answer == ADMISSION_UNLIKELY) find_change(a, &e, run);
        }
        estimate_close(&e);
    }
    options_close(&o);
    recipe_options_close(&words);
    return result;
}

/* The same of the least that the script can mean: run->least falls to that. */
static status estimate_least(const admission *a, recipe_reading as, const char *named, admission_run *run) {
    const recipe *r = run->of;
    recipe_options words;
    options o;
    estimate_question e;
    if (!recipe_estimate(r, run->gpus, as, &words)) return status_set(STATUS_FAILED, "no memory");
    status result = read_words(a, &words, named, &o);
    if (result == STATUS_OK) {
        result = estimate_open(&o, named, &e);
        if (result == STATUS_OK) result = e.framework->estimate(&e.subject, &e.settings, &e.result);
        if (result == STATUS_OK && lower_end(&e) < run->least) run->least = lower_end(&e);
        if (result == STATUS_OK && e.result.fits) run->least = 0;
        estimate_close(&e);
    }
    options_close(&o);
    recipe_options_close(&words);
    return result;
}

/* snug's own plan, which is exact, and which refuses itself before the first step. */
static status ask_own(const admission *a, const recipe *r, const char *named, admission_run *run) {
    recipe_options words;
    options o;
    ask_answer told;
    if (!recipe_estimate(r, 1, RECIPE_LIKELY, &words)) return status_set(STATUS_FAILED, "no memory");
    add_line(a, &words, named, &run->line);
    status result = read_words(a, &words, named, &o);
    if (result == STATUS_OK) {
        result = ask(&o, named, true, &told);
        if (result == STATUS_OK) {
            snprintf(run->model, sizeof run->model, "%s", told.model);
            snprintf(run->device, sizeof run->device, "%s", told.hardware.title);
            run->memory = told.hardware.memory, run->bytes = told.bytes;
            run->answer = !run->memory ? ADMISSION_UNKNOWN : told.fits ? ADMISSION_FITS : ADMISSION_UNLIKELY;
        }
        text_close(&told.notes);
    }
    options_close(&o);
    recipe_options_close(&words);
    return result;
}

static void decide_run(admission *a, uint32_t i, admission_run *run) {
    recipe *r = &a->reading.runs[i];
    const char *named = r->model;
    *run = (admission_run){ .of = r, .gpus = a->reading.gpus[i] };
    snprintf(run->model, sizeof run->model, "%.90s", r->model);
    tame(run->model);
    unseen_all(&run->unseen, &r->unseen);
    bool server = recipe_serves(r), own = strcmp(r->framework, "snug") == 0;
    if (!find_model(a, r, &named, &run->unseen)) return;
    if (!r->batch && !server && !own)
        unseen(&run->unseen, "the batch is not said, and a batch of 8 is assumed");
    status result = own ? ask_own(a, r, named, run) : estimate_words(a, r, named, run);
    tame(run->model);
    if (result != STATUS_OK) {
        note_failed(run);
        run->answer = ADMISSION_UNKNOWN;
        return;
    }
    bool sees = !run->unseen.length && !a->unseen.length;
    if (run->answer == ADMISSION_FITS && !sees) run->answer = ADMISSION_MAY_FIT;
    if (run->answer != ADMISSION_UNLIKELY || !sees || own || run->least <= run->memory) return;
    for (recipe_reading as = RECIPE_LEAST; as <= RECIPE_LEAST_OLDER && !server; as++)
        if (estimate_least(a, as, named, run) != STATUS_OK) return;
    if (run->least > run->memory) run->answer = ADMISSION_NO_FIT;
}

/* ---- the job ---- */

static status find_place(const options *o, admission *a) {
    if (!o->estimate.device) {
        TRY(admit_find_place(&a->reading.asks, o->estimate.cluster, &a->place));
    } else {
        hardware h;
        TRY(hardware_find(o->estimate.device, &h));
        a->place = (admit_place){ .memory = h.memory };
        if (strlen(o->estimate.device) >= sizeof a->place.device)
            return status_set(STATUS_INVALID, "--gpu: the name is too long");
        snprintf(a->place.device, sizeof a->place.device, "%s", o->estimate.device);
    }
    unseen_all(&a->unseen, &a->place.unseen);
    return STATUS_OK;
}

status admission_decide(const options *o, const admit_job *job, const char *name, admission *a) {
    *a = (admission){ .o = o, .name = name };
    status result = admit_read(job, &a->reading);
    unseen_all(&a->unseen, &a->reading.unseen);
    if (result == STATUS_INVALID)
        unseen(&a->unseen, status_message());
    else if (result != STATUS_OK)
        return result;
    TRY(find_place(o, a));
    for (uint32_t i = 0; i < a->reading.run_count; i++) decide_run(a, i, &a->runs[a->count++]);
    return STATUS_OK;
}

void admission_close(admission *a) {
    for (uint32_t i = 0; i < a->count; i++) text_close(&a->runs[i].line), text_close(&a->runs[i].unseen);
    text_close(&a->unseen);
    text_close(&a->place.unseen);
    admit_close(&a->reading);
    a->count = 0;
}

admission_answer admission_of(const admission *a) {
    admission_answer worst = ADMISSION_UNKNOWN;
    bool unknown = false;
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->runs[i].answer > worst) worst = a->runs[i].answer;
        unknown |= a->runs[i].answer == ADMISSION_UNKNOWN;
    }
    return unknown && worst < ADMISSION_UNLIKELY ? ADMISSION_UNKNOWN : worst;
}

status admission_status(const admission *a) {
    char more[UNITS_TEXT_BYTES];
    if (admission_of(a) != ADMISSION_NO_FIT || a->o->admit.policy == POLICY_WARN) return STATUS_OK;
    const admission_run *worst = a->runs;
    while (worst->answer != ADMISSION_NO_FIT) worst++;
    return status_set(STATUS_NO_FIT, "%.200s does not fit: %s takes at least %s more than %s has", a->name,
                      worst->model, units_column_text(worst->least - worst->memory, worst->memory, more),
                      worst->device);
}
