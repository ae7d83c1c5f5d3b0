/* Finding words and sizes in a piece of text that has no end but its length. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *at, *end;
} span;

span span_behind(span s, const char *word);     /* behind the next `word`; at NULL: there is none */
span span_behind_any(span s, const char *word); /* capital or small alike */
bool span_has(span s, const char *word);        /* capital or small alike */
span span_line(span *rest);                     /* the next line, without its end; at NULL: there is none */
bool span_number(span *s, double *out);         /* at the beginning, after blanks; false: there is none */
uint64_t span_size(span s);                     /* a number with a unit, in bytes; 0: there is none */
uint64_t span_size_before(span s, const char *word); /* that stands right before `word` */
int64_t span_count(span s, int64_t absent);
/* Blanks, ends of lines and the frames that tracebacks are drawn in become one blank. `room` of out is enough
 * for what fits; the rest is cut. */
span span_flat(span s, char *out, size_t room);
