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

output output_for_people(FILE *file) {
    output o = output_of(file);
    o.width = o.terminal ? output_columns(&o) : OUTPUT_WIDTH;
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

static void write_bytes(output *o, const char *bytes, size_t count) {
    if (closed(o) || !count) return;
    errno = 0;
    note(o, fwrite(bytes, 1, count, o->file) != count);
}

/* ---- lines that are too wide ---- */

/* Bytes of what takes no column at `at`: an escape sequence of colours, or the rest of a character. */
static size_t unseen(const char *at, const char *end) {
    const char *from = at;
    if (end - at > 1 && at[0] == '\033' && at[1] == '[') {
        for (at += 2; at < end && !(*at >= '@' && *at <= '~'); at++) {}
        return (size_t)(at < end ? at + 1 - from : at - from);
    }
    while (at < end && ((unsigned char)*at & 0xc0) == 0x80) at++;
    return (size_t)(at - from);
}

/* Where the part that fits ends: at the last blank that is no further than `room` columns, else at the first
 * one; behind `least` columns. */
static const char *break_of(const char *at, const char *end, int room, int least) {
    const char *last = NULL;
    int column = 0;
    while (at < end) {
        size_t skip = unseen(at, end);
        if (skip) {
            at += skip;
            continue;
        }
        if (*at == ' ' && column > least && (column <= room || !last)) last = at;
        if (++column > room && last) return last;
        at++;
    }
    return column > room ? last : NULL;
}

/* Further lines begin below the last column of a table that starts in the first two thirds of the line, or
 * where the line itself begins. */
static int hang_of(const char *line, const char *end, int width) {
    int column = 0, blanks = 0, hang = 0;
    for (const char *at = line; at < end && column < 2 * width / 3;) {
        size_t skip = unseen(at, end);
        if (skip) {
            at += skip;
            continue;
        }
        if (*at != ' ' && (blanks > 1 || column == blanks)) hang = column;
        blanks = *at++ == ' ' ? blanks + 1 : 0;
        column++;
    }
    return hang;
}

/* Writes what is held; `whole`: it is a line that has come to its end. */
static void let_go(output *o, bool whole) {
    const char *at = o->line, *end = o->line + o->held;
    bool live = memchr(o->line, '\r', o->held) != NULL;
    int hang = whole && !live ? hang_of(at, end, o->width) : 0, room = o->width;
    for (const char *stop; whole && !live && (stop = break_of(at, end, room, at == o->line ? hang : 0));) {
        char indent[OUTPUT_WIDTH * 4];
        int n = snprintf(indent, sizeof indent, "\n%*s", hang, "");
        const char *last = stop; /* of a gap between columns nothing stays */
        while (last > at && last[-1] == ' ') last--;
        write_bytes(o, at, (size_t)(last - at));
        write_bytes(o, indent, n < (int)sizeof indent ? (size_t)n : sizeof indent - 1);
        for (at = stop; at < end && *at == ' '; at++) {}
        room = o->width - hang;
    }
    write_bytes(o, at, (size_t)(end - at));
    o->held = 0;
}

static void hold(output *o, const char *bytes, size_t count) {
    while (count) {
        const char *stop = memchr(bytes, '\n', count);
        size_t length = stop ? (size_t)(stop - bytes) : count;
        if (o->held + length > sizeof o->line) {
            let_go(o, false);
            write_bytes(o, bytes, length);
        } else {
            memcpy(o->line + o->held, bytes, length);
            o->held += length;
        }
        if (!stop) return;
        let_go(o, true);
        write_bytes(o, "\n", 1);
        bytes += length + 1, count -= length + 1;
    }
}

/* ---- writing ---- */

void output_bytes(output *o, const char *bytes, size_t count) {
    if (closed(o) || !count) return;
    o->begun = true;
    if (o->width)
        hold(o, bytes, count);
    else
        write_bytes(o, bytes, count);
}

static void add_formatted(output *o, const char *format, va_list arguments) {
    va_list again;
    char few[OUTPUT_LINE_BYTES];
    va_copy(again, arguments);
    int n = vsnprintf(few, sizeof few, format, arguments);
    if (n >= 0 && n < (int)sizeof few) {
        output_bytes(o, few, (size_t)n);
    } else {
        let_go(o, false);
        errno = 0;
        note(o, vfprintf(o->file, format, again) < 0);
    }
    va_end(again);
}

void output_add(output *o, const char *format, ...) {
    va_list arguments;
    if (closed(o)) return;
    o->begun = true;
    va_start(arguments, format);
    add_formatted(o, format, arguments);
    va_end(arguments);
}

void output_text(output *o, text *t) {
    if (t->failed && !o->error) o->error = ENOMEM;
    output_bytes(o, t->data ? t->data : "", t->length);
    text_close(t);
    output_flush(o);
}

void output_flush(output *o) {
    if (closed(o)) return;
    let_go(o, false);
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
