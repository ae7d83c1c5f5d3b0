/* Text that grows, with spans that say where its pieces are from. */
#pragma once

#include "text/template/value.h"

struct builder {
    char *bytes;
    size_t length, room;
    value_span *spans;
    uint32_t span_count, span_room;
    uint32_t closed;   /* so many spans don't grow: what is written next begins a new one */
    value_origin turn; /* what text of no origin gets */
};

status builder_add(run *r, builder *b, const char *bytes, size_t n, value_origin origin);
status builder_add_word(run *r, builder *b, const char *word, value_origin origin);
status builder_add_part(run *r, builder *b, const value *text, size_t begin, size_t end);
status builder_add_text(run *r, builder *b, const value *text); /* a VALUE_TEXT */
status builder_value(run *r, const builder *b, value *out);
