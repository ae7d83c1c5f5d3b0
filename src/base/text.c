#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static bool text_grow(text *t, size_t needed) {
    if (needed <= t->capacity) return true;
    size_t capacity = t->capacity ? t->capacity * 2 : 256;
    while (capacity < needed) capacity *= 2;
    char *data = memory_resize(t->data, capacity, 1);
    if (!data) return false;
    t->data = data;
    t->capacity = capacity;
    return true;
}

void text_add(text *t, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (n >= 0 && text_grow(t, t->length + (size_t)n + 1)) {
        vsnprintf(t->data + t->length, (size_t)n + 1, format, again);
        t->length += (size_t)n;
    } else {
        t->failed = true;
    }
    va_end(again);
}

bool text_reserve(text *t, size_t bytes) { return text_grow(t, bytes + 1); }

void text_add_quoted(text *t, const char *word) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=.,/:@%";
    if (*word && !word[strspn(word, plain)]) {
        text_add(t, "%s", word);
        return;
    }
    text_add(t, "'");
    for (; *word; word++) text_add(t, *word == '\'' ? "'\\''" : "%c", *word);
    text_add(t, "'");
}

void text_close(text *t) {
    memory_free(t->data);
    *t = (text){ 0 };
}

bool text_begins_with(const char *all, const char *start) { return strncmp(all, start, strlen(start)) == 0; }

bool text_ends_with(const char *all, const char *end) {
    size_t n = strlen(all), m = strlen(end);
    return n >= m && strcmp(all + n - m, end) == 0;
}
