#include "admit/shell_sum.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Two stacks, so that no depth of brackets is a depth of calls. */
enum { DEPTH = 64 };
typedef struct {
    int64_t values[DEPTH];
    char signs[DEPTH];
    uint32_t value_count, sign_count;
    bool unsure; /* a variable's value is not surely what the script says */
} stacks;

static int strength(char sign) { return sign == '(' ? 0 : sign == '+' || sign == '-' ? 1 : 2; }

static bool apply(stacks *t) {
    if (t->value_count < 2 || !t->sign_count) return false;
    int64_t b = t->values[--t->value_count], a = t->values[t->value_count - 1],
            *out = &t->values[t->value_count - 1];
    switch (t->signs[--t->sign_count]) {
    case '+': return !__builtin_add_overflow(a, b, out);
    case '-': return !__builtin_sub_overflow(a, b, out);
    case '*': return !__builtin_mul_overflow(a, b, out);
    default: break;
    }
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    *out = t->signs[t->sign_count] == '/' ? a / b : a % b;
    return true;
}

static bool push_number(const shell *s, const char **at, stacks *t) {
    char name[64] = "", *end = NULL;
    const char *from = *at + (**at == '$');
    size_t n = strspn(from, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (!n || n >= sizeof name || t->value_count == DEPTH) return false;
    memcpy(name, from, n);
    *at = from + n;
    const char *digits = name;
    if (name[0] < '0' || name[0] > '9') {
        const shell_variable *v = shell_find(s, name);
        if (!v || !*v->value) return false;
        digits = v->value;
        t->unsure |= v->unsure;
    }
    errno = 0;
    long long value = strtoll(digits, &end, 10);
    if (errno || *end) return false;
    t->values[t->value_count++] = value;
    return true;
}

static bool push_sign(char sign, stacks *t) {
    while (sign != '(' && t->sign_count && strength(t->signs[t->sign_count - 1]) >= strength(sign))
        if (!apply(t)) return false;
    if (t->sign_count == DEPTH) return false;
    t->signs[t->sign_count++] = sign;
    return true;
}

static bool close_bracket(stacks *t) {
    while (t->sign_count && t->signs[t->sign_count - 1] != '(')
        if (!apply(t)) return false;
    if (!t->sign_count) return false;
    t->sign_count--;
    return true;
}

bool shell_sum(const shell *s, const char *written, int64_t *value, bool *unsure) {
    stacks t = { .value_count = 0 };
    bool wants_number = true;
    for (const char *at = written; *at;) {
        if (strchr(" \t\n", *at)) {
            at++;
        } else if (wants_number && *at != '(') {
            if (!push_number(s, &at, &t)) return false;
            wants_number = false;
        } else if (*at == ')') {
            if (wants_number || !close_bracket(&t)) return false;
            at++;
        } else if (strchr(wants_number ? "(" : "+-*/%", *at)) {
            if (!push_sign(*at, &t)) return false;
            wants_number = true;
            at++;
        } else {
            return false;
        }
    }
    while (t.sign_count) {
        if (t.signs[t.sign_count - 1] == '(' || !apply(&t)) return false;
    }
    *value = t.values[0], *unsure = t.unsure;
    return t.value_count == 1;
}
