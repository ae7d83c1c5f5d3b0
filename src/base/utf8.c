#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

size_t utf8_length(const char *s, size_t n) {
    const unsigned char *b = (const unsigned char *)s;
    if (n == 0) return 0;
    if (b[0] < 0x80) return 1;
    size_t length = b[0] >= 0xc2 && b[0] < 0xe0 ? 2 : b[0] >= 0xe0 && b[0] < 0xf0 ? 3 : 4;
    if (b[0] < 0xc2 || b[0] > 0xf4 || n < length) return 0;
    for (size_t i = 1; i < length; i++)
        if ((b[i] & 0xc0) != 0x80) return 0;
    /* The second byte alone tells overlong forms, surrogates and too large values. */
    if (b[0] == 0xe0 && b[1] < 0xa0) return 0;
    if (b[0] == 0xed && b[1] > 0x9f) return 0;
    if (b[0] == 0xf0 && b[1] < 0x90) return 0;
    if (b[0] == 0xf4 && b[1] > 0x8f) return 0;
    return length;
}

size_t utf8_encode(unsigned long point, char out[4]) {
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = length; i-- > 1; point >>= 6) out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)(lead[length] | point);
    return length;
}

static bool control(const char *s, size_t length) {
    unsigned char first = (unsigned char)s[0];
    return length == 1 ? first < 0x20 || first == 0x7f : first == 0xc2 && (unsigned char)s[1] < 0xa0;
}

const char *utf8_quote(const char *name, char out[UTF8_QUOTE_BYTES]) {
    size_t left = strlen(name), used = 0;
    while (left > 0) {
        size_t length = utf8_length(name, left), step = length ? length : 1;
        if (used + step + sizeof "..." > UTF8_QUOTE_BYTES) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        if (length == 0 || control(name, length)) {
            out[used++] = '?';
        } else {
            memcpy(out + used, name, length);
            used += length;
        }
        name += step;
        left -= step;
    }
    out[used] = '\0';
    return out;
}

void utf8_clean(char *text) {
    char *to = text;
    for (size_t left = strlen(text); left > 0;) {
        size_t length = utf8_length(text, left), step = length ? length : 1;
        if (length == 0 || control(text, length))
            *to++ = '?';
        else
            for (size_t i = 0; i < length; i++) *to++ = text[i];
        text += step;
        left -= step;
    }
    *to = '\0';
}
