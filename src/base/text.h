/* Text that grows: for reports, JSON and messages. A failed allocation truncates and is remembered. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *data; /* always terminated once something was added; NULL before */
    size_t length, capacity;
    bool failed;
} text;

void text_add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool text_reserve(text *t,
                  size_t bytes); /* text up to this length takes no more memory; false: there is none */
/* As a shell reads it back: in quotes where it needs them. */
void text_add_quoted(text *t, const char *word);
void text_close(text *t);

bool text_begins_with(const char *all, const char *start);
bool text_ends_with(const char *all, const char *end);
