/* The tokenizer of a model directory, in the words of GGUF (tokenizer.ggml.*):
 *
 *   "gpt2"   BPE of bytes, with "pre", a name by which llama.cpp knows the pattern that text is cut by
 *   "llama"  BPE of characters that falls back to bytes, as of SentencePiece: each token has a score, and of
 *            the pairs that stand side by side in a text that of the highest score becomes one token
 *   "rwkv"   the longest token that fits: of bytes alone, where the directory has no tokenizer
 *
 * What llama.cpp would do otherwise is refused by name; what differs in rare texts alone is said. Tokens and
 * merges are not held: they come from the open tokenizer and from its file as they are written. */
#pragma once

#include "base/text.h"
#include "io/gguf_write.h"
#include "models/families.h"

typedef struct export_vocabulary export_vocabulary;

/* STATUS_INVALID for what can't be said. Close in any case. `notes` gets sentences for people, a line each.
 */
status export_vocabulary_open(const char *directory, const model_config *c, export_vocabulary **v,
                              text *notes);
void export_vocabulary_close(export_vocabulary *v); /* NULL is fine */

const char *export_vocabulary_name(const export_vocabulary *v); /* "gpt2", "llama", "rwkv" */
uint64_t export_vocabulary_held(const export_vocabulary *v);    /* of memory */

/* Does the tokenizer have this token? */
bool export_vocabulary_has(const export_vocabulary *v, const char *token);

/* All keys of the tokenizer. */
status export_vocabulary_put(export_vocabulary *v, gguf_writer *w);
