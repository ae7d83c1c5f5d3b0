#include "cli/language.h"

#include <string.h>

#include "base/memory.h"
#include "io/model_config.h"
#include "language/tokenizer_of.h"

/* One list for each prompt. */
typedef struct id_list id_list;
struct id_list {
    id_list *next;
    int32_t ids[];
};

typedef struct {
    language *self;
    bool whole; /* texts have their special tokens: none are put around them */
    tokenizer *tokenizer;
    tokenizer_work *work;
    id_list *prompts;
    uint64_t listed_bytes;
    families_tokens tokens;
    tokenizer_stream streams[LANGUAGE_TEXTS + 1];
} words;

/* What is held grows with the longest text that was encoded. */
static void count_held(words *w) {
    w->self->held_bytes =
        sizeof *w + tokenizer_bytes(w->tokenizer) + tokenizer_work_bytes(w->work) + w->listed_bytes;
}

static status encode_by(words *w, const char *prompt, bool whole, const int32_t **ids, int64_t *count) {
    tokenizer_ids found;
    TRY(tokenizer_encode(w->tokenizer, w->work, prompt, strlen(prompt), !whole, &found));
    if (!found.count && whole) return status_set(STATUS_INVALID, "the text of the chat has no token");
    if (!found.count)
        return status_set(STATUS_INVALID,
                          "an empty prompt: the tokenizer puts no token before a text, and a model "
                          "goes on from one");
    size_t bytes = sizeof(id_list) + found.count * sizeof(int32_t);
    id_list *list = memory_new(1, bytes);
    if (!list) return status_set(STATUS_FAILED, "no memory for a prompt of %zu tokens", found.count);
    for (size_t i = 0; i < found.count; i++) list->ids[i] = (int32_t)found.id[i];
    list->next = w->prompts, w->prompts = list;
    w->listed_bytes += bytes;
    count_held(w);
    *ids = list->ids, *count = (int64_t)found.count;
    return STATUS_OK;
}

static status encode(void *context, const char *prompt, const int32_t **ids, int64_t *count) {
    words *w = context;
    return encode_by(w, prompt, w->whole, ids, count);
}

static status encode_whole(void *context, const char *prompt, const int32_t **ids, int64_t *count) {
    return encode_by(context, prompt, true, ids, count);
}

static status add(void *context, uint32_t row, int32_t id, language_piece *more) {
    words *w = context;
    tokenizer_text said;
    TRY(tokenizer_stream_add(w->tokenizer, w->work, &w->streams[row], (uint32_t)id, &said));
    *more = (language_piece){ said.data, said.bytes };
    return STATUS_OK;
}

static void free_lists(words *w) {
    for (id_list *list = w->prompts, *next; list; list = next) {
        next = list->next;
        memory_free(list);
    }
    w->prompts = NULL, w->listed_bytes = 0;
}

static void forget(void *context) {
    free_lists(context);
    count_held(context);
}

/* Blanks between tokens depend on what was before them. */
static status begin(void *context, uint32_t row, const int32_t *ids, int64_t count) {
    words *w = context;
    language_piece prompt;
    w->streams[row] = (tokenizer_stream){ 0 };
    for (int64_t i = 0; i < count; i++) TRY(add(w, row, ids[i], &prompt));
    return STATUS_OK;
}

static status end(void *context, uint32_t row, language_piece *more) {
    words *w = context;
    tokenizer_text said;
    TRY(tokenizer_stream_end(w->tokenizer, w->work, &w->streams[row], &said));
    *more = (language_piece){ said.data, said.bytes };
    w->streams[row] = (tokenizer_stream){ 0 };
    return STATUS_OK;
}

static status word(void *context, int32_t id, language_piece *piece) {
    words *w = context;
    tokenizer_text said;
    TRY(tokenizer_word(w->tokenizer, w->work, (uint32_t)id, &said));
    count_held(w);
    *piece = (language_piece){ said.data, said.bytes };
    return STATUS_OK;
}

static bool ends(void *context, int32_t id) {
    const words *w = context;
    for (uint32_t i = 0; i < w->tokens.ends; i++)
        if (w->tokens.end[i] == id) return true;
    return false;
}

/* As tokens stand in the file they are no shorter than as text. */
static uint32_t longest_token(const tokenizer *t) {
    size_t longest = 1, bytes;
    for (uint32_t id = 0; id < tokenizer_size(t); id++)
        if (tokenizer_token(t, id, &bytes) && bytes > longest) longest = bytes;
    return (uint32_t)longest;
}

status cli_language_open(const char *directory, language *l, bool *there) {
    model_config c;
    tokenizer *t;
    *l = (language){ 0 };
    TRY(tokenizer_of_open(directory, &t, there));
    if (!*there) return STATUS_OK;
    words *w = memory_new(1, sizeof *w);
    if (!w) {
        tokenizer_close(t);
        return status_set(STATUS_FAILED, "no memory for the tokenizer of %s", directory);
    }
    w->self = l, w->tokenizer = t;
    *l = (language){ .context = w,
                     .encode = encode,
                     .encode_whole = encode_whole,
                     .forget = forget,
                     .begin = begin,
                     .add = add,
                     .end = end,
                     .word = word,
                     .ends = ends,
                     .unit = "token" };
    TRY(tokenizer_work_open(t, &w->work));
    TRY(model_config_read(directory, &c, NULL));
    TRY(model_config_ends(directory, &c, &w->tokens));
    l->piece_bytes = longest_token(t);
    count_held(w);
    return STATUS_OK;
}

void cli_language_close(language *l) {
    words *w = l->context;
    *l = (language){ 0 };
    if (!w) return;
    free_lists(w);
    tokenizer_work_close(w->work);
    tokenizer_close(w->tokenizer);
    memory_free(w);
}

void cli_language_whole(language *l) {
    words *w = l->context;
    w->whole = true;
}
