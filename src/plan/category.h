/* What memory is for, in the words of the report. Nothing is called "other". */
#pragma once

#include "ir/graph.h"

typedef enum {
    CATEGORY_WEIGHTS,     /* parameters */
    CATEGORY_GRADIENTS,   /* of parameters */
    CATEGORY_OPTIMIZER,   /* moments, step counts: all persistent state of training */
    CATEGORY_ACTIVATIONS, /* forward values that backward reads */
    CATEGORY_TEMPORARIES, /* every other value between two kernels */
    CATEGORY_SCRATCH,     /* what kernels need within one call */
    CATEGORY_INPUTS,      /* what the host hands in, reads ahead or reads back */
    CATEGORY_GAPS,        /* arena that packing leaves unused at the peak */
    CATEGORY_RUNTIME,     /* code, libraries, stacks, tables: a reserve */
    CATEGORY_CACHE,       /* keys and values of texts that are continued */
    CATEGORY_COUNT
} category;

const char *category_name(category c); /* "weights": the JSON key */

/* Of a tensor that owns its storage; `crosses`: made by a forward node and read by a later phase. */
category category_of(const graph *g, tensor_id owner, bool crosses);
