/* Bytes of unknown origin, shown as they come. On a terminal only whole characters go out, and what is no
 * character, or would command the terminal, is shown as U+FFFD. Elsewhere the bytes are written as they are.
 */
#pragma once

#include "cli/output.h"

typedef struct {
    output *out;
    char held[4]; /* the beginning of a character */
    size_t count;
} shown;

void shown_add(shown *s, const char *bytes, size_t count);
void shown_end(shown *s); /* what is held has no end to come */

/* A path as it can be copied into a shell; "DIR" where that can't be shown in one line. */
const char *shown_word(const char *path, char buffer[REPORT_NAME_BYTES]);
