/* A long document window by window beside the whole text. Include behind cmocka. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "io/scratch.h"
#include "text/tokenizer/tokenizer.h"

typedef struct {
    tokenizer_text text;
    uint32_t least,
        more; /* a window gets `least` bytes and fewer than `more` besides what is left of the last */
} in_windows_options;

/* What was used before the last window. */
typedef struct {
    size_t bytes;
    uint32_t windows;
} in_windows_early;

/* All ids together are those of the whole text. */
static inline in_windows_early in_windows(const tokenizer *t, tokenizer_work *w, const in_windows_options *o,
                                          uint64_t *random) {
    const char *text = o->text.data;
    tokenizer_document d = { 0 };
    tokenizer_ids ids;
    in_windows_early early = { 0 };
    size_t bytes = o->text.bytes, done = 0, held = 0, at = 0;
    if (tokenizer_encode(t, w, text, bytes, false, &ids) != STATUS_OK) fail_msg("%s", status_message());
    size_t count = ids.count;
    uint32_t *whole = malloc((count + 1) * sizeof *whole);
    assert_non_null(whole);
    if (count) memcpy(whole, ids.id, count * sizeof *whole);
    for (bool last = false; !last; at += d.used, held -= d.used) {
        held += o->least + scratch_random(random) % o->more;
        last = held >= bytes - at;
        if (last) held = bytes - at;
        char *alone = malloc(held + !held); /* so that what is read behind it is seen */
        assert_non_null(alone);
        memcpy(alone, text + at, held);
        if (tokenizer_encode_window(t, w, &d, (tokenizer_window){ alone, held, last }, &ids) != STATUS_OK)
            fail_msg("%s", status_message());
        free(alone);
        assert_true(d.used <= held && done + ids.count <= count);
        if (ids.count) assert_memory_equal(ids.id, whole + done, ids.count * sizeof *whole);
        done += ids.count;
        if (!last) early.bytes += d.used, early.windows += d.used > 0;
    }
    assert_int_equal(done, count);
    free(whole);
    return early;
}
