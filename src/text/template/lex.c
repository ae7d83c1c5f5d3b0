#include "text/template/lex.h"

#include <string.h>

#include "base/utf8.h"
#include "text/template/letters.h"
#include "text/template/value.h"

/* The rules are those of jinja2.lexer with block_start_string and its kin at their defaults. */

uint32_t lex_lines(const char *text, size_t length, char *out) {
    uint32_t n = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\r') {
            out[n++] = '\n';
            if (i + 1 < length && text[i + 1] == '\n') i++;
        } else
            out[n++] = text[i];
    }
    return n > 0 && out[n - 1] == '\n' ? n - 1 : n;
}

uint32_t lex_blank(const char *s, size_t n) {
    if (n == 0) return 0;
    unsigned char a = (unsigned char)s[0];
    if (a < 0x80) return (a >= 9 && a <= 13) || (a >= 28 && a <= 32);
    unsigned char b = n > 1 ? (unsigned char)s[1] : 0, c = n > 2 ? (unsigned char)s[2] : 0;
    if (a == 0xc2) return b == 0x85 || b == 0xa0 ? 2 : 0;
    if (a == 0xe1) return b == 0x9a && c == 0x80 ? 3 : 0;
    if (a == 0xe3) return b == 0x80 && c == 0x80 ? 3 : 0;
    if (a != 0xe2) return 0;
    if (b == 0x80) return (c >= 0x80 && c <= 0x8a) || c == 0xa8 || c == 0xa9 || c == 0xaf ? 3 : 0;
    return b == 0x81 && c == 0x9f ? 3 : 0;
}

static status wrong(lexer *l, uint32_t at, const char *sentence) {
    l->wrong = at;
    return status_set(STATUS_INVALID, "%s", sentence);
}

static void add(lexer *l, token_kind kind, uint32_t at, uint32_t length) {
    if (l->tokens) l->tokens[l->count] = (token){ kind, at, length };
    l->count++;
}

static bool here(const lexer *l, uint32_t at, const char *what) {
    size_t n = strlen(what);
    return n <= l->length - at && memcmp(l->source + at, what, n) == 0;
}

static uint32_t skip_blanks(const lexer *l, uint32_t at) {
    for (uint32_t n; at < l->length && (n = lex_blank(l->source + at, l->length - at)) > 0;) at += n;
    return at;
}

/* The end of [begin, end) without the blanks at its end. */
static uint32_t strip_end(const lexer *l, uint32_t begin, uint32_t end) {
    while (end > begin) {
        uint32_t at = end - 1;
        while (at > begin && ((unsigned char)l->source[at] & 0xc0) == 0x80) at--;
        if (lex_blank(l->source + at, end - at) != end - at) break;
        end = at;
    }
    return end;
}

/* Text before a tag: `sign` is what stands behind the tag's opening, a print keeps its blanks. */
static void add_data(lexer *l, uint32_t begin, uint32_t end, char sign, bool print) {
    if (sign == '-')
        end = strip_end(l, begin, end);
    else if (sign != '+' && !print) {
        uint32_t line = end;
        while (line > begin && l->source[line - 1] != '\n') line--;
        if ((line > begin || l->line_starting) && line < end && strip_end(l, line, end) == line) end = line;
    }
    if (end > begin) add(l, TOKEN_DATA, begin, end - begin);
}

/* Behind a tag's end that begins at `at`: `-` takes blanks, `+` nothing, else a line break goes when `trim`.
 * 0: there is no end. */
static uint32_t tag_end(const lexer *l, uint32_t at, const char *end, bool trim) {
    if (here(l, at, end)) {
        at += 2;
        return trim && at < l->length && l->source[at] == '\n' ? at + 1 : at;
    }
    if (at + 1 < l->length && l->source[at] == '-' && here(l, at + 1, end)) return skip_blanks(l, at + 3);
    if (trim && at + 1 < l->length && l->source[at] == '+' && here(l, at + 1, end)) return at + 3;
    return 0;
}

/* Behind `word` between blanks, or 0. */
static uint32_t word_here(const lexer *l, uint32_t at, const char *word) {
    at = skip_blanks(l, at);
    return here(l, at, word) ? skip_blanks(l, at + (uint32_t)strlen(word)) : 0;
}

static char sign_at(const lexer *l, uint32_t at) {
    return at < l->length && (l->source[at] == '-' || l->source[at] == '+') ? l->source[at] : 0;
}

/* Where {% raw %} ends that begins with a sign at `at`, or 0: it is another tag. */
static uint32_t raw_begin(const lexer *l, uint32_t at) {
    uint32_t behind = word_here(l, at + (sign_at(l, at) ? 1 : 0), "raw");
    return behind ? here(l, behind, "%}")    ? behind + 2
                    : here(l, behind, "-%}") ? skip_blanks(l, behind + 3)
                                             : 0
                  : 0;
}

static void moved(lexer *l, uint32_t to) {
    l->at = to;
    l->line_starting = to > 0 && l->source[to - 1] == '\n';
}

static status lex_raw(lexer *l, uint32_t begin) {
    moved(l, begin);
    for (uint32_t at = begin; at < l->length; at++) {
        if (!here(l, at, "{%")) continue;
        char sign = sign_at(l, at + 2);
        uint32_t behind = word_here(l, at + 2 + (sign ? 1 : 0), "endraw"),
                 end = behind ? tag_end(l, behind, "%}", true) : 0;
        if (!end) continue;
        add_data(l, begin, at, sign, false);
        moved(l, end);
        return STATUS_OK;
    }
    return begin == l->length ? STATUS_OK : wrong(l, begin, "the end of a raw block is missing");
}

static status lex_comment(lexer *l, uint32_t begin) {
    for (uint32_t at = begin; at < l->length; at++) {
        uint32_t end = tag_end(l, at, "#}", true);
        if (!end) continue;
        moved(l, end);
        return STATUS_OK;
    }
    moved(l, l->length);
    return begin == l->length ? STATUS_OK : wrong(l, begin, "the end of a comment is missing");
}

static bool digit(const lexer *l, uint32_t at, int base) {
    if (at >= l->length) return false;
    char c = l->source[at];
    if (base == 16 && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))) return true;
    return c >= '0' && c < '0' + (base < 10 ? base : 10);
}

/* Behind digits that may have single `_` between them; `at` when there are none. */
static uint32_t digits(const lexer *l, uint32_t at, int base) {
    if (!digit(l, at, base)) return at;
    for (at++;; at++) {
        if (digit(l, at, base)) continue;
        if (at < l->length && l->source[at] == '_' && digit(l, at + 1, base)) continue;
        return at;
    }
}

static uint32_t lex_float(const lexer *l, uint32_t at) {
    if (at > 0 && l->source[at - 1] == '.') return at;
    uint32_t whole = digits(l, at, 10), end = whole;
    if (whole == at) return at;
    if (end < l->length && l->source[end] == '.' && digit(l, end + 1, 10)) end = digits(l, end + 1, 10);
    if (end < l->length && (l->source[end] | 32) == 'e') {
        uint32_t power = end + 1;
        if (power < l->length && (l->source[power] == '+' || l->source[power] == '-')) power++;
        if (digit(l, power, 10)) return digits(l, power, 10);
    }
    return end > whole ? end : at;
}

static uint32_t lex_integer(const lexer *l, uint32_t at) {
    if (!digit(l, at, 10)) return at;
    if (l->source[at] != '0') return digits(l, at, 10);
    char letter = at + 1 < l->length ? (char)(l->source[at + 1] | 32) : 0;
    int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (base) {
        uint32_t first = at + 2 + (at + 2 < l->length && l->source[at + 2] == '_' ? 1 : 0);
        if (digit(l, first, base)) return digits(l, first, base);
    }
    return digits(l, at, 1);
}

/* Python's identifiers, without their marks and numbers that are letters. */
static bool names(uint32_t point, bool first) {
    if (point < 0x80)
        return point == '_' || ((point | 32) >= 'a' && (point | 32) <= 'z') ||
               (!first && point >= '0' && point <= '9');
    if (LETTERS_IS(alpha, point))
        return first ? !LETTERS_IS(unnamed_first, point) : !LETTERS_IS(unnamed, point);
    return !first && LETTERS_IS(decimal, point);
}

static uint32_t lex_name(const lexer *l, uint32_t at) {
    unsigned long point;
    for (uint32_t begin = at, n; at < l->length; at += n) {
        n = value_point(l->source + at, &point);
        if (!names((uint32_t)point, at == begin)) break;
    }
    return at;
}

static uint32_t lex_string(const lexer *l, uint32_t at) {
    char quote = l->source[at];
    if (quote != '"' && quote != '\'') return at;
    for (uint32_t i = at + 1; i < l->length; i++) {
        if (l->source[i] == quote) return i + 1;
        if (l->source[i] == '\\') i++;
    }
    return at;
}

static const struct {
    char text[3];
    uint8_t kind;
} operators[] = { { "//", TOKEN_FLOORDIV }, { "**", TOKEN_POW },     { "==", TOKEN_EQ },
                  { "!=", TOKEN_NE },       { ">=", TOKEN_GTEQ },    { "<=", TOKEN_LTEQ },
                  { "+", TOKEN_ADD },       { "-", TOKEN_SUB },      { "/", TOKEN_DIV },
                  { "*", TOKEN_MUL },       { "%", TOKEN_MOD },      { "~", TOKEN_TILDE },
                  { "[", TOKEN_LBRACKET },  { "]", TOKEN_RBRACKET }, { "(", TOKEN_LPAREN },
                  { ")", TOKEN_RPAREN },    { "{", TOKEN_LBRACE },   { "}", TOKEN_RBRACE },
                  { ">", TOKEN_GT },        { "<", TOKEN_LT },       { "=", TOKEN_ASSIGN },
                  { ".", TOKEN_DOT },       { ":", TOKEN_COLON },    { "|", TOKEN_PIPE },
                  { ",", TOKEN_COMMA },     { ";", TOKEN_SEMICOLON } };

static status balance(lexer *l, token_kind kind) {
    char closing = kind == TOKEN_LPAREN ? ')' : kind == TOKEN_LBRACKET ? ']' : kind == TOKEN_LBRACE ? '}' : 0;
    if (closing) {
        if (l->open_count == LEX_DEPTH) return wrong(l, l->at, "brackets within brackets, too many");
        l->open[l->open_count++] = closing;
        return STATUS_OK;
    }
    char c = kind == TOKEN_RPAREN ? ')' : kind == TOKEN_RBRACKET ? ']' : kind == TOKEN_RBRACE ? '}' : 0;
    if (!c) return STATUS_OK;
    if (l->open_count > 0 && l->open[l->open_count - 1] == c) {
        l->open_count--;
        return STATUS_OK;
    }
    l->wrong = l->at;
    return status_set(STATUS_INVALID, "'%c' closes no bracket", c);
}

static status lex_operator(lexer *l) {
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!here(l, l->at, operators[i].text)) continue;
        TRY(balance(l, operators[i].kind));
        uint32_t length = (uint32_t)strlen(operators[i].text);
        add(l, operators[i].kind, l->at, length);
        l->at += length;
        return STATUS_OK;
    }
    return wrong(l, l->at, "a character that no expression has");
}

/* One token of an expression. */
static status lex_one(lexer *l) {
    static uint32_t (*const kinds[])(const lexer *, uint32_t) = { lex_float, lex_integer, lex_name,
                                                                  lex_string };
    static const token_kind names[] = { TOKEN_FLOAT, TOKEN_INTEGER, TOKEN_NAME, TOKEN_STRING };
    for (int i = 0; i < 4; i++) {
        uint32_t end = kinds[i](l, l->at);
        if (end == l->at) continue;
        add(l, names[i], l->at, end - l->at);
        l->at = end;
        return STATUS_OK;
    }
    return lex_operator(l);
}

/* Within {{ }} or {% %}. */
static status lex_tag(lexer *l, bool print) {
    l->open_count = 0;
    while (l->at < l->length) {
        uint32_t end = l->open_count ? 0 : tag_end(l, l->at, print ? "}}" : "%}", !print);
        if (end) {
            add(l, print ? TOKEN_PRINT_END : TOKEN_BLOCK_END, l->at, 2);
            moved(l, end);
            return STATUS_OK;
        }
        uint32_t blank = skip_blanks(l, l->at);
        if (blank > l->at)
            l->at = blank;
        else
            TRY(lex_one(l));
    }
    return STATUS_OK;
}

static status lex_root(lexer *l) {
    uint32_t begin = l->at, at = begin;
    while (at < l->length && !(here(l, at, "{%") || here(l, at, "{{") || here(l, at, "{#"))) at++;
    if (at >= l->length) {
        add(l, TOKEN_DATA, begin, l->length - begin);
        l->at = l->length;
        return STATUS_OK;
    }
    char kind = l->source[at + 1], sign = sign_at(l, at + 2);
    add_data(l, begin, at, sign, kind == '{');
    uint32_t raw = kind == '%' ? raw_begin(l, at + 2) : 0;
    if (raw) return lex_raw(l, raw);
    uint32_t behind = at + 2 + (sign ? 1 : 0);
    if (kind == '#') return lex_comment(l, behind);
    add(l, kind == '{' ? TOKEN_PRINT_BEGIN : TOKEN_BLOCK_BEGIN, at, 2);
    moved(l, behind);
    return lex_tag(l, kind == '{');
}

static status check_letters(lexer *l) {
    for (uint32_t at = 0; at < l->length;) {
        size_t n = utf8_length(l->source + at, l->length - at);
        if (!n) return wrong(l, at, "a byte that is not UTF-8");
        at += (uint32_t)n;
    }
    return STATUS_OK;
}

status lex_all(lexer *l) {
    l->at = l->count = 0;
    l->line_starting = true;
    if (!l->tokens) TRY(check_letters(l));
    while (l->at < l->length) TRY(lex_root(l));
    add(l, TOKEN_END, l->length, 0);
    return STATUS_OK;
}
