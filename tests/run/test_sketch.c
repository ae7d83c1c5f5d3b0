/* A sketch is a lower bound of the outline, to the byte and nearly of its seconds, and mostly near; and a
 * search that sketches gives the points of one that outlines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <math.h>

#include "base/memory.h"
#include "base/threads.h"
#include "chain/sketch.h"
#include "device/device_gpu.h"
#include "run/lab.h"

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

static const device_gpu gpu = { .name = "one",
                                .capability = 90,
                                .multiprocessors = 100,
                                .threads = 2048,
                                .memory = (uint64_t)1 << 36,
                                .context = { 1 << 20, 2 << 20, 3 << 20 },
                                .f32 = 1e13,
                                .bandwidth = 1e12,
                                .link = 6.4e10 };

/* A deep model of few numbers, on the processor or on a GPU; now and then with validation, or units. */
static void draw(lab *l, uint32_t *random, int i) {
    static const char *const decoders[] = { NULL, "llama", "qwen2", "phi3" };
    static device_elsewhere at;
    lab_sizes s = { .layers = 14 + lab_random(random, 20),
                    .heads = 1 + lab_random(random, 3),
                    .context = 4 + lab_random(random, 60),
                    .vocabulary = 5 + lab_random(random, 900),
                    .batch = 1 + lab_random(random, 12),
                    .clip = lab_random(random, 2) ? 1 : 0,
                    .decoder = decoders[lab_random(random, 4)],
                    .untied = lab_random(random, 3) == 0 };
    if (lab_random(random, 3) == 0) s.context = 256;
    s.channels = s.heads * 8 * (1 + lab_random(random, 16));
    s.dropout = !s.decoder && lab_random(random, 2) ? 0.1 : 0;
    lab_open(l, &s);
    l->run.eval_samples = lab_random(random, 3) ? 0 : lab_random(random, 5);
    if (s.batch % 2 == 0 && lab_random(random, 3) == 0) l->run.unit = s.batch / 2;
    if (i % 2 == 0) {
        l->run.folder = ".";
    } else {
        must(device_elsewhere_plan(&gpu, &at));
        l->run.lower.device = &at.device;
        l->run.lower.rates = at.device.rates(&at.device, l->run.lower.threads);
    }
    l->run.lower.rates.cache_bytes = 64; /* less than a layer: these are small */
}

/* ---- bounds ---- */

typedef struct {
    int sketched, whole, exact;
} tally;

static status outline(const compose_run *r, const compose_choice *c, const compose_reach *reach,
                      compose_least *out) {
    compose_stem stem;
    compose_trunk trunk = { .stem = &stem, .most = COMPOSE_KEPT };
    status result = compose_stem_open(r, c, &stem);
    if (result == STATUS_OK) result = compose_bound(r, c, &trunk, reach, out);
    compose_trunk_close(&trunk);
    compose_stem_close(&stem);
    return result;
}

static void at_most(uint64_t sketched, uint64_t outlined, const char *what, const char *choice) {
    if (sketched > outlined)
        fail_msg("%s: %s of the sketch is %llu, of the outline %llu", choice, what,
                 (unsigned long long)sketched, (unsigned long long)outlined);
}

static void compare(const lab *l, sketcher *s, const compose_choice *c, tally *seen) {
    const compose_reach all = {
        .peak_bytes = UINT64_MAX, .budget = UINT64_MAX, .seconds = HUGE_VAL, .unwaited = true
    };
    compose_least x, y;
    char text[256];
    lab_choice_text(c, text);
    status result = outline(&l->run, c, &all, &y);
    assert_int_equal(sketch_bound(s, &l->run, c, &all, &x), result);
    if (result != STATUS_OK) return;
    at_most(x.peak_bytes, y.peak_bytes, "peak", text);
    at_most(x.away_bytes, y.away_bytes, "what is away", text);
    at_most(x.fixed_bytes, y.fixed_bytes, "what is fixed", text);
    at_most(x.held_bytes, y.held_bytes, "what is held", text);
    at_most(x.values.all, y.values.all, "values", text);
    at_most(x.values.but_gradients, y.values.but_gradients, "values but gradients", text);
    at_most(x.pieces.count, y.pieces.count, "pieces", text);
    at_most(x.pieces.slot_bytes, y.pieces.slot_bytes, "slots", text);
    at_most(x.pieces.update_bytes, y.pieces.update_bytes, "slots of updates", text);
    if (x.seconds > y.seconds * 1.002 || x.computing > y.computing * 1.002)
        fail_msg("%s: %.9g and %.9g s, outlined %.9g and %.9g", text, x.seconds, x.computing, y.seconds,
                 y.computing);
    assert_true(x.peak_bytes * 10 > y.peak_bytes * 9);
    seen->sketched += x.sketched, seen->whole += !x.sketched;
    seen->exact += x.sketched && x.peak_bytes == y.peak_bytes;
}

static void sketches_are_bounds(void **state) {
    (void)state;
    uint32_t random = 5;
    tally seen = { 0 };
    for (int i = 0; i < 16; i++) {
        lab l;
        draw(&l, &random, i);
        assert_true(sketch_possible(&l.run));
        sketcher s = { .most = COMPOSE_KEPT };
        for (int k = 0; k < 20; k++) {
            compose_choice c = lab_choose_randomly(&l, &random, PASS_LOSSY);
            compare(&l, &s, &c, &seen);
        }
        sketch_close(&s);
    }
    print_message("%d sketches, of which %d tell the peak to the byte; %d outlines\n", seen.sketched,
                  seen.exact, seen.whole);
    assert_true(seen.sketched > 100);
}

/* Layers that caches have room for are as fast as their neighbours let them be. */
static void layers_within_caches_are_outlined(void **state) {
    (void)state;
    uint32_t random = 3;
    lab l;
    draw(&l, &random, 0);
    assert_true(sketch_possible(&l.run));
    l.run.lower.rates.cache_bytes = 1 << 30;
    assert_false(sketch_possible(&l.run));
    l.run.lower.rates.cache_bytes = 64;
    l.model.alike = false;
    assert_false(sketch_possible(&l.run));
    l.model.alike = true;
    l.model.layers = 13; /* three and four are more than half of it */
    assert_false(sketch_possible(&l.run));
}

/* ---- searches ---- */

static void same(const search_front *a, const search_front *b) {
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        const search_point *x = &a->points[i], *y = &b->points[i];
        assert_int_equal(x->peak_bytes, y->peak_bytes);
        assert_true(!(x->seconds < y->seconds) && !(x->seconds > y->seconds));
        assert_true(compose_same(&x->choice, &y->choice));
    }
}

/* The same model, of which nobody says that its layers are alike, is outlined. */
static void compare_searches(lab *l, uint32_t *random, uint32_t *sketched) {
    search_request q = { .run = l->run, .allowed = PASS_REASSOCIATING };
    search_front fast, slow;
    q.run.model = &l->model;
    for (int i = 0; pass_table[i]; i++)
        q.lossy[i].given = !pass_table[i]->asked_for && !lab_random(random, 4);
    uint64_t budget = 1;
    for (int k = 0; k < 3; k++) {
        const search_wish wish = { .budget = budget };
        l->model.alike = true;
        must(search_run(&q, &wish, &fast));
        l->model.alike = false;
        must(search_run(&q, &wish, &slow));
        same(&fast, &slow);
        *sketched += fast.sketched;
        assert_int_equal(slow.sketched, 0);
        budget = search_least(&fast) + search_least(&fast) * lab_random(random, 1001) / 1000;
        search_close(&fast);
        search_close(&slow);
    }
}

static void searches_find_the_same(void **state) {
    (void)state;
    uint32_t random = 7, sketched = 0;
    for (int i = 0; i < 6; i++) {
        lab l;
        draw(&l, &random, i);
        if (l.run.batch > 4) l.run.unit = 0, l.run.batch = 4;
        compare_searches(&l, &random, &sketched);
    }
    print_message("%u sketches\n", sketched);
    assert_true(sketched > 500);
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = { cmocka_unit_test(sketches_are_bounds),
                                        cmocka_unit_test(layers_within_caches_are_outlined),
                                        cmocka_unit_test(searches_find_the_same) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
