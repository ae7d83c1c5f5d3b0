/* Operators: arithmetic, texts and lists put together, slices. */
#include <math.h>
#include <string.h>

#include "text/template/format.h"
#include "text/template/run.h"

static bool numeric(const value *v) {
    return v->kind == VALUE_BOOL || v->kind == VALUE_INTEGER || v->kind == VALUE_NUMBER;
}
static int64_t whole(const value *v) { return v->kind == VALUE_BOOL ? v->yes : v->integer; }
static double real(const value *v) { return v->kind == VALUE_NUMBER ? v->number : (double)whole(v); }

static status too_large(void) {
    return status_set(STATUS_INVALID, "the result is a whole number of more than 64 bits");
}
static status by_zero(void) { return status_set(STATUS_INVALID, "a division by zero"); }

static status power_whole(int64_t a, int64_t b, value *out) {
    int64_t result = 1;
    for (; b > 0; b >>= 1) {
        if ((b & 1) && __builtin_mul_overflow(result, a, &result)) return too_large();
        if (b > 1 && __builtin_mul_overflow(a, a, &a)) return too_large();
    }
    *out = value_integer(result);
    return STATUS_OK;
}

static status operate_whole(node_kind kind, int64_t a, int64_t b, value *out) {
    int64_t n = 0;
    bool over = false;
    switch (kind) {
    case NODE_ADD: over = __builtin_add_overflow(a, b, &n); break;
    case NODE_SUB: over = __builtin_sub_overflow(a, b, &n); break;
    case NODE_MUL: over = __builtin_mul_overflow(a, b, &n); break;
    case NODE_FLOORDIV:
    case NODE_MOD:
        if (b == 0) return by_zero();
        if (b == -1) {
            over = kind == NODE_FLOORDIV && __builtin_sub_overflow(0, a, &n);
            break;
        }
        n = kind == NODE_MOD ? a % b : a / b;
        if (a % b != 0 && (a < 0) != (b < 0)) n += kind == NODE_MOD ? b : -1;
        break;
    default: return power_whole(a, b, out);
    }
    *out = value_integer(n);
    return over ? too_large() : STATUS_OK;
}

static status operate_real(node_kind kind, double a, double b, value *out) {
    double x = 0;
    if (b == 0 && (kind == NODE_DIV || kind == NODE_FLOORDIV || kind == NODE_MOD)) return by_zero();
    if (kind == NODE_POW && a == 0 && b < 0) return by_zero();
    switch (kind) {
    case NODE_ADD: x = a + b; break;
    case NODE_SUB: x = a - b; break;
    case NODE_MUL: x = a * b; break;
    case NODE_DIV: x = a / b; break;
    case NODE_POW:
        x = pow(a, b);
        if (a < 0 && b != floor(b)) return status_set(STATUS_INVALID, "the result is a complex number");
        if (isinf(x) && !isinf(a) && !isinf(b)) return status_set(STATUS_INVALID, "the result is too large");
        break;
    default: {
        double rest = fmod(a, b);
        if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
        if (rest == 0) rest = copysign(0, b);
        double quotient = (a - rest) / b, down = floor(quotient);
        if (quotient - down > 0.5) down += 1;
        if (quotient == 0) down = copysign(0, a / b);
        x = kind == NODE_MOD ? rest : down;
    }
    }
    *out = value_number(x);
    return STATUS_OK;
}

static status repeat(run *r, const value *a, int64_t times, value *out) {
    if (times < 0) times = 0;
    if (a->kind == VALUE_TEXT) {
        builder b = { 0 };
        if (a->text->length)
            for (int64_t i = 0; i < times; i++) {
                TRY(run_steps(r, 1));
                TRY(builder_add_text(r, &b, a));
            }
        TRY(builder_value(r, &b, out));
        out->flag = a->flag;
        return STATUS_OK;
    }
    uint32_t count = a->list->count;
    if (count && times > UINT32_MAX / count)
        return status_set(STATUS_INVALID, "a list of more than 2^32 items");
    TRY(value_list_new(r, a->kind, (uint32_t)(count ? times * count : 0), out));
    for (int64_t i = 0; count && i < times; i++)
        memcpy(out->list->items + i * count, a->list->items, count * sizeof(value));
    return STATUS_OK;
}

static status join_lists(run *r, const value *a, const value *b, value *out) {
    uint32_t n = a->list->count, m = b->list->count;
    if (n > UINT32_MAX - m) return status_set(STATUS_INVALID, "a list of more than 2^32 items");
    TRY(value_list_new(r, a->kind, n + m, out));
    if (n) memcpy(out->list->items, a->list->items, n * sizeof(value));
    if (m) memcpy(out->list->items + n, b->list->items, m * sizeof(value));
    return STATUS_OK;
}

static status join_texts(run *r, const value *a, const value *b, value *out) {
    builder all = { 0 };
    value left = *a, right = *b;
    if (a->flag && !b->flag) TRY(format_escape(r, b, &right));
    if (b->flag && !a->flag) TRY(format_escape(r, a, &left));
    TRY(builder_add_text(r, &all, &left));
    TRY(builder_add_text(r, &all, &right));
    TRY(builder_value(r, &all, out));
    out->flag = a->flag || b->flag;
    return STATUS_OK;
}

static bool sequence(const value *v) {
    return v->kind == VALUE_TEXT || v->kind == VALUE_LIST || v->kind == VALUE_TUPLE;
}

status run_operate(run *r, node_kind kind, const value *a, const value *b, value *out) {
    bool texts = a->kind == VALUE_TEXT;
    if (a->kind == VALUE_UNDEFINED) return value_missing(a);
    if (kind == NODE_MOD && texts) return format_percent(r, a, b, out);
    if (b->kind == VALUE_UNDEFINED) return value_missing(b);
    if (numeric(a) && numeric(b)) {
        bool reals = a->kind == VALUE_NUMBER || b->kind == VALUE_NUMBER || kind == NODE_DIV ||
                     (kind == NODE_POW && whole(b) < 0);
        return reals ? operate_real(kind, real(a), real(b), out)
                     : operate_whole(kind, whole(a), whole(b), out);
    }
    if (kind == NODE_MUL && sequence(a) && numeric(b) && b->kind != VALUE_NUMBER)
        return repeat(r, a, whole(b), out);
    if (kind == NODE_MUL && sequence(b) && numeric(a) && a->kind != VALUE_NUMBER)
        return repeat(r, b, whole(a), out);
    if (kind == NODE_ADD && a->kind == b->kind && sequence(a))
        return texts ? join_texts(r, a, b, out) : join_lists(r, a, b, out);
    static const char *const signs[] = { "+", "-", "*", "/", "//", "%", "**" };
    return status_set(STATUS_INVALID, "a %s %s a %s is nothing that there is", value_type(a),
                      signs[kind - NODE_ADD], value_type(b));
}

status run_negate(const value *v, bool negative, value *out) {
    if (v->kind == VALUE_UNDEFINED) return value_missing(v);
    if (!numeric(v)) return status_set(STATUS_INVALID, "there is no sign before a %s", value_type(v));
    if (v->kind == VALUE_NUMBER)
        *out = value_number(negative ? -v->number : v->number);
    else if (negative && whole(v) == INT64_MIN)
        return too_large();
    else
        *out = value_integer(negative ? -whole(v) : whole(v));
    return STATUS_OK;
}

/* ---- slices ---- */

static status bound(const value *v, int64_t otherwise, int64_t count, int64_t step, int64_t *out) {
    if (v->kind == VALUE_NONE) {
        *out = otherwise;
        return STATUS_OK;
    }
    if (v->kind == VALUE_UNDEFINED || v->kind == VALUE_NUMBER || !numeric(v))
        return status_set(STATUS_INVALID, "the ends of a slice are whole numbers, not a %s", value_type(v));
    int64_t n = whole(v), low = step < 0 ? -1 : 0, high = step < 0 ? count - 1 : count;
    if (n < 0) n = n < -count ? low : n + count;
    *out = n < low ? low : n > high ? high : n;
    return STATUS_OK;
}

static status slice_text(run *r, const value *of, int64_t start, int64_t step, value *out, int64_t count) {
    if (step == 1) {
        size_t begin = value_letter(of, (size_t)start), end = value_letter(of, (size_t)(start + count));
        return value_part(r, of, begin, end, out);
    }
    builder b = { 0 };
    for (int64_t i = 0; i < count; i++) {
        size_t begin = value_letter(of, (size_t)(start + i * step));
        unsigned long point;
        TRY(run_steps(r, 1 + (of->text->points == of->text->length ? 0 : begin / 256)));
        TRY(builder_add_part(r, &b, of, begin, begin + value_point(of->text->bytes + begin, &point)));
    }
    return builder_value(r, &b, out);
}

static int64_t range_at(const value_range *g, int64_t i) {
    return (int64_t)((uint64_t)g->start + (uint64_t)i * (uint64_t)g->step);
}

status run_slice(run *r, const value *of, const value parts[3], value *out) {
    int64_t length, step = 1, start = 0, stop = 0;
    if (of->kind == VALUE_UNDEFINED) return value_missing(of);
    if (!sequence(of) && of->kind != VALUE_RANGE)
        return status_set(STATUS_INVALID, "a %s has no slices", value_type(of));
    value_length(of, &length);
    if (parts[2].kind != VALUE_NONE) {
        if (!numeric(&parts[2]) || parts[2].kind == VALUE_NUMBER)
            return status_set(STATUS_INVALID, "the step of a slice is a whole number, not a %s",
                              value_type(&parts[2]));
        step = whole(&parts[2]);
        if (step == 0) return status_set(STATUS_INVALID, "the step of a slice is 0");
    }
    if (step > INT32_MAX) step = INT32_MAX;
    if (step < -INT32_MAX) step = -INT32_MAX;
    TRY(bound(&parts[0], step < 0 ? length - 1 : 0, length, step, &start));
    TRY(bound(&parts[1], step < 0 ? -1 : length, length, step, &stop));
    int64_t count = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
    if (count < 0) count = 0;
    if (of->kind == VALUE_TEXT) return slice_text(r, of, start, step, out, count);
    if (of->kind == VALUE_RANGE) {
        value_range *g;
        TRY(run_take(r, sizeof *g, &g));
        *g = (value_range){ range_at(of->range, start), range_at(of->range, stop),
                            (int64_t)((uint64_t)of->range->step * (uint64_t)step), count };
        *out = (value){ .kind = VALUE_RANGE, .range = g };
        return STATUS_OK;
    }
    TRY(value_list_new(r, of->kind, (uint32_t)count, out));
    for (int64_t i = 0; i < count; i++) out->list->items[i] = of->list->items[start + i * step];
    out->origin = of->origin;
    return STATUS_OK;
}
