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
    return p->steps ? p->processors / asked / (double)p->steps : 0;
}

double pace_share(const pace *p, double asked) {
    return p->clock > 0 ? p->processors / (p->clock * asked) : 0;
}
