#include "infer/pooling.h"

#include <math.h>
#include <string.h>

const char *pooling_name(pooling_kind k) {
    static const char *const names[] = { [POOLING_LAST] = "last token",
                                         [POOLING_FIRST] = "first token",
                                         [POOLING_MEAN] = "mean",
                                         [POOLING_WEIGHTED] = "weighted mean" };
    return names[k];
}

void pooling_begin(pooled *p, const pooling *how, int64_t kept, double *numbers) {
    *p = (pooled){ .how = how, .kept = kept ? kept : how->width, .numbers = numbers };
    memset(numbers, 0, (size_t)how->width * sizeof *numbers);
}

/* What the row counts; 0: nothing. */
static double weight_of(const pooled *p, const pooled_part *x) {
    switch (p->how->kind) {
    case POOLING_LAST: return x->position + 1 == x->count ? 1 : 0;
    case POOLING_FIRST: return x->position ? 0 : 1;
    case POOLING_MEAN: return 1;
    case POOLING_WEIGHTED: break;
    }
    return (double)(x->position + 1);
}

void pooling_add(pooled *p, const pooled_part *x) {
    double weight = weight_of(p, x);
    for (int64_t i = 0; weight > 0 && i < x->n; i++)
        p->numbers[x->from + i] += weight * (double)x->numbers[i];
}

/* What the rows counted together. */
static double weights_of(const pooled *p, int64_t count) {
    if (p->how->kind == POOLING_MEAN) return (double)count;
    return p->how->kind == POOLING_WEIGHTED ? (double)count * (double)(count + 1) / 2 : 1;
}

status pooling_end(pooled *p, int64_t count) {
    double all = weights_of(p, count), squares = 0, beyond = 0; /* of the numbers that are not told */
    for (int64_t i = 0; i < p->how->width; i++) {
        double x = p->numbers[i] /= all;
        *(i < p->kept ? &squares : &beyond) += x * x;
    }
    if (!isfinite(squares + beyond))
        return status_set(STATUS_FAILED, "a hidden state of the text is not finite: the weights are damaged");
    double length = p->how->normalizes && squares > 0 ? sqrt(squares) : 1;
    for (int64_t i = 0; i < p->kept; i++) p->numbers[i] /= length;
    return STATUS_OK;
}
