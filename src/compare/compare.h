/* Every technique beside plain training: what each takes alone, and what they come to together. Rows come
 * from the registry of passes, none of which is named here, from the list of optimizers, and from options of
 * the run that people turn to when memory runs out: its sizes, its loader, validation.
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

/* What a row's run has other than the one that was asked for. */
typedef struct {
    bool optimizer;         /* that of the row */
    int64_t batch, context; /* 0: as asked for, as the following */
    int64_t eval_batch, workers;
    bool eval_only; /* validation alone, whose time no step's can be compared with */
} compare_other;

typedef struct {
    compare_group group;
    char name[PASS_OPTION_BYTES + 32];     /* "--recompute"; "everything lossless" */
    char setting[PASS_SETTING_BYTES + 32]; /* "block"; "add, 4 x 1" */
    char choice[256];                      /* all settings of this row: "attention flash, recompute block" */
    pass_class class;                      /* of the plan */
    optimizer_kind optimizer;
    compare_other other;
    bool ends;          /* the last of its group: everything that belongs to it */
    search_point point; /* peak_bytes 0: it can't be planned */
    char why[160];      /* then; else what its memory is as much as: "no less than bf16" */
    uint64_t by_category[CATEGORY_COUNT];
    uint32_t unconfirmed; /* of its plan (run/unconfirmed.h) */
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

/* The options of the row's run, from those that were asked for. */
setup_options compare_options(const setup_options *asked, const compare_row *row);

/* Trains the plan of one row, s->options.steps steps, in this process, and writes nothing. `s` is a setup of
 * compare_options. Everything of `m` but its peak is filled. */
status compare_run(setup *s, const compare_row *row, const train_observer *o, compare_measured *m);
