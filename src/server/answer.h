/* The answer of a job, as OpenAI's API has it: whole, or in events as it is written. Both go through the
 * job's ring as they come, so an answer takes no memory but that. */
#pragma once

#include "base/text.h"
#include "infer/language.h"
#include "server/job.h"

typedef struct {
    const char *model;
    text line;            /* what is written next: room for the longest piece */
    uint32_t piece_bytes; /* of text that a token adds, at most */
    text told;            /* of the token that came, until an event has it */
    uint64_t told_bytes;  /* that it has, at most */
} answer_writer;

/* Bytes of a ring that one more token, or the end, may need. */
size_t answer_room(const answer_writer *w);
/* The line's memory: asked for once. STATUS_FAILED where there is none. */
status answer_open(answer_writer *w, const char *name, uint32_t piece_bytes, uint64_t told_bytes);
void answer_close(answer_writer *w);
uint64_t answer_bytes(const char *name, uint32_t piece_bytes, uint64_t told_bytes); /* what that is */

/* More of the text; and its end, for the reason in j->end. There must be answer_room in the ring. */
void answer_add(answer_writer *w, job *j, const char *bytes, size_t count);
void answer_end(answer_writer *w, job *j);
/* Behind several answers, in the ring of the last: what stands behind all of them. */
void answer_close_group(answer_writer *w, job *first);

/* More of a text as it stands within a JSON string, into the line, up to its last whole character; `all`: it
 * ends here. At most 1024 bytes at once. */
void answer_text(answer_writer *w, job *j, const char *bytes, size_t count, bool all);

/* ---- answers with logarithms: answer_told.c ---- */

/* Is the text told behind what was told of its tokens? Or it is a vector (answer_vector.c), told at its end.
 */
bool answer_holds(const job *j);
/* What is told of a token, at most, in bytes: of `count` tokens, whose words have so many `letters` together.
 */
status answer_told_most(const language *l, int64_t count, uint64_t *bytes, uint64_t *letters);
/* A token came: it is told with the next of the text, or at once where that is held. */
status answer_tell(answer_writer *w, job *j, const language *l, const sample_drawn *d);
/* Nothing of the text came with it. */
void answer_told(answer_writer *w, job *j);
/* Where answer_more begins, of job.phase. */
int answer_first_phase(const job *j);
/* Before it goes on, of a text that has no place in the engine any more: who reads beside texts has its. */
status answer_resume(const job *j, const language *l);
/* Of an answer that holds its text and has ended: the next part of the rest, which answer_room is enough for.
 * *done: that was the last. */
status answer_more(answer_writer *w, job *j, const language *l, bool *done);

/* Instead of the end: the text cannot go on. A whole answer of which nothing was read yet becomes the error.
 */
void answer_fail(answer_writer *w, job *j, const char *sentence);

/* {"error": {...}} as OpenAI has it, into the line. `field` "": none. */
const char *answer_error(answer_writer *w, const char *kind, const char *sentence, const char *field);
