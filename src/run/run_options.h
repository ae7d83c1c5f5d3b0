/* A row for each field of setup_options: its name, and whether a resumed run may have another value. The
 * identity of a run (train/identity.h) is made of these rows: each field that is not FREE is part of it. So
 * no option can be forgotten: tests demand a row for every option of 'snug train' and for every byte of
 * setup_options. */
#pragma once

#include "run/setup.h"

typedef enum {
    RUN_OPTION_INTEGER, /* int64_t */
    RUN_OPTION_NUMBER,  /* double */
    RUN_OPTION_BYTES,   /* uint64_t */
    RUN_OPTION_FLAG,    /* bool */
    RUN_OPTION_CHOICE,  /* an enum, with names */
    RUN_OPTION_POINTER  /* a text, or something of the caller's */
} run_option_kind;

typedef enum {
    RUN_OPTION_FIXED,   /* with another value it is another run: refused */
    RUN_OPTION_FALLING, /* FIXED, unless the learning rate is constant */
    RUN_OPTION_KNOWN,   /* FIXED, but compared by content: facts of the model, digests of data */
    RUN_OPTION_FREE     /* may change: weights stay the same, or the resume says what changes (resume.h) */
} run_option_part;

typedef struct {
    const char *name; /* of the option, without "--" */
    run_option_kind kind;
    run_option_part part;
    size_t offset, bytes;            /* in setup_options */
    const char *(*word)(int choice); /* of a CHOICE: its name; NULL: others */
} run_option;

const char *run_options_pack_word(int choice); /* of a pack_kind, as --pack takes it */

/* Ends with a row without a name. */
extern const run_option run_options[];
