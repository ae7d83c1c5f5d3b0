#include "language/mask_token.h"

#include <stdbool.h>
#include <string.h>

#include "language/members.h"
#include "language/special_tokens.h"

/* The best first. */
typedef struct {
    const char *names[3];
    int64_t ids[3];
    int64_t id; /* of the added token that is read, */
    char content[JSON_READER_STRING];
} finder;

static status read_member(void *context, json_reader *r, const char *key) {
    finder *f = context;
    uint64_t id;
    if (strcmp(key, "content") == 0 && json_reader_peek(r) == '"') {
        uint64_t bytes;
        TRY(json_reader_text(r, f->content, sizeof f->content, &bytes));
        f->content[bytes < sizeof f->content ? bytes : 0] = 0; /* a longer one is none of those */
        return STATUS_OK;
    }
    if (strcmp(key, "id") != 0) return json_reader_skip(r);
    TRY(json_reader_whole(r, &id));
    f->id = id < INT32_MAX ? (int64_t)id : MASK_TOKEN_NONE;
    return STATUS_OK;
}

static status read_tokens(void *context, json_reader *r, const char *key) {
    finder *f = context;
    if (strcmp(key, "added_tokens") != 0 || json_reader_peek(r) != '[') return json_reader_skip(r);
    TRY(json_reader_expect(r, '['));
    for (bool more = !json_reader_take(r, ']'); more;) {
        f->id = MASK_TOKEN_NONE, f->content[0] = 0;
        TRY(members_read(r, read_member, f));
        for (int i = 0; i < 3; i++)
            if (f->names[i] && strcmp(f->content, f->names[i]) == 0) f->ids[i] = f->id;
        TRY(json_reader_another(r, ']', &more));
    }
    return STATUS_OK;
}

status mask_token_find(const char *directory, int64_t *id) {
    special_tokens named;
    bool there;
    finder f = { .names = { NULL, "[MASK]", "<mask>" },
                 .ids = { MASK_TOKEN_NONE, MASK_TOKEN_NONE, MASK_TOKEN_NONE } };
    status result = special_tokens_read(directory, &named);
    const special_token *said = result == STATUS_OK ? special_tokens_find(&named, "mask_token") : NULL;
    if (said) f.names[0] = said->text;
    if (result == STATUS_OK) result = members_of_file(directory, "tokenizer.json", read_tokens, &f, &there);
    *id = MASK_TOKEN_NONE;
    for (int i = 2; i >= 0; i--)
        if (f.ids[i] != MASK_TOKEN_NONE) *id = f.ids[i];
    special_tokens_close(&named);
    return result;
}
