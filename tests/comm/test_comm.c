/* A run of one rank: every movement leaves what this rank has, and nobody is asked. And what launchers say of
 * who takes part, from the environment. (Several ranks: tests/cli/test_ranks.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comm/comm.h"

static void one_rank(void **state) {
    (void)state;
    float x[] = { 1.5f, -2, 3 }, whole[3] = { 0 }, parts[5] = { 9, 9, 9, 9, 9 }, all = 0;
    assert_int_equal(comm_world().rank, 0);
    assert_int_equal(comm_world().world, 1);
    comm_start(&(comm_order){ COMM_GATHER, x, whole, sizeof whole, sizeof x });
    comm_wait(whole);
    assert_memory_equal(whole, x, sizeof x);
    comm_start(
        &(comm_order){ COMM_EXCHANGE, x, parts, sizeof x, sizeof parts }); /* zeros behind a short share */
    comm_wait(parts);
    assert_memory_equal(parts, x, sizeof x);
    assert_memory_equal(parts + 3, ((float[]){ 0, 0 }), 2 * sizeof *parts);
    assert_int_equal(comm_share(x, &all, sizeof all), STATUS_OK);
    assert_true(all == x[0]);
    assert_int_equal(comm_tell(x, sizeof x), STATUS_OK);
    assert_int_equal(comm_failed(), STATUS_OK);
    assert_int_equal(comm_reserve(1), 0);
    assert_int_equal(comm_agree(STATUS_OK), STATUS_OK);
    assert_int_equal(comm_agree(status_set(STATUS_NO_FIT, "as it was said")), STATUS_NO_FIT);
    assert_string_equal(status_message(), "as it was said");
    comm_abort(7); /* nobody to end */
    comm_close();
    comm_close();
}

/* ---- launchers ---- */

static const char *const names[] = { "OMPI_COMM_WORLD_RANK",
                                     "OMPI_COMM_WORLD_SIZE",
                                     "OMPI_COMM_WORLD_LOCAL_RANK",
                                     "OMPI_COMM_WORLD_LOCAL_SIZE",
                                     "PMI_RANK",
                                     "PMI_SIZE",
                                     "PMIX_RANK",
                                     "SLURM_STEP_NUM_TASKS",
                                     "SLURM_LOCALID",
                                     "SLURM_PROCID",
                                     "SLURM_NTASKS",
                                     "RANK",
                                     "WORLD_SIZE",
                                     "LOCAL_RANK",
                                     "LOCAL_WORLD_SIZE",
                                     "MASTER_ADDR" };

/* "RANK=1 WORLD_SIZE=4" and nothing else of launchers. */
static status find_in(const char *environment, launch *l) {
    char copy[512], *rest = copy;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    strcpy(copy, environment);
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        char *value = strchr(word, '=');
        *value++ = 0;
        setenv(word, value, 1);
    }
    return launch_find(l);
}

static void launchers(void **state) {
    (void)state;
    static const struct {
        const char *environment, *launcher;
        int rank, world;
        bool by_mpi, lasts;
    } cases[] = {
        { "", NULL, 0, 1, false, false },
        { "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4", "mpirun", 3, 4, true, false },
        { "PMI_RANK=1 PMI_SIZE=2", "mpiexec", 1, 2, true, false },
        { "PMIX_RANK=2 SLURM_STEP_NUM_TASKS=8 SLURM_PROCID=2", "srun", 2, 8, true, true },
        { "RANK=0 WORLD_SIZE=2 MASTER_ADDR=here", "torchrun", 0, 2, false, true },
        { "RANK=0 WORLD_SIZE=2", NULL, 0, 1, false, false },          /* common names, of somebody else's */
        { "SLURM_NTASKS=4 SLURM_PROCID=0", NULL, 0, 1, false, false } /* a batch script */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        launch l;
        assert_int_equal(find_in(cases[i].environment, &l), STATUS_OK);
        bool right = l.rank == cases[i].rank && l.world == cases[i].world && l.by_mpi == cases[i].by_mpi &&
                     l.lasts == cases[i].lasts;
        bool named =
            cases[i].launcher ? l.launcher && strcmp(l.launcher, cases[i].launcher) == 0 : !l.launcher;
        if (!right || !named) fail_msg("'%s' is read otherwise", cases[i].environment);
    }
}

static void launchers_that_make_no_sense(void **state) {
    (void)state;
    static const char *const cases[] = { "OMPI_COMM_WORLD_RANK=4 OMPI_COMM_WORLD_SIZE=4",
                                         "OMPI_COMM_WORLD_RANK=x OMPI_COMM_WORLD_SIZE=4",
                                         "PMI_RANK=-1 PMI_SIZE=2", "PMI_RANK=0 PMI_SIZE=0" };
    launch l;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (find_in(cases[i], &l) != STATUS_INVALID) fail_msg("'%s' is taken", cases[i]);
    assert_int_equal(find_in("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1", &l), STATUS_INVALID);
    assert_string_equal(status_message(), "srun started 4 processes that don't know of each other; say srun "
                                          "--mpi=pmix, or start one");
    assert_int_equal(find_in("RANK=1 WORLD_SIZE=2 MASTER_ADDR=here", &l), STATUS_OK);
    assert_int_equal(comm_open(&l), STATUS_INVALID);
    assert_string_equal(status_message(),
                        "torchrun started 2 processes; on a CPU ranks speak to each other by MPI: "
                        "start them with mpirun -n 2");
    comm_close();
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_rank), cmocka_unit_test(launchers),
                                        cmocka_unit_test(launchers_that_make_no_sense) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
