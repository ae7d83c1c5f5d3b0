/* A walk through a pattern in Oniguruma's syntax (as Ruby has it, which the tokenizers library asks for) that
 * writes the same in PCRE2's. A class becomes a set of characters first, one bit each, so that unions and
 * negations are what they say; then its ranges are written out. Groups don't capture, since nothing refers to
 * them. What is not listed here is refused.
 *
 * Letters whose case is ignored: both sides fold one character to one by the same rules for letters of ASCII,
 * which also match two signs beyond it; only Oniguruma folds two letters to one ("ss" and sharp s), so such
 * pairs are refused, as classes are there. */
#include "text/tokenizer/pattern_translate.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "text/tokenizer/unicode.h"

enum {
    POINTS = 0x110000,
    SET_WORDS = POINTS / 64,
    DEPTH = 64,
    NESTED = 4,
    LARGE = 1000,
    FEW = 16,
    IDEOGRAPH = 0x4e00
};

typedef struct {
    uint64_t bits[SET_WORDS];
} set;

typedef struct {
    const char *text;
    size_t bytes, at;
    text out;
    size_t atom;      /* where in `out` the last thing begins that may be repeated; SIZE_MAX: there is none */
    bool fold[DEPTH]; /* case is ignored, by depth of groups */
    uint32_t depth;
    char before; /* the letter before, where case is ignored */
    bool looks_back;
    set *sets; /* one for each class within a class */
} walk;

static status refuse(const walk *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static status refuse(const walk *w, const char *format, ...) {
    char what[160];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    return status_set(STATUS_INVALID, "the pattern has %s at byte %zu, which is not known here", what, w->at);
}

static int peek(const walk *w, size_t ahead) {
    return w->at + ahead < w->bytes ? (unsigned char)w->text[w->at + ahead] : -1;
}

/* ---- sets ---- */

static void set_add(set *s, uint32_t first, uint32_t last) {
    for (uint32_t c = first; c <= last;) {
        if (c % 64 == 0 && last - c >= 63) {
            s->bits[c / 64] = UINT64_MAX;
            c += 64;
        } else {
            s->bits[c / 64] |= (uint64_t)1 << c % 64;
            c++;
        }
    }
}

static bool set_has(const set *s, uint32_t point) { return (s->bits[point / 64] >> point % 64 & 1) != 0; }

static void set_invert(set *s) {
    for (uint32_t i = 0; i < SET_WORDS; i++) s->bits[i] = ~s->bits[i];
}

/* What is asked of a kind of characters: one of the flags, a category or its first letter, or a script. */
typedef struct {
    unsigned flags;
    const char *category;
    int script;
    bool any;
} question;

static bool answers(const question *q, const unicode_kind *k) {
    if (q->any) return true;
    if (q->flags) return (k->flags & q->flags) != 0;
    const char *category = unicode_table_categories[k->category];
    if (q->category) return strncmp(category, q->category, strlen(q->category)) == 0;
    return k->script == q->script;
}

static void set_add_question(set *s, const question *q, bool inverted) {
    for (uint32_t i = 0; i < unicode_table_range_count; i++) {
        uint32_t first = unicode_table_ranges[i] >> 11;
        uint32_t end = i + 1 < unicode_table_range_count ? unicode_table_ranges[i + 1] >> 11 : POINTS;
        if (answers(q, &unicode_table_kinds[unicode_table_ranges[i] & 0x7ff]) != inverted)
            set_add(s, first, end - 1);
    }
}

/* ---- names of properties ---- */

/* Names are the same whatever their case and without blanks, hyphens and underscores. */
static bool same_name(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a == ' ' || *a == '-' || *a == '_') a++;
        while (*b == ' ' || *b == '-' || *b == '_') b++;
        char x = *a >= 'A' && *a <= 'Z' ? (char)(*a + 32) : *a,
             y = *b >= 'A' && *b <= 'Z' ? (char)(*b + 32) : *b;
        if (x != y) return false;
        if (!x) return true;
    }
}

static const struct {
    const char *name, *category;
} long_names[] = { { "Letter", "L" },
                   { "Mark", "M" },
                   { "Number", "N" },
                   { "Punctuation", "P" },
                   { "Symbol", "S" },
                   { "Separator", "Z" },
                   { "Other", "C" },
                   { "Uppercase_Letter", "Lu" },
                   { "Lowercase_Letter", "Ll" },
                   { "Titlecase_Letter", "Lt" },
                   { "Modifier_Letter", "Lm" },
                   { "Other_Letter", "Lo" },
                   { "Nonspacing_Mark", "Mn" },
                   { "Spacing_Mark", "Mc" },
                   { "Enclosing_Mark", "Me" },
                   { "Decimal_Number", "Nd" },
                   { "Letter_Number", "Nl" },
                   { "Other_Number", "No" } };

static bool find_question(const char *name, question *q) {
    static const char *const letters[] = { "L", "M", "N", "P", "S", "Z", "C" };
    *q = (question){ .script = -1 };
    if (same_name(name, "Any")) return q->any = true;
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (same_name(name, letters[i])) return q->category = letters[i], true;
    for (size_t i = 0; i < sizeof unicode_table_categories / sizeof *unicode_table_categories; i++)
        if (same_name(name, unicode_table_categories[i]))
            return q->category = unicode_table_categories[i], true;
    for (size_t i = 0; i < sizeof long_names / sizeof *long_names; i++)
        if (same_name(name, long_names[i].name)) return q->category = long_names[i].category, true;
    for (uint32_t i = 0; i < unicode_table_script_count; i++)
        if (same_name(name, unicode_table_scripts[i])) return q->script = (int)i, true;
    return false;
}

/* Behind \p or \P: {Name} or {^Name}. */
static status read_property(walk *w, set *to, bool inverted) {
    char name[48];
    size_t n = 0;
    question q;
    if (peek(w, 0) != '{') return refuse(w, "\\p without {");
    w->at++;
    if (peek(w, 0) == '^') w->at++, inverted = !inverted;
    while (peek(w, 0) >= 0 && peek(w, 0) != '}' && n < sizeof name - 1) name[n++] = w->text[w->at++];
    name[n] = 0;
    utf8_clean(name);
    if (peek(w, 0) != '}' || !find_question(name, &q)) return refuse(w, "the property '%s'", name);
    w->at++;
    set_add_question(to, &q, inverted);
    return STATUS_OK;
}

/* ---- escapes ---- */

static status read_hex(walk *w, size_t most, uint32_t *point) {
    size_t digits = 0;
    *point = 0;
    for (; digits < most; digits++, w->at++) {
        int c = peek(w, 0) | 0x20, digit = c >= '0' && c <= '9'   ? c - '0'
                                           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                                  : -1;
        if (peek(w, 0) < 0 || digit < 0) break;
        *point = *point << 4 | (uint32_t)digit;
    }
    if (!digits || *point >= POINTS || (*point >= 0xd800 && *point < 0xe000)) return refuse(w, "a number");
    return STATUS_OK;
}

/* What \d, \S and their like stand for; false: the letter is none of them. */
static bool class_letter(int c, question *q, bool *inverted) {
    *q = (question){ .script = -1 };
    *inverted = c >= 'A' && c <= 'Z';
    switch (c | 0x20) {
    case 's': q->flags = UNICODE_SPACE; return true;
    case 'w': q->flags = UNICODE_WORD; return true;
    case 'd': q->category = "Nd"; return true;
    default: return false;
    }
}

/* Behind a backslash: a set of characters (`*is_set`), which is added, or one character. */
static status read_escape(walk *w, set *to, bool *is_set, uint32_t *point) {
    static const char letters[] = "tnrfvae", values[] = "\t\n\r\f\v\a\x1b";
    question q;
    bool inverted;
    int c = peek(w, 0);
    if (c < 0) return refuse(w, "a \\ at its end");
    *is_set = false;
    w->at++;
    if (c == 'p' || c == 'P') return *is_set = true, read_property(w, to, c == 'P');
    if (c == 'h' || c == 'H') return refuse(w, "\\%c", c);
    if (class_letter(c, &q, &inverted)) return *is_set = true, set_add_question(to, &q, inverted), STATUS_OK;
    const char *known = strchr(letters, c);
    if (known && c) return *point = (uint32_t)values[known - letters], STATUS_OK;
    if (c == 'u') return read_hex(w, 4, point);
    if (c == 'x' && peek(w, 0) != '{') return read_hex(w, 2, point);
    if (c == 'x') {
        w->at++;
        TRY(read_hex(w, 6, point));
        if (peek(w, 0) != '}') return refuse(w, "\\x{ without }");
        w->at++;
        return STATUS_OK;
    }
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') return refuse(w, "\\%c", c);
    if (c >= '0' && c <= '9') return refuse(w, "\\%c", c);
    size_t length;
    *point = unicode_read(w->text + w->at - 1, &length);
    w->at += length - 1;
    return STATUS_OK;
}

/* ---- classes ---- */

static status read_class(walk *w, uint32_t nested);

/* One character of a class, or a set that is added at once. */
static status read_member(walk *w, set *to, bool *is_set, uint32_t *point) {
    size_t length;
    if (peek(w, 0) == '\\') {
        w->at++;
        return read_escape(w, to, is_set, point);
    }
    *is_set = false;
    *point = unicode_read(w->text + w->at, &length);
    w->at += length;
    return STATUS_OK;
}

/* A member, or a range of two. */
static status read_members(walk *w, set *to) {
    bool is_set;
    uint32_t first, last;
    TRY(read_member(w, to, &is_set, &first));
    if (is_set) return STATUS_OK;
    last = first;
    if (peek(w, 0) == '-' && peek(w, 1) != ']' && peek(w, 1) >= 0) {
        w->at++;
        if (peek(w, 0) == '[') return refuse(w, "a class at the end of a range");
        TRY(read_member(w, to, &is_set, &last));
        if (is_set || last < first) return refuse(w, "a range that is none");
    }
    set_add(to, first, last);
    return STATUS_OK;
}

/* Behind [, up to behind ]: into sets[nested]. */
static status read_class(walk *w, uint32_t nested) {
    set *to = &w->sets[nested];
    memset(to, 0, sizeof *to);
    bool inverted = peek(w, 0) == '^';
    if (inverted) w->at++;
    if (peek(w, 0) == ']') return refuse(w, "a class that begins with ]");
    while (peek(w, 0) != ']') {
        if (peek(w, 0) < 0) return refuse(w, "[ without ]");
        if (peek(w, 0) == '&' && peek(w, 1) == '&') return refuse(w, "&& in a class");
        if (peek(w, 0) == '[' && peek(w, 1) == ':') return refuse(w, "[: in a class");
        if (peek(w, 0) != '[') {
            TRY(read_members(w, to));
            continue;
        }
        w->at++;
        if (nested + 1 == NESTED) return refuse(w, "classes within classes, too deep,");
        TRY(read_class(w, nested + 1));
        for (uint32_t i = 0; i < SET_WORDS; i++) to->bits[i] |= w->sets[nested + 1].bits[i];
    }
    w->at++;
    if (inverted) set_invert(to);
    return STATUS_OK;
}

/* The first character behind `from` that is in the set, or where that is, is not; POINTS: none. */
static uint32_t next_change(const set *s, uint32_t from) {
    uint64_t as = set_has(s, from) ? UINT64_MAX : 0;
    for (uint32_t i = from / 64; i < SET_WORDS; i++) {
        uint64_t other = s->bits[i] ^ as;
        if (i == from / 64) other &= UINT64_MAX << from % 64;
        if (other) return i * 64 + (uint32_t)__builtin_ctzll(other);
    }
    return POINTS;
}

/* How many ranges a set has, of those characters that are in it (or not). */
static uint32_t count_ranges(const set *s, bool in) {
    uint32_t n = 0;
    for (uint32_t c = 0; c < POINTS; c = next_change(s, c)) n += set_has(s, c) == in;
    return n;
}

/* Those of `least` to `most` characters. */
static void write_some(text *out, const set *s, bool in, uint32_t least, uint32_t most) {
    for (uint32_t c = 0, end; c < POINTS; c = end) {
        end = next_change(s, c);
        if (set_has(s, c) != in || end - c < least || end - c > most) continue;
        if (end == c + 1)
            text_add(out, "\\x{%x}", c);
        else
            text_add(out, "\\x{%x}-\\x{%x}", c, end - 1);
    }
}

/* PCRE2 looks through ranges in their order, so large ones, which hold most characters of a text, come first.
 * A set of many ranges without ideographs is written as its complement: then most characters that are not in
 * it are found at once. */
static void write_ranges(text *out, const set *s, bool in) {
    write_some(out, s, in, LARGE, POINTS);
    write_some(out, s, in, 1, LARGE - 1);
}

/* Surrogates stand in no text: they go with their neighbour, which saves ranges and must not end one. */
static status write_set(walk *w, set *s) {
    if (w->fold[w->depth]) return refuse(w, "a class where case is ignored");
    bool surrogates = set_has(s, 0xd7ff) && set_has(s, 0xe000);
    for (uint32_t i = 0xd800 / 64; i < 0xe000 / 64; i++) s->bits[i] = surrogates ? UINT64_MAX : 0;
    uint32_t in = count_ranges(s, true), out = count_ranges(s, false);
    w->atom = w->out.length;
    if (out == 0) {
        text_add(&w->out, "(?s:.)");
    } else if (in == 0) {
        text_add(&w->out, "(?!)");
    } else if (!surrogates && (in <= FEW || set_has(s, IDEOGRAPH))) {
        text_add(&w->out, "[");
        write_ranges(&w->out, s, true);
        text_add(&w->out, "]");
    } else {
        for (uint32_t i = 0xd800 / 64; i < 0xe000 / 64; i++) s->bits[i] = UINT64_MAX;
        text_add(&w->out, "[^");
        write_ranges(&w->out, s, false);
        text_add(&w->out, "]");
    }
    return STATUS_OK;
}

/* ---- the rest ---- */

static status write_point(walk *w, uint32_t point) {
    static const char *const joined[] = { "ss", "ff", "fi", "fl", "st" };
    w->atom = w->out.length;
    if (w->fold[w->depth]) {
        char small = (char)(point >= 'A' && point <= 'Z' ? point + 32 : point);
        if (point >= 0x80) return refuse(w, "a sign beyond ASCII where case is ignored");
        for (size_t i = 0; i < sizeof joined / sizeof *joined; i++)
            if (w->before == joined[i][0] && small == joined[i][1])
                return refuse(w, "'%s' where case is ignored", joined[i]);
        w->before = small;
    }
    text_add(&w->out, "\\x{%x}", point);
    return STATUS_OK;
}

/* \b and \B, by what they mean. */
static status write_boundary(walk *w, bool at) {
    question q = { .flags = UNICODE_WORD };
    static const char *const parts[2][4] = { { "(?:(?<=", ")(?=", ")|(?<!", ")(?!" },
                                             { "(?:(?<=", ")(?!", ")|(?<!", ")(?=" } };
    for (int i = 0; i < 4; i++) {
        text_add(&w->out, "%s", parts[at][i]);
        memset(&w->sets[0], 0, sizeof(set));
        set_add_question(&w->sets[0], &q, false);
        TRY(write_set(w, &w->sets[0]));
    }
    text_add(&w->out, "))");
    w->atom = SIZE_MAX;
    return STATUS_OK;
}

static status read_backslash(walk *w) {
    bool is_set;
    uint32_t point;
    int c = peek(w, 1);
    w->at++;
    if (c == 'A' || c == 'z' || c == 'Z') {
        w->at++;
        w->looks_back |= c == 'A';
        text_add(&w->out, "\\%c", c);
        w->atom = SIZE_MAX;
        return STATUS_OK;
    }
    if (c == 'R') {
        w->at++;
        w->atom = w->out.length;
        text_add(&w->out, "\\R");
        return STATUS_OK;
    }
    if (c == 'b' || c == 'B') return w->at++, w->looks_back = true, write_boundary(w, c == 'b');
    memset(&w->sets[0], 0, sizeof(set));
    TRY(read_escape(w, &w->sets[0], &is_set, &point));
    return is_set ? write_set(w, &w->sets[0]) : write_point(w, point);
}

/* Behind (?: letters of options, up to ':' or ')'. */
static status read_options(walk *w, bool *fold, bool *all, bool *closed) {
    bool on = true;
    *all = false;
    for (;; w->at++) {
        int c = peek(w, 0);
        if (c == '-')
            on = false;
        else if (c == 'i')
            *fold = on;
        else if (c == 'm')
            *all = on;
        else if (c == ':' || c == ')')
            return *closed = c == ')', w->at++, STATUS_OK;
        else
            return refuse(w, "a group of an unknown kind");
    }
}

static status open_group(walk *w) {
    static const char *const looks[] = { "?:", "?=", "?!", "?<=", "?<!", "?>" };
    bool fold = w->fold[w->depth], all, closed = false;
    if (w->depth + 1 == DEPTH) return refuse(w, "groups within groups, too deep,");
    size_t begin = w->out.length, opening = w->at++;
    bool known = peek(w, 0) != '?';
    if (known) text_add(&w->out, "(?:");
    for (size_t i = 0; i < sizeof looks / sizeof *looks && !known; i++) {
        size_t n = strlen(looks[i]);
        known = w->bytes - w->at >= n && memcmp(w->text + w->at, looks[i], n) == 0;
        if (known) text_add(&w->out, "(%s", looks[i]), w->at += n, w->looks_back |= looks[i][1] == '<';
    }
    if (!known) {
        w->at++;
        TRY(read_options(w, &fold, &all, &closed));
        if (closed && (opening != 0 || all)) return refuse(w, "an option behind the beginning");
        text_add(&w->out, closed ? "(?%si)" : "(?%si%s:", fold ? "" : "-", all ? "s" : "-s");
        if (closed) return w->fold[0] = fold, STATUS_OK;
    }
    w->fold[++w->depth] = fold;
    w->atom = begin; /* for close_group, which finds it again */
    w->before = 0;
    return STATUS_OK;
}

/* {n}, {n,}, {,m}, {n,m}: its length; 0: it is none, and { stands for itself. */
static size_t interval(const walk *w, long *low, long *high) {
    char digits[24];
    size_t n = 0;
    while (peek(w, n) >= 0 && n < sizeof digits - 1 && peek(w, n) != '}') digits[n] = (char)peek(w, n), n++;
    digits[n] = 0;
    if (peek(w, n) != '}' || strspn(digits + 1, "0123456789,") != n - 1) return 0;
    char *end;
    bool first = digits[1] != ',';
    *low = first ? strtol(digits + 1, &end, 10) : 0;
    if (!first) end = digits + 1;
    if (n == 1 || (*end && *end != ',')) return 0;
    *high = *end == ',' ? end[1] ? strtol(end + 1, &end, 10) : -1 : *low;
    if (*high == -1) end++;
    return *end || (!first && *high < 0) ? 0 : n + 1;
}

/* Puts the last thing into a group of its own. */
static status wrap(walk *w) {
    size_t tail = w->out.length - w->atom;
    text_add(&w->out, "(?:)");
    if (w->out.failed) return STATUS_OK; /* the end says so */
    memmove(w->out.data + w->atom + 3, w->out.data + w->atom, tail);
    memcpy(w->out.data + w->atom, "(?:", 3);
    w->out.data[w->out.length - 1] = ')';
    return STATUS_OK;
}

static status read_interval(walk *w, size_t length, long low, long high) {
    bool exact = low == high;
    if (high >= 0 && low > high) return refuse(w, "an interval that ends before it begins");
    if (low > 1000 || high > 1000) return refuse(w, "an interval above 1000");
    w->at += length;
    if (exact)
        text_add(&w->out, "{%ld}", low);
    else if (high < 0)
        text_add(&w->out, "{%ld,}", low);
    else
        text_add(&w->out, "{%ld,%ld}", low, high);
    if (peek(w, 0) == '?' && exact) return refuse(w, "an interval and a ?");
    if (peek(w, 0) == '?') return w->at++, text_add(&w->out, "?"), w->atom = SIZE_MAX, STATUS_OK;
    TRY(wrap(w)); /* what follows repeats the whole, and is no sign of how */
    return STATUS_OK;
}

static status read_quantifier(walk *w) {
    int c = peek(w, 0), mode = peek(w, 1);
    if (w->atom == SIZE_MAX) return refuse(w, "a '%c' with nothing before it", c);
    w->at++;
    text_add(&w->out, "%c", c);
    if (mode == '?' || mode == '+') w->at++, text_add(&w->out, "%c", mode);
    if (peek(w, 0) >= 0 && strchr("*+?", peek(w, 0))) return refuse(w, "a repetition of a repetition");
    w->atom = SIZE_MAX;
    return STATUS_OK;
}

typedef struct {
    size_t begins[DEPTH]; /* of open groups, in the output */
} groups;

static status read_one(walk *w, groups *g) {
    int c = peek(w, 0);
    long low, high;
    size_t length;
    if (c != '(' && c != '\\' && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z')) w->before = 0;
    if (c == '\\') return read_backslash(w);
    if (c == '[') {
        w->at++;
        TRY(read_class(w, 0));
        return write_set(w, &w->sets[0]);
    }
    if (c == '(') {
        uint32_t depth = w->depth;
        TRY(open_group(w));
        if (w->depth > depth) g->begins[w->depth] = w->atom;
        w->atom = SIZE_MAX;
        return STATUS_OK;
    }
    if (c == ')') {
        if (w->depth == 0) return refuse(w, "a ) without (");
        w->atom = g->begins[w->depth--];
        w->at++;
        text_add(&w->out, ")");
        return STATUS_OK;
    }
    if (c == '*' || c == '+' || c == '?') return read_quantifier(w);
    if (c == '{' && w->atom != SIZE_MAX && (length = interval(w, &low, &high)) > 0)
        return read_interval(w, length, low, high);
    if (c == '|' || c == '^' || c == '$') {
        w->at++;
        w->looks_back |= c == '^';
        text_add(&w->out, c == '|' ? "|" : c == '^' ? "(?m:^)" : "(?m:$)");
        w->atom = SIZE_MAX;
        return STATUS_OK;
    }
    if (c == '.') return w->at++, w->atom = w->out.length, text_add(&w->out, "."), STATUS_OK;
    uint32_t point = unicode_read(w->text + w->at, &length);
    w->at += length;
    return write_point(w, point);
}

static status finish(walk *w, status result, char **out, size_t *length) {
    memory_free(w->sets);
    if (result == STATUS_OK && w->out.failed) result = status_set(STATUS_NO_FIT, "no memory for a pattern");
    if (result != STATUS_OK) {
        text_close(&w->out);
        return result;
    }
    *out = w->out.data;
    *length = w->out.length;
    return STATUS_OK;
}

status pattern_translate(const char *pattern, size_t bytes, char **out, size_t *length, bool *looks_back) {
    groups g;
    size_t place;
    walk w = { .text = pattern, .bytes = bytes, .atom = SIZE_MAX };
    if (!unicode_valid(pattern, bytes, &place)) return status_set(STATUS_INVALID, "the pattern is not UTF-8");
    w.sets = memory_room(NESTED, sizeof(set));
    if (!w.sets) return status_set(STATUS_NO_FIT, "no memory for a pattern");
    text_add(&w.out, "%s", "");
    status result = STATUS_OK;
    while (w.at < w.bytes && result == STATUS_OK) result = read_one(&w, &g);
    if (result == STATUS_OK && w.depth) result = refuse(&w, "a ( without )");
    *looks_back = w.looks_back;
    return finish(&w, result, out, length);
}

status pattern_translate_text(const char *plain, size_t bytes, char **out, size_t *length) {
    walk w = { .text = plain, .bytes = bytes };
    size_t step, place;
    if (!unicode_valid(plain, bytes, &place)) return status_set(STATUS_INVALID, "the pattern is not UTF-8");
    text_add(&w.out, "%s", "");
    for (; w.at < bytes; w.at += step) text_add(&w.out, "\\x{%x}", unicode_read(plain + w.at, &step));
    return finish(&w, STATUS_OK, out, length);
}
