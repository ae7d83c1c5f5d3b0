/* Reading a tokenizer.json, twice.
 *
 * Keys may come in any order, and what a part is stands in one of them. So the first thing that is done with
 * an object is to note where the values of its keys begin; then they are read in the order that is needed.
 * The two large ones, vocabulary and merges, are counted while they are passed over in the first reading, and
 * read in the second: no byte of them is looked at a third time.
 *
 * Both readings run the same code. In the first nothing is kept: open_take counts and gives no memory, texts
 * are measured, parts go to scratch. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/tokenizer/blanks.h"
#include "text/tokenizer/cuts.h"
#include "text/tokenizer/models.h"
#include "text/tokenizer/places.h"
#include "text/tokenizer/pre_tokenizers.h"
#include "text/tokenizer/settle.h"
#include "text/tokenizer/unicode.h"

enum { SEQUENCES = 8, PARTS = 64 };

status open_wrong(opener *o, const char *format, ...) {
    char why[400];
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    utf8_clean(why);
    return json_reader_wrong(&o->json, why);
}

void *open_take(opener *o, uint64_t bytes) {
    uint64_t at = o->used;
    o->used += (bytes + 15) & ~(uint64_t)15;
    return o->counting ? NULL : o->block + at;
}

/* ---- objects ---- */

/* What is done with the value of a key while an object is passed over. */
typedef status on_value(opener *o, const char *key);

static status pass_value(opener *o, const char *key) {
    (void)key;
    return json_reader_skip(&o->json);
}

/* A key; what is longer than any that is known becomes "". */
static status read_key(opener *o, char key[TOKENIZER_KEY]) {
    uint64_t bytes;
    memset(key, 0, TOKENIZER_KEY);
    TRY(json_reader_text(&o->json, key, TOKENIZER_KEY - 1, &bytes));
    if (bytes >= TOKENIZER_KEY) key[0] = 0;
    return json_reader_expect(&o->json, ':');
}

static status note_keys(opener *o, object *found, on_value *value) {
    char key[TOKENIZER_KEY];
    json_reader *r = &o->json;
    memset(found, 0, sizeof *found);
    TRY(json_reader_expect(r, '{'));
    bool more = !json_reader_take(r, '}');
    while (more) {
        TRY(read_key(o, key));
        if (*key) {
            if (found->count == TOKENIZER_KEYS) return open_wrong(o, "an object has too many keys");
            memcpy(found->name[found->count], key, sizeof key);
            found->place[found->count++] = json_reader_place(r);
        }
        TRY(value(o, key));
        TRY(json_reader_another(r, '}', &more));
    }
    found->end = json_reader_place(r);
    return STATUS_OK;
}

status open_object(opener *o, object *found) { return note_keys(o, found, pass_value); }

/* Of a key that is there twice the last one counts. */
bool open_go(opener *o, const object *in, const char *key) {
    for (uint32_t i = in->count; i-- > 0;)
        if (strcmp(in->name[i], key) == 0) return json_reader_go(&o->json, in->place[i]), true;
    return false;
}

/* ---- fields ---- */

status open_text(opener *o, span *out) {
    uint64_t bytes, left = o->counting ? 0 : o->room - o->used;
    char *to = o->counting ? NULL : o->block + o->used;
    TRY(json_reader_text(&o->json, to, left, &bytes));
    if (bytes > UINT32_MAX) return open_wrong(o, "a text is longer than 4 GiB");
    if (!o->counting && bytes > left) return open_wrong(o, "the file was changed while it was read");
    open_take(o, bytes + 1);
    *out = (span){ to ? to : "", (uint32_t)bytes };
    return STATUS_OK;
}

/* A short text that is looked at now, into scratch; longer ones are refused. */
static status read_scratch(opener *o, const char *what, size_t *bytes) {
    *bytes = 0;
    uint64_t length;
    TRY(json_reader_text(&o->json, o->scratch, sizeof o->scratch - 1, &length));
    if (length >= sizeof o->scratch)
        return open_wrong(o, "%s is longer than %zu bytes", what, sizeof o->scratch);
    o->scratch[length] = 0;
    *bytes = (size_t)length;
    return STATUS_OK;
}

status open_pattern(opener *o, const char *text, size_t bytes, pattern **out) {
    status result = pattern_open(text, bytes, &o->t->patterns, out);
    if (result == STATUS_INVALID) return open_wrong(o, "%s", status_message());
    return result;
}

static void note_signs(part *p, const char *text, size_t bytes) {
    if (bytes >= sizeof p->finds_signs) return;
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] >= 0x80) return;
    memcpy(p->finds_signs, text, bytes);
}

/* {"String": "..."} or {"Regex": "..."} */
static status read_pattern(opener *o, part *p, pattern **out) {
    object found;
    size_t bytes;
    TRY(open_object(o, &found));
    pattern_close(*out); /* of a field that was read before */
    *out = NULL;
    if (open_go(o, &found, "Regex")) {
        TRY(read_scratch(o, "a pattern", &bytes));
        p->finds_blanks = strcmp(o->scratch, " {2,}") == 0 || strcmp(o->scratch, " +") == 0;
        return open_pattern(o, o->scratch, bytes, out);
    }
    if (!open_go(o, &found, "String"))
        return open_wrong(o, "a pattern is {\"String\": ...} or {\"Regex\": ...}");
    TRY(read_scratch(o, "a pattern", &bytes));
    size_t first = 0;
    if (bytes) p->letter = unicode_read(o->scratch, &first);
    if (first != bytes) p->letter = 0;
    note_signs(p, o->scratch, bytes);
    return pattern_open_text(o->scratch, bytes, &o->t->patterns, out);
}

static status read_letter(opener *o, uint32_t *out) {
    size_t bytes, first = 0;
    TRY(read_scratch(o, "a character", &bytes));
    if (bytes) *out = unicode_read(o->scratch, &first);
    return bytes && first == bytes ? STATUS_OK : open_wrong(o, "expected a text of one character");
}

static status read_choice(opener *o, const part_field *f, uint8_t *out) {
    size_t bytes;
    TRY(read_scratch(o, "a choice", &bytes));
    for (uint8_t i = 0; f->choices[i]; i++)
        if (strcmp(o->scratch, f->choices[i]) == 0) return *out = i, STATUS_OK;
    return open_wrong(o, "'%s' is not known as '%.60s'", f->name, o->scratch);
}

static status read_field(opener *o, const part_field *f, part *p) {
    char *to = (char *)p + f->offset;
    bool null = false, yes;
    if (f->type == FIELD_SPECIAL) return f->read(o, p);
    if (f->type == FIELD_MAYBE || f->type == FIELD_TEXT) TRY(json_reader_null(&o->json, &null));
    if (null && f->required)
        return open_wrong(o, "'%s' of the %s '%s' is null", f->name, o->role, p->kind->name);
    if (null) return STATUS_OK;
    switch (f->type) {
    case FIELD_BOOL: return json_reader_bool(&o->json, (bool *)to);
    case FIELD_MAYBE:
        TRY(json_reader_bool(&o->json, &yes));
        *(uint8_t *)to = yes;
        return STATUS_OK;
    case FIELD_WHOLE: return json_reader_whole(&o->json, (uint64_t *)(void *)to);
    case FIELD_TEXT: return open_text(o, (span *)(void *)to);
    case FIELD_LETTER: return read_letter(o, (uint32_t *)(void *)to);
    case FIELD_CHOICE: return read_choice(o, f, (uint8_t *)to);
    case FIELD_PATTERN: return read_pattern(o, p, (pattern **)(void *)to);
    default: return STATUS_OK;
    }
}

/* ---- parts ---- */

static status find_kind(opener *o, const part_kind *const *kinds, const part_kind **kind) {
    for (uint32_t i = 0; kinds[i]; i++)
        if (strcmp(kinds[i]->name, o->scratch) == 0) return *kind = kinds[i], STATUS_OK;
    return open_wrong(o, "the %s '%.60s' is not known", o->role, o->scratch);
}

/* Files of old versions do not say what their model is. The library takes the first kind that can be made of
 * the keys, and `kinds` are in its order. */
static const part_kind *kind_by_keys(opener *o, const object *in, const part_kind *const *kinds) {
    for (uint32_t i = 0; kinds[i]; i++) {
        bool all = kinds[i]->known_by && open_go(o, in, kinds[i]->known_by);
        for (const part_field *f = kinds[i]->fields; all && f->name; f++)
            all = !f->required || open_go(o, in, f->name);
        if (all) return kinds[i];
    }
    return NULL;
}

static status read_kind(opener *o, const object *in, const part_kind *const *kinds, const part_kind **kind) {
    size_t bytes;
    if (open_go(o, in, "type")) {
        TRY(read_scratch(o, "a type", &bytes));
        return find_kind(o, kinds, kind);
    }
    *kind = kind_by_keys(o, in, kinds);
    if (*kind) return STATUS_OK;
    json_reader_go(&o->json, in->end);
    return open_wrong(o, "the %s has no 'type'", o->role);
}

status open_kind(opener *o, const object *in, const part_kind *const *kinds, part *p) {
    const part_kind *kind = NULL;
    object outer = o->current;
    TRY(read_kind(o, in, kinds, &kind));
    *p = kind->init;
    p->kind = kind;
    o->current = *in;
    for (const part_field *f = kind->fields; f && f->name; f++) {
        if (open_go(o, in, f->name))
            TRY(read_field(o, f, p));
        else if (f->required)
            return open_wrong(o, "the %s '%s' has no '%s'", o->role, kind->name, f->name);
    }
    json_reader_go(&o->json, in->end);
    if (kind->check) TRY(kind->check(o, p));
    json_reader_go(&o->json, in->end);
    o->current = outer;
    return STATUS_OK;
}

static status read_part(opener *o, const part_kind *const *kinds, const char *children, part_list *list);

static status read_sequence(opener *o, const part_kind *const *kinds, const char *children, part_list *list) {
    bool more = true;
    if (++o->depth > SEQUENCES) return open_wrong(o, "sequences are nested more than %d deep", SEQUENCES);
    TRY(json_reader_expect(&o->json, '['));
    if (json_reader_take(&o->json, ']')) more = false;
    while (more) {
        TRY(read_part(o, kinds, children, list));
        TRY(json_reader_another(&o->json, ']', &more));
    }
    o->depth--;
    return STATUS_OK;
}

static status read_part(opener *o, const part_kind *const *kinds, const char *children, part_list *list) {
    object found;
    size_t bytes;
    part *p = &o->part_scratch;
    TRY(open_object(o, &found));
    if (open_go(o, &found, "type")) {
        TRY(read_scratch(o, "a type", &bytes));
        if (strcmp(o->scratch, "Sequence") == 0) {
            if (!open_go(o, &found, children)) return open_wrong(o, "a Sequence has no '%s'", children);
            TRY(read_sequence(o, kinds, children, list));
            return json_reader_go(&o->json, found.end), STATUS_OK;
        }
    }
    if (list->count + 2 > PARTS) return open_wrong(o, "more than %d parts one behind the other", PARTS);
    if (!o->counting) p = &list->items[list->count];
    *p = (part){ 0 };
    list->count++;
    status result = open_kind(o, &found, kinds, p);
    if (o->counting) { /* one after the other is opened and closed, and all are counted */
        o->pattern_bytes += o->t->patterns.held;
        pattern_close(p->find);
        p->find = NULL;
    }
    const part_kind *then = result == STATUS_OK ? p->kind->then : NULL;
    if (then && !o->counting) list->items[list->count] = (part){ .kind = then };
    list->count += then != NULL;
    return result;
}

/* The list's memory is taken behind the first reading, when its length is known. */
status open_parts(opener *o, const part_kind *const *kinds, const char *children, part_list *list) {
    bool null;
    list->count = 0;
    TRY(json_reader_null(&o->json, &null));
    return null ? STATUS_OK : read_part(o, kinds, children, list);
}

/* ---- the file ---- */

static status note_model_value(opener *o, const char *key) {
    if (strcmp(key, "vocab") == 0) return vocabulary_count(o);
    if (strcmp(key, "merges") == 0) return merges_count(o);
    return json_reader_skip(&o->json);
}

static status note_value(opener *o, const char *key) {
    if (strcmp(key, "model") == 0 && json_reader_peek(&o->json) == '{')
        return note_keys(o, &o->model, note_model_value);
    return json_reader_skip(&o->json);
}

static status read_limits(opener *o) {
    static const char *const sides[] = { "Left", "Right", NULL }, *const plans[] = { "LongestFirst",
                                                                                     "OnlyFirst",
                                                                                     "OnlySecond", NULL };
    const part_field side = { .name = "direction", .choices = sides },
                     plan = { .name = "strategy", .choices = plans };
    tokenizer *t = o->t;
    object found;
    bool null = true;
    uint8_t choice = 1;
    t->truncates = false;
    if (open_go(o, &o->file, "truncation")) TRY(json_reader_null(&o->json, &null));
    if (null) return STATUS_OK;
    TRY(open_object(o, &found));
    if (open_go(o, &found, "direction")) TRY(read_choice(o, &side, &choice));
    t->truncates_left = choice == 0;
    if (!open_go(o, &found, "strategy")) return open_wrong(o, "the truncation has no 'strategy'");
    TRY(read_choice(o, &plan, &choice));
    t->truncates_second = choice == 2;
    if (!open_go(o, &found, "max_length")) return open_wrong(o, "the truncation has no 'max_length'");
    TRY(json_reader_whole(&o->json, &t->most_ids));
    t->truncates = true;
    return STATUS_OK;
}

/* "BatchLongest" or {"Fixed": 128} */
static status read_pad_length(opener *o) {
    object found;
    size_t bytes;
    if (json_reader_peek(&o->json) == '{') {
        TRY(open_object(o, &found));
        if (!open_go(o, &found, "Fixed")) return open_wrong(o, "the padding's 'strategy' is not known");
        return json_reader_whole(&o->json, &o->t->pad_length);
    }
    TRY(read_scratch(o, "a strategy", &bytes));
    return strcmp(o->scratch, "BatchLongest") == 0 ? STATUS_OK
                                                   : open_wrong(o, "the padding's 'strategy' is not known");
}

static status read_padding(opener *o) {
    static const char *const sides[] = { "Left", "Right", NULL };
    const part_field side = { .name = "direction", .choices = sides };
    tokenizer *t = o->t;
    object found;
    bool null = true;
    uint8_t choice = 1;
    uint64_t id = 0;
    t->pads = false;
    if (open_go(o, &o->file, "padding")) TRY(json_reader_null(&o->json, &null));
    if (null) return STATUS_OK;
    TRY(open_object(o, &found));
    if (open_go(o, &found, "direction")) TRY(read_choice(o, &side, &choice));
    t->pads_left = choice == 0;
    if (open_go(o, &found, "pad_id")) TRY(json_reader_whole(&o->json, &id));
    if (id >= TOKENIZER_NONE) return open_wrong(o, "'pad_id' is too large");
    t->pad_id = (uint32_t)id;
    if (open_go(o, &found, "pad_to_multiple_of")) {
        TRY(json_reader_null(&o->json, &null));
        if (!null) TRY(json_reader_whole(&o->json, &t->pad_multiple));
    }
    if (!open_go(o, &found, "strategy")) return open_wrong(o, "the padding has no 'strategy'");
    TRY(read_pad_length(o));
    if (t->pad_length > UINT32_MAX || t->pad_multiple > UINT32_MAX)
        return open_wrong(o, "the padding is too long");
    t->pads = true;
    return STATUS_OK;
}

typedef struct {
    const char *key, *children, *role;
    const part_kind *const *kinds;
    size_t list;
} section;

static const section sections[] = {
    { "normalizer", "normalizers", "normalizer", normalizer_kinds, offsetof(tokenizer, normalizers) },
    { "pre_tokenizer", "pretokenizers", "pre-tokenizer", pre_tokenizer_kinds,
      offsetof(tokenizer, pre_tokenizers) },
    { "post_processor", "processors", "post-processor", post_processor_kinds,
      offsetof(tokenizer, post_processors) },
    { "decoder", "decoders", "decoder", token_decoder_kinds, offsetof(tokenizer, decoders) },
};
enum { SECTIONS = sizeof sections / sizeof *sections };

static status read_sections(opener *o) {
    for (int i = 0; i < SECTIONS; i++) {
        part_list *list = (part_list *)(void *)((char *)o->t + sections[i].list);
        o->role = sections[i].role, o->depth = o->around = 0;
        if (open_go(o, &o->file, sections[i].key))
            TRY(open_parts(o, sections[i].kinds, sections[i].children, list));
        if (o->counting) open_take(o, list->count * sizeof(part));
    }
    if (o->t->pre_tokenizers.count > TOKENIZER_STAGES)
        return open_wrong(o, "more than %d pre-tokenizers", TOKENIZER_STAGES);
    return STATUS_OK;
}

/* Can a long text be taken piece by piece, and how? */
static status find_windows(tokenizer *t) {
    t->takes_windows = pre_tokenizers_take_windows(t);
    t->takes_cuts = !t->takes_windows && cuts_prepare(t);
    t->takes_blanks = t->takes_ideographs = t->takes_places = false;
    settle_prepare(t);
    if (!t->takes_windows && !t->takes_cuts) places_prepare(t);
    return t->takes_windows || t->takes_cuts ? STATUS_OK : blanks_prepare(t);
}

static status read_all(opener *o) {
    size_t bytes;
    if (open_go(o, &o->file, "version")) {
        TRY(read_scratch(o, "the version", &bytes));
        if (strcmp(o->scratch, "1.0") != 0)
            return open_wrong(o, "the version is '%.20s' and not 1.0", o->scratch);
    }
    TRY(read_limits(o));
    TRY(read_padding(o));
    TRY(vocabulary_read(o));
    o->role = "model";
    TRY(open_kind(o, &o->model, model_kinds, &o->t->model));
    TRY(read_sections(o));
    if (!o->counting && pre_tokenizers_end_in_bytes(o->t)) bpe_bytes_come(o->t);
    TRY(added_read(o));
    return o->counting ? STATUS_OK : find_windows(o->t);
}

status tokenizer_take_whole(tokenizer *t) {
    t->truncates = t->pads = false;
    return find_windows(t);
}

/* The first reading: what the block will hold. */
static status count_all(opener *o) {
    TRY(note_keys(o, &o->file, note_value));
    TRY(json_reader_end(&o->json));
    if (!o->model.end) return open_wrong(o, "there is no model");
    return read_all(o);
}

status tokenizer_count(const json_source *file, tokenizer_counted **out) {
    opener *o = *out = memory_new(1, sizeof *o);
    if (!o) return status_set(STATUS_NO_FIT, "%s: no memory to read it", file->path);
    json_reader_begin(&o->json, file);
    o->t = memory_new(1, sizeof *o->t);
    if (!o->t) return status_set(STATUS_NO_FIT, "%s: no memory to read it", file->path);
    o->counting = true;
    open_take(o, sizeof *o->t);
    TRY(count_all(o));
    o->room = o->used;
    return STATUS_OK;
}

void tokenizer_counted_close(tokenizer_counted *o) {
    if (!o) return;
    memory_free(o->t);
    memory_free(o);
}

/* Patterns were opened one after the other, and are counted as if all were. */
uint64_t tokenizer_counted_bytes(const tokenizer_counted *o) { return o->room + o->pattern_bytes; }

/* Lists of parts come first in the block, since their lengths are known. */
static void lay_out(opener *o, const tokenizer *counted) {
    o->counting = false;
    o->used = 0;
    o->t = open_take(o, sizeof *o->t);
    memset(o->t, 0, sizeof *o->t);
    for (int i = 0; i < SECTIONS; i++) {
        const part_list *from = (const part_list *)(const void *)((const char *)counted + sections[i].list);
        part_list *to = (part_list *)(void *)((char *)o->t + sections[i].list);
        to->items = open_take(o, from->count * sizeof(part));
        if (from->count) memset(to->items, 0, from->count * sizeof(part));
    }
}

status tokenizer_open_counted(tokenizer_counted *o, tokenizer **out) {
    tokenizer *counted = o->t;
    *out = NULL;
    o->block = memory_room(1, o->room);
    if (!o->block)
        return status_set(STATUS_NO_FIT, "%s: no memory for a tokenizer of %" PRIu64 " bytes",
                          o->json.source.path, o->room);
    lay_out(o, counted);
    tokenizer *t = o->t;
    status result = read_all(o);
    o->t = counted;
    if (result == STATUS_OK && o->used != o->room) result = open_wrong(o, "it was changed while it was read");
    t->bytes = o->room;
    if (result == STATUS_OK)
        *out = t;
    else
        tokenizer_close(t);
    return result;
}

status tokenizer_open(const json_source *file, tokenizer **t) {
    tokenizer_counted *c;
    *t = NULL;
    status result = tokenizer_count(file, &c);
    if (result == STATUS_OK) result = tokenizer_open_counted(c, t);
    tokenizer_counted_close(c);
    return result;
}

void tokenizer_close(tokenizer *t) {
    if (!t) return;
    for (int i = 0; i < SECTIONS; i++) {
        part_list *list = (part_list *)(void *)((char *)t + sections[i].list);
        for (uint32_t j = 0; j < list->count; j++) pattern_close(list->items[j].find);
    }
    memory_free(t); /* the block begins with it */
}

uint64_t tokenizer_bytes(const tokenizer *t) { return t->bytes + t->patterns.held; }
