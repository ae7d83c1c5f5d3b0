#include "infer/language.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { LINE_END = 10, NUMBER_BYTES = 16 };

/* One block for each prompt. */
typedef struct block block;
struct block {
    block *next;
    int32_t ids[];
};

typedef struct {
    block *prompts;
    language *self;
    char piece[NUMBER_BYTES];
} bytes_language;

static status encode(void *context, const char *prompt, const int32_t **ids, int64_t *count) {
    bytes_language *l = context;
    const char beginning[] = { LINE_END };
    size_t length = strlen(prompt);
    const char *from = length ? prompt : beginning;
    if (!length) length = 1;
    block *b = memory_new(1, sizeof *b + length * sizeof *b->ids);
    if (!b) return status_set(STATUS_FAILED, "no memory for a prompt of %zu bytes", length);
    for (size_t i = 0; i < length; i++) b->ids[i] = (unsigned char)from[i];
    b->next = l->prompts, l->prompts = b;
    l->self->held_bytes += sizeof *b + length * sizeof *b->ids;
    *ids = b->ids, *count = (int64_t)length;
    return STATUS_OK;
}

static void forget(void *context) {
    bytes_language *l = context;
    for (block *b = l->prompts, *next; b; b = next) {
        next = b->next;
        memory_free(b);
    }
    l->prompts = NULL;
    l->self->held_bytes = sizeof *l;
}

static status begin(void *context, uint32_t row, const int32_t *ids, int64_t count) {
    (void)context, (void)row, (void)ids, (void)count;
    return STATUS_OK;
}

static status add(void *context, uint32_t row, int32_t id, language_piece *piece) {
    bytes_language *l = context;
    (void)row;
    if (id >= 0 && id <= 255) l->piece[0] = (char)id;
    *piece = (language_piece){ l->piece, 1 };
    if (id < 0 || id > 255) piece->count = (size_t)snprintf(l->piece, sizeof l->piece, " %d", (int)id);
    return STATUS_OK;
}

static status word(void *context, int32_t id, language_piece *piece) { return add(context, 0, id, piece); }

static status end(void *context, uint32_t row, language_piece *piece) {
    (void)context, (void)row;
    *piece = (language_piece){ "", 0 };
    return STATUS_OK;
}

static bool ends(void *context, int32_t id) {
    (void)context, (void)id;
    return false;
}

status language_of_bytes(int64_t vocabulary, language *l) {
    bytes_language *own = memory_new(1, sizeof *own);
    if (!own) return status_set(STATUS_FAILED, "no memory to read text");
    own->self = l;
    *l = (language){ .context = own,
                     .encode = encode,
                     .forget = forget,
                     .begin = begin,
                     .add = add,
                     .end = end,
                     .word = word,
                     .ends = ends,
                     .unit = "byte",
                     .held_bytes = sizeof *own,
                     .piece_bytes = vocabulary > 256 ? 8 : 1 };
    return STATUS_OK;
}

void language_of_bytes_close(language *l) {
    if (l->context) forget(l->context);
    memory_free(l->context);
    *l = (language){ 0 };
}
