#include "comm/launch.h"

#include <stdlib.h>
#include <string.h>

/* By variable: this process and how many there are. */
typedef struct {
    const char *launcher, *rank, *world, *local;
    bool by_mpi, lasts;
} variables;

static const variables known[] = {
    { "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", true, false },
    { "mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", true, false },
    { "srun", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", true, true },
    { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", false, true },
};

/* The number of a variable; `unsaid` where there is none of this name; -1: it is no number. */
static int number(const char *name, int unsaid) {
    const char *said = name ? getenv(name) : NULL;
    char *end;
    if (!said || !*said) return unsaid;
    long value = strtol(said, &end, 10);
    return *end || value < 0 || value > 1 << 20 ? -1 : (int)value;
}

/* srun starts a step of several tasks, and hands each what PMIx needs only where it was told to. Of those the
 * first speaks. */
static status check_slurm(launch *l) {
    int tasks = number("SLURM_STEP_NUM_TASKS", 1);
    if (tasks <= 1 || getenv("PMIX_RANK") || getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK"))
        return STATUS_OK;
    l->rank = number("SLURM_PROCID", 0), l->by_mpi = true;
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
    int local = number(v->local, 0);
    l->local = local < 0 ? 0 : local;
    l->launcher = v->launcher, l->by_mpi = v->by_mpi, l->lasts = v->lasts;
    if (l->world >= 1 && l->rank >= 0 && l->rank < l->world) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s says that this is process %s of %s, which makes no sense",
                      v->launcher, getenv(v->rank), getenv(v->world));
}

status launch_find(launch *l) {
    *l = (launch){ .world = 1 };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (speaks(&known[i])) return read_all(&known[i], l);
    return check_slurm(l);
}
