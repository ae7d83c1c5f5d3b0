#include "train/resume.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "comm/comm.h"
#include "io/file.h"
#include "train/model_save.h"
#include "train/occupied.h"

void resume_say(resume *r, const char *format, ...) {
    size_t used = strlen(r->said);
    va_list list;
    va_start(list, format);
    vsnprintf(r->said + used, sizeof r->said - used, format, list);
    va_end(list);
    utf8_clean(r->said + used); /* names of folders may hold anything */
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

/* ---- together ---- */

/* What a rank says: which checkpoint it looks at, or that it has found where to go on. */
typedef struct {
    bool over, failed;
    int64_t step;
    uint64_t digest; /* of what the checkpoint says of itself */
} finding;

static status compare(const finding *all, int world) {
    for (int r = 0; r < world; r++)
        if (all[r].failed) return status_set(STATUS_INTERRUPTED, "rank %d can't find where to go on from", r);
    for (int r = 1; r < world; r++) {
        if (all[r].step != all[0].step)
            return status_set(STATUS_INVALID,
                              "rank %d would go on from step %lld, and rank 0 from step %lld: the folder of "
                              "the run is not one for all",
                              r, (long long)all[r].step, (long long)all[0].step);
        if (all[r].over != all[0].over || all[r].digest != all[0].digest)
            return status_set(STATUS_INVALID,
                              "rank %d finds another checkpoint of step %lld than rank 0: the folder of the "
                              "run is not one for all",
                              r, (long long)all[0].step);
    }
    return STATUS_OK;
}

/* All ranks look at the same checkpoints in the same order, or none goes on: then all have heard of it, and
 * nobody says anything more. `so_far`: how this one has come here; it is the caller's own failure that is
 * told where there is one. */
static status meet(resume *r, status so_far, finding own) {
    const void *heard;
    if (comm_world().world < 2 || r->parted) return so_far;
    own.failed = so_far != STATUS_OK;
    char sentence[STATUS_SENTENCE];
    snprintf(sentence, sizeof sentence, "%s", own.failed ? status_message() : "");
    TRY(comm_hear(&own, sizeof own, &heard));
    status alike = compare(heard, comm_world().world);
    r->parted = alike != STATUS_OK;
    return own.failed ? status_set(so_far, "%s", sentence) : alike;
}

/* Looks at this rank's files of it, and tells what all have seen. */
static status verify(resume *r, const char *folder, status *verified) {
    const trainer_state *t = &r->state;
    comm_ranks ranks = comm_world();
    char run[IDENTITY_DIGEST_BYTES];
    uint64_t said = hash_name(identity_digest(&t->run, run)) * 31 + t->samples;
    TRY(meet(r, STATUS_OK, (finding){ .step = t->step, .digest = said }));
    *verified = comm_agree(checkpoint_verify_part(folder, t, ranks.rank, ranks.world));
    return comm_failed();
}

static status take(resume *r, const char *folder) {
    snprintf(r->folder, sizeof r->folder, "%s", folder);
    if (r->replaces) identity_take_weights(&r->run, &r->state.run); /* they may be replaced already */
    TRY(identity_compare(&r->state.run, &r->run, folder));
    r->step = r->state.step;
    return STATUS_OK;
}

/* Is this checkpoint whole, and of the step that its name says? What is wrong with it is said. */
static status look_at(resume *r, const char *folder, int64_t step, bool *whole) {
    status is = checkpoint_read(folder, &r->state);
    *whole = is == STATUS_OK && r->state.step == step;
    if (is == STATUS_OK && !*whole)
        resume_say(r, "%s is passed over: it says that it is of step %lld", folder, (long long)r->state.step);
    if (*whole) TRY(verify(r, folder, &is));
    if (is != STATUS_OK) resume_say(r, "%s is passed over: %s", folder, status_message());
    *whole &= is == STATUS_OK;
    return STATUS_OK;
}

/* The newest valid one that is later than step `after`; none: r->step stays as it is. `*count`: how many
 * there are. */
static status find_later(resume *r, const char *out, int64_t after, uint32_t *count) {
    int64_t *steps;
    TRY(checkpoint_folder_list(out, &steps, count));
    status result = STATUS_OK;
    bool found = false;
    for (uint32_t i = 0; i < *count && !found && steps[i] > after && result == STATUS_OK; i++) {
        char folder[CHECKPOINT_PATH_BYTES];
        result = checkpoint_folder_name(out, steps[i], folder);
        if (result == STATUS_OK) result = look_at(r, folder, steps[i], &found);
        if (result == STATUS_OK && found) result = take(r, folder);
    }
    memory_free(steps);
    return result;
}

static status find_newest(resume *r, const char *out) {
    uint32_t count;
    TRY(find_later(r, out, 0, &count));
    if (r->step || !count) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "none of the %u checkpoints in %s can be used: %.*s; begin anew in another --out",
                      count, out, (int)strcspn(r->said, "\n"), r->said);
}

static status find_named(resume *r, const char *from) {
    struct stat about;
    if (stat(from, &about) == 0 && !S_ISDIR(about.st_mode))
        return status_set(STATUS_INVALID,
                          "--resume %s: it is no folder; name the --out of a run or one of its checkpoints",
                          from);
    if (exists(from, "trainer_state.json")) {
        status verified = STATUS_OK;
        TRY(checkpoint_read(from, &r->state));
        TRY(verify(r, from, &verified));
        TRY(verified);
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
    if (snprintf(path, sizeof path, "%s/" LOCK_OF_FOLDER, out) >= (int)sizeof path)
        return status_set(STATUS_INVALID, "%.60s... is too long for the name of a folder", out);
    return lock_open(path, &r->lock);
}

static status begin_anew(const setup_options *o, resume *r) {
    if (o->resume)
        resume_say(r, "%s has no checkpoint yet: the run begins at the start", o->out ? o->out : "the run");
    return STATUS_OK;
}

static status both_ways(void) {
    return status_set(STATUS_INVALID,
                      "--overwrite begins anew and --resume goes on; leave one of the two out");
}

/* For "--resume FROM --out NEW", said again after a kill: NEW may hold a later checkpoint of the same run. */
static status find_in_out(const setup *s, resume *r) {
    const setup_options *o = &s->options;
    trainer_state state = r->state;
    uint32_t count;
    if (!o->out || o->overwrite || resume_is_of(r, o->out) || !occupied_by(o->out, &r->run)) return STATUS_OK;
    int64_t from = r->step;
    TRY(find_later(r, o->out, from - 1, &count));
    if (!resume_is_of(r, o->out)) r->state = state; /* looking at other checkpoints has overwritten it */
    return STATUS_OK;
}

static status find(const setup *s, resume *r) {
    const setup_options *o = &s->options;
    if (!o->resume_from) return o->out ? find_newest(r, o->out) : STATUS_OK;
    TRY(find_named(r, o->resume_from));
    return find_in_out(s, r);
}

static status find_here(const setup *s, resume *r) {
    const setup_options *o = &s->options;
    if (!o->out && !o->resume) /* ranks compare what they train and on what, also where nothing is kept */
        return s->comm.world > 1 ? identity_of(s, &r->run) : STATUS_OK;
    if (o->out && s->comm.rank == 0 && exists(o->out, ".")) TRY(lock_out(o->out, r));
    if (o->overwrite && o->resume && !o->resume_from) return both_ways();
    TRY(identity_of(s, &r->run));
    r->replaces = s->weights && o->out && io_is_same(s->weights, o->out);
    if (!o->resume) return o->out ? occupied_check(s, &r->run) : STATUS_OK;
    TRY(find(s, r));
    if (resume_is_of(r, o->out)) {
        if (o->overwrite) return both_ways();
    } else if (o->out) {
        TRY(occupied_check(s, &r->run));
    }
    if (!r->step) return begin_anew(o, r);
    if (r->step <= o->steps) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s has %lld steps behind it, more than --steps %lld", r->folder,
                      (long long)r->step, (long long)o->steps);
}

status resume_find(const setup *s, resume *r) {
    *r = (resume){ .lock.file = -1 };
    status mine = find_here(s, r);
    return meet(r, mine, (finding){ .over = true, .step = r->step });
}

/* Something that stands in the way of a file of the run's end is refused at its beginning. */
static status check_targets(const char *out) {
    static const char *const names[] = { "config.json", "generation_config.json", "metrics.jsonl",
                                         "run.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) TRY(io_check_target(out, names[i]));
    return STATUS_OK;
}

/* run.json says that a run has come to its end. So the report of an earlier start is removed before there are
 * more steps, or before the end is completed. */
static status drop_report(const setup *s, const resume *r) {
    char path[CHECKPOINT_PATH_BYTES + 32];
    const char *out = s->options.out;
    if (r->step == s->options.steps && occupied_is_finished(out)) return STATUS_OK;
    snprintf(path, sizeof path, "%s/run.json", out);
    if (unlink(path) == 0 || errno == ENOENT) return STATUS_OK;
    return status_set(STATUS_INVALID, "cannot remove %s: %s", path, strerror(errno));
}

status resume_hold(const setup *s, resume *r) {
    const char *out = s->options.out;
    if (!out) return STATUS_OK;
    TRY(check_targets(out));
    TRY(io_make_folder(out));
    return lock_out(out, r);
}

status resume_claim(const setup *s, resume *r) {
    const char *out = s->options.out;
    if (!out) return STATUS_OK;
    TRY(resume_hold(s, r));
    TRY(checkpoint_folder_clean(out));
    TRY(model_save_clean(out));
    if (s->options.resume) TRY(drop_report(s, r));
    if (!resume_is_of(r, out)) return occupied_clear(s);
    return checkpoint_folder_keep(out, r->step, s->options.keep); /* a kill may have come before it */
}

/* Compares folders, not paths: the same folder may be named in two ways, and a checkpoint may be a link or
 * renamed. */
bool resume_is_of(const resume *r, const char *out) {
    char above[CHECKPOINT_PATH_BYTES + 4], usual[CHECKPOINT_PATH_BYTES];
    if (!out || !r->folder[0]) return false;
    snprintf(above, sizeof above, "%s/..", r->folder);
    return io_is_same(above, out) ||
           (checkpoint_folder_name(out, r->step, usual) == STATUS_OK && io_is_same(usual, r->folder));
}

void resume_close(resume *r) { lock_close(&r->lock); }
