#include "train/pace.h"

#include <stdlib.h>
#include <string.h>

#include "lower/measure.h"

void pace_note(pace *p, double seconds, double processors, double asked) {
    p->steps++;
    p->clock += seconds;
    p->processors += processors;
    if (measure_is_undisturbed(seconds, processors, asked))
        p->seconds[p->undisturbed++ % PACE_MOST] = seconds;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double pace_seconds(const pace *p) {
    double sorted[PACE_MOST];
    size_t count = p->undisturbed < PACE_MOST ? (size_t)p->undisturbed : PACE_MOST;
    if (count < PACE_LEAST) return 0;
    memcpy(sorted, p->seconds, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_size);
    return sorted[count / 2];
}

double pace_own_seconds(const pace *p, double asked) {
    if (!p->steps) return 0;
    return (asked > 0 ? p->processors / asked : p->clock) / (double)p->steps;
}

static double share_of(double clock, double processors, double asked) {
    if (asked <= 0) return 1;
    return clock > 0 ? processors / (clock * asked) : 0;
}

double pace_share(const pace *p, double asked) { return share_of(p->clock, p->processors, asked); }

static bool is_slower(double seconds, double than) { return seconds > than * 4 / 3; }

bool pace_falls(pace_watch *w, int64_t step, double seconds, double processors, double asked,
                pace_fall *fall) {
    w->steps++, w->clock += seconds, w->processors += processors;
    if (w->steps < PACE_STRETCH || w->clock < PACE_STRETCH_SECONDS) return false;
    double now = w->clock / (double)w->steps;
    *fall = (pace_fall){ now, w->shortest, w->at, share_of(w->clock, w->processors, asked) };
    w->clock = w->processors = 0, w->steps = 0;
    bool first = fall->before <= 0;
    if (first || now < fall->before) w->shortest = now, w->at = step;
    if (first || !is_slower(now, fall->before) || !is_slower(now, w->told)) return false;
    w->told = now;
    return true;
}
