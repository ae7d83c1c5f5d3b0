/* What a job of PyTorch takes of the host's memory: its processes, copies of weights while they are loaded,
 * what is gathered while a checkpoint is saved, data loaders. In resident bytes; files that are mapped count
 * only where nothing else can have their pages. docs/estimate.md has the sources. */
#pragma once

#include "estimate/torch/torch.h"

/* A job's numbers, in bytes of the whole model over all devices. */
typedef struct {
    const torch_settings *s;
    double weights, state; /* in the type of what is saved: FSDP's shares of f32 count as f32 */
    double narrow;         /* weights in 16 bits, as files on the hub mostly have them */
    double adapters;       /* 0: all weights are saved */
    double coded;          /* weights of 4 bits; 0: none */
    double batch;          /* inputs of one micro-batch */
    double gradients;      /* of what is trained, in the type of its masters */
    int64_t workers;       /* of a data loader, for each process */
} torch_host_of;

typedef struct {
    interval process; /* one process itself: interpreter, libraries, context */
    interval loader;  /* of one process: its workers, and batches that are ready or pinned */
    interval shared;  /* of that in shared memory (/dev/shm) */
    interval kept;    /* of one process: what is kept with the host */
    /* Of all processes of a node, the one that gathers among them: */
    interval loading;  /* while weights are loaded */
    interval resuming; /* while a checkpoint is loaded; 0: no rule */
    interval saving;   /* while one is saved */
    interval whole;    /* the most of all that */
} torch_host;

void torch_host_find(const torch_host_of *of, torch_host *r);
