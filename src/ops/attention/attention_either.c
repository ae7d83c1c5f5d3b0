#include "ops/attention/attention_either.h"

#include "ops/attention/attention_pairs_gradient.h"

static bool may_pair(const attention_view *v) { return v->q.arg->dtype == DTYPE_BF16; }
static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

uint64_t attention_either_scratch(const op_call *c, const attention_forward_way *widened,
                                  const attention_pairs_way *pairs, int threads) {
    attention_view v = attention_view_of(c, 3);
    uint64_t bytes = attention_forward_scratch(c, widened, threads);
    return may_pair(&v) ? larger(bytes, attention_pairs_forward_scratch(&v, pairs, threads)) : bytes;
}

void attention_either_run(const op_call *c, const attention_forward_way *widened,
                          const attention_pairs_way *pairs) {
    attention_forward f = { .view = attention_view_of(c, 3), .kept = c->out[1].data };
    const attention_pairs_kernel *kernel = attention_pairs_chosen(&f.view);
    f.y = attention_view_rows(&f.view, &c->out[0]);
    if (kernel)
        attention_pairs_forward_run(&f, kernel, pairs, c->scratch);
    else
        attention_forward_run(c, widened);
}

uint64_t attention_either_gradient_scratch(const attention_view *v, bool probs, int threads) {
    uint64_t bytes = attention_gradient_scratch(v, probs, threads);
    return may_pair(v) ? larger(bytes, attention_pairs_gradient_scratch(v, probs, threads)) : bytes;
}

void attention_either_gradient_run(const attention_gradient *a) {
    const attention_pairs_kernel *kernel = attention_pairs_chosen(&a->view);
    if (kernel && !a->out.bias)
        attention_pairs_gradient(a, kernel);
    else
        attention_gradient_run(a);
}
