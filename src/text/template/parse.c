/* Statements of a template, as jinja2.parser reads them, and the reading of a whole one. */
#include "text/template/parse.h"

#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

static node *at(parser *p, uint32_t n) { return &p->t->nodes[n]; }

const token *parse_now(const parser *p) { return &p->tokens[p->at]; }
const token *parse_ahead(const parser *p) {
    return parse_now(p)->kind == TOKEN_END ? parse_now(p) : &p->tokens[p->at + 1];
}
bool parse_is(const parser *p, token_kind kind) { return parse_now(p)->kind == kind; }

bool parse_is_name(const parser *p, const char *name) {
    const token *k = parse_now(p);
    return k->kind == TOKEN_NAME && k->length == strlen(name) &&
           memcmp(p->t->source + k->at, name, k->length) == 0;
}

bool parse_skip(parser *p, token_kind kind) {
    if (!parse_is(p, kind)) return false;
    p->at++;
    return true;
}

bool parse_skip_name(parser *p, const char *name) {
    if (!parse_is_name(p, name)) return false;
    p->at++;
    return true;
}

status parse_wrong_at(parser *p, uint32_t place, const char *sentence) {
    p->wrong = place;
    return status_set(STATUS_INVALID, "%s", sentence);
}

status parse_wrong(parser *p, const char *what) {
    const token *k = parse_now(p);
    char found[48], shown[UTF8_QUOTE_BYTES];
    size_t n = k->length < sizeof found ? k->length : sizeof found - 1;
    memcpy(found, p->t->source + k->at, n);
    found[n] = 0;
    p->wrong = k->at;
    if (k->kind == TOKEN_END)
        return status_set(STATUS_INVALID, "expected %s, found the template's end", what);
    return status_set(STATUS_INVALID, "expected %s, found %s", what,
                      k->kind == TOKEN_DATA ? "text" : utf8_quote(found, shown));
}

status parse_expect(parser *p, token_kind kind, const char *what) {
    return parse_skip(p, kind) ? STATUS_OK : parse_wrong(p, what);
}

status parse_expect_name(parser *p, const char *name) {
    return parse_skip_name(p, name) ? STATUS_OK : parse_wrong(p, name);
}

/* Two nodes for a token are more than any template has. */
status parse_add(parser *p, node_kind kind, uint32_t place, uint32_t *out) {
    if (p->t->node_count == p->t->node_room)
        return parse_wrong_at(p, place, "more nodes than tokens can make");
    *out = p->t->node_count++;
    *at(p, *out) = (node){ .kind = (uint8_t)kind, .at = place, .height = 1 };
    return STATUS_OK;
}

void parse_name(parser *p, uint32_t n, const token *name) {
    at(p, n)->name = p->t->source + name->at;
    at(p, n)->length = name->length;
}

static uint16_t highest(parser *p, uint32_t first) {
    uint16_t most = 0;
    for (uint32_t i = first; i; i = at(p, i)->next)
        if (at(p, i)->height > most) most = at(p, i)->height;
    return most;
}

status parse_done(parser *p, uint32_t n) {
    node *x = at(p, n);
    uint32_t children[] = { x->a, x->b, x->c, x->d, x->e };
    uint16_t most = 0;
    for (int i = 0; i < 5; i++) {
        uint16_t height = highest(p, children[i]);
        if (height > most) most = height;
    }
    x->height = (uint16_t)(most + 1);
    if (x->height > NODE_MOST_HEIGHT)
        return parse_wrong_at(p, x->at, "expressions within each other, too many");
    return STATUS_OK;
}

status parse_deeper(parser *p) {
    if (++p->depth > PARSE_MOST_DEPTH)
        return parse_wrong_at(p, parse_now(p)->at, "brackets and blocks within each other, too many");
    return STATUS_OK;
}

void parse_append(parser *p, uint32_t *first, uint32_t *last, uint32_t n) {
    if (*last)
        at(p, *last)->next = n;
    else
        *first = n;
    *last = n;
}

/* ---- statements ---- */

static status parse_block(parser *p, const char *const *ends, uint32_t *first);

/* What a tag holds, up to one of `ends`, of which the name is the current token then. */
static status parse_body(parser *p, const char *const *ends, uint32_t *first) {
    parse_skip(p, TOKEN_COLON);
    TRY(parse_expect(p, TOKEN_BLOCK_END, "'%}'"));
    TRY(parse_deeper(p));
    TRY(parse_block(p, ends, first));
    p->depth--;
    return parse_is(p, TOKEN_END) ? parse_wrong(p, ends[0]) : STATUS_OK;
}

static status parse_whole_body(parser *p, const char *end, uint32_t *first) {
    TRY(parse_body(p, (const char *const[]){ end, NULL }, first));
    p->at++;
    return STATUS_OK;
}

static status parse_for(parser *p, uint32_t n) {
    uint32_t x;
    p->fors++;
    TRY(parse_target(p, false, "in", &x));
    at(p, n)->a = x;
    TRY(parse_expect_name(p, "in"));
    p->fors--; /* what is gone through is outside */
    TRY(parse_tuple(p, false, "recursive", &x));
    p->fors++;
    at(p, n)->b = x;
    if (parse_skip_name(p, "if")) {
        TRY(parse_expression(p, true, &x));
        at(p, n)->c = x;
    }
    at(p, n)->flag = parse_skip_name(p, "recursive");
    bool outside = p->breakable;
    p->breakable = true;
    TRY(parse_body(p, (const char *const[]){ "endfor", "else", NULL }, &x));
    p->breakable = outside && !at(p, n)->flag;
    at(p, n)->d = x;
    bool other = parse_is_name(p, "else");
    p->at++;
    if (other) {
        TRY(parse_whole_body(p, "endfor", &x));
        at(p, n)->e = x;
    }
    p->breakable = outside;
    p->fors--;
    return parse_done(p, n);
}

static status parse_if(parser *p, uint32_t n) {
    static const char *const ends[] = { "endif", "elif", "else", NULL };
    uint32_t x, root = n;
    for (;;) {
        TRY(parse_tuple(p, false, NULL, &x));
        at(p, n)->a = x;
        TRY(parse_body(p, ends, &x));
        at(p, n)->b = x;
        uint32_t place = parse_now(p)->at;
        if (!parse_skip_name(p, "elif")) break;
        TRY(parse_add(p, NODE_IF, place, &x));
        at(p, n)->c = x;
        n = x;
    }
    if (parse_skip_name(p, "else")) {
        TRY(parse_whole_body(p, "endif", &x));
        at(p, n)->c = x;
    } else
        p->at++;
    /* A chain of elifs goes by a loop when it runs: its height is that of what it holds. */
    uint16_t most = 0;
    for (uint32_t i = root;; i = at(p, i)->c) {
        uint32_t parts[] = { at(p, i)->a, at(p, i)->b, i == n ? at(p, i)->c : 0 };
        for (int k = 0; k < 3; k++)
            if (highest(p, parts[k]) > most) most = highest(p, parts[k]);
        if (i == n) break;
    }
    at(p, root)->height = (uint16_t)(most + 1);
    return most + 1 > NODE_MOST_HEIGHT
               ? parse_wrong_at(p, at(p, root)->at, "blocks within each other, too many")
               : STATUS_OK;
}

static status parse_set(parser *p, uint32_t n) {
    uint32_t x;
    TRY(parse_target(p, true, NULL, &x));
    at(p, n)->a = x;
    if (parse_skip(p, TOKEN_ASSIGN)) {
        TRY(parse_tuple(p, true, NULL, &x));
        at(p, n)->b = x;
        return parse_done(p, n);
    }
    at(p, n)->kind = NODE_SET_BLOCK;
    TRY(parse_filter(p, 0, false, &x));
    at(p, n)->b = x;
    TRY(parse_whole_body(p, "endset", &x));
    at(p, n)->d = x;
    return parse_done(p, n);
}

static status parse_with(parser *p, uint32_t n) {
    uint32_t target, value, last_target = 0, last_value = 0;
    while (!parse_is(p, TOKEN_BLOCK_END)) {
        if (last_target) TRY(parse_expect(p, TOKEN_COMMA, "','"));
        TRY(parse_target(p, false, NULL, &target));
        TRY(parse_expect(p, TOKEN_ASSIGN, "'='"));
        TRY(parse_expression(p, true, &value));
        parse_append(p, &at(p, n)->a, &last_target, target);
        parse_append(p, &at(p, n)->b, &last_value, value);
    }
    TRY(parse_whole_body(p, "endwith", &value));
    at(p, n)->d = value;
    return parse_done(p, n);
}

static bool same_name(parser *p, uint32_t a, uint32_t b) {
    return at(p, a)->length == at(p, b)->length &&
           memcmp(at(p, a)->name, at(p, b)->name, at(p, a)->length) == 0;
}

static status parse_signature(parser *p, uint32_t n) {
    uint32_t name, value, last_name = 0, last_value = 0;
    TRY(parse_expect(p, TOKEN_LPAREN, "'('"));
    while (!parse_is(p, TOKEN_RPAREN)) {
        if (last_name) TRY(parse_expect(p, TOKEN_COMMA, "','"));
        TRY(parse_target_name(p, &name));
        uint32_t count = 0;
        for (uint32_t i = at(p, n)->a; i; i = at(p, i)->next, count++)
            if (same_name(p, i, name))
                return parse_wrong_at(p, at(p, name)->at, "a parameter has the name of another one");
        if (count == PARSE_MOST_PARAMETERS)
            return parse_wrong_at(p, at(p, name)->at, "a macro of more than 64 parameters");
        if (parse_skip(p, TOKEN_ASSIGN)) {
            TRY(parse_expression(p, true, &value));
            parse_append(p, &at(p, n)->b, &last_value, value);
        } else if (last_value)
            return parse_wrong(p, "a default, as the parameter before has one");
        parse_append(p, &at(p, n)->a, &last_name, name);
    }
    return parse_expect(p, TOKEN_RPAREN, "')'");
}

/* A body that is a function of its own: loops around it can't be left from within. */
static status parse_function(parser *p, uint32_t n, const char *end) {
    uint8_t used = p->used;
    bool breakable = p->breakable;
    uint32_t x;
    p->used = 0;
    p->breakable = false;
    TRY(parse_whole_body(p, end, &x));
    at(p, n)->d = x;
    at(p, n)->flag = p->used;
    p->used |= used;
    p->breakable = breakable;
    if (!(at(p, n)->flag & MACRO_USES_CALLER)) return parse_done(p, n);
    uint32_t required = 0, defaults = 0, k = 0;
    for (uint32_t i = at(p, n)->a; i; i = at(p, i)->next) required++;
    for (uint32_t i = at(p, n)->b; i; i = at(p, i)->next) defaults++;
    for (uint32_t i = at(p, n)->a; i; i = at(p, i)->next, k++)
        if (k < required - defaults && at(p, i)->length == 6 && memcmp(at(p, i)->name, "caller", 6) == 0)
            return parse_wrong_at(p, at(p, i)->at, "the parameter caller needs a default");
    return parse_done(p, n);
}

static status parse_macro(parser *p, uint32_t n) {
    uint32_t name;
    TRY(parse_target_name(p, &name));
    at(p, n)->name = at(p, name)->name;
    at(p, n)->length = at(p, name)->length;
    TRY(parse_signature(p, n));
    return parse_function(p, n, "endmacro");
}

static status parse_call_block(parser *p, uint32_t n) {
    uint32_t call;
    if (parse_is(p, TOKEN_LPAREN)) TRY(parse_signature(p, n));
    TRY(parse_expression(p, true, &call));
    if (at(p, call)->kind != NODE_CALL) return parse_wrong_at(p, at(p, call)->at, "expected a call");
    at(p, n)->c = call;
    return parse_function(p, n, "endcall");
}

static status parse_filter_block(parser *p, uint32_t n) {
    uint32_t x;
    TRY(parse_filter(p, 0, true, &x));
    at(p, n)->b = x;
    TRY(parse_whole_body(p, "endfilter", &x));
    at(p, n)->d = x;
    return parse_done(p, n);
}

static status parse_generation(parser *p, uint32_t n) {
    p->t->marks = true;
    return parse_function(p, n, "endgeneration");
}

static status parse_named_block(parser *p, uint32_t n) {
    if (!parse_is(p, TOKEN_NAME)) return parse_wrong(p, "a name");
    parse_name(p, n, parse_now(p));
    p->at++;
    bool scoped = parse_skip_name(p, "scoped");
    if (parse_is_name(p, "required"))
        return parse_wrong_at(p, parse_now(p)->at,
                              "a required block asks for another template: there is none");
    TRY(parse_function(p, n, "endblock"));
    at(p, n)->flag = scoped;
    if (parse_is(p, TOKEN_NAME) && parse_now(p)->length == at(p, n)->length &&
        memcmp(p->t->source + parse_now(p)->at, at(p, n)->name, at(p, n)->length) == 0)
        p->at++;
    if (++p->blocks > PARSE_MOST_BLOCKS) return parse_wrong_at(p, at(p, n)->at, "more than 256 named blocks");
    for (uint32_t i = 1; i < n; i++)
        if (at(p, i)->kind == NODE_BLOCK && same_name(p, i, n))
            return parse_wrong_at(p, at(p, n)->at, "a block of this name was there before");
    return STATUS_OK;
}

static status parse_escaping(parser *p, uint32_t n) {
    uint32_t x;
    TRY(parse_expression(p, true, &x));
    at(p, n)->a = x;
    TRY(parse_whole_body(p, "endautoescape", &x));
    at(p, n)->d = x;
    return parse_done(p, n);
}

/* {% print a, b %}: as many prints. */
static status parse_print(parser *p, uint32_t n) {
    uint32_t x, more = 0, first = 0, last = 0;
    while (!parse_is(p, TOKEN_BLOCK_END)) {
        if (last) TRY(parse_expect(p, TOKEN_COMMA, "','"));
        TRY(parse_expression(p, true, &x));
        TRY(parse_add(p, NODE_PRINT, at(p, x)->at, &more));
        at(p, more)->a = x;
        TRY(parse_done(p, more));
        parse_append(p, &first, &last, more);
    }
    at(p, n)->b = first;
    return parse_done(p, n);
}

/* Asks for another template. What follows in the tag is looked at for its end only. */
static status parse_elsewhere(parser *p, uint32_t n) {
    (void)n;
    if (parse_is(p, TOKEN_BLOCK_END)) return parse_wrong(p, "an expression");
    while (!parse_is(p, TOKEN_BLOCK_END) && !parse_is(p, TOKEN_END)) p->at++;
    return STATUS_OK;
}

static status parse_leave(parser *p, uint32_t n) {
    return p->breakable ? STATUS_OK : parse_wrong_at(p, at(p, n)->at, "there is no loop here to leave");
}

static const struct {
    const char *name;
    node_kind kind;
    status (*parse)(parser *p, uint32_t n);
} statements[] = { { "if", NODE_IF, parse_if },
                   { "for", NODE_FOR, parse_for },
                   { "set", NODE_SET, parse_set },
                   { "macro", NODE_MACRO, parse_macro },
                   { "generation", NODE_GENERATION, parse_generation },
                   { "break", NODE_BREAK, parse_leave },
                   { "continue", NODE_CONTINUE, parse_leave },
                   { "with", NODE_WITH, parse_with },
                   { "call", NODE_CALL_BLOCK, parse_call_block },
                   { "filter", NODE_FILTER_BLOCK, parse_filter_block },
                   { "print", NODE_PRINT, parse_print },
                   { "block", NODE_BLOCK, parse_named_block },
                   { "autoescape", NODE_ESCAPING, parse_escaping },
                   { "include", NODE_ELSEWHERE, parse_elsewhere },
                   { "import", NODE_ELSEWHERE, parse_elsewhere },
                   { "from", NODE_ELSEWHERE, parse_elsewhere },
                   { "extends", NODE_ELSEWHERE, parse_elsewhere } };

static status parse_statement(parser *p, uint32_t *out) {
    if (!parse_is(p, TOKEN_NAME)) return parse_wrong(p, "the name of a tag");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        uint32_t place = parse_now(p)->at;
        if (!parse_skip_name(p, statements[i].name)) continue;
        TRY(parse_add(p, statements[i].kind, place, out));
        return statements[i].parse(p, *out);
    }
    return parse_wrong(p, "a tag that there is, and that is open if it is an end");
}

static bool ends_here(const parser *p, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (parse_is_name(p, *ends)) return true;
    return false;
}

static status parse_one(parser *p, uint32_t *out) {
    const token *k = parse_now(p);
    if (k->kind == TOKEN_DATA) {
        TRY(parse_add(p, NODE_DATA, k->at, out));
        parse_name(p, *out, k);
        p->at++;
        return STATUS_OK;
    }
    uint32_t x;
    p->at++;
    if (k->kind == TOKEN_BLOCK_BEGIN) {
        TRY(parse_statement(p, out));
        return parse_expect(p, TOKEN_BLOCK_END, "'%}'");
    }
    TRY(parse_add(p, NODE_PRINT, k->at, out));
    TRY(parse_tuple(p, true, NULL, &x));
    at(p, *out)->a = x;
    TRY(parse_done(p, *out));
    return parse_expect(p, TOKEN_PRINT_END, "'}}'");
}

/* Up to the template's end or to {% END, with END as the current token. */
static status parse_block(parser *p, const char *const *ends, uint32_t *first) {
    uint32_t last = 0, n = 0;
    *first = 0;
    while (!parse_is(p, TOKEN_END)) {
        if (parse_is(p, TOKEN_BLOCK_BEGIN)) {
            p->at++;
            if (ends_here(p, ends)) return STATUS_OK;
            p->at--;
        }
        TRY(parse_one(p, &n));
        parse_append(p, first, &last, n);
    }
    return STATUS_OK;
}

/* ---- a template ---- */

static status parse_tokens(template *t, token **tokens) {
    lexer l = { .source = t->source, .length = t->length };
    status result = lex_all(&l);
    if (result != STATUS_OK) return node_wrong(t, l.wrong, result);
    t->node_room = 2 * l.count + 2;
    t->strings = memory_room(2, t->length + 1);
    t->nodes = memory_room(t->node_room, sizeof *t->nodes);
    *tokens = l.tokens = memory_room(l.count, sizeof *l.tokens);
    if (!t->strings || !t->nodes || !*tokens)
        return status_set(STATUS_FAILED, "%s: no memory for a template of %u bytes", t->name, t->length);
    result = lex_all(&l);
    t->nodes[0] = (node){ 0 };
    t->node_count = 1;
    parser p = { .t = t, .tokens = *tokens };
    if (result == STATUS_OK) result = parse_block(&p, NULL, &t->body);
    if (result == STATUS_OK) result = node_check(t, &p.wrong);
    return result == STATUS_OK ? result : node_wrong(t, p.wrong, result);
}

status template_parse(const char *name, const char *source, size_t length, template **out) {
    *out = NULL;
    if (length > TEMPLATE_SOURCE)
        return status_set(STATUS_INVALID, "%s: a template of %zu bytes; the longest has %d", name, length,
                          TEMPLATE_SOURCE);
    template *t = memory_new(1, sizeof *t);
    token *tokens = NULL;
    if (t) t->name = memory_text(name);
    if (t) t->source_room = length + 1;
    if (t) t->source = memory_room(1, t->source_room);
    status result =
        t && t->name && t->source
            ? STATUS_OK
            : status_set(STATUS_FAILED, "%s: no memory for a template of %zu bytes", name, length);
    if (result == STATUS_OK) {
        t->length = lex_lines(source, length, t->source);
        t->source[t->length] = 0;
        result = parse_tokens(t, &tokens);
    }
    memory_free(tokens);
    if (result == STATUS_OK)
        *out = t;
    else
        template_close(t);
    return result;
}

void template_close(template *t) {
    if (!t) return;
    memory_free(t->name);
    memory_free(t->source);
    memory_free(t->strings);
    memory_free(t->nodes);
    memory_free(t);
}

uint64_t template_bytes(const template *t) {
    return sizeof *t + strlen(t->name) + 1 + t->source_room + 2 * ((uint64_t)t->length + 1) +
           (uint64_t)t->node_room * sizeof *t->nodes;
}

bool template_marks_learned(const template *t) { return t->marks; }
