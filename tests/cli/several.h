/* Runs the program as several processes that train together, as a user starts them: mpirun, in the working
 * directory. What they say goes to the file "said". */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A group's setup: a scratch folder with the files of command_make_files, and an environment in which mpirun
 * starts as many processes as a test wants. And its teardown. */
int several_open(void **state);
int several_close(void **state);

/* There is no MPI: says so. */
bool several_left_out(void);

/* The exit code of `ranks` processes `snug LINE`; -1: ended by a signal. _as: with words of mpirun or the
 * environment before it ("env A=B") and after it ("-wdir x"). _each: every process its own line. */
int several_start(int ranks, const char *line);
int several_start_as(const char *before, const char *after, int ranks, const char *line);
int several_start_each(int ranks, const char *const lines[]);

/* What mpirun is to start, whole: "-n 1 A : -n 1 B". */
int several_start_whole(const char *whole);
#define SEVERAL_SNUG SNUG_BUILD "/snug"

char *several_said(void);
int several_times(const char *all, const char *words); /* that the words stand there */

/* Fails the test unless they end with that code and one sentence, which has these words. */
void several_refused(int ranks, const char *line, int code, const char *words);
void several_refused_each(int ranks, const char *const lines[], int code, const char *words);

/* Losses of training and of validation in two runs' folders have the same bits. */
void several_same_losses(const char *a, const char *b);

/* All tensors of a file, or of several with an index, in two runs' folders, however they are divided. "": of
 * the model. */
void several_same_tensors(const char *one, const char *other, const char *path, const char *path_of_other);

/* Every rank kept to its plan, and that to what all said. */
void several_kept_to_plans(const char *folder, int ranks);

/* For the shell: the processes whose command matches, of those that run in the working directory or below it.
 * Tests run side by side, and folders of several have the same names: none may signal another's. */
#define SEVERAL_PIDS(pattern)                                                                                \
    "$(for p in $(pgrep -f '" pattern "'); do case $(readlink /proc/$p/cwd)/ in ($(pwd -P)/*) echo $p;; "    \
    "esac; done)"
#define SEVERAL_TRAINING(folder) SEVERAL_PIDS("^[^ ]*/snug train .*--out " folder "( |$)")
#define SEVERAL_ONE(folder) "$(echo " SEVERAL_TRAINING(folder) " | grep -o '[0-9]*$')" /* the last begun */
#define SEVERAL_RANK(folder, rank)                                                                           \
    "$(for p in " SEVERAL_TRAINING(folder) "; do grep -qz '^OMPI_COMM_WORLD_RANK=" rank "$' "                \
                                           "/proc/$p/environ && echo $p; done)"

/* Fails the test where a process `snug train … --out FOLDER` is still there after so many seconds. */
void several_all_gone(const char *folder, double seconds);
