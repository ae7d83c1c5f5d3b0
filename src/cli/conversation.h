/* generate --chat: what a user says becomes the text that a model is to go on with, by the chat template of
 * its directory. A conversation begins with --system or with the messages of --chat-file; then users and the
 * model take turns. */
#pragma once

#include "cli/options.h"

typedef struct conversation conversation;

/* STATUS_INVALID where the directory has no chat template, and for a file that is no conversation. Close it
 * in any case. */
status conversation_open(const options *o, conversation **c);
void conversation_close(conversation *c); /* NULL is fine */

/* The beginning and what a user says, which is not kept; `line` NULL: the beginning alone, which must have a
 * message. memory_free the text. */
status conversation_once(conversation *c, const char *line, char **written);

/* Turns that go on, in memory that is known: what is said, all of it, has at most so many bytes
 * (conversation_longest, with what stands around each message), else STATUS_INVALID. */
void conversation_bound(conversation *c, uint64_t bytes);
uint64_t conversation_longest(const conversation *c); /* bytes of a text; of such conversations */
/* Memory held: at once, or at most where there is a bound. */
uint64_t conversation_bytes(const conversation *c);

/* A user's turn: the text that the model is to go on with, until the next call. */
status conversation_say(conversation *c, const char *line, const char **written);
/* The model's turn; bytes that are no text become U+FFFD, as they are shown. */
status conversation_answer(conversation *c, const char *words, size_t bytes);
