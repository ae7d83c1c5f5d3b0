/* The commands of a shell script, as far as they can be known without running any of it.
 *
 * Quotes, continued lines, comments, here-documents, variables and arrays that the script sets, arguments
 * ($1, $@) and sums of whole numbers are resolved. What only a shell can know (the output of a command, a
 * variable of the environment, the value that a branch has set) is unsure: such a word keeps what is known
 * of it, with '?' in the place of the rest. Nothing is executed and no file is opened.
 *
 * The script may be hostile: words, variables and the work of expanding them have limits, and a script that
 * meets one is `cut`. Nothing recurses. */
#pragma once

#include "base/status.h"
#include "base/text.h"

enum {
    SHELL_SCRIPT_BYTES = 4 << 20, /* what Slurm takes by default */
    SHELL_MOST_WORDS = 512,
    SHELL_COMMAND_BYTES = 1 << 16, /* of all words of one command */
    SHELL_VALUE_BYTES = 1 << 14,
    SHELL_MOST_VARIABLES = 256,
    SHELL_WORK_BYTES = 1 << 26 /* of all that is expanded in one script */
};

typedef struct {
    char *text;
    bool unsure; /* something of it is not known */
    bool quoted; /* so it is no keyword */
} shell_word;

typedef struct {
    shell_word words[SHELL_MOST_WORDS];
    uint32_t count;
    bool maybe;    /* it runs only if something holds: a branch, a loop, a function, behind && or || */
    bool fed;      /* its standard input is written in the script */
    bool cut;      /* it has more than is kept */
    bool child;    /* it runs in brackets: what it changes is gone behind them */
    bool prefixed; /* NAME=value stands before it */
    bool hides;    /* of these one that may hide the devices */
} shell_command;

/* Of a variable, of arguments together ("a\x1f""b" are two words), or of one argument. */
typedef struct {
    char *name, *value;
    bool unsure, exported;
} shell_variable;

typedef struct shell shell;

enum { SHELL_MOST_FUNCTIONS = 64, SHELL_MOST_LOCALS = 64, SHELL_MOST_CALLS = 4, SHELL_MOST_FILES = 8 };

typedef struct {
    char *name, *body;
    size_t bytes;
    bool maybe, called; /* maybe: whether it is defined depends on something */
} shell_function;

/* A file that the script writes by a here-document. */
typedef struct {
    char *name, *text; /* '?' in the place of what is not known */
} shell_file;

/* How far a text was read: to its end, or to an "exit" that may happen, or that does. */
typedef enum { SHELL_RUNS, SHELL_MAY_HAVE_ENDED, SHELL_HAS_ENDED } shell_end;

/* A command that is no assignment and no keyword. True: no more is read ("exit"). Words are the shell's own
 * and change with the next command. */
typedef bool shell_each(void *context, shell *s, const shell_command *c);

struct shell {
    shell_each *each;
    void *context;
    shell_variable variables[SHELL_MOST_VARIABLES];
    uint32_t count;
    shell_function functions[SHELL_MOST_FUNCTIONS];
    uint32_t function_count, redefined;
    shell_variable locals[SHELL_MOST_LOCALS]; /* what "local" has hidden; value NULL: there was none */
    uint32_t local_count;
    shell_file files[SHELL_MOST_FILES];
    uint32_t file_count;
    uint32_t calls; /* functions within functions, now */
    bool doubtful;  /* a '?' of the text that is read stands for something that is not known */
    shell_end ends; /* of what was read last */
    uint64_t work;
    bool cut; /* a limit was met: something of the script was not looked at */
};

/* Puts in `value` for a variable; of one set by a branch (`maybe`) what it is stays unsure. */
void shell_set(shell *s, const char *name, const char *value, bool unsure);
const shell_variable *shell_find(const shell *s, const char *name); /* NULL: it is not set in the script */
/* $1 and those behind it, $@, $* and $#. `unsure`: of each; NULL: none is. */
void shell_set_arguments(shell *s, const char *const *arguments, const bool *unsure, uint32_t count);
/* What they are now is not known. All variables, but for what Slurm itself sets; the arguments, set or not.
 */
void shell_doubt(shell *s);
void shell_doubt_arguments(shell *s);
void shell_doubt_unexported(shell *s); /* what a shell of its own does not have */
void shell_export(shell *s, const char *name);
void shell_shift(shell *s, uint32_t count, bool unsure);

/* Arguments and local variables of whoever calls: between the two there are others. */
typedef struct {
    shell_variable *arguments;
    uint32_t count, locals;
} shell_frame;
void shell_begin_frame(shell *s, shell_frame *f);
void shell_end_frame(shell *s, shell_frame *f);
/* A shell of its own ends: the functions from `count` on are gone with it. */
void shell_drop_functions(shell *s, uint32_t count);

/* Functions that nobody has called: each may be, from outside. To be read last. */
status shell_read_uncalled(shell *s);
/* NULL: the script writes no such file, or what it writes is not known. */
const char *shell_written(const shell *s, const char *name);

/* Walks over the text; `maybe`: all of it runs only if something holds. Variables stay set. STATUS_FAILED: no
 * memory. */
status shell_read(shell *s, const char *all, size_t bytes, bool maybe);
void shell_close(shell *s);
