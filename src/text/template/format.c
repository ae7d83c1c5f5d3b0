#include "text/template/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template/words.h"

enum { MOST_WIDTH = 10000, MOST_PRECISION = 300, NUMBER_BYTES = 800 };

/* How one value is to be written; `type` 0: as str() has it. */
typedef struct {
    char fill[8], align, sign, grouped, type;
    bool alternate, zero, percent;
    int64_t width, decimals; /* -1: not given */
} spec;

/* ---- numbers ---- */

static bool numeric(const value *v) {
    return v->kind == VALUE_BOOL || v->kind == VALUE_INTEGER || v->kind == VALUE_NUMBER;
}
static int64_t whole(const value *v) { return v->kind == VALUE_BOOL ? v->yes : v->integer; }
static double real(const value *v) { return v->kind == VALUE_NUMBER ? v->number : (double)whole(v); }

static void write_whole(const spec *s, uint64_t n, char *out) {
    if (s->type == 'b') {
        char *p = out;
        for (int bit = n ? 63 - __builtin_clzll(n) : 0; bit >= 0; bit--) *p++ = (char)('0' + (n >> bit & 1));
        *p = 0;
    } else
        snprintf(out, NUMBER_BYTES,
                 s->type == 'x'   ? "%llx"
                 : s->type == 'X' ? "%llX"
                 : s->type == 'o' ? "%llo"
                                  : "%llu",
                 (unsigned long long)n);
}

static void write_real(const spec *s, double x, char *out) {
    char how[] = "%.*f";
    int decimals = s->decimals < 0 ? 6 : (int)s->decimals;
    how[3] = s->type == '%' ? 'f' : s->type;
    if (isnan(x) || isinf(x)) {
        bool large = s->type == 'F' || s->type == 'E' || s->type == 'G';
        strcpy(out, isnan(x) ? large ? "NAN" : "nan" : large ? "INF" : "inf");
        return;
    }
    if (s->type == '%') x *= 100;
    if (s->type == 'F') how[3] = 'f';
    snprintf(out, NUMBER_BYTES, how, decimals, x);
    if (s->type == '%') strcat(out, "%");
}

/* Separators in front of every third digit before the point. */
static void group(char *digits, char with) {
    size_t whole_digits = strspn(digits, "0123456789"), length = strlen(digits);
    for (size_t at = whole_digits; at > 3 && length + 1 < NUMBER_BYTES;) {
        at -= 3;
        memmove(digits + at + 1, digits + at, length - at + 1);
        digits[at] = with;
        length++;
    }
}

static const char *sign_of(const spec *s, bool negative) {
    return negative ? "-" : s->sign == '+' ? "+" : s->sign == ' ' ? " " : "";
}

static status add_times(run *r, builder *b, const char *fill, int64_t times, value_origin origin) {
    for (; times > 0; times--) {
        TRY(run_steps(r, 1));
        TRY(builder_add_word(r, b, fill, origin));
    }
    return STATUS_OK;
}

static status add_number(run *r, builder *b, const spec *s, const value *v) {
    char digits[NUMBER_BYTES], head[8];
    bool integer = strchr("bxXodc", s->type) && s->type;
    double x = real(v);
    int64_t n = integer ? v->kind == VALUE_NUMBER ? (int64_t)x : whole(v) : 0;
    bool negative = integer ? n < 0 : signbit(x) && !isnan(x);
    if (integer)
        write_whole(s, negative ? 0 - (uint64_t)n : (uint64_t)n, digits);
    else if (s->type)
        write_real(s, fabs(x), digits);
    else
        value_number_text(fabs(x), digits);
    if (s->grouped) group(digits, s->grouped);
    snprintf(head, sizeof head, "%s%s%c", sign_of(s, negative),
             s->alternate && integer && s->type != 'd' ? "0" : "",
             s->alternate && integer && s->type != 'd' ? s->type : 0);
    int64_t room = s->width - (int64_t)(strlen(head) + strlen(digits));
    char align = s->align ? s->align : s->zero ? '=' : '>';
    const char *fill = *s->fill ? s->fill : s->zero && align == '=' ? "0" : " ";
    int64_t left = align == '<' || align == '=' ? 0 : align == '^' ? room / 2 : room;
    TRY(add_times(r, b, fill, left, v->origin));
    TRY(builder_add_word(r, b, head, v->origin));
    TRY(add_times(r, b, fill, align == '=' ? room : 0, v->origin));
    TRY(builder_add_word(r, b, digits, v->origin));
    return add_times(r, b, fill, align == '<' ? room : align == '^' ? room - room / 2 : 0, v->origin);
}

static status add_text(run *r, builder *b, const spec *s, const value *text) {
    value cut = *text;
    if (s->decimals >= 0 && s->decimals < text->text->points)
        TRY(value_part(r, text, 0, value_letter(text, (size_t)s->decimals), &cut));
    int64_t room = s->width - cut.text->points;
    char align = s->align ? s->align : '<';
    int64_t left = align == '<' ? 0 : align == '^' ? room / 2 : room;
    const char *fill = *s->fill ? s->fill : " ";
    TRY(add_times(r, b, fill, left, 0));
    TRY(builder_add_text(r, b, &cut));
    return add_times(r, b, fill, room - left, 0);
}

static status check_spec(const spec *s) {
    if (s->width <= MOST_WIDTH && s->decimals <= MOST_PRECISION) return STATUS_OK;
    return status_set(STATUS_INVALID, "a field of more than %d letters or %d digits", MOST_WIDTH,
                      MOST_PRECISION);
}

/* ---- the operator % ---- */

typedef struct {
    run *r;
    const value *format, *with;
    uint32_t at, taken; /* a byte of the format; values of a tuple */
    builder b;
} percent;

static status take(percent *p, const value **out) {
    if (p->with->kind == VALUE_TUPLE) {
        if (p->taken == p->with->list->count)
            return status_set(STATUS_INVALID, "a format has more places than values");
        *out = &p->with->list->items[p->taken++];
        return STATUS_OK;
    }
    if (p->taken++) return status_set(STATUS_INVALID, "a format has more places than values");
    *out = p->with;
    return STATUS_OK;
}

/* %(name)s */
static status take_name(percent *p, const value **out) {
    const value_text *t = p->format->text;
    uint32_t begin = ++p->at, open = 1;
    while (p->at < t->length && open) {
        if (t->bytes[p->at] == '(') open++;
        if (t->bytes[p->at] == ')') open--;
        p->at++;
    }
    if (open || p->with->kind != VALUE_DICT)
        return status_set(STATUS_INVALID, "a format names its values, and there is no dict of them");
    *out = value_dict_word(p->with->dict, t->bytes + begin, p->at - 1 - begin);
    return *out ? STATUS_OK : status_set(STATUS_INVALID, "a format names a value that is not in its dict");
}

static status read_count(percent *p, int64_t *out) {
    const value_text *t = p->format->text;
    const value *v = NULL;
    if (p->at < t->length && t->bytes[p->at] == '*') {
        p->at++;
        TRY(take(p, &v));
        TRY(run_integer("a width", v, 0, out));
        if (*out > MOST_WIDTH) *out = MOST_WIDTH + 1;
        if (*out < -MOST_WIDTH) *out = -MOST_WIDTH - 1;
        return STATUS_OK;
    }
    for (*out = 0; p->at < t->length && t->bytes[p->at] >= '0' && t->bytes[p->at] <= '9'; p->at++)
        if (*out <= MOST_WIDTH) *out = *out * 10 + (t->bytes[p->at] - '0');
    return STATUS_OK;
}

static status read_percent(percent *p, spec *s, const value **named) {
    const value_text *t = p->format->text;
    *s = (spec){ .decimals = -1, .percent = true };
    if (p->at < t->length && t->bytes[p->at] == '(') TRY(take_name(p, named));
    for (const char *flag; p->at < t->length && (flag = strchr("#0- +", t->bytes[p->at])) && *flag; p->at++) {
        if (*flag == '#') s->alternate = true;
        if (*flag == '0') s->zero = true;
        if (*flag == '-') s->align = '<';
        if (*flag == '+' || (*flag == ' ' && !s->sign)) s->sign = *flag;
    }
    TRY(read_count(p, &s->width));
    if (s->width < 0) s->width = -s->width, s->align = '<';
    if (p->at < t->length && t->bytes[p->at] == '.') {
        p->at++;
        TRY(read_count(p, &s->decimals));
        if (s->decimals < 0) s->decimals = 0;
    }
    while (p->at < t->length && strchr("hlL", t->bytes[p->at]) && t->bytes[p->at]) p->at++;
    if (p->at == t->length) return status_set(STATUS_INVALID, "a format ends within a place");
    s->type = t->bytes[p->at++];
    return check_spec(s);
}

static status percent_text(percent *p, spec *s, const value *v) {
    builder b = { 0 };
    value shown;
    if (s->type == 's')
        TRY(value_add_shown(p->r, &b, v));
    else
        TRY(value_add_repr(p->r, &b, v));
    TRY(builder_value(p->r, &b, &shown));
    if (!s->align) s->align = '>';
    return add_text(p->r, &p->b, s, &shown);
}

static status percent_whole(percent *p, spec *s, const value *v) {
    if (!numeric(v) || (v->kind == VALUE_NUMBER && s->type != 'd'))
        return status_set(STATUS_INVALID, "a format wants a number, not a %s", value_type(v));
    if (v->kind == VALUE_NUMBER && !(fabs(v->number) < 9e18))
        return status_set(STATUS_INVALID, "a format wants a whole number of at most 64 bits");
    if (s->decimals >= 0)
        return status_set(STATUS_INVALID, "digits of whole numbers in a format are not supported");
    return add_number(p->r, &p->b, s, v);
}

static status percent_one(percent *p) {
    spec s;
    const value *v = NULL;
    TRY(read_percent(p, &s, &v));
    if (s.type == '%') return builder_add(p->r, &p->b, "%", 1, value_origin_at(p->format, p->at - 1));
    if (!strchr("sradiuxXofFeEgGc", s.type))
        return status_set(STATUS_INVALID, "a format has a place of a kind that there is not");
    if (!v) TRY(take(p, &v));
    if (s.align == '<') s.zero = false;
    if (s.type == 's' || s.type == 'r') return percent_text(p, &s, v);
    if (s.type == 'a' || s.type == 'c') return status_set(STATUS_INVALID, "%%%c is not supported", s.type);
    if (s.type == 'i' || s.type == 'u') s.type = 'd';
    if (strchr("dxXo", s.type)) return percent_whole(p, &s, v);
    if (!numeric(v)) return status_set(STATUS_INVALID, "a format wants a number, not a %s", value_type(v));
    return add_number(p->r, &p->b, &s, v);
}

status format_percent(run *r, const value *format, const value *with, value *out) {
    percent p = { .r = r, .format = format, .with = with };
    const value_text *t = format->text;
    while (p.at < t->length) {
        const char *next = memchr(t->bytes + p.at, '%', t->length - p.at);
        uint32_t end = next ? (uint32_t)(next - t->bytes) : t->length;
        TRY(builder_add_part(r, &p.b, format, p.at, end));
        p.at = end + 1;
        if (next) TRY(percent_one(&p));
    }
    bool all = with->kind == VALUE_TUPLE ? p.taken == with->list->count
                                         : p.taken || with->kind == VALUE_DICT || with->kind == VALUE_LIST ||
                                               with->kind == VALUE_RANGE || with->kind == VALUE_UNDEFINED;
    if (!all) return status_set(STATUS_INVALID, "a format has fewer places than values");
    return builder_value(r, &p.b, out);
}

/* ---- str.format ---- */

typedef struct {
    run *r;
    const value_text *t;
    const arguments *a;
    uint32_t at, next;
    bool automatic, numbered;
    builder b;
} braces;

static bool ends(const braces *p, const char *set) {
    return p->at >= p->t->length || strchr(set, p->t->bytes[p->at]);
}

static status pick(braces *p, const char *name, size_t length, value *out) {
    uint64_t place = 0;
    bool digits = length > 0 && strspn(name, "0123456789") >= length;
    for (size_t i = 0; i < length && digits && place < UINT32_MAX; i++)
        place = place * 10 + (uint64_t)(name[i] - '0');
    if (length == 0) place = p->next++, p->automatic = true;
    if (digits) p->numbered = true;
    if (p->automatic && p->numbered)
        return status_set(STATUS_INVALID, "a format has numbered places and others without a number");
    if (length == 0 || digits) {
        if (place >= p->a->count) return status_set(STATUS_INVALID, "a format has more places than values");
        *out = p->a->items[place];
        return STATUS_OK;
    }
    for (uint32_t i = 0; i < p->a->named_count; i++)
        if (p->a->names[i]->text->length == length &&
            memcmp(p->a->names[i]->text->bytes, name, length) == 0) {
            *out = p->a->named[i];
            return STATUS_OK;
        }
    return status_set(STATUS_INVALID, "a format names a value that is not given");
}

/* name.attribute[key] */
static status pick_field(braces *p, value *out) {
    uint32_t begin = p->at;
    while (!ends(p, ".[:!}{")) p->at++;
    TRY(pick(p, p->t->bytes + begin, p->at - begin, out));
    while (!ends(p, ":!}{")) {
        bool item = p->t->bytes[p->at] == '[';
        begin = ++p->at;
        while (!ends(p, item ? "]" : ".[:!}{")) p->at++;
        value key, found;
        TRY(value_text_lend(p->r, p->t->bytes + begin, p->at - begin, &key));
        if (!key.text->length) return status_set(STATUS_INVALID, "a format has an empty name");
        bool digits = strspn(key.text->bytes, "0123456789") >= key.text->length && key.text->length < 10;
        if (item && digits) key = value_integer(atoll(key.text->bytes));
        TRY(item ? run_get_item(p->r, out, &key, &found) : run_get_attribute(p->r, out, &key, &found));
        *out = found;
        if (item && p->at++ >= p->t->length)
            return status_set(STATUS_INVALID, "a format ends within a place");
    }
    return STATUS_OK;
}

static int64_t count_at(const char **s, const char *end, int64_t otherwise) {
    if (*s == end || **s < '0' || **s > '9') return otherwise;
    int64_t n = 0;
    for (; *s < end && **s >= '0' && **s <= '9'; (*s)++)
        if (n <= MOST_WIDTH) n = n * 10 + (**s - '0');
    return n;
}

/* [[fill]align][sign][#][0][width][,][.decimals][type] */
static status read_spec(const char *text, size_t length, spec *s) {
    const char *p = text, *end = text + length;
    unsigned long point;
    *s = (spec){ .decimals = -1 };
    uint32_t n = length ? value_point(p, &point) : 0;
    if (n && p + n < end && strchr("<>=^", p[n])) {
        memcpy(s->fill, p, n);
        s->align = p[n];
        p += n + 1;
    } else if (p < end && strchr("<>=^", *p))
        s->align = *p++;
    if (p < end && strchr("+- ", *p)) s->sign = *p++;
    if (p < end && *p == '#') s->alternate = true, p++;
    if (p < end && *p == '0') s->zero = true, p++;
    s->width = count_at(&p, end, 0);
    if (p < end && (*p == ',' || *p == '_')) s->grouped = *p++;
    if (p < end && *p == '.') {
        p++;
        s->decimals = count_at(&p, end, -1);
        if (s->decimals < 0) return status_set(STATUS_INVALID, "a format has no digits behind its point");
    }
    if (p < end) s->type = *p++;
    if (p < end) return status_set(STATUS_INVALID, "a format has a place of a kind that there is not");
    return check_spec(s);
}

static status write_formatted(run *r, builder *b, spec *s, const value *v) {
    static const char wrong[] = "a format does not suit a %s";
    if (v->kind == VALUE_TEXT) {
        if ((s->type && s->type != 's') || s->sign || s->alternate || s->grouped || s->align == '=')
            return status_set(STATUS_INVALID, wrong, value_type(v));
        if (s->zero && !*s->fill) strcpy(s->fill, "0");
        return add_text(r, b, s, v);
    }
    bool plain = !s->type && !s->sign && !s->alternate && !s->grouped && s->decimals < 0;
    if (numeric(v) && !(v->kind == VALUE_BOOL && plain && !s->width)) {
        if (!s->type && v->kind != VALUE_NUMBER) s->type = 'd';
        bool integer = s->type && strchr("bxXod", s->type), real_type = s->type && strchr("fFeEgG%", s->type);
        if ((integer && (v->kind == VALUE_NUMBER || s->decimals >= 0)) || (s->type && !integer && !real_type))
            return status_set(STATUS_INVALID, wrong, value_type(v));
        if (!s->type && s->decimals >= 0)
            return status_set(STATUS_INVALID, "digits without a kind in a format are not supported");
        if (s->zero && s->grouped)
            return status_set(STATUS_INVALID, "0 and ',' in one format are not supported");
        return add_number(r, b, s, v);
    }
    if (!plain || s->width || s->align) return status_set(STATUS_INVALID, wrong, value_type(v));
    return value_add_shown(r, b, v);
}

static status braces_one(braces *p) {
    value v, shown;
    spec s;
    TRY(pick_field(p, &v));
    char conversion = 0;
    if (!ends(p, ":}{")) conversion = ++p->at < p->t->length ? p->t->bytes[p->at++] : 0;
    if (conversion && conversion != 's' && conversion != 'r')
        return status_set(STATUS_INVALID, "a format has a conversion that there is not");
    uint32_t begin = p->at + (p->at < p->t->length && p->t->bytes[p->at] == ':');
    for (p->at = begin; !ends(p, "{}");) p->at++;
    if (p->at < p->t->length && p->t->bytes[p->at] == '{')
        return status_set(STATUS_INVALID, "places within places of a format are not supported");
    if (p->at >= p->t->length) return status_set(STATUS_INVALID, "a format ends within a place");
    TRY(read_spec(p->t->bytes + begin, p->at++ - begin, &s));
    if (!conversion) return write_formatted(p->r, &p->b, &s, &v);
    builder b = { 0 };
    TRY(conversion == 's' ? value_add_shown(p->r, &b, &v) : value_add_repr(p->r, &b, &v));
    TRY(builder_value(p->r, &b, &shown));
    return write_formatted(p->r, &p->b, &s, &shown);
}

status format_braces(run *r, const value *format, const arguments *a, value *out) {
    braces p = { .r = r, .t = format->text, .a = a };
    while (p.at < p.t->length) {
        uint32_t begin = p.at;
        while (!ends(&p, "{}")) p.at++;
        TRY(builder_add_part(r, &p.b, format, begin, p.at));
        if (p.at >= p.t->length) break;
        char c = p.t->bytes[p.at++];
        if (p.at < p.t->length && p.t->bytes[p.at] == c)
            TRY(builder_add(r, &p.b, &c, 1, value_origin_at(format, p.at++)));
        else if (c == '{')
            TRY(braces_one(&p));
        else
            return status_set(STATUS_INVALID, "a format has a '}' without a '{'");
    }
    return builder_value(r, &p.b, out);
}

status format_escape(run *r, const value *text, value *out) {
    static const char letters[] = "&<>'\"";
    static const char *const escapes[] = { "&amp;", "&lt;", "&gt;", "&#39;", "&#34;" };
    builder b = { 0 };
    const value_text *t = text->text;
    size_t plain = 0;
    for (size_t at = 0; at < t->length; at++) {
        const char *found = t->bytes[at] ? strchr(letters, t->bytes[at]) : NULL;
        if (!found) continue;
        TRY(builder_add_part(r, &b, text, plain, at));
        TRY(builder_add_word(r, &b, escapes[found - letters], value_origin_at(text, at)));
        plain = at + 1;
    }
    TRY(builder_add_part(r, &b, text, plain, t->length));
    TRY(builder_value(r, &b, out));
    out->flag = true;
    return STATUS_OK;
}
