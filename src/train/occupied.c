#include "train/occupied.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "io/checkpoint_folder.h"
#include "io/file.h"
#include "io/shards.h"
#include "io/tokenizer_files.h"
#include "io/weight_files.h"
#include "train/standing.h"
#include "train/train.h"

enum { SENTENCE_BYTES = 512 };

/* What lies in a folder. */
typedef struct {
    const char *model; /* the file that says there is one; NULL: none does */
    int64_t checkpoint, steps;
    bool begun, finished; /* a run has written there; and to its end */
    bool known, same;     /* which run is; and it is the one that is given */
} occupant;

/* ---- looking ---- */

static status look(const char *out, const identity *given, occupant *o) {
    char run[IDENTITY_DIGEST_BYTES];
    int64_t *steps;
    uint32_t count;
    standing s = { 0 };
    TRY(checkpoint_folder_list(out, &steps, &count));
    o->checkpoint = count ? steps[0] : 0;
    memory_free(steps);
    o->model = weight_files_in(out);
    if (standing_look(out, &s) != STATUS_OK || !s.begun) return STATUS_OK; /* no run's, or an old one's */
    o->begun = true, o->steps = s.at.steps;
    bool bare = o->model && strcmp(o->model, "config.json") == 0;
    if (bare) o->model = NULL; /* a start left it that came to nothing */
    o->finished = s.ended && s.state == STANDING_FINISHED;
    o->known = s.run[0] != 0;
    o->same = strcmp(s.run, identity_digest(given, run)) == 0;
    return STATUS_OK;
}

/* ---- saying ---- */

static void describe(const char *out, const occupant *o, char what[SENTENCE_BYTES]) {
    long long steps = (long long)o->steps;
    if (o->finished && o->same)
        snprintf(what, SENTENCE_BYTES, "%s holds this run, and it is finished: all %lld steps are done", out,
                 steps);
    else if (o->finished)
        snprintf(what, SENTENCE_BYTES, "%s holds %s run, which finished after %lld steps", out,
                 o->known ? "another" : "a", steps);
    else if (o->checkpoint)
        snprintf(what, SENTENCE_BYTES, "%s has checkpoints of an earlier run, the newest of step %lld", out,
                 (long long)o->checkpoint);
    else
        snprintf(what, SENTENCE_BYTES, "%s holds a model already (%s)", out, o->model);
}

static status refuse(const setup *s, const occupant *o) {
    const char *out = s->options.out;
    char what[SENTENCE_BYTES];
    describe(out, o, what);
    bool resumable = o->checkpoint && !s->options.resume; /* else it was tried */
    if (!o->finished && resumable)
        return status_set(STATUS_INVALID,
                          "%s; continue it with --resume, choose another --out, or begin anew in its place "
                          "with --overwrite",
                          what);
    if (o->same && resumable && s->options.schedule == SCHEDULE_CONSTANT)
        return status_set(STATUS_INVALID,
                          "%s; give more --steps and --resume to train on, or --overwrite to begin anew in "
                          "its place",
                          what);
    bool whole = o->model && strncmp(o->model, "adapter", 7) != 0;
    if (o->same && o->finished && whole)
        return status_set(STATUS_INVALID,
                          "%s; to train on from its weights say 'snug train %s' with another --out, or "
                          "--overwrite to begin anew in its place",
                          what, out);
    return status_set(STATUS_INVALID, "%s; choose another --out, or --overwrite to begin anew in its place",
                      what);
}

bool occupied_by(const char *out, const identity *given) {
    occupant found = { 0 };
    return look(out, given, &found) == STATUS_OK && found.begun && found.same;
}

bool occupied_is_finished(const char *out) {
    standing s = { 0 };
    return standing_look(out, &s) == STATUS_OK && s.ended && s.state == STANDING_FINISHED;
}

status occupied_check(const setup *s, const identity *given) {
    const setup_options *o = &s->options;
    char above[CHECKPOINT_PATH_BYTES];
    occupant found = { 0 };
    if (o->overwrite) {
        bool inside = s->weights && snprintf(above, sizeof above, "%s/..", s->weights) < (int)sizeof above &&
                      io_is_same(above, o->out);
        return inside ? status_set(STATUS_INVALID,
                                   "--overwrite would remove %s, which the run begins from; choose another "
                                   "--out",
                                   s->weights)
                      : STATUS_OK;
    }
    TRY(look(o->out, given, &found));
    if (!found.model && !found.checkpoint) return STATUS_OK;
    if (o->resume && found.begun && !found.finished && found.same) return STATUS_OK;
    return refuse(s, &found);
}

/* ---- clearing ---- */

static status remove_files(const char *folder, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char path[CHECKPOINT_PATH_BYTES];
        if (snprintf(path, sizeof path, "%s/%s", folder, names[i]) >= (int)sizeof path) continue;
        if (unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR)
            return status_set(STATUS_INVALID, "cannot remove %s: %s", path, strerror(errno));
    }
    return STATUS_OK;
}

/* The model of an earlier run's best validation, and the folder where nothing else is in it. */
static status remove_best(const char *out, const char *const *left, size_t count) {
    static const char *const beside[] = { "config.json", "generation_config.json" };
    char folder[CHECKPOINT_PATH_BYTES];
    if (snprintf(folder, sizeof folder, "%s/%s", out, TRAIN_BEST) >= (int)sizeof folder) return STATUS_OK;
    TRY(shards_remove(folder, "model"));
    TRY(remove_files(folder, left, count));
    TRY(remove_files(folder, beside, sizeof beside / sizeof *beside));
    TRY(tokenizer_files_remove(folder, NULL));
    rmdir(folder);
    return STATUS_OK;
}

status occupied_clear(const setup *s) {
    static const char *const left[] = { "run.json",
                                        "adapter_base.json",
                                        "adapter_config.json",
                                        "adapter_model.safetensors",
                                        "model.safetensors.index.json",
                                        "model.safetensors" };
    const char *out = s->options.out;
    if (!s->options.overwrite) return STATUS_OK;
    bool source = s->weights && io_is_same(s->weights, out);
    if (!source) TRY(shards_remove(out, "model"));
    TRY(remove_files(out, left, source ? 4 : sizeof left / sizeof *left));
    TRY(remove_best(out, left, sizeof left / sizeof *left));
    TRY(tokenizer_files_remove(out, s->custom ? NULL : s->options.model));
    return checkpoint_folder_keep(out, INT64_MAX, 0);
}
