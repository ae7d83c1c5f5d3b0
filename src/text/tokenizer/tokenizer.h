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
typedef struct opener tokenizer_counted;

enum { TOKENIZER_NONE = UINT32_MAX }; /* no id */

/* The first reading: what the tokenizer will hold, in bytes, its tables and its patterns. Close `*c` in any
 * case. */
status tokenizer_count(const json_source *file, tokenizer_counted **c);
uint64_t tokenizer_counted_bytes(const tokenizer_counted *c);
void tokenizer_counted_close(tokenizer_counted *c); /* NULL is fine */

/* The second reading, of what the first one was of, which must still be there. Free with tokenizer_close. */
status tokenizer_open_counted(tokenizer_counted *c, tokenizer **t);
/* Both. */
status tokenizer_open(const json_source *file, tokenizer **t);
void tokenizer_close(tokenizer *t);           /* NULL is fine */
uint64_t tokenizer_bytes(const tokenizer *t); /* what it holds: as was measured */

/* Texts are neither cut nor padded from now on, whatever the file says: what is learned of is whole. Before
 * any work is opened; STATUS_NO_FIT without memory. */
status tokenizer_take_whole(tokenizer *t);

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
/* From now on it holds no more than so many bytes: a text that would need more is STATUS_NO_FIT. */
void tokenizer_work_limit(tokenizer_work *w, uint64_t bytes);

typedef struct {
    const char *data; /* UTF-8, without a zero behind it */
    size_t bytes;
} tokenizer_text;

/* The ids of a text, which must be UTF-8 (STATUS_INVALID says where it is not). `special`: with those that
 * the file's post-processor puts around it. They stay until the work is used again. */
typedef struct {
    const uint32_t *id;
    size_t count;
} tokenizer_ids;
status tokenizer_encode(const tokenizer *t, tokenizer_work *w, const char *text, size_t bytes, bool special,
                        tokenizer_ids *ids);

/* What the file's post-processor puts before and behind every text, whatever the text is. They stay as long
 * as the tokenizer. */
typedef struct {
    tokenizer_ids before, behind;
} tokenizer_frame;
tokenizer_frame tokenizer_around(const tokenizer *t);

/* And around two texts: ids before the first, between them and behind the second, with the type of each (by
 * which models like BERT tell the texts apart), and the types of the texts. Each text is encoded by itself.
 * False where the file puts two texts together in another way. */
typedef struct {
    const uint32_t *id, *type;
    size_t count;
} tokenizer_typed;
typedef struct {
    tokenizer_typed before, between, behind;
    uint32_t first, second;
} tokenizer_pair;
bool tokenizer_around_pair(const tokenizer *t, tokenizer_pair *p);

/* And which bytes of the text each token stands for, as the tokenizers library's offsets say it: from the
 * first character that the token has a part of to behind the last one. So a token that is part of a character
 * has the whole of it, blanks are not cut off, and what the post-processor adds has an empty span at 0.
 * docs/tokenizers.md says where the library's offsets differ. As many as ids; they stay as long. */
typedef struct {
    size_t begin, end;
} tokenizer_span;
status tokenizer_encode_spans(const tokenizer *t, tokenizer_work *w, tokenizer_text text, bool special,
                              tokenizer_ids *ids, const tokenizer_span **spans);

/* A long document, window by window: begin with a zeroed tokenizer_document. Each window begins where the
 * used bytes of the last one ended, and all ids together are those of the whole document, without special
 * ones around it and without truncation or padding. Of a window that is not the last one only so much is used
 * as no later text can change: `used` may be 0, and then the window must be longer. That is so up to the end
 * of the document where the tokenizer does not go from left to right (tokenizer_takes_windows says so). */
typedef struct {
    const char *data;
    size_t bytes; /* may end within a character */
    bool last;    /* the document ends with it */
} tokenizer_window;
typedef struct {
    size_t used;        /* of the last window */
    bool begun, inside; /* inside: the next byte goes on with a stretch of text, not behind an added token */
    bool word;          /* it goes on with a word */
    double score;       /* of a Unigram: of that word so far */
    bool unknown;       /* whose last token is an unknown one, which may go on */
} tokenizer_document;
status tokenizer_encode_window(const tokenizer *t, tokenizer_work *w, tokenizer_document *document,
                               tokenizer_window window, tokenizer_ids *ids);
bool tokenizer_takes_windows(const tokenizer *t);

/* The text of ids, which stays until the work is used again. Ids that no token has say nothing. `special`:
 * with the special tokens. */
status tokenizer_decode(const tokenizer *t, tokenizer_work *w, tokenizer_ids ids, bool special,
                        tokenizer_text *text);

/* The bytes that an id stands for amid a text, which may be parts of characters; none where it is no text or
 * special. They stay until the work is used again. */
status tokenizer_word(const tokenizer *t, tokenizer_work *w, uint32_t id, tokenizer_text *text);

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
