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
#include "comm/comm_apart.h"

static void one_rank(void **state) {
    (void)state;
    float x[] = { 1.5f, -2, 3 }, whole[3] = { 0 }, parts[5] = { 9, 9, 9, 9, 9 }, all = 0;
    assert_int_equal(comm_world().rank, 0);
    assert_int_equal(comm_world().world, 1);
    comm_start(&(comm_order){
        .kind = COMM_GATHER, .from = x, .to = whole, .whole = sizeof whole, .share = sizeof x });
    comm_wait(whole);
    assert_memory_equal(whole, x, sizeof x);
    comm_start(&(comm_order){ .kind = COMM_EXCHANGE, /* zeros behind a short share */
                              .from = x,
                              .to = parts,
                              .whole = sizeof x,
                              .share = sizeof parts });
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

/* ---- steps from rank to rank ---- */

static const comm_kind steps[] = { COMM_FROM_BEFORE, COMM_TO_NEXT, COMM_AROUND, COMM_FROM_LAST };

/* Bytes from one rank to another by an order of each kind, as the receiver and as the sender have it. */
static uint64_t got(comm_kind k, int from, int to, int world, uint64_t *sent) {
    char x[8];
    comm_order o = { .kind = k, .from = x, .to = x, .whole = sizeof x };
    *sent = comm_part(&o, to, (comm_ranks){ from, world }).send_bytes;
    return comm_part(&o, from, (comm_ranks){ to, world }).receive_bytes;
}

/* What is got as the one half is what was sent as the other; what has one half is sent and got at once. */
static void each_step_has_its_other_half(void **state) {
    (void)state;
    for (int world = 1; world <= 5; world++)
        for (int from = 0; from < world; from++)
            for (int to = 0; to < world; to++) {
                uint64_t sent[4], came[4];
                for (int i = 0; i < 4; i++) came[i] = got(steps[i], from, to, world, &sent[i]);
                assert_int_equal(came[0], to == from + 1 ? 8 : 0);
                assert_true(sent[1] == came[0] && !sent[0] && !came[1]);
                assert_int_equal(came[2], from == world - 1 && !to && world > 1 ? 8 : 0);
                assert_int_equal(came[3], from == world - 1 && to != from ? 8 : 0);
                assert_true(sent[2] == came[2] && sent[3] == came[3]);
            }
}

/* ---- groups and pieces ---- */

/* The last share is shorter. */
enum { WORLD = 6, SHARE = 8, WHOLE = 44 };

static void between_groups_nothing_is_shared(void **state) {
    (void)state;
    char from[WHOLE], to[WORLD * SHARE];
    for (int64_t group = 1; group <= WORLD; group++) {
        if (WORLD % group) continue;
        comm_order o = { COMM_EXCHANGE, from, to, (uint64_t)group * SHARE - 4, SHARE, 0, 0, group };
        for (int q = 0; q < WORLD; q++)
            for (int r = 0; r < WORLD; r++) {
                comm_pair p = comm_part(&o, r, (comm_ranks){ q, WORLD }),
                          other = comm_part(&o, q, (comm_ranks){ r, WORLD });
                bool beside = q / group == r / group;
                int64_t place = r % group, own = q % group;
                assert_int_equal(p.send_bytes, other.receive_bytes);
                assert_int_equal(p.send_bytes, !beside ? 0 : place == group - 1 ? SHARE - 4 : SHARE);
                if (!beside) continue;
                assert_ptr_equal(p.send, from + place * SHARE);
                assert_ptr_equal(p.receive, to + place * SHARE);
                assert_int_equal(p.receive_bytes, own == group - 1 ? SHARE - 4 : SHARE);
            }
    }
}

/* From group to group, between those of one place: as from rank to rank among these. */
static void groups_pass_on(void **state) {
    (void)state;
    char x[8];
    for (int i = 0; i < 4; i++)
        for (int q = 0; q < WORLD; q++)
            for (int r = 0; r < WORLD; r++) {
                comm_order o = { .kind = steps[i], .from = x, .to = x, .whole = sizeof x, .group = 2 };
                comm_order each = { .kind = steps[i], .from = x, .to = x, .whole = sizeof x };
                comm_pair p = comm_part(&o, r, (comm_ranks){ q, WORLD }),
                          one = comm_part(&each, r / 2, (comm_ranks){ q / 2, WORLD / 2 });
                assert_int_equal(p.send_bytes, q % 2 == r % 2 ? one.send_bytes : 0);
                assert_int_equal(p.receive_bytes, q % 2 == r % 2 ? one.receive_bytes : 0);
            }
}

/* Every rank does `o` with memory of its own: what each sends lands where the other one gets it. `sent` is
 * added to, by rank. */
static void swap_all(const comm_order *o, char *memory[], int world, uint64_t sent[]) {
    for (int q = 0; q < world; q++)
        for (int r = 0; r < world; r++) {
            comm_order of_sender = *o, of_receiver = *o;
            of_sender.from = of_sender.to = memory[q], of_receiver.from = of_receiver.to = memory[r];
            comm_pair p = comm_part(&of_sender, r, (comm_ranks){ q, world }),
                      other = comm_part(&of_receiver, q, (comm_ranks){ r, world });
            assert_int_equal(p.send_bytes, other.receive_bytes);
            if (q == r) assert_int_equal(p.send_bytes, 0);
            memcpy(other.receive, p.send, p.send_bytes);
            sent[q] += p.send_bytes;
        }
}

/* In two steps all groups have what the last one had, and nobody has sent it twice. */
static void all_are_told_in_two_steps(void **state) {
    enum { MOST = 12, BYTES = 5000 };
    static const uint64_t sizes[] = { 1, 15, 16, 17, 100, 192, 193, 1000, 4096, BYTES };
    (void)state;
    for (int groups = 1; groups <= MOST; groups++)
        for (int group = 1; groups * group <= MOST; group++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                int world = groups * group;
                uint64_t whole = sizes[i], sent[MOST] = { 0 }, all = 0;
                char *memory[MOST];
                for (int r = 0; r < world; r++) {
                    memory[r] = malloc(whole);
                    for (uint64_t k = 0; k < whole; k++)
                        memory[r][k] = (char)(r / group == groups - 1 ? 37 * k + (uint64_t)(r % group) : 0);
                }
                comm_order o = { .kind = COMM_SPREAD, .whole = whole, .group = group };
                swap_all(&o, memory, world, sent);
                o.kind = COMM_COLLECT;
                swap_all(&o, memory, world, sent);
                for (int r = 0; r < world; r++) {
                    assert_memory_equal(memory[r], memory[world - group + r % group], whole);
                    if (whole >= COMM_PIECE * (uint64_t)groups) assert_true(sent[r] < 2 * whole);
                    all += sent[r];
                }
                assert_int_equal(all, (uint64_t)(world - group) * whole); /* each byte comes once */
                for (int r = 0; r < world; r++) free(memory[r]);
            }
}

/* All pieces of shares are all of them, each where it belongs. */
static void pieces_make_up_a_share(void **state) {
    (void)state;
    char from[WHOLE], to[WORLD * SHARE];
    for (uint64_t some = 1; some <= SHARE; some++)
        for (int r = 0; r < WORLD; r++) {
            uint64_t sent = 0, whole = r == WORLD - 1 ? WHOLE - (WORLD - 1) * SHARE : SHARE;
            for (uint64_t first = 0; first < SHARE; first += some) {
                uint64_t here = SHARE - first < some ? SHARE - first : some;
                comm_order o = { COMM_EXCHANGE, from, to, WHOLE, SHARE, first, here, 0 };
                comm_pair p = comm_part(&o, r, (comm_ranks){ 0, WORLD });
                assert_ptr_equal(p.receive, to + (uint64_t)r * here);
                if (p.send_bytes) assert_ptr_equal(p.send, from + r * SHARE + sent);
                assert_true(p.send_bytes <= here);
                sent += p.send_bytes;
            }
            assert_int_equal(sent, whole);
        }
}

static void one_rank_keeps_what_it_has(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        float x[] = { 1.5f, -2, 3 };
        comm_start(&(comm_order){ .kind = steps[i], .from = x, .to = x, .whole = sizeof x });
        comm_wait(x);
        assert_memory_equal(x, ((float[]){ 1.5f, -2, 3 }), sizeof x);
    }
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

/* Which GPU of its host a rank takes. */
static void places_on_a_host(void **state) {
    (void)state;
    static const struct {
        const char *environment;
        int local;
    } cases[] = {
        { "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1", 1 },
        { "PMIX_RANK=2 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=2", 2 },
        { "RANK=5 WORLD_SIZE=8 MASTER_ADDR=here LOCAL_RANK=3", 3 },
        { "PMI_RANK=1 PMI_SIZE=2", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        launch l;
        assert_int_equal(find_in(cases[i].environment, &l), STATUS_OK);
        assert_int_equal(l.local, cases[i].local);
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_rank),
                                        cmocka_unit_test(each_step_has_its_other_half),
                                        cmocka_unit_test(between_groups_nothing_is_shared),
                                        cmocka_unit_test(groups_pass_on),
                                        cmocka_unit_test(all_are_told_in_two_steps),
                                        cmocka_unit_test(pieces_make_up_a_share),
                                        cmocka_unit_test(one_rank_keeps_what_it_has),
                                        cmocka_unit_test(launchers),
                                        cmocka_unit_test(places_on_a_host),
                                        cmocka_unit_test(launchers_that_make_no_sense) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
