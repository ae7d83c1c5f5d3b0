/* What a job asks Slurm for: the options of sbatch, from a script's #SBATCH lines and from its own line. */
#pragma once

#include "base/status.h"
#include "base/text.h"

enum { RESOURCES_WORD_BYTES = 128 };

typedef struct {
    int64_t nodes, tasks, tasks_per_node;            /* 0: not said */
    int64_t gpus, gpus_per_node, gpus_per_task;      /* likewise; gpus: of the whole job */
    uint64_t memory, memory_per_gpu, memory_per_cpu; /* bytes, likewise; memory: of a node */
    char type[RESOURCES_WORD_BYTES];                 /* of a GPU; "": none is named */
    int type_from;                                   /* the option that named it; 0: none did */
    char partition[RESOURCES_WORD_BYTES], constraint[RESOURCES_WORD_BYTES];
    char folder[4096];       /* of --chdir */
    const char *wrapped;     /* the command of --wrap; else NULL */
    bool several_types, cut; /* GPUs of more than one type are asked for; a value was too long to keep */
    bool heterogeneous;      /* parts of a job ask for different things: only the first is read */
} resources;

/* The #SBATCH lines before the first command. */
void resources_read_script(const char *all, size_t bytes, resources *out);

/* sbatch's own line: options, the script's name, the script's arguments. What it says counts more than the
 * script. `*script`: where the name stands, or `count` where none does. Words stay the caller's. */
void resources_read_line(int count, const char *const *words, resources *out, int *script);

/* SBATCH_GRES=... and others of sbatch's own environment: they count more than the script, and less than the
 * line. `environment` ends with NULL. */
void resources_read_environment(char *const *environment, resources *out);

/* Processes and devices of the whole job, and devices of a node, as far as they follow; 0: they don't. */
int64_t resources_all_gpus(const resources *r);
int64_t resources_node_gpus(const resources *r);
