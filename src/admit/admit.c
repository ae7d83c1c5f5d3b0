#include "admit/admit.h"

#include <stdio.h>
#include <string.h>

#include "admit/launch.h"
#include "admit/shell.h"
#include "base/memory.h"
#include "io/file.h"

enum { NESTED = 3, /* scripts within scripts */ MOST_GPUS = 1 << 20 };

typedef struct {
    admit_reading *out;
    trainer_files files;
    int depth;
    status failed;
} walk;

static void unseen(admit_reading *r, const char *format, const char *what) {
    char sentence[256];
    snprintf(sentence, sizeof sentence, format, what);
    for (char *c = sentence; *c; c++)
        if ((unsigned char)*c < ' ') *c = '?';
    if (r->unseen.length > 4096 || (r->unseen.data && strstr(r->unseen.data, sentence))) return;
    text_add(&r->unseen, "%s\n", sentence);
}

/* ---- one command ---- */

/* How many devices a run has: what launchers say, or one for a process that nobody launched. */
static int64_t gpus_of(const resources *asks, const launch_found *f, const recipe *r) {
    int64_t all = resources_all_gpus(asks), node = resources_node_gpus(asks), n = 1,
            nodes = f->nodes                      ? f->nodes
                    : asks->nodes && !f->one_node ? asks->nodes
                                                  : 1;
    if (r->processes) /* accelerate's are of all nodes; a server has its own */
        n = r->processes;
    else if (f->processes)
        n = f->of_all_nodes ? f->processes : f->processes * nodes;
    else if (f->all || f->launched)
        n = node ? node * nodes : all;
    return n < MOST_GPUS ? n : MOST_GPUS;
}

/* A text within the script: of a shell that it starts, or of eval. `unsure`: a '?' in it is not known. */
static void read_text(walk *w, shell *s, const char *all, size_t bytes, bool unsure, const shell_command *c) {
    if (w->depth == NESTED) {
        unseen(w->out, "scripts within scripts are read %s deep, and no further", "three");
        return;
    }
    s->work += bytes + SHELL_COMMAND_BYTES; /* as much is cleared for each */
    if (s->work > SHELL_WORK_BYTES) {
        s->cut = true;
        return;
    }
    char *copy = memory_new(bytes + 1, 1); /* the words that it is of change as it is read */
    if (!copy) {
        w->failed = status_set(STATUS_FAILED, "no memory to read a script");
        return;
    }
    memcpy(copy, all, bytes);
    const bool doubtful = s->doubtful;
    if (c->prefixed) shell_doubt(s);
    if (c->hides) shell_set(s, "CUDA_VISIBLE_DEVICES", "", true);
    s->doubtful |= unsure;
    w->depth++;
    status result = shell_read(s, copy, bytes, c->maybe);
    if (result != STATUS_OK) w->failed = result;
    w->depth--;
    s->doubtful = doubtful;
    memory_free(copy);
}

static void read_inner(walk *w, shell *s, const char *all, size_t bytes, bool unsure,
                       const shell_command *c) {
    const trainer_files files = w->files; /* a child's folder is its own */
    const uint32_t functions = s->function_count, redefined = s->redefined;
    shell_doubt_unexported(s);
    read_text(w, s, all, bytes, unsure, c);
    w->files = files;
    if (s->redefined > redefined) s->cut = true; /* of the script, by the child */
    shell_drop_functions(s, functions);
    shell_doubt(s); /* what the child has set is no longer so */
}

/* Its arguments are its own. */
static void read_line(walk *w, shell *s, const launch_found *f, const shell_command *c) {
    char *line = memory_text(f->line);
    shell_frame frame;
    shell_begin_frame(s, &frame);
    if (line && f->words.count > 1)
        shell_set_arguments(s, f->words.words + 1, f->words.unsure + 1,
                            f->words.count - 1); /* the first is $0 */
    if (line && f->line_unsure && !strchr(line, '?'))
        unseen(w->out, "a line of %s is not known", "another shell");
    if (line) read_inner(w, s, line, strlen(line), f->line_unsure, c);
    shell_end_frame(s, &frame);
    memory_free(line);
}

/* eval: its words as one line, in this shell. What it does where they are not known is not known, as with
 * "source". True: the script ends with it. */
static bool read_eval(walk *w, shell *s, const shell_command *c) {
    text line = { 0 };
    bool unsure = c->cut;
    for (uint32_t i = 1; i < c->count; i++) {
        bool marked = !c->words[i].unsure || strchr(c->words[i].text, '?');
        text_add(&line, "%s%s%s", i > 1 ? " " : "", c->words[i].text, marked ? "" : "?");
        unsure |= c->words[i].unsure;
    }
    if (unsure) shell_doubt(s), shell_doubt_arguments(s);
    bool says = line.data && !line.failed && *line.data != '?';
    s->ends = SHELL_RUNS;
    if (says) read_text(w, s, line.data, line.length, unsure, c);
    text_close(&line);
    if (unsure) shell_doubt(s), shell_doubt_arguments(s);
    if (c->child) shell_doubt(s);
    return s->ends == SHELL_HAS_ENDED && !c->maybe && !c->child;
}

static void read_script_file(walk *w, shell *s, const launch_found *f, const shell_command *c, recipe *r) {
    char path[4096], *data;
    uint64_t bytes;
    bool opens = trainer_path(f->script, &w->files, path, r);
    if (!opens || io_read_file(path, SHELL_SCRIPT_BYTES, &data, &bytes) != STATUS_OK) {
        unseen(w->out, "it starts %.80s, which was not read", f->script);
        return;
    }
    shell_frame frame;
    shell_begin_frame(s, &frame);
    shell_set_arguments(s, f->words.words, f->words.unsure, f->words.count);
    read_inner(w, s, data, bytes, false, c);
    shell_end_frame(s, &frame);
    memory_free(data);
}

/* Do both say the same? Turns of a loop over seeds do. */
static bool same_run(const recipe *a, const recipe *b, int64_t gpus) {
    recipe_options x, y;
    bool same = strcmp(a->model, b->model) == 0 && strcmp(a->file, b->file) == 0 && a->judges == b->judges &&
                strcmp(a->unseen.data ? a->unseen.data : "", b->unseen.data ? b->unseen.data : "") == 0;
    for (recipe_reading as = RECIPE_LIKELY; as <= RECIPE_LEAST && same; as++) {
        same = recipe_estimate(a, gpus, as, &x);
        same &= recipe_estimate(b, gpus, as, &y) && x.count == y.count;
        for (uint32_t i = 0; same && i < x.count; i++) same = strcmp(x.words[i], y.words[i]) == 0;
        recipe_options_close(&x);
        recipe_options_close(&y);
    }
    return same;
}

static void keep_run(walk *w, const shell *s, const shell_command *c, const launch_found *f, recipe *r) {
    admit_reading *out = w->out;
    if (c->cut) recipe_unseen(r, "the command is longer than what is read");
    if (c->maybe) recipe_unseen(r, "it runs only if something holds that is not known here");
    const shell_variable *seen = shell_find(s, "CUDA_VISIBLE_DEVICES");
    if (c->hides || (seen && (seen->unsure || *seen->value < '0' || *seen->value > '9')))
        recipe_unseen(r, "CUDA_VISIBLE_DEVICES may leave it no device");
    int64_t gpus = gpus_of(&out->asks, f, r), asked = resources_all_gpus(&out->asks);
    if (asked && gpus > asked) recipe_unseen(r, "it starts more processes than the job has devices");
    if (r->shard > RECIPE_DDP && gpus <= 1)
        recipe_unseen(r, "over how many devices weights are shared out is not known");
    if (gpus > 1 && !recipe_serves(r) && !f->launched && !r->processes)
        recipe_unseen(r, "how its processes work together is not known");
    bool known = false;
    for (uint32_t i = 0; i < out->run_count; i++)
        known |= out->gpus[i] == gpus && same_run(&out->runs[i], r, gpus);
    if (!known && out->run_count == ADMIT_MOST_RUNS)
        unseen(out, "more than %s commands train; the others were not looked at", "eight");
    if (known || out->run_count == ADMIT_MOST_RUNS) {
        recipe_close(r);
        return;
    }
    out->gpus[out->run_count] = gpus;
    out->runs[out->run_count++] = *r;
}

static bool is_among(const char *word, const char *const *words) {
    for (; *words; words++)
        if (strcmp(word, *words) == 0) return true;
    return false;
}

/* What sets variables in ways that are not followed. */
static void doubt_what_it_sets(shell *s, const shell_command *c) {
    static const char *const all[] = { "source", ".", "let", NULL };
    static const char *const named[] = { "read", "unset", "printf", "mapfile", "readarray", "getopts", NULL };
    const char *name = c->words[0].text;
    if (strcmp(name, "builtin") == 0 || strcmp(name, "command") == 0) shell_doubt(s);
    if (is_among(name, all)) shell_doubt(s);
    if (strcmp(name, "source") == 0 || strcmp(name, ".") == 0) shell_doubt_arguments(s);
    if (!is_among(name, named)) return;
    for (uint32_t i = 1; i < c->count; i++) {
        char plain[64];
        snprintf(plain, sizeof plain, "%.63s", c->words[i].text);
        plain[strcspn(plain, "[")] = 0; /* an item of a list */
        if (c->words[i].unsure) shell_doubt(s);
        if (shell_find(s, plain)) shell_set(s, plain, "", true);
    }
}

/* "set -- a b" sets arguments, and "set a b" too; "set -o pipefail" does not. */
static void take_set(shell *s, const shell_command *c) {
    const char *words[SHELL_MOST_WORDS];
    bool unsure[SHELL_MOST_WORDS];
    uint32_t at = 1;
    while (at < c->count && strchr("-+", c->words[at].text[0]) && strcmp(c->words[at].text, "--") != 0)
        at += text_ends_with(c->words[at].text, "o") ? 2 : 1;
    if (at >= c->count) return;
    bool marked = strcmp(c->words[at].text, "--") == 0;
    at += marked;
    for (uint32_t i = at; i < c->count; i++)
        words[i - at] = c->words[i].text, unsure[i - at] = c->words[i].unsure;
    shell_doubt_arguments(s); /* those that it has no longer */
    if (marked && !c->maybe && !c->child && !c->cut) shell_set_arguments(s, words, unsure, c->count - at);
}

static bool take_builtin(walk *w, shell *s, const shell_command *c) {
    const char *name = c->words[0].text;
    doubt_what_it_sets(s, c);
    if (strcmp(name, "cd") == 0 || strcmp(name, "pushd") == 0) {
        const char *to = c->count > 1 ? c->words[1].text : "";
        bool known = *to && !c->words[1].unsure && !c->maybe && !c->child && strlen(to) < 2000;
        char joined[4096];
        if (!known || *to == '~')
            w->files.may_open = false; /* relative names are somewhere else now */
        else if (*to == '/' || !w->files.folder[0])
            snprintf(w->files.folder, sizeof w->files.folder, "%s", to);
        else if (snprintf(joined, sizeof joined, "%.2000s/%s", w->files.folder, to) > 0)
            snprintf(w->files.folder, sizeof w->files.folder, "%s", joined);
        return true;
    }
    bool shifts = strcmp(name, "shift") == 0, sets = strcmp(name, "set") == 0;
    int64_t by = c->count > 1 ? recipe_count(c->words[1].text) : 1;
    if (shifts) shell_shift(s, (uint32_t)by, c->maybe || c->child || !by);
    if (strcmp(name, "alias") == 0 && c->count > 1) unseen(w->out, "an alias may stand for %s", "a command");
    if (sets) take_set(s, c);
    return shifts || sets;
}

/* "?/bin/python": where it lies is not known, and which it is. */
static bool ends_known(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] && !strchr(slash, '?');
}

/* Called by the shell for every command of the script. */
static bool read_command(void *context, shell *s, const shell_command *c) {
    walk *w = context;
    const char *words[SHELL_MOST_WORDS];
    bool unsure[SHELL_MOST_WORDS];
    if (strcmp(c->words[0].text, "eval") == 0) return read_eval(w, s, c) || w->failed != STATUS_OK;
    if (take_builtin(w, s, c)) return false;
    for (uint32_t i = 0; i < c->count; i++) words[i] = c->words[i].text, unsure[i] = c->words[i].unsure;
    launch_found f = { .words = { words, unsure, c->count } };
    recipe r = { .program = NULL };
    launch_take(&w->out->asks, &w->files, &f, &r);
    if (f.line || f.script) {
        if (f.line)
            read_line(w, s, &f, c);
        else
            read_script_file(w, s, &f, c, &r);
        recipe_close(&r);
        return w->failed != STATUS_OK;
    }
    uint32_t skip = 0;
    const trainer *t = f.words.count ? trainer_find(&f.words, &skip) : NULL;
    if (f.words.count && f.words.unsure[0] && !ends_known(f.words.words[0]))
        unseen(w->out, "which command '%.80s' is depends on more than the script", f.words.words[0]);
    if (!t) {
        if (r.unseen.length && f.launched) unseen(w->out, "%.80s is no program that is known here", words[0]);
        recipe_close(&r);
        return false;
    }
    snprintf(r.file, sizeof r.file, "%.100s", f.words.words[0]);
    const trainer_words rest = { f.words.words + skip, f.words.unsure + skip, f.words.count - skip };
    trainer_read(t, &rest, &w->files, &r);
    bool trains = !trainer_is_own(t) || r.model[0] || r.batch || r.rank || r.context;
    if (trains)
        keep_run(w, s, c, &f, &r);
    else
        recipe_close(&r);
    return false;
}

/* ---- the job ---- */

static void set_number(shell *s, const char *name, int64_t value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    if (value) shell_set(s, name, digits, false);
}

/* What Slurm will say in the job's environment, as far as the job's own options say it. */
static void set_environment(shell *s, const resources *asks) {
    int64_t nodes = asks->nodes ? asks->nodes : 1, per_node = resources_node_gpus(asks);
    int64_t tasks = asks->tasks ? asks->tasks : asks->tasks_per_node * nodes;
    set_number(s, "SLURM_JOB_NUM_NODES", nodes);
    set_number(s, "SLURM_NNODES", nodes);
    set_number(s, "SLURM_NTASKS", tasks ? tasks : nodes);
    set_number(s, "SLURM_NPROCS", tasks ? tasks : nodes);
    set_number(s, "SLURM_NTASKS_PER_NODE", asks->tasks_per_node);
    set_number(s, "SLURM_GPUS_ON_NODE", per_node);
    set_number(s, "SLURM_GPUS_PER_NODE", asks->gpus_per_node);
    set_number(s, "SLURM_GPUS", asks->gpus);
}

static bool is_script(const char *all, size_t bytes) {
    size_t look = bytes < 4096 ? bytes : 4096;
    return !memchr(all, 0, look) && bytes > 2 && memcmp(all, "#!", 2) == 0;
}

/* Another language than the shell's is none that is read. */
static bool is_shells(const char *all, size_t bytes) {
    char first[256] = "";
    size_t n = bytes < sizeof first - 1 ? bytes : sizeof first - 1;
    memcpy(first, all, n);
    first[strcspn(first, "\n")] = 0;
    return strstr(first, "sh") != NULL && !strstr(first, "csh");
}

static status read_all(const admit_job *job, walk *w, shell *s) {
    admit_reading *out = w->out;
    int script;
    if (job->script) resources_read_script(job->script, job->bytes, &out->asks);
    resources_read_environment(job->environment, &out->asks);
    resources_read_line(job->line_count, job->line, &out->asks, &script);
    if (out->asks.heterogeneous) unseen(out, "of a job of several parts only %s is read", "the first");
    if (out->asks.several_types) unseen(out, "GPUs of %s are asked for", "several types");
    if (out->asks.cut) unseen(out, "%s of what is asked for is not known", "something");
    snprintf(w->files.folder, sizeof w->files.folder, "%s", out->asks.folder);
    set_environment(s, &out->asks);
    shell_set_arguments(s, job->arguments, NULL, job->argument_count);
    if (out->asks.wrapped) return shell_read(s, out->asks.wrapped, strlen(out->asks.wrapped), false);
    if (!job->script) return STATUS_OK;
    if (job->bytes > SHELL_SCRIPT_BYTES)
        return status_set(STATUS_INVALID, "the script has %zu bytes, and up to %d are read", job->bytes,
                          SHELL_SCRIPT_BYTES);
    if (!is_script(job->script, job->bytes))
        return status_set(STATUS_INVALID, "this is no script: it does not begin with #!, as sbatch wants it");
    if (!is_shells(job->script, job->bytes)) {
        unseen(out, "the script is %s, and only shells' are read", "in another language");
        return STATUS_OK;
    }
    return shell_read(s, job->script, job->bytes, false);
}

status admit_read(const admit_job *job, admit_reading *out) {
    *out = (admit_reading){ .run_count = 0 };
    shell *s = memory_new(1, sizeof *s);
    walk *w = memory_new(1, sizeof *w);
    status result = s && w ? STATUS_OK : status_set(STATUS_FAILED, "no memory to read a script");
    if (result == STATUS_OK) {
        *w = (walk){ .out = out, .files = { .may_open = job->may_open, .script = s } };
        s->each = read_command, s->context = w;
        result = read_all(job, w, s);
        if (result == STATUS_OK) result = shell_read_uncalled(s);
        if (result == STATUS_OK) result = w->failed;
        if (s->cut)
            unseen(out, "the script is longer or more tangled than what is read, so %s", "not all was seen");
        shell_close(s);
    }
    memory_free(s);
    memory_free(w);
    return result;
}

void admit_close(admit_reading *r) {
    for (uint32_t i = 0; i < r->run_count; i++) recipe_close(&r->runs[i]);
    text_close(&r->unseen);
    r->run_count = 0;
}
