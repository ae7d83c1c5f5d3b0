#include "train/resume.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/units.h"
#include "io/file.h"
#include "train/occupied.h"

static void say(resume *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(resume *r, const char *format, ...) {
    size_t used = strlen(r->said);
    va_list list;
    va_start(list, format);
    vsnprintf(r->said + used, sizeof r->said - used, format, list);
    va_end(list);
    used = strlen(r->said);
    if (used + 1 < sizeof r->said) strcpy(r->said + used, "\n");
}

/* ---- finding ---- */

static bool exists(const char *folder, const char *name) {
    char path[CHECKPOINT_PATH_BYTES + 32];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &about) == 0;
}

static status take(resume *r, const char *folder) {
    snprintf(r->folder, sizeof r->folder, "%s", folder);
    TRY(identity_compare(&r->state.run, &r->run, folder));
    r->step = r->state.step;
    return STATUS_OK;
}

/* The newest that is valid; none: r->step stays 0. */
static status find_newest(resume *r, const char *out) {
    int64_t *steps;
    uint32_t count;
    TRY(checkpoint_folder_list(out, &steps, &count));
    status result = STATUS_OK;
    bool found = false;
    for (uint32_t i = 0; i < count && !found && result == STATUS_OK; i++) {
        char folder[CHECKPOINT_PATH_BYTES];
        result = checkpoint_folder_name(out, steps[i], folder);
        if (result != STATUS_OK) break;
        found = checkpoint_verify(folder, &r->state) == STATUS_OK;
        if (found && r->state.step != steps[i]) {
            found = false;
            say(r, "%s is passed over: it says that it is of step %lld", folder, (long long)r->state.step);
        } else if (!found) {
            say(r, "%s is passed over: %s", folder, status_message());
        }
        if (found) result = take(r, folder);
    }
    memory_free(steps);
    if (result == STATUS_OK && count && !found)
        return status_set(
            STATUS_INVALID,
            "none of the %u checkpoints in %s can be used; the newest: %s; begin anew in another "
            "--out",
            count, out, status_message());
    return result;
}

static status find_named(resume *r, const char *from) {
    struct stat about;
    if (stat(from, &about) == 0 && !S_ISDIR(about.st_mode))
        return status_set(STATUS_INVALID,
                          "--resume %s: it is no folder; name the --out of a run or one of its checkpoints",
                          from);
    if (exists(from, "trainer_state.json")) {
        TRY(checkpoint_verify(from, &r->state));
        return take(r, from);
    }
    TRY(find_newest(r, from));
    if (r->step) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "--resume %s: there is no checkpoint-N in it; name the --out of a run or one of its checkpoints",
        from);
}

static status lock_out(const char *out, resume *r) {
    char path[CHECKPOINT_PATH_BYTES];
    if (r->lock.path) return STATUS_OK;
    if (snprintf(path, sizeof path, "%s/run.lock", out) >= (int)sizeof path)
        return status_set(STATUS_INVALID, "%.60s... is too long for the name of a folder", out);
    return lock_open(path, &r->lock);
}

static status begin_anew(const setup_options *o, resume *r) {
    if (o->resume)
        say(r, "%s has no checkpoint yet: the run begins at the start", o->out ? o->out : "the run");
    return STATUS_OK;
}

static status both_ways(void) {
    return status_set(STATUS_INVALID,
                      "--overwrite begins anew and --resume goes on; leave one of the two out");
}

status resume_find(const setup *s, resume *r) {
    const setup_options *o = &s->options;
    *r = (resume){ .lock.file = -1 };
    if (!o->out && !o->resume) return STATUS_OK;
    if (o->out && exists(o->out, ".")) TRY(lock_out(o->out, r));
    if (o->overwrite && o->resume && !o->resume_from) return both_ways();
    TRY(identity_of(s, &r->run));
    if (!o->resume) return o->out ? occupied_check(s, &r->run, false) : STATUS_OK;
    if (o->resume_from)
        TRY(find_named(r, o->resume_from));
    else if (o->out)
        TRY(find_newest(r, o->out));
    if (resume_is_of(r, o->out)) {
        if (o->overwrite) return both_ways();
    } else if (o->out) {
        TRY(occupied_check(s, &r->run, !r->step));
    }
    if (!r->step) return begin_anew(o, r);
    if (r->step <= o->steps) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s has %lld steps behind it, more than --steps %lld", r->folder,
                      (long long)r->step, (long long)o->steps);
}

/* What is in the way of a file at the end of the run is better known at its beginning. */
static status check_targets(const char *out) {
    static const char *const names[] = { "model.safetensors", "config.json", "generation_config.json",
                                         "metrics.jsonl", "run.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) TRY(io_check_target(out, names[i]));
    return STATUS_OK;
}

status resume_claim(const setup *s, resume *r) {
    const char *out = s->options.out;
    if (!out) return STATUS_OK;
    TRY(check_targets(out));
    TRY(io_make_folder(out));
    TRY(lock_out(out, r));
    TRY(checkpoint_folder_clean(out));
    return resume_is_of(r, out) ? STATUS_OK : occupied_clear(s);
}

/* The folder may be written in another way than `out` is, and the checkpoint may be a link there, or have
 * been given a name of its own. */
bool resume_is_of(const resume *r, const char *out) {
    char above[CHECKPOINT_PATH_BYTES + 4], usual[CHECKPOINT_PATH_BYTES];
    if (!out || !r->folder[0]) return false;
    snprintf(above, sizeof above, "%s/..", r->folder);
    return io_is_same(above, out) ||
           (checkpoint_folder_name(out, r->step, usual) == STATUS_OK && io_is_same(usual, r->folder));
}

void resume_close(resume *r) { lock_close(&r->lock); }

/* ---- planning ---- */

/* Was a technique in force that makes the choices of passes before it, pass i among them, show in
 * results? */
static bool is_followed(const trainer_state *t, int i) {
    bool found = false;
    for (int k = i + 1; pass_table[k]; k++) found |= pass_table[k]->follows && t->passes[k].setting[0];
    return found;
}

/* Which of the stored settings become pins: LOSSY ones always, since without them it is another run; those
 * that matter to results, that is all which are not EXACT, beside which EXACT ones alone are allowed; or all.
 */
typedef enum { KEEP_LOSSY, KEEP_RESULTS, KEEP_ALL } keeping;

static bool is_kept(const trainer_state *t, int i, keeping keep) {
    bool chosen = t->passes[i].setting[0];
    if (chosen && t->passes[i].class == PASS_LOSSY) return true;
    bool matters = (chosen && t->passes[i].class != PASS_EXACT) || is_followed(t, i);
    return keep == KEEP_ALL || (keep == KEEP_RESULTS && matters);
}

/* What the user has pinned stays. */
static status pin(const setup *s, const trainer_state *t, keeping keep, search_request *q) {
    bool cut_matters = keep == KEEP_ALL;
    *q = s->request;
    for (int i = 0; pass_table[i]; i++) {
        const char *setting = t->passes[i].setting;
        bool kept = is_kept(t, i, keep);
        cut_matters |= kept && keep != KEEP_LOSSY;
        if (q->pins[i].kind != SEARCH_AUTO || !kept) continue;
        q->pins[i].kind = setting[0] ? SEARCH_PINNED : SEARCH_OFF;
        if (setting[0]) TRY(pass_table[i]->parse(setting, &q->pins[i].setting));
    }
    if (!q->micro_batch && cut_matters) q->micro_batch = t->micro_batch;
    if (keep == KEEP_RESULTS) q->allowed = PASS_EXACT;
    return STATUS_OK;
}

static bool fits(const setup *s, const search_request *q) {
    search_front front;
    if (search_run(q, &(search_wish){ .budget = s->budget }, &front) != STATUS_OK) return false;
    bool found = search_pick(&front, s->budget) != NULL;
    search_close(&front);
    return found;
}

/* Same settings altogether; or, where they differ, at least the same order of every sum. */
static bool same_choice(const trainer_state *t, const compose_choice *c, bool sums_only) {
    bool cut_matters = !sums_only;
    for (int i = 0; pass_table[i]; i++) {
        bool exact = (!t->passes[i].setting[0] || t->passes[i].class == PASS_EXACT) &&
                     (!c->settings[i].text[0] || c->settings[i].class == PASS_EXACT) && !is_followed(t, i);
        cut_matters |= !exact;
        if (sums_only && exact) continue;
        if (strcmp(t->passes[i].setting, c->settings[i].text) != 0) return false;
    }
    return !cut_matters || t->micro_batch == c->micro_batch;
}

static void say_how(resume *r, const setup *s, const decision *d, bool pinned) {
    char why[80] = "as the options ask", budget[UNITS_TEXT_BYTES];
    const compose_choice *c = &d->point.choice;
    if (!pinned)
        snprintf(why, sizeof why, "since the earlier one does not fit %s",
                 units_bytes_text(s->budget, budget));
    if (same_choice(&r->state, c, false))
        say(r, "resuming %s with the plan that it was begun with", r->folder);
    else if (same_choice(&r->state, c, true))
        say(r, "resuming %s with another plan, %s; results stay the same bit for bit", r->folder, why);
    else
        say(r,
            "resuming %s with another plan, %s; it takes some sums in another order, so results differ in "
            "their last digits",
            r->folder, why);
}

status resume_decide(setup *s, resume *r, decision *d) {
    keeping keep = KEEP_ALL;
    search_request q;
    if (!r->step) {
        TRY(setup_check_begun(s));
        return decision_make(s, d);
    }
    TRY(pin(s, &r->state, keep, &q));
    while (keep > KEEP_LOSSY && !fits(s, &q)) TRY(pin(s, &r->state, --keep, &q));
    s->request = q;
    TRY(setup_check_begun(s));
    TRY(decision_make(s, d));
    say_how(r, s, d, keep == KEEP_ALL);
    if (r->step == s->options.steps) say(r, "all %lld steps are done already", (long long)r->step);
    return STATUS_OK;
}
