/* Predicted seconds of a run, from those of its programs. */
#pragma once

#include "chain/compose.h"

/* By task, which programs add up to. */
typedef struct {
    double all[TASK_DECODE + 1], computing[TASK_DECODE + 1], waiting[TASK_DECODE + 1]; /* lower/lower.h */
} chain_seconds;
void chain_seconds_add(chain_seconds *s, const compose_run *r, const program *p);

/* Of a step, or of the whole validation where nothing is trained. */
static inline double chain_seconds_of(const double by_task[]) {
    return by_task[TASK_TRAIN] > 0 ? by_task[TASK_TRAIN] : by_task[TASK_EVALUATE];
}
