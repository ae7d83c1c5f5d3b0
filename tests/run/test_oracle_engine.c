/* The engine against the hand-written training step, which shares no code with it: random small models, tied
 * or not, with labels that don't count, whole batches and micro-batches with a remainder, under random
 * techniques. Losses, the validation loss, the norm and all weights after three steps of AdamW. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/threads.h"
#include "golden/golden.h"
#include "oracle/oracle.h"
#include "run/lab.h"

enum { STEPS = 3, EVALUATED = 3, EVALUATION = 1000 /* the lab's step number of validation data */ };

static int vocabulary;

static void weight(const char *name, const shape *s, float *w) {
    for (int64_t i = 0, n = shape_elements(s); i < n; i++) w[i] = golden_weight(name, (int)s->rank, i);
}

static int32_t token(int step, int64_t sample, int64_t time) {
    return golden_token(step, (int)sample, (int)time, vocabulary);
}

/* About one label in six does not count. */
static int32_t label(int step, int64_t sample, int64_t time) {
    bool ignored = (golden_token(step + 77, (int)sample, (int)time, 1 << 10) & 63) < 11;
    return ignored && time ? -100 : token(step, sample, time + 1);
}

/* ---- the oracle's side ---- */

typedef struct {
    oracle *oracle;
    double losses[STEPS], evaluation, norm;
} truth;

/* The loss is the mean over these labels. */
static oracle_batch make_batch(const lab *l, int step, int64_t samples) {
    int64_t counted = 0;
    int64_t time = l->run.context;
    int32_t *tokens = test_calloc((size_t)(samples * time), sizeof *tokens);
    int32_t *labels = test_calloc((size_t)(samples * time), sizeof *labels);
    for (int64_t b = 0; b < samples; b++)
        for (int64_t t = 0; t < time; t++) {
            tokens[b * time + t] = lab_token(l, step, b, t);
            labels[b * time + t] = lab_label(l, step, b, t);
            counted += labels[b * time + t] >= 0;
        }
    return (oracle_batch){ (int)samples, (int)time, tokens, labels, 1.0 / (double)counted };
}

static void close_batch(oracle_batch *b) {
    test_free((void *)b->tokens);
    test_free((void *)b->labels);
}

static void fill_weights(oracle *o) {
    for (int i = 0; i < oracle_count(o); i++) {
        oracle_tensor *t = oracle_tensor_at(o, i);
        for (int64_t k = 0; k < t->count; k++) t->value[k] = (double)golden_weight(t->name, t->rank, k);
    }
}

static truth work_out(const lab *l) {
    const gpt2_config *c = &l->config;
    const optimizer_options *o = &l->run.optimizer;
    oracle_config sizes = { .layers = (int)c->layers,
                            .heads = (int)c->heads,
                            .channels = (int)c->channels,
                            .context = (int)c->context,
                            .vocabulary = (int)c->vocabulary,
                            .tied = c->tied,
                            .batch = (int)(l->run.batch > EVALUATED ? l->run.batch : EVALUATED) };
    truth t = { .oracle = oracle_open(&sizes) };
    oracle_adamw a = { (double)l->rate, o->beta1, o->beta2, o->eps, o->weight_decay };
    fill_weights(t.oracle);
    for (int step = 0; step < STEPS; step++) {
        oracle_batch b = make_batch(l, step, l->run.batch);
        oracle_zero(t.oracle);
        t.losses[step] = oracle_accumulate(t.oracle, &b);
        t.norm = o->clip > 0 ? oracle_clip(t.oracle, o->clip) : 0;
        oracle_update(t.oracle, &a);
        close_batch(&b);
    }
    oracle_batch b = make_batch(l, EVALUATION, EVALUATED);
    t.evaluation = oracle_loss(t.oracle, &b);
    close_batch(&b);
    return t;
}

/* ---- comparing ---- */

static void close_to(double mine, double right, double tolerance, const char *what, const char *choice) {
    if (!(fabs(mine - right) <= tolerance))
        fail_msg("%s: %s is %.9g, by hand %.9g", choice, what, mine, right);
}

/* The result holds the weights in the order of the plan. */
static void same_weights(const lab *l, const compose_choice *c, const lab_result *r, const truth *t,
                         const char *choice) {
    plan p;
    assert_int_equal(compose_plan(&l->run, c, &p), STATUS_OK);
    const float *w = r->weights;
    int compared = 0;
    for (uint32_t i = 0; i < p.persistent_count; i++) {
        if (p.persistent[i].category != CATEGORY_WEIGHTS) continue;
        const oracle_tensor *right = oracle_find(t->oracle, p.persistent[i].name);
        assert_non_null(right);
        assert_true(right->count == shape_elements(&p.persistent[i].shape));
        for (int64_t k = 0; k < right->count; k++)
            close_to((double)*w++, right->value[k], 1e-5, right->name, choice);
        compared++;
    }
    assert_int_equal(compared, oracle_count(t->oracle));
    plan_close(&p);
}

static void compare(const lab *l, const compose_choice *c, int index) {
    char choice[256], what[320];
    lab_result r;
    truth t = work_out(l);
    lab_run(l, c, EXEC_POISON, STEPS, &r);
    snprintf(what, sizeof what, "case %d, %s", index, lab_choice_text(c, choice));
    for (int step = 0; step < STEPS; step++)
        close_to((double)r.losses[step], t.losses[step], 1e-5 * t.losses[step], "a loss", what);
    close_to((double)r.evaluation, t.evaluation, 1e-5 * t.evaluation, "the validation loss", what);
    close_to((double)r.norm, t.norm, 1e-5 * t.norm, "the norm", what);
    assert_true(t.losses[0] != t.losses[STEPS - 1]);
    same_weights(l, c, &r, &t, what);
    lab_result_close(&r);
    oracle_close(t.oracle);
}

/* ---- cases ---- */

static void open_lab(lab *l, uint32_t *random, bool tiles) {
    lab_sizes s = { .layers = 1 + lab_random(random, 3),
                    .heads = 1 + lab_random(random, 3),
                    .context = tiles ? 64 : 2 + lab_random(random, 30),
                    .vocabulary = 5 + lab_random(random, 60),
                    .batch = tiles ? 8 : 1 + lab_random(random, 7),
                    .untied = lab_random(random, 2),
                    .clip = lab_random(random, 2) ? 0.3 : 0 };
    s.channels = s.heads * 4 * (1 + lab_random(random, 2));
    lab_open(l, &s);
    vocabulary = (int)s.vocabulary;
    l->weight = weight, l->token = token;
    if (lab_random(random, 2)) l->label = label;
    /* gradients that are zero but for rounding (of the keys' biases) stay without effect */
    l->run.optimizer.eps = 1e-3;
}

/* EXACT techniques on whole batches and on micro-batches of whole row tiles. */
static void exact_techniques(void **state) {
    (void)state;
    uint32_t random = 11;
    int cases = getenv("SNUG_TEST_LONG") ? 400 : 30, cut = 0;
    for (int i = 0; i < cases; i++) {
        lab l;
        open_lab(&l, &random, i % 3 == 0);
        compose_choice c = lab_choose_randomly(&l, &random, PASS_EXACT);
        cut += c.micro_batch < l.run.batch;
        compare(&l, &c, i);
    }
    assert_true(cut > 0);
}

/* Any micro-batch: the last one is what is left over. */
static void remainders(void **state) {
    (void)state;
    uint32_t random = 12;
    int cases = getenv("SNUG_TEST_LONG") ? 400 : 30, rest = 0;
    for (int i = 0; i < cases; i++) {
        lab l;
        open_lab(&l, &random, false);
        int64_t micro = 1 + lab_random(&random, (uint32_t)l.run.batch);
        static const char *const settings[] = { "", "attention=flash", "attention=flash recompute=block",
                                                "chunk_loss=7 fuse=on gelu_epilogue=on", "recompute=cheap" };
        char chosen[128];
        snprintf(chosen, sizeof chosen, "%s%s", settings[lab_random(&random, 5)],
                 micro < l.run.batch ? " accumulate=add" : "");
        compose_choice c = lab_choose(&l, micro, chosen);
        rest += l.run.batch % micro != 0;
        compare(&l, &c, i);
    }
    assert_true(rest > 0);
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = { cmocka_unit_test(exact_techniques), cmocka_unit_test(remainders) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
