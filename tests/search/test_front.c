/* The front is that of planning every choice, though most are only outlined; what outlining says of a choice
 * is a bound; and a search takes time in proportion to the layers of a model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/memory.h"
#include "io/published.h"
#include "search/advise.h"
#include "search/candidates.h"
#include "search/front.h"
#include "train/setup.h"

enum { MOST = 600 };

typedef struct {
    setup s;
    search_point points[MOST];
    uint32_t count;
} trial;

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

/* ---- many choices ---- */

/* All combinations of at most three settings of each pass, and none, from pass i on. */
static void combine(trial *t, int i, compose_choice *c) {
    enum { FEW = 3 };
    pass_setting offered[64];
    if (!pass_table[i]) {
        pass_class class = PASS_EXACT;
        for (int k = 0; pass_table[k]; k++)
            if (c->settings[k].text[0] && c->settings[k].class > class) class = c->settings[k].class;
        if (t->count < MOST) t->points[t->count++] = (search_point){ .choice = *c, .class = class };
        return;
    }
    uint32_t count = pass_table[i]->class == PASS_LOSSY
                         ? 0
                         : search_offers(&t->s.request.run, c, i, offered, sizeof offered / sizeof *offered);
    for (uint32_t k = 0; k < count && k < FEW; k++) {
        c->settings[i] = offered[k * (count - 1) / FEW];
        combine(t, i + 1, c);
    }
    c->settings[i] = (pass_setting){ .class = PASS_EXACT };
    combine(t, i + 1, c);
}

static trial *trial_open(void) {
    trial *t = memory_new(1, sizeof *t);
    setup_options o = setup_defaults();
    o.model = "char-small", o.batch = 4, o.context = 64, o.threads = 2;
    must(setup_open(&o, NULL, &t->s));
    for (int64_t micro = 4; micro; micro /= 4) {
        compose_choice c = { .micro_batch = micro };
        combine(t, 0, &c);
    }
    assert_in_range(t->count, 60, MOST - 1);
    return t;
}

static void trial_close(trial *t) {
    setup_close(&t->s);
    memory_free(t);
}

static search_point *copy_of(const trial *t) {
    search_point *points = memory_new(t->count, sizeof *points);
    memcpy(points, t->points, t->count * sizeof *points);
    return points;
}

/* ---- by force ---- */

static const search_point *all; /* for the sort */

static int compare(const void *a, const void *b) {
    const uint32_t *i = a, *k = b;
    const search_point *x = &all[*i], *y = &all[*k];
    if (x->peak_bytes != y->peak_bytes) return x->peak_bytes < y->peak_bytes ? -1 : 1;
    if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
    if (x->class != y->class) return x->class < y->class ? -1 : 1;
    return (*i > *k) - (*i < *k);
}

/* Which points a front of planning all of them has. */
static uint32_t front_by_force(const search_point *points, uint32_t count, uint64_t limit, uint32_t *front) {
    uint32_t order[MOST], kept = 0;
    for (uint32_t i = 0; i < count; i++) order[i] = i;
    all = points;
    qsort(order, count, sizeof *order, compare);
    for (uint32_t i = 0; i < count; i++) {
        const search_point *x = &points[order[i]];
        if (!x->peak_bytes || x->peak_bytes > limit) continue;
        if (kept && x->seconds >= points[front[kept - 1]].seconds) continue;
        front[kept++] = order[i];
    }
    return kept;
}

static void same_point(const search_point *a, const search_point *b) {
    assert_true(a->peak_bytes == b->peak_bytes && a->seconds == b->seconds);
    assert_int_equal(a->choice.micro_batch, b->choice.micro_batch);
    for (int i = 0; pass_table[i]; i++)
        assert_string_equal(a->choice.settings[i].text, b->choice.settings[i].text);
}

static void it_is_that_of_planning_all(void **state) {
    (void)state;
    trial *t = trial_open();
    search_point *planned = copy_of(t);
    uint32_t front[MOST];
    must(front_plan(&t->s.request.run, UINT64_MAX, planned, t->count));
    uint32_t count = front_by_force(planned, t->count, UINT64_MAX, front);
    assert_true(count > 4);
    uint64_t limits[] = { UINT64_MAX, planned[front[count / 2]].peak_bytes, planned[front[0]].peak_bytes,
                          planned[front[0]].peak_bytes - 1, 1 };
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
        search_point *points = copy_of(t);
        uint32_t kept = t->count, tried;
        must(front_keep(&t->s.request.run, limits[k], NULL, points, &kept, &tried));
        assert_int_equal(kept, front_by_force(planned, t->count, limits[k], front));
        for (uint32_t i = 0; i < kept; i++) same_point(&points[i], &planned[front[i]]);
        memory_free(points);
    }
    memory_free(planned);
    trial_close(t);
}

/* ---- what is wished for ---- */

static const search_point *fastest_within(const search_point *front, uint32_t count, uint64_t budget) {
    const search_point *best = NULL;
    for (uint32_t i = 0; i < count && front[i].peak_bytes <= budget; i++) best = &front[i];
    return best;
}

static bool has(const search_point *points, uint32_t count, const search_point *x) {
    for (uint32_t i = 0; i < count; i++)
        if (compose_same(&points[i].choice, &x->choice)) return true;
    return false;
}

/* Of the points that were found, are there those of the front that the wish is for, in order, and no others?
 */
static void grant(const trial *t, const search_point *front, uint32_t count, const search_wish *w) {
    search_point *points = copy_of(t);
    uint32_t kept = t->count, planned = 0, slow = 0;
    const search_point *fastest = fastest_within(front, count, w->budget);
    must(front_keep(&t->s.request.run, UINT64_MAX, w, points, &kept, &planned));
    while (slow < count && front[slow].seconds > w->seconds) slow++;
    assert_in_range(planned, kept, 3 * kept + 8);
    same_point(&points[0], &front[0]);
    if (fastest) assert_true(has(points, kept, fastest));
    if (slow < count) assert_true(has(points, kept, &front[slow]));
    for (uint32_t i = 0, at = 0; i < kept; i++, at++) {
        while (at < count && !compose_same(&points[i].choice, &front[at].choice)) at++;
        assert_true(at < count);
        same_point(&points[i], &front[at]);
        assert_true(at == 0 || at == slow || &front[at] == fastest || (!fastest && at < w->leanest));
    }
    if (!fastest) assert_true(kept >= (w->leanest < count ? w->leanest : count));
    memory_free(points);
}

static void grant_all(const trial *t) {
    search_point *front = copy_of(t);
    uint32_t count = t->count, planned;
    must(front_keep(&t->s.request.run, UINT64_MAX, NULL, front, &count, &planned));
    assert_true(count > 4);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = front[i].peak_bytes;
        double seconds = front[i].seconds;
        const search_wish wishes[] = { { .budget = bytes, .leanest = 4 },
                                       { .budget = bytes - 1, .leanest = 3 },
                                       { .budget = 1, .leanest = i + 1 },
                                       { .budget = bytes + 1, .seconds = seconds },
                                       { .seconds = seconds * 0.999 } };
        for (size_t k = 0; k < sizeof wishes / sizeof *wishes; k++) grant(t, front, count, &wishes[k]);
    }
    grant(t, front, count, &(search_wish){ 0 });
    grant(t, front, count, &(search_wish){ .budget = UINT64_MAX, .seconds = 1e300 });
    memory_free(front);
}

/* Also where the first stem is the leanest, and what it answers is not what all of them do. */
static void a_wish_is_a_part_of_it(void **state) {
    (void)state;
    trial *t = trial_open();
    grant_all(t);
    for (uint32_t i = 0; i < t->count / 2; i++) {
        search_point x = t->points[i];
        t->points[i] = t->points[t->count - 1 - i];
        t->points[t->count - 1 - i] = x;
    }
    grant_all(t);
    trial_close(t);
}

static void set(compose_choice *c, const char *name, const char *text) {
    for (int i = 0; pass_table[i]; i++)
        if (strcmp(pass_table[i]->name, name) == 0) must(pass_table[i]->parse(text, &c->settings[i]));
}

static void add(trial *t, int64_t micro, const char *weights, const char *moments, const char *recompute) {
    compose_choice c = { .micro_batch = micro };
    if (weights) set(&c, "precision", weights);
    if (moments) set(&c, "quantize_state", moments);
    if (recompute) set(&c, "recompute", recompute);
    if (micro < 4) set(&c, "accumulate", "add");
    t->points[t->count++] = (search_point){ .choice = c };
}

/* The first stem's points are all beaten by one of the second, so that the next ones, which take more than
 * they did, and were given up, are wished for after all. */
static void what_was_given_up_may_be_wished_for(void **state) {
    (void)state;
    trial *t = memory_new(1, sizeof *t);
    setup_options o = setup_defaults();
    o.model = "char-gpt", o.batch = 4, o.context = 64, o.threads = 2;
    must(setup_open(&o, NULL, &t->s));
    add(t, 1, NULL, "8bit", "block");
    add(t, 1, NULL, "8bit", "cheap");
    add(t, 4, "bf16", "8bit", "block");
    add(t, 4, NULL, NULL, "block");
    add(t, 4, NULL, NULL, "cheap");
    add(t, 4, NULL, NULL, NULL);
    search_point *front = copy_of(t);
    uint32_t count = t->count, planned;
    must(front_keep(&t->s.request.run, UINT64_MAX, NULL, front, &count, &planned));
    assert_in_range(count, 3, 5);
    for (uint32_t i = 1; i <= count; i++) grant(t, front, count, &(search_wish){ .leanest = i });
    memory_free(front);
    trial_close(t);
}

static void outlines_are_bounds(void **state) {
    (void)state;
    trial *t = trial_open();
    compose_run *r = &t->s.request.run;
    search_point *planned = copy_of(t);
    must(front_plan(r, UINT64_MAX, planned, t->count));
    for (uint32_t i = 0; i < t->count; i += 7) {
        compose_stem stem;
        compose_trunk trunk = { .stem = &stem };
        compose_least least, low;
        const compose_reach all_of_it = { UINT64_MAX, 0, 0 }, nothing = { 1, 0, 0 };
        must(compose_stem_open(r, &t->points[i].choice, &stem));
        status result = compose_bound(r, &t->points[i].choice, &trunk, &all_of_it, &least);
        assert_int_equal(result == STATUS_OK, planned[i].peak_bytes > 0);
        if (result == STATUS_OK) {
            assert_true(least.peak_bytes <= planned[i].peak_bytes);
            assert_true(least.peak_bytes * 10 > planned[i].peak_bytes * 9);
            assert_true(least.seconds == planned[i].seconds);
            must(compose_bound(r, &t->points[i].choice, &trunk, &nothing, &low));
            assert_true(low.given_up);
            assert_in_range(low.peak_bytes, 2, least.peak_bytes);
        }
        compose_trunk_close(&trunk);
        compose_stem_close(&stem);
    }
    memory_free(planned);
    trial_close(t);
}

/* ---- time ---- */

/* Seconds of processor that a search for a model of so many layers takes. */
static double seconds_of(int64_t layers, uint64_t budget) {
    setup s;
    setup_options o = setup_defaults();
    o.model = "llama-3.1-405b", o.batch = 1, o.context = 4096, o.threads = 2;
    must(setup_open(&o, NULL, &s));
    if (layers) s.config.decoder.layers = layers;
    search_front front;
    char advice[ADVISE_BYTES];
    clock_t begin = clock();
    must(search_run(&s.request, NULL, &front));
    if (budget) advise_run(&s.request, &front, budget, advice);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    search_close(&front);
    setup_close(&s);
    return seconds;
}

/* Of hundreds of candidates a handful is packed and proved, whatever the budget. */
static void few_are_planned(void **state) {
    (void)state;
    const search_wish wishes[] = { { .budget = UINT64_MAX }, { .budget = 80, .leanest = 4 } };
    setup s;
    setup_options o = setup_defaults();
    o.model = "llama-3.1-405b", o.batch = 4, o.context = 4096, o.threads = 2;
    must(setup_open(&o, NULL, &s));
    s.config.decoder.layers = 4;
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        search_front front;
        must(search_run(&s.request, &wishes[i], &front));
        assert_in_range(front.candidates, 200, CANDIDATES_MOST);
        assert_in_range(front.planned, front.count, 16);
        search_close(&front);
    }
    setup_close(&s);
}

/* Four times the layers: what were quadratic would take sixteen times as long. */
static void time_grows_with_the_layers(void **state) {
    (void)state;
    double some = seconds_of(24, 0), many = seconds_of(96, 0);
    print_message("24 layers: %.2f s, 96 layers: %.2f s\n", some, many);
    assert_true(many < 8 * some);
}

/* Some 2 s where it was written, of 150 plans and the advice. */
static void advice_for_400_billion_parameters(void **state) {
    (void)state;
    double seconds = seconds_of(0, UINT64_C(80) << 30);
    print_message("405 billion parameters that don't fit: %.2f s\n", seconds);
#ifndef __SANITIZE_ADDRESS__
    assert_true(seconds < 10);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_that_of_planning_all),
        cmocka_unit_test(a_wish_is_a_part_of_it),
        cmocka_unit_test(what_was_given_up_may_be_wished_for),
        cmocka_unit_test(outlines_are_bounds),
        cmocka_unit_test(few_are_planned),
        cmocka_unit_test(time_grows_with_the_layers),
        cmocka_unit_test(advice_for_400_billion_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
