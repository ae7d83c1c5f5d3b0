/* Runs the program as a user does, and looks at what comes out. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "io/json.h"

typedef struct {
    int exit;               /* its exit code; -1: ended by a signal */
    char *out, *err;        /* what it wrote; free with command_free */
    uint64_t resident_peak; /* bytes, from the operating system */
} command_result;

/* `line`: arguments separated by blanks. Those of `with` (pairs NAME=VALUE, ended by NULL; may be NULL) are
 * added to an environment without any SNUG_ variable but SNUG_RATES=built-in, so that plans are the same
 * everywhere. */
command_result command_run_with(const char *line, const char *const *with);
command_result command_run(const char *line);
void command_free(command_result *r);

/* Runs it and expects the exit code; what it wrote is dropped. */
void command_expect(int code, const char *line);

/* Are these words in the text? A line that was broken between two of them, for being too wide, is no matter.
 */
bool command_has_words(const char *said, const char *words);

/* Whether it ends with that code and says these words, on stdout or stderr; prints what it said instead. */
bool command_says(const char *line, int code, const char *words);

/* The same in two parts; stdout goes to `out` (a file descriptor) or, for -1, to the file "out". */
pid_t command_start(const char *line, const char *const *with, int out);
command_result command_wait(pid_t pid);

/* The same of another program of the build, whole. */
command_result command_run_program(const char *program, const char *line, const char *const *with);

/* A line of the shell, which must end well. */
void command_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Of JSON text: the value at "predicted.by_category.weights". */
json_value command_value(const json_document *d, const char *path);
uint64_t command_number(const json_document *d, const char *path);

/* What a command writes with --json, to be closed; fails the test where it does not end well. */
json_document command_json(const char *line);
/* The string at a path of it, good until then. */
const char *command_string(const json_document *d, const char *path);

/* A file of 16-bit ids: the same `count` of them, `times` times. */
void command_write_ids(const char *path, const uint32_t *ids, size_t count, int times);

/* A number of what a command says with --json; fails the test where it does not end well. */
uint64_t command_asked(const char *line, const char *path);

/* What `snug plan … --json` gives as the least budget. */
uint64_t command_least_budget(const char *line);

/* In the working directory: "tiny/config.json", a model of two small blocks, "deep/config.json", one of 96,
 * and "text", some English-like 60 KB. */
void command_make_files(void);

/* An environment in which mpirun starts processes for a superuser too, and keeps its own files in the working
 * directory: two that begin at once may both make those in /tmp, of which one then fails. */
void command_allow_mpirun(void);
