/* Ranks in groups, each on its way through a program as planned: what moves is done in the order in which it
 * was begun, each movement when all whom it needs have come to it. Whatever the groups, no ranks wait for
 * each other in a ring, and what one sends is what the other gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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
        o.kind = kind_of((pass_on_step)a->step), o.group = a->group;
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
    uint64_t complete;                                    /* bytes of all shares that are told */
} journey;

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
            if (j.orders[count].kind == COMM_FROM_LAST || j.orders[count].kind == COMM_SPREAD)
                j.complete += j.orders[count].whole;
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
                  { 5, 1, "sharding=weights" },
                  { 4, 1, "sharding=gradients" } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int units = 1; units <= 3; units++)
            all_come_through(cases[i].ranks, cases[i].groups, units, cases[i].settings);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_ranks_wait_in_a_ring) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
