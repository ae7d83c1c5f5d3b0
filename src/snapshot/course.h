/* The course of a recording: forward, backward and update, one after the other, and the steps that they make.
 *
 * An allocation tells by its frames what ran. Where frames are Python's alone, backward has none: it runs in
 * a thread of autograd's own. A run is a stretch of one phase; an update ends a step. */
#pragma once

#include "snapshot/traits.h"

typedef enum { COURSE_OTHER, COURSE_FORWARD, COURSE_BACKWARD, COURSE_UPDATE, COURSE_PHASES } course_phase;
const char *course_phase_name(course_phase p);

typedef struct {
    course_phase phase;
    uint32_t begins, ends; /* instants: of its first and last allocation */
    uint32_t step;         /* from 1 */
} course_run;

typedef struct {
    const snapshot *snapshot;
    const snapshot_trace *trace;
    const traits *traits;
    course_run *runs;
    uint32_t count, room;
    uint32_t updates; /* how many were seen whole */
    bool noted;       /* updates are known by annotations too */
} course;

status course_open(const snapshot *s, const snapshot_trace *t, const traits *traits, course *c);
void course_close(course *c);

/* What the allocation itself tells. */
course_phase course_phase_of(const course *c, const snapshot_piece *p);

/* The last run that has begun at the instant, from 0; UINT32_MAX: none has. */
uint32_t course_run_at(const course *c, uint32_t instant);

typedef struct {
    course_phase phase;
    uint32_t step; /* 0: before the first */
} course_moment;
course_moment course_moment_of(const course *c, uint32_t instant);
