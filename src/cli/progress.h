/* What people see while a run goes on: one live line on a terminal, plain lines now and then elsewhere. A
 * thread of its own writes them, so a terminal that is slow, stopped or gone costs the run nothing: lines
 * that it has not taken are dropped. Memory is fixed, PROGRESS_BYTES, within what every plan reserves for
 * output. */
#pragma once

#include "cli/output.h"

typedef struct progress progress;

enum { PROGRESS_QUEUE = 64, PROGRESS_BYTES = 96 << 10 };

/* `out` is the progress's until progress_close. `*p` is NULL, which the calls below accept, where nothing is
 * to be seen. */
status progress_open(output *out, progress **p);
void progress_step(progress *p, const train_progress *step);
void progress_say(progress *p, const char *format, ...) __attribute__((format(printf, 2, 3))); /* a line */
void progress_close(progress *p); /* waits for the terminal; clears the live line */

/* The line of a step that fits into `columns`: parts go by their importance. Bold where `colour`. */
enum { PROGRESS_LINE_BYTES = 320 };
void progress_line(const train_progress *s, int columns, bool colour, char line[PROGRESS_LINE_BYTES]);
