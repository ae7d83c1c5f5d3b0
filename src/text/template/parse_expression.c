/* Expressions of a template, as jinja2.parser reads them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template/parse.h"

static node *at(parser *p, uint32_t n) { return &p->t->nodes[n]; }

/* ---- constants ---- */

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static void put(parser *p, unsigned long point) {
    p->t->strings_used += (uint32_t)utf8_encode(point, p->t->strings + p->t->strings_used);
}

/* A letter beyond ASCII is written as an escape before escapes are read; so of one behind a backslash the
 * letters of its escape remain. */
static uint32_t put_spelled(parser *p, const char *s) {
    static const char digits[] = "0123456789abcdef";
    unsigned char a = (unsigned char)s[0];
    uint32_t length = a < 0xe0 ? 2 : a < 0xf0 ? 3 : 4;
    unsigned long point = length == 2 ? a & 0x1f : length == 3 ? a & 0x0f : a & 0x07;
    for (uint32_t i = 1; i < length; i++) point = point << 6 | ((unsigned char)s[i] & 0x3f);
    put(p, '\\');
    put(p, point < 0x100 ? 'x' : point < 0x10000 ? 'u' : 'U');
    for (int shift = point < 0x100 ? 4 : point < 0x10000 ? 12 : 28; shift >= 0; shift -= 4)
        put(p, (unsigned long)digits[point >> shift & 15]);
    return length;
}

static status put_hex(parser *p, const token *k, const char **s, uint32_t digits) {
    const char *end = p->t->source + k->at + k->length - 1;
    unsigned long point = 0;
    for (uint32_t i = 0; i < digits; i++, (*s)++) {
        if (*s >= end || hex(**s) < 0) return parse_wrong_at(p, k->at, "an escape of a text is cut short");
        point = point << 4 | (unsigned long)hex(**s);
    }
    if (point > 0x10ffff) return parse_wrong_at(p, k->at, "an escape names no letter of Unicode");
    if (point >= 0xd800 && point < 0xe000)
        return parse_wrong_at(p, k->at, "an escape is half of a surrogate pair, which no text can hold");
    put(p, point);
    return STATUS_OK;
}

/* What stands behind a backslash at *s. */
static status put_escape(parser *p, const token *k, const char **s) {
    static const char names[] = "abfnrtv\\'\"", meant[] = "\a\b\f\n\r\t\v\\'\"";
    char c = *(*s)++;
    const char *name = c ? strchr(names, c) : NULL;
    if (c == '\n') return STATUS_OK;
    if (name) {
        put(p, (unsigned char)meant[name - names]);
        return STATUS_OK;
    }
    if (c == 'x' || c == 'u' || c == 'U') return put_hex(p, k, s, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    if (c == 'N')
        return parse_wrong_at(p, k->at, "names of letters (\\N{...}) are not supported; write \\u....");
    if (c >= '0' && c < '8') {
        unsigned long point = (unsigned long)(c - '0');
        for (int i = 0; i < 2 && **s >= '0' && **s < '8'; i++)
            point = point * 8 + (unsigned long)(*(*s)++ - '0');
        put(p, point);
        return STATUS_OK;
    }
    if ((unsigned char)c >= 0x80) {
        *s += put_spelled(p, *s - 1) - 1;
        return STATUS_OK;
    }
    put(p, '\\');
    put(p, (unsigned char)c);
    return STATUS_OK;
}

/* Texts side by side are one. */
static status parse_string(parser *p, uint32_t *out) {
    TRY(parse_add(p, NODE_CONST_STRING, parse_now(p)->at, out));
    uint32_t begin = p->t->strings_used;
    while (parse_is(p, TOKEN_STRING)) {
        const token *k = parse_now(p);
        const char *s = p->t->source + k->at + 1, *end = s + k->length - 2;
        while (s < end) {
            if (*s != '\\')
                p->t->strings[p->t->strings_used++] = *s++;
            else {
                s++;
                TRY(put_escape(p, k, &s));
            }
        }
        p->at++;
    }
    at(p, *out)->name = p->t->strings + begin;
    at(p, *out)->length = p->t->strings_used - begin;
    return STATUS_OK;
}

static status parse_number(parser *p, uint32_t *out) {
    const token *k = parse_now(p);
    bool whole = k->kind == TOKEN_INTEGER;
    TRY(parse_add(p, whole ? NODE_CONST_INTEGER : NODE_CONST_FLOAT, k->at, out));
    char digits[512];
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->length; i++) {
        if (n == sizeof digits - 1) return parse_wrong_at(p, k->at, "a number of more than 500 digits");
        if (p->t->source[k->at + i] != '_') digits[n++] = p->t->source[k->at + i];
    }
    digits[n] = 0;
    errno = 0;
    if (!whole)
        at(p, *out)->number = strtod(digits, NULL);
    else {
        int base = n > 1 && (digits[1] | 32) == 'x' ? 16 : n > 1 && (digits[1] | 32) == 'o' ? 8 : 10;
        if (n > 1 && (digits[1] | 32) == 'b') base = 2;
        at(p, *out)->integer = strtoll(base == 10 || base == 16 ? digits : digits + 2, NULL, base);
        if (errno) return parse_wrong_at(p, k->at, "a whole number of more than 64 bits");
    }
    p->at++;
    return STATUS_OK;
}

/* ---- what begins an expression ---- */

static bool spelled(const parser *p, const token *k, const char *word) {
    return k->length == strlen(word) && memcmp(p->t->source + k->at, word, k->length) == 0;
}

static status parse_word(parser *p, bool fields, uint32_t *out) {
    const token *k = parse_now(p);
    p->at++;
    bool yes = spelled(p, k, "true") || spelled(p, k, "True");
    if (yes || spelled(p, k, "false") || spelled(p, k, "False")) {
        TRY(parse_add(p, NODE_CONST_BOOL, k->at, out));
        at(p, *out)->integer = yes;
        return STATUS_OK;
    }
    if (spelled(p, k, "none") || spelled(p, k, "None")) return parse_add(p, NODE_CONST_NONE, k->at, out);
    TRY(parse_add(p, NODE_NAME, k->at, out));
    parse_name(p, *out, k);
    if (spelled(p, k, "caller")) p->used |= MACRO_USES_CALLER;
    if (spelled(p, k, "kwargs")) p->used |= MACRO_USES_NAMED;
    if (spelled(p, k, "varargs")) p->used |= MACRO_USES_MORE;
    if (!fields || !parse_skip(p, TOKEN_DOT)) return STATUS_OK;
    uint32_t of = *out;
    if (!parse_is(p, TOKEN_NAME)) return parse_wrong(p, "a name");
    TRY(parse_add(p, NODE_FIELD, k->at, out));
    parse_name(p, *out, parse_now(p));
    at(p, *out)->a = of;
    p->at++;
    return STATUS_OK;
}

static status parse_list(parser *p, uint32_t *out) {
    uint32_t last = 0, item;
    TRY(parse_add(p, NODE_LIST, parse_now(p)->at, out));
    p->at++;
    while (!parse_is(p, TOKEN_RBRACKET)) {
        if (last) TRY(parse_expect(p, TOKEN_COMMA, "','"));
        if (parse_is(p, TOKEN_RBRACKET)) break;
        TRY(parse_expression(p, true, &item));
        parse_append(p, &at(p, *out)->a, &last, item);
    }
    p->at++;
    return parse_done(p, *out);
}

static status parse_dict(parser *p, uint32_t *out) {
    uint32_t last = 0, pair, part;
    TRY(parse_add(p, NODE_DICT, parse_now(p)->at, out));
    p->at++;
    while (!parse_is(p, TOKEN_RBRACE)) {
        if (last) TRY(parse_expect(p, TOKEN_COMMA, "','"));
        if (parse_is(p, TOKEN_RBRACE)) break;
        TRY(parse_add(p, NODE_PAIR, parse_now(p)->at, &pair));
        TRY(parse_expression(p, true, &part));
        at(p, pair)->a = part;
        TRY(parse_expect(p, TOKEN_COLON, "':'"));
        TRY(parse_expression(p, true, &part));
        at(p, pair)->b = part;
        TRY(parse_done(p, pair));
        parse_append(p, &at(p, *out)->a, &last, pair);
    }
    p->at++;
    return parse_done(p, *out);
}

static bool tuple_ends(const parser *p, const char *end) {
    return parse_is(p, TOKEN_PRINT_END) || parse_is(p, TOKEN_BLOCK_END) || parse_is(p, TOKEN_RPAREN) ||
           (end && parse_is_name(p, end));
}

static status parse_primary(parser *p, bool fields, uint32_t *out);

typedef struct {
    bool target, fields, with_condition, brackets;
    const char *end;
} tuple_rules;

static status parse_items(parser *p, const tuple_rules *r, uint32_t *out) {
    uint32_t first = 0, last = 0, begin = parse_now(p)->at, item;
    bool several = false;
    for (;;) {
        if (last) TRY(parse_expect(p, TOKEN_COMMA, "','"));
        if (tuple_ends(p, r->end)) break;
        if (r->target)
            TRY(parse_primary(p, r->fields, &item));
        else
            TRY(parse_expression(p, r->with_condition, &item));
        parse_append(p, &first, &last, item);
        if (!parse_is(p, TOKEN_COMMA)) break;
        several = true;
    }
    if (!several && first) {
        *out = first;
        return STATUS_OK;
    }
    if (!several && !r->brackets) return parse_wrong(p, "an expression");
    TRY(parse_add(p, NODE_TUPLE, begin, out));
    at(p, *out)->a = first;
    return parse_done(p, *out);
}

status parse_tuple(parser *p, bool with_condition, const char *end, uint32_t *out) {
    return parse_items(p, &(tuple_rules){ .with_condition = with_condition, .end = end }, out);
}

static status parse_primary(parser *p, bool fields, uint32_t *out) {
    switch (parse_now(p)->kind) {
    case TOKEN_NAME: return parse_word(p, fields, out);
    case TOKEN_STRING: return parse_string(p, out);
    case TOKEN_INTEGER:
    case TOKEN_FLOAT: return parse_number(p, out);
    case TOKEN_LPAREN: {
        TRY(parse_deeper(p));
        p->at++;
        TRY(parse_items(p, &(tuple_rules){ .with_condition = true, .brackets = true }, out));
        p->depth--;
        return parse_expect(p, TOKEN_RPAREN, "')'");
    }
    case TOKEN_LBRACKET:
    case TOKEN_LBRACE: {
        TRY(parse_deeper(p));
        TRY(parse_is(p, TOKEN_LBRACKET) ? parse_list(p, out) : parse_dict(p, out));
        p->depth--;
        return STATUS_OK;
    }
    default: return parse_wrong(p, "an expression");
    }
}

/* ---- targets of assignments ---- */

static status check_target(parser *p, uint32_t n) {
    node *x = at(p, n);
    if (x->kind == NODE_TUPLE) {
        for (uint32_t i = x->a; i; i = at(p, i)->next) TRY(check_target(p, i));
        return STATUS_OK;
    }
    if (x->kind == NODE_FIELD) return STATUS_OK;
    if (x->kind != NODE_NAME) return parse_wrong_at(p, x->at, "nothing can be assigned to this");
    if (p->fors && x->length == 4 && memcmp(x->name, "loop", 4) == 0)
        return parse_wrong_at(p, x->at, "within a for nothing else may be called loop");
    return STATUS_OK;
}

status parse_target(parser *p, bool fields, const char *end, uint32_t *out) {
    uint8_t used = p->used; /* a name that is stored is none that is used */
    TRY(parse_items(p, &(tuple_rules){ .target = true, .fields = fields, .end = end }, out));
    p->used = used;
    return check_target(p, *out);
}

status parse_target_name(parser *p, uint32_t *out) {
    const token *k = parse_now(p);
    if (k->kind != TOKEN_NAME) return parse_wrong(p, "a name");
    TRY(parse_add(p, NODE_NAME, k->at, out));
    parse_name(p, *out, k);
    p->at++;
    if (spelled(p, k, "true") || spelled(p, k, "false") || spelled(p, k, "none") || spelled(p, k, "True") ||
        spelled(p, k, "False") || spelled(p, k, "None"))
        return parse_wrong_at(p, k->at, "nothing can be assigned to this");
    return STATUS_OK;
}

/* ---- what follows: attributes, items, calls, filters, tests ---- */

static status parse_slice(parser *p, uint32_t *out) {
    uint32_t parts[3] = { 0 }, begin = parse_now(p)->at;
    if (!parse_is(p, TOKEN_COLON)) {
        TRY(parse_expression(p, true, &parts[0]));
        if (!parse_is(p, TOKEN_COLON)) {
            *out = parts[0];
            return STATUS_OK;
        }
    }
    p->at++;
    for (int i = 1; i < 3; i++) {
        if (i == 2 && !parse_skip(p, TOKEN_COLON)) break;
        if (!parse_is(p, TOKEN_COLON) && !parse_is(p, TOKEN_RBRACKET) && !parse_is(p, TOKEN_COMMA))
            TRY(parse_expression(p, true, &parts[i]));
    }
    TRY(parse_add(p, NODE_SLICE, begin, out));
    at(p, *out)->a = parts[0], at(p, *out)->b = parts[1], at(p, *out)->c = parts[2];
    return parse_done(p, *out);
}

static status parse_subscript(parser *p, uint32_t of, uint32_t *out) {
    uint32_t begin = parse_now(p)->at, first = 0, last = 0, count = 0, item;
    p->at++;
    TRY(parse_deeper(p));
    for (; !parse_is(p, TOKEN_RBRACKET); count++) {
        if (last) TRY(parse_expect(p, TOKEN_COMMA, "','"));
        TRY(parse_slice(p, &item));
        parse_append(p, &first, &last, item);
    }
    p->depth--;
    p->at++;
    if (count != 1) {
        TRY(parse_add(p, NODE_TUPLE, begin, &item));
        at(p, item)->a = first;
        TRY(parse_done(p, item));
        first = item;
    }
    TRY(parse_add(p, NODE_ITEM, begin, out));
    at(p, *out)->a = of;
    at(p, *out)->b = first;
    return parse_done(p, *out);
}

static status parse_attribute(parser *p, uint32_t of, uint32_t *out) {
    uint32_t begin = parse_now(p)->at, place;
    p->at++;
    if (parse_is(p, TOKEN_NAME)) {
        TRY(parse_add(p, NODE_ATTRIBUTE, begin, out));
        parse_name(p, *out, parse_now(p));
        at(p, *out)->a = of;
        p->at++;
        return parse_done(p, *out);
    }
    if (!parse_is(p, TOKEN_INTEGER)) return parse_wrong(p, "a name or a number");
    TRY(parse_number(p, &place));
    TRY(parse_add(p, NODE_ITEM, begin, out));
    at(p, *out)->a = of;
    at(p, *out)->b = place;
    return parse_done(p, *out);
}

/* Each name is compared with each, so their number has an end. */
static status check_named(parser *p, uint32_t first, const token *k) {
    uint32_t count = 0;
    for (uint32_t i = first; i; i = at(p, i)->next) {
        if (at(p, i)->kind != NODE_KEYWORD) continue;
        if (++count == PARSE_MOST_NAMED)
            return parse_wrong_at(p, k->at, "a call with more than 256 named arguments");
        if (at(p, i)->length == k->length && memcmp(at(p, i)->name, p->t->source + k->at, k->length) == 0)
            return parse_wrong_at(p, k->at, "an argument is named twice");
    }
    return STATUS_OK;
}

/* One argument; `seen`: 1 a name came before, 2 *, 4 **. */
static status parse_argument(parser *p, uint32_t first, unsigned *seen, uint32_t *out) {
    static const char misplaced[] = "an argument stands where none of its kind may";
    const token *k = parse_now(p);
    node_kind kind = NODE_NOTHING;
    if (k->kind == TOKEN_MUL || k->kind == TOKEN_POW) {
        if ((*seen & 4) || (k->kind == TOKEN_MUL && (*seen & 2))) return parse_wrong_at(p, k->at, misplaced);
        kind = k->kind == TOKEN_MUL ? NODE_SPREAD : NODE_SPREAD_NAMED;
        *seen |= k->kind == TOKEN_MUL ? 2 : 4;
        p->at++;
    } else if (k->kind == TOKEN_NAME && parse_ahead(p)->kind == TOKEN_ASSIGN) {
        if (*seen & 4) return parse_wrong_at(p, k->at, misplaced);
        TRY(check_named(p, first, k));
        kind = NODE_KEYWORD;
        *seen |= 1;
        p->at += 2;
    } else if (*seen)
        return parse_wrong_at(p, k->at, misplaced);
    if (kind == NODE_NOTHING) return parse_expression(p, true, out);
    uint32_t x;
    TRY(parse_add(p, kind, k->at, out));
    if (kind == NODE_KEYWORD) parse_name(p, *out, k);
    TRY(parse_expression(p, true, &x));
    at(p, *out)->a = x;
    return parse_done(p, *out);
}

static status parse_arguments(parser *p, uint32_t *first) {
    uint32_t last = 0, item;
    unsigned seen = 0;
    *first = 0;
    TRY(parse_expect(p, TOKEN_LPAREN, "'('"));
    TRY(parse_deeper(p));
    while (!parse_is(p, TOKEN_RPAREN)) {
        if (last) {
            TRY(parse_expect(p, TOKEN_COMMA, "','"));
            if (parse_is(p, TOKEN_RPAREN)) break;
        }
        TRY(parse_argument(p, *first, &seen, &item));
        parse_append(p, first, &last, item);
    }
    p->depth--;
    return parse_expect(p, TOKEN_RPAREN, "')'");
}

static status parse_call(parser *p, uint32_t of, uint32_t *out) {
    uint32_t first;
    TRY(parse_add(p, NODE_CALL, parse_now(p)->at, out));
    TRY(parse_arguments(p, &first));
    at(p, *out)->a = of;
    at(p, *out)->b = first;
    return parse_done(p, *out);
}

static status parse_postfix(parser *p, uint32_t *n) {
    for (;;) {
        if (parse_is(p, TOKEN_DOT))
            TRY(parse_attribute(p, *n, n));
        else if (parse_is(p, TOKEN_LBRACKET))
            TRY(parse_subscript(p, *n, n));
        else if (parse_is(p, TOKEN_LPAREN))
            TRY(parse_call(p, *n, n));
        else
            return STATUS_OK;
    }
}

/* The name of a filter or test, which may have dots. */
static status parse_dotted(parser *p, uint32_t n) {
    const token *k = parse_now(p);
    if (k->kind != TOKEN_NAME) return parse_wrong(p, "a name");
    parse_name(p, n, k);
    p->at++;
    while (parse_skip(p, TOKEN_DOT)) {
        const token *more = parse_now(p);
        if (more->kind != TOKEN_NAME) return parse_wrong(p, "a name");
        at(p, n)->length = more->at + more->length - k->at;
        p->at++;
    }
    return STATUS_OK;
}

status parse_filter(parser *p, uint32_t of, bool inside, uint32_t *out) {
    *out = of;
    while (inside || parse_is(p, TOKEN_PIPE)) {
        uint32_t n, first = 0;
        if (!inside) p->at++;
        inside = false;
        TRY(parse_add(p, NODE_FILTER, parse_now(p)->at, &n));
        TRY(parse_dotted(p, n));
        if (parse_is(p, TOKEN_LPAREN)) TRY(parse_arguments(p, &first));
        at(p, n)->a = *out;
        at(p, n)->b = first;
        TRY(parse_done(p, n));
        *out = n;
    }
    return STATUS_OK;
}

static status parse_test(parser *p, uint32_t of, uint32_t *out) {
    uint32_t begin = parse_now(p)->at, n, first = 0;
    p->at++;
    bool negated = parse_skip_name(p, "not");
    TRY(parse_add(p, NODE_TEST, begin, &n));
    TRY(parse_dotted(p, n));
    token_kind k = parse_now(p)->kind;
    if (k == TOKEN_LPAREN)
        TRY(parse_arguments(p, &first));
    else if ((k == TOKEN_NAME || k == TOKEN_STRING || k == TOKEN_INTEGER || k == TOKEN_FLOAT ||
              k == TOKEN_LBRACKET || k == TOKEN_LBRACE) &&
             !parse_is_name(p, "else") && !parse_is_name(p, "or") && !parse_is_name(p, "and")) {
        if (parse_is_name(p, "is")) return parse_wrong_at(p, begin, "tests can't be chained with is");
        TRY(parse_primary(p, false, &first));
        TRY(parse_postfix(p, &first));
    }
    at(p, n)->a = of;
    at(p, n)->b = first;
    TRY(parse_done(p, n));
    *out = n;
    if (!negated) return STATUS_OK;
    TRY(parse_add(p, NODE_NOT, begin, out));
    at(p, *out)->a = n;
    return parse_done(p, *out);
}

static status parse_filters(parser *p, uint32_t *n) {
    for (;;) {
        if (parse_is(p, TOKEN_PIPE))
            TRY(parse_filter(p, *n, false, n));
        else if (parse_is_name(p, "is"))
            TRY(parse_test(p, *n, n));
        else if (parse_is(p, TOKEN_LPAREN))
            TRY(parse_call(p, *n, n));
        else
            return STATUS_OK;
    }
}

/* ---- operators ---- */

static status parse_unary(parser *p, bool with_filter, uint32_t *out) {
    token_kind k = parse_now(p)->kind;
    if (k == TOKEN_SUB || k == TOKEN_ADD) {
        uint32_t n, of;
        TRY(parse_add(p, k == TOKEN_SUB ? NODE_NEG : NODE_POS, parse_now(p)->at, &n));
        p->at++;
        TRY(parse_deeper(p));
        TRY(parse_unary(p, false, &of));
        p->depth--;
        at(p, n)->a = of;
        TRY(parse_done(p, n));
        *out = n;
    } else
        TRY(parse_primary(p, false, out));
    TRY(parse_postfix(p, out));
    return with_filter ? parse_filters(p, out) : STATUS_OK;
}

static status make_binary(parser *p, node_kind kind, uint32_t left, uint32_t right, uint32_t *out) {
    TRY(parse_add(p, kind, p->t->nodes[left].at, out));
    at(p, *out)->a = left;
    at(p, *out)->b = right;
    return parse_done(p, *out);
}

static status parse_power(parser *p, uint32_t *out) {
    uint32_t right;
    TRY(parse_unary(p, true, out));
    while (parse_skip(p, TOKEN_POW)) {
        TRY(parse_unary(p, true, &right));
        TRY(make_binary(p, NODE_POW, *out, right, out));
    }
    return STATUS_OK;
}

static status parse_product(parser *p, uint32_t *out) {
    uint32_t right;
    TRY(parse_power(p, out));
    for (;;) {
        token_kind k = parse_now(p)->kind;
        if (k != TOKEN_MUL && k != TOKEN_DIV && k != TOKEN_FLOORDIV && k != TOKEN_MOD) return STATUS_OK;
        p->at++;
        TRY(parse_power(p, &right));
        TRY(make_binary(p, NODE_MUL + (k - TOKEN_MUL), *out, right, out));
    }
}

static status parse_concat(parser *p, uint32_t *out) {
    uint32_t first = 0, last = 0, item;
    TRY(parse_product(p, out));
    if (!parse_is(p, TOKEN_TILDE)) return STATUS_OK;
    parse_append(p, &first, &last, *out);
    while (parse_skip(p, TOKEN_TILDE)) {
        TRY(parse_product(p, &item));
        parse_append(p, &first, &last, item);
    }
    TRY(parse_add(p, NODE_CONCAT, p->t->nodes[first].at, out));
    at(p, *out)->a = first;
    return parse_done(p, *out);
}

static status parse_sum(parser *p, uint32_t *out) {
    uint32_t right;
    TRY(parse_concat(p, out));
    while (parse_is(p, TOKEN_ADD) || parse_is(p, TOKEN_SUB)) {
        node_kind kind = parse_is(p, TOKEN_ADD) ? NODE_ADD : NODE_SUB;
        p->at++;
        TRY(parse_concat(p, &right));
        TRY(make_binary(p, kind, *out, right, out));
    }
    return STATUS_OK;
}

/* The comparison that stands here, as the flag of a NODE_OPERAND; false: there is none. */
static bool comparison(parser *p, uint8_t *flag) {
    token_kind k = parse_now(p)->kind;
    if (k >= TOKEN_EQ && k <= TOKEN_GTEQ) {
        *flag = (uint8_t)k;
        p->at++;
        return true;
    }
    const token *ahead = parse_ahead(p);
    *flag = parse_is_name(p, "in") ? TOKEN_NAME : TOKEN_END;
    if (parse_skip_name(p, "in")) return true;
    if (!parse_is_name(p, "not") || ahead->kind != TOKEN_NAME || !spelled(p, ahead, "in")) return false;
    p->at += 2;
    return true;
}

static status parse_compare(parser *p, uint32_t *out) {
    uint32_t first = 0, last = 0, operand, x;
    uint8_t flag;
    TRY(parse_sum(p, out));
    while (comparison(p, &flag)) {
        TRY(parse_add(p, NODE_OPERAND, parse_now(p)->at, &operand));
        at(p, operand)->flag = flag;
        TRY(parse_sum(p, &x));
        at(p, operand)->a = x;
        TRY(parse_done(p, operand));
        parse_append(p, &first, &last, operand);
    }
    return first ? make_binary(p, NODE_COMPARE, *out, first, out) : STATUS_OK;
}

static status parse_not(parser *p, uint32_t *out) {
    if (!parse_is_name(p, "not")) return parse_compare(p, out);
    uint32_t n, of;
    TRY(parse_add(p, NODE_NOT, parse_now(p)->at, &n));
    p->at++;
    TRY(parse_deeper(p));
    TRY(parse_not(p, &of));
    p->depth--;
    at(p, n)->a = of;
    *out = n;
    return parse_done(p, n);
}

static status parse_and(parser *p, uint32_t *out) {
    uint32_t right;
    TRY(parse_not(p, out));
    while (parse_skip_name(p, "and")) {
        TRY(parse_not(p, &right));
        TRY(make_binary(p, NODE_AND, *out, right, out));
    }
    return STATUS_OK;
}

static status parse_or(parser *p, uint32_t *out) {
    uint32_t right;
    TRY(parse_and(p, out));
    while (parse_skip_name(p, "or")) {
        TRY(parse_and(p, &right));
        TRY(make_binary(p, NODE_OR, *out, right, out));
    }
    return STATUS_OK;
}

status parse_expression(parser *p, bool with_condition, uint32_t *out) {
    TRY(parse_deeper(p));
    TRY(parse_or(p, out));
    while (with_condition && parse_skip_name(p, "if")) {
        uint32_t test, other = 0, n;
        TRY(parse_or(p, &test));
        if (parse_skip_name(p, "else")) TRY(parse_expression(p, true, &other));
        TRY(parse_add(p, NODE_CONDITION, p->t->nodes[*out].at, &n));
        at(p, n)->a = test, at(p, n)->b = *out, at(p, n)->c = other;
        TRY(parse_done(p, n));
        *out = n;
    }
    p->depth--;
    return STATUS_OK;
}
