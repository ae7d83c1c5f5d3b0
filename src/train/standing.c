#include "train/standing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/folder.h"
#include "io/checkpoint_folder.h"
#include "io/file.h"
#include "io/json.h"
#include "io/lock.h"

enum { BLOCK_BYTES = 64 << 10, PATH_BYTES = 4096 };

const char *standing_state_name(standing_state s) {
    static const char *const names[] = { "making tokens", "running", "finished",
                                         "interrupted",   "failed",  "killed" };
    return names[s];
}

/* ---- lines of metrics.jsonl ---- */

/* What is absent or of another type leaves its value alone: a strange line is no reason to refuse. */
static void get_integer(json_value v, const char *key, int64_t *to) {
    int64_t value;
    if (json_has(v, key) && json_get_integer(v, key, 0, INT64_MAX, &value) == STATUS_OK) *to = value;
}

static void get_bytes(json_value v, const char *key, uint64_t *to) {
    int64_t value = -1;
    get_integer(v, key, &value);
    if (value >= 0) *to = (uint64_t)value;
}

static void get_number(json_value v, const char *key, double *to) {
    double value;
    if (json_has(v, key) && json_get_number(v, key, -1e300, 1e300, &value) == STATUS_OK) *to = value;
}

static void begin(standing *s, json_value v) {
    s->begun = true;
    s->ended = false;
    s->reason[0] = 0;
    const char *run = "";
    if (json_has(v, "run") && json_get_string(v, "run", &run) != STATUS_OK) run = "";
    snprintf(s->run, sizeof s->run, "%s", run);
    s->steps_seen = 0;
    s->at.budget_bytes = UINT64_MAX;
    get_integer(v, "done", &s->at.step);
    get_integer(v, "steps", &s->at.steps);
    get_bytes(v, "planned_bytes", &s->at.planned_bytes);
    get_bytes(v, "budget_bytes", &s->at.budget_bytes);
}

static void end(standing *s, json_value v) {
    const char *outcome = "", *reason = "";
    s->ended = true;
    if (json_has(v, "outcome") && json_get_string(v, "outcome", &outcome) != STATUS_OK) outcome = "";
    if (json_has(v, "reason") && json_get_string(v, "reason", &reason) != STATUS_OK) reason = "";
    s->state = strcmp(outcome, "finished") == 0      ? STANDING_FINISHED
               : strcmp(outcome, "interrupted") == 0 ? STANDING_INTERRUPTED
                                                     : STANDING_FAILED;
    snprintf(s->reason, sizeof s->reason, "%s", reason);
}

static void step(standing *s, json_value v) {
    train_progress *p = &s->at;
    if (json_has(v, "eval_loss")) {
        get_integer(v, "step", &s->eval_step);
        get_number(v, "eval_loss", &s->eval_loss);
        return;
    }
    p->norm = p->tokens_per_second = NAN;
    p->loss_scale = 0;
    get_integer(v, "step", &p->step);
    get_number(v, "loss", &p->loss);
    get_number(v, "grad_norm", &p->norm);
    get_number(v, "loss_scale", &p->loss_scale);
    get_number(v, "lr", &p->learning_rate);
    get_number(v, "seconds", &p->seconds);
    get_number(v, "tokens_per_second", &p->tokens_per_second);
    get_bytes(v, "memory_bytes", &p->resident_bytes);
    s->recent[s->steps_seen++ % STANDING_RECENT] = p->seconds;
}

/* What is no JSON is passed over. */
static status take_line(standing *s, const char *line, size_t length) {
    json_document d;
    status result = json_parse("metrics.jsonl", line, length, &d);
    if (result != STATUS_OK) return result == STATUS_FAILED ? result : STATUS_OK;
    if (json_has(d.root, "began"))
        begin(s, d.root);
    else if (json_has(d.root, "ended"))
        end(s, d.root);
    else if (json_has(d.root, "step"))
        step(s, d.root);
    json_close(&d);
    return STATUS_OK;
}

/* Lines that can't matter any more are passed over: of steps only the last ones do, in a file that may have
 * millions. */
static bool may_matter(const char *line, uint64_t left) {
    enum { LAST_BYTES = 256 * STANDING_RECENT };
    return left < LAST_BYTES || strncmp(line, "{\"step\": ", 9) != 0 || strstr(line, "\"eval_loss\"");
}

static status read_lines(standing *s, const char *path, int file, uint64_t bytes, char *block) {
    while (s->offset < bytes) {
        uint64_t left = bytes - s->offset, n = left < BLOCK_BYTES ? left : BLOCK_BYTES, used = 0;
        TRY(io_read_at(file, path, s->offset, block, n));
        block[n] = 0;
        for (char *stop; (stop = memchr(block + used, '\n', (size_t)(n - used)));) {
            *stop = 0;
            if (may_matter(block + used, left - used))
                TRY(take_line(s, block + used, (size_t)(stop - block) - (size_t)used));
            used = (uint64_t)(stop - block) + 1;
        }
        if (!used && n < BLOCK_BYTES) break; /* a line that is still being written */
        s->offset += used ? used : n;
    }
    return STATUS_OK;
}

/* ---- the folder ---- */

static status find_metrics(const char *folder, char path[PATH_BYTES]) {
    struct stat about;
    if (stat(folder, &about) != 0) return status_set(STATUS_INVALID, "there is no folder %s", folder);
    if (!S_ISDIR(about.st_mode)) return status_set(STATUS_INVALID, "%s is no folder of a run", folder);
    if (snprintf(path, PATH_BYTES, "%s/metrics.jsonl", folder) >= PATH_BYTES)
        return status_set(STATUS_INVALID, "the path '%.60s...' is too long", folder);
    if (access(path, F_OK) == 0) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s has no metrics.jsonl: no run has written there; name the --out of 'snug train'",
                      folder);
}

static status read_metrics(standing *s, const char *path) {
    int file;
    uint64_t bytes;
    struct stat about;
    TRY(io_open(path, &file, &bytes));
    if (bytes < s->offset) *s = (standing){ 0 }; /* begun anew, or cut by a run that goes on */
    char *block = memory_new(BLOCK_BYTES + 1, 1);
    status result = block ? read_lines(s, path, file, bytes, block)
                          : status_set(STATUS_FAILED, "no memory to read %s", path);
    if (fstat(file, &about) == 0)
        s->silent = clock_today() - (double)about.st_mtim.tv_sec - 1e-9 * (double)about.st_mtim.tv_nsec;
    memory_free(block);
    close(file);
    return result;
}

static double seconds_left(const standing *s) {
    uint32_t count = s->steps_seen < STANDING_RECENT ? s->steps_seen : STANDING_RECENT;
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += s->recent[i];
    return count ? sum / count * (double)(s->at.steps - s->at.step) : NAN;
}

static status find_checkpoint(const char *folder, standing *s) {
    int64_t *steps = NULL;
    uint32_t count = 0;
    TRY(checkpoint_folder_list(folder, &steps, &count));
    s->checkpoint = count ? steps[0] : 0;
    memory_free(steps);
    return STATUS_OK;
}

status standing_look(const char *folder, standing *s) {
    char path[PATH_BYTES], lock_path[PATH_BYTES + 16];
    TRY(find_metrics(folder, path));
    snprintf(lock_path, sizeof lock_path, "%s/" LOCK_OF_FOLDER, folder);
    bool alive =
        lock_is_held(lock_path, s->owner, sizeof s->owner); /* first: who ends writes, then lets go */
    char owner[STANDING_TEXT_BYTES];
    memcpy(owner, s->owner, sizeof owner);
    TRY(read_metrics(s, path));
    memcpy(s->owner, owner, sizeof owner);
    if (!s->begun && !s->steps_seen)
        return status_set(STATUS_INVALID, "%s holds nothing that a run has written", path);
    if (!s->ended) s->state = alive ? STANDING_RUNNING : STANDING_KILLED;
    s->at.seconds_left = s->state == STANDING_RUNNING ? seconds_left(s) : NAN;
    return find_checkpoint(folder, s);
}

/* ---- before it ---- */

typedef struct {
    char *who;
    size_t bytes;
    bool held;
} making;

static status see_lock(void *context, char *path) {
    making *m = context;
    if (!m->held && text_ends_with(path, ".safetensors.lock")) m->held = lock_is_held(path, m->who, m->bytes);
    memory_free(path);
    return STATUS_OK;
}

bool standing_makes_tokens(const char *folder, char *who, size_t bytes) {
    char path[PATH_BYTES];
    making m = { who, bytes, false };
    if (snprintf(path, sizeof path, "%s/" LOCK_OF_FOLDER, folder) >= PATH_BYTES ||
        lock_is_held(path, who, bytes))
        return false;
    snprintf(path, sizeof path, "%s/data", folder); /* as cli/train_tokens.c has it */
    if (access(path, F_OK) != 0 || folder_list(path, see_lock, &m) != STATUS_OK) return false;
    return m.held;
}
