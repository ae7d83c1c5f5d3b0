#include "cli/shown.h"

#include <string.h>

#include "base/utf8.h"

static const char replacement[] = "\xef\xbf\xbd";

/* Bytes of the character that begins like this; 1 where none does. */
static size_t length_by_first(unsigned char c) {
    return c >= 0xf0 && c <= 0xf4 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 && c < 0xe0 ? 2 : 1;
}

/* C0 and C1 controls and DEL; lines and tabs are welcome. */
static bool commands_terminal(const char *s, size_t length) {
    unsigned char c = (unsigned char)*s;
    if (length == 2) return c == 0xc2 && (unsigned char)s[1] < 0xa0;
    return length == 1 && ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f);
}

static void show_character(shown *s) {
    size_t length = utf8_length(s->held, s->count);
    if (length == 0 || commands_terminal(s->held, length))
        output_bytes(s->out, replacement, sizeof replacement - 1);
    else
        output_bytes(s->out, s->held, length);
    size_t used = length ? length : 1;
    memmove(s->held, s->held + used, s->count - used);
    s->count -= used;
}

/* The held bytes are not the beginning of a character that a further byte could complete. */
static bool is_decided(const shown *s) {
    if (s->count >= length_by_first((unsigned char)s->held[0])) return true;
    for (size_t i = 1; i < s->count; i++)
        if (((unsigned char)s->held[i] & 0xc0) != 0x80) return true;
    return false;
}

void shown_add(shown *s, const char *bytes, size_t count) {
    if (!s->out->terminal) {
        output_bytes(s->out, bytes, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        s->held[s->count++] = bytes[i];
        while (s->count && is_decided(s)) show_character(s);
    }
}

const char *shown_word(const char *path, char buffer[REPORT_NAME_BYTES]) {
    text t = { 0 };
    text_add_quoted(&t, path);
    if (!t.data || t.length >= REPORT_NAME_BYTES || strcmp(report_name(t.data, buffer), t.data) != 0)
        strcpy(buffer, "DIR");
    text_close(&t);
    return buffer;
}

void shown_end(shown *s) {
    while (s->count) show_character(s);
}
