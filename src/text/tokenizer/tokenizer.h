/* Text to tokens and back, as a tokenizer.json says: the file of the tokenizers library, read so that ids and
 * decoded text are the same as the library's. docs/tokenizers.md has what is known of such files.
 *
 * A file is read twice. The first reading counts what the second one will keep, so that all tables are one
 * block whose size is known before it is asked for; nothing is allocated per token. An open tokenizer never
 * changes and may be used by several threads; each of them has its own tokenizer_work.
 *
 * Fails with STATUS_INVALID and a sentence that names the file, the part and the place where a file holds
 * what is not known or contradicts itself, with STATUS_NO_FIT where there is no memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json_reader.h"
#include "base/status.h"

typedef struct tokenizer tokenizer;
typedef struct tokenizer_work tokenizer_work;

enum { TOKENIZER_NONE = UINT32_MAX }; /* no id */

/* What tokenizer_open will hold, in bytes: its tables and its patterns. One reading of the file. */
status tokenizer_measure(const json_source *file, uint64_t *bytes);

/* `file` is needed only while this runs. Free with tokenizer_close. */
status tokenizer_open(const json_source *file, tokenizer **t);
void tokenizer_close(tokenizer *t);           /* NULL is fine */
uint64_t tokenizer_bytes(const tokenizer *t); /* what it holds: as was measured */

uint32_t tokenizer_size(const tokenizer *t); /* the largest id and one */
/* The id of a token as it stands in the file, TOKENIZER_NONE without one; `bytes` of text. */
uint32_t tokenizer_id(const tokenizer *t, const char *token, size_t bytes);
/* The token of an id as it stands in the file, and its length; NULL: none has the id. */
const char *tokenizer_token(const tokenizer *t, uint32_t id, size_t *bytes);
bool tokenizer_is_special(const tokenizer *t, uint32_t id);

/* What one thread needs: buffers that grow to the longest text, and a cache of words whose size is fixed. */
status tokenizer_work_open(const tokenizer *t, tokenizer_work **w);
void tokenizer_work_close(tokenizer_work *w);           /* NULL is fine */
uint64_t tokenizer_work_bytes(const tokenizer_work *w); /* held now */

/* The ids of a text, which must be UTF-8 (STATUS_INVALID says where it is not). `special`: with those that
 * the file's post-processor puts around it. They stay until the work is used again. */
typedef struct {
    const uint32_t *id;
    size_t count;
} tokenizer_ids;
status tokenizer_encode(const tokenizer *t, tokenizer_work *w, const char *text, size_t bytes, bool special,
                        tokenizer_ids *ids);

/* The text of ids, which stays until the work is used again. Ids that no token has say nothing. `special`:
 * with the special tokens. */
typedef struct {
    const char *data; /* UTF-8, without a zero behind it */
    size_t bytes;
} tokenizer_text;
status tokenizer_decode(const tokenizer *t, tokenizer_work *w, tokenizer_ids ids, bool special,
                        tokenizer_text *text);

/* Ids one after the other: the texts that come out, put together, are what tokenizer_decode makes of all of
 * them, and none ends within a character. */
enum { TOKENIZER_STREAM_IDS = 96 };
typedef struct {
    uint32_t ids[TOKENIZER_STREAM_IDS]; /* said: the first `said` of them; the others wait for more */
    uint32_t count, said;
    bool special;
} tokenizer_stream;

/* `*text` may be empty: the character is not whole yet. It stays until the work is used again. */
status tokenizer_stream_add(const tokenizer *t, tokenizer_work *w, tokenizer_stream *s, uint32_t id,
                            tokenizer_text *text);
/* What still waits, as it is. */
status tokenizer_stream_end(const tokenizer *t, tokenizer_work *w, tokenizer_stream *s, tokenizer_text *text);
