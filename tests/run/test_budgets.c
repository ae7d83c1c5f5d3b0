/* P1, P2 and P3 over random models, batches, contexts, pins and budgets: each case runs within its budget
 * with planned and measured bytes equal, or is refused; the front is monotone; the least budget is feasible
 * and one byte less is not. Most cases draw budgets between the least and the plain one, where they must run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/threads.h"
#include "run/lab.h"

typedef struct {
    int cases, refused, between, ran, long_contexts, deep;
} tally;

static lab_sizes draw_sizes(uint32_t *random, tally *t) {
    lab_sizes s = { .layers = 1 + lab_random(random, 3),
                    .heads = 1 + lab_random(random, 2),
                    .context = 4 + lab_random(random, 60),
                    .vocabulary = 5 + lab_random(random, 120),
                    .batch = 1 + lab_random(random, 8),
                    .clip = lab_random(random, 2) ? 1 : 0,
                    .dropout = lab_random(random, 4) ? 0 : 0.1,
                    .untied = lab_random(random, 3) == 0 };
    uint32_t kind = lab_random(random, 40);
    if (kind == 0)
        s.context = 513 + lab_random(random, 40), s.batch = 1 + lab_random(random, 2), t->long_contexts++;
    if (kind == 1) s.layers = 6 + lab_random(random, 3), t->deep++;
    if (kind == 2) s.context = 256, s.batch = 4;
    s.channels = s.heads * 4 * (1 + lab_random(random, 3));
    return s;
}

static void draw_pins(search_request *q, uint32_t *random) {
    for (int i = 0; pass_table[i]; i++)
        if (lab_random(random, 6) == 0) q->pins[i].kind = SEARCH_OFF;
    if (lab_random(random, 6) == 0) q->micro_batch = 1 + lab_random(random, (uint32_t)q->run.batch);
    if (lab_random(random, 5) == 0) q->run.lower.threads = 1 + (int)lab_random(random, 4);
    if (lab_random(random, 8) == 0) q->allowed = PASS_EXACT;
    if (lab_random(random, 4) == 0) q->run.eval_samples = lab_random(random, 9);
    if (lab_random(random, 4) == 0) q->run.eval_batch = 1 + lab_random(random, 4);
}

/* Every third batch that can be halved is in units of its halves, or of single samples. */
static void draw_unit(search_request *q, int index) {
    compose_run *r = &q->run;
    if (index % 3 || r->batch % 2) return;
    r->unit = index % 2 ? 1 : r->batch / 2;
    if (q->micro_batch && (q->micro_batch > r->unit || r->unit % q->micro_batch)) q->micro_batch = r->unit;
}

static void check_front(const search_front *f, int index) {
    for (uint32_t i = 1; i < f->count; i++)
        if (f->points[i].peak_bytes <= f->points[i - 1].peak_bytes ||
            f->points[i].seconds >= f->points[i - 1].seconds)
            fail_msg("case %d: the front is not monotone at point %u", index, i);
    uint64_t least = search_least(f);
    assert_non_null(search_pick(f, least));
    assert_null(search_pick(f, least - 1));
    double last = 1e300;
    for (int k = 0; k <= 20; k++) { /* P3: more memory, never slower */
        const search_point *x =
            search_pick(f, least + (f->points[f->count - 1].peak_bytes - least) / 20 * (uint64_t)k);
        assert_non_null(x);
        assert_true(x->seconds <= last);
        last = x->seconds;
    }
}

static void run_within(const lab *l, const search_point *x, uint64_t budget, int index) {
    lab_result r;
    threads_set(l->run.lower.threads);
    lab_run(l, &x->choice, 0, 1, &r);
    threads_set(2);
    char text[256];
    lab_choice_text(&x->choice, text);
    for (int c = 0; c < CATEGORY_COUNT; c++)
        if (r.planned[c] != r.measured[c])
            fail_msg("case %d (%s): %s planned %llu, measured %llu", index, text, category_name((category)c),
                     (unsigned long long)r.planned[c], (unsigned long long)r.measured[c]);
    if (r.peak_bytes != x->peak_bytes || r.peak_bytes > budget)
        fail_msg("case %d (%s): peak %llu, promised %llu, budget %llu", index, text,
                 (unsigned long long)r.peak_bytes, (unsigned long long)x->peak_bytes,
                 (unsigned long long)budget);
    if (!(r.losses[0] > 0)) fail_msg("case %d (%s): the loss is %g", index, text, (double)r.losses[0]);
    lab_result_close(&r);
}

static void one_case(uint32_t *random, tally *t, int index) {
    lab l;
    lab_sizes sizes = draw_sizes(random, t);
    lab_open(&l, &sizes);
    search_request q = { .run = l.run, .allowed = PASS_REASSOCIATING };
    draw_pins(&q, random);
    draw_unit(&q, index);
    l.run = q.run;
    q.run.model = l.run.model = &l.model;
    search_front f;
    t->cases++;
    if (search_run(&q, NULL, &f) != STATUS_OK) {
        t->refused++; /* contradictory pins: a sentence, not a crash */
        assert_true(strlen(status_message()) > 10);
        return;
    }
    check_front(&f, index);
    uint64_t least = search_least(&f), plain = f.plain.peak_bytes;
    if (plain < least) plain = least; /* pins that cost memory */
    uint64_t budget = least + (uint64_t)((double)(plain - least) * lab_random(random, 1001) / 1000);
    bool below = lab_random(random, 5) == 0;
    if (below) budget = least - 1 - lab_random(random, 1000);
    const search_point *x = search_pick(&f, budget);
    if (below) {
        assert_null(x);
        t->refused++;
    } else {
        assert_non_null(x);
        t->between++;
        t->ran++;
        run_within(&l, x, budget, index);
    }
    search_close(&f);
}

static void random_cases(void **state) {
    (void)state;
    tally t = { 0 };
    uint32_t random = 4242;
    const char *wanted = getenv("SNUG_TEST_CASES");
    int cases = wanted ? atoi(wanted) : getenv("SNUG_TEST_LONG") ? 10000 : 2000;
    for (int i = 0; i < cases; i++) one_case(&random, &t, i);
    printf("%d cases: %d ran within budgets between least and plain, %d refused; %d with more than 512 "
           "positions, %d of 6 or "
           "more blocks\n",
           t.cases, t.ran, t.refused, t.long_contexts, t.deep);
    assert_true(t.between * 10 >= t.cases * 6);
    if (cases >= 500) assert_true(t.long_contexts > 0 && t.deep > 0);
}

/* P4 end to end: the same run at ten points of a front, each a budget, and at 1 and 2 threads. */
static void ten_budgets_one_run(void **state) {
    (void)state;
    lab l;
    lab_open(&l, &(lab_sizes){ .layers = 3,
                               .heads = 2,
                               .channels = 64,
                               .context = 64,
                               .vocabulary = 3000,
                               .batch = 16,
                               .clip = 1 });
    search_request q = { .run = l.run, .allowed = PASS_REASSOCIATING };
    q.run.model = &l.model;
    search_front f;
    assert_int_equal(search_run(&q, NULL, &f), STATUS_OK);
    lab_result first = { 0 };
    uint64_t seen = 0;
    int different = 0;
    for (int i = 0; i < 10; i++) {
        const search_point *x = search_pick(&f, f.points[(uint32_t)i * (f.count - 1) / 9].peak_bytes);
        assert_non_null(x);
        different += x->peak_bytes != seen;
        seen = x->peak_bytes;
        if (x->choice.micro_batch * l.run.context % THREADS_ROW_TILE)
            continue; /* says REASSOCIATING itself */
        threads_set(1 + i % 2);
        lab_result r;
        lab_run(&l, &x->choice, 0, 20, &r);
        if (first.weights) {
            char text[256];
            if (!lab_same(&first, &r))
                fail_msg("budget %d (%s) is another run", i, lab_choice_text(&x->choice, text));
            lab_result_close(&r);
        } else
            first = r;
    }
    threads_set(2);
    assert_true(different >= 4);
    lab_result_close(&first);
    search_close(&f);
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = { cmocka_unit_test(ten_budgets_one_run),
                                        cmocka_unit_test(random_cases) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
