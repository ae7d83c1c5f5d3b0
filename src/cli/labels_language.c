#include "cli/labels_language.h"

#include <string.h>

#include "base/memory.h"
#include "language/tokenizer_of.h"

typedef struct {
    tokenizer *tokenizer;
    tokenizer_work *work;
} words;

static status encode(void *context, const char *said, uint64_t bytes, const uint32_t **ids, uint64_t *count) {
    const words *w = context;
    tokenizer_ids found;
    TRY(tokenizer_encode(w->tokenizer, w->work, said, bytes, true, &found));
    *ids = found.id, *count = found.count;
    return STATUS_OK;
}

/* How many ids stand before and behind a text: a letter's own ids are looked for among those with them. */
static status count_around(const words *w, labelled_tokens *t) {
    enum { FEW = 64 };
    static const char letter[] = "a";
    uint32_t alone[FEW];
    tokenizer_ids ids;
    TRY(tokenizer_encode(w->tokenizer, w->work, letter, 1, false, &ids));
    size_t own = ids.count;
    if (own > FEW) return status_set(STATUS_INVALID, "the tokenizer makes %zu tokens of one letter", own);
    memcpy(alone, ids.id, own * sizeof *alone);
    TRY(tokenizer_encode(w->tokenizer, w->work, letter, 1, true, &ids));
    for (size_t at = 0; own && at + own <= ids.count; at++)
        if (memcmp(ids.id + at, alone, own * sizeof *alone) == 0) {
            t->before = (uint32_t)at, t->behind = (uint32_t)(ids.count - own - at);
            return STATUS_OK;
        }
    return STATUS_OK; /* it makes nothing of letters, and then nothing is cut behind them */
}

static status open_words(const char *directory, void **opened, labelled_tokens *t) {
    bool there;
    words *w = *opened = memory_new(1, sizeof *w);
    if (!w) return status_set(STATUS_FAILED, "no memory to read the tokenizer of %s", directory);
    t->context = w, t->encode = encode;
    TRY(tokenizer_of_open(directory, &w->tokenizer, &there));
    if (!there) return status_set(STATUS_INVALID, "%s has no tokenizer.json", directory);
    TRY(tokenizer_work_open(w->tokenizer, &w->work));
    return count_around(w, t);
}

static void close_words(void *opened) {
    words *w = opened;
    if (!w) return;
    tokenizer_work_close(w->work);
    tokenizer_close(w->tokenizer);
    memory_free(w);
}

const labelled_language labels_language = { open_words, close_words };
