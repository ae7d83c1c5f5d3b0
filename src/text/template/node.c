#include "text/template/node.h"

#include <string.h>

#include "text/template/filter.h"

status node_wrong(const template *t, uint32_t place, status code) {
    size_t line = 1, column = 1;
    for (uint32_t i = 0; i < place && i < t->length; i++) {
        if (t->source[i] == '\n')
            line++, column = 1;
        else
            column += ((unsigned char)t->source[i] & 0xc0) != 0x80;
    }
    return status_prefix(code, "%s: line %zu, column %zu", t->name, line, column);
}

typedef struct {
    template *t;
    uint32_t *wrong;
} checker;

static status check_list(const checker *c, uint32_t first, bool soft);

static status check_name(const checker *c, node *n, bool soft) {
    bool filter = n->kind == NODE_FILTER;
    uint32_t place = filter ? filter_find(n->name, n->length) : tester_find(n->name, n->length);
    n->flag = (uint8_t)place;
    if (place || soft) return STATUS_OK;
    *c->wrong = n->at;
    return status_set(STATUS_INVALID, "there is no %s called %.*s", filter ? "filter" : "test",
                      n->length < 60 ? (int)n->length : 60, n->name);
}

/* A chain of elifs may be long: along it goes a loop. */
static status check_if(const checker *c, uint32_t i) {
    for (;;) {
        const node *n = &c->t->nodes[i], *other = &c->t->nodes[n->c];
        TRY(check_list(c, n->a, true));
        TRY(check_list(c, n->b, true));
        if (!n->c || other->kind != NODE_IF || other->next) return check_list(c, n->c, true);
        i = n->c;
    }
}

/* Within an if a name that nothing has is no failure before it is used; what begins a scope ends that again.
 */
static status check_node(const checker *c, node *n, bool soft) {
    bool inner = soft;
    if (n->kind == NODE_FILTER || n->kind == NODE_TEST) TRY(check_name(c, n, soft));
    if (n->kind == NODE_CONDITION) soft = inner = true;
    switch (n->kind) {
    case NODE_FOR:
    case NODE_WITH:
    case NODE_MACRO:
    case NODE_CALL_BLOCK:
    case NODE_GENERATION:
    case NODE_FILTER_BLOCK:
    case NODE_SET_BLOCK:
    case NODE_BLOCK:
    case NODE_ESCAPING: inner = false; break;
    default: break;
    }
    TRY(check_list(c, n->a, soft));
    TRY(check_list(
        c, n->b,
        n->kind == NODE_MACRO || n->kind == NODE_FILTER_BLOCK || n->kind == NODE_SET_BLOCK ? inner : soft));
    TRY(check_list(c, n->c, n->kind == NODE_FOR ? inner : soft));
    TRY(check_list(c, n->d, inner));
    return check_list(c, n->e, inner);
}

static status check_list(const checker *c, uint32_t first, bool soft) {
    for (uint32_t i = first; i; i = c->t->nodes[i].next)
        TRY(c->t->nodes[i].kind == NODE_IF ? check_if(c, i) : check_node(c, &c->t->nodes[i], soft));
    return STATUS_OK;
}

status node_check(template *t, uint32_t *at) {
    checker c = { t, at };
    return check_list(&c, t->body, false);
}
