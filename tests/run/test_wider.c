/* The search looks at few of the combinations there are, and finds what planning all of them finds. So
 * whatever is allowed, unpinned or given a place for offload in addition never raises the least budget and
 * never makes the plan for a budget slower. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/threads.h"
#include "device/device_gpu.h"
#include "run/lab.h"
#include "search/points.h"
#include "search/space.h"

static int cases(int few, int many) {
    const char *wanted = getenv("SNUG_TEST_CASES");
    int all = getenv("SNUG_TEST_LONG") ? many : few;
    return wanted && atoi(wanted) < all ? atoi(wanted) : all;
}

/* ---- models and requests ---- */

static const char *const decoders[] = { NULL, NULL, "llama", "qwen2", "gemma" };

/* Some have units, and some of those are planned for two ranks. */
static void draw_units(compose_run *r) {
    static int drawn;
    if (r->batch % 2) return;
    int which = drawn++ % 4;
    if (which % 2) r->unit = r->batch / 2;
    if (which == 3) r->ranks = 2;
}

/* Ranks need their pass. */
static bool may_be_off(const search_request *q, int i) {
    return q->run.ranks < 2 || strcmp(pass_table[i]->name, "sharding") != 0;
}

/* Of a unit it is a divisor. */
static void pin_micro_batch(search_request *q, int64_t micro) {
    int64_t unit = compose_unit(&q->run);
    q->micro_batch = q->run.unit && (micro > unit || unit % micro) ? unit : micro;
}

static void draw_model(lab *l, uint32_t *random, int64_t layers) {
    lab_sizes s = { .layers = 1 + lab_random(random, 3),
                    .heads = 1 + lab_random(random, 3),
                    .context = 4 + lab_random(random, 60),
                    .vocabulary = 5 + lab_random(random, 300),
                    .batch = 1 + lab_random(random, 12),
                    .clip = lab_random(random, 2) ? 1 : 0,
                    .decoder = decoders[lab_random(random, 5)],
                    .untied = lab_random(random, 3) == 0 };
    static const int64_t contexts[] = { 64, 128, 256 };
    if (lab_random(random, 4) == 0) s.context = contexts[lab_random(random, 3)];
    if (lab_random(random, 12) == 0) s.layers = 5 + lab_random(random, 8);
    if (layers) s.layers = layers;
    s.channels = s.heads * 4 * (1 + lab_random(random, 12));
    if (s.decoder) s.dropout = 0;
    lab_open(l, &s);
    l->run.eval_samples = lab_random(random, 3) ? 0 : lab_random(random, 5);
    draw_units(&l->run);
}

static void allow(search_request *q, int i) { q->lossy[i].given = !pass_table[i]->asked_for; }

static int limits_compared;

/* ---- all of them, planned ---- */

typedef struct {
    search_point *points;
    uint32_t count;
} all_points;

static bool next_code(const space *s, space_code *c) {
    for (uint32_t k = s->step_count; k-- > 0;) {
        if (++c->at[k] < s->stems[c->stem].lists[k].count) return true;
        c->at[k] = 0;
    }
    return ++c->stem < s->stem_count;
}

static void plan_all(const search_request *q, const space *s, all_points *all) {
    space_code c = { 0 };
    *all = (all_points){ .points = memory_new(space_size(s), sizeof *all->points) };
    do
        all->points[all->count++] =
            (search_point){ .choice = space_choice(s, &c), .class = space_class(s, &c) };
    while (next_code(s, &c));
    assert_int_equal(all->count, space_size(s));
    assert_int_equal(points_plan(&q->run, UINT64_MAX, all->points, all->count), STATUS_OK);
}

/* Between equals the more exact one, then the earlier one. */
static bool better(const search_point *a, const search_point *b, bool leaner) {
    if (leaner && a->peak_bytes != b->peak_bytes) return a->peak_bytes < b->peak_bytes;
    if (a->seconds < b->seconds || a->seconds > b->seconds) return a->seconds < b->seconds;
    if (a->peak_bytes != b->peak_bytes) return a->peak_bytes < b->peak_bytes;
    return a->class < b->class;
}

static const search_point *best_of(const all_points *all, bool leaner, uint64_t budget, double below) {
    const search_point *best = NULL;
    for (uint32_t i = 0; i < all->count; i++) {
        const search_point *x = &all->points[i];
        if (!x->peak_bytes || x->peak_bytes > budget || x->seconds >= below) continue;
        if (!best || better(x, best, leaner)) best = x;
    }
    return best;
}

/* Of equals any will do: a setting that changes nothing is as good without. */
static void same(const search_point *found, const search_point *best, int index, const char *what) {
    char a[256], b[256];
    if (found->peak_bytes == best->peak_bytes && !(found->seconds < best->seconds) &&
        !(found->seconds > best->seconds) && found->class == best->class)
        return;
    fail_msg("case %d, %s: %s, %llu bytes, %.9g s; among all the best is %s, %llu bytes, %.9g s", index, what,
             lab_choice_text(&found->choice, a), (unsigned long long)found->peak_bytes, found->seconds,
             lab_choice_text(&best->choice, b), (unsigned long long)best->peak_bytes, best->seconds);
}

static void compare_fronts(const search_request *q, const all_points *all, int index) {
    search_front f;
    assert_int_equal(search_run(q, NULL, &f), STATUS_OK);
    double below = 1e300;
    for (uint32_t i = 0; i < f.count; i++) {
        const search_point *best = best_of(all, true, UINT64_MAX, below);
        assert_non_null(best);
        same(&f.points[i], best, index, "a point of the front");
        below = best->seconds;
    }
    assert_null(best_of(all, true, UINT64_MAX, below));
    search_close(&f);
}

/* Of a front within a limit, which the leanest is part of, the fastest point is found without that one as
 * well; and whether there is any. */
static void compare_only(const search_request *q, uint64_t limit, int index) {
    search_front f, fastest, any;
    search_wish wish = { .budget = limit };
    assert_int_equal(search_within(q, limit, &wish, &f), STATUS_OK);
    wish.only = SEARCH_FASTEST;
    assert_int_equal(search_within(q, limit, &wish, &fastest), STATUS_OK);
    wish.only = SEARCH_ANY;
    assert_int_equal(search_within(q, limit, &wish, &any), STATUS_OK);
    const search_point *x = search_pick(&f, limit);
    assert_int_equal(fastest.count, x != NULL);
    assert_int_equal(any.count, x != NULL);
    if (x) same(&fastest.points[0], x, index, "the fastest alone");
    if (x) assert_true(any.points[0].peak_bytes <= limit);
    search_close(&f);
    search_close(&fastest);
    search_close(&any);
}

static void compare_wishes(const search_request *q, const all_points *all, uint32_t *random, int index) {
    const search_point *leanest = best_of(all, true, UINT64_MAX, 1e300),
                       *fastest = best_of(all, false, UINT64_MAX, 1e300);
    for (int k = 0; k < 4; k++) {
        uint64_t span = fastest->peak_bytes - leanest->peak_bytes,
                 budget = leanest->peak_bytes + span * lab_random(random, 1001) / 1000;
        search_request within = *q;
        if (!compose_apart(&q->run)) within.run.memory = budget;
        if (k == 0) budget = leanest->peak_bytes - 1;
        search_front f;
        assert_int_equal(search_run(&within, &(search_wish){ .budget = budget }, &f), STATUS_OK);
        same(&f.points[0], leanest, index, "the leanest");
        const search_point *x = search_pick(&f, budget), *best = best_of(all, false, budget, 1e300);
        assert_int_equal(x != NULL, best != NULL);
        if (x) same(x, best, index, "the fastest within a budget");
        search_close(&f);
        compare_only(&within, budget, index);
    }
}

/* Pins leave some hundred combinations, of whichever techniques. */
static void pin_some(search_request *q, uint32_t *random, space *s) {
    enum { MOST = 700 };
    for (int tries = 0; tries < 400; tries++) {
        if (space_open(q, s) == STATUS_OK && space_size(s) <= MOST) return;
        space_close(s);
        if (tries > 100) q->micro_batch = compose_unit(&q->run);
        int i = 0, passes = 0;
        while (pass_table[passes]) passes++;
        i = (int)lab_random(random, (uint32_t)passes);
        if (lab_random(random, 6) == 0 && !q->micro_batch)
            pin_micro_batch(q, 1 + lab_random(random, (uint32_t)q->run.batch));
        else if ((tries > 60 || strcmp(pass_table[i]->name, "recompute") != 0) && may_be_off(q, i))
            q->pins[i].kind = SEARCH_OFF;
    }
    fail_msg("pins leave too many combinations");
}

/* The same where no more may be away than a limit, which some combinations keep. */
static void compare_limited(const search_request *q, all_points *all, uint32_t *random, int index) {
    search_request limited = *q;
    uint64_t most = 0, least = UINT64_MAX; /* 0 but for a GPU, whose host holds something in any case */
    for (uint32_t i = 0; i < all->count; i++) {
        const search_point *x = &all->points[i];
        if (x->peak_bytes && x->away_bytes > most) most = x->away_bytes;
        if (x->peak_bytes && x->away_bytes < least) least = x->away_bytes;
    }
    limited.run.away_limit = least + (most - least) * lab_random(random, 1001) / 1000;
    if (!limited.run.away_limit) return;
    for (uint32_t i = 0; i < all->count; i++)
        if (all->points[i].away_bytes > limited.run.away_limit) all->points[i].peak_bytes = 0;
    compare_fronts(&limited, all, index);
    compare_wishes(&limited, all, random, index);
    limits_compared++;
}

/* On a GPU, with whatever calls and copies take there: what is away makes many more combinations. */
static void on_a_gpu(search_request *q, uint32_t *random) {
    static device_elsewhere at;
    device_gpu g = { .name = "drawn",
                     .title = "drawn",
                     .capability = 80,
                     .multiprocessors = (int)(1 + lab_random(random, 132)),
                     .threads = 1536,
                     .memory = (uint64_t)1 << 36,
                     .context = { 1 << 20, 2 << 20, 3 << 20 },
                     .f32 = 1e10 * (1 + lab_random(random, 6000)),
                     .bandwidth = 1e9 * (1 + lab_random(random, 3000)),
                     .link = 1e8 * (1 + lab_random(random, 600)),
                     .call_seconds = 1e-7 * (1 + lab_random(random, 100)) };
    assert_int_equal(device_elsewhere_plan(&g, &at), STATUS_OK);
    q->run.folder = NULL;
    q->run.lower.device = &at.device;
    q->run.lower.rates = at.device.rates(&at.device, q->run.lower.threads);
}

/* deep: so many layers that most candidates are sketched (chain/sketch.h). */
static void compare_with_planning_all(uint32_t random, int count, bool deep) {
    uint64_t planned = 0;
    for (int i = 0; i < count; i++) {
        lab l;
        draw_model(&l, &random, deep ? 14 + lab_random(&random, 14) : 0);
        search_request q = { .run = l.run,
                             .allowed = lab_random(&random, 8) ? PASS_REASSOCIATING : PASS_EXACT };
        q.run.model = &l.model;
        if (lab_random(&random, 2)) q.run.folder = ".";
        if (i % 3 == 2) q.run.ranks = 0, on_a_gpu(&q, &random); /* where several ranks don't train yet */
        if (deep) q.run.lower.rates.cache_bytes = 64;           /* less than a layer */
        for (int k = 0; pass_table[k]; k++)
            if (q.allowed != PASS_EXACT && lab_random(&random, 2)) allow(&q, k);
        space s;
        pin_some(&q, &random, &s);
        all_points all;
        plan_all(&q, &s, &all);
        if (best_of(&all, true, UINT64_MAX, 1e300)) {
            compare_fronts(&q, &all, i);
            compare_wishes(&q, &all, &random, i);
            compare_limited(&q, &all, &random, i);
        }
        planned += all.count;
        memory_free(all.points);
        space_close(&s);
    }
    printf("%llu combinations were planned, %d times with a limit on what is away\n",
           (unsigned long long)planned, limits_compared);
    assert_true(limits_compared > 0);
}

static void it_finds_what_planning_all_finds(void **state) {
    (void)state;
    compare_with_planning_all(77, cases(24, 400), false);
}

static void of_deep_models_as_well(void **state) {
    (void)state;
    compare_with_planning_all(79, cases(6, 400), true);
}

/* ---- wider and wider ---- */

static void widen(search_request *q, uint32_t *random) {
    int i = 0, passes = 0;
    while (pass_table[passes]) passes++;
    switch (lab_random(random, 4)) {
    case 0: q->run.folder = "."; return;
    case 1: q->allowed = PASS_REASSOCIATING; return;
    case 2:
        i = (int)lab_random(random, (uint32_t)passes);
        q->pins[i].kind = SEARCH_AUTO;
        if (q->allowed != PASS_EXACT) allow(q, i);
        return;
    default:
        q->allowed = PASS_REASSOCIATING;
        for (i = 0; i < passes; i++) allow(q, i);
    }
}

static const search_point *fastest(search_request *q, uint64_t budget, search_front *f) {
    q->run.memory = budget;
    assert_int_equal(search_run(q, &(search_wish){ .budget = budget }, f), STATUS_OK);
    return search_pick(f, budget);
}

static void wider_is_never_worse(void **state) {
    (void)state;
    uint32_t random = 99;
    for (int i = 0; i < cases(40, 600); i++) {
        lab l;
        draw_model(&l, &random, 0);
        search_request narrow = { .run = l.run, .allowed = PASS_EXACT };
        narrow.run.model = &l.model;
        for (int k = 0; pass_table[k]; k++)
            if (lab_random(&random, 6) == 0 && may_be_off(&narrow, k)) narrow.pins[k].kind = SEARCH_OFF;
        search_front f, g;
        assert_int_equal(search_run(&narrow, &(search_wish){ .budget = UINT64_MAX }, &f), STATUS_OK);
        uint64_t least = search_least(&f);
        search_close(&f);
        for (int step = 0; step < 4; step++) {
            search_request wide = narrow;
            widen(&wide, &random);
            uint64_t budget = least + least * lab_random(&random, 1001) / 1000;
            const search_point *x = fastest(&narrow, budget, &f), *y = fastest(&wide, budget, &g);
            assert_non_null(x);
            assert_non_null(y);
            char a[256], b[256];
            if (search_least(&g) > search_least(&f))
                fail_msg("case %d: the least budget rises from %llu, %s, to %llu, %s", i,
                         (unsigned long long)search_least(&f), lab_choice_text(&f.points[0].choice, a),
                         (unsigned long long)search_least(&g), lab_choice_text(&g.points[0].choice, b));
            if (y->seconds > x->seconds)
                fail_msg("case %d: within %llu, %s takes %.9g s; with more allowed, %s takes %.9g s", i,
                         (unsigned long long)budget, lab_choice_text(&x->choice, a), x->seconds,
                         lab_choice_text(&y->choice, b), y->seconds);
            least = search_least(&g);
            search_close(&f);
            search_close(&g);
            narrow = wide;
        }
    }
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = { cmocka_unit_test(it_finds_what_planning_all_finds),
                                        cmocka_unit_test(of_deep_models_as_well),
                                        cmocka_unit_test(wider_is_never_worse) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
