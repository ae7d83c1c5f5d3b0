#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 1024 };
static _Thread_local char message[MESSAGE_BYTES];

status status_set(status code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
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
