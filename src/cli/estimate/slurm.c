#include "cli/estimate/slurm.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "estimate/emit/emit.h"
#include "estimate/solve.h"

/* ---- choosing ---- */

/* Numbers of devices that the framework takes, and that a script can ask nodes of this kind for: more than a
 * node has come as whole nodes. */
typedef struct {
    const options *o;
    const cluster_nodes *kind;
    device_counts counts;
} trial;

static options options_on(const options *o, const cluster_nodes *k, int64_t gpus) {
    options with = ask_with(o, FRAMEWORK_GPUS, gpus);
    with.estimate.device = k->device;
    return with;
}

static status fits_on(void *context, int64_t place, bool *fits) {
    const trial *t = context;
    options with = options_on(t->o, t->kind, t->counts.of[place - 1]);
    ask_answer a;
    status result = ask(&with, NULL, false, &a);
    text_close(&a.notes);
    *fits = result == STATUS_OK && a.fits;
    return result;
}

static bool is_whole(const cluster_nodes *k, int64_t gpus) { return gpus <= k->gpus || gpus % k->gpus == 0; }

static void keep_whole(trial *t) {
    const cluster_nodes *k = t->kind;
    device_counts kept = { .count = 0 };
    for (int64_t i = 0; i < t->counts.count; i++) {
        int64_t gpus = t->counts.of[i];
        if (is_whole(k, gpus) && (gpus + k->gpus - 1) / k->gpus <= k->count) kept.of[kept.count++] = gpus;
    }
    t->counts = kept;
}

/* So many were asked for, and they are taken or left. */
static status as_asked(trial *t, int64_t gpus) {
    const cluster_nodes *k = t->kind;
    if (!is_whole(k, gpus))
        return status_set(STATUS_INVALID,
                          "--gpus %lld: nodes %s have %lld devices each, and of several nodes all are taken; "
                          "ask for %lld or %lld",
                          (long long)gpus, k->name, (long long)k->gpus, (long long)(gpus - gpus % k->gpus),
                          (long long)(gpus - gpus % k->gpus + k->gpus));
    t->counts = (device_counts){ .of = { gpus }, .count = gpus / k->gpus <= k->count };
    return STATUS_OK;
}

/* The fewest devices of this kind; 0: there are not enough. */
static status fewest_of(const options *o, const cluster_nodes *k, int64_t *gpus) {
    trial t = { .o = o, .kind = k };
    int64_t place;
    *gpus = 0;
    if (o->estimate.gpus > 1) {
        TRY(as_asked(&t, o->estimate.gpus));
    } else {
        options one = options_on(o, k, 1);
        TRY(ask_counts(&one, &t.counts));
        keep_whole(&t);
    }
    TRY(solve_least(t.counts.count, fits_on, &t, &place));
    if (place) *gpus = t.counts.of[place - 1];
    return STATUS_OK;
}

static status memory_of(const cluster_nodes *k, uint64_t *memory) {
    hardware h;
    TRY(hardware_find(k->device, &h));
    *memory = h.memory;
    return STATUS_OK;
}

/* Is this kind better than what was found before? */
static status consider(const options *o, const cluster_nodes *k, slurm_choice *out, uint64_t *smallest) {
    int64_t gpus, fewest = out->nodes * out->gpus;
    uint64_t memory;
    TRY(memory_of(k, &memory));
    TRY(fewest_of(o, k, &gpus));
    if (!gpus || (out->kind && (gpus > fewest || (gpus == fewest && memory >= *smallest)))) return STATUS_OK;
    out->kind = k, *smallest = memory;
    out->nodes = (gpus + k->gpus - 1) / k->gpus;
    out->gpus = gpus / out->nodes;
    return STATUS_OK;
}

status slurm_choose(const options *o, slurm_choice *out) {
    uint64_t smallest = 0;
    uint32_t asked = 0, refused = 0;
    status result = STATUS_OK;
    *out = (slurm_choice){ .kind = NULL };
    TRY(cluster_find(o->estimate.cluster, &out->of));
    for (const cluster_nodes *k = out->of.kinds; k < out->of.kinds + out->of.kind_count; k++) {
        if (o->estimate.device && strcmp(o->estimate.device, k->device) != 0) continue;
        result = consider(o, k, out, &smallest);
        if (result != STATUS_INVALID) TRY(result);
        asked++, refused += result == STATUS_INVALID;
    }
    if (asked && refused == asked) return result;
    if (!out->kind)
        return status_set(STATUS_NO_FIT,
                          "%s has no nodes%s%.40s on which this fits, however many; 'snug estimate' with "
                          "--gpu says what would help",
                          out->of.title, o->estimate.device ? " with " : "",
                          o->estimate.device ? o->estimate.device : "");
    out->with = options_on(o, out->kind, out->nodes * out->gpus);
    return STATUS_OK;
}

void slurm_say(const slurm_choice *c, text *out) {
    text_add(out, "of %s: %lld of %lld %s on %lld %s node%s\n", c->of.title, (long long)c->gpus,
             (long long)c->kind->gpus, c->kind->device, (long long)c->nodes, c->kind->name,
             c->nodes == 1 ? "" : "s");
}

/* ---- the script ---- */

/* In comments, and as a job's name, what people have named is letters, digits and a few signs. */
static void add_plain(text *out, const char *words) {
    for (const char *w = words; *w; w++)
        text_add(out, "%c", isalnum((unsigned char)*w) || strchr("._/-", *w) ? *w : '-');
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static void add_resources(const slurm_choice *c, text *out) {
    const cluster_nodes *k = c->kind;
    uint64_t memory = (k->memory >> 20) * (uint64_t)c->gpus / (uint64_t)k->gpus;
    int64_t cores = k->cores * c->gpus / k->gpus;
    if (k->partition[0]) text_add(out, "#SBATCH --partition=%s\n", k->partition);
    if (k->constraint[0]) text_add(out, "#SBATCH --constraint=%s\n", k->constraint);
    text_add(out, "#SBATCH --nodes=%lld\n", (long long)c->nodes);
    text_add(out, "#SBATCH --%s%s%s%lld\n", c->of.gres ? "gres=gpu:" : "gpus-per-node=", k->type,
             k->type[0] ? ":" : "", (long long)c->gpus);
    text_add(out, "#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-task=%lld\n#SBATCH --mem=%lluM\n",
             (long long)(cores ? cores : 1), (unsigned long long)memory);
    text_add(out, "# The time is yours to say; at most %lld hours here.\n#SBATCH --time=%02d:00:00\n",
             (long long)c->of.hours, c->of.hours < 4 ? (int)c->of.hours : 4);
    for (uint32_t i = 0; i < c->of.flag_count; i++) text_add(out, "#SBATCH %s\n", c->of.flags[i]);
}

static void add_torchrun(const slurm_choice *c, text *out) {
    if (c->nodes == 1) {
        text_add(out, "srun torchrun --standalone --nproc-per-node=%lld train.py # and its arguments\n",
                 (long long)c->gpus);
        return;
    }
    text_add(out,
             "head=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
             "srun torchrun --nnodes=%lld --nproc-per-node=%lld --rdzv-id=\"$SLURM_JOB_ID\" \\\n"
             "  --rdzv-backend=c10d --rdzv-endpoint=\"$head:29500\" train.py # and its arguments\n",
             (long long)c->nodes, (long long)c->gpus);
}

/* A model's name is cut where a path is long, and what runs needs all of it. */
static const char *whole_name(const estimate_question *e) {
    if (e->hub && e->framework) return e->hub;
    return strlen(e->model.name) + 1 < sizeof e->model.name ? e->model.name : e->o->subject;
}

/* With all options that were given, from wherever: what was estimated is what runs. */
static void add_training(const estimate_question *e, text *out) {
    text_add(out, "srun snug train ");
    text_add_quoted(out, whole_name(e));
    text_add(out, " --data DATA --out \"run-$SLURM_JOB_ID\" --memory auto");
    options_add_given(COMMAND_ESTIMATE, COMMAND_TRAIN, e->o, out);
    text_add(out, "\n");
}

static void add_command(const slurm_choice *c, const estimate_question *e, text *out) {
    emit_request q = { .subject = &e->subject,
                       .framework = e->framework,
                       .named = whole_name(e),
                       .settings = &e->settings,
                       .result = &e->result,
                       .changed = "",
                       .tight = "" };
    switch (c->with.estimate.framework) {
    case FRAMEWORK_SNUG: add_training(e, out); return;
    case FRAMEWORK_VLLM:
        text_add(out, "srun ");
        emit_vllm_command(&q, whole_name(e), out);
        return;
    case FRAMEWORK_LLAMA_CPP:
        text_add(out, "srun ");
        emit_llama_cpp_command(&q, out);
        return;
    default: add_torchrun(c, out);
    }
}

static void add_script(const slurm_choice *c, const ask_answer *a, const estimate_question *e,
                       const char *tight, text *out) {
    char likely[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES];
    text_add(out, "#!/bin/bash\n# ");
    add_plain(out, a->model);
    text_add(out, ": %s, at most %s, of each %s. The fewest of them on which it fits.\n",
             units_bytes_text(a->bytes.likely, likely), units_bytes_text(a->bytes.high, high),
             c->kind->device);
    if (tight) text_add(out, "# It %s.\n", tight);
    text_add(out, "#SBATCH --job-name=");
    add_plain(out, last_part(a->model));
    text_add(out, "\n");
    add_resources(c, out);
    text_add(out, "set -euo pipefail\n\n");
    add_command(c, e, out);
}

static status say_tight(estimate_question *e, text *out) {
    if (!e->framework) return STATUS_OK;
    TRY(e->framework->estimate(&e->subject, &e->settings, &e->result));
    return estimate_say_tight(out, e, &e->settings, &e->result);
}

status slurm_write(const slurm_choice *c, const ask_answer *a, text *out, text *people) {
    estimate_question e;
    text tight = { 0 };
    status result = estimate_open(&c->with, c->with.subject, &e);
    if (result == STATUS_OK) result = say_tight(&e, &tight);
    if (result == STATUS_OK) add_script(c, a, &e, tight.data, out);
    if (tight.length) text_add(people, "It %s.\n", tight.data);
    text_close(&tight);
    estimate_close(&e);
    return result;
}
