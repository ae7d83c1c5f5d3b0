#include "comm/launch.h"

#include <stdlib.h>
#include <string.h>

/* By variable: this process and how many there are, of all and of this host; NULL: it does not say. */
typedef struct {
    const char *launcher, *rank, *world, *here, *of_host;
    bool by_mpi;
} variables;

static const variables known[] = {
    { "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", true },
    { "mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", true },
    { "srun", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, true },
    { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", false },
};

/* The number of a variable; `unsaid` where there is none of this name; -1: it is no number. */
static int number(const char *name, int unsaid) {
    const char *said = name ? getenv(name) : NULL;
    char *end;
    if (!said || !*said) return unsaid;
    long value = strtol(said, &end, 10);
    return *end || value < 0 || value > 1 << 20 ? -1 : (int)value;
}

/* srun starts a step of several tasks, and hands each what PMIx needs only where it was told to. */
static status check_slurm(void) {
    int tasks = number("SLURM_STEP_NUM_TASKS", 1);
    if (tasks <= 1 || getenv("PMIX_RANK") || getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK"))
        return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "srun started %d processes that don't know of each other; say srun --mpi=pmix, or start "
        "one",
        tasks);
}

static bool speaks(const variables *v) {
    if (strcmp(v->launcher, "torchrun") == 0 && !getenv("MASTER_ADDR")) return false; /* common names */
    return getenv(v->rank) && getenv(v->world);
}

static status read_all(const variables *v, launch *l) {
    l->rank = number(v->rank, -1), l->world = number(v->world, -1);
    l->here = number(v->here, l->rank), l->of_host = number(v->of_host, l->world);
    l->launcher = v->launcher, l->by_mpi = v->by_mpi;
    if (l->world >= 1 && l->rank >= 0 && l->rank < l->world && l->here >= 0 && l->of_host >= 1)
        return STATUS_OK;
    return status_set(STATUS_INVALID, "%s says that this is process %s of %s, which makes no sense",
                      v->launcher, getenv(v->rank), getenv(v->world));
}

status launch_find(launch *l) {
    *l = (launch){ .world = 1, .of_host = 1 };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (speaks(&known[i])) return read_all(&known[i], l);
    return check_slurm();
}
