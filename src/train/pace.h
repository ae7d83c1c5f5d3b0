/* How fast a run's steps are where it had the processors that it asked for: what rates may learn from
 * (run/rates.h). Other work on a machine makes steps longer; a process's own time tells which. On a device
 * apart a step asks for no processors, so it has all of them. */
#pragma once

#include <stdbool.h>
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

/* Whether steps get slower while a run goes on: a clock falls, others come to the machine. The mean of each
 * stretch, of PACE_STRETCH steps and PACE_STRETCH_SECONDS at least, is compared with the shortest mean so
 * far. All of a run's steps compute the same, so a step is no longer for what it has to do. */
enum { PACE_STRETCH = 20, PACE_STRETCH_SECONDS = 5 };
typedef struct {
    double clock, processors; /* seconds of the stretch that goes on */
    int64_t steps;
    double shortest; /* mean seconds; 0: no stretch is over */
    int64_t at;      /* the last step of the shortest */
    double told;     /* the longest mean that was told of */
} pace_watch;

typedef struct pace_fall {
    double now, before; /* mean seconds of a step: of the last stretch, and of the shortest */
    int64_t before_at;  /* the last step of that */
    double share;       /* of the processors asked for, in the last stretch */
} pace_fall;

/* Notes step `step` as pace_note does. True: a stretch ends here that took longer by a third than the
 * shortest, and by a third than what was told before, and *fall says how long. */
bool pace_falls(pace_watch *w, int64_t step, double seconds, double processors, double asked,
                pace_fall *fall);
