/* Who takes part in a run: what the launcher says in the environment of each process. */
#pragma once

#include <stdbool.h>

#include "base/status.h"

typedef struct {
    int rank, world;      /* this process, counted from 0; how many were started */
    int local;            /* this one among those of its host, counted from 0; 0 where nobody says it */
    const char *launcher; /* as people call it: "mpirun"; NULL: this process was started alone */
    bool by_mpi;          /* MPI can be opened */
    bool lasts;           /* a shell or a container may have these variables, whatever is started there */
} launch;

/* Reads the variables of Open MPI's and MPICH's mpirun, of srun and of torchrun. Nobody started several:
 * world 1. STATUS_INVALID where what they say makes no sense, or where srun started several processes that
 * don't know of each other. */
status launch_find(launch *l);
