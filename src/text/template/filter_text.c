/* Filters of texts and numbers. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template/filter.h"
#include "text/template/format.h"
#include "text/template/lex.h"
#include "text/template/words.h"

static status shown_first(run *r, const arguments *a, const char *parameters, value *bound) {
    TRY(run_bind(a, parameters, bound));
    value of = bound[0];
    return value_show(r, &of, &bound[0]);
}

static status f_upper(run *r, const arguments *a, value *out) {
    value b[1];
    TRY(shown_first(r, a, "s", b));
    return words_change(r, &b[0], WORDS_UPPER, out);
}

static status f_lower(run *r, const arguments *a, value *out) {
    value b[1];
    TRY(shown_first(r, a, "s", b));
    return words_change(r, &b[0], WORDS_LOWER, out);
}

static status f_capitalize(run *r, const arguments *a, value *out) {
    value b[1];
    TRY(shown_first(r, a, "s", b));
    return words_change(r, &b[0], WORDS_CAPITALIZE, out);
}

/* Words begin behind blanks and behind - ( { [ <. */
static status f_title(run *r, const arguments *a, value *out) {
    value b[1], word, changed;
    builder all = { 0 };
    TRY(shown_first(r, a, "s", b));
    const value_text *t = b[0].text;
    for (size_t at = 0; at < t->length;) {
        size_t begin = at;
        unsigned long p;
        uint32_t n = 0;
        while (at < t->length && (strchr("-({[<", t->bytes[at]) || lex_blank(t->bytes + at, t->length - at)))
            at += value_point(t->bytes + at, &p);
        TRY(builder_add_part(r, &all, &b[0], begin, at));
        if (at == t->length) break;
        n = value_point(t->bytes + at, &p);
        TRY(value_part(r, &b[0], at, at + n, &word));
        TRY(words_change(r, &word, WORDS_UPPER, &changed));
        TRY(builder_add_text(r, &all, &changed));
        for (begin = at += n; at < t->length; at += value_point(t->bytes + at, &p))
            if (strchr("-({[<", t->bytes[at]) || lex_blank(t->bytes + at, t->length - at)) break;
        TRY(value_part(r, &b[0], begin, at, &word));
        TRY(words_change(r, &word, WORDS_LOWER, &changed));
        TRY(builder_add_text(r, &all, &changed));
    }
    return builder_value(r, &all, out);
}

static status f_trim(run *r, const arguments *a, value *out) {
    value b[2];
    TRY(shown_first(r, a, "value|chars", b));
    return words_strip(r, &b[0], &b[1], 3, out);
}

static status f_string(run *r, const arguments *a, value *out) {
    value b[1];
    TRY(run_bind(a, "s", b));
    if (b[0].kind != VALUE_TEXT) return value_show(r, &b[0], out);
    *out = b[0];
    return STATUS_OK;
}

static status f_safe(run *r, const arguments *a, value *out) {
    TRY(f_string(r, a, out));
    out->flag = true;
    return STATUS_OK;
}

static status f_escape(run *r, const arguments *a, value *out) {
    value text;
    TRY(f_string(r, a, &text));
    *out = text;
    return text.flag ? STATUS_OK : format_escape(r, &text, out);
}

static status f_forceescape(run *r, const arguments *a, value *out) {
    value text;
    TRY(f_string(r, a, &text));
    return format_escape(r, &text, out);
}

static status f_replace(run *r, const arguments *a, value *out) {
    value b[4], from, to;
    int64_t most = -1;
    TRY(shown_first(r, a, "s old new|count", b));
    TRY(value_show(r, &b[1], &from));
    TRY(value_show(r, &b[2], &to));
    if (b[3].kind != VALUE_NONE) TRY(run_integer("count", &b[3], -1, &most));
    return words_replace(r, &b[0], &from, &to, most, out);
}

static status f_center(run *r, const arguments *a, value *out) {
    value b[2];
    int64_t width;
    TRY(shown_first(r, a, "value|width", b));
    TRY(run_integer("width", &b[1], 80, &width));
    return words_field(r, &b[0], width, 0, " ", out);
}

static status f_format(run *r, const arguments *a, value *out) {
    value text, with;
    if (!a->count) return status_set(STATUS_INVALID, "format: value is missing");
    if (a->count > 1 && a->named_count)
        return status_set(STATUS_INVALID, "format: values by place and by name");
    TRY(value_show(r, &a->items[0], &text));
    if (a->named_count) {
        TRY(value_dict_new(r, a->named_count, &with));
        for (uint32_t i = 0; i < a->named_count; i++)
            TRY(value_dict_set(r, with.dict, a->names[i], &a->named[i]));
    } else {
        TRY(value_list_new(r, VALUE_TUPLE, a->count - 1, &with));
        if (a->count > 1) memcpy(with.list->items, a->items + 1, (a->count - 1) * sizeof(value));
    }
    return format_percent(r, &text, &with, out);
}

/* Lines behind the first go in, and blank ones as well where `blank`. */
static status f_indent(run *r, const arguments *a, value *out) {
    value b[4], lines, broken, end, width;
    int64_t blanks = 4;
    builder all = { 0 };
    TRY(run_bind(a, "s|width first blank", b));
    if (b[0].kind == VALUE_UNDEFINED) return value_missing(&b[0]);
    TRY(run_text("what is indented", &b[0]));
    if (b[1].kind == VALUE_TEXT)
        width = b[1];
    else {
        TRY(run_integer("width", &b[1], 4, &blanks));
        value one;
        TRY(value_text_lend(r, " ", 1, &one));
        value times = value_integer(blanks);
        TRY(run_operate(r, NODE_MUL, &one, &times, &width));
    }
    TRY(value_text_lend(r, "\n", 1, &end));
    TRY(run_operate(r, NODE_ADD, &b[0], &end, &broken));
    TRY(words_lines(r, &broken, false, &lines));
    bool first = run_given(&b[2]) && value_true(&b[2]), blank = run_given(&b[3]) && value_true(&b[3]);
    for (uint32_t i = 0; i < lines.list->count; i++) {
        const value *line = &lines.list->items[i];
        if (i) TRY(builder_add_word(r, &all, "\n", value_origin_at(&b[0], 0)));
        if (i ? blank || line->text->length : first) TRY(builder_add_text(r, &all, &width));
        TRY(builder_add_text(r, &all, line));
    }
    return builder_value(r, &all, out);
}

static status f_truncate(run *r, const arguments *a, value *out) {
    value b[5], cut, pieces, separator, end;
    int64_t length, leeway = 5;
    TRY(run_bind(a, "s|length killwords end leeway", b));
    int64_t letters;
    TRY(run_integer("length", &b[1], 255, &length));
    if (b[4].kind != VALUE_NONE) TRY(run_integer("leeway", &b[4], 5, &leeway));
    TRY(value_text_lend(r, "...", 3, &end));
    if (run_given(&b[3])) end = b[3];
    TRY(run_text("end", &end));
    if (length < end.text->points || leeway < 0)
        return status_set(STATUS_INVALID, "truncate: too small a length");
    *out = b[0];
    if (!value_length(&b[0], &letters))
        return status_set(STATUS_INVALID, "a %s has no length", value_type(&b[0]));
    if (letters <= length || letters - length <= leeway) return STATUS_OK;
    TRY(run_text("what is truncated", &b[0]));
    TRY(value_part(r, &b[0], 0, value_letter(&b[0], (size_t)(length - end.text->points)), &cut));
    if (!run_given(&b[2]) || !value_true(&b[2])) {
        TRY(value_text_lend(r, " ", 1, &separator));
        TRY(words_split(r, &cut, &separator, 1, true, &pieces));
        cut = pieces.list->items[0];
    }
    return run_operate(r, NODE_ADD, &cut, &end, out);
}

static status f_wordcount(run *r, const arguments *a, value *out) {
    value b[1];
    int64_t n = 0;
    bool within = false;
    TRY(shown_first(r, a, "s", b));
    for (size_t at = 0; at < b[0].text->length;) {
        unsigned long p;
        at += value_point(b[0].text->bytes + at, &p);
        bool word = p == '_' || LETTERS_IS(alpha, p) || LETTERS_IS(numeric, p) || LETTERS_IS(digit, p) ||
                    LETTERS_IS(decimal, p);
        n += word && !within;
        within = word;
    }
    TRY(run_steps(r, b[0].text->length / 16));
    *out = value_integer(n);
    return STATUS_OK;
}

/* ---- numbers ---- */

static bool numeric(const value *v) {
    return v->kind == VALUE_BOOL || v->kind == VALUE_INTEGER || v->kind == VALUE_NUMBER;
}

static status whole_part(double x, value *out) {
    if (!(fabs(x) < 9223372036854775808.0))
        return status_set(STATUS_INVALID, "a whole number of more than 64 bits");
    *out = value_integer((int64_t)x);
    return STATUS_OK;
}

/* The letters of a number without blanks around it and single `_` within; false: there are none, or too many.
 */
static bool number_letters(const value_text *t, char *out, size_t room) {
    size_t begin = 0, end = t->length, n = 0;
    while (begin < end && lex_blank(t->bytes + begin, end - begin))
        begin += lex_blank(t->bytes + begin, end - begin);
    while (end > begin && lex_blank(t->bytes + end - 1, 1)) end--;
    for (size_t i = begin; i < end; i++) {
        char c = t->bytes[i];
        if (c == '_') {
            bool within = i > begin && i + 1 < end && strchr("0123456789abcdefABCDEF", t->bytes[i - 1]) &&
                          strchr("0123456789abcdefABCDEF", t->bytes[i + 1]) && t->bytes[i + 1];
            if (!within) return false;
            continue;
        }
        if (n + 1 >= room || c <= ' ' || c == 0x7f) return false;
        out[n++] = c;
    }
    out[n] = 0;
    return n > 0;
}

static bool read_whole(const char *s, int base, int64_t *out) {
    const char *digits = s + (*s == '-' || *s == '+');
    char *end;
    if (*digits == '0' && digits[1]) {
        int prefix = (digits[1] | 32) == 'x'   ? 16
                     : (digits[1] | 32) == 'o' ? 8
                     : (digits[1] | 32) == 'b' ? 2
                                               : 0;
        if (prefix && (base == prefix || base == 0)) {
            base = prefix;
            digits += 2;
        } else if (base == 0)
            return false;
    }
    if (base == 0) base = 10;
    if (!*digits || *digits == '-' || *digits == '+' || (base == 16 && (digits[1] | 32) == 'x')) return false;
    errno = 0;
    unsigned long long n = strtoull(digits, &end, base);
    if (*end || errno || n > INT64_MAX) return false;
    *out = *s == '-' ? -(int64_t)n : (int64_t)n;
    return true;
}

static bool read_real(const char *s, double *out) {
    const char *p = s + (*s == '-' || *s == '+');
    bool word = strcasecmp(p, "inf") == 0 || strcasecmp(p, "infinity") == 0 || strcasecmp(p, "nan") == 0;
    char *end;
    if (!word && (!strspn(p, "0123456789.") || strspn(p, "0123456789.eE+-") != strlen(p))) return false;
    *out = strtod(s, &end);
    return !*end;
}

static status f_int(run *r, const arguments *a, value *out) {
    value b[3];
    int64_t base, n;
    double x;
    char letters[400];
    (void)r;
    TRY(run_bind(a, "value|default base", b));
    bool based = b[2].kind == VALUE_INTEGER || b[2].kind == VALUE_BOOL;
    base = based ? b[2].kind == VALUE_BOOL ? b[2].yes : b[2].integer : run_given(&b[2]) ? -1 : 10;
    *out = run_given(&b[1]) ? b[1] : value_integer(0);
    if (b[0].kind == VALUE_UNDEFINED) return value_missing(&b[0]);
    if (b[0].kind == VALUE_NUMBER)
        return isnan(b[0].number) || isinf(b[0].number) ? STATUS_OK : whole_part(b[0].number, out);
    if (numeric(&b[0])) *out = value_integer(b[0].kind == VALUE_BOOL ? b[0].yes : b[0].integer);
    if (b[0].kind != VALUE_TEXT || !number_letters(b[0].text, letters, sizeof letters)) return STATUS_OK;
    if ((base == 0 || (base >= 2 && base <= 36)) && read_whole(letters, (int)base, &n))
        *out = value_integer(n);
    else if (read_real(letters, &x) && !isnan(x) && !isinf(x))
        return whole_part(x, out);
    return STATUS_OK;
}

static status f_float(run *r, const arguments *a, value *out) {
    value b[2];
    double x;
    char letters[400];
    (void)r;
    TRY(run_bind(a, "value|default", b));
    *out = run_given(&b[1]) ? b[1] : value_number(0);
    if (b[0].kind == VALUE_UNDEFINED) return value_missing(&b[0]);
    if (b[0].kind == VALUE_NUMBER)
        *out = b[0];
    else if (numeric(&b[0]))
        *out = value_number(b[0].kind == VALUE_BOOL ? b[0].yes : (double)b[0].integer);
    if (b[0].kind == VALUE_TEXT && number_letters(b[0].text, letters, sizeof letters) &&
        read_real(letters, &x))
        *out = value_number(x);
    return STATUS_OK;
}

static status f_abs(run *r, const arguments *a, value *out) {
    value b[1];
    (void)r;
    TRY(run_bind(a, "/x", b));
    if (b[0].kind == VALUE_UNDEFINED || !numeric(&b[0])) return run_negate(&b[0], false, out);
    bool negative =
        b[0].kind == VALUE_NUMBER ? signbit(b[0].number) : b[0].kind == VALUE_INTEGER && b[0].integer < 0;
    return run_negate(&b[0], negative, out);
}

/* The nearest decimal of so many digits; where two are, the even one. */
static double round_digits(double x, int64_t digits) {
    char text[400];
    if (isnan(x) || isinf(x) || digits > 300) return x;
    if (digits >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)digits, x);
        return strtod(text, NULL);
    }
    double unit = pow(10, (double)-digits);
    return isinf(unit) ? 0 : rint(x / unit) * unit;
}

static status f_round(run *r, const arguments *a, value *out) {
    value b[3];
    int64_t digits;
    (void)r;
    TRY(run_bind(a, "value|precision method", b));
    TRY(run_integer("precision", &b[1], 0, &digits));
    bool common = !run_given(&b[2]) || value_is_word(&b[2], "common"),
         up = !common && value_is_word(&b[2], "ceil");
    if (!common && !up && !value_is_word(&b[2], "floor"))
        return status_set(STATUS_INVALID, "round: the method is common, ceil or floor");
    if (b[0].kind == VALUE_UNDEFINED) return value_missing(&b[0]);
    if (!numeric(&b[0])) return status_set(STATUS_INVALID, "a %s can't be rounded", value_type(&b[0]));
    if (common && b[0].kind != VALUE_NUMBER) {
        if (digits < 0) return status_set(STATUS_INVALID, "round: digits before the point of a whole number");
        *out = value_integer(b[0].kind == VALUE_BOOL ? b[0].yes : b[0].integer);
        return STATUS_OK;
    }
    double x = b[0].kind == VALUE_NUMBER ? b[0].number
               : b[0].kind == VALUE_BOOL ? b[0].yes
                                         : (double)b[0].integer;
    if (!common && (isnan(x) || isinf(x)))
        return status_set(STATUS_INVALID, "round: what is no number has no neighbour");
    double unit = pow(10, (double)digits);
    *out = value_number(common ? round_digits(x, digits) : (up ? ceil(x * unit) : floor(x * unit)) / unit);
    return STATUS_OK;
}

static status f_urlencode(run *r, const arguments *a, value *out) {
    value b[1];
    builder all = { 0 };
    TRY(run_bind(a, "value", b));
    if (b[0].kind != VALUE_TEXT) return status_set(STATUS_INVALID, "urlencode is supported for texts alone");
    for (size_t at = 0; at < b[0].text->length; at++) {
        unsigned char c = (unsigned char)b[0].text->bytes[at];
        char code[4];
        bool plain =
            (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr("_.-~/", c));
        snprintf(code, sizeof code, plain ? "%c" : "%%%02X", c);
        TRY(builder_add_word(r, &all, code, value_origin_at(&b[0], at)));
    }
    return builder_value(r, &all, out);
}

const filter_row filter_of_texts[] = { { "trim", f_trim },
                                       { "string", f_string },
                                       { "upper", f_upper },
                                       { "lower", f_lower },
                                       { "capitalize", f_capitalize },
                                       { "title", f_title },
                                       { "replace", f_replace },
                                       { "indent", f_indent },
                                       { "safe", f_safe },
                                       { "int", f_int },
                                       { "float", f_float },
                                       { "abs", f_abs },
                                       { "round", f_round },
                                       { "format", f_format },
                                       { "center", f_center },
                                       { "truncate", f_truncate },
                                       { "wordcount", f_wordcount },
                                       { "e", f_escape },
                                       { "escape", f_escape },
                                       { "forceescape", f_forceescape },
                                       { "urlencode", f_urlencode },
                                       { "filesizeformat", NULL },
                                       { "pprint", NULL },
                                       { "striptags", NULL },
                                       { "urlize", NULL },
                                       { "wordwrap", NULL },
                                       { "xmlattr", NULL },
                                       { NULL, NULL } };
