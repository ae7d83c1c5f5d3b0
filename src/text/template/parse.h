/* Between the files of the parser. */
#pragma once

#include "text/template/node.h"

enum { PARSE_MOST_NAMED = 256, PARSE_MOST_PARAMETERS = 64, PARSE_MOST_BLOCKS = 256 };

typedef struct {
    template *t;
    const token *tokens;
    uint32_t at;     /* of the current token */
    uint32_t wrong;  /* byte of the source of what is wrong */
    uint32_t depth;  /* blocks and brackets within each other */
    uint32_t fors;   /* `for`s around, in which nothing may be called loop */
    bool breakable;  /* within a loop of the same function */
    uint32_t blocks; /* named ones so far */
    uint8_t used;    /* MACRO_... of the macros around */
} parser;

enum { PARSE_MOST_DEPTH = 200 };

const token *parse_now(const parser *p);
const token *parse_ahead(const parser *p);
bool parse_is(const parser *p, token_kind kind);
bool parse_is_name(const parser *p, const char *name);
bool parse_skip(parser *p, token_kind kind);
bool parse_skip_name(parser *p, const char *name);
status parse_expect(parser *p, token_kind kind, const char *what);
status parse_expect_name(parser *p, const char *name);
status parse_wrong(parser *p, const char *what); /* "expected WHAT, found ..." */
status parse_wrong_at(parser *p, uint32_t at, const char *sentence);
status parse_add(parser *p, node_kind kind, uint32_t at, uint32_t *out);
/* The names that a token spells, into node `n`. */
void parse_name(parser *p, uint32_t n, const token *name);
/* The node `n` has all its children now: notes its height. */
status parse_done(parser *p, uint32_t n);
status parse_deeper(parser *p);

/* Appends to a list of which `*last` is the place of its end. */
void parse_append(parser *p, uint32_t *first, uint32_t *last, uint32_t n);

status parse_expression(parser *p, bool with_condition, uint32_t *out);
/* Commas make a tuple; `end` is a name that ends it too, or NULL. */
status parse_tuple(parser *p, bool with_condition, const char *end, uint32_t *out);
status parse_target(parser *p, bool fields, const char *end, uint32_t *out);
status parse_target_name(parser *p, uint32_t *out);
status parse_filter(parser *p, uint32_t of, bool inside, uint32_t *out);
