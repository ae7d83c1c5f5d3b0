/* Runs in processes of their own, so that what one holds does not show in another, watched from outside.
 *
 * A process that forks hands its memory on. So a small one is forked off first, before anything is planned,
 * and every run is a child of that one. None of them outlives the program. */
#pragma once

#include <signal.h>

#include "compare/compare.h"

typedef struct apart apart;

/* What a run says while it goes on. */
typedef struct {
    int64_t step, steps;
    double seconds; /* of this step */
} apart_step;

/* To be called before there are threads and before much memory is held. `options` must stay. */
status apart_open(const setup_options *options, apart **a);

/* Runs the row's plan. What the run itself can't do is said in m->why. STATUS_INTERRUPTED where *stop was
 * set; STATUS_FAILED: the processes are gone. */
status apart_run(apart *a, const compare_row *row, void (*stepped)(void *context, const apart_step *s),
                 void *context, const volatile sig_atomic_t *stop, compare_measured *m);
void apart_close(apart *a); /* NULL is fine */
