/* Ranks in groups or in a chain, each on its way through a program as planned: what moves is done in the
 * order in which it was begun, each movement when all whom it needs have come to it. Whatever the groups, no
 * ranks wait for each other in a ring, and what one sends is what the other gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comm/comm_apart.h"
#include "ir/op.h"
#include "ops/exchange/exchange.h"
#include "ops/gather_ranks/gather_ranks.h"
#include "ops/pass_on/pass_on.h"
#include "run/lab.h"

enum { WORLD = 12, MOVEMENTS = 1200, ROOM = 8 << 20 };

/* ---- what moves ---- */

static char room[ROOM]; /* for addresses; nothing is moved */

static comm_kind kind_of(pass_on_step step) {
    static const comm_kind kinds[] = {
        [PASS_FROM_BEFORE] = COMM_FROM_BEFORE, [PASS_TO_NEXT] = COMM_TO_NEXT, [PASS_AROUND] = COMM_AROUND,
        [PASS_FROM_LAST] = COMM_FROM_LAST,     [PASS_SPREAD] = COMM_SPREAD,   [PASS_COLLECT] = COMM_COLLECT
    };
    return kinds[step];
}

/* As the kernels begin it. */
static comm_order order_of(const graph *g, const node *n) {
    comm_order o = { .from = room, .to = room, .whole = graph_tensor_bytes(g, node_in(g, n, 0)) };
    if (n->op == &op_pass_on) {
        const pass_on_attributes *a = node_attributes(g, n);
        uint64_t each = dtype_bytes(graph_tensor(g, node_in(g, n, 0))->dtype);
        o.kind = kind_of((pass_on_step)a->step), o.group = a->group;
        o.first = (uint64_t)a->first * each, o.some = (uint64_t)a->some * each;
    } else if (n->op == &op_exchange) {
        const exchange_attributes *a = node_attributes(g, n);
        o.kind = COMM_EXCHANGE, o.group = a->ranks;
        uint64_t each = dtype_bytes(graph_tensor(g, node_in(g, n, 0))->dtype);
        o.share = (uint64_t)a->share * each, o.first = (uint64_t)a->first * each;
        o.some = (uint64_t)a->some * each;
    } else {
        const gather_ranks_attributes *a = node_attributes(g, n);
        o.kind = COMM_GATHER, o.group = a->group, o.share = o.whole;
        o.whole = graph_tensor_bytes(g, node_out(g, n, 0));
    }
    assert_true(o.whole <= ROOM);
    return o;
}

/* ---- all on their way ---- */

typedef struct {
    uint32_t step;                      /* of the program */
    uint32_t given, posted, done;       /* movements: that were begun, whose turn has come, that are over */
    uint32_t sends[WORLD], gets[WORLD]; /* messages so far */
    uint64_t sent[WORLD][MOVEMENTS], got[WORLD][MOVEMENTS]; /* their bytes */
    uint64_t told;                                          /* bytes that it sent of sums that are complete */
} traveller;

typedef struct {
    const program *p;
    int ranks;
    comm_order orders[MOVEMENTS];                         /* in the order in which they are begun */
    int32_t begins[4 * MOVEMENTS], awaits[4 * MOVEMENTS]; /* by step: a movement, or -1 */
    uint64_t complete, at_once; /* bytes of all shares that are told, and of those that one tells to all */
} journey;

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

static journey j;
static traveller all[WORLD];

static bool tells(comm_kind k) { return k == COMM_FROM_LAST || k == COMM_SPREAD || k == COMM_COLLECT; }

static void read_program(const program *p, int ranks) {
    const graph *g = &p->graph;
    uint32_t count = 0;
    j = (journey){ .p = p, .ranks = ranks };
    memset(all, 0, sizeof all);
    assert_true(p->count <= 4 * MOVEMENTS);
    for (uint32_t s = 0; s < p->count; s++) {
        const node *n = graph_node(g, p->steps[s].node);
        op_cost cost = n->op->cost(g, n);
        j.begins[s] = j.awaits[s] = -1;
        if (!(n->op->traits & OP_COLLECTIVE)) continue;
        if (cost.sent > 0 || cost.way != WAY_ALL) {
            assert_true(count < MOVEMENTS);
            j.begins[s] = (int32_t)count, j.orders[count] = order_of(g, n);
            comm_kind kind = j.orders[count].kind;
            if (kind == COMM_FROM_LAST || kind == COMM_SPREAD) j.complete += j.orders[count].whole;
            if (kind == COMM_FROM_LAST) j.at_once += j.orders[count].whole;
            count++;
        } else { /* for the latest to this place */
            tensor_id place = graph_storage(g, node_in(g, n, 0), NULL);
            for (uint32_t b = 0; b < s; b++)
                if (j.begins[b] >= 0 &&
                    graph_storage(g, node_out(g, graph_node(g, p->steps[b].node), 0), NULL) == place)
                    j.awaits[s] = j.begins[b];
            assert_true(j.awaits[s] >= 0);
        }
    }
}

/* What computes goes on until it waits, or until too much is under way. */
static bool compute(traveller *x) {
    uint32_t before = x->step;
    for (; x->step < j.p->count; x->step++) {
        if (j.awaits[x->step] >= (int32_t)x->done) break;
        if (j.begins[x->step] < 0) continue;
        if (x->given - x->done == COMM_AT_ONCE) break;
        x->given++;
    }
    return x->step > before;
}

static void post(int r) {
    traveller *x = &all[r];
    const comm_order *o = &j.orders[x->posted++];
    for (int q = 0; q < j.ranks; q++) {
        comm_pair p = comm_part(o, q, (comm_ranks){ r, j.ranks });
        if (q == r) continue;
        if (p.send_bytes) x->sent[q][x->sends[q]++] = p.send_bytes;
        if (p.receive_bytes) x->got[q][x->gets[q]++] = p.receive_bytes;
        if (tells(o->kind)) x->told += p.send_bytes;
    }
}

/* Do the others stand ready for all that this one sends and gets? */
static bool is_met(int r) {
    for (int q = 0; q < j.ranks; q++)
        if (all[q].gets[r] < all[r].sends[q] || all[q].sends[r] < all[r].gets[q]) return false;
    return true;
}

static bool move(int r) {
    traveller *x = &all[r];
    if (x->posted == x->done) {
        if (x->given == x->done) return false;
        post(r);
    }
    if (!is_met(r)) return false;
    x->done++;
    return true;
}

static void travel(const char *what) {
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (int r = 0; r < j.ranks; r++) goes_on |= compute(&all[r]);
        for (int r = 0; r < j.ranks; r++) goes_on |= move(r);
    }
    for (int r = 0; r < j.ranks; r++) {
        if (all[r].step < j.p->count || all[r].done < all[r].given)
            fail_msg("%s: rank %d of %d waits for ever at step %u of %u", what, r, j.ranks, all[r].step,
                     j.p->count);
        for (int q = 0; q < j.ranks; q++)
            assert_memory_equal(all[r].sent[q], all[q].got[r], sizeof all[r].sent[q]);
    }
}

/* ---- plans ---- */

static const lab_sizes sizes = {
    .layers = 2, .heads = 4, .channels = 128, .context = 32, .vocabulary = 640, .unit = 1, .clip = 0.5
};

/* Each rank has so many units. What a rank sends to tell others is less than two shares of each sum. */
static void all_come_through(int ranks, int groups, int units, const char *settings) {
    lab l;
    plan p;
    lab_sizes own = sizes;
    own.batch = ranks * units;
    lab_open(&l, &own);
    l.run.ranks = ranks;
    compose_choice c = lab_choose(&l, 1, settings);
    if (compose_plan(&l.run, &c, &p) != STATUS_OK) fail_msg("%s: %s", settings, status_message());
    uint64_t complete = 0;
    for (uint32_t k = 0; k < p.program_count; k++) {
        read_program(&p.programs[k].program, ranks);
        travel(settings);
        complete += j.complete;
        const uint64_t n = (uint64_t)groups, slack = n * n * COMM_PIECE * MOVEMENTS;
        for (int r = 0; r < ranks; r++) assert_true(all[r].told * n <= 2 * (n - 1) * j.complete + slack);
    }
    assert_true((complete > 0) == (groups > 1));
    plan_close(&p);
}

static void no_ranks_wait_in_a_ring(void **state) {
    static const struct {
        int ranks, groups;
        const char *settings;
    } cases[] = { { 4, 2, "sharding=weights:group=2" },
                  { 6, 3, "sharding=weights:group=2:ahead=8" },
                  { 6, 2, "sharding=gradients:group=3" },
                  { 8, 4, "sharding=weights:group=2:ahead=0:keep=1" },
                  { 8, 4, "sharding=gradients:group=2" },
                  { 12, 4, "sharding=weights:group=3:ahead=2 recompute=block" },
                  { 12, 6, "sharding=gradients:group=2 precision=mixed-bf16" },
                  { 12, 6, "sharding=weights:group=2" },
                  { 12, 6, "sharding=weights:late=1:group=2" },
                  { 12, 4, "sharding=weights:late=1:group=3:ahead=2 recompute=block" },
                  { 8, 4, "sharding=gradients:late=1:group=2" },
                  { 6, 2, "sharding=gradients:late=1:group=3" },
                  { 5, 1, "sharding=weights" },
                  { 4, 1, "sharding=gradients" } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int units = 1; units <= 3; units++)
            all_come_through(cases[i].ranks, cases[i].groups, units, cases[i].settings);
}

/* A chain's sums, in one call of a step or in several. Where the last rank tells one by itself, it spares
 * less in two steps than a large tensor has. */
static void chained(int ranks, int calls) {
    enum { SAMPLES = 8, LARGE = 65536 * 4 };
    lab l;
    plan p;
    lab_sizes own = sizes;
    own.unit = 0, own.batch = ranks * calls * SAMPLES, own.untied = calls > 1, own.vocabulary = 800;
    lab_open(&l, &own);
    l.run.ranks = ranks;
    compose_choice c =
        lab_choose(&l, SAMPLES, calls > 1 ? "sharding=chain accumulate=add" : "sharding=chain");
    if (compose_plan(&l.run, &c, &p) != STATUS_OK) fail_msg("%d ranks: %s", ranks, status_message());
    const uint64_t others = (uint64_t)ranks - 1, n = (uint64_t)ranks;
    uint64_t in_two = 0;
    for (uint32_t k = 0; k < p.program_count; k++) {
        read_program(&p.programs[k].program, ranks);
        travel("chain");
        in_two += j.complete - j.at_once;
        for (uint32_t m = 0; m < all[0].given; m++)
            if (j.orders[m].kind == COMM_FROM_LAST)
                assert_true(j.orders[m].whole * others * (n - 2) / n < LARGE);
        const uint64_t slack = n * COMM_PIECE * MOVEMENTS;
        for (int r = 0; r < ranks; r++)
            assert_true(all[r].told <=
                        others * j.at_once + 2 * (j.complete - j.at_once) * others / n + slack);
    }
    assert_true((in_two > 0) == (ranks > 2));
    plan_close(&p);
}

static void a_chain_comes_through(void **state) {
    static const int worlds[] = { 2, 3, 4, 5, 8, 12 };
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        for (int calls = 1; calls <= 2; calls++) chained(worlds[i], calls);
}

/* ---- what is offered ---- */

static int place_of_sharding(void) {
    int i = 0;
    while (strcmp(pass_table[i]->name, "sharding") != 0) i++;
    return i;
}

/* Those of `text` that end with this group are that many; 0: that have none. */
static int offered(const pass_setting *list, uint32_t count, const char *stage, int group) {
    int found = 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *at = strstr(list[i].text, ":group=");
        found += strncmp(list[i].text, stage, strlen(stage)) == 0 && (at ? atoi(at + 7) : 0) == group;
    }
    return found;
}

/* A group for each host; of weights also for two, where that divides the ranks. */
static void hosts_are_offered_as_groups(void **state) {
    static const struct {
        int ranks, of_host, groups[2]; /* 0: none */
    } cases[] = { { 8, 4, { 4 } }, { 16, 4, { 4, 8 } }, { 12, 4, { 4 } }, { 8, 2, { 2, 4 } },
                  { 9, 3, { 3 } }, { 12, 3, { 3, 6 } }, { 8, 8, { 0 } },  { 8, 1, { 0 } },
                  { 8, 0, { 0 } }, { 16, 8, { 8 } },    { 6, 4, { 0 } },  { 32, 8, { 8, 16 } } };
    enum { SETTINGS = 64 };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab l;
        lab_sizes own = sizes;
        pass_setting list[SETTINGS];
        uint32_t count = 0;
        int ranks = cases[i].ranks, grouped = 0;
        own.batch = ranks;
        lab_open(&l, &own);
        l.run.ranks = ranks, l.run.of_host = cases[i].of_host;
        compose_choice c = lab_choose(&l, 1, "");
        must(search_offers(&l.run, &c, place_of_sharding(), list, SETTINGS, &count));
        assert_int_equal(offered(list, count, "gradients", 0), 1);
        assert_true(offered(list, count, "weights", 0) > 0);
        for (int k = 0; k < 2 && cases[i].groups[k]; k++) {
            int of_weights = offered(list, count, "weights", cases[i].groups[k]),
                of_states = offered(list, count, "gradients", cases[i].groups[k]);
            if (!of_weights || (of_states > 0) != (k == 0))
                fail_msg("%d ranks, %d a host: no group of %d", ranks, cases[i].of_host, cases[i].groups[k]);
            grouped += of_weights + of_states;
        }
        int alone = offered(list, count, "weights", 0) + offered(list, count, "gradients", 0);
        assert_int_equal(alone + grouped, count); /* there are no others */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_ranks_wait_in_a_ring),
                                        cmocka_unit_test(a_chain_comes_through),
                                        cmocka_unit_test(hosts_are_offered_as_groups) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
