/* The oracle itself: its gradients against finite differences, its whole training against PyTorch. */
#include "oracle/oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden/golden.h"

/* (cmocka's own comparison works in single precision) */
static void same(double a, double b, double tolerance) {
    if (!(fabs(a - b) <= tolerance)) fail_msg("%.12g is not %.12g within %g", a, b, tolerance);
}

static void fill(oracle *o) {
    for (int i = 0; i < oracle_count(o); i++) {
        oracle_tensor *t = oracle_tensor_at(o, i);
        for (int64_t j = 0; j < t->count; j++) t->value[j] = (double)golden_weight(t->name, t->rank, j);
    }
}

enum { MOST_TOKENS = 256 };

typedef struct {
    int32_t tokens[MOST_TOKENS], labels[MOST_TOKENS];
} texts;

static oracle_batch make_batch(texts *x, const oracle_config *c, int step) {
    int n = c->batch * c->context;
    assert_true(n <= MOST_TOKENS);
    for (int i = 0; i < n; i++) {
        x->tokens[i] = golden_token(step, i / c->context, i % c->context, c->vocabulary);
        x->labels[i] = golden_token(step, i / c->context, i % c->context + 1, c->vocabulary);
    }
    return (oracle_batch){ c->batch, c->context, x->tokens, x->labels, 1.0 / n };
}

static void check_slopes(bool tied) {
    oracle_config c = {
        .layers = 2, .heads = 2, .channels = 6, .context = 5, .vocabulary = 7, .batch = 2, .tied = tied
    };
    oracle *o = oracle_open(&c);
    texts x;
    oracle_batch b = make_batch(&x, &c, 0);
    x.labels[3] = -100, b.scale = 1.0 / 9;
    fill(o);
    oracle_zero(o);
    double loss = oracle_accumulate(o, &b);
    same(loss, oracle_loss(o, &b), 1e-14);
    for (int i = 0; i < oracle_count(o); i++) {
        oracle_tensor *t = oracle_tensor_at(o, i);
        for (int64_t j = 0; j < t->count; j++) {
            double kept = t->value[j], step = 1e-5;
            t->value[j] = kept + step;
            double above = oracle_loss(o, &b);
            t->value[j] = kept - step;
            double below = oracle_loss(o, &b), slope = (above - below) / (2 * step);
            t->value[j] = kept;
            if (fabs(slope - t->gradient[j]) > 1e-8)
                fail_msg("%s[%ld]: gradient %.12g, finite difference %.12g", t->name, j, t->gradient[j],
                         slope);
        }
    }
    oracle_close(o);
}

static void slopes_tied(void **state) { (void)state, check_slopes(true); }
static void slopes_untied(void **state) { (void)state, check_slopes(false); }

/* One batch, sample by sample, gives the gradient of the batch. */
static void micro_batches_add_up(void **state) {
    (void)state;
    oracle_config c = {
        .layers = 1, .heads = 3, .channels = 6, .context = 4, .vocabulary = 9, .batch = 3, .tied = true
    };
    oracle *whole = oracle_open(&c), *parts = oracle_open(&c);
    texts x;
    oracle_batch b = make_batch(&x, &c, 1);
    fill(whole), fill(parts);
    double loss = oracle_accumulate(whole, &b), sum = 0;
    for (int s = 0; s < c.batch; s++)
        sum += oracle_accumulate(parts, &(oracle_batch){ 1, c.context, x.tokens + s * c.context,
                                                         x.labels + s * c.context, b.scale });
    same(loss, sum, 1e-14);
    for (int i = 0; i < oracle_count(whole); i++) {
        oracle_tensor *t = oracle_tensor_at(whole, i), *u = oracle_find(parts, t->name);
        for (int64_t j = 0; j < t->count; j++) same(t->gradient[j], u->gradient[j], 1e-14);
    }
    oracle_close(whole), oracle_close(parts);
}

static void same_gradients(oracle *o, const golden *g) {
    assert_int_equal(oracle_count(o), g->gradient_count);
    for (int i = 0; i < oracle_count(o); i++) {
        oracle_tensor *t = oracle_tensor_at(o, i);
        const golden_tensor *right = golden_gradient(g, t->name);
        assert_non_null(right);
        assert_int_equal(t->rank, right->rank);
        for (int d = 0; d < t->rank; d++) assert_int_equal(t->dim[d], right->dim[d]);
        for (int64_t j = 0; j < t->count; j++)
            if (fabs(t->gradient[j] - right->value[j]) > 1e-10 + 1e-8 * fabs(right->value[j]))
                fail_msg("%s[%ld]: gradient %.12g, PyTorch %.12g", t->name, j, t->gradient[j],
                         right->value[j]);
    }
}

static oracle_config golden_sizes(const golden *g) {
    return (oracle_config){ .layers = (int)golden_number(g, "layers"),
                            .heads = (int)golden_number(g, "heads"),
                            .channels = (int)golden_number(g, "channels"),
                            .context = (int)golden_number(g, "context"),
                            .vocabulary = (int)golden_number(g, "vocabulary"),
                            .batch = (int)golden_number(g, "batch"),
                            .tied = golden_number(g, "tied") != 0 };
}

static void train_as_torch(const char *name) {
    golden g;
    assert_true(golden_open(&g, name));
    oracle_config c = golden_sizes(&g);
    oracle_adamw a = { .rate = golden_number(&g, "rate"),
                       .beta1 = golden_number(&g, "beta1"),
                       .beta2 = golden_number(&g, "beta2"),
                       .epsilon = golden_number(&g, "epsilon"),
                       .decay = golden_number(&g, "decay") };
    assert_int_equal(g.loss_count, (int)golden_number(&g, "steps"));
    assert_int_equal(g.norm_count, g.loss_count);
    oracle *o = oracle_open(&c);
    fill(o);
    for (int step = 0; step < g.loss_count; step++) {
        texts x;
        oracle_batch b = make_batch(&x, &c, step);
        oracle_zero(o);
        same(oracle_accumulate(o, &b), g.loss[step], 1e-7);
        if (step == 0) same_gradients(o, &g);
        same(oracle_clip(o, golden_number(&g, "clip")), g.norm[step], 1e-7);
        oracle_update(o, &a);
    }
    oracle_close(o);
    golden_close(&g);
}

static void torch_tied(void **state) { (void)state, train_as_torch("gpt2-tied"); }
static void torch_untied(void **state) { (void)state, train_as_torch("gpt2-untied"); }

static void absent_golden(void **state) {
    (void)state;
    golden g;
    assert_false(golden_open(&g, "no-such-model"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes_tied),          cmocka_unit_test(slopes_untied),
        cmocka_unit_test(micro_batches_add_up), cmocka_unit_test(torch_tied),
        cmocka_unit_test(torch_untied),         cmocka_unit_test(absent_golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
