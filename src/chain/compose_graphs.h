/* The graphs of a choice, on their way from the model through the passes. */
#pragma once

#include "chain/compose.h"

/* A program of the run: how it is run, and what its graph is built for. */
typedef struct {
    program_shape shape;
    model_mode mode;
    bool accumulating; /* adds to the sums of a unit that goes on after it */
    bool updates;      /* and the weights; neither: a unit ends that others follow */
} compose_program;

/* The programs that train and validate, and how many; the one that generates is built apart. */
uint32_t compose_programs(const compose_run *r, const compose_choice *c,
                          compose_program out[COMPOSE_PROGRAMS]);

/* The program that is called most often in a step, whose seconds are most of the step's. */
uint32_t compose_most_called(const compose_program *list, uint32_t count);

plan_options compose_plan_options(const compose_run *r);

/* Applies the forward passes to *g. */
status compose_forward(const compose_choice *c, const pass_context *context, graph *g);

/* The stem's graph that program k of the list grows from. */
const graph *compose_root(const compose_stem *s, const compose_program *list, uint32_t k);

/* That graph after the step passes; *g is open also after a failure. */
status compose_grow(const compose_run *r, const compose_choice *c, const compose_program *list, uint32_t k,
                    compose_trunk *t, graph *g);

/* Memory of the persistent tensors, without those of the roles in `without`. */
uint64_t compose_persistent_bytes(const graph *g, uint32_t without);

/* The roles whose persistent tensors the choice's step passes may make smaller or remove from memory. */
uint32_t compose_roles_freed(const compose_choice *c);
