/* The graphs of a choice, on their way from the model through the passes. */
#pragma once

#include "search/compose.h"

/* What the forward graph of a program is built for. */
typedef struct {
    model_mode mode;
    int64_t batch;
    bool accumulating;
} compose_flavour;

/* The programs that training and validation have; `decode` is built apart. */
enum { COMPOSE_PARTS = PROGRAM_EVALUATE_REST + 1 };

/* False: this run has no such program. */
bool compose_flavour_of(const compose_run *r, const compose_choice *c, program_kind k, compose_flavour *f);

/* Applies the forward passes to *g. */
status compose_forward(const compose_choice *c, const pass_context *context, graph *g);

/* The stem's graph that program k grows from. */
const graph *compose_root(const compose_run *r, const compose_choice *c, const compose_stem *s,
                          program_kind k);

/* That graph after the step passes; *g is open also after a failure. */
status compose_grow(const compose_run *r, const compose_choice *c, program_kind k, compose_trunk *t,
                    graph *g);
