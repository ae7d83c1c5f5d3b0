/* What may stand behind `is`. */
#include <string.h>

#include "text/template/filter.h"
#include "text/template/letters.h"
#include "text/template/stream.h"

typedef struct {
    run *r;
    const value *a;
    unsigned how;
} tester_call;

typedef status tester_function(const tester_call *c, bool *out);

static bool whole(const value *v) { return v->kind == VALUE_INTEGER || v->kind == VALUE_BOOL; }

static status t_kind(const tester_call *c, bool *out) {
    *out = c->a[0].kind == c->how;
    return STATUS_OK;
}

static status t_defined(const tester_call *c, bool *out) {
    *out = (c->a[0].kind != VALUE_UNDEFINED) == (c->how != 0);
    return STATUS_OK;
}

static status t_truth(const tester_call *c, bool *out) {
    *out = c->a[0].kind == VALUE_BOOL && c->a[0].yes == (c->how != 0);
    return STATUS_OK;
}

static status t_number(const tester_call *c, bool *out) {
    *out = whole(&c->a[0]) || c->a[0].kind == VALUE_NUMBER;
    return STATUS_OK;
}

static status t_sequence(const tester_call *c, bool *out) {
    int64_t count;
    *out = c->how
               ? value_length(&c->a[0], &count) || c->a[0].kind == VALUE_STREAM || c->a[0].kind == VALUE_LOOP
               : value_length(&c->a[0], &count) && c->a[0].kind != VALUE_VIEW;
    return STATUS_OK;
}

static status t_callable(const tester_call *c, bool *out) {
    uint8_t k = c->a[0].kind;
    *out = k == VALUE_MACRO || k == VALUE_FUNCTION || k == VALUE_METHOD || k == VALUE_LOOP ||
           k == VALUE_UNDEFINED;
    return STATUS_OK;
}

/* value % by == rest */
static status t_remainder(const tester_call *c, bool *out) {
    value by = c->how < 2 ? value_integer(2) : c->a[1], rest, wanted = value_integer(c->how == 1);
    TRY(run_operate(c->r, NODE_MOD, &c->a[0], &by, &rest));
    return value_equal(c->r, &rest, &wanted, out);
}

static status t_case(const tester_call *c, bool *out) {
    value text, asked, answer;
    TRY(value_show(c->r, &c->a[0], &text));
    bool there;
    TRY(run_attribute(c->r, &text, c->how ? "isupper" : "islower", 7, &asked, &there));
    TRY(run_call(c->r, &asked, &(arguments){ .name = "test" }, &answer));
    *out = answer.yes;
    return STATUS_OK;
}

static status t_same(const tester_call *c, bool *out) {
    const value *a = &c->a[0], *b = &c->a[1];
    *out = a->kind == b->kind;
    if (*out && (a->kind == VALUE_BOOL || a->kind == VALUE_INTEGER || a->kind == VALUE_TEXT))
        return value_equal(c->r, a, b, out);
    if (*out && a->kind != VALUE_NONE) *out = a->list == b->list;
    return STATUS_OK;
}

static status t_in(const tester_call *c, bool *out) { return value_in(c->r, &c->a[0], &c->a[1], out); }

static status t_known(const tester_call *c, bool *out) {
    const value *name = &c->a[0];
    *out = false;
    if (!value_is_key(name)) return status_set(STATUS_INVALID, "a %s is no name", value_type(name));
    if (name->kind == VALUE_TEXT)
        *out = (c->how ? filter_find : tester_find)(name->text->bytes, name->text->length) != 0;
    return STATUS_OK;
}

static status t_escaped(const tester_call *c, bool *out) {
    *out = c->a[0].kind == VALUE_TEXT && c->a[0].flag;
    return STATUS_OK;
}

enum { ORDER_EQ, ORDER_NE, ORDER_LT, ORDER_LE, ORDER_GT, ORDER_GE };

static status t_order(const tester_call *c, bool *out) {
    int order;
    if (c->how <= ORDER_NE) {
        TRY(value_equal(c->r, &c->a[0], &c->a[1], out));
        *out = *out == (c->how == ORDER_EQ);
        return STATUS_OK;
    }
    TRY(value_order(c->r, &c->a[0], &c->a[1], &order));
    *out = order == 2           ? false
           : c->how == ORDER_LT ? order < 0
           : c->how == ORDER_LE ? order <= 0
           : c->how == ORDER_GT ? order > 0
                                : order >= 0;
    return STATUS_OK;
}

static const struct {
    const char *name;
    tester_function *test;
    unsigned how, arguments;
} testers[] = { { "defined", t_defined, 1, 1 },
                { "undefined", t_defined, 0, 1 },
                { "string", t_kind, VALUE_TEXT, 1 },
                { "mapping", t_kind, VALUE_DICT, 1 },
                { "none", t_kind, VALUE_NONE, 1 },
                { "boolean", t_kind, VALUE_BOOL, 1 },
                { "integer", t_kind, VALUE_INTEGER, 1 },
                { "float", t_kind, VALUE_NUMBER, 1 },
                { "true", t_truth, 1, 1 },
                { "false", t_truth, 0, 1 },
                { "number", t_number, 0, 1 },
                { "sequence", t_sequence, 0, 1 },
                { "iterable", t_sequence, 1, 1 },
                { "callable", t_callable, 0, 1 },
                { "odd", t_remainder, 1, 1 },
                { "even", t_remainder, 0, 1 },
                { "divisibleby", t_remainder, 2, 2 },
                { "lower", t_case, 0, 1 },
                { "upper", t_case, 1, 1 },
                { "sameas", t_same, 0, 2 },
                { "escaped", t_escaped, 0, 1 },
                { "in", t_in, 0, 2 },
                { "filter", t_known, 1, 1 },
                { "test", t_known, 0, 1 },
                { "==", t_order, ORDER_EQ, 2 },
                { "eq", t_order, ORDER_EQ, 2 },
                { "equalto", t_order, ORDER_EQ, 2 },
                { "!=", t_order, ORDER_NE, 2 },
                { "ne", t_order, ORDER_NE, 2 },
                { "<", t_order, ORDER_LT, 2 },
                { "lt", t_order, ORDER_LT, 2 },
                { "lessthan", t_order, ORDER_LT, 2 },
                { "<=", t_order, ORDER_LE, 2 },
                { "le", t_order, ORDER_LE, 2 },
                { ">", t_order, ORDER_GT, 2 },
                { "gt", t_order, ORDER_GT, 2 },
                { "greaterthan", t_order, ORDER_GT, 2 },
                { ">=", t_order, ORDER_GE, 2 },
                { "ge", t_order, ORDER_GE, 2 } };

uint32_t tester_find(const char *name, uint32_t length) {
    for (uint32_t i = 0; i < sizeof testers / sizeof *testers; i++)
        if (strlen(testers[i].name) == length && memcmp(testers[i].name, name, length) == 0) return i + 1;
    return 0;
}

status tester_apply(run *r, uint32_t which, const arguments *a, bool *out) {
    value bound[RUN_MOST_PARAMETERS];
    tester_call c = { r, bound, testers[which - 1].how };
    const char *parameters = testers[which - 1].test == t_remainder ? "value num"
                             : testers[which - 1].test == t_same    ? "value other"
                             : testers[which - 1].test == t_in      ? "value seq"
                                                                    : "/a b";
    TRY(run_bind(a, testers[which - 1].arguments == 1 ? "value" : parameters, bound));
    return testers[which - 1].test(&c, out);
}

status tester_by_name(run *r, const value *name, const arguments *a, bool *out) {
    uint32_t which = name->kind == VALUE_TEXT ? tester_find(name->text->bytes, name->text->length) : 0;
    if (!which) return status_set(STATUS_INVALID, "there is no test of the name that is asked for");
    return tester_apply(r, which, a, out);
}
