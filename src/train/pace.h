/* How fast a run's steps are where it had the processors that it asked for: what rates may learn from
 * (run/rates.h). Other work on a machine makes steps longer; a process's own time tells which. */
#pragma once

#include <stdint.h>

enum { PACE_MOST = 255, PACE_LEAST = 10 };
typedef struct {
    double seconds[PACE_MOST]; /* of the latest undisturbed steps, by their number modulo PACE_MOST */
    int64_t undisturbed;       /* how many there were */
    double clock, processors;  /* seconds of all steps, by the clock and of processors */
    int64_t steps;
} pace;

/* A step took `seconds` by the clock and `processors` of them all together, of `asked` that it could have. */
void pace_note(pace *p, double seconds, double processors, double asked);

/* The median of the undisturbed steps; 0 where there were fewer than PACE_LEAST. */
double pace_seconds(const pace *p);

/* What a step would have taken with all processors asked for: the mean of all; 0: no steps. */
double pace_own_seconds(const pace *p, double asked);

/* Of the processors asked for, the part that all steps got. */
double pace_share(const pace *p, double asked);
