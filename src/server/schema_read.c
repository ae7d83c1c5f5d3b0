#include "server/schema_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template/template_json.h"

/* ---- what is being read ---- */

enum { REFERENCES = 64, NESTED = 64 };

typedef struct {
    schema *s;
    const template_value *root;
    struct {
        const template_value *value;
        uint16_t form;
    } read[REFERENCES]; /* what references have led to, so that they may lead to it again */
    uint32_t read_count, depth;
} reader;

static status form_of(reader *r, const template_value *v, uint16_t *out);

static status full(const char *what, int most) {
    return status_set(STATUS_INVALID, "the schema has more than %d %s", most, what);
}

/* A member that is there and not null. */
static const template_value *member(const template_value *v, const char *key) {
    const template_value *m = template_value_member(v, key);
    return m && m->kind != TEMPLATE_NONE ? m : NULL;
}

static status add_form(schema *s, form_kind kind, uint16_t *out) {
    if (s->form_count == SCHEMA_FORMS) return full("schemas within it", SCHEMA_FORMS);
    *out = (uint16_t)s->form_count++;
    s->forms[*out] = (schema_form){ .kind = (uint8_t)kind, .item = SCHEMA_NONE, .most = SCHEMA_ENDLESS };
    return STATUS_OK;
}

/* ---- texts ---- */

static status add_text(schema *s, const char *bytes, size_t count) {
    if (s->text_count + count > SCHEMA_TEXT) return full("bytes of names and values", SCHEMA_TEXT);
    memcpy(s->text + s->text_count, bytes, count);
    s->text_count += (uint32_t)count;
    return STATUS_OK;
}

/* As JSON has it, without quotes: letters as they are, and the shortest escapes. */
static status add_string(schema *s, const char *bytes, size_t count) {
    static const char named[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    for (size_t i = 0; i < count; i++) {
        unsigned char c = (unsigned char)bytes[i];
        char escape[8] = { bytes[i] };
        size_t n = 1;
        const char *short_one = c ? strchr(named, bytes[i]) : NULL;
        if (short_one && (c < 0x20 || c == '"' || c == '\\')) {
            size_t place = (size_t)(short_one - named) & ~(size_t)1;
            escape[0] = '\\', escape[1] = named[place + 1], n = 2;
        } else if (c < 0x20) {
            n = (size_t)snprintf(escape, sizeof escape, "\\u%04x", c);
        }
        TRY(add_text(s, escape, n));
    }
    return STATUS_OK;
}

/* As short as it can be read back. */
static size_t number_text(double x, char out[40]) {
    int n = 0;
    for (int digits = 15; digits <= 17; digits++) {
        n = snprintf(out, 40, "%.*g", digits, x);
        if (strtod(out, NULL) == x) break;
    }
    return (size_t)n;
}

static status add_literal(schema *s, const template_value *v) {
    char number[40];
    switch (v->kind) {
    case TEMPLATE_NONE: return add_text(s, "null", 4);
    case TEMPLATE_BOOL: return add_text(s, v->yes ? "true" : "false", v->yes ? 4 : 5);
    case TEMPLATE_INTEGER:
        return add_text(s, number, (size_t)snprintf(number, sizeof number, "%lld", (long long)v->integer));
    case TEMPLATE_NUMBER: return add_text(s, number, number_text(v->number, number));
    case TEMPLATE_TEXT:
        TRY(add_text(s, "\"", 1));
        TRY(add_string(s, v->text.bytes, v->text.length));
        return add_text(s, "\"", 1);
    default: return status_set(STATUS_INVALID, "'enum' and 'const' with lists or objects are not known here");
    }
}

/* ---- keys ---- */

static int compare(const schema *s, const schema_key *a, const schema_key *b) {
    size_t n = a->length < b->length ? a->length : b->length;
    int order = memcmp(s->text + a->at, s->text + b->at, n);
    return order ? order : (int)a->length - (int)b->length;
}

/* What was added to the text from `at` on becomes a key of f, at its place in their order; one that is there
 * already stays alone. */
static status add_key(schema *s, schema_form *f, uint32_t at, uint16_t form, uint16_t *place) {
    if (s->key_count == SCHEMA_KEYS) return full("properties and values", SCHEMA_KEYS);
    schema_key new = { .at = (uint16_t)at, .length = (uint16_t)(s->text_count - at), .form = form };
    schema_key *keys = s->keys + f->first;
    uint16_t to = f->count;
    while (to > 0 && compare(s, &keys[to - 1], &new) > 0) to--;
    *place = to;
    if (to > 0 && compare(s, &keys[to - 1], &new) == 0) return STATUS_OK;
    memmove(&keys[to + 1], &keys[to], (size_t)(f->count - to) * sizeof *keys);
    keys[to] = new;
    f->count++, s->key_count++;
    return STATUS_OK;
}

/* ---- types ---- */

static const char *const types[] = { "object", "array", "string", "number", "integer", "boolean", "null" };
enum { TYPE_OBJECT, TYPE_ARRAY, TYPE_STRING, TYPE_NUMBER, TYPE_INTEGER, TYPE_BOOLEAN, TYPE_NULL, TYPES };

static status type_of(const template_value *v, int *type) {
    for (*type = 0; *type < TYPES; ++*type)
        if (template_value_says(v, types[*type])) return STATUS_OK;
    return status_set(STATUS_INVALID, "a 'type' in the schema is none of object, array, string, number, "
                                      "integer, boolean and null");
}

/* As bits; all where nothing is said. */
static status types_of(const template_value *v, uint32_t *bits) {
    const template_value *t = member(v, "type");
    int type;
    *bits = t ? 0 : (1u << TYPES) - 1;
    if (t && t->kind == TEMPLATE_LIST && t->list.count) {
        for (size_t i = 0; i < t->list.count; i++) {
            TRY(type_of(&t->list.items[i], &type));
            *bits |= 1u << type;
        }
        return STATUS_OK;
    }
    if (!t) return STATUS_OK;
    TRY(type_of(t, &type));
    *bits = 1u << type;
    return STATUS_OK;
}

static bool has_type(const template_value *v, uint32_t bits) {
    static const uint32_t of[] = {
        [TEMPLATE_NONE] = 1u << TYPE_NULL,     [TEMPLATE_BOOL] = 1u << TYPE_BOOLEAN,
        [TEMPLATE_TEXT] = 1u << TYPE_STRING,   [TEMPLATE_INTEGER] = 1u << TYPE_INTEGER | 1u << TYPE_NUMBER,
        [TEMPLATE_NUMBER] = 1u << TYPE_NUMBER, [TEMPLATE_LIST] = 1u << TYPE_ARRAY,
        [TEMPLATE_OBJECT] = 1u << TYPE_OBJECT,
    };
    return of[v->kind] & bits;
}

/* ---- values that are named ---- */

static status read_literals(reader *r, const template_value *values, size_t count, uint32_t bits,
                            uint16_t out) {
    schema *s = r->s;
    schema_form *f = &s->forms[out];
    uint16_t place;
    *f = (schema_form){ .kind = FORM_LITERALS, .first = (uint16_t)s->key_count, .item = SCHEMA_NONE };
    for (size_t i = 0; i < count; i++) {
        uint32_t at = s->text_count;
        if (!has_type(&values[i], bits)) continue;
        TRY(add_literal(s, &values[i]));
        TRY(add_key(s, f, at, SCHEMA_NONE, &place));
    }
    if (f->count) return STATUS_OK;
    return status_set(STATUS_INVALID, "an 'enum' in the schema has no value of its type");
}

static status read_words(reader *r, const char *const *words, size_t count, uint16_t out) {
    schema *s = r->s;
    schema_form *f = &s->forms[out];
    uint16_t place;
    *f = (schema_form){ .kind = FORM_LITERALS, .first = (uint16_t)s->key_count, .item = SCHEMA_NONE };
    for (size_t i = 0; i < count; i++) {
        uint32_t at = s->text_count;
        TRY(add_text(s, words[i], strlen(words[i])));
        TRY(add_key(s, f, at, SCHEMA_NONE, &place));
    }
    return STATUS_OK;
}

/* ---- lists, objects, strings ---- */

static status bound_of(const template_value *v, const char *key, uint32_t *out) {
    const template_value *m = member(v, key);
    if (!m) return STATUS_OK;
    if (m->kind != TEMPLATE_INTEGER || m->integer < 0 || m->integer > 1000000000)
        return status_set(STATUS_INVALID, "'%s' in the schema must be a whole number from 0 to 1000000000",
                          key);
    *out = (uint32_t)m->integer;
    return STATUS_OK;
}

static status bounds_of(const template_value *v, const char *least, const char *most, schema_form *f) {
    TRY(bound_of(v, least, &f->least));
    TRY(bound_of(v, most, &f->most));
    if (f->least <= f->most) return STATUS_OK;
    return status_set(STATUS_INVALID, "'%s' in the schema is above '%s'", least, most);
}

static status read_array(reader *r, const template_value *v, uint16_t out) {
    static const template_value any = { .kind = TEMPLATE_BOOL, .yes = true };
    const template_value *items = member(v, "items");
    uint16_t item = SCHEMA_NONE;
    TRY(form_of(r, items ? items : &any, &item));
    schema_form *f = &r->s->forms[out];
    f->kind = FORM_ARRAY, f->item = item;
    return bounds_of(v, "minItems", "maxItems", f);
}

static status is_required(const template_value *required, const template_value *property, bool *yes) {
    *yes = false;
    for (size_t i = 0; required && i < required->list.count; i++) {
        const template_value *name = &required->list.items[i];
        if (name->kind != TEMPLATE_TEXT)
            return status_set(STATUS_INVALID, "'required' in the schema must be a list of names");
        if (name->text.length == property->key_length &&
            memcmp(name->text.bytes, property->key, property->key_length) == 0)
            *yes = true;
    }
    return STATUS_OK;
}

/* Keys lie behind one another: forms of properties are read before, and stand in `forms`. */
static status add_properties(reader *r, const template_value *properties, const template_value *required,
                             const uint16_t *forms, schema_form *f) {
    schema *s = r->s;
    uint16_t place;
    size_t needed = 0;
    f->first = (uint16_t)s->key_count;
    for (size_t i = 0; i < properties->list.count; i++) {
        uint32_t at = s->text_count, before = f->count;
        bool yes;
        TRY(add_string(s, properties->list.items[i].key, properties->list.items[i].key_length));
        TRY(add_key(s, f, at, forms[i], &place));
        if (f->count == before)
            return status_set(STATUS_INVALID, "a name stands twice in 'properties' of the schema");
        TRY(is_required(required, &properties->list.items[i], &yes));
        uint64_t below = (UINT64_C(1) << place) - 1; /* those behind move on by one */
        f->required = (f->required & below) | (f->required & ~below) << 1 | (uint64_t)yes << place;
        needed += yes;
    }
    if (!required || needed == required->list.count) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "'required' in the schema names what 'properties' has not, or a name twice");
}

static status read_object(reader *r, const template_value *v, uint16_t out) {
    static const template_value any = { .kind = TEMPLATE_BOOL, .yes = true };
    const template_value *properties = member(v, "properties"), *required = member(v, "required"),
                         *others = member(v, "additionalProperties");
    uint16_t forms[SCHEMA_PROPERTIES], item = SCHEMA_NONE;
    size_t count = properties && properties->kind == TEMPLATE_OBJECT ? properties->list.count : 0;
    if (properties && properties->kind != TEMPLATE_OBJECT)
        return status_set(STATUS_INVALID, "'properties' in the schema must be an object");
    if (required && required->kind != TEMPLATE_LIST)
        return status_set(STATUS_INVALID, "'required' in the schema must be a list of names");
    if (count > SCHEMA_PROPERTIES) return full("properties of one object", SCHEMA_PROPERTIES);
    bool closed = count || (others && others->kind == TEMPLATE_BOOL && !others->yes);
    if (count && others && others->kind != TEMPLATE_BOOL)
        return status_set(STATUS_INVALID,
                          "'additionalProperties' with a schema beside 'properties' is not known here");
    for (size_t i = 0; i < count; i++) TRY(form_of(r, &properties->list.items[i], &forms[i]));
    if (!closed) TRY(form_of(r, others ? others : &any, &item));
    schema_form *f = &r->s->forms[out];
    *f = (schema_form){ .kind = FORM_OBJECT, .item = item };
    static const template_value none = { .kind = TEMPLATE_OBJECT };
    return add_properties(r, count ? properties : &none, required, forms, f);
}

static status read_type(reader *r, const template_value *v, int type, uint16_t out) {
    static const char *const truths[] = { "true", "false" }, *const null[] = { "null" };
    schema_form *f = &r->s->forms[out];
    switch (type) {
    case TYPE_OBJECT: return read_object(r, v, out);
    case TYPE_ARRAY: return read_array(r, v, out);
    case TYPE_STRING: f->kind = FORM_STRING; return bounds_of(v, "minLength", "maxLength", f);
    case TYPE_NUMBER: f->kind = FORM_NUMBER; return STATUS_OK;
    case TYPE_INTEGER: f->kind = FORM_INTEGER; return STATUS_OK;
    case TYPE_BOOLEAN: return read_words(r, truths, 2, out);
    default: return read_words(r, null, 1, out);
    }
}

/* ---- one of several ---- */

static status add_either(reader *r, uint16_t out, const uint16_t *forms, size_t count) {
    schema *s = r->s;
    schema_form *f = &s->forms[out];
    if (s->either_count + count > SCHEMA_EITHER) return full("alternatives", SCHEMA_EITHER);
    f->kind = FORM_EITHER, f->first = (uint16_t)s->either_count, f->count = (uint16_t)count;
    memcpy(s->either + s->either_count, forms, count * sizeof *forms);
    s->either_count += (uint32_t)count;
    return STATUS_OK;
}

static status read_any_of(reader *r, const template_value *v, uint16_t out) {
    enum { MOST = 24 };
    uint16_t forms[MOST];
    if (v->kind != TEMPLATE_LIST || !v->list.count)
        return status_set(STATUS_INVALID, "'anyOf' in the schema must be a list of schemas");
    if (v->list.count > MOST) return full("alternatives in one 'anyOf'", MOST);
    for (size_t i = 0; i < v->list.count; i++) TRY(form_of(r, &v->list.items[i], &forms[i]));
    return add_either(r, out, forms, v->list.count);
}

static status read_types(reader *r, const template_value *v, uint32_t bits, uint16_t out) {
    uint16_t forms[TYPES];
    size_t count = 0;
    if (bits & 1u << TYPE_NUMBER) bits &= ~(1u << TYPE_INTEGER);
    for (int type = 0; type < TYPES; type++) {
        if (!(bits >> type & 1)) continue;
        if (bits == 1u << type) return read_type(r, v, type, out);
        TRY(add_form(r->s, FORM_ANY, &forms[count]));
        TRY(read_type(r, v, type, forms[count++]));
    }
    return add_either(r, out, forms, count);
}

/* ---- references ---- */

static bool begins(const template_value *v, const char *word, const char **rest, size_t *count) {
    size_t n = strlen(word);
    if (v->text.length < n || memcmp(v->text.bytes, word, n) != 0) return false;
    *rest = v->text.bytes + n, *count = v->text.length - n;
    return true;
}

static const template_value *target_of(const reader *r, const template_value *v) {
    const char *name;
    size_t count;
    const template_value *all = NULL;
    if (v->kind != TEMPLATE_TEXT) return NULL;
    if (v->text.length == 1 && v->text.bytes[0] == '#') return r->root;
    if (begins(v, "#/$defs/", &name, &count)) all = member(r->root, "$defs");
    if (begins(v, "#/definitions/", &name, &count)) all = member(r->root, "definitions");
    for (size_t i = 0; all && all->kind == TEMPLATE_OBJECT && i < all->list.count; i++) {
        const template_value *m = &all->list.items[i];
        if (m->key_length == count && memcmp(m->key, name, count) == 0) return m;
    }
    return NULL;
}

static status read_reference(reader *r, const template_value *v, uint16_t out) {
    const template_value *target = target_of(r, v);
    uint16_t form = SCHEMA_NONE;
    if (!target)
        return status_set(STATUS_INVALID, "a '$ref' in the schema leads nowhere; # and what stands in $defs "
                                          "or definitions are known here");
    for (uint32_t i = 0; i < r->read_count; i++)
        if (r->read[i].value == target) form = r->read[i].form;
    if (form == SCHEMA_NONE) TRY(form_of(r, target, &form));
    return add_either(r, out, &form, 1);
}

/* ---- one schema ---- */

static bool is_one_of(const template_value *m, const char *const *names) {
    for (; *names; names++)
        if (strlen(*names) == m->key_length && memcmp(*names, m->key, m->key_length) == 0) return true;
    return false;
}

static status check_names(const template_value *v) {
    static const char *const known[] = { "type",        "properties", "required",    "additionalProperties",
                                         "items",       "minItems",   "maxItems",    "enum",
                                         "const",       "minLength",  "maxLength",   "anyOf",
                                         "$ref",        "$defs",      "definitions", "title",
                                         "description", "default",    "examples",    "$schema",
                                         "$id",         "$comment",   NULL };
    static const char *const beside[] = { "$defs",    "definitions", "title", "description", "default",
                                          "examples", "$schema",     "$id",   "$comment",    NULL };
    static const char *const alone[] = { "anyOf", "$ref", NULL };
    const template_value *single = NULL;
    for (size_t i = 0; i < v->list.count; i++) {
        const template_value *m = &v->list.items[i];
        if (!is_one_of(m, known)) {
            int n = (int)(m->key_length < 60 ? m->key_length : 60);
            char name[64], quoted[UTF8_QUOTE_BYTES];
            snprintf(name, sizeof name, "%.*s", n, m->key);
            return status_set(STATUS_INVALID, "'%s' in the schema is not known here",
                              utf8_quote(name, quoted));
        }
        if (is_one_of(m, alone)) single = m;
    }
    for (size_t i = 0; single && i < v->list.count; i++)
        if (&v->list.items[i] != single && !is_one_of(&v->list.items[i], beside))
            return status_set(STATUS_INVALID,
                              "'%.*s' in the schema stands beside another rule, which is not "
                              "known here",
                              (int)single->key_length, single->key);
    return STATUS_OK;
}

static status read_members(reader *r, const template_value *v, uint16_t out) {
    const template_value *reference = member(v, "$ref"), *any_of = member(v, "anyOf"),
                         *values = member(v, "enum"), *one = template_value_member(v, "const");
    uint32_t bits;
    TRY(check_names(v));
    TRY(types_of(v, &bits));
    if (reference) return read_reference(r, reference, out);
    if (any_of) return read_any_of(r, any_of, out);
    if (values && values->kind != TEMPLATE_LIST)
        return status_set(STATUS_INVALID, "'enum' in the schema must be a list");
    if (one && values)
        return status_set(STATUS_INVALID, "'enum' and 'const' stand side by side in the schema");
    if (one) return read_literals(r, one, 1, bits, out);
    if (values) return read_literals(r, values->list.items, values->list.count, bits, out);
    if (member(v, "type")) return read_types(r, v, bits, out);
    if (member(v, "properties") || member(v, "required") || member(v, "additionalProperties"))
        return read_object(r, v, out);
    if (member(v, "items") || member(v, "minItems") || member(v, "maxItems")) return read_array(r, v, out);
    if (member(v, "minLength") || member(v, "maxLength")) return read_type(r, v, TYPE_STRING, out);
    return STATUS_OK; /* any value */
}

static status form_of(reader *r, const template_value *v, uint16_t *out) {
    if (r->depth == NESTED) return full("schemas within each other", NESTED);
    TRY(add_form(r->s, FORM_ANY, out));
    if (v->kind == TEMPLATE_BOOL && v->yes) return STATUS_OK;
    if (v->kind != TEMPLATE_OBJECT) return status_set(STATUS_INVALID, "a schema must be an object, or true");
    if (r->read_count == REFERENCES && v == r->root) return full("references", REFERENCES);
    bool named = v == r->root;
    const template_value *all[] = { member(r->root, "$defs"), member(r->root, "definitions") };
    for (int i = 0; i < 2; i++)
        named = named || (all[i] && all[i]->kind == TEMPLATE_OBJECT && v >= all[i]->list.items &&
                          v < all[i]->list.items + all[i]->list.count);
    if (named) {
        if (r->read_count == REFERENCES) return full("definitions", REFERENCES);
        r->read[r->read_count].value = v, r->read[r->read_count++].form = *out;
    }
    r->depth++;
    status result = read_members(r, v, *out);
    r->depth--;
    return result;
}

static void clear(schema *s) { s->form_count = s->key_count = s->either_count = s->text_count = 0; }

status schema_read(const template_value *v, schema *s) {
    reader r = { .s = s, .root = v };
    clear(s);
    TRY(form_of(&r, v, &s->root));
    return schema_check(s);
}
