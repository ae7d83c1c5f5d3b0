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
    if (n >= 0 && (size_t)n < sizeof message) snprintf(message + n, sizeof message - (size_t)n, ": %s", old);
    return code;
}

const char *status_message(void) { return message; }
