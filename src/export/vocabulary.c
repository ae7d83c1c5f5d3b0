#include "export/vocabulary.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json_reader.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "export/cutting.h"
#include "export/special.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/tokenizer_files.h"
#include "text/tokenizer/tokenizer.h"

enum { PATH_BYTES = 4096, SECTION_BYTES = 64 << 10, PAD_BYTES = 32 };

/* As llama.cpp numbers them. */
typedef enum {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6
} token_type;

typedef struct {
    uint64_t from, bytes; /* bytes 0: not in the file */
} section;

struct export_vocabulary {
    const model_config *config;
    tokenizer *t; /* NULL: bytes */
    char path[PATH_BYTES];
    int file;
    json_source source;
    json_reader json;
    section model, normalizer, before, added, merges;
    char model_type[32], affix[32], unknown[JSON_READER_STRING];
    bool bytes_behind, ignores_merges;
    export_special special;
    const char *pre; /* NULL: tokens have scores */
    bool blank;
    bool adds_begin, adds_end;
    int64_t size;            /* tokens that the model has */
    unsigned char *added_as; /* by id: a token_type, of added tokens; 0: it is none */
    float *scores;           /* by id */
    uint32_t *pairs;         /* by id: merges that make it */
    uint64_t merge_count;
    char *left, *right; /* of a merge; `longest` each */
    uint64_t longest;
    char pad[PAD_BYTES];
};

/* ---- the file ---- */

static status note_section(export_vocabulary *v, section *s) {
    s->from = json_reader_place(&v->json);
    TRY(json_reader_skip(&v->json));
    s->bytes = json_reader_place(&v->json) - s->from;
    return STATUS_OK;
}

typedef status read_member(export_vocabulary *v, const char *key);

static status read_members(export_vocabulary *v, read_member *member) {
    char key[JSON_READER_STRING];
    bool more = true;
    TRY(json_reader_expect(&v->json, '{'));
    if (json_reader_take(&v->json, '}')) return STATUS_OK;
    while (more) {
        TRY(json_reader_string(&v->json, key));
        TRY(json_reader_expect(&v->json, ':'));
        TRY(member(v, key));
        TRY(json_reader_another(&v->json, '}', &more));
    }
    return STATUS_OK;
}

static status note_member(export_vocabulary *v, const char *key) {
    if (strcmp(key, "model") == 0) return note_section(v, &v->model);
    if (strcmp(key, "normalizer") == 0) return note_section(v, &v->normalizer);
    if (strcmp(key, "pre_tokenizer") == 0) return note_section(v, &v->before);
    if (strcmp(key, "added_tokens") == 0) return note_section(v, &v->added);
    return json_reader_skip(&v->json);
}

/* A prefix or suffix that tokens have inside of words: noted, since the model's type may come behind it. */
static status note_affix(export_vocabulary *v, const char *key) {
    char affix[JSON_READER_STRING] = "";
    bool null;
    TRY(json_reader_null(&v->json, &null));
    if (!null) TRY(json_reader_string(&v->json, affix));
    if (*affix) snprintf(v->affix, sizeof v->affix, "%.31s", key);
    return STATUS_OK;
}

/* null is false, as in the tokenizer. */
static status read_maybe(export_vocabulary *v, bool *yes) {
    bool null;
    TRY(json_reader_null(&v->json, &null));
    *yes = false;
    return null ? STATUS_OK : json_reader_bool(&v->json, yes);
}

static status read_model_member(export_vocabulary *v, const char *key) {
    char type[JSON_READER_STRING];
    bool null = false;
    if (strcmp(key, "type") == 0) {
        TRY(json_reader_string(&v->json, type));
        snprintf(v->model_type, sizeof v->model_type, "%.31s", type);
        return STATUS_OK;
    }
    if (strcmp(key, "unk_token") == 0) {
        TRY(json_reader_null(&v->json, &null));
        return null ? STATUS_OK : json_reader_string(&v->json, v->unknown);
    }
    if (strcmp(key, "byte_fallback") == 0) return read_maybe(v, &v->bytes_behind);
    if (strcmp(key, "ignore_merges") == 0) return read_maybe(v, &v->ignores_merges);
    if (strcmp(key, "merges") == 0) return note_section(v, &v->merges);
    if (strcmp(key, "continuing_subword_prefix") == 0 || strcmp(key, "end_of_word_suffix") == 0)
        return note_affix(v, key);
    return json_reader_skip(&v->json);
}

static status note_sections(export_vocabulary *v) {
    json_reader_begin(&v->json, &v->source);
    TRY(read_members(v, note_member));
    json_reader_go(&v->json, v->model.from);
    TRY(read_members(v, read_model_member));
    if (!*v->model_type && v->merges.bytes)
        snprintf(v->model_type, sizeof v->model_type, "BPE"); /* old files */
    if (strcmp(v->model_type, "BPE") == 0 && *v->affix)
        return status_set(STATUS_INVALID, "%s: llama.cpp has no %s in BPE", v->path, v->affix);
    if (strcmp(v->model_type, "BPE") == 0) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s: its model is %s; of tokenizers only BPE is written as GGUF, of bytes or with "
                      "byte_fallback",
                      v->path, *v->model_type ? v->model_type : "of no type");
}

/* A section as a tree; a missing one is null. */
static status parse_section(const export_vocabulary *v, const section *s, json_document *d) {
    *d = (json_document){ 0 };
    if (!s->bytes) return STATUS_OK;
    if (s->bytes > SECTION_BYTES)
        return status_set(STATUS_INVALID,
                          "%s: its normalizer or pre_tokenizer has %llu bytes, and none that llama.cpp knows "
                          "is longer than %d",
                          v->path, (unsigned long long)s->bytes, SECTION_BYTES);
    char *bytes = memory_new(s->bytes, 1);
    if (!bytes) return status_set(STATUS_FAILED, "no memory to read %s", v->path);
    status result = io_read_at(v->file, v->path, s->from, bytes, s->bytes);
    if (result == STATUS_OK) result = json_parse(v->path, bytes, s->bytes, d);
    memory_free(bytes);
    return result;
}

static status read_cutting(export_vocabulary *v, text *notes) {
    json_document normalizer = { 0 }, before = { 0 };
    status result = parse_section(v, &v->normalizer, &normalizer);
    if (result == STATUS_OK) result = parse_section(v, &v->before, &before);
    cutting c = { normalizer.root, before.root, v->bytes_behind, v->ignores_merges };
    if (result == STATUS_OK)
        result = v->bytes_behind ? cutting_blank(v->path, &c, &v->blank, notes)
                                 : cutting_name(v->path, &c, &v->pre, notes);
    json_close(&normalizer);
    json_close(&before);
    return result;
}

/* ---- added tokens ---- */

typedef struct {
    uint64_t id;
    bool special, strips;
} added;

static status read_added_member(export_vocabulary *v, const char *key, added *a) {
    bool strips = false;
    if (strcmp(key, "id") == 0) return json_reader_whole(&v->json, &a->id);
    if (strcmp(key, "special") == 0) return json_reader_bool(&v->json, &a->special);
    if (strcmp(key, "lstrip") != 0 && strcmp(key, "rstrip") != 0 && strcmp(key, "single_word") != 0)
        return json_reader_skip(&v->json);
    TRY(json_reader_bool(&v->json, &strips));
    a->strips = a->strips || strips;
    return STATUS_OK;
}

static status read_added(export_vocabulary *v, added *a) {
    char key[JSON_READER_STRING];
    bool more = true;
    *a = (added){ .id = UINT64_MAX };
    TRY(json_reader_expect(&v->json, '{'));
    while (more) {
        TRY(json_reader_string(&v->json, key));
        TRY(json_reader_expect(&v->json, ':'));
        TRY(read_added_member(v, key, a));
        TRY(json_reader_another(&v->json, '}', &more));
    }
    if (a->id >= (uint64_t)v->size)
        return status_set(STATUS_INVALID, "%s: an added token has the id %llu, and the model has %lld tokens",
                          v->path, (unsigned long long)a->id, (long long)v->size);
    v->added_as[a->id] = a->special ? TOKEN_CONTROL : TOKEN_USER;
    return STATUS_OK;
}

static status read_all_added(export_vocabulary *v, text *notes) {
    bool more = true;
    uint32_t strips = 0;
    added a;
    if (!v->added.bytes) return STATUS_OK;
    json_reader_go(&v->json, v->added.from);
    TRY(json_reader_expect(&v->json, '['));
    if (json_reader_take(&v->json, ']')) return STATUS_OK;
    while (more) {
        TRY(read_added(v, &a));
        strips += a.strips;
        TRY(json_reader_another(&v->json, ']', &more));
    }
    if (strips)
        text_add(notes,
                 "%u added tokens look at the blanks or letters beside them (lstrip, rstrip, single_word), "
                 "llama.cpp does so for few models only\n",
                 (unsigned)strips);
    return STATUS_OK;
}

/* ---- merges ---- */

/* "a b", or ["a", "b"]: both parts, where there is room for them. */
static status read_merge(export_vocabulary *v, uint64_t *left, uint64_t *right) {
    bool list = json_reader_take(&v->json, '[');
    TRY(json_reader_text(&v->json, v->left, v->longest, left));
    if (list) {
        TRY(json_reader_expect(&v->json, ','));
        TRY(json_reader_text(&v->json, v->right, v->longest, right));
        TRY(json_reader_expect(&v->json, ']'));
    }
    if (*left > v->longest || (list && *right > v->longest))
        return status_set(STATUS_INVALID, "%s: a merge is longer than any token", v->path);
    if (list) return STATUS_OK;
    char *blank = memchr(v->left, ' ', *left);
    uint64_t first = blank ? (uint64_t)(blank - v->left) : *left;
    *right = blank ? *left - first - 1 : 0;
    if (blank) memcpy(v->right, blank + 1, *right);
    *left = first;
    return STATUS_OK;
}

/* The token that a merge makes; TOKENIZER_NONE: it makes none. */
static uint32_t merged(export_vocabulary *v, uint64_t left, uint64_t right) {
    if (left + right > v->longest) return TOKENIZER_NONE;
    memcpy(v->left + left, v->right, right);
    return tokenizer_id(v->t, v->left, left + right);
}

typedef status use_merge(export_vocabulary *v, uint64_t left, uint64_t right, void *context);

static status each_merge(export_vocabulary *v, use_merge *use, void *context) {
    uint64_t left, right;
    bool more = true;
    if (!v->merges.bytes) return STATUS_OK;
    json_reader_go(&v->json, v->merges.from);
    TRY(json_reader_expect(&v->json, '['));
    if (json_reader_take(&v->json, ']')) return STATUS_OK;
    while (more) {
        TRY(read_merge(v, &left, &right));
        TRY(use(v, left, right, context));
        TRY(json_reader_another(&v->json, ']', &more));
    }
    return STATUS_OK;
}

static status count_merge(export_vocabulary *v, uint64_t left, uint64_t right, void *context) {
    (void)context;
    v->merge_count++;
    if (!memchr(v->left, ' ', left) && !memchr(v->right, ' ', right)) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s: a merge has a blank in its tokens, where llama.cpp would part them", v->path);
}

static status put_merge(export_vocabulary *v, uint64_t left, uint64_t right, void *context) {
    gguf_writer *w = context;
    gguf_begin_text(w, left + right + 1);
    gguf_more(w, v->left, left);
    gguf_more(w, " ", 1);
    gguf_more(w, v->right, right);
    return STATUS_OK;
}

/* ---- scores ---- */

/* Scores are by token, merges by pair. They say the same where all pairs that make a token stand one behind
 * the other, and where every pair of tokens whose texts make a third one is merged. That is so of tokenizers
 * that come from SentencePiece; others would make other tokens in llama.cpp. */
static status not_by_score(const export_vocabulary *v, const char *token, size_t bytes) {
    char quoted[UTF8_QUOTE_BYTES], copy[UTF8_QUOTE_BYTES];
    snprintf(copy, sizeof copy, "%.*s", (int)(bytes < sizeof copy ? bytes : sizeof copy - 1), token);
    utf8_quote(copy, quoted);
    return status_set(
        STATUS_INVALID,
        "%s: llama.cpp merges by a score for each token, and the merges of '%s' have no order that "
        "scores can say; tokenizers that come from SentencePiece can be written, and BPE of bytes",
        v->path, quoted);
}

typedef struct {
    uint32_t latest, groups;
} scoring;

static status score_merge(export_vocabulary *v, uint64_t left, uint64_t right, void *context) {
    scoring *s = context;
    uint32_t id = merged(v, left, right);
    if (id == TOKENIZER_NONE || id >= (uint64_t)v->size) return STATUS_OK;
    if (id != s->latest && v->pairs[id]) return not_by_score(v, v->left, left + right);
    if (id != s->latest) v->scores[id] = -(float)++s->groups;
    v->pairs[id]++;
    s->latest = id;
    return STATUS_OK;
}

static bool is_in_model(const export_vocabulary *v, const char *token, size_t bytes) {
    uint32_t id = tokenizer_id(v->t, token, bytes);
    return id != TOKENIZER_NONE && !v->added_as[id];
}

static status check_pairs(const export_vocabulary *v, uint32_t id) {
    size_t bytes, all = 0;
    const char *token = tokenizer_token(v->t, id, &bytes);
    if (!token || v->added_as[id]) return STATUS_OK;
    for (size_t at = utf8_length(token, bytes), next; at && at < bytes; at += next) {
        all += is_in_model(v, token, at) && is_in_model(v, token + at, bytes - at);
        next = utf8_length(token + at, bytes - at);
        if (!next) break;
    }
    return all == v->pairs[id] ? STATUS_OK : not_by_score(v, token, bytes);
}

/* Every byte has a token "<0x41>". */
static status check_bytes(const export_vocabulary *v) {
    char token[8];
    for (int b = 0; b < 256; b++) {
        snprintf(token, sizeof token, "<0x%02X>", (unsigned)b);
        if (tokenizer_id(v->t, token, strlen(token)) == TOKENIZER_NONE)
            return status_set(STATUS_INVALID, "%s has byte_fallback and no token '%s'", v->path, token);
    }
    return STATUS_OK;
}

static status make_scores(export_vocabulary *v) {
    scoring s = { .latest = TOKENIZER_NONE };
    TRY(check_bytes(v));
    TRY(each_merge(v, score_merge, &s));
    for (uint32_t id = 0; id < tokenizer_size(v->t); id++) TRY(check_pairs(v, id));
    return STATUS_OK;
}

/* ---- what is put around a text ---- */

static status check_around(const export_vocabulary *v, size_t before, size_t behind) {
    if (before <= 1 && behind <= 1) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s puts %zu tokens before a text and %zu behind it; llama.cpp puts one at most",
                      v->path, before, behind);
}

static status look_around(export_vocabulary *v) {
    tokenizer_frame around = tokenizer_around(v->t);
    TRY(check_around(v, around.before.count, around.behind.count));
    v->adds_begin = around.before.count == 1, v->adds_end = around.behind.count == 1;
    if (v->adds_begin) v->special.begin = *around.before.id;
    if (!v->adds_end || v->special.end[0] == *around.behind.id) return STATUS_OK;
    for (int i = SPECIAL_ENDS - 1; i > 0; i--) v->special.end[i] = v->special.end[i - 1];
    v->special.end[0] = *around.behind.id;
    return STATUS_OK;
}

static bool is_free(const export_vocabulary *v, int64_t id) {
    size_t bytes;
    return id >= tokenizer_size(v->t) || !tokenizer_token(v->t, (uint32_t)id, &bytes);
}

/* Where nothing is said llama.cpp takes numbers of its own, whatever tokens they are. */
static status settle_ends(export_vocabulary *v, text *notes) {
    export_special *s = &v->special;
    int64_t *const all[] = { &s->begin, &s->unknown, &s->pad, &s->end[0], &s->end[1], &s->end[2] };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (*all[i] >= v->size)
            return status_set(STATUS_INVALID,
                              "%s: a special token has the id %lld, and the model has %lld tokens", v->path,
                              (long long)*all[i], (long long)v->size);
    for (int64_t id = 0; s->end[0] == SPECIAL_NONE && id < v->size; id++)
        if (is_free(v, id)) s->end[0] = id;
    if (s->end[0] == SPECIAL_NONE)
        return status_set(
            STATUS_INVALID,
            "nothing says which token of %s ends a text, and llama.cpp would take one of its own "
            "choice; name it as eos_token in tokenizer_config.json",
            v->path);
    if (is_free(v, s->end[0]))
        text_add(notes,
                 "nothing says which token ends a text: llama.cpp is told of one that is never used\n");
    if (s->begin == SPECIAL_NONE) s->begin = s->end[0]; /* put before a text only where that is said */
    return STATUS_OK;
}

/* ---- opening ---- */

static status make_room(export_vocabulary *v) {
    size_t bytes;
    uint32_t size = tokenizer_size(v->t);
    if (size > (uint64_t)v->size)
        return status_set(
            STATUS_INVALID,
            "%s has tokens up to the id %u, and the model has %lld; make the embedding larger, or "
            "take the tokenizer that the model was trained with",
            v->path, (unsigned)size - 1, (long long)v->size);
    for (uint32_t id = 0; id < size; id++)
        if (tokenizer_token(v->t, id, &bytes) && bytes > v->longest) v->longest = bytes;
    v->longest = 2 * v->longest + 1;
    v->added_as = memory_new((size_t)v->size, 1);
    v->left = memory_new(v->longest, 1);
    v->right = memory_new(v->longest, 1);
    if (v->bytes_behind) v->scores = memory_new((size_t)v->size, sizeof *v->scores);
    if (v->bytes_behind) v->pairs = memory_new((size_t)v->size, sizeof *v->pairs);
    if (v->added_as && v->left && v->right && (!v->bytes_behind || (v->scores && v->pairs))) return STATUS_OK;
    return status_set(STATUS_FAILED, "no memory for %lld tokens", (long long)v->size);
}

static status read_tokenizer(const char *directory, export_vocabulary *v, text *notes) {
    TRY(tokenizer_open(&v->source, &v->t));
    TRY(note_sections(v));
    TRY(read_cutting(v, notes));
    TRY(make_room(v));
    TRY(read_all_added(v, notes));
    TRY(each_merge(v, count_merge, NULL));
    if (v->bytes_behind) TRY(make_scores(v));
    TRY(export_special_read(directory, v->config, v->t, &v->special, notes));
    TRY(look_around(v));
    return settle_ends(v, notes);
}

/* Tokens 0 to 255 are bytes then, as to all of this program. */
static status take_bytes(const char *directory, const export_vocabulary *v, text *notes) {
    const char *other = tokenizer_files_find(directory);
    if (other)
        return status_set(STATUS_INVALID,
                          "%s has a tokenizer (%s) and no tokenizer.json, which alone is read; "
                          "AutoTokenizer.from_pretrained(...).save_pretrained(...) makes one",
                          directory, other);
    if (v->size < 256)
        return status_set(STATUS_INVALID,
                          "%s has no tokenizer.json, and with %lld tokens it is no model of bytes either",
                          directory, (long long)v->size);
    text_add(notes,
             "no tokenizer beside the model: tokens 0 to 255 are bytes in the file, and no token ends a "
             "text\n");
    return STATUS_OK;
}

status export_vocabulary_open(const char *directory, const model_config *c, export_vocabulary **opened,
                              text *notes) {
    export_vocabulary *v = *opened = memory_new(1, sizeof *v);
    uint64_t bytes;
    if (!v) return status_set(STATUS_FAILED, "no memory to read %s", directory);
    v->config = c, v->file = -1, v->size = families_vocabulary(c);
    if (snprintf(v->path, sizeof v->path, "%s/tokenizer.json", directory) >= PATH_BYTES)
        return status_set(STATUS_INVALID, "the path '%.60s...' is too long", directory);
    if (access(v->path, F_OK) != 0) return take_bytes(directory, v, notes);
    TRY(io_open(v->path, &v->file, &bytes));
    v->source = json_file_source(&v->file, v->path, "the tokenizer", 0, bytes);
    return read_tokenizer(directory, v, notes);
}

void export_vocabulary_close(export_vocabulary *v) {
    if (!v) return;
    export_special_close(&v->special);
    tokenizer_close(v->t);
    if (v->file >= 0) close(v->file);
    memory_free(v->added_as);
    memory_free(v->scores);
    memory_free(v->pairs);
    memory_free(v->left);
    memory_free(v->right);
    memory_free(v);
}

const char *export_vocabulary_name(const export_vocabulary *v) {
    return !v->t ? "rwkv" : v->pre ? "gpt2" : "llama";
}

bool export_vocabulary_has(const export_vocabulary *v, const char *token) {
    return v->t && tokenizer_id(v->t, token, strlen(token)) != TOKENIZER_NONE;
}

uint64_t export_vocabulary_held(const export_vocabulary *v) {
    if (!v->t) return sizeof *v;
    return sizeof *v + tokenizer_bytes(v->t) + (uint64_t)v->size +
           (v->scores ? (uint64_t)v->size * (sizeof *v->scores + sizeof *v->pairs) : 0) + 2 * v->longest +
           v->special.template_bytes;
}

/* ---- writing ---- */

/* Ids without a token get a name that no other token has. */
static void name_free(export_vocabulary *v, int64_t id) {
    int length = snprintf(v->pad, sizeof v->pad, "[PAD%lld]", (long long)id);
    while (length + 1 < PAD_BYTES && tokenizer_id(v->t, v->pad, (size_t)length) != TOKENIZER_NONE) {
        v->pad[length++] = '_';
        v->pad[length] = 0;
    }
}

/* Where marks stand for blanks, llama.cpp looks for added tokens in text that still has blanks. */
static void put_added(export_vocabulary *v, gguf_writer *w, const char *token, size_t bytes) {
    static const char mark[] = "\xe2\x96\x81";
    size_t kept = 0;
    for (size_t i = 0; i < bytes;) {
        bool blank = bytes - i >= 3 && memcmp(token + i, mark, 3) == 0;
        v->left[kept++] = blank ? ' ' : token[i];
        i += blank ? 3 : 1;
    }
    bool taken = tokenizer_id(v->t, v->left, kept) != TOKENIZER_NONE;
    gguf_add_text(w, taken ? token : v->left, taken ? bytes : kept);
}

static void put_tokens(export_vocabulary *v, gguf_writer *w) {
    gguf_put_array(w, "tokenizer.ggml.tokens", GGUF_ITEM_TEXT, (uint64_t)v->size);
    for (int64_t id = 0; id < v->size; id++) {
        size_t bytes = 0;
        const char *token = is_free(v, id) ? NULL : tokenizer_token(v->t, (uint32_t)id, &bytes);
        if (!token) {
            name_free(v, id);
            gguf_add_text(w, v->pad, strlen(v->pad));
        } else if (!v->pre && v->added_as[id] == TOKEN_USER) {
            put_added(v, w, token, bytes);
        } else {
            gguf_add_text(w, token, bytes);
        }
    }
}

static token_type type_of(const export_vocabulary *v, int64_t id) {
    size_t bytes;
    unsigned byte;
    char end;
    if (is_free(v, id)) return TOKEN_UNUSED;
    const char *token = tokenizer_token(v->t, (uint32_t)id, &bytes);
    if (!v->pre && bytes == strlen(v->unknown) && memcmp(token, v->unknown, bytes) == 0) return TOKEN_UNKNOWN;
    if (v->added_as[id]) return (token_type)v->added_as[id];
    char copy[8] = "";
    if (!v->pre && bytes == 6) memcpy(copy, token, bytes);
    return sscanf(copy, "<0x%2X%c", &byte, &end) == 2 && end == '>' ? TOKEN_BYTE : TOKEN_NORMAL;
}

static void put_id(gguf_writer *w, const char *key, int64_t id) {
    if (id != SPECIAL_NONE) gguf_put_u32(w, key, (uint32_t)id);
}

static void put_special(const export_vocabulary *v, gguf_writer *w) {
    const export_special *s = &v->special;
    put_id(w, "tokenizer.ggml.bos_token_id", s->begin);
    put_id(w, "tokenizer.ggml.eos_token_id", s->end[0]);
    put_id(w, "tokenizer.ggml.eot_token_id", s->end[1]);
    put_id(w, "tokenizer.ggml.eom_token_id", s->end[2]);
    put_id(w, "tokenizer.ggml.unknown_token_id", s->unknown);
    put_id(w, "tokenizer.ggml.padding_token_id", s->pad);
    gguf_put_bool(w, "tokenizer.ggml.add_bos_token", v->adds_begin);
    gguf_put_bool(w, "tokenizer.ggml.add_eos_token", v->adds_end);
    if (s->template_text) gguf_put_text(w, "tokenizer.chat_template", s->template_text, s->template_bytes);
}

/* As such tokens are spelled; what is behind the bytes begins with one that no text has. */
static void put_bytes(const export_vocabulary *v, gguf_writer *w) {
    char token[32];
    gguf_put_string(w, "tokenizer.ggml.model", "rwkv");
    gguf_put_array(w, "tokenizer.ggml.tokens", GGUF_ITEM_TEXT, (uint64_t)v->size);
    for (int64_t id = 0; id < v->size; id++) {
        int length = id < 256 ? snprintf(token, sizeof token, "\\x%02x", (unsigned)id)
                              : snprintf(token, sizeof token, "\\xff<%lld>", (long long)id);
        gguf_add_text(w, token, (uint64_t)length);
    }
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_ITEM_I32, (uint64_t)v->size);
    for (int64_t id = 0; id < v->size; id++) gguf_add_i32(w, id < 256 ? TOKEN_NORMAL : TOKEN_UNUSED);
    gguf_put_bool(w, "tokenizer.ggml.add_bos_token", false);
    gguf_put_bool(w, "tokenizer.ggml.add_eos_token", false);
}

status export_vocabulary_put(export_vocabulary *v, gguf_writer *w) {
    if (!v->t) {
        put_bytes(v, w);
        return STATUS_OK;
    }
    gguf_put_string(w, "tokenizer.ggml.model", v->pre ? "gpt2" : "llama");
    gguf_put_string(w, "tokenizer.ggml.pre", v->pre ? v->pre : "default");
    put_tokens(v, w);
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_ITEM_I32, (uint64_t)v->size);
    for (int64_t id = 0; id < v->size; id++) gguf_add_i32(w, (int32_t)type_of(v, id));
    if (v->scores) {
        gguf_put_array(w, "tokenizer.ggml.scores", GGUF_ITEM_F32, (uint64_t)v->size);
        for (int64_t id = 0; id < v->size; id++) gguf_add_f32(w, v->scores[id]);
        gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", v->blank);
    }
    if (v->pre) {
        gguf_put_array(w, "tokenizer.ggml.merges", GGUF_ITEM_TEXT, v->merge_count);
        TRY(each_merge(v, put_merge, w));
    }
    put_special(v, w);
    return STATUS_OK;
}
