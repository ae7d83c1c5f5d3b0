/* Which bytes of a text each token stands for, where tokenizer_encode_spans asks for it (w->spans.on).
 *
 * Each byte that a normalizer or a pre-tokenizer writes has its origin beside it: the bytes of the text that
 * it stands for, always whole characters. A byte of the text is its own origin. So a piece needs nothing but
 * its place in memory: that says in which buffer it lies, or that it is the text's. All functions are called
 * only where spans are on. STATUS_NO_FIT where there is no memory. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

/* The origin of a byte that lies in one of the work's buffers or in the text. */
origin spans_origin(const tokenizer_work *w, const char *at);

/* The last `bytes` of `out` are a copy of those at `from`. */
status spans_copied(tokenizer_work *w, buffer *out, const char *from, size_t bytes);
/* What was written to `out` since it had `before` bytes is of this origin. */
status spans_made(tokenizer_work *w, buffer *out, size_t before, origin of);

/* All of `out` is ByteLevel's letters of this text. */
status spans_letters(tokenizer_work *w, buffer *out, span text);

/* The id at `place` stands for these bytes of a piece; none: for nothing in the text. */
status spans_set(tokenizer_work *w, size_t place, span bytes);
