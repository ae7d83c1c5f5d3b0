/* A lower bound of a candidate's outline from two or three shallow models, in a fraction of the time.
 *
 * Where all layers of a model are alike, the bytes that are alive at a place of one of them are a sum over
 * the layers before it and behind it. So at each place they are affine in the numbers of layers, and their
 * maximum over all places is convex. A line through its values at two depths is nowhere above it beyond
 * these. What persists, seconds of steps, and tables are affine themselves.
 *
 * A setting may treat the first layers otherwise than the others (pass.divides). Then all of it is convex in
 * two numbers: of the first layers, and of the others. From a small model there it rises each way at least as
 * fast as to it from one that has a layer less, and so the sum of both ways is a bound: of three models,
 * which are the same for every such setting. Where those are too many layers, two models do that lie on one
 * line with the one that is meant. */
#pragma once

#include "chain/compose.h"

/* A model of fewer layers, or as it is, with the graphs that its candidates share. */
typedef struct {
    int64_t layers;
    compose_stem stem;
    compose_trunk trunk;
} sketch_form;

/* What a thread keeps from the candidate that it looked at last. Begins as { .most }. */
enum { SKETCH_FORMS = 8 };
typedef struct {
    uint32_t most;         /* compose_trunk.most */
    compose_choice choice; /* all forms are of its stem */
    uint32_t count, next;  /* forms; and the one that gives way to another */
    sketch_form forms[SKETCH_FORMS];
} sketcher;
void sketch_close(sketcher *s);

/* Are its layers alike, and so many that it is worth while? And is each larger than the caches, so that its
 * seconds are the same at any depth? */
bool sketch_possible(const compose_run *r);

/* As compose_bound. All in *out is at most what that has, and sketched is set. But where the choice divides
 * the layers so that no two depths are much smaller, or a shallow model can't be outlined, it is
 * compose_bound. */
status sketch_bound(sketcher *s, const compose_run *r, const compose_choice *c, const compose_reach *reach,
                    compose_least *out);
