#include "estimate/clusters/slurm.h"

#include <ctype.h>
#include <string.h>

#include "base/units.h"

/* In comments, and as a job's name, what people have named is letters, digits and a few signs. */
static void add_plain(text *out, const char *words) {
    for (const char *w = words; *w; w++)
        text_add(out, "%c", isalnum((unsigned char)*w) || strchr("._/-", *w) ? *w : '-');
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

uint64_t slurm_memory(const choose_answer *c) {
    return (c->kind->memory >> 20) * (uint64_t)c->gpus / (uint64_t)c->kind->gpus;
}

static void add_resources(const choose_answer *c, bool ranks, text *out) {
    const cluster_nodes *k = c->kind;
    int64_t tasks = ranks ? c->gpus : 1, cores = k->cores * c->gpus / k->gpus / tasks;
    if (k->partition[0]) text_add(out, "#SBATCH --partition=%s\n", k->partition);
    if (k->constraint[0]) text_add(out, "#SBATCH --constraint=%s\n", k->constraint);
    text_add(out, "#SBATCH --nodes=%lld\n", (long long)c->nodes);
    text_add(out, "#SBATCH --%s%s%s%lld\n", c->of.gres ? "gres=gpu:" : "gpus-per-node=", k->type,
             k->type[0] ? ":" : "", (long long)c->gpus);
    text_add(out, "#SBATCH --ntasks-per-node=%lld\n#SBATCH --cpus-per-task=%lld\n#SBATCH --mem=%lluM\n",
             (long long)tasks, (long long)(cores ? cores : 1), (unsigned long long)slurm_memory(c));
    text_add(out, "# The time is yours to say; at most %lld hours here.\n#SBATCH --time=%02d:00:00\n",
             (long long)c->of.hours, c->of.hours < 4 ? (int)c->of.hours : 4);
    for (uint32_t i = 0; i < c->of.flag_count; i++) text_add(out, "#SBATCH %s\n", c->of.flags[i]);
}

/* Each line as a comment. What people have named cannot end one: nothing but blanks and signs is left of it.
 */
static void add_comments(const char *lines, text *out) {
    for (const char *at = lines; at && *at; at += *at == '\n') {
        text_add(out, "# ");
        for (; *at && *at != '\n'; at++) text_add(out, "%c", iscntrl((unsigned char)*at) ? '-' : *at);
        text_add(out, "\n");
    }
}

void slurm_add_head(const choose_answer *c, const slurm_job *job, text *out) {
    char likely[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES];
    text_add(out, "#!/bin/bash\n# ");
    add_plain(out, job->model);
    text_add(out, ": %s, at most %s, of each %s. %s\n", units_bytes_text(job->bytes.likely, likely),
             units_bytes_text(job->bytes.high, high), c->kind->device,
             job->counted ? "As many of them as were asked for." : "The fewest of them on which it fits.");
    if (job->tight) text_add(out, "# It %s.\n", job->tight);
    add_comments(job->assumed, out);
    text_add(out, "#SBATCH --job-name=");
    add_plain(out, last_part(job->model));
    text_add(out, "\n");
    add_resources(c, job->ranks, out);
    text_add(out, "set -euo pipefail\n\n");
}

void slurm_add_torchrun(const choose_answer *c, text *out) {
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
