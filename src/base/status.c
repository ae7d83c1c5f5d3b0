#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 1024, WHOLE_BYTES = 6144 };
static _Thread_local char message[MESSAGE_BYTES];

/* A sentence that is too long loses its middle, where the long name stands: what is wrong with it and what to
 * do come at the end. */
static void shorten(const char *whole, size_t length) {
    static const char gap[] = " ... ";
    size_t half = (MESSAGE_BYTES - sizeof gap) / 2;
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
    char old[MESSAGE_BYTES];
    memcpy(old, message, sizeof old);
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (n < 0 || (size_t)n + 3 > sizeof message) return code;
    size_t room = sizeof message - (size_t)n - 3, length = strnlen(old, room); /* what is too long is cut */
    memcpy(message + n, ": ", 2);
    memcpy(message + n + 2, old, length);
    message[(size_t)n + 2 + length] = 0;
    return code;
}

const char *status_message(void) { return message; }
