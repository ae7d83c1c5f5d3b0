#include "ops/attention/attention_reference.h"

#include "ops/reference.h"
#include "ops/wide_math.h"

static double inner(const attention_view *v, const attention_place *a, int64_t at_a, const attention_place *b,
                    int64_t at_b) {
    double sum = 0;
    for (int64_t d = 0; d < v->n.size; d++)
        sum += reference_get(a->arg, at_a + d) * reference_get(b->arg, at_b + d);
    return sum;
}

/* The head whose keys and values head h reads. */
static int64_t shared_head(const attention_view *v, int64_t h) { return h / (v->n.heads / v->n.kv_heads); }

double attention_reference_score(const attention_view *v, int64_t b, int64_t h, int64_t t, int64_t s) {
    double score = v->scale * inner(v, &v->q, attention_element(v, &v->q, b * v->n.queries + t, h), &v->k,
                                    attention_element(v, &v->k, b * v->n.keys + s, shared_head(v, h)));
    double added = v->bias ? reference_get(v->bias, (h * v->n.queries + t) * v->n.keys + s) : 0;
    double cap = (double)v->cap;
    return added + (cap > 0 ? cap * tanh(score / cap) : score);
}

attention_reference_row attention_reference_softmax(const attention_view *v, int64_t b, int64_t h,
                                                    int64_t t) {
    attention_reference_row row = { -INFINITY, 0 };
    for (int64_t s = 0; s < v->n.keys; s++)
        if (attention_sight_sees(&v->sight, b, t, s))
            row.top = fmax(row.top, attention_reference_score(v, b, h, t, s));
    for (int64_t s = 0; s < v->n.keys; s++)
        if (attention_sight_sees(&v->sight, b, t, s))
            row.sum += wide_exp(attention_reference_score(v, b, h, t, s) - row.top);
    return row;
}

void attention_reference_mix(const attention_view *v, const int64_t bht[3], attention_reference_row row,
                             double *sum, const attention_place *y) {
    int64_t b = bht[0], h = bht[1], t = bht[2], size = v->n.size;
    for (int64_t d = 0; d < size; d++) sum[d] = 0;
    for (int64_t s = 0; s < v->n.keys; s++) {
        if (!attention_sight_sees(&v->sight, b, t, s)) continue;
        double weight = wide_exp(attention_reference_score(v, b, h, t, s) - row.top) / row.sum *
                        attention_view_keeps(v, b, h, t, s);
        int64_t at = attention_element(v, &v->v, b * v->n.keys + s, shared_head(v, h));
        for (int64_t d = 0; d < size; d++) sum[d] += weight * reference_get(v->v.arg, at + d);
    }
    int64_t to = attention_element(v, y, b * v->n.queries + t, h);
    for (int64_t d = 0; d < size; d++) reference_set(y->arg, to + d, sum[d]);
}

/* ---- gradient: the scratch holds H*T sums of one sample, then two rows of D ---- */

uint64_t attention_reference_scratch(const attention_sizes *n) {
    return (uint64_t)(n->heads * n->queries + 2 * n->size) * sizeof(double);
}

/* The probability before dropout, the gradient that reaches it, and the slope of the score's cap. */
typedef struct {
    double value, slope, keep, bend;
} probability;

static probability probability_of(const attention_reference_gradient *r, int64_t b, int64_t h, int64_t t,
                                  int64_t s) {
    const attention_view *v = &r->view;
    int64_t row = (b * v->n.heads + h) * v->n.queries + t;
    probability p = { .keep = attention_view_keeps(v, b, h, t, s) };
    p.value = r->probs ? reference_get(r->probs, row * v->n.keys + s)
                       : wide_exp(attention_reference_score(v, b, h, t, s) - reference_get(r->lse, row));
    p.slope = p.keep * inner(v, &r->dy, attention_element(v, &r->dy, b * v->n.queries + t, h), &v->v,
                             attention_element(v, &v->v, b * v->n.keys + s, shared_head(v, h)));
    double capped = v->cap > 0 ? attention_reference_score(v, b, h, t, s) / (double)v->cap : 0;
    p.bend = 1 - capped * capped;
    return p;
}

/* What all keys of a query have in common: the sum of probability times slope. */
static void sum_slopes(const attention_reference_gradient *r, int64_t b) {
    const attention_view *v = &r->view;
    for (int64_t h = 0; h < v->n.heads; h++)
        for (int64_t t = 0; t < v->n.queries; t++) {
            int64_t at = attention_element(v, &r->dy, b * v->n.queries + t, h);
            double sum = r->probs ? 0 : inner(v, &r->dy, at, &r->y, at);
            for (int64_t s = 0; s < v->n.keys && r->probs; s++) {
                if (!attention_sight_sees(&v->sight, b, t, s)) continue;
                probability p = probability_of(r, b, h, t, s);
                sum += p.value * p.slope;
            }
            r->scratch[h * v->n.queries + t] = sum;
        }
}

static void query_gradient(const attention_reference_gradient *r, int64_t b, int64_t h, int64_t t) {
    const attention_view *v = &r->view;
    double common = r->scratch[h * v->n.queries + t], *dq = r->scratch + v->n.heads * v->n.queries;
    for (int64_t d = 0; d < v->n.size; d++) dq[d] = 0;
    for (int64_t s = 0; s < v->n.keys; s++) {
        if (!attention_sight_sees(&v->sight, b, t, s)) continue;
        probability p = probability_of(r, b, h, t, s);
        double ds = p.value * (p.slope - common) * p.bend * v->scale;
        int64_t at = attention_element(v, &v->k, b * v->n.keys + s, shared_head(v, h));
        for (int64_t d = 0; d < v->n.size; d++) dq[d] += ds * reference_get(v->k.arg, at + d);
    }
    int64_t to = attention_element(v, &r->out.q, b * v->n.queries + t, h);
    for (int64_t d = 0; d < v->n.size; d++) reference_set(r->out.q.arg, to + d, dq[d]);
}

static void key_gradient(const attention_reference_gradient *r, int64_t b, int64_t g, int64_t s) {
    const attention_view *v = &r->view;
    int64_t group = v->n.heads / v->n.kv_heads;
    double *dk = r->scratch + v->n.heads * v->n.queries, *dv = dk + v->n.size;
    for (int64_t d = 0; d < v->n.size; d++) dk[d] = dv[d] = 0;
    for (int64_t h = g * group; h < (g + 1) * group; h++)
        for (int64_t t = 0; t < v->n.queries; t++) {
            if (!attention_sight_sees(&v->sight, b, t, s)) continue;
            probability p = probability_of(r, b, h, t, s);
            double ds = p.value * (p.slope - r->scratch[h * v->n.queries + t]) * p.bend * v->scale;
            int64_t q = attention_element(v, &v->q, b * v->n.queries + t, h);
            int64_t dy = attention_element(v, &r->dy, b * v->n.queries + t, h);
            for (int64_t d = 0; d < v->n.size; d++) {
                dk[d] += ds * reference_get(v->q.arg, q + d);
                dv[d] += p.value * p.keep * reference_get(r->dy.arg, dy + d);
            }
        }
    int64_t to_k = attention_element(v, &r->out.k, b * v->n.keys + s, g);
    int64_t to_v = attention_element(v, &r->out.v, b * v->n.keys + s, g);
    for (int64_t d = 0; d < v->n.size; d++) {
        reference_set(r->out.k.arg, to_k + d, dk[d]);
        reference_set(r->out.v.arg, to_v + d, dv[d]);
    }
}

/* Of a score of all samples. */
static void bias_gradient(const attention_reference_gradient *r, int64_t b, int64_t h, int64_t t, int64_t s) {
    const attention_view *v = &r->view;
    int64_t at = (h * v->n.queries + t) * v->n.keys + s;
    double sum = b > 0 ? reference_get(r->out.bias, at) : 0;
    if (attention_sight_sees(&v->sight, b, t, s)) {
        probability p = probability_of(r, b, h, t, s);
        sum += p.value * (p.slope - r->scratch[h * v->n.queries + t]);
    }
    reference_set(r->out.bias, at, sum);
}

void attention_reference_backward(const attention_reference_gradient *r) {
    const attention_sizes *n = &r->view.n;
    for (int64_t b = 0; b < n->batch; b++) {
        sum_slopes(r, b);
        for (int64_t h = 0; h < n->heads; h++)
            for (int64_t t = 0; t < n->queries; t++) {
                query_gradient(r, b, h, t);
                for (int64_t s = 0; s < n->keys && r->out.bias; s++) bias_gradient(r, b, h, t, s);
            }
        for (int64_t g = 0; g < n->kv_heads; g++)
            for (int64_t s = 0; s < n->keys; s++) key_gradient(r, b, g, s);
    }
}
