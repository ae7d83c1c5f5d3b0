/* The script that asks Slurm for nodes and runs a command there. */
#pragma once

#include "base/text.h"
#include "estimate/clusters/choose.h"
#include "estimate/interval.h"

/* What is run, for comments and the job's name. */
typedef struct {
    const char *model;
    interval bytes;      /* of each device */
    const char *tight;   /* what is said where it only just fits; NULL: it doesn't only just */
    const char *assumed; /* lines: what was estimated, and with what; NULL: nothing to say */
    bool ranks;          /* each device has a task of its own; else each node has one */
    bool counted;        /* so many devices were asked for; else they are the fewest that do */
} slurm_job;

/* What the job asks for of a node's memory: its devices' share, in MiB. */
uint64_t slurm_memory(const choose_answer *c);

/* Up to the command. */
void slurm_add_head(const choose_answer *c, const slurm_job *job, text *out);

/* The command of a training script of PyTorch's, started on all devices. */
void slurm_add_torchrun(const choose_answer *c, text *out);
