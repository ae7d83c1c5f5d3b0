#include "lower/movements.h"

#include "base/memory.h"
#include "lower/lanes.h"

/* To how many others of those that move together a rank sends on a link, and how many of a host share it. */
typedef struct {
    double peers[LINK_COUNT], sharing;
} layout;

static layout layout_of(const links *l, const op_cost *c) {
    int64_t all = l->ranks > 1 ? l->ranks : 1,
            of_host = l->of_host >= 1 && l->of_host < all ? l->of_host : all,
            ranks = c->ranks ? c->ranks : all, near = of_host / (c->apart ? c->apart : 1);
    if (near < 1) near = 1;
    if (near > ranks) near = ranks;
    return (layout){ .peers = { (double)(near - 1), (double)(ranks - near) }, .sharing = (double)of_host };
}

double movements_seconds(const links *l, const op_cost *c) {
    layout y = layout_of(l, c);
    double longest = 0, bytes = c->sent;
    for (int i = 0; i < LINK_COUNT; i++) {
        if (y.peers[i] <= 0 || l->of[i].rate <= 0) continue;
        double seconds = l->of[i].seconds + y.sharing * y.peers[i] * bytes / l->of[i].rate;
        if (seconds > longest) longest = seconds;
    }
    return longest;
}

double movements_busy(const links *l, const op_cost *c) {
    layout y = layout_of(l, c);
    double seconds = 0, bytes = c->sent;
    for (int i = 0; i < LINK_COUNT; i++)
        if (y.peers[i] > 0) seconds += l->of[i].busy + y.peers[i] * bytes * l->of[i].busy_seconds;
    return seconds;
}

bool movements_any(const op_cost *costs, uint32_t count) {
    for (uint32_t s = 0; s < count; s++)
        if (costs[s].sent > 0) return true;
    return false;
}

/* Owners of storage are asked, so that it may be waited for by any view of what arrives. */
static tensor_id owner_of(const graph *g, tensor_id t) { return t ? graph_storage(g, t, NULL) : 0; }

/* A movement that was begun: on its lane from when to when, and the seconds that steps beside all of it lose.
 */
typedef struct {
    double begins, ends, busy;
} movement;

/* At moment `now` of those that compute: what they have lost to it by then, and what is left to wait for. */
static double waited_for(const movement *m, double now) {
    if (m->ends <= m->begins) return 0;
    double beside = (now < m->ends ? now : m->ends) - m->begins;
    double lost = beside > 0 ? m->busy * beside / (m->ends - m->begins) : 0;
    return now + lost < m->ends ? m->ends - now : lost;
}

status movements_wait(const program *p, const op_cost *costs, const device_rates *rates, double *waits,
                      double *all) {
    const graph *g = &p->graph;
    movement *under_way = memory_new(g->tensors.count, sizeof *under_way); /* by owner of what is received */
    if (!under_way) return status_set(STATUS_FAILED, "no memory to predict times");
    lanes l = { 0 };
    *all = 0;
    for (uint32_t s = 0; s < p->count; s++) {
        const node *n = graph_node(g, p->steps[s].node);
        bool waiting = n->op->traits & OP_COLLECTIVE && costs[s].sent <= 0;
        double now = l.free[LANE_COMPUTE];
        movement *m = &under_way[owner_of(g, node_in(g, n, 0))];
        waits[s] = waiting ? waited_for(m, now) : 0;
        if (waiting) *m = (movement){ 0 }; /* it is over */
        *all += waits[s];
        now = lanes_add(&l, LANE_COMPUTE, 0, waits[s] + p->steps[s].seconds);
        if (costs[s].sent <= 0) continue;
        double seconds = movements_seconds(&rates->links, &costs[s]),
               ends = lanes_add(&l, LANE_RANKS, now, seconds);
        under_way[owner_of(g, node_out(g, n, 0))] =
            (movement){ ends - seconds, ends, movements_busy(&rates->links, &costs[s]) };
    }
    memory_free(under_way);
    return STATUS_OK;
}
