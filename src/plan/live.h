/* Lifetimes: which storages a program needs, and from which step to which. A storage holds one or more
 * tensors. Views, must-aliases and gathered parts share a storage by the graph. Here a result may also take
 * over the storage of an input that this step is the last to read, where its op allows that. Neither
 * persistent tensors nor those that are away are listed. */
#pragma once

#include "lower/lower.h"
#include "plan/category.h"

typedef struct {
    tensor_id owner;      /* 0: scratch of step `first` */
    uint32_t first, last; /* steps, inclusive */
    uint64_t bytes;       /* rounded up to LIVE_ALIGN */
    category category;
} live_storage;

enum { LIVE_ALIGN = 64 };

typedef struct {
    live_storage *storages;
    uint32_t count;
    uint32_t *of_tensor; /* by tensor: index of its storage; LIVE_NONE for those that are persistent, away or
                            unused */
} live_set;

#define LIVE_NONE UINT32_MAX

status live_of_program(const program *p, live_set *set); /* free with live_close */
void live_close(live_set *set);

/* The largest sum of bytes alive, the first step that reaches it, and the sums by category there. */
typedef struct {
    uint64_t bytes;
    uint32_t step;
    uint64_t by_category[CATEGORY_COUNT];
} live_peak;
status live_find_peak(const live_set *set, uint32_t steps, live_peak *peak);

/* The most bytes alive during forward and backward, updates left out. For bounds of the search. */
typedef struct {
    uint64_t all;           /* as the program is */
    uint64_t but_gradients; /* if each gradient lived only for the step that makes it */
} live_values;
status live_find_values(const live_set *set, const program *p, live_values *most);
