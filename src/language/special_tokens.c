#include "language/special_tokens.h"

#include <string.h>

#include "base/memory.h"
#include "language/members.h"

/* Where a token may come from. The last place that says something of a name counts, but for FROM_SAVED, which
 * counts where neither FROM_EXPLICIT nor FROM_EXTRA has any token at all. */
enum { FROM_CLASS = SPECIAL_TOKENS_USUAL, FROM_CONFIG, FROM_MAP, FROM_SAVED, FROM_EXPLICIT, FROM_EXTRA };

static const char *const known[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token" };
enum { KNOWN = sizeof known / sizeof *known };

/* What classes of transformers 5.17 take where nothing is said; in the order above, NULL: none. Its class
 * TokenizersBackend, which PreTrainedTokenizerFast is another name of, has none. */
static const struct {
    const char *class, *tokens[KNOWN];
} classes[] = {
    { "LlamaTokenizer", { "<s>", "</s>", "<unk>" } },
    { "CodeLlamaTokenizer", { "<s>", "</s>", "<unk>" } },
    { "GPT2Tokenizer", { "<|endoftext|>", "<|endoftext|>", "<|endoftext|>" } },
    { "GPTNeoXTokenizer", { "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, "<|padding|>" } },
    { "Qwen2Tokenizer", { NULL, "<|endoftext|>", "<|endoftext|>", NULL, "<|endoftext|>" } },
    { "Qwen3_5Tokenizer", { NULL, "<|endoftext|>", "<|endoftext|>", NULL, "<|endoftext|>" } },
    { "GemmaTokenizer", { "<bos>", "<eos>", "<unk>", NULL, "<pad>", NULL, "<mask>" } },
    { "CohereTokenizer",
      { "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<SEP>", "<PAD>", "<CLS>", "<MASK_TOKEN>" } },
    { "T5Tokenizer", { NULL, "</s>", "<unk>", NULL, "<pad>" } },
    { "BertTokenizer", { NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]" } },
    { "RobertaTokenizer", { "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>" } },
    { "XLMRobertaTokenizer", { "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>" } },
};

typedef struct {
    special_tokens *out, saved;
    uint8_t from;
    bool decoder; /* there is an added_tokens_decoder */
    bool extra;   /* extra_special_tokens was there, so additional_special_tokens is not it */
    char class[JSON_READER_STRING];
} reader;

static bool is_known(const char *name) {
    for (int i = 0; i < KNOWN; i++)
        if (strcmp(name, known[i]) == 0) return true;
    return false;
}

static bool is_token_name(const char *name) {
    size_t length = strlen(name);
    return length >= 6 && strcmp(name + length - 6, "_token") == 0;
}

/* ---- the list ---- */

static uint32_t place_of(const special_tokens *t, const char *name) {
    uint32_t i = 0;
    while (i < t->count && strcmp(t->items[i].name, name) != 0) i++;
    return i;
}

static void remove_one(special_tokens *t, special_token *gone) {
    t->bytes -= strlen(gone->name) + strlen(gone->text) + 2;
    memory_free(gone->name);
    memory_free(gone->text);
    *gone = t->items[--t->count];
}

static status add(special_tokens *t, const char *name, const char *text, uint8_t from) {
    if (t->count == SPECIAL_TOKENS_MOST)
        return status_set(STATUS_INVALID, "more than %d special tokens with names", SPECIAL_TOKENS_MOST);
    if (!t->items) {
        t->items = memory_new(SPECIAL_TOKENS_MOST, sizeof *t->items);
        t->bytes = SPECIAL_TOKENS_MOST * sizeof *t->items;
    }
    special_token token = { t->items ? memory_text(name) : NULL, t->items ? memory_text(text) : NULL, from };
    if (!token.name || !token.text) {
        memory_free(token.name);
        memory_free(token.text);
        return status_set(STATUS_FAILED, "no memory for the special tokens of a model");
    }
    t->items[t->count++] = token;
    t->bytes += strlen(name) + strlen(text) + 2;
    return STATUS_OK;
}

/* `text` NULL: this place says that there is none. */
static status set(special_tokens *t, const char *name, const char *text, uint8_t from) {
    uint32_t at = place_of(t, name);
    if (at < t->count && t->items[at].from > from) return STATUS_OK;
    if (at < t->count) remove_one(t, &t->items[at]);
    return text ? add(t, name, text, from) : STATUS_OK;
}

/* ---- a token ---- */

typedef struct {
    bool there, marked; /* marked: "__type" says that it is an added token */
    char text[JSON_READER_STRING];
} content;

static status read_content(void *context, json_reader *r, const char *key) {
    content *c = context;
    char type[JSON_READER_STRING];
    if (strcmp(key, "content") == 0) {
        c->there = true;
        return json_reader_string(r, c->text);
    }
    if (strcmp(key, "__type") != 0 || json_reader_peek(r) != '"') return json_reader_skip(r);
    TRY(json_reader_string(r, type));
    c->marked = strcmp(type, "AddedToken") == 0;
    return STATUS_OK;
}

/* The value that stands next is a token, or none. `loose`: another kind of value, or an object that does not
 * say that it is a token, is passed over; else it is refused. */
static status read_token(const reader *x, json_reader *r, const char *name, bool loose) {
    content c = { 0 };
    bool none;
    int first = json_reader_peek(r);
    if (first == '"') {
        TRY(json_reader_string(r, c.text));
        return set(x->out, name, c.text, x->from);
    }
    if (first == '{') {
        TRY(members_read(r, read_content, &c));
        if (c.there && (c.marked || !loose)) return set(x->out, name, c.text, x->from);
        return loose ? STATUS_OK : json_reader_wrong(r, "a special token has no 'content'");
    }
    if (loose) return json_reader_skip(r);
    if (first != 'n') return json_reader_wrong(r, "a special token is a text, or an object with 'content'");
    TRY(json_reader_null(r, &none));
    return set(x->out, name, NULL, x->from);
}

/* ---- the files ---- */

static status read_named(void *context, json_reader *r, const char *key) {
    const reader *x = context;
    return read_token(x, r, key, false);
}

/* Tokens by their names where it is an object; a list of tokens has no names. */
static status read_extra(special_tokens *out, json_reader *r, uint8_t from) {
    reader named = { .out = out, .from = from };
    return json_reader_peek(r) == '{' ? members_read(r, read_named, &named) : json_reader_skip(r);
}

static void forget(special_tokens *t, uint8_t from) {
    for (uint32_t i = t->count; i > 0; i--)
        if (t->items[i - 1].from == from) remove_one(t, &t->items[i - 1]);
}

/* The first reading of tokenizer_config.json: what the second one goes by. */
static status read_class(void *context, json_reader *r, const char *key) {
    reader *x = context;
    if (strcmp(key, "tokenizer_class") == 0 && json_reader_peek(r) == '"')
        return json_reader_string(r, x->class);
    if (strcmp(key, "added_tokens_decoder") == 0) x->decoder = true;
    return json_reader_skip(r);
}

static status read_padding(void *context, json_reader *r, const char *key) {
    reader *x = context;
    x->from = FROM_CLASS;
    return strcmp(key, "pad_token") == 0 ? read_token(x, r, key, true) : json_reader_skip(r);
}

/* tokenizer.json says how it fills texts up; a class may know better. */
static status read_tokenizer(void *context, json_reader *r, const char *key) {
    bool fills = strcmp(key, "padding") == 0 && json_reader_peek(r) == '{';
    return fills ? members_read(r, read_padding, context) : json_reader_skip(r);
}

static status read_config(void *context, json_reader *r, const char *key) {
    reader *x = context;
    x->from = FROM_CONFIG;
    if (is_known(key)) return read_token(x, r, key, false);
    if (strcmp(key, "model_specific_special_tokens") == 0) return read_extra(&x->saved, r, FROM_SAVED);
    bool extra = strcmp(key, "extra_special_tokens") == 0;
    if (extra || (strcmp(key, "additional_special_tokens") == 0 && !x->extra)) {
        forget(x->out, FROM_EXTRA);
        x->extra = x->extra || extra;
        return read_extra(x->out, r, FROM_EXTRA);
    }
    if (!is_token_name(key)) return json_reader_skip(r);
    x->from = json_reader_peek(r) == '"' ? FROM_EXPLICIT : FROM_CONFIG;
    return read_token(x, r, key, true);
}

static status read_map(void *context, json_reader *r, const char *key) {
    reader *x = context;
    x->from = FROM_MAP;
    if (strcmp(key, "extra_special_tokens") == 0) return read_extra(x->out, r, FROM_EXTRA);
    if (!is_known(key) && !is_token_name(key)) return json_reader_skip(r);
    int first = json_reader_peek(r);
    if (is_known(key) || first == '"' || first == '{') return read_token(x, r, key, false);
    TRY(json_reader_skip(r));
    return set(x->out, key, NULL, FROM_MAP); /* whatever else it is, it is no token any more */
}

/* A class and its fast kind have one name. */
static status set_class(const reader *x) {
    size_t length = strlen(x->class);
    if (length > 4 && strcmp(x->class + length - 4, "Fast") == 0) length -= 4;
    for (size_t k = 0; k < sizeof classes / sizeof *classes; k++) {
        if (strlen(classes[k].class) != length || strncmp(classes[k].class, x->class, length) != 0) continue;
        for (int i = 0; i < KNOWN; i++)
            if (classes[k].tokens[i]) TRY(set(x->out, known[i], classes[k].tokens[i], FROM_CLASS));
    }
    return STATUS_OK;
}

static bool has(const special_tokens *t, uint8_t from) {
    for (uint32_t i = 0; i < t->count; i++)
        if (t->items[i].from == from) return true;
    return false;
}

static status read_files(const char *directory, reader *x) {
    static const char config[] = "tokenizer_config.json";
    bool there;
    TRY(members_of_file(directory, config, read_class, x, &there));
    bool told = there;
    TRY(members_of_file(directory, "tokenizer.json", read_tokenizer, x, &there));
    if (told) TRY(set_class(x)); /* over that of the padding */
    if (told) TRY(members_of_file(directory, config, read_config, x, &there));
    bool alone = !has(x->out, FROM_EXPLICIT) && !has(x->out, FROM_EXTRA);
    for (uint32_t i = 0; alone && i < x->saved.count; i++)
        TRY(set(x->out, x->saved.items[i].name, x->saved.items[i].text, FROM_SAVED));
    return x->decoder ? STATUS_OK
                      : members_of_file(directory, "special_tokens_map.json", read_map, x, &there);
}

status special_tokens_read(const char *directory, special_tokens *out) {
    reader x = { .out = out };
    *out = (special_tokens){ 0 };
    status result = read_files(directory, &x);
    special_tokens_close(&x.saved);
    return result;
}

const special_token *special_tokens_find(const special_tokens *t, const char *name) {
    uint32_t at = place_of(t, name);
    return at < t->count ? &t->items[at] : NULL;
}

void special_tokens_close(special_tokens *t) {
    for (uint32_t i = 0; i < t->count; i++) {
        memory_free(t->items[i].name);
        memory_free(t->items[i].text);
    }
    memory_free(t->items);
    *t = (special_tokens){ 0 };
}
