/* What passes between ranks, in the model of time, by hand: how long a movement takes on each link, what it
 * takes of those that compute, and who waits for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "lower/movements.h"
#include "ops/arrive/arrive.h"
#include "ops/exchange/exchange.h"
#include "ops/gather_ranks/gather_ranks.h"
#include "ops/gelu/gelu.h"
#include "ops/pass_on/pass_on.h"

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

static void near(double is, double should) {
    if (fabs(is - should) > 0.02 * should) fail_msg("%.6f, not %.6f", is, should);
}

static const links both = { .of = {
                                [LINK_WITHIN] = { 2, 16, 0.5, 0.125 }, [LINK_BETWEEN] = { 4, 8, 1, 0.25 } } };

static links between(int64_t ranks, int64_t of_host) {
    links l = both;
    l.ranks = ranks, l.of_host = of_host;
    return l;
}

/* All ranks of a host share its memory, and its way out; both go on at once. */
static void links_are_shared(void **state) {
    (void)state;
    links one = between(1, 1), pair = between(2, 2), four = between(4, 4), apart = between(4, 1),
          two_by_two = between(4, 2), unsaid = between(4, 0);
    assert_true(movements_seconds(&one, &(op_cost){ .sent = 64 }) == 0 &&
                movements_busy(&one, &(op_cost){ .sent = 64 }) == 0);
    assert_true(movements_seconds(&pair, &(op_cost){ .sent = 64 }) == 2 + 2 * 1 * 64 / 16.0);
    assert_true(movements_seconds(&four, &(op_cost){ .sent = 64 }) == 2 + 4 * 3 * 64 / 16.0);
    assert_true(movements_seconds(&unsaid, &(op_cost){ .sent = 64 }) ==
                movements_seconds(&four, &(op_cost){ .sent = 64 }));
    assert_true(movements_seconds(&apart, &(op_cost){ .sent = 64 }) == 4 + 1 * 3 * 64 / 8.0);
    assert_true(movements_seconds(&two_by_two, &(op_cost){ .sent = 64 }) ==
                4 + 2 * 2 * 64 / 8.0); /* longer than 2 + 2 * 64 / 16 */
    two_by_two.of[LINK_WITHIN].rate = 1;
    assert_true(movements_seconds(&two_by_two, &(op_cost){ .sent = 64 }) == 2 + 2 * 64);
    assert_true(movements_busy(&pair, &(op_cost){ .sent = 64 }) == 0.5 + 64 * 0.125);
    assert_true(movements_busy(&apart, &(op_cost){ .sent = 64 }) == 1 + 3 * 64 * 0.25);
    assert_true(movements_busy(&two_by_two, &(op_cost){ .sent = 64 }) ==
                0.5 + 64 * 0.125 + 1 + 2 * 64 * 0.25);
}

/* Those of a group, and those of one place in all groups: what leaves a host takes the link between hosts. */
static void groups_have_links_of_their_own(void **state) {
    (void)state;
    links hosts = between(8, 4);
    const op_cost within = { .sent = 64, .ranks = 4 }, across = { .sent = 64, .ranks = 2, .apart = 4 },
                  small = { .sent = 64, .ranks = 2 }, beside = { .sent = 64, .ranks = 4, .apart = 2 },
                  large = { .sent = 64, .ranks = 8 };
    assert_true(movements_seconds(&hosts, &within) == 2 + 4 * 3 * 64 / 16.0);
    assert_true(movements_seconds(&hosts, &small) == 2 + 4 * 1 * 64 / 16.0);
    assert_true(movements_seconds(&hosts, &across) == 4 + 4 * 1 * 64 / 8.0);
    assert_true(movements_seconds(&hosts, &beside) == 4 + 4 * 2 * 64 / 8.0); /* one of three is near */
    assert_true(movements_busy(&hosts, &beside) == 0.5 + 64 * 0.125 + 1 + 2 * 64 * 0.25);
    assert_true(movements_busy(&hosts, &across) == 1 + 64 * 0.25);
    assert_true(movements_seconds(&hosts, &large) == movements_seconds(&hosts, &(op_cost){ .sent = 64 }));
}

/* A sum's way to the next rank: between hosts one pair alone, of groups all ranks of the host that are in
 * one; within a host each has its part of the rate. */
static void a_sum_passes_between_hosts_by_itself(void **state) {
    (void)state;
    links hosts = between(8, 4), one = between(8, 8), alone = between(4, 1);
    const double bytes = 64;
    op_cost rank = { .sent = bytes / 7, .ranks = 8, .way = WAY_FROM_BEFORE },
            pairs = { .sent = bytes / 3, .ranks = 4, .apart = 2, .way = WAY_FROM_BEFORE },
            whole = { .sent = bytes, .ranks = 2, .apart = 4, .way = WAY_FROM_BEFORE },
            four = { .sent = bytes / 3, .ranks = 4, .way = WAY_FROM_BEFORE };
    near(movements_seconds(&one, &rank), 2 + 8 * 64 / 16.0);
    near(movements_seconds(&hosts, &rank), 2 + 4 * 64 / 16.0); /* between hosts it takes 4 + 64 / 8 */
    hosts.of[LINK_BETWEEN].rate = 1;
    near(movements_seconds(&hosts, &rank), 4 + 64);
    near(movements_seconds(&hosts, &pairs), 4 + 2 * 64);
    near(movements_seconds(&hosts, &whole), 4 + 4 * 64);
    near(movements_seconds(&alone, &four), 4 + 64 / 8.0);
}

static void more_takes_longer(void **state) {
    (void)state;
    for (int64_t ranks = 2; ranks <= 64; ranks *= 2)
        for (int64_t of_host = 1; of_host <= ranks; of_host *= 2) {
            links l = between(ranks, of_host), more = between(2 * ranks, of_host), slow = l;
            slow.of[LINK_WITHIN].rate /= 2, slow.of[LINK_BETWEEN].rate /= 2;
            double before = movements_seconds(&l, &(op_cost){ .sent = 100 });
            assert_true(before > 0 && movements_seconds(&l, &(op_cost){ .sent = 200 }) > before);
            assert_true(movements_seconds(&more, &(op_cost){ .sent = 100 }) > before &&
                        movements_seconds(&slow, &(op_cost){ .sent = 100 }) > before);
            assert_true(movements_busy(&l, &(op_cost){ .sent = 200 }) >
                        movements_busy(&l, &(op_cost){ .sent = 100 }));
        }
}

enum { SIDE = 256, ELEMENTS = SIDE * SIDE };

static tensor_id work(graph *g, tensor_id x, int times) {
    for (int i = 0; i < times; i++) x = gelu_apply(g, x, true);
    return x;
}

static uint32_t step_of(const program *p, const op_def *op, int which) {
    for (uint32_t s = 0; s < p->count; s++)
        if (graph_node(&p->graph, p->steps[s].node)->op == op && which-- == 0) return s;
    fail_msg("no such step");
    return 0;
}

static double sum_of(const program *p, uint32_t from, uint32_t to) {
    double seconds = 0;
    for (uint32_t s = from; s < to; s++) seconds += p->steps[s].seconds;
    return seconds;
}

/* Begins an exchange and a gathering right behind it, works, and waits for both, the second first: `beside`
 * is how much work there is in between. */
static program two_movements(int beside, double latency) {
    graph g;
    program p = { 0 };
    must(graph_open(&g));
    tensor_id x = graph_add_source(
        &g, &(graph_source){ .shape = SHAPE(SIDE, SIDE), .dtype = DTYPE_F32, .role = ROLE_INPUT });
    tensor_id a = gelu_apply(&g, x, true), b = gelu_apply(&g, a, true);
    tensor_id parts = exchange_apply(&g, a, 2, ELEMENTS / 2),
              whole = gather_ranks_apply(&g, b, 0, SHAPE(2 * SIDE, SIDE));
    work(&g, x, beside);
    gelu_apply(&g, arrive_apply(&g, whole, b), true);
    gelu_apply(&g, arrive_apply(&g, parts, a), true);
    lower_options o = { .threads = 1, .rates = device_rates_default(1), .unverified = true };
    o.rates.links = (links){ .ranks = 2, .of_host = 2, .of = { { latency, 1e12, 1e-6, 1e-12 } } };
    must(lower_program(&g, &o, &p));
    return p;
}

/* The lane is one: the gathering begins when the exchange is over, and whoever waits for it has both. */
static void waiting_is_what_is_not_hidden(void **state) {
    (void)state;
    const double latency = 0.01, of_exchange = latency + 2 * (ELEMENTS / 2) * 4 / 1e12,
                 of_gather = latency + 2.0 * ELEMENTS * 4 / 1e12;
    program p = two_movements(3, latency);
    uint32_t first = step_of(&p, &op_exchange, 0), second = step_of(&p, &op_gather_ranks, 0),
             wait = step_of(&p, &op_arrive, 0), other = step_of(&p, &op_arrive, 1);
    double begun = sum_of(&p, 0, first + 1), exchanged = begun + of_exchange,
           both_begun = sum_of(&p, 0, second + 1);
    double gathered = (exchanged > both_begun ? exchanged : both_begun) + of_gather;
    double arrived = sum_of(&p, 0, wait + 1), alone = p.steps[other].seconds;
    assert_true(arrived > gathered - 1e-9 && arrived < gathered + 1e-5);
    assert_true(p.steps[wait].seconds > 0.015 && alone < 1e-5); /* by then the exchange is long over */
    assert_true(p.computing < p.seconds - 0.015);
    lower_close(&p);
}

/* Enough work hides it all, and then the program takes what it computes, and what moving takes of the
 * processor: a microsecond each, and the bytes. Where it waits all the time, moving takes nothing from it. */
static void work_hides_movements(void **state) {
    (void)state;
    const double latency = 1e-5;
    program idle = two_movements(0, latency), busy = two_movements(40, latency);
    assert_true(idle.seconds > idle.computing + latency);
    assert_true(idle.seconds < idle.computing + 3 * latency);
    const double lost = 2e-6 + (ELEMENTS / 2 + ELEMENTS) * 4 * 1e-12, found = busy.seconds - busy.computing;
    assert_true(found > 0.999 * lost && found < 1.001 * lost);
    assert_true(busy.seconds > idle.seconds);
    for (uint32_t s = 0; s < busy.count; s++) assert_true(busy.steps[s].seconds > 0);
    lower_close(&idle);
    lower_close(&busy);
}

/* Steps of passing on, by what they send in all: each rank but one to its next, one to one, one to all. Their
 * other half sends nothing, so it counts once. */
static void what_is_passed_on_counts_once(void **state) {
    (void)state;
    for (int64_t ranks = 1; ranks <= 5; ranks++) {
        graph g;
        double bytes = ELEMENTS * 4.0, others = ranks > 1 ? (double)ranks - 1 : 1,
               pairs = (double)ranks * others;
        must(graph_open(&g));
        tensor_id x = graph_add_source(
            &g, &(graph_source){ .shape = SHAPE(SIDE, SIDE), .dtype = DTYPE_F32, .role = ROLE_INPUT });
        double sent[6];
        for (int step = PASS_FROM_BEFORE; step <= PASS_COLLECT; step++) {
            x = pass_on_apply(&g, x, ranks, (pass_on_step)step);
            const node *n = graph_node(&g, graph_tensor(&g, x)->producer);
            sent[step] = n->op->cost(&g, n).sent;
        }
        must(graph_status(&g));
        assert_true(sent[PASS_TO_NEXT] == 0);
        assert_true(fabs(sent[PASS_FROM_BEFORE] * pairs - (double)ranks * bytes) < 1);
        assert_true(fabs(sent[PASS_AROUND] * pairs - bytes) < 1);
        assert_true(fabs(sent[PASS_FROM_LAST] * pairs - others * bytes) < 1);
        assert_true(fabs(sent[PASS_SPREAD] * pairs - others * bytes / (double)ranks) < 1);
        assert_true(fabs(sent[PASS_COLLECT] * pairs - others * bytes) < 1);
        graph_close(&g);
    }
}

/* The seconds of a step between so many groups, each on a host of its own; of one rank: a chain. */
static double told_in(int64_t groups, int64_t group, pass_on_step step) {
    graph g;
    must(graph_open(&g));
    tensor_id x = graph_add_source(
        &g, &(graph_source){ .shape = SHAPE(SIDE, SIDE), .dtype = DTYPE_F32, .role = ROLE_INPUT });
    x = pass_on_groups_apply(&g, x, groups, group == 1 ? 0 : group, step);
    must(graph_status(&g));
    const node *n = graph_node(&g, graph_tensor(&g, x)->producer);
    op_cost cost = n->op->cost(&g, n);
    links l = { .ranks = group * groups, .of_host = group, .of = { { 0, 1e12, 0, 0 }, { 0, 1e9, 0, 0 } } };
    graph_close(&g);
    return movements_seconds(&l, &cost);
}

/* The last group sends all of it to each by itself, or each sends about twice of what is there. All of a host
 * send. */
static void two_steps_tell_many_sooner(void **state) {
    (void)state;
    for (int64_t group = 1; group <= 2; group++)
        for (int64_t groups = 2; groups <= 64; groups *= 2) {
            double others = (double)groups - 1, one = (double)group * ELEMENTS * 4 / 1e9;
            double at_once = told_in(groups, group, PASS_FROM_LAST),
                   in_two = told_in(groups, group, PASS_SPREAD) + told_in(groups, group, PASS_COLLECT);
            assert_true(fabs(at_once - others * one) < 1e-9 * at_once);
            assert_true(fabs(in_two - 2 * others / (double)groups * one) < 1e-9 * in_two);
        }
}

/* Also where the first rank and the last one are on different hosts. */
static void what_comes_around_is_sent_once(void **state) {
    (void)state;
    for (int64_t ranks = 2; ranks <= 8; ranks *= 2) {
        double apart = told_in(ranks, 1, PASS_AROUND), once = ELEMENTS * 4 / 1e9;
        assert_true(fabs(apart - once) < 1e-9 * once);
    }
    const op_cost around = { .sent = 64 / 7.0 / 8, .ranks = 8, .way = WAY_AROUND };
    links hosts = between(8, 4), one = between(8, 8);
    near(movements_seconds(&hosts, &around), 4 + 64 / 8.0);
    near(movements_seconds(&one, &around), 2 + 64 / 16.0);
}

/* So many sums pass through ranks, one after the other, each with as much work; then all get the last one.
 * `around`: a second round begins with what the first has made. */
static program passes(const links *l, int sums, bool around) {
    graph g;
    program p = { 0 };
    must(graph_open(&g));
    tensor_id x = graph_add_source(
        &g, &(graph_source){ .shape = SHAPE(SIDE, SIDE), .dtype = DTYPE_F32, .role = ROLE_INPUT });
    x = gelu_apply(&g, x, true);
    for (int i = 0; i < sums; i++) {
        if (i && around) x = arrive_apply(&g, pass_on_apply(&g, x, l->ranks, PASS_AROUND), 0);
        x = arrive_apply(&g, pass_on_apply(&g, x, l->ranks, PASS_FROM_BEFORE), 0);
        x = work(&g, x, 20);
        tensor_id sent = pass_on_apply(&g, x, l->ranks, PASS_TO_NEXT);
        if (around) {
            x = arrive_apply(&g, sent, 0);
        } else {
            x = work(&g,
                     graph_add_source(&g, &(graph_source){ .shape = SHAPE(SIDE, SIDE),
                                                           .dtype = DTYPE_F32,
                                                           .role = ROLE_INPUT }),
                     1);
            arrive_apply(&g, sent, 0);
        }
    }
    arrive_apply(&g, pass_on_apply(&g, x, l->ranks, PASS_FROM_LAST), 0);
    must(graph_status(&g));
    lower_options o = { .threads = 1, .rates = device_rates_default(1), .unverified = true };
    o.rates.links = *l;
    must(lower_program(&g, &o, &p));
    return p;
}

static double passed(const links *l, int sums, bool around) {
    program p = passes(l, sums, around);
    double seconds = p.seconds, all = 0;
    for (uint32_t s = 0; s < p.count; s++) all += p.steps[s].seconds;
    assert_true(fabs(all - seconds) < 1e-9 && fabs(p.computing + p.waiting - seconds) < 1e-9);
    lower_close(&p);
    return seconds;
}

static double passed_in(int64_t ranks, int sums, bool around, double latency) {
    const links one_host = { .ranks = ranks, .of_host = ranks, .of = { { latency, 1e15, 0, 0 } } };
    return passed(&one_host, sums, around);
}

/* Each rank is behind the one before by one sum's work and its way, however many sums there are. (Here a rank
 * begins the next one when the one before has arrived: one in the middle gets each, and then sends it.) */
static void a_sum_passes_through_all_ranks(void **state) {
    (void)state;
    const double latency = 0.02;
    double one = passed_in(1, 1, false, 0), work_of_sum = passed_in(1, 2, false, 0) - one;
    for (int64_t ranks = 2; ranks <= 40; ranks += ranks < 6 ? 1 : 17) {
        double behind = (double)(ranks - 1) * (work_of_sum + latency);
        near(passed_in(ranks, 1, false, latency), one + behind + latency);
        near(passed_in(ranks, 2, false, latency),
             passed_in(ranks, 1, false, latency) + work_of_sum + (ranks > 2 ? 2 : 1) * latency);
    }
}

/* Two hosts of two ranks: the sum goes to the next one of its host, to the other host, and on there; then all
 * get it, half of them on the other host. Only the ways between hosts have that link's latency. Of two sums
 * the second one is behind the first by its work, and its way to the next rank of each kind: in the middle a
 * rank gets a sum of its host and sends it to the other, or the other way round. */
static void only_the_way_between_hosts_takes_its_latency(void **state) {
    (void)state;
    const double within = 0.01, across = 0.4;
    double one = passed_in(1, 1, false, 0), work_of_sum = passed_in(1, 2, false, 0) - one;
    const links hosts = { .ranks = 4,
                          .of_host = 2,
                          .of = { { within, 1e15, 0, 0 }, { across, 1e15, 0, 0 } } };
    double first = passed(&hosts, 1, false);
    near(first, one + 3 * work_of_sum + 2 * within + across + across);
    near(passed(&hosts, 2, false), first + work_of_sum + within + across);
}

/* A rank sends its sum to one other: that takes of its processor what the link to that one does. So the
 * second of four loses a second, which sends to the other host, and then all get the last sum; the first and
 * the third lose a tenth, beside which the last one is still behind. */
static void a_sum_is_sent_on_one_link(void **state) {
    (void)state;
    const double one = passed_in(1, 1, false, 0), work_of_sum = passed_in(1, 2, false, 0) - one;
    const links hosts = { .ranks = 4, .of_host = 2, .of = { { 1e-6, 1e15, 0.1, 0 }, { 1e-6, 1e15, 1, 0 } } };
    near(passed(&hosts, 1, false), one + work_of_sum + 1);
    const links same = { .ranks = 4, .of_host = 4, .of = { { 1e-6, 1e15, 1, 0 }, { 1e-6, 1e15, 5, 0 } } };
    near(passed(&same, 1, false), one + 2 * work_of_sum + 1);
}

/* A second round begins where the first has ended: nothing is beside it. */
static void a_second_round_waits_for_the_first(void **state) {
    (void)state;
    const double latency = 0.01;
    double once = passed_in(1, 1, true, 0), again = passed_in(1, 2, true, 0) - once;
    for (int64_t ranks = 2; ranks <= 5; ranks++) {
        double first = passed_in(ranks, 1, true, latency);
        near(passed_in(ranks, 2, true, latency),
             first + latency + (double)ranks * again + (double)(ranks - 1) * latency);
    }
}

/* More work anywhere never makes a program faster. */
static void more_work_is_never_faster(void **state) {
    (void)state;
    double before = 0;
    for (int beside = 0; beside < 60; beside += 3) {
        program p = two_movements(beside, 1e-4);
        assert_true(p.seconds >= before && p.seconds >= p.computing);
        before = p.seconds;
        lower_close(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_shared),
        cmocka_unit_test(groups_have_links_of_their_own),
        cmocka_unit_test(a_sum_passes_between_hosts_by_itself),
        cmocka_unit_test(more_takes_longer),
        cmocka_unit_test(waiting_is_what_is_not_hidden),
        cmocka_unit_test(work_hides_movements),
        cmocka_unit_test(what_is_passed_on_counts_once),
        cmocka_unit_test(two_steps_tell_many_sooner),
        cmocka_unit_test(what_comes_around_is_sent_once),
        cmocka_unit_test(a_sum_passes_through_all_ranks),
        cmocka_unit_test(only_the_way_between_hosts_takes_its_latency),
        cmocka_unit_test(a_sum_is_sent_on_one_link),
        cmocka_unit_test(a_second_round_waits_for_the_first),
        cmocka_unit_test(more_work_is_never_faster),
    };
    return cmocka_run_group_tests_name("movements", tests, NULL, NULL);
}
