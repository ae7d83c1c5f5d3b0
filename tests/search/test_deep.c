/* Planning a deep model that does not fit a GPU: few graphs of all its layers are made, and what is known of
 * a candidate before that is near enough for it. Layers are as large as those of Llama 3.1 405B, so that
 * rates, caches and pieces are those of a real run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "chain/compose_graphs.h"
#include "chain/known.h"
#include "chain/sketch.h"
#include "device/device_gpu.h"
#include "run/setup.h"

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

static const device_gpu h200 = { .name = "h200",
                                 .title = "H200",
                                 .capability = 90,
                                 .multiprocessors = 132,
                                 .threads = 2048,
                                 .memory = UINT64_C(139) << 30,
                                 .context = { 480 << 20, 527 << 20, 600 << 20 },
                                 .f32 = 6.7e13,
                                 .bandwidth = 4.8e12,
                                 .link = 6.4e10 };

/* Of 8,192 tokens a sample. `layers`: 0, all 126. The device must outlive the setup. */
static void open_deep(device_elsewhere *at, int64_t layers, int64_t batch, setup *s) {
    setup_options o = setup_defaults();
    must(device_elsewhere_plan(&h200, at));
    o.model = "llama-3.1-405b", o.batch = batch, o.context = 8192, o.threads = 2, o.on = &at->device;
    o.memory = h200.memory, o.rates = RATES_BUILT_IN;
    must(setup_open(&o, NULL, s));
    if (layers) s->config.decoder.layers = s->model.layers = layers;
}

/* Whole graphs are what takes time: there were 44 outlines, and 2,168 sketches, before sketches were enough
 * to bound others. */
static void few_are_outlined(void **state) {
    (void)state;
    device_elsewhere at;
    setup s;
    search_front front;
    open_deep(&at, 0, 64, &s);
    must(search_run(&s.request, &(search_wish){ .budget = h200.memory }, &front));
    print_message("%u sketches, %u outlines and %u plans of %llu\n", front.sketched, front.outlined,
                  front.planned, (unsigned long long)front.candidates);
    assert_true(search_least(&front) > h200.memory);
    assert_true(front.outlined <= 2 && front.planned <= 1 && front.sketched <= 2200);
    search_close(&front);
    setup_close(&s);
}

/* ---- one candidate ---- */

/* With the setting of each pass that is named, as "offload=optimizer+gradients recompute=cheap". */
static compose_choice choice_of(const setup *s, const char *settings) {
    compose_choice c = { .micro_batch = compose_unit(&s->request.run) };
    char list[256];
    snprintf(list, sizeof list, "%s", settings);
    for (char *save, *item = strtok_r(list, " ", &save); item; item = strtok_r(NULL, " ", &save)) {
        char *value = strchr(item, '=');
        assert_non_null(value);
        *value++ = 0;
        for (int i = 0; pass_table[i]; i++)
            if (strcmp(pass_table[i]->name, item) == 0) must(pass_table[i]->parse(value, &c.settings[i]));
    }
    return c;
}

static compose_least outline_of(const setup *s, const compose_choice *c, bool unwaited) {
    const compose_reach all = {
        .peak_bytes = UINT64_MAX, .budget = UINT64_MAX, .seconds = HUGE_VAL, .unwaited = unwaited
    };
    compose_stem stem;
    compose_trunk trunk = { .stem = &stem, .most = COMPOSE_KEPT };
    compose_least found;
    must(compose_stem_open(&s->request.run, c, &stem));
    must(compose_bound(&s->request.run, c, &trunk, &all, &found));
    compose_trunk_close(&trunk);
    compose_stem_close(&stem);
    return found;
}

static const char *const AWAY[] = { "offload=optimizer", "offload=optimizer+gradients",
                                    "recompute=cheap offload=optimizer+gradients+activations" };

/* Computing alone is far below what such a run takes; with what each call waits for it is within 2 %. */
static void waiting_is_bounded(void **state) {
    (void)state;
    device_elsewhere at;
    setup s;
    open_deep(&at, 14, 1, &s);
    s.request.run.context = 512; /* few tokens, so that weights take as long to move as products do */
    for (size_t i = 0; i < sizeof AWAY / sizeof *AWAY; i++) {
        const compose_choice c = choice_of(&s, AWAY[i]);
        compose_least bound = outline_of(&s, &c, true), whole = outline_of(&s, &c, false);
        print_message("%s: computing %.2f s, bound %.2f s, whole %.2f s\n", AWAY[i], whole.computing,
                      bound.seconds, whole.seconds);
        assert_true(whole.computing < 0.9 * whole.seconds);
        assert_true(bound.seconds <= whole.seconds * (1 + 1e-9));
        assert_true(bound.seconds > 0.98 * whole.seconds);
    }
    setup_close(&s);
}

static bool near(double sketched, double outlined, double less, double more) {
    return sketched <= outlined * (1 + more) && sketched >= outlined * (1 - less);
}

/* What stem_bound takes away of a sketch is raised by one part in 2,048 of bytes and in 1,000 of seconds; and
 * seconds of a sketch are a bound where they are lowered by one in 2,000 (candidates_seconds). */
static void sketches_tell_what_persists(void **state) {
    (void)state;
    static const char *const states[] = { "",
                                          "quantize_state=8bit",
                                          "offload=optimizer",
                                          "offload=optimizer+gradients",
                                          "quantize_state=bf16 offload=optimizer+gradients+activations",
                                          "attention=flash recompute=cheap:20",
                                          "attention=flash chunk_loss=4096 recompute=block:16" };
    device_elsewhere at;
    setup s;
    open_deep(&at, 40, 1, &s);
    assert_true(sketch_possible(&s.request.run));
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        const compose_choice c = choice_of(&s, states[i]);
        const compose_reach all = {
            .peak_bytes = UINT64_MAX, .budget = UINT64_MAX, .seconds = HUGE_VAL, .unwaited = true
        };
        sketcher k = { .most = COMPOSE_KEPT };
        compose_least x, y = outline_of(&s, &c, true);
        must(sketch_bound(&k, &s.request.run, &c, &all, &x));
        sketch_close(&k);
        print_message("'%s': seconds %+.1e\n", states[i], x.seconds / y.seconds - 1);
        assert_true(x.sketched);
        assert_true(x.peak_bytes <= y.peak_bytes);
        assert_true(near((double)x.fixed_bytes, (double)y.fixed_bytes, 1.0 / 4096, 0));
        assert_true(near((double)x.away_bytes, (double)y.away_bytes, 1.0 / 4096, 0));
        assert_int_equal(x.pieces.count, y.pieces.count);
        assert_true(near(x.computing, y.computing, 1.0 / 2000, 1.0 / 4000));
        assert_true(near(x.seconds, y.seconds, 1.0 / 2000, 1.0 / 4000));
    }
    setup_close(&s);
}

/* The sketch of a choice by a sketcher that has made nothing so far: how many models it makes. */
static uint32_t models_for(const compose_run *r, const compose_choice *c, const compose_reach *reach,
                           compose_least *out) {
    sketcher k = { .most = COMPOSE_KEPT };
    must(sketch_bound(&k, r, c, reach, out));
    const uint32_t models = k.count;
    sketch_close(&k);
    return models;
}

/* What is known of a choice is asked for once, of the same run: also by another search, and where another
 * setting of a divided choice has the same shallow models. */
static void shallow_models_are_outlined_once(void **state) {
    (void)state;
    const compose_reach all = { .peak_bytes = UINT64_MAX, .budget = UINT64_MAX, .seconds = HUGE_VAL };
    device_elsewhere at;
    setup s;
    compose_known known;
    compose_least first, again, other;
    open_deep(&at, 40, 1, &s);
    compose_run *r = &s.request.run;
    const compose_choice c = choice_of(&s, "attention=flash recompute=block:16"),
                         beside = choice_of(&s, "attention=flash recompute=block:20");
    models_for(r, &beside, &all, &other);
    known_open(&known, r);
    assert_true(models_for(r, &c, &all, &first) > 1);
    assert_int_equal(models_for(r, &c, &all, &again), 0);
    assert_memory_equal(&first, &again, sizeof first);
    assert_int_equal(models_for(r, &beside, &all, &again), 0);
    assert_memory_equal(&other, &again, sizeof other);
    assert_true(first.seconds < other.seconds);
    r->memory = 1 << 30, r->room = 1 << 29; /* these say what may be looked at, not what it is */
    assert_int_equal(models_for(r, &c, &all, &again), 0);
    r->context = 4096; /* and this is another run */
    assert_true(models_for(r, &c, &all, &again) > 1);
    assert_true(again.peak_bytes < first.peak_bytes);
    known_close(&known);
    setup_close(&s);
}

static uint64_t weights_of(const setup *s, const compose_choice *c) {
    graph g;
    must(compose_graph(&s->request.run, c, PASS_FORWARD, &g));
    const uint64_t bytes = compose_persistent_bytes(&g, ~(1u << ROLE_PARAMETER));
    graph_close(&g);
    return bytes;
}

/* What is kept counts as held: all that it may become where outlines are among it. */
static void what_is_kept_counts_as_held(void **state) {
    (void)state;
    for (int deep = 0; deep < 2; deep++) {
        device_elsewhere at;
        setup s;
        compose_known known;
        search_front without = { 0 }, with = { 0 };
        open_deep(&at, deep ? 40 : 2, 1, &s);
        search_request *q = &s.request;
        assert_int_equal(known_bytes(&q->run), 0);
        must(search_run(q, &(search_wish){ .budget = s.budget }, &without)); /* knows for itself */
        known_open(&known, &q->run);
        must(search_run(q, &(search_wish){ .budget = s.budget }, &with));
        const uint64_t kept = known_bytes(&q->run);
        assert_true(memo_bytes(known.memo) > 0 && kept >= memo_bytes(known.memo));
        assert_int_equal(kept == memo_bytes(known.memo), !deep);
        assert_int_equal(with.held_bytes, without.held_bytes);
        search_close(&with), search_close(&without);
        known_close(&known);
        setup_close(&s);
    }
}

/* Where weights alone are too large no pass has to run, and where a limit leaves room for them it has to. */
static void stems_give_up(void **state) {
    (void)state;
    static const char *const choices[] = { "", "offload=optimizer", "offload=optimizer+gradients" };
    device_elsewhere at;
    setup s;
    open_deep(&at, 40, 1, &s);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const compose_choice c = choice_of(&s, choices[i]);
        compose_reach reach = { .peak_bytes = UINT64_MAX, .budget = UINT64_MAX, .seconds = HUGE_VAL };
        sketcher k = { .most = COMPOSE_KEPT };
        compose_least whole, found;
        models_for(&s.request.run, &c, &reach, &whole);
        reach.peak_bytes = reach.budget = weights_of(&s, &c) - 1;
        must(sketch_bound(&k, &s.request.run, &c, &reach, &found));
        assert_true(found.given_up && found.peak_bytes > reach.peak_bytes);
        assert_true(found.peak_bytes <= whole.held_bytes);
        for (uint32_t f = 0; f < k.count; f++) assert_null(k.forms[f].trunk.root); /* no pass has run */
        sketch_close(&k);
        reach.peak_bytes = reach.budget = whole.held_bytes;
        models_for(&s.request.run, &c, &reach, &found);
        assert_false(found.given_up);
        reach.planning_only = true, reach.peak_bytes = reach.budget = 1;
        models_for(&s.request.run, &c, &reach, &found);
        assert_false(found.given_up);
    }
    setup_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(few_are_outlined),
                                        cmocka_unit_test(waiting_is_bounded),
                                        cmocka_unit_test(sketches_tell_what_persists),
                                        cmocka_unit_test(shallow_models_are_outlined_once),
                                        cmocka_unit_test(what_is_kept_counts_as_held),
                                        cmocka_unit_test(stems_give_up) };
    return cmocka_run_group_tests_name("deep models", tests, NULL, NULL);
}
