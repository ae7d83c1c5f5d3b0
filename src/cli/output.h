/* Writing to stdout and stderr. A reader that went away (a closed pipe) is no failure: what follows is
 * dropped. A full disk is one, and the program says so at its end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/text.h"
#include "report/report.h"

enum { OUTPUT_WIDTH = 100, OUTPUT_LINE_BYTES = 2048 };

typedef struct {
    FILE *file; /* NULL: nothing is written */
    bool terminal, colour, unicode;
    bool begun; /* something was handed to it */
    bool gone;  /* the reader left */
    int error;  /* errno of a failed write; 0: none */
    int width;  /* lines are broken between words to be no wider; 0: they stay as they are */
    size_t held;
    char line[OUTPUT_LINE_BYTES]; /* the beginning of a line, where lines are broken; `held` bytes */
} output;

output output_of(FILE *file);
/* The same for text that people read: no line is wider than the terminal, elsewhere than OUTPUT_WIDTH. What
 * goes on in a further line begins below the last column of the first. */
output output_for_people(FILE *file);
void output_add(output *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
void output_bytes(output *o, const char *bytes, size_t count);
void output_text(output *o, text *t); /* writes and closes it */
void output_flush(output *o);
int output_columns(const output *o); /* of the terminal, else what COLUMNS says, else 80 */
static inline report_style output_style(const output *o) {
    return (report_style){ .colour = o->colour, .unicode = o->unicode };
}

/* STATUS_FAILED when something could not be written. */
status output_check(output *o);
