#include "estimate/solve.h"

/* Doubles from 1 on while the answer is `expected`. All up to *before have it; *after is the first that was
 * asked and has not, most + 1 where there is none. */
static status gallop(int64_t most, bool expected, solve_body *body, void *context, int64_t *before,
                     int64_t *after) {
    *before = 0;
    for (int64_t at = 1; at <= most; at = at > most / 2 && at < most ? most : 2 * at) {
        bool fits;
        TRY(body(context, at, &fits));
        *after = at;
        if (fits != expected) return STATUS_OK;
        *before = at;
        if (at == most) break;
    }
    *after = most + 1;
    return STATUS_OK;
}

/* The place where the answer turns: up to *before it is `expected`. */
static status turn(int64_t most, bool expected, solve_body *body, void *context, int64_t *before) {
    int64_t after;
    TRY(gallop(most, expected, body, context, before, &after));
    while (after - *before > 1) {
        int64_t middle = *before + (after - *before) / 2;
        bool fits;
        TRY(body(context, middle, &fits));
        *(fits == expected ? before : &after) = middle;
    }
    return STATUS_OK;
}

status solve_largest(int64_t most, solve_body *body, void *context, int64_t *value) {
    return turn(most, true, body, context, value);
}

status solve_least(int64_t most, solve_body *body, void *context, int64_t *value) {
    int64_t before;
    TRY(turn(most, false, body, context, &before));
    *value = before < most ? before + 1 : 0;
    return STATUS_OK;
}
