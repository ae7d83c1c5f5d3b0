#include "cli/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool speaks_unicode(void) {
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "utf-8");
    }
    return false;
}

static bool set(const char *name) {
    const char *value = getenv(name);
    return value && *value;
}

output output_of(FILE *file) {
    output o = { .file = file };
    const char *kind = getenv("TERM");
    o.terminal = file && isatty(fileno(file)) && kind && strcmp(kind, "dumb") != 0;
    o.colour = o.terminal && !set("NO_COLOR");
    o.unicode = o.terminal && speaks_unicode();
    return o;
}

/* After a failed write: nobody there is quiet, anything else is remembered. */
static void note(output *o, bool failed) {
    if (!failed || o->gone || o->error) return;
    if (errno == EPIPE || (errno == EIO && o->terminal)) /* a terminal that was closed says EIO */
        o->gone = true;
    else
        o->error = errno ? errno : EIO;
    clearerr(o->file);
}

static bool closed(const output *o) { return !o->file || o->gone || o->error; }

void output_add(output *o, const char *format, ...) {
    va_list arguments;
    if (closed(o)) return;
    va_start(arguments, format);
    errno = 0;
    note(o, vfprintf(o->file, format, arguments) < 0);
    va_end(arguments);
}

void output_bytes(output *o, const char *bytes, size_t count) {
    if (closed(o) || !count) return;
    errno = 0;
    note(o, fwrite(bytes, 1, count, o->file) != count);
}

void output_text(output *o, text *t) {
    if (t->failed && !o->error) o->error = ENOMEM;
    output_bytes(o, t->data ? t->data : "", t->length);
    text_close(t);
    output_flush(o);
}

void output_flush(output *o) {
    if (closed(o)) return;
    errno = 0;
    note(o, fflush(o->file) != 0);
}

int output_columns(const output *o) {
    struct winsize size;
    if (o->file && ioctl(fileno(o->file), TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
    const char *said = getenv("COLUMNS");
    int columns = said ? atoi(said) : 0;
    return columns > 20 && columns < 10000 ? columns : 80;
}

status output_check(output *o) {
    output_flush(o);
    if (!o->error) return STATUS_OK;
    return status_set(STATUS_FAILED, "cannot write the output: %s", strerror(o->error));
}
