/* The tokens of a template. Text outside of tags has its blanks removed as `-`, `+`, trim_blocks and
 * lstrip_blocks say, so each token is a piece of the source as it stands. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum {
    TOKEN_END, /* of the template */
    TOKEN_DATA,
    TOKEN_PRINT_BEGIN, /* {{ */
    TOKEN_PRINT_END,
    TOKEN_BLOCK_BEGIN, /* {% */
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING, /* with its quotes */
    TOKEN_INTEGER,
    TOKEN_FLOAT,
    TOKEN_ADD,
    TOKEN_SUB,
    TOKEN_MUL,
    TOKEN_DIV,
    TOKEN_FLOORDIV,
    TOKEN_MOD,
    TOKEN_POW,
    TOKEN_TILDE,
    TOKEN_ASSIGN,
    TOKEN_EQ,
    TOKEN_NE,
    TOKEN_LT,
    TOKEN_LTEQ,
    TOKEN_GT,
    TOKEN_GTEQ,
    TOKEN_DOT,
    TOKEN_COMMA,
    TOKEN_COLON,
    TOKEN_PIPE,
    TOKEN_SEMICOLON,
    TOKEN_LPAREN,
    TOKEN_RPAREN,
    TOKEN_LBRACKET,
    TOKEN_RBRACKET,
    TOKEN_LBRACE,
    TOKEN_RBRACE
} token_kind;

typedef struct {
    uint32_t kind, at, length; /* bytes of the source */
} token;

enum { LEX_DEPTH = 512 };

typedef struct {
    const char *source;
    uint32_t length;
    token *tokens; /* NULL: they are only counted */
    uint32_t count;
    uint32_t at;
    bool line_starting;
    uint32_t wrong; /* where a failure is, byte of the source */
    uint32_t open_count;
    char open[LEX_DEPTH]; /* brackets that wait to be closed, within one tag */
} lexer;

/* Line breaks become "\n", and one at the end goes: from `text` into `out`, which has as much room. Returns
 * the length. */
uint32_t lex_lines(const char *text, size_t length, char *out);

/* All tokens of l->source and a TOKEN_END, into l->tokens, which has room for l->count of a first call
 * without it. STATUS_INVALID with a sentence, and l->wrong says where. */
status lex_all(lexer *l);

/* Blanks as Python's str.isspace has them: the length of the one at `s`, or 0. */
uint32_t lex_blank(const char *s, size_t n);
