/* Writing to stdout and stderr. A reader that went away (a closed pipe) is no failure: what follows is
 * dropped. A full disk is one, and the program says so at its end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/text.h"
#include "report/report.h"

typedef struct {
    FILE *file; /* NULL: nothing is written */
    bool terminal, colour, unicode;
    bool gone; /* the reader left */
    int error; /* errno of a failed write; 0: none */
} output;

output output_of(FILE *file);
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
