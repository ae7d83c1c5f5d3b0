/* The one table of options: parsing, --help, the names of environment variables and what is said of mistakes
 * all come from it. Options of techniques come from their registry, so a new technique has its option by
 * existing. */
#pragma once

#include <stddef.h>

#include "train/setup.h"

typedef enum {
    COMMAND_PLAN = 1,
    COMMAND_TRAIN = 2,
    COMMAND_GENERATE = 4,
    COMMAND_PROFILE = 8,
    COMMAND_DEVICES = 16
} command;

/* What a command line says, at its defaults before. */
typedef struct {
    const char *subject; /* MODEL or DIR */
    setup_options run;
    const char *prompt; /* generate: */
    int64_t tokens, top_k;
    double temperature;
    int64_t profile_steps; /* profile: */
    const char *trace;
    bool json, measure, listing, quiet, help;
} options;

typedef enum {
    GROUP_MEMORY,
    GROUP_MODEL,
    GROUP_TECHNIQUES,
    GROUP_DATA,
    GROUP_TRAINING,
    GROUP_TEXT,
    GROUP_OUTPUT,
    GROUP_COUNT
} option_group;

/* How a value is read and stored at `offset` in options. */
typedef enum {
    OPTION_FLAG,    /* bool; takes no value */
    OPTION_TEXT,    /* const char * */
    OPTION_INTEGER, /* int64_t */
    OPTION_NUMBER,  /* double */
    OPTION_BYTES,   /* uint64_t */
    OPTION_CHOICE,  /* an enum, by the order of `words` */
} option_kind;

typedef struct {
    const char *name, *hint, *help; /* "batch", "N"; one line */
    const char *words;              /* of a choice: "adamw, sgd"; of a technique: its settings */
    const char *word;               /* written instead of a number, and is stored as `meaning` */
    const char *fallback;           /* the default in words, where the stored one says little */
    double meaning, low, high;
    size_t offset;
    size_t word_flag; /* a bool that the word sets as well; 0: none */
    option_group group;
    option_kind kind;
    unsigned commands;
} option;

enum { OPTIONS_MOST = 48 + PASS_MAX };
typedef struct {
    option rows[OPTIONS_MOST];
    uint32_t count;
    char names[PASS_MAX][PASS_OPTION_BYTES];
} option_table;

void options_table(option_table *t);
options options_defaults(void);

/* Environment first, then the command line, which wins. `arguments` begin behind the command. STATUS_INVALID
 * with a sentence. Texts stay the caller's. */
status options_read(const option_table *t, command c, int count, char **arguments, options *o);

/* Reads one value into its field; `name` is what the sentence calls it ("--batch", "SNUG_BATCH"). */
status options_store(const option *row, const char *name, const char *value, options *o);

/* "SNUG_MICRO_BATCH" of "micro-batch". */
enum { OPTION_NAME_BYTES = 64 };
const char *options_environment(const option *row, char buffer[OPTION_NAME_BYTES]);

/* The default as people write it, "" for none. */
const char *options_default(const option *row, const options *defaults, char buffer[OPTION_NAME_BYTES]);
const char *options_group_name(option_group g);

/* Which of `count` words is near enough to be meant by `word`; NULL: none. `word_at(context, i)` gives them,
 * NULL for those that don't count. */
const char *options_nearest(const char *word, uint32_t count,
                            const char *(*word_at)(const void *context, uint32_t i), const void *context);
