/* What answer.c and answer_told.c share: parts of answers, into the writer's line. */
#pragma once

#include "server/answer.h"

/* The quoted string without its quotes. Bytes that are no text become U+FFFD; one more is written behind
 * them. */
void answer_escape(text *line, char *bytes, size_t count);
/* What was held back and these, up to the last whole character; the rest is held back. */
void answer_add_text(text *line, job *j, const char *bytes, size_t count, bool all);
/* Up to the list of choices. */
void answer_begin(text *line, const job *j, const char *kind);
void answer_usage(text *line, const job *first);
const char *answer_reason(const job *j);
/* The beginning of a choice of a whole answer; the first one's is that of all. */
void answer_begin_choice(text *line, const job *j);
/* The end of the text of a whole answer, and all behind it. */
void answer_end_text(answer_writer *w, job *j);
/* The next part of a text's vector. */
void answer_vector(answer_writer *w, job *j, bool *done);
/* Behind all vectors. */
void answer_close_vectors(answer_writer *w, const job *first);
bool answer_is_alone(const job *j); /* the only answer to its request */
/* The line goes into the ring. */
void answer_put(answer_writer *w, job *j);
