/* Answers by a schema: what the automaton takes is what a plain validator takes, for random schemas and
 * values; a mask has the tokens that the automaton lives through one by one; and whatever is written by masks
 * is JSON of the schema, wherever tokens cut it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "base/text.h"
#include "infer/constraint/constraint.h"
#include "sanitized.h"
#include "server/schema_read.h"
#include "text/template/template_json.h"

static uint64_t seed, turn;
static uint32_t below(uint32_t most) {
    return philox_draw(seed, (philox_block){ { (uint32_t)turn++, 77 } }).word[0] % most;
}
static bool chance(uint32_t of_ten) { return below(10) < of_ten; }

/* ---- documents ---- */

static template_json *parse(const char *bytes, size_t count) {
    template_json *json;
    json_source source = json_source_memory(bytes, count, "test", "the text");
    return template_json_open(&source, 1 << 20, &json) == STATUS_OK ? json : NULL;
}

static const template_value *member(const template_value *v, const char *key) {
    return v->kind == TEMPLATE_OBJECT ? template_value_member(v, key) : NULL;
}

/* ---- random schemas ---- */

static const char *const names[] = { "a", "ab", "abc", "b", "\\\"q", "\xc3\xa9", "z\\\\" };
static const char *const literals[] = {
    "1", "12", "-3", "2.5", "null", "true", "\"x\"", "\"xy\"", "\"\"", "\"\\n\"", "\"\xe2\x82\xac\"", "false"
};

static void make_schema(text *t, int depth, bool refers);

static void make_object(text *t, int depth, bool refers) {
    uint32_t count = below(4), used = 0, required = 0;
    text_add(t, "{\"type\":\"object\",\"properties\":{");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t name = below(7);
        if (used >> name & 1) continue;
        bool needed = chance(4);
        text_add(t, "%s\"%s\":", used ? "," : "", names[name]);
        used |= 1u << name, required |= (uint32_t)needed << name;
        make_schema(t, depth - 1, refers && !needed);
    }
    text_add(t, "},\"required\":[");
    for (uint32_t i = 0, n = 0; i < 7; i++)
        if (required >> i & 1) text_add(t, "%s\"%s\"", n++ ? "," : "", names[i]);
    text_add(t, "]%s}", used && chance(5) ? "" : ",\"additionalProperties\":false");
}

static void make_array(text *t, int depth, bool refers) {
    uint32_t least = chance(5) ? 0 : below(3), more = below(4);
    text_add(t, "{\"type\":\"array\",\"items\":");
    make_schema(t, depth - 1, refers && !least);
    if (least || chance(3)) text_add(t, ",\"minItems\":%u", least);
    if (chance(5)) text_add(t, ",\"maxItems\":%u", least + more);
    text_add(t, "}");
}

static void make_string(text *t) {
    uint32_t least = below(3);
    text_add(t, "{\"type\":\"string\"");
    if (chance(4)) text_add(t, ",\"minLength\":%u", least);
    if (chance(4)) text_add(t, ",\"maxLength\":%u", least + below(4));
    text_add(t, "}");
}

static void make_enum(text *t) {
    text_add(t, "{\"enum\":[");
    for (uint32_t i = 0, n = 1 + below(4); i < n; i++)
        text_add(t, "%s%s", i ? "," : "", literals[below(sizeof literals / sizeof *literals)]);
    text_add(t, "]}");
}

static void make_any_of(text *t, int depth) {
    text_add(t, "{\"anyOf\":[");
    for (uint32_t i = 0, n = 1 + below(3); i < n; i++) {
        text_add(t, "%s", i ? "," : "");
        make_schema(t, depth - 1, false);
    }
    text_add(t, "]}");
}

/* refers: it may lead back, since what holds it need not have it. */
static void make_schema(text *t, int depth, bool refers) {
    static const char *const plain[] = { "{\"type\":\"integer\"}",
                                         "{\"type\":\"number\"}",
                                         "{\"type\":\"boolean\"}",
                                         "{\"type\":[\"null\",\"string\",\"integer\"]}",
                                         "{}",
                                         "{\"type\":\"object\"}" };
    if (refers && chance(2)) {
        text_add(t, "{\"$ref\":\"%s\"}", chance(5) ? "#" : "#/$defs/it");
        return;
    }
    switch (below(depth > 0 ? 10 : 5)) {
    case 0: make_string(t); return;
    case 1: make_enum(t); return;
    case 2: text_add(t, "{\"const\":%s}", literals[below(12)]); return;
    case 3:
    case 4: text_add(t, "%s", plain[below(6)]); return;
    case 5:
    case 6: make_array(t, depth, refers); return;
    case 7: make_any_of(t, depth); return;
    default: make_object(t, depth, refers);
    }
}

static void make_root(text *t) {
    text_add(t, "{\"type\":\"object\",\"$defs\":{\"it\":");
    make_object(t, 2, true);
    text_add(t, "},\"properties\":{\"a\":");
    make_schema(t, 3, true);
    text_add(t, ",\"list\":{\"type\":\"array\",\"items\":");
    make_schema(t, 2, true);
    text_add(t, "}},\"required\":[%s]}", chance(5) ? "\"list\"" : "");
}

/* ---- the plain validator ---- */

static const template_value *root;

static bool is_type(const template_value *type, const template_value *v) {
    static const char *const of[] = {
        [TEMPLATE_NONE] = "null",     [TEMPLATE_BOOL] = "boolean", [TEMPLATE_INTEGER] = "integer",
        [TEMPLATE_NUMBER] = "number", [TEMPLATE_TEXT] = "string",  [TEMPLATE_LIST] = "array",
        [TEMPLATE_OBJECT] = "object"
    };
    if (type->kind == TEMPLATE_LIST) {
        for (size_t i = 0; i < type->list.count; i++)
            if (is_type(&type->list.items[i], v)) return true;
        return false;
    }
    return template_value_says(type, of[v->kind]) ||
           (v->kind == TEMPLATE_INTEGER && template_value_says(type, "number"));
}

static bool equal(const template_value *a, const template_value *b) {
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case TEMPLATE_BOOL: return a->yes == b->yes;
    case TEMPLATE_INTEGER: return a->integer == b->integer;
    case TEMPLATE_NUMBER: return !(a->number < b->number) && !(a->number > b->number);
    case TEMPLATE_TEXT:
        return a->text.length == b->text.length && memcmp(a->text.bytes, b->text.bytes, a->text.length) == 0;
    default: return true;
    }
}

static int64_t number_of(const template_value *s, const char *key, int64_t otherwise) {
    const template_value *m = member(s, key);
    return m ? m->integer : otherwise;
}

static bool valid(const template_value *s, const template_value *v);

static bool same_key(const template_value *a, const template_value *b) {
    return a->key_length == b->key_length && memcmp(a->key, b->key, a->key_length) == 0;
}

static bool valid_object(const template_value *s, const template_value *v) {
    const template_value *p = member(s, "properties"), *r = member(s, "required");
    bool closed = p && p->list.count;
    if (member(s, "additionalProperties")) closed = true;
    for (size_t i = 0; i < v->list.count; i++) {
        const template_value *m = &v->list.items[i], *of = NULL;
        for (size_t k = 0; p && k < p->list.count; k++)
            if (same_key(&p->list.items[k], m)) of = &p->list.items[k];
        for (size_t k = 0; closed && k < i; k++)
            if (same_key(&v->list.items[k], m)) return false;
        if (of ? !valid(of, m) : closed) return false;
    }
    for (size_t i = 0; r && i < r->list.count; i++) {
        bool there = false;
        for (size_t k = 0; k < v->list.count; k++)
            there = there || (v->list.items[k].key_length == r->list.items[i].text.length &&
                              memcmp(v->list.items[k].key, r->list.items[i].text.bytes,
                                     r->list.items[i].text.length) == 0);
        if (!there) return false;
    }
    return true;
}

static int64_t characters(const template_value *v) {
    int64_t n = 0;
    for (size_t i = 0; i < v->text.length; i++) n += (v->text.bytes[i] & 0xc0) != 0x80;
    return n;
}

static bool valid(const template_value *s, const template_value *v) {
    const template_value *m;
    if (s->kind == TEMPLATE_BOOL) return true;
    if ((m = member(s, "$ref")))
        return valid(m->text.length == 1 ? root : member(member(root, "$defs"), "it"), v);
    if ((m = member(s, "anyOf"))) {
        for (size_t i = 0; i < m->list.count; i++)
            if (valid(&m->list.items[i], v)) return true;
        return false;
    }
    if ((m = template_value_member(s, "const"))) return equal(m, v);
    if ((m = member(s, "enum"))) {
        for (size_t i = 0; i < m->list.count; i++)
            if (equal(&m->list.items[i], v)) return true;
        return false;
    }
    if ((m = member(s, "type")) && !is_type(m, v)) return false;
    if (v->kind == TEMPLATE_OBJECT) return valid_object(s, v);
    if (v->kind == TEMPLATE_TEXT)
        return characters(v) >= number_of(s, "minLength", 0) &&
               characters(v) <= number_of(s, "maxLength", INT64_MAX);
    if (v->kind != TEMPLATE_LIST) return true;
    for (size_t i = 0; (m = member(s, "items")) && i < v->list.count; i++)
        if (!valid(m, &v->list.items[i])) return false;
    return (int64_t)v->list.count >= number_of(s, "minItems", 0) &&
           (int64_t)v->list.count <= number_of(s, "maxItems", INT64_MAX);
}

/* ---- random values, mostly of the schema ---- */

static void blank(text *t) {
    static const char *const blanks[] = { "", "", "", " ", "\n  ", "\t" };
    text_add(t, "%s", blanks[below(6)]);
}

static void make_value(text *t, const template_value *s, int depth);

static void make_any(text *t, int depth) {
    static const template_value any = { .kind = TEMPLATE_BOOL, .yes = true };
    uint32_t kind = below(depth > 0 ? 8 : 6);
    if (kind < 6) {
        text_add(t, "%s", literals[below(12)]);
        return;
    }
    text_add(t, kind == 6 ? "[" : "{");
    for (uint32_t i = 0, n = below(3); i < n; i++) {
        text_add(t, "%s", i ? "," : "");
        blank(t);
        if (kind == 7) text_add(t, "\"%s\":", names[below(7)]);
        make_value(t, &any, depth - 1);
        blank(t);
    }
    text_add(t, kind == 6 ? "]" : "}");
}

static void add_quoted_key(text *t, const template_value *m) {
    text_add(t, "\"");
    for (size_t i = 0; i < m->key_length; i++)
        text_add(t, m->key[i] == '"' || m->key[i] == '\\' ? "\\%c" : "%c", m->key[i]);
    text_add(t, "\"");
}

static void make_members(text *t, const template_value *s, int depth) {
    const template_value *p = member(s, "properties");
    uint32_t n = 0, count = p ? (uint32_t)p->list.count : 0, first = count ? below(count) : 0;
    text_add(t, "{");
    blank(t);
    for (uint32_t i = 0; i < count; i++) {
        const template_value *m = &p->list.items[(i + first) % count];
        if (chance(3)) continue;
        text_add(t, "%s", n++ ? "," : "");
        blank(t);
        add_quoted_key(t, m);
        blank(t);
        text_add(t, ":");
        blank(t);
        make_value(t, m, depth - 1);
        blank(t);
    }
    text_add(t, "}");
}

static void make_items(text *t, const template_value *s, int depth) {
    const template_value *items = member(s, "items");
    uint32_t n = (uint32_t)number_of(s, "minItems", 0) + below(3);
    text_add(t, "[");
    blank(t);
    for (uint32_t i = 0; i < n; i++) {
        text_add(t, "%s", i ? "," : "");
        blank(t);
        if (items)
            make_value(t, items, depth - 1);
        else
            make_any(t, depth - 1);
        blank(t);
    }
    text_add(t, "]");
}

static void make_letters(text *t) {
    static const char *const letters[] = {
        "a", "\\n", "\\\"", "\xc3\xa9", "\xf0\x9f\x98\x80", "\\u00e9", "\\ud83d\\ude00", " ", "/"
    };
    text_add(t, "\"");
    for (uint32_t i = 0, n = below(5); i < n; i++) text_add(t, "%s", letters[below(9)]);
    text_add(t, "\"");
}

static void add_literal(text *t, const template_value *v) {
    switch (v->kind) {
    case TEMPLATE_NONE: text_add(t, "null"); return;
    case TEMPLATE_BOOL: text_add(t, v->yes ? "true" : "false"); return;
    case TEMPLATE_INTEGER: text_add(t, "%lld", (long long)v->integer); return;
    case TEMPLATE_NUMBER: text_add(t, "2.5"); return;
    default:
        text_add(t, "\"");
        for (size_t i = 0; i < v->text.length; i++)
            text_add(t, v->text.bytes[i] == '\n' ? "\\n" : "%c", v->text.bytes[i]);
        text_add(t, "\"");
    }
}

static void make_value(text *t, const template_value *s, int depth) {
    static const char *const numbers[] = { "0", "-7", "12", "1.5", "2e3", "-0.25E-1", "100" };
    const template_value *m;
    if (s->kind != TEMPLATE_OBJECT || chance(1) || depth < -3) {
        make_any(t, depth);
    } else if ((m = member(s, "$ref"))) {
        make_value(t, m->text.length == 1 ? root : member(member(root, "$defs"), "it"), depth - 1);
    } else if ((m = member(s, "anyOf"))) {
        make_value(t, &m->list.items[below((uint32_t)m->list.count)], depth);
    } else if ((m = template_value_member(s, "const"))) {
        add_literal(t, m);
    } else if ((m = member(s, "enum"))) {
        add_literal(t, &m->list.items[below((uint32_t)m->list.count)]);
    } else if (!(m = member(s, "type"))) {
        make_any(t, depth);
    } else if (template_value_says(m, "object")) {
        make_members(t, s, depth);
    } else if (template_value_says(m, "array")) {
        make_items(t, s, depth);
    } else if (template_value_says(m, "string")) {
        make_letters(t);
    } else if (template_value_says(m, "boolean")) {
        text_add(t, chance(5) ? "true" : "false");
    } else {
        text_add(t, "%s", numbers[below(template_value_says(m, "number") ? 7 : 4)]);
    }
}

/* ---- the automaton ---- */

static schema compiled;

/* Is it a value, and if not, where does nothing come of it any more? */
static bool takes(const char *bytes, size_t count) {
    static machine_frame frames[MACHINE_FRAMES];
    machine m = { .schema = &compiled, .frames = frames, .room = MACHINE_FRAMES };
    machine_state a, b;
    machine_begin(&m, &a);
    for (size_t i = 0; i < count && a.count; i++) {
        machine_step(&m, &a, (unsigned char)bytes[i], &b);
        machine_settle(&m, &b);
        a = b;
    }
    return machine_complete(&a);
}

static bool is_valid(const char *bytes, size_t count) {
    template_json *json = parse(bytes, count);
    bool yes = json && valid(root, template_json_value(json));
    template_json_close(json);
    return yes;
}

static void values_are_those_of_a_validator(void **state) {
    (void)state;
    uint32_t good = 0, bad = 0, cases = SANITIZED ? 300 : 3000;
    for (seed = 1; seed <= cases; seed++) {
        text s = { 0 };
        turn = 0;
        make_root(&s);
        template_json *json = parse(s.data, s.length);
        assert_non_null(json);
        root = template_json_value(json);
        if (schema_read(root, &compiled) != STATUS_OK) fail_msg("%s: %s", status_message(), s.data);
        for (int i = 0; i < 12; i++) {
            text v = { 0 };
            make_value(&v, root, 4);
            bool should = is_valid(v.data, v.length), does = takes(v.data, v.length);
            if (should != does)
                fail_msg("case %d: %s is %s for a validator, and not here: %s", (int)seed, v.data,
                         should ? "a value" : "none", s.data);
            should ? good++ : bad++;
            for (int k = 0; k < 4; k++) { /* a byte another one, or away: what is taken is a value still */
                static const char others[] = "\"{}[],:0a\\ \xc3";
                text w = { 0 };
                size_t at = below((uint32_t)v.length);
                text_add(&w, "%.*s%.*s%s", (int)at, v.data, (int)below(2), &others[below(12)],
                         v.data + at + 1);
                if (takes(w.data, w.length) && !is_valid(w.data, w.length))
                    fail_msg("case %d: %s is taken for a value of %s", (int)seed, w.data, s.data);
                text_close(&w);
            }
            text_close(&v);
        }
        template_json_close(json);
        text_close(&s);
    }
    assert_true(good > cases && bad > cases);
}

/* ---- masks ---- */

enum { WORDS = 700, END = 699 };
static char words[WORDS][12];
static size_t word_lengths[WORDS];
static constraint_words vocabulary;
static void *vocabulary_memory;

static status word_of(void *context, int32_t id, language_piece *piece) {
    (void)context;
    *piece = (language_piece){ words[id], word_lengths[id] };
    return STATUS_OK;
}
static bool ends(void *context, int32_t id) { return (void)context, id == END; }

/* All bytes, and pieces of JSON put together at random, cut within characters too. */
static void make_words(void) {
    static const char pool[] =
        "{\"a\": [1, 2.5e3], \"ab\":\"x\\n\\u00e9\xc3\xa9\xf0\x9f\x98\x80\xe2\x82\xac\"}, true null"
        "false \"list\":[{\"abc\": -12}, \"xy\"]}}]   word another, Words \"\" \\\"q\\\" z\\\\";
    for (int i = 0; i < 256; i++) words[i][0] = (char)i, word_lengths[i] = 1;
    for (int i = 256; i < WORDS; i++) {
        word_lengths[i] = i == END || i == 300 ? 0 : 1 + below(9);
        memcpy(words[i], pool + below(sizeof pool - 12), 11);
    }
}

static status open_words(void) {
    language l = { .word = word_of, .ends = ends };
    uint64_t bytes, letters;
    TRY(vocabulary_measure(&l, WORDS, &bytes, &letters));
    vocabulary_memory = memory_new((size_t)bytes, 1);
    return vocabulary_open(&l, WORDS, letters, vocabulary_memory, &vocabulary);
}

static bool allowed(const constraint_mask *w, int32_t id) { return w->bits[id / 64] >> id % 64 & 1; }

/* Token by token. */
static bool lives(const constraint *c, int32_t id) {
    static machine_frame frames[MACHINE_FRAMES];
    machine m = {
        .schema = &c->schema, .frames = frames, .frame_count = c->frame_count, .room = MACHINE_FRAMES
    };
    machine_state a = c->state, b;
    memcpy(frames, c->frames, c->frame_count * sizeof *frames);
    if (id == END) return machine_complete(&a);
    if (!word_lengths[id]) return false;
    for (size_t i = 0; i < word_lengths[id]; i++) {
        machine_step(&m, &a, (unsigned char)words[id][i], &b);
        a = b;
    }
    return a.count > 0;
}

/* A token that is allowed: any, or, so that it ends, one that closes. */
static int32_t pick(const constraint_mask *w, bool close) {
    static const char closing[] = "}]\"0:";
    if (close && allowed(w, END)) return END;
    for (uint32_t i = 0, first = below(5); close && i < 5; i++)
        if (allowed(w, closing[(first + i) % 5])) return closing[(first + i) % 5];
    int32_t from = (int32_t)below(WORDS);
    for (int32_t i = 0; i < WORDS; i++)
        if (allowed(w, (from + i) % WORDS)) return (from + i) % WORDS;
    return -1;
}

static uint32_t endless;

static void write_one(constraint *c, constraint_mask *w, const char *of) {
    text out = { 0 };
    constraint_begin(c, &vocabulary);
    for (int n = 0; !constraint_over(c); n++) {
        constraint_allow(c, w);
        for (int32_t id = 0; n < 12 && id < WORDS; id++)
            if (allowed(w, id) != lives(c, id))
                fail_msg("case %d: token %d behind %s: %d", (int)seed, (int)id, out.data, allowed(w, id));
        int32_t id = pick(w, n > 30 + (int)below(60));
        if (id < 0) fail_msg("case %d: nothing goes on behind %s of %s", (int)seed, out.data, of);
        if (id == END) break;
        if (n == 3000) { /* lists in lists, drawn at random */
            endless++;
            text_close(&out);
            return;
        }
        text_add(&out, "%.*s", (int)word_lengths[id], words[id]);
        constraint_take(c, id);
    }
    if (!is_valid(out.data, out.length)) fail_msg("case %d: %s is written by %s", (int)seed, out.data, of);
    text_close(&out);
}

static void what_masks_write_is_of_the_schema(void **state) {
    (void)state;
    static constraint c;
    constraint_mask *w = memory_new((size_t)constraint_mask_bytes(WORDS), 1);
    seed = 1, turn = 0;
    make_words();
    assert_int_equal(open_words(), STATUS_OK);
    for (seed = 1; seed <= (SANITIZED ? 40u : 400u); seed++) {
        text s = { 0 };
        turn = 0;
        make_root(&s);
        template_json *json = parse(s.data, s.length);
        root = template_json_value(json);
        assert_int_equal(schema_read(root, &c.schema), STATUS_OK);
        for (int i = 0; i < 4; i++) write_one(&c, w, s.data);
        template_json_close(json);
        text_close(&s);
    }
    schema_object(&c.schema);
    static const template_value any = { .kind = TEMPLATE_OBJECT };
    root = &any;
    for (seed = 1; seed <= 50; seed++) write_one(&c, w, "any object");
    assert_true(endless < 10);
    memory_free(w);
    memory_free(vocabulary_memory);
}

/* ---- what is refused ---- */

static void what_is_not_known_is_named(void **state) {
    (void)state;
    static const struct {
        const char *schema, *words;
    } cases[] = {
        { "{\"type\":\"string\",\"pattern\":\"a+\"}", "'pattern' in the schema is not known" },
        { "{\"type\":\"number\",\"minimum\":1}", "'minimum'" },
        { "{\"oneOf\":[{}]}", "'oneOf'" },
        { "{\"type\":\"thing\"}", "none of object" },
        { "3", "must be an object" },
        { "{\"$ref\":\"#\"}", "leads to itself" },
        { "{\"$ref\":\"#/properties/a\"}", "leads nowhere" },
        { "{\"anyOf\":[{\"$ref\":\"#\"},{}]}", "leads to itself" },
        { "{\"anyOf\":[{}],\"type\":\"string\"}", "stands beside another rule" },
        { "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
          "has no value" },
        { "{\"type\":\"object\",\"properties\":{\"a\":{}},\"required\":[\"b\"]}", "'required'" },
        { "{\"type\":\"array\",\"minItems\":3,\"maxItems\":2}", "is above" },
        { "{\"type\":\"array\",\"minItems\":-1}", "'minItems'" },
        { "{\"enum\":[]}", "no value of its type" },
        { "{\"enum\":[1],\"type\":\"string\"}", "no value of its type" },
        { "{\"enum\":[[1]]}", "lists or objects" },
        { "{\"properties\":{\"a\":{}},\"additionalProperties\":{}}", "beside 'properties'" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        template_json *json = parse(cases[i].schema, strlen(cases[i].schema));
        assert_non_null(json);
        status result = schema_read(template_json_value(json), &compiled);
        if (result != STATUS_INVALID || !strstr(status_message(), cases[i].words))
            fail_msg("%s: %s", cases[i].schema, result == STATUS_OK ? "is taken" : status_message());
        template_json_close(json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(values_are_those_of_a_validator),
                                        cmocka_unit_test(what_masks_write_is_of_the_schema),
                                        cmocka_unit_test(what_is_not_known_is_named) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
