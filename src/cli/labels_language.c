#include "cli/labels_language.h"

#include "base/memory.h"
#include "language/mask_token.h"
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

static status encode_one(void *context, const char *said, uint64_t bytes, const uint32_t **ids,
                         uint64_t *count) {
    const words *w = context;
    tokenizer_ids found;
    TRY(tokenizer_encode(w->tokenizer, w->work, said, bytes, false, &found));
    *ids = found.id, *count = found.count;
    return STATUS_OK;
}

/* False: there are more than have a place. */
static bool take_around(const tokenizer_typed *from, labelled_around *to) {
    if (from->count > LABELLED_AROUND) return false;
    for (size_t i = 0; i < from->count; i++)
        to->id[i] = (int32_t)from->id[i], to->type[i] = (int32_t)from->type[i];
    to->count = (uint32_t)from->count;
    return true;
}

/* How two texts stand together; a tokenizer that puts them together in another way has none. */
static void take_pair(const tokenizer *t, labelled_tokens *out) {
    tokenizer_pair p;
    if (!tokenizer_around_pair(t, &p)) return;
    if (!take_around(&p.before, &out->first) || !take_around(&p.between, &out->between) ||
        !take_around(&p.behind, &out->last))
        return;
    out->type[0] = (int32_t)p.first, out->type[1] = (int32_t)p.second;
    out->encode_one = encode_one;
}

/* The tokenizer stays as large as it is. */
static uint64_t held(const void *context) {
    const words *w = context;
    return sizeof *w + tokenizer_bytes(w->tokenizer) + tokenizer_work_bytes(w->work);
}

static void limit(void *context, uint64_t bytes) {
    const words *w = context;
    uint64_t own = sizeof *w + tokenizer_bytes(w->tokenizer);
    tokenizer_work_limit(w->work, bytes > own ? bytes - own : 1); /* 0 would be none */
}

static status open_words(const char *directory, const wanted_tokens *added, void **opened,
                         labelled_tokens *t) {
    bool there;
    words *w = *opened = memory_new(1, sizeof *w);
    if (!w) return status_set(STATUS_FAILED, "no memory to read the tokenizer of %s", directory);
    t->context = w, t->encode = encode, t->held = held, t->limit = limit;
    TRY(tokenizer_of_open_with(directory, added, &w->tokenizer, &there));
    if (!there) return status_set(STATUS_INVALID, "%s has no tokenizer.json", directory);
    TRY(tokenizer_take_whole(w->tokenizer)); /* the samples are cut and padded by who has their length */
    tokenizer_frame around = tokenizer_around(w->tokenizer);
    t->before = (uint32_t)around.before.count, t->behind = (uint32_t)around.behind.count;
    take_pair(w->tokenizer, t);
    return tokenizer_work_open(w->tokenizer, &w->work);
}

static void close_words(void *opened) {
    words *w = opened;
    if (!w) return;
    tokenizer_work_close(w->work);
    tokenizer_close(w->tokenizer);
    memory_free(w);
}

const labelled_language labels_language = { open_words, close_words, mask_token_find };
