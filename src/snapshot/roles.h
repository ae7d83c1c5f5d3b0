/* What allocations are: weights, gradients, state and so on, and what says so.
 *
 * Rules, in the order in which they are asked: frames that name the thing (a module is moved, an optimizer
 * makes its state, autograd hands over a gradient, a library asks for its workspace); then lifetimes (what
 * forward makes and backward frees is an activation; what is freed in the run that made it is a temporary;
 * what backward makes and outlives it is a gradient); then sizes that match (a gradient has its weight's, a
 * state its weight's). What none of them tells is unknown. */
#pragma once

#include "snapshot/course.h"

typedef enum {
    ROLES_WEIGHT,
    ROLES_GRADIENT,
    ROLES_STATE,
    ROLES_ACTIVATION,
    ROLES_INPUT,
    ROLES_TEMPORARY,
    ROLES_WORKSPACE,
    ROLES_BEFORE, /* there before the recording, and nothing tells what it is */
    ROLES_UNKNOWN,
    ROLES_COUNT
} roles_role;
const char *roles_name(roles_role r); /* "weights" */

/* BY_FILE: a memory timeline of the profiler has categories of its own, which are taken as they are. */
typedef enum { BY_NOTHING, BY_FRAMES, BY_LIFETIME, BY_SIZE, BY_FILE, EVIDENCES } evidence;
const char *roles_evidence(evidence e);

typedef struct {
    roles_role role;
    evidence by;
} verdict;

/* Sizes and how many weights have each. */
typedef struct {
    uint64_t bytes;
    uint32_t weights, used;
} roles_size;

typedef struct {
    const course *course;
    roles_size *sizes; /* of weights, ascending */
    uint32_t count;
    bool loaded; /* frames tell of weights that were brought to the device */
} roles;

status roles_open(const course *c, roles *r);
void roles_close(roles *r);

bool roles_is_weight_size(const roles *r, uint64_t bytes);
verdict roles_of(const roles *r, const snapshot_piece *p);
