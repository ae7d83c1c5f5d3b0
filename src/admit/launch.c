#include "admit/launch.h"

#include <stdio.h>
#include <string.h>

/* What a launcher is called, and which of its options take no value. */
typedef struct {
    const char *names, *flags; /* "torchrun,python -m torch.distributed.run"; "standalone,no-python" */
} launcher;

static void take(launch_found *f, uint32_t words) {
    if (words > f->words.count) words = f->words.count;
    f->words.words += words, f->words.unsure += words, f->words.count -= words;
}

static const char *word(const launch_found *f, uint32_t i) {
    return i < f->words.count ? f->words.words[i] : "";
}

static const char *plain(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at && *at; at = strchr(at, ',')) {
        at += *at == ',';
        size_t n = strcspn(at, ",");
        if (n == length && memcmp(at, name, n) == 0) return true;
    }
    return false;
}

/* ---- options of launchers ---- */

typedef struct {
    char name[64];
    const char *value; /* "": a flag, or none */
    bool unsure;       /* something of it is not known */
} launch_option;

/* The option at the front, with underscores for hyphens, and what stands behind it is taken. */
static bool next_option(launch_found *f, const char *flags, launch_option *o) {
    const char *w = word(f, 0);
    if (w[0] != '-' || !w[1]) return false;
    w += 1 + (w[1] == '-');
    const char *equals = strchr(w, '=');
    snprintf(o->name, sizeof o->name, "%.*s", equals ? (int)(equals - w < 63 ? equals - w : 63) : 63, w);
    for (char *c = o->name; *c; c++) *c = *c == '-' ? '_' : *c;
    o->value = equals ? equals + 1 : "";
    o->unsure = f->words.unsure[0];
    take(f, 1);
    if (!equals && !listed(flags, o->name) && f->words.count) {
        o->value = word(f, 0);
        o->unsure |= f->words.unsure[0];
        take(f, 1);
    }
    return true;
}

/* "4?" is 4 where nothing outside of the script says more; of what is not known at all the job's devices are
 * the likely number. */
static int64_t likely_count(const launch_option *o, recipe *r) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.31s", o->value);
    digits[strcspn(digits, "?")] = 0;
    int64_t n = recipe_count(digits);
    if (n && o->unsure)
        recipe_unseen(r, "%s is taken as %lld, as the script says, but something that is not read may set it",
                      o->name, (long long)n);
    return n;
}

static void count_processes(const launch_option *o, launch_found *f, recipe *r) {
    f->processes = likely_count(o, r);
    f->all |= strcmp(o->value, "gpu") == 0 || strcmp(o->value, "auto") == 0 || o->unsure;
}

static void take_nodes(const launch_option *o, launch_found *f, recipe *r) {
    f->nodes = likely_count(o, r);
    if (!f->nodes) recipe_unseen(r, "on how many nodes it runs is not known");
}

static void take_torchrun(launch_found *f, recipe *r) {
    launch_option o;
    f->launched = f->one_node = true;
    f->processes = 0, f->of_all_nodes = false; /* what a launcher before it starts is launchers */
    while (next_option(f, "standalone,no_python,m,module,use_env,rdzv", &o)) {
        if (strcmp(o.name, "nproc_per_node") == 0) count_processes(&o, f, r);
        if (strcmp(o.name, "nnodes") == 0) take_nodes(&o, f, r);
    }
}

static void take_deepspeed(launch_found *f, recipe *r) {
    launch_option o;
    f->launched = f->all = f->one_node = true;
    while (
        next_option(f, "no_python,module,no_local_rank,force_multi,no_ssh_check,enable_each_rank_log", &o)) {
        if (strcmp(o.name, "num_gpus") == 0) count_processes(&o, f, r);
        if (strcmp(o.name, "num_nodes") == 0) take_nodes(&o, f, r);
        if (listed("hostfile,H", o.name)) recipe_unseen(r, "on how many nodes it runs is not known");
    }
}

static void take_accelerate(launch_found *f, const trainer_files *files, recipe *r) {
    static const char flags[] = "multi_gpu,use_deepspeed,use_fsdp,use_megatron_lm,cpu,tpu,use_xpu,m,module,"
                                "no_python,debug,quiet,q,ipex,mps,same_network";
    launch_option o;
    bool said = false;
    f->launched = true;
    while (next_option(f, flags, &o)) {
        if (strcmp(o.name, "config_file") == 0) trainer_read_accelerate(o.value, files, r), said = true;
        if (strcmp(o.name, "num_processes") == 0) r->processes = likely_count(&o, r), f->all = !r->processes;
        if (strcmp(o.name, "mixed_precision") == 0 && strcmp(o.value, "no") != 0) r->types = RECIPE_AUTOCAST;
        if (strcmp(o.name, "multi_gpu") == 0) said = true;
        trainer_take_sharing(o.name, o.value, r);
        if (strcmp(o.name, "use_fsdp") == 0 || strcmp(o.name, "use_deepspeed") == 0)
            recipe_unseen(r, "of how weights are shared out accelerate's line says only a part (--%s)",
                          o.name);
        if (strcmp(o.name, "use_megatron_lm") == 0 || strcmp(o.name, "cpu") == 0)
            recipe_unseen(r, "accelerate's --%s has no rule", o.name);
    }
    if (!said) recipe_unseen(r, "accelerate reads a configuration of the user's own");
}

static void take_mpirun(launch_found *f, recipe *r) {
    launch_option o;
    static const char flags[] =
        "allow_run_as_root,oversubscribe,report_bindings,tag_output,v,q,bind_to_core,nooversubscribe";
    f->launched = true;
    while (next_option(f, flags, &o)) {
        bool two = strcmp(o.name, "mca") == 0 || strcmp(o.name, "gmca") == 0;
        if (two) take(f, 1);
        if (listed("n,np,c", o.name)) count_processes(&o, f, r), f->of_all_nodes = true;
    }
}

static void take_srun(launch_found *f, const resources *asks) {
    resources step = *asks;
    int program;
    resources_read_line((int)f->words.count, f->words.words, &step, &program);
    take(f, (uint32_t)program);
    int64_t nodes = step.nodes ? step.nodes : 1;
    int64_t tasks = step.tasks ? step.tasks : step.tasks_per_node * nodes;
    if (tasks > nodes) f->processes = (tasks + nodes - 1) / nodes, f->launched = true;
}

/* Interpreters and wrappers whose options are of no interest. */
static bool take_wrapper(launch_found *f, const char *name) {
    static const launcher wrappers[] = {
        { "exec,command,nohup,builtin,sudo,trtllm-llmapi-launch", "" },
        { "nice,numactl,taskset,stdbuf,chrt,ionice,setsid,ddp,time,shifter,ibrun,aprun,jsrun,xvfb-run",
          "localalloc,l,a,v,p,q,verbose,portability,quiet,append" },
        { "uv,poetry,pixi,pipenv,hatch,rye,conda,mamba,micromamba",
          "no_capture_output,live_stream,frozen,no_sync,locked" },
        { "singularity,apptainer,enroot,podman-hpc,podman",
          "nv,rocm,nvccli,cleanenv,e,c,contain,containall,C,writable_tmpfs,writable,no_home,fakeroot,no_"
          "mount,"
          "compat,pid,ipc,rw,r,root,rm,gpu,mpi,nccl,cuda_mpi,it,i,t" },
    };
    launch_option o;
    size_t which = 0, kinds = sizeof wrappers / sizeof *wrappers;
    while (which < kinds && !listed(wrappers[which].names, name)) which++;
    if (which == kinds) return false;
    take(f, 1);
    if (which >= 2 && listed("run,exec,start", word(f, 0))) take(f, 1);
    while (which == 1 && word(f, 0)[0] == '-' && word(f, 0)[1] != '-' && word(f, 0)[1] && word(f, 0)[2])
        take(f, 1); /* -oL, -n5: a letter with its value */
    while (which && next_option(f, wrappers[which].flags, &o)) {}
    if (which == 3 || strcmp(name, "taskset") == 0) take(f, 1); /* the image; the processors */
    return true;
}

static bool take_environment(launch_found *f, const char *name, recipe *r) {
    launch_option o;
    if (strcmp(name, "timeout") == 0) {
        take(f, 1);
        while (next_option(f, "foreground,preserve_status,v,verbose", &o)) {}
        take(f, 1);
        return true;
    }
    if (strcmp(name, "env") != 0) return false;
    take(f, 1);
    while (next_option(f, "i,0", &o)) {}
    for (; strchr(word(f, 0), '='); take(f, 1)) {
        static const char devices[] = "CUDA_VISIBLE_DEVICES=";
        const char *value = word(f, 0) + sizeof devices - 1;
        if (strncmp(word(f, 0), devices, sizeof devices - 1) == 0 && (*value < '0' || *value > '9'))
            recipe_unseen(r, "CUDA_VISIBLE_DEVICES may leave it no device");
    }
    return true;
}

/* python -u -m MODULE: the module's name stands then in the place of the program's. */
static bool take_python(launch_found *f, const char *name, recipe *r) {
    if (strncmp(name, "python", 6) != 0 || name[6 + strspn(name + 6, "0123456789.")]) return false;
    take(f, 1);
    while (word(f, 0)[0] == '-' && word(f, 0)[1]) {
        const char *o = word(f, 0);
        bool valued = strcmp(o, "-X") == 0 || strcmp(o, "-W") == 0;
        if (strcmp(o, "-m") == 0) {
            take(f, 1);
            return true;
        }
        if (strcmp(o, "-c") == 0) {
            recipe_unseen(r, "a program stands in the line of python -c, and is not read");
            f->words.count = 0;
            return true;
        }
        take(f, valued ? 2 : 1);
    }
    return true;
}

/* bash -c 'LINE' ARGUMENTS, bash FILE ARGUMENTS. */
static bool take_shell(launch_found *f, const char *name) {
    if (!listed("bash,sh,dash,zsh,ksh", name)) return false;
    take(f, 1);
    while (word(f, 0)[0] == '-' && word(f, 0)[1]) {
        const char *o = word(f, 0);
        bool line = o[1] != '-' && strchr(o, 'c');
        take(f, 1);
        if (!line) continue;
        f->line = word(f, 0);
        f->line_unsure = f->words.count && f->words.unsure[0];
        take(f, 1);
        return true;
    }
    if (f->words.count) f->script = word(f, 0);
    take(f, 1);
    return true;
}

/* One launcher; false: it is none. */
static bool take_one(const resources *asks, const trainer_files *files, launch_found *f, recipe *r) {
    const char *name = plain(word(f, 0));
    if (take_wrapper(f, name) || take_environment(f, name, r) || take_python(f, name, r)) return true;
    if (take_shell(f, name)) return true;
    bool known = true;
    if (strcmp(name, "srun") == 0) {
        take(f, 1);
        take_srun(f, asks);
    } else if (listed("torchrun,torch.distributed.run,torch.distributed.launch", name)) {
        take(f, 1);
        take_torchrun(f, r);
    } else if (listed("deepspeed,deepspeed.launcher.runner", name)) {
        take(f, 1);
        take_deepspeed(f, r);
    } else if (strcmp(name, "accelerate") == 0 && strcmp(word(f, 1), "launch") == 0) {
        take(f, 2);
        take_accelerate(f, files, r);
    } else if (listed("accelerate.commands.launch,accelerate.launch", name)) {
        take(f, 1);
        take_accelerate(f, files, r);
    } else if (listed("mpirun,mpiexec,mpiexec.hydra,orterun", name)) {
        take(f, 1);
        take_mpirun(f, r);
    } else {
        known = false;
    }
    return known;
}

void launch_take(const resources *asks, const trainer_files *files, launch_found *f, recipe *r) {
    while (f->words.count && !f->line && !f->script && take_one(asks, files, f, r)) {}
}
