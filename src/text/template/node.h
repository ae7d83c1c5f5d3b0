/* A parsed template: nodes in one table, which name each other by their place in it; 0 is none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/template/lex.h"
#include "text/template/template.h"

typedef enum {
    NODE_NOTHING,
    /* Statements. Lists of nodes go by `next`. */
    NODE_DATA,         /* text as it stands: at, length */
    NODE_PRINT,        /* a */
    NODE_FOR,          /* a target, b what is gone through, c condition, d body, e else; flag: recursive */
    NODE_IF,           /* a condition, b body, c else: a list, of which an elif is a NODE_IF by itself */
    NODE_SET,          /* a target, b value */
    NODE_SET_BLOCK,    /* a target, b filter or 0, d body */
    NODE_WITH,         /* a targets, b values, d body */
    NODE_MACRO,        /* name, a parameters, b defaults of the last ones, d body; flag: MACRO_... */
    NODE_CALL_BLOCK,   /* as a macro, and c the call */
    NODE_FILTER_BLOCK, /* b filter, d body */
    NODE_GENERATION,   /* d body */
    NODE_BLOCK,        /* name, d body; flag: scoped */
    NODE_ESCAPING,     /* autoescape: a condition, d body */
    NODE_ELSEWHERE,    /* include, import, extends: what asks for another template */
    NODE_BREAK,
    NODE_CONTINUE,
    /* Expressions. */
    NODE_CONST_NONE,
    NODE_CONST_BOOL,    /* integer */
    NODE_CONST_INTEGER, /* integer */
    NODE_CONST_FLOAT,   /* number */
    NODE_CONST_STRING,  /* name: in the strings of the template */
    NODE_NAME,          /* name */
    NODE_FIELD,         /* name.attribute as a target: name, a a NODE_NAME */
    NODE_TUPLE,         /* a items */
    NODE_LIST,          /* a items */
    NODE_DICT,          /* a items, each a NODE_PAIR */
    NODE_PAIR,          /* a key, b value */
    NODE_ATTRIBUTE,     /* a, name */
    NODE_ITEM,          /* a, b */
    NODE_SLICE,         /* a, b, c, each may be 0 */
    NODE_CALL,          /* a, b arguments */
    NODE_KEYWORD,       /* an argument: name, a */
    NODE_SPREAD,        /* an argument: *a */
    NODE_SPREAD_NAMED,  /* an argument: **a */
    NODE_FILTER,        /* a (0: the body of a block), name, b arguments; flag: 1 + place among filters */
    NODE_TEST,          /* a, name, b arguments; flag as above */
    NODE_CONDITION,     /* b if a else c */
    NODE_OR,            /* a, b: so all up to NODE_POW */
    NODE_AND,
    NODE_ADD,
    NODE_SUB,
    NODE_MUL,
    NODE_DIV,
    NODE_FLOORDIV,
    NODE_MOD,
    NODE_POW,
    NODE_NOT, /* a */
    NODE_NEG,
    NODE_POS,
    NODE_CONCAT,  /* a items */
    NODE_COMPARE, /* a, b NODE_OPERANDs */
    NODE_OPERAND  /* a; flag: the token, TOKEN_NAME for `in`, TOKEN_END for `not in` */
} node_kind;

enum { MACRO_USES_CALLER = 1, MACRO_USES_NAMED = 2, MACRO_USES_MORE = 4 };

typedef struct {
    uint8_t kind, flag;
    uint16_t height; /* 1 and its highest child's: what walks along a tree goes no deeper */
    uint32_t at;     /* byte of the source, for sentences */
    uint32_t next;
    uint32_t a, b, c, d, e;
    const char *name; /* in the source, or in the strings */
    union {
        uint32_t length; /* of the name */
        int64_t integer;
        double number;
    };
} node;

enum { NODE_MOST_HEIGHT = 250 };

struct template {
    char *name;
    char *source; /* line breaks are "\n" */
    size_t source_room;
    char *strings; /* the constants' letters */
    uint32_t length, strings_used;
    node *nodes;
    uint32_t node_count, node_room;
    uint32_t body; /* the first statement */
    bool marks;
};

/* "NAME: line L, column C: " goes before the recorded sentence; returns `code`. */
status node_wrong(const template *t, uint32_t at, status code);

/* What Jinja finds only when it compiles: names of filters and tests that nothing has and that are not within
 * a condition. Fills their flags. STATUS_INVALID with a sentence, and `*at` says where. */
status node_check(template *t, uint32_t *at);
