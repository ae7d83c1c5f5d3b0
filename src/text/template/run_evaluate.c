/* Expressions. */
#include <stdio.h>
#include <string.h>

#include "text/template/filter.h"
#include "text/template/run.h"
#include "text/template/stream.h"

static const node *at(const run *r, uint32_t n) { return &r->t->nodes[n]; }

static status evaluate_name(run *r, const node *n, value *out) {
    const value *found = run_find(r, n->name, n->length);
    if (found) {
        *out = *found;
        return STATUS_OK;
    }
    if (run_find_function(n->name, n->length, out)) return STATUS_OK;
    char *missing;
    int length = n->length < 80 ? (int)n->length : 80;
    TRY(run_take(r, (size_t)length + 24, &missing));
    snprintf(missing, (size_t)length + 24, "'%.*s' is undefined", length, n->name);
    *out = value_undefined(missing);
    return STATUS_OK;
}

static status evaluate_items(run *r, const node *n, value_kind kind, value *out) {
    uint32_t count = 0;
    for (uint32_t i = n->a; i; i = at(r, i)->next) count++;
    TRY(value_list_new(r, kind, count, out));
    count = 0;
    for (uint32_t i = n->a; i; i = at(r, i)->next) TRY(run_evaluate(r, i, &out->list->items[count++]));
    return STATUS_OK;
}

static status evaluate_dict(run *r, const node *n, value *out) {
    uint32_t count = 0;
    for (uint32_t i = n->a; i; i = at(r, i)->next) count++;
    TRY(value_dict_new(r, count, out));
    for (uint32_t i = n->a; i; i = at(r, i)->next) {
        value key, item;
        TRY(run_evaluate(r, at(r, i)->a, &key));
        TRY(run_evaluate(r, at(r, i)->b, &item));
        TRY(value_dict_set(r, out->dict, &key, &item));
    }
    return STATUS_OK;
}

static status evaluate_item(run *r, const node *n, value *out) {
    value of, key;
    TRY(run_evaluate(r, n->a, &of));
    const node *k = at(r, n->b);
    if (k->kind != NODE_SLICE) {
        TRY(run_evaluate(r, n->b, &key));
        return run_get_item(r, &of, &key, out);
    }
    value parts[3] = { value_none(), value_none(), value_none() };
    const uint32_t nodes[] = { k->a, k->b, k->c };
    for (int i = 0; i < 3; i++)
        if (nodes[i]) TRY(run_evaluate(r, nodes[i], &parts[i]));
    return run_slice(r, &of, parts, out);
}

static status evaluate_attribute(run *r, const node *n, value *out) {
    value of, name;
    TRY(run_evaluate(r, n->a, &of));
    TRY(value_text_lend(r, n->name, n->length, &name));
    return run_get_attribute(r, &of, &name, out);
}

static status evaluate_call(run *r, const node *n, value *out) {
    value callee;
    arguments a;
    TRY(run_evaluate(r, n->a, &callee));
    TRY(run_arguments(r, n->b, &a));
    return run_call(r, &callee, &a, out);
}

/* The arguments of a filter or test, with what stands before it as the first. */
static status behind(run *r, const node *n, arguments *a) {
    arguments more;
    value first;
    if (n->a)
        TRY(run_evaluate(r, n->a, &first));
    else
        first = *r->filtered;
    TRY(run_arguments(r, n->b, &more));
    *a = more;
    a->count++;
    TRY(run_take(r, a->count * sizeof(value), &a->items));
    a->items[0] = first;
    if (more.count) memcpy(a->items + 1, more.items, more.count * sizeof(value));
    char *name;
    TRY(run_take(r, n->length + 1, &name));
    memcpy(name, n->name, n->length);
    name[n->length] = 0;
    a->name = name;
    return STATUS_OK;
}

static status unknown(const node *n) {
    return status_set(STATUS_INVALID, "there is no %s called %.*s",
                      n->kind == NODE_FILTER ? "filter" : "test", n->length < 60 ? (int)n->length : 60,
                      n->name);
}

static status evaluate_filter(run *r, const node *n, value *out) {
    arguments a;
    if (!n->flag) return unknown(n);
    TRY(behind(r, n, &a));
    return filter_apply(r, n->flag, &a, out);
}

static status evaluate_test(run *r, const node *n, value *out) {
    arguments a;
    bool yes;
    if (!n->flag) return unknown(n);
    TRY(behind(r, n, &a));
    TRY(tester_apply(r, n->flag, &a, &yes));
    *out = value_bool(yes);
    return STATUS_OK;
}

static status evaluate_condition(run *r, const node *n, value *out) {
    value yes;
    TRY(run_evaluate(r, n->a, &yes));
    if (value_true(&yes)) return run_evaluate(r, n->b, out);
    if (n->c) return run_evaluate(r, n->c, out);
    *out = value_undefined("an if without an else, and its condition is false");
    return STATUS_OK;
}

static status evaluate_logic(run *r, const node *n, value *out) {
    TRY(run_evaluate(r, n->a, out));
    return value_true(out) == (n->kind == NODE_AND) ? run_evaluate(r, n->b, out) : STATUS_OK;
}

static status evaluate_binary(run *r, const node *n, value *out) {
    value a, b;
    TRY(run_evaluate(r, n->a, &a));
    TRY(run_evaluate(r, n->b, &b));
    return run_operate(r, n->kind, &a, &b, out);
}

static status evaluate_unary(run *r, const node *n, value *out) {
    value of;
    TRY(run_evaluate(r, n->a, &of));
    if (n->kind != NODE_NOT) return run_negate(&of, n->kind == NODE_NEG, out);
    *out = value_bool(!value_true(&of));
    return STATUS_OK;
}

static status evaluate_concat(run *r, const node *n, value *out) {
    builder b = { 0 };
    for (uint32_t i = n->a; i; i = at(r, i)->next) {
        value part;
        TRY(run_evaluate(r, i, &part));
        TRY(value_add_shown(r, &b, &part));
    }
    return builder_value(r, &b, out);
}

static status compare(run *r, unsigned how, const value *a, const value *b, bool *yes) {
    int order;
    if (how == TOKEN_NAME || how == TOKEN_END) {
        TRY(value_in(r, a, b, yes));
        *yes = *yes == (how == TOKEN_NAME);
        return STATUS_OK;
    }
    if (how == TOKEN_EQ || how == TOKEN_NE) {
        TRY(value_equal(r, a, b, yes));
        *yes = *yes == (how == TOKEN_EQ);
        return STATUS_OK;
    }
    TRY(value_order(r, a, b, &order));
    *yes = order == 2          ? false
           : how == TOKEN_LT   ? order < 0
           : how == TOKEN_LTEQ ? order <= 0
           : how == TOKEN_GT   ? order > 0
                               : order >= 0;
    return STATUS_OK;
}

static status evaluate_compare(run *r, const node *n, value *out) {
    value left, right;
    bool yes = true;
    TRY(run_evaluate(r, n->a, &left));
    for (uint32_t i = n->b; i && yes; i = at(r, i)->next) {
        TRY(run_evaluate(r, at(r, i)->a, &right));
        TRY(compare(r, at(r, i)->flag, &left, &right, &yes));
        left = right;
    }
    *out = value_bool(yes);
    return STATUS_OK;
}

static status evaluate_constant(run *r, const node *n, value *out) {
    switch (n->kind) {
    case NODE_CONST_NONE: *out = value_none(); return STATUS_OK;
    case NODE_CONST_BOOL: *out = value_bool(n->integer != 0); return STATUS_OK;
    case NODE_CONST_INTEGER: *out = value_integer(n->integer); return STATUS_OK;
    case NODE_CONST_FLOAT: *out = value_number(n->number); return STATUS_OK;
    default: return value_text_lend(r, n->name, n->length, out);
    }
}

static status evaluate(run *r, const node *n, value *out) {
    switch (n->kind) {
    case NODE_NAME: return evaluate_name(r, n, out);
    case NODE_TUPLE: return evaluate_items(r, n, VALUE_TUPLE, out);
    case NODE_LIST: return evaluate_items(r, n, VALUE_LIST, out);
    case NODE_DICT: return evaluate_dict(r, n, out);
    case NODE_ATTRIBUTE: return evaluate_attribute(r, n, out);
    case NODE_ITEM: return evaluate_item(r, n, out);
    case NODE_CALL: return evaluate_call(r, n, out);
    case NODE_FILTER: return evaluate_filter(r, n, out);
    case NODE_TEST: return evaluate_test(r, n, out);
    case NODE_CONDITION: return evaluate_condition(r, n, out);
    case NODE_OR:
    case NODE_AND: return evaluate_logic(r, n, out);
    case NODE_ADD:
    case NODE_SUB:
    case NODE_MUL:
    case NODE_DIV:
    case NODE_FLOORDIV:
    case NODE_MOD:
    case NODE_POW: return evaluate_binary(r, n, out);
    case NODE_NOT:
    case NODE_NEG:
    case NODE_POS: return evaluate_unary(r, n, out);
    case NODE_CONCAT: return evaluate_concat(r, n, out);
    case NODE_COMPARE: return evaluate_compare(r, n, out);
    case NODE_SLICE: return status_set(STATUS_INVALID, "a slice stands among other keys");
    default: return evaluate_constant(r, n, out);
    }
}

status run_evaluate(run *r, uint32_t n, value *out) {
    status result = run_deeper(r);
    if (result == STATUS_OK) result = run_steps(r, 1);
    if (result == STATUS_OK) result = evaluate(r, at(r, n), out);
    if (result == STATUS_OK) {
        r->depth--;
        return STATUS_OK;
    }
    if (r->located) return result;
    r->located = true;
    return node_wrong(r->t, at(r, n)->at, result);
}
