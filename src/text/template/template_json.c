#include "text/template/template_json.h"

#include <string.h>

#include "base/memory.h"

/* The values lie behind the head, the letters behind the values. While a list is read its items wait at the
 * end of the values, the last one first; at its closing bracket they move to the front, where they stay. As
 * each value is either waiting or has moved, there is room for all of them. */
struct template_json {
    uint64_t bytes;
    uint64_t value_count, moved, waiting; /* waiting: its place, value_count where none does */
    uint64_t letter_count, used;
    char *letters;
    template_value values[];
};

typedef struct {
    json_reader in;
    uint64_t values, letters; /* counted */
    template_json *into;      /* NULL: the first reading, which counts */
} reader;

static status read_value(reader *r, template_value *out, uint32_t depth);

/* The source has become another one between the readings. */
static status changed(reader *r) {
    return status_set(STATUS_INVALID, "%s changed while it was read", r->in.source.path);
}

static status read_letters(reader *r, const char **bytes, size_t *length) {
    template_json *j = r->into;
    uint64_t left = j ? j->letter_count - j->used : 0, count;
    char *to = j ? j->letters + j->used : NULL;
    TRY(json_reader_text(&r->in, to, left, &count));
    if (j && count > left) return changed(r);
    *bytes = to, *length = (size_t)count;
    if (j)
        j->used += count;
    else
        r->letters += count;
    return STATUS_OK;
}

static status wait_for_more(reader *r, const template_value *v) {
    template_json *j = r->into;
    if (!j) {
        r->values++;
        return STATUS_OK;
    }
    if (j->waiting == j->moved) return changed(r);
    j->values[--j->waiting] = *v;
    return STATUS_OK;
}

/* The last `count` that wait become items of a list. */
static void move(template_json *j, size_t count, template_value *list) {
    template_value *first = j->values + j->waiting;
    for (size_t i = 0; i < count / 2; i++) {
        template_value other = first[i];
        first[i] = first[count - 1 - i], first[count - 1 - i] = other;
    }
    memmove(j->values + j->moved, first, count * sizeof *first);
    list->list.items = j->values + j->moved, list->list.count = count;
    j->moved += count, j->waiting += count;
}

static status read_item(reader *r, bool keyed, uint32_t depth) {
    const char *key = NULL;
    size_t key_length = 0;
    template_value item;
    if (keyed) {
        TRY(read_letters(r, &key, &key_length));
        TRY(json_reader_expect(&r->in, ':'));
    }
    TRY(read_value(r, &item, depth));
    item.key = key, item.key_length = key_length;
    return wait_for_more(r, &item);
}

static status read_many(reader *r, template_value *out, uint32_t depth) {
    bool keyed = json_reader_take(&r->in, '{'), more = true;
    char close = keyed ? '}' : ']';
    size_t count = 0;
    if (!keyed) TRY(json_reader_expect(&r->in, '['));
    if (depth == TEMPLATE_JSON_DEPTH)
        return json_reader_wrong(&r->in, "values are nested more than 500 deep");
    out->kind = keyed ? TEMPLATE_OBJECT : TEMPLATE_LIST;
    if (json_reader_take(&r->in, close)) more = false;
    for (; more; count++) {
        TRY(read_item(r, keyed, depth + 1));
        TRY(json_reader_another(&r->in, close, &more));
    }
    if (r->into) move(r->into, count, out);
    return STATUS_OK;
}

static status read_number(reader *r, template_value *out) {
    json_numeral n;
    TRY(json_reader_numeral(&r->in, &n));
    out->kind = n.whole ? TEMPLATE_INTEGER : TEMPLATE_NUMBER;
    if (n.whole)
        out->integer = n.integer;
    else
        out->number = n.number;
    return STATUS_OK;
}

/* `depth` lists and objects are around it. */
static status read_value(reader *r, template_value *out, uint32_t depth) {
    bool none;
    *out = (template_value){ .kind = TEMPLATE_NONE };
    switch (json_reader_peek(&r->in)) {
    case '{':
    case '[': return read_many(r, out, depth);
    case '"': out->kind = TEMPLATE_TEXT; return read_letters(r, &out->text.bytes, &out->text.length);
    case 't':
    case 'f': out->kind = TEMPLATE_BOOL; return json_reader_bool(&r->in, &out->yes);
    case 'n': return json_reader_null(&r->in, &none);
    case '-':
    case '0' ... '9': return read_number(r, out);
    default: return json_reader_wrong(&r->in, "expected a value");
    }
}

static status read_all(reader *r, const json_source *source) {
    template_value root;
    json_reader_begin(&r->in, source);
    TRY(read_value(r, &root, 0));
    TRY(json_reader_end(&r->in));
    return wait_for_more(r, &root);
}

/* What the counted ones take; at most `most`. */
static status find_bytes(const reader *r, uint64_t most, uint64_t *bytes) {
    if (!__builtin_mul_overflow(r->values, sizeof(template_value), bytes) &&
        !__builtin_add_overflow(*bytes, r->letters + sizeof *r->into, bytes) && *bytes <= most &&
        *bytes <= SIZE_MAX)
        return STATUS_OK;
    return status_set(STATUS_INVALID, "%s: %s has %llu values and takes more than %llu bytes of memory",
                      r->in.source.path, r->in.source.what, (unsigned long long)r->values,
                      (unsigned long long)most);
}

/* The second reading, into a block of so many bytes. */
static status fill(reader *r, const json_source *source, template_json *j, uint64_t bytes) {
    *j = (template_json){
        .bytes = bytes, .value_count = r->values, .waiting = r->values, .letter_count = r->letters
    };
    j->letters = (char *)(j->values + r->values);
    r->into = j;
    TRY(read_all(r, source));
    return j->waiting == j->moved ? STATUS_OK : changed(r);
}

status template_json_open(const json_source *source, uint64_t most, template_json **out) {
    template_json *j = NULL;
    uint64_t bytes = 0;
    *out = NULL;
    reader *r = memory_new(1, sizeof *r); /* its buffer is large for a stack */
    if (!r) return status_set(STATUS_FAILED, "%s: no memory to read it", source->path);
    status result = read_all(r, source);
    if (result == STATUS_OK) result = find_bytes(r, most, &bytes);
    if (result == STATUS_OK) {
        j = memory_new(1, (size_t)bytes);
        result = j ? fill(r, source, j, bytes)
                   : status_set(STATUS_FAILED, "%s: no memory for %llu bytes", source->path,
                                (unsigned long long)bytes);
    }
    if (result == STATUS_OK)
        *out = j;
    else
        template_json_close(j);
    memory_free(r);
    return result;
}

enum { ALIGNMENT = 16 }; /* of a block */
_Static_assert(sizeof(reader) <= TEMPLATE_JSON_READING - ALIGNMENT, "a reader has room while it reads");

static uint64_t aligned(uint64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

bool template_json_is_mark(char c) { return c == '[' || c == '{' || c == ','; }

/* An item stands behind the bracket that opens, or behind a comma. */
uint64_t template_json_most(uint64_t count, uint64_t marks) {
    return aligned(sizeof(template_json) + (marks + 1) * sizeof(template_value) + count);
}

/* The reader works at the end of the room. */
status template_json_place(const json_source *source, void *room, uint64_t bytes, template_json **out) {
    uint64_t taken;
    *out = NULL;
    if (bytes < TEMPLATE_JSON_READING)
        return status_set(STATUS_INVALID, "%s: no room to read %s", source->path, source->what);
    uint64_t most = (bytes - sizeof(reader)) / ALIGNMENT * ALIGNMENT;
    reader *r = (void *)((char *)room + most);
    *r = (reader){ 0 };
    TRY(read_all(r, source));
    TRY(find_bytes(r, most, &taken));
    TRY(fill(r, source, room, aligned(taken)));
    *out = room;
    return STATUS_OK;
}

void template_json_close(template_json *j) { memory_free(j); }

/* All others have moved to the front before it. */
const template_value *template_json_value(const template_json *j) { return &j->values[j->value_count - 1]; }

uint64_t template_json_bytes(const template_json *j) { return j->bytes; }

const template_value *template_value_member(const template_value *object, const char *key) {
    size_t length = strlen(key);
    if (object->kind != TEMPLATE_OBJECT) return NULL;
    for (size_t i = object->list.count; i > 0; i--) {
        const template_value *m = &object->list.items[i - 1];
        if (m->key_length == length && memcmp(m->key, key, length) == 0) return m;
    }
    return NULL;
}

bool template_value_says(const template_value *v, const char *word) {
    return v->kind == TEMPLATE_TEXT && v->text.length == strlen(word) &&
           memcmp(v->text.bytes, word, v->text.length) == 0;
}

template_value template_value_text(const char *words) {
    return (template_value){ .kind = TEMPLATE_TEXT, .text = { words, strlen(words) } };
}

template_value template_value_many(template_kind kind, const template_value *items, size_t count) {
    return (template_value){ .kind = kind, .list = { items, count } };
}
