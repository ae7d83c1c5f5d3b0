/* A tensor passes from one rank to another one, from place to place: a sum on its way through the ranks. What
 * others get, or what this one gets, is there behind op_arrive; until then its memory is not to be touched,
 * but for a step that moves it on: steps are done in the order in which they begin. */
#pragma once

#include "ir/op.h"

/* By attribute: what this rank gets or sends. The steps of one sum are ordered so on all ranks, and those of
 * several sums begin in one order and go on in the same: then none waits for another in a ring. */
typedef enum {
    PASS_FROM_BEFORE, /* gets what the rank before passes to the next one; the first one keeps what it has */
    PASS_TO_NEXT,     /* the other half of it; the last one sends nothing */
    PASS_AROUND,      /* the first one gets what the last one has; the others keep what they have */
    PASS_FROM_LAST,   /* all get what the last one has */
    PASS_SPREAD,      /* each gets a piece of it, ... */
    PASS_COLLECT      /* ... and in a step behind that one the pieces of the others */
} pass_on_step;

typedef struct {
    int64_t ranks, step; /* that it goes through; a pass_on_step */
    int64_t group;       /* ranks of a group (comm.h): it goes through so many groups; 0: from rank to rank */
    int64_t first, some; /* of PASS_FROM_BEFORE and PASS_TO_NEXT: these elements alone; some 0: all of it */
} pass_on_attributes;

extern const op_def op_pass_on; /* x must -> x */
extern const op_kernel pass_on_cpu[];
extern const op_kernel pass_on_cuda[];

tensor_id pass_on_apply(graph *g, tensor_id x, int64_t ranks, pass_on_step step);
tensor_id pass_on_groups_apply(graph *g, tensor_id x, int64_t groups, int64_t group, pass_on_step step);
tensor_id pass_on_piece_apply(graph *g, tensor_id x, const pass_on_attributes *a);
