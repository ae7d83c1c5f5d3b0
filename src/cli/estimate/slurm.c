#include "cli/estimate/slurm.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "estimate/solve.h"

/* ---- choosing ---- */

typedef struct {
    const options *o;
    const cluster_nodes *kind;
} trial;

static options options_on(const options *o, const cluster_nodes *k, int64_t gpus) {
    options with = ask_with(o, FRAMEWORK_GPUS, gpus);
    with.estimate.device = k->device;
    return with;
}

static status fits_on(void *context, int64_t gpus, bool *fits) {
    const trial *t = context;
    options with = options_on(t->o, t->kind, gpus);
    ask_answer a;
    status result = ask(&with, NULL, false, &a);
    text_close(&a.notes);
    *fits = result == STATUS_OK && a.fits;
    return result == STATUS_INVALID && gpus > 1 ? STATUS_OK : result; /* a number that nothing divides by */
}

/* The fewest devices of this kind; 0: there are not enough. More than a node has come as whole nodes. */
static status fewest_of(const options *o, const cluster_nodes *k, int64_t *gpus) {
    int64_t most, nodes = 0;
    options one = options_on(o, k, 1);
    TRY(ask_most(&one, FRAMEWORK_GPUS, &most));
    trial t = { o, k };
    if (o->estimate.gpus > 1) most = 0; /* so many are asked for */
    if (o->estimate.gpus > 1) {
        bool fits;
        TRY(fits_on(&t, o->estimate.gpus, &fits));
        *gpus = fits && o->estimate.gpus <= k->gpus * k->count ? o->estimate.gpus : 0;
        return STATUS_OK;
    }
    if (!most) most = 1;
    int64_t within = most < k->gpus ? most : k->gpus;
    TRY(solve_least(within, fits_on, &t, gpus));
    for (nodes = 2; !*gpus && nodes <= k->count && nodes * k->gpus <= most; nodes++) {
        bool fits;
        TRY(fits_on(&t, nodes * k->gpus, &fits));
        if (fits) *gpus = nodes * k->gpus;
    }
    return STATUS_OK;
}

static status memory_of(const cluster_nodes *k, uint64_t *memory) {
    hardware h;
    TRY(hardware_find(k->device, &h));
    *memory = h.memory;
    return STATUS_OK;
}

status slurm_choose(const options *o, slurm_choice *out) {
    int64_t fewest = 0;
    uint64_t smallest = 0;
    TRY(cluster_find(o->estimate.cluster, &out->of));
    out->kind = NULL;
    for (const cluster_nodes *k = out->of.kinds; k < out->of.kinds + out->of.kind_count; k++) {
        int64_t gpus;
        uint64_t memory;
        if (o->estimate.device && strcmp(o->estimate.device, k->device) != 0) continue;
        TRY(memory_of(k, &memory));
        TRY(fewest_of(o, k, &gpus));
        if (!gpus || (out->kind && (gpus > fewest || (gpus == fewest && memory >= smallest)))) continue;
        out->kind = k, fewest = gpus, smallest = memory;
    }
    if (!out->kind)
        return status_set(STATUS_NO_FIT,
                          "%s has no nodes%s%.40s on which this fits, however many; 'snug estimate' with "
                          "--device says what would help",
                          out->of.title, o->estimate.device ? " with " : "",
                          o->estimate.device ? o->estimate.device : "");
    out->nodes = (fewest + out->kind->gpus - 1) / out->kind->gpus;
    out->gpus = fewest / out->nodes;
    if (out->gpus * out->nodes < fewest) out->gpus++;
    out->with = options_on(o, out->kind, out->nodes * out->gpus);
    return STATUS_OK;
}

void slurm_say(const slurm_choice *c, text *out) {
    text_add(out, "of %s: %lld of %lld %s on %lld %s node%s\n", c->of.title, (long long)c->gpus,
             (long long)c->kind->gpus, c->kind->device, (long long)c->nodes, c->kind->name,
             c->nodes == 1 ? "" : "s");
}

/* ---- the script ---- */

/* What people have named comes into the script as letters, digits and a few signs. */
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

static void add_command(const slurm_choice *c, const char *model_name, text *out) {
    switch (c->with.estimate.framework) {
    case FRAMEWORK_SNUG:
        text_add(out, "srun snug train '");
        add_plain(out, model_name);
        text_add(out, "' --data DATA --out \"run-$SLURM_JOB_ID\" --memory auto --batch %lld",
                 (long long)c->with.run.batch);
        if (c->with.run.context) text_add(out, " --context %lld", (long long)c->with.run.context);
        text_add(out, "\n");
        return;
    case FRAMEWORK_VLLM:
        text_add(out, "srun vllm serve '");
        add_plain(out, model_name);
        text_add(out, "' --tensor-parallel-size %lld", (long long)(c->gpus * c->nodes));
        if (c->with.run.context) text_add(out, " --max-model-len %lld", (long long)c->with.run.context);
        text_add(out, "\n");
        return;
    case FRAMEWORK_LLAMA_CPP: text_add(out, "srun llama-server --model MODEL.gguf\n"); return;
    default: add_torchrun(c, out);
    }
}

void slurm_write(const slurm_choice *c, const ask_answer *a, text *out) {
    char likely[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES];
    text_add(out, "#!/bin/bash\n# ");
    add_plain(out, a->model);
    text_add(out, ": %s, at most %s, of each %s. The fewest of them on which it fits.\n",
             units_bytes_text(a->bytes.likely, likely), units_bytes_text(a->bytes.high, high),
             c->kind->device);
    text_add(out, "#SBATCH --job-name=");
    add_plain(out, last_part(a->model));
    text_add(out, "\n");
    add_resources(c, out);
    text_add(out, "set -euo pipefail\n\n");
    add_command(c, a->model, out);
}
