#include "io/wanted_tokens.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "io/file.h"
#include "io/json.h"

enum { PATH_BYTES = 4096, MOST_IDS = 1 << 24 };

/* A place where something can be put behind what a list or an object holds. */
typedef struct {
    bool there, filled;
    uint64_t at, gone;
} place;

typedef struct {
    wanted_tokens *out;
    const char *path;
    json_reader json;
    place list;                    /* of added tokens */
    uint64_t top;                  /* behind the first brace */
    uint64_t words;                /* that the model has */
    uint64_t added;                /* the largest id of an added token, and one */
    bool is_word[TEXT_LIST_MOST];  /* of the model's, */
    bool is_added[TEXT_LIST_MOST]; /* and an added one */
    uint64_t word_id[TEXT_LIST_MOST], added_id[TEXT_LIST_MOST];
} looker;

typedef status members_each(looker *l, const char *key);

/* ---- walking ---- */

/* The object that stands next; `*behind`: where its last member ends, or its brace. */
static status walk_object(looker *l, members_each *each, place *behind) {
    json_reader *r = &l->json;
    char key[JSON_READER_STRING];
    TRY(json_reader_expect(r, '{'));
    *behind = (place){ .there = true, .at = json_reader_behind(r) };
    for (bool more = !json_reader_take(r, '}'); more;) {
        TRY(json_reader_string(r, key));
        TRY(json_reader_expect(r, ':'));
        TRY(each(l, key));
        *behind = (place){ .there = true, .filled = true, .at = json_reader_behind(r) };
        TRY(json_reader_another(r, '}', &more));
    }
    return STATUS_OK;
}

/* Which wanted token a string is, that stands next; out->count: none. A longer one is none. */
static status read_which(looker *l, uint32_t *which) {
    char token[WANTED_TOKEN_BYTES];
    uint64_t bytes;
    TRY(json_reader_text(&l->json, token, sizeof token, &bytes));
    for (*which = 0; *which < l->out->count; ++*which) {
        const char *wanted = l->out->items[*which].text;
        if (strlen(wanted) == bytes && memcmp(wanted, token, bytes) == 0) break;
    }
    return STATUS_OK;
}

static status read_id(looker *l, uint64_t *id) {
    TRY(json_reader_whole(&l->json, id));
    return *id < MOST_IDS ? STATUS_OK : json_reader_wrong(&l->json, "an id is too large");
}

/* ---- what the tokenizer knows ---- */

/* {"token": id, ...}, or [["token", score], ...] in the order of ids. */
static status look_at_words(looker *l) {
    json_reader *r = &l->json;
    bool list = json_reader_peek(r) == '[';
    char close = list ? ']' : '}';
    uint32_t which;
    uint64_t id;
    TRY(json_reader_expect(r, list ? '[' : '{'));
    for (bool more = !json_reader_take(r, close); more; l->words++) {
        if (list) TRY(json_reader_expect(r, '['));
        TRY(read_which(l, &which));
        TRY(json_reader_expect(r, list ? ',' : ':'));
        if (list)
            TRY(json_reader_skip(r));
        else
            TRY(read_id(l, &id));
        if (list) TRY(json_reader_expect(r, ']'));
        if (which < l->out->count) l->is_word[which] = true, l->word_id[which] = list ? l->words : id;
        TRY(json_reader_another(r, close, &more));
    }
    return STATUS_OK;
}

static status look_at_entry(looker *l) {
    json_reader *r = &l->json;
    char key[JSON_READER_STRING];
    uint64_t id = MOST_IDS;
    uint32_t which = l->out->count;
    TRY(json_reader_expect(r, '{'));
    for (bool more = !json_reader_take(r, '}'); more;) {
        TRY(json_reader_string(r, key));
        TRY(json_reader_expect(r, ':'));
        if (strcmp(key, "id") == 0)
            TRY(read_id(l, &id));
        else if (strcmp(key, "content") == 0)
            TRY(read_which(l, &which));
        else
            TRY(json_reader_skip(r));
        TRY(json_reader_another(r, '}', &more));
    }
    if (id == MOST_IDS) return json_reader_wrong(r, "an added token has no 'id'");
    if (id >= l->added) l->added = id + 1;
    if (which < l->out->count) l->is_added[which] = true, l->added_id[which] = id;
    return STATUS_OK;
}

static status look_at_added(looker *l) {
    json_reader *r = &l->json;
    bool null;
    uint64_t at = json_reader_place(r);
    TRY(json_reader_null(r, &null));
    if (null) {
        l->list = (place){ .there = true, .at = at, .gone = json_reader_behind(r) - at };
        return STATUS_OK;
    }
    TRY(json_reader_expect(r, '['));
    l->list = (place){ .there = true, .at = json_reader_behind(r) };
    for (bool more = !json_reader_take(r, ']'); more;) {
        TRY(look_at_entry(l));
        l->list.filled = true, l->list.at = json_reader_behind(r);
        TRY(json_reader_another(r, ']', &more));
    }
    return STATUS_OK;
}

static status look_at_model(looker *l, const char *key) {
    return strcmp(key, "vocab") == 0 ? look_at_words(l) : json_reader_skip(&l->json);
}

static status look_at_part(looker *l, const char *key) {
    place behind;
    if (strcmp(key, "added_tokens") == 0) return look_at_added(l);
    if (strcmp(key, "model") == 0 && json_reader_peek(&l->json) == '{')
        return walk_object(l, look_at_model, &behind);
    return json_reader_skip(&l->json);
}

static status look_at_tokenizer(looker *l) {
    place behind;
    TRY(json_reader_expect(&l->json, '{'));
    l->top = json_reader_behind(&l->json);
    json_reader_go(&l->json, 0);
    TRY(walk_object(l, look_at_part, &behind));
    return json_reader_end(&l->json);
}

/* Words first, added tokens behind them: as the library numbers them. */
static status number(looker *l) {
    wanted_tokens *w = l->out;
    uint64_t next = l->added > l->words ? l->added : l->words;
    for (uint32_t i = 0; i < w->count; i++) {
        wanted_token *t = &w->items[i];
        t->state = l->is_added[i] ? WANTED_TOKEN_THERE : l->is_word[i] ? WANTED_TOKEN_WORD : WANTED_TOKEN_NEW;
        t->id = (uint32_t)(l->is_added[i] ? l->added_id[i] : l->is_word[i] ? l->word_id[i] : next++);
        w->changes |= t->state != WANTED_TOKEN_THERE;
    }
    w->size = (uint32_t)next;
    return next <= MOST_IDS
               ? STATUS_OK
               : json_reader_wrong(&l->json, "behind its largest id there is none for a new token");
}

/* ---- what is put ---- */

static void put_properties(text *t, const char *before) {
    static const char *const names[] = { "lstrip", "normalized", "rstrip", "single_word" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        text_add(t, ",%s\"%s\": false", before, names[i]);
    text_add(t, ",%s\"special\": true", before);
}

static void put_in_list(text *t, const wanted_token *w) {
    static const char before[] = "\n      ";
    text_add(t, "\n    {%s\"id\": %" PRIu32 ",%s\"content\": ", before, w->id, before);
    json_add_quoted(t, w->text);
    put_properties(t, before);
    text_add(t, "\n    }");
}

static void put_in_config(text *t, const wanted_token *w) {
    static const char before[] = "\n      ";
    text_add(t, "\n    \"%" PRIu32 "\": {%s\"content\": ", w->id, before);
    json_add_quoted(t, w->text);
    put_properties(t, before);
    text_add(t, "\n    }");
}

static void put_in_map(text *t, const wanted_token *w) {
    text_add(t, "\n  ");
    json_add_quoted(t, w->text);
    text_add(t, ": %" PRIu32, w->id);
}

typedef void put_one(text *t, const wanted_token *w);

/* Notes the change of a file: all tokens at a place, between `before` and `after`, but those that `has`. */
static status put_all(looker *l, const char *name, put_one *put, place at, const bool *has) {
    wanted_tokens *w = l->out;
    text t = { 0 };
    bool list = strcmp(name, "tokenizer.json") == 0, any = at.filled;
    const char *open = !list || (at.there && !at.gone) ? "" : at.there ? "[" : "\n  \"added_tokens\": [";
    const char *close = !*open ? "" : at.there ? "]" : "],";
    text_add(&t, "%s", open);
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->items[i].state == WANTED_TOKEN_THERE || (has && has[i])) continue;
        if (any) text_add(&t, ",");
        any = true;
        put(&t, &w->items[i]);
    }
    text_add(&t, "%s", close);
    if (t.failed) {
        text_close(&t);
        return status_set(STATUS_FAILED, "%s: no memory for the tokens that are added", l->path);
    }
    w->put[w->file_count] = t.data;
    w->bytes += t.capacity;
    w->files[w->file_count++] = (tokenizer_files_change){
        name, { .at = at.at, .gone = at.gone, .put = t.data, .bytes = t.length, .of = l->json.source.bytes }
    };
    return STATUS_OK;
}

/* ---- the files beside it ---- */

/* A file gives the token `which` (count: another one) this id: is that ours? `*has`: both are. */
static status agree(looker *l, uint32_t which, uint64_t id, bool *has) {
    const wanted_tokens *w = l->out;
    char shown[UTF8_QUOTE_BYTES];
    for (uint32_t i = 0; i < w->count; i++) {
        const wanted_token *t = &w->items[i];
        if (t->state == WANTED_TOKEN_THERE) continue;
        if (i == which && id == t->id)
            has[i] = true;
        else if (i == which)
            return status_set(STATUS_INVALID,
                              "%s gives the token '%s' the id %" PRIu64
                              ", and by tokenizer.json it would have %" PRIu32,
                              l->path, utf8_quote(t->text, shown), id, t->id);
        else if (id == t->id)
            return status_set(STATUS_INVALID,
                              "%s gives the id %" PRIu64
                              " to a token that tokenizer.json has not, where '%s' would have it",
                              l->path, id, utf8_quote(t->text, shown));
    }
    return STATUS_OK;
}

static status look_at_content(looker *l, uint32_t *which) {
    json_reader *r = &l->json;
    char key[JSON_READER_STRING];
    *which = l->out->count;
    if (json_reader_peek(r) == '"') return read_which(l, which);
    TRY(json_reader_expect(r, '{'));
    for (bool more = !json_reader_take(r, '}'); more;) {
        TRY(json_reader_string(r, key));
        TRY(json_reader_expect(r, ':'));
        if (strcmp(key, "content") == 0)
            TRY(read_which(l, which));
        else
            TRY(json_reader_skip(r));
        TRY(json_reader_another(r, '}', &more));
    }
    return STATUS_OK;
}

/* "32000": {"content": "<|a|>", ...} */
static status look_at_decoded(looker *l, const char *key) {
    uint64_t id = 0;
    uint32_t which;
    for (const char *c = key; *c; c++) {
        id = *c < '0' || *c > '9' ? MOST_IDS : 10 * id + (uint64_t)(*c - '0');
        if (id >= MOST_IDS) return json_reader_wrong(&l->json, "a key of 'added_tokens_decoder' is no id");
    }
    TRY(look_at_content(l, &which));
    return agree(l, which, id, l->is_added);
}

static status look_at_config(looker *l, const char *key) {
    if (strcmp(key, "added_tokens_decoder") == 0 && json_reader_peek(&l->json) == '{')
        return walk_object(l, look_at_decoded, &l->list);
    return json_reader_skip(&l->json);
}

/* {"<|a|>": 32000} */
static status look_at_map(looker *l, const char *key) {
    uint32_t which = 0;
    uint64_t id;
    TRY(read_id(l, &id));
    while (which < l->out->count && strcmp(l->out->items[which].text, key) != 0) which++;
    return agree(l, which, id, l->is_added);
}

static status look_at_all(looker *l, members_each *each, place *behind) {
    TRY(walk_object(l, each, behind));
    return json_reader_end(&l->json);
}

typedef struct {
    const char *name;
    members_each *each; /* NULL: tokenizer.json */
    put_one *put;
} file_kind;

static const file_kind kinds[WANTED_TOKENS_FILES] = {
    { "tokenizer.json", NULL, put_in_list },
    { "tokenizer_config.json", look_at_config, put_in_config },
    { "added_tokens.json", look_at_map, put_in_map },
};

/* Which tokens the file of a kind lacks, and where they go. */
static status look(looker *l, const file_kind *kind) {
    place whole;
    l->list = (place){ 0 };
    if (!kind->each) {
        TRY(look_at_tokenizer(l));
        TRY(number(l));
        if (!l->list.there) l->list.at = l->top;
        return l->out->changes ? put_all(l, kind->name, kind->put, l->list, NULL) : STATUS_OK;
    }
    memset(l->is_added, 0, sizeof l->is_added);
    TRY(look_at_all(l, kind->each, &whole));
    bool missing = false, map = kind->each == look_at_map;
    for (uint32_t i = 0; i < l->out->count; i++)
        missing |= l->out->items[i].state != WANTED_TOKEN_THERE && !l->is_added[i];
    if (map) l->list = whole;
    return missing && l->list.there ? put_all(l, kind->name, kind->put, l->list, l->is_added) : STATUS_OK;
}

static status look_in(looker *l, const char *directory, const file_kind *kind) {
    char path[PATH_BYTES];
    spliced_file file;
    if (snprintf(path, sizeof path, "%s/%s", directory, kind->name) >= (int)sizeof path)
        return status_set(STATUS_INVALID, "the path '%.60s...' is too long", directory);
    if (kind->each && access(path, F_OK) != 0) return STATUS_OK;
    TRY(spliced_file_open(path, NULL, &file));
    json_source source = spliced_file_source(&file, kind->each ? "the file" : "the tokenizer");
    l->path = path;
    json_reader_begin(&l->json, &source);
    status result = look(l, kind);
    spliced_file_close(&file);
    return result;
}

/* ---- what is wanted ---- */

static status check(const char *token) {
    char shown[UTF8_QUOTE_BYTES];
    size_t bytes = strlen(token);
    if (!bytes) return status_set(STATUS_INVALID, "--add-token: a token is not empty");
    if (bytes >= WANTED_TOKEN_BYTES)
        return status_set(STATUS_INVALID, "--add-token: '%s' has %zu bytes, and a token has at most %d",
                          utf8_quote(token, shown), bytes, WANTED_TOKEN_BYTES - 1);
    for (size_t i = 0, n; i < bytes; i += n) {
        n = utf8_length(token + i, bytes - i);
        if (!n) return status_set(STATUS_INVALID, "--add-token: '%s' is not UTF-8", utf8_quote(token, shown));
    }
    return STATUS_OK;
}

static status want(const text_list *texts, wanted_tokens *w) {
    for (uint32_t i = 0; i < texts->count; i++) {
        bool again = false;
        TRY(check(texts->items[i]));
        for (uint32_t k = 0; k < w->count; k++) again |= strcmp(w->items[k].text, texts->items[i]) == 0;
        if (!again) w->items[w->count++].text = texts->items[i];
    }
    return STATUS_OK;
}

static status check_directory(const char *directory) {
    struct stat about;
    const char *name = directory ? tokenizer_files_find(directory) : NULL;
    bool folder = directory && stat(directory, &about) == 0 && S_ISDIR(about.st_mode);
    if (folder && name && strcmp(name, "tokenizer.json") == 0) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--add-token: %s is no model directory with a tokenizer.json, to which tokens could be "
                      "added",
                      directory ? directory : "the model");
}

status wanted_tokens_find(const char *directory, const text_list *texts, wanted_tokens *w) {
    *w = (wanted_tokens){ 0 };
    if (!texts->count) return STATUS_OK;
    TRY(want(texts, w));
    TRY(check_directory(directory));
    looker l = { .out = w };
    for (int i = 0; i < WANTED_TOKENS_FILES && (i == 0 || w->changes); i++)
        TRY(look_in(&l, directory, &kinds[i]));
    return STATUS_OK;
}

void wanted_tokens_close(wanted_tokens *w) {
    for (int i = 0; i < WANTED_TOKENS_FILES; i++) memory_free(w->put[i]);
    *w = (wanted_tokens){ 0 };
}

const file_splice *wanted_tokens_splice(const wanted_tokens *w, const char *name) {
    for (uint32_t i = 0; i < w->file_count; i++)
        if (strcmp(w->files[i].name, name) == 0) return &w->files[i].splice;
    return NULL;
}
