#include "data/mixture.h"

#include <math.h>
#include <stdbool.h>

#include "base/memory.h"

/* ---- shares ---- */

/* Are the weights whole numbers of a period's places? They are sums and quotients of doubles, and a run has
 * fewer samples than it takes for so small a difference to be one. */
static bool fits(const double *weights, double all, uint32_t parts, uint32_t period) {
    const double close = 1e-9;
    for (uint32_t p = 0; p < parts; p++) {
        double places = weights[p] / all * period;
        if (round(places) < 1 || fabs(places - round(places)) > close) return false;
    }
    return true;
}

/* What rounding down has left goes to those who lost most by it, the first of equals. */
static void hand_out_rest(const double *weights, double all, mixture *m) {
    uint32_t rest = m->period;
    bool had[MIXTURE_PARTS] = { 0 };
    for (uint32_t p = 0; p < m->parts; p++) rest -= m->share[p];
    for (; rest; rest--) {
        uint32_t most = m->parts;
        double lost = -1;
        for (uint32_t p = 0; p < m->parts; p++) {
            double less = weights[p] / all * m->period - m->share[p];
            if (!had[p] && less > lost) most = p, lost = less;
        }
        had[most] = true;
        m->share[most]++;
    }
}

static status find_shares(const double *weights, mixture *m, uint32_t *part) {
    double all = 0, largest = 0;
    for (uint32_t p = 0; p < m->parts; p++)
        if (weights[p] > largest) largest = weights[p];
    double scaled[MIXTURE_PARTS]; /* so that no sum overflows */
    for (uint32_t p = 0; p < m->parts; p++) all += scaled[p] = weights[p] / largest;
    for (m->period = m->parts; m->period < MIXTURE_PERIOD; m->period++)
        if (fits(scaled, all, m->parts, m->period)) break;
    bool whole = fits(scaled, all, m->parts, m->period);
    for (*part = 0; *part < m->parts; ++*part) {
        double places = scaled[*part] / all * m->period;
        m->share[*part] = (uint32_t)(whole ? round(places) : floor(places));
        if (!m->share[*part])
            return status_set(STATUS_INVALID, "its weight is %.3g of all; the least share is 1 in %d",
                              scaled[*part] / all, MIXTURE_PERIOD);
    }
    hand_out_rest(scaled, all, m);
    return STATUS_OK;
}

/* ---- the order of a period ---- */

/* Whose turn it is at place `place` (from 1), after `had` turns each. Who is behind its share by 1/(2n-2) may
 * take it; of these it is due first for the one that would fall behind by 1 - 1/(2n-2) soonest. All in parts
 * of the period; the products stay below 2^41. */
static uint32_t next_turn(const mixture *m, const uint32_t *had, uint64_t place) {
    int64_t n = 2 * (int64_t)m->parts - 2, period = m->period, first_room = 0;
    uint32_t first = m->parts;
    for (uint32_t p = 0; p < m->parts; p++) {
        int64_t behind = (int64_t)(place * m->share[p]) - period * had[p];
        int64_t room = (n - 1) * period - n * behind;
        if (n * behind < period) continue;
        if (first < m->parts && room * m->share[first] >= first_room * m->share[p]) continue;
        first = p, first_room = room;
    }
    return first;
}

static void fill(mixture *m) {
    uint32_t had[MIXTURE_PARTS] = { 0 };
    for (uint32_t k = 0; k < m->period; k++) {
        uint32_t p = m->parts > 1 ? next_turn(m, had, k + 1) : 0;
        m->part[k] = (uint8_t)p;
        m->turn[k] = (uint16_t)had[p]++;
    }
}

status mixture_open(const double *weights, uint32_t parts, mixture *m, uint32_t *part) {
    *m = (mixture){ .parts = parts };
    TRY(find_shares(weights, m, part));
    m->part = memory_new(m->period, sizeof *m->part);
    m->turn = memory_new(m->period, sizeof *m->turn);
    if (!m->part || !m->turn) {
        mixture_close(m);
        return status_set(STATUS_FAILED, "no memory to mix %u parts of data", parts);
    }
    m->held_bytes = (uint64_t)m->period * (sizeof *m->part + sizeof *m->turn);
    fill(m);
    return STATUS_OK;
}

void mixture_close(mixture *m) {
    memory_free(m->part);
    memory_free(m->turn);
    *m = (mixture){ 0 };
}

/* ---- asking ---- */

uint32_t mixture_at(const mixture *m, uint64_t place, uint64_t *turn) {
    uint64_t within = place % m->period;
    uint32_t p = m->part[within];
    *turn = place / m->period * m->share[p] + m->turn[within];
    return p;
}

status mixture_place(const mixture *m, uint32_t part, uint64_t turn, uint64_t *place) {
    uint32_t k = 0, within = (uint32_t)(turn % m->share[part]);
    while (m->part[k] != part || m->turn[k] != within) k++;
    if (!__builtin_mul_overflow(turn / m->share[part], m->period, place) &&
        *place < (uint64_t)INT64_MAX - m->period) {
        *place += k;
        return STATUS_OK;
    }
    return status_set(STATUS_INVALID,
                      "%u parts of data would make an epoch of more samples than can be counted", m->parts);
}
