/* Every technique beside plain training: what each takes alone, and what they come to together. Rows come
 * from the registry of passes and from the list of optimizers; none is named here.
 *
 * Alone, a technique that does not change numerics is shown by the setting that needs least, and a LOSSY one
 * by each of its settings, since no number of bytes chooses among those. Together, techniques are let go one
 * after the other in their order, first those that change no numerics, then the LOSSY ones that are allowed;
 * each row is the leanest plan of those so far. */
#pragma once

#include "train/train.h"

typedef enum {
    COMPARE_PLAIN,    /* no technique at all */
    COMPARE_ALONE,    /* one technique beside plain */
    COMPARE_LOSSLESS, /* all up to this one, none of them LOSSY */
    COMPARE_ALLOWED,  /* and the LOSSY ones that are allowed or pinned, up to this one */
    COMPARE_ASKED     /* what the planner chooses for the run as it was asked for */
} compare_group;

typedef struct {
    bool done;
    char why[160];       /* where it is not done */
    uint64_t peak_bytes; /* of its process, as the operating system counts it from outside */
    bool planned;        /* all categories but runtime were the planned ones, to the byte */
    double step_seconds; /* median */
    int64_t steps;
    double loss, validation; /* of the last step, before its update; after it. NAN: none */
} compare_measured;

typedef struct {
    compare_group group;
    char name[PASS_OPTION_BYTES + 32];     /* "--recompute"; "everything lossless" */
    char setting[PASS_SETTING_BYTES + 32]; /* "block"; "add, 4 x 1" */
    char choice[256];                      /* all settings of this row: "attention flash, recompute block" */
    pass_class class;                      /* of the plan */
    optimizer_kind optimizer;
    bool other_optimizer; /* than that of the run */
    bool ends;            /* the last of its group: everything that belongs to it */
    search_point point;   /* peak_bytes 0: it can't be planned */
    char why[160];        /* then; else what its memory is as much as: "no less than bf16" */
    uint64_t by_category[CATEGORY_COUNT];
    compare_measured measured;
} compare_row;

enum { COMPARE_ROWS = 3 * PASS_MAX };
typedef struct {
    compare_row rows[COMPARE_ROWS]; /* the first is plain */
    uint32_t count;
    bool any_allowed; /* a LOSSY technique is allowed or pinned */
} compare_table;

/* Plans all rows. STATUS_INVALID when the run as asked for can't be planned. */
status compare_plan(const setup *s, compare_table *t);

/* Trains the plan of one row, s->options.steps steps, in this process, and writes nothing. `s` is a setup of
 * the row's optimizer. Everything of `m` but its peak is filled. */
status compare_run(setup *s, const compare_row *row, const train_observer *o, compare_measured *m);
