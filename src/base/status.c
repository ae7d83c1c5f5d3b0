#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { WHOLE_BYTES = 6144 };
static _Thread_local char message[STATUS_SENTENCE];

/* A sentence that is too long loses its middle, where the long name stands: what is wrong with it and what to
 * do come at the end. */
static void shorten(const char *whole, size_t length) {
    static const char gap[] = " ... ";
    size_t half = (STATUS_SENTENCE - sizeof gap) / 2;
    memcpy(message, whole, half);
    memcpy(message + half, gap, sizeof gap - 1);
    memcpy(message + half + sizeof gap - 1, whole + length - half, half + 1);
}

/* Not straight into its place: what is quoted may be the last sentence itself. */
status status_set(status code, const char *format, ...) {
    char whole[WHOLE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(whole, sizeof whole, format, arguments);
    va_end(arguments);
    size_t length = strlen(whole);
    if (length < sizeof message)
        memcpy(message, whole, length + 1);
    else
        shorten(whole, length);
    return code;
}

status status_prefix(status code, const char *format, ...) {
    char before[WHOLE_BYTES - STATUS_SENTENCE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(before, sizeof before, format, arguments);
    va_end(arguments);
    return status_set(code, "%s: %s", before, message);
}

const char *status_message(void) { return message; }
