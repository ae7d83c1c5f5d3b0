/* Models whose layers all have a window: what is planned for a text is what it has at once, more of them fit,
 * and every one is what it is by an engine that gives nothing back before its end. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/threads.h"
#include "infer/engine_clients.h"
#include "io/scratch.h"
#include "ops/cache_write/cache_write.h"

enum { WINDOW = 20, TEXTS = 5 };

static model_folder windowed;

static void as_alone(const client *c) {
    static client alone;
    alone = *c, alone.got_count = 0, alone.over = false;
    memset(alone.got, 0, sizeof alone.got);
    run_alone(&alone, 1, DTYPE_F32);
    assert_memory_equal(alone.got, c->got, (size_t)c->got_count * sizeof *c->got);
}

static void begin(engine *e, client *c) {
    engine_request r = request_of(c);
    c->got_count = 0, c->over = false;
    c->place = engine_begin(e, &r);
    assert_int_not_equal(c->place, ENGINE_NONE);
}

static void run_all(engine *e) {
    while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
}

/* Text i of those that are as long as they may be. */
static void make_long(client *c, uint32_t i, int64_t count) {
    make_client(c, 3, i, CONTEXT);
    c->count = count, c->tokens = CONTEXT + 1 - count, c->leaves = NEVER;
    for (int64_t k = 0; k < count; k++) c->prompt[k] = (int32_t)(k * k + 3 + i) % VOCABULARY;
}

/* ---- the plan ---- */

/* Steps of so many rows; blocks of a text: those that 19 positions lie in, and a step's. */
static void plan_and_run(int64_t rows, int64_t each) {
    static client together[TEXTS];
    engine_sizes sizes = sizes_of(TEXTS, rows, 0, DTYPE_F32);
    int64_t most = 0, used = 0;
    sizes.least_texts = TEXTS, sizes.exact = true;
    engine *e = start(&windowed, &sizes, 0, 2);
    assert_int_equal(engine_sizes_longest(engine_planned(e)), each);
    assert_int_equal(engine_planned(e)->blocks, TEXTS * each);
    for (uint32_t i = 0; i < TEXTS; i++) make_long(&together[i], i, 60 - 9 * i), begin(e, &together[i]);
    for (; engine_going(e); most = used > most ? used : most) {
        assert_int_equal(engine_step(e, take), STATUS_OK);
        used = e->blocks.count - blocks_left(&e->blocks);
    }
    assert_true(most >= TEXTS * 2);
    exec_measured m;
    assert_int_equal(engine_measure(e, &m), STATUS_OK);
    for (int c = 0; c < CATEGORY_COUNT; c++)
        if (c != CATEGORY_RUNTIME) assert_int_equal(m.by_category[c], engine_plan_of(e)->by_category[c]);
    for (uint32_t i = 0; i < TEXTS; i++) as_alone(&together[i]), engine_leave(e, together[i].place);
    assert_int_equal(blocks_left(&e->blocks), e->blocks.count);
    engine_close(e);
}

static void texts_are_planned_as_what_they_have_at_once(void **state) {
    (void)state;
    plan_and_run(1, 4); /* a block that is found is 16 positions */
    plan_and_run(16, 4);
    plan_and_run(29, 4);
    plan_and_run(30, 4);
    plan_and_run(31, 5);
    plan_and_run(64, 5);
    threads_set(1);
}

/* With the blocks of one text as a model without windows would have it, two are written. */
static void more_texts_are_written(void **state) {
    (void)state;
    client c[3];
    engine_sizes sizes = sizes_of(3, 2, 8, DTYPE_F32);
    engine *e = start(&windowed, &sizes, 0, 1);
    for (uint32_t i = 0; i < 3; i++) make_long(&c[i], i, 60);
    begin(e, &c[0]), begin(e, &c[1]);
    engine_request r = request_of(&c[2]);
    assert_int_equal(engine_begin(e, &r), ENGINE_NONE);
    run_all(e);
    as_alone(&c[0]), as_alone(&c[1]);
    engine_close(e);
    threads_set(1);
}

/* ---- beginnings in common ---- */

/* A beginning that is longer than the window is found as long as all of it is known, and then the window
 * alone is the text's. */
static void beginnings_need_the_window(void **state) {
    (void)state;
    static client c;
    engine_sizes sizes = sizes_of(2, 16, 0, DTYPE_F32);
    engine *e = start(&windowed, &sizes, 0, 2);
    make_long(&c, 0, 70);
    begin(e, &c);
    run_all(e);
    engine_leave(e, 0);
    begin(e, &c);
    assert_int_equal(engine_cached(e, 0), 64);
    assert_int_equal(e->texts[0].first, 2); /* position 64 sees 45 and those behind it */
    assert_int_equal(e->texts[0].blocks, 4);
    for (int32_t k = 0; k < 2; k++) assert_int_equal(engine_line(e, 0)[k], BLOCKS_NONE);
    run_all(e);
    as_alone(&c);
    engine_leave(e, 0);
    for (int32_t i = 0; i < e->blocks.count; i++) /* the first one is needed for something else */
        if (e->blocks.all[i].chain && !e->blocks.all[i].before)
            blocks_use(&e->blocks, i), blocks_forget(&e->blocks, i), blocks_give(&e->blocks, i);
    begin(e, &c);
    assert_int_equal(engine_cached(e, 0), 0);
    run_all(e);
    as_alone(&c);
    engine_close(e);
    threads_set(1);
}

/* Somebody has computed it meanwhile: a text that was paused goes through all of it in one step. */
static void what_was_computed_meanwhile_is_found(void **state) {
    (void)state;
    static client c[2];
    engine_sizes sizes = sizes_of(2, 4, 0, DTYPE_F32);
    engine *e = start(&windowed, &sizes, 0, 1);
    for (uint32_t i = 0; i < 2; i++) make_long(&c[i], 0, 70), begin(e, &c[i]);
    engine_pause(e, 1, true);
    while (!c[0].over) assert_int_equal(engine_step(e, take), STATUS_OK);
    engine_pause(e, 1, false);
    assert_int_equal(engine_step(e, take), STATUS_OK);
    assert_int_equal(engine_cached(e, 1), 64);
    run_all(e);
    as_alone(&c[0]), as_alone(&c[1]);
    engine_close(e);
    threads_set(1);
}

static void run_and_leave(engine *e, client *c, int64_t cached) {
    begin(e, c);
    run_all(e);
    assert_int_equal(engine_cached(e, c->place), cached);
    engine_leave(e, c->place);
}

/* What is asked for again stays, with what is behind the window: others that were not asked for go first. */
static void what_leads_to_the_window_stays(void **state) {
    (void)state;
    static client c, other, last[2];
    engine_sizes sizes = sizes_of(3, 16, 12, DTYPE_F32);
    engine *e = start(&windowed, &sizes, 0, 1);
    make_long(&c, 0, 70), make_long(&other, 1, 33);
    other.tokens = 1;
    run_and_leave(e, &c, 0);
    run_and_leave(e, &other, 0);
    run_and_leave(e, &c, 64);
    for (uint32_t i = 0; i < 2; i++) { /* 8 blocks: the free ones, the last of c, and those of the other */
        make_long(&last[i], 2 + i, 30), last[i].tokens = 30;
        begin(e, &last[i]);
    }
    run_all(e);
    assert_int_equal(blocks_find(&e->blocks, 0, 0, other.prompt), BLOCKS_NONE);
    for (int32_t i = 0; i < 2; i++) engine_leave(e, i);
    run_and_leave(e, &c, 64);
    engine_close(e);
    threads_set(1);
}

/* Who may give back what it shares with one that keeps it has a block of its own left for it. */
static void what_is_shared_is_paid_for(void **state) {
    (void)state;
    client far, near, other;
    engine_sizes sizes = sizes_of(3, 16, 6, DTYPE_F32);
    engine *e = start(&windowed, &sizes, 0, 1);
    make_long(&far, 0, 40), make_long(&other, 1, 3), make_long(&near, 0, 20);
    near.tokens = 10, other.tokens = 1;
    begin(e, &far); /* 4 blocks, of which it takes one */
    assert_int_equal(engine_step(e, take), STATUS_OK);
    begin(e, &near); /* that one, and another */
    assert_int_equal(engine_cached(e, near.place), 16);
    assert_int_equal(e->doubles, 1);
    engine_request r = request_of(&other);
    assert_int_equal(engine_begin(e, &r), ENGINE_NONE);
    run_all(e);
    as_alone(&far), as_alone(&near);
    engine_leave(e, near.place);
    begin(e, &other);
    engine_leave(e, far.place), engine_leave(e, other.place);
    assert_int_equal(blocks_left(&e->blocks) - e->doubles - e->promised, e->blocks.count);
    engine_close(e);
    threads_set(1);
}

/* ---- on and on ---- */

/* Conversations: each text goes on behind what it has, or behind a part of it. */
static void texts_go_on(void **state) {
    (void)state;
    static client c, last;
    int again = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        engine_sizes sizes = sizes_of(1, 1 + drawn(seed, 0, 1, 20), 0, DTYPE_F32);
        engine *e = start(&windowed, &sizes, 0, 1);
        make_client(&c, seed, 0, CONTEXT / 4), c.leaves = NEVER;
        begin(e, &c);
        run_all(e);
        for (uint32_t i = 1; i < 8; i++) {
            last = c;
            make_client(&c, seed, i, CONTEXT / 4), c.leaves = NEVER;
            int64_t had = last.count + last.got_count,
                    same = drawn(seed, i, 2, 3) ? had : drawn(seed, i, 3, 30);
            if (same > had) same = had;
            if (same > CONTEXT * 3 / 4) same = 0;
            memmove(c.prompt + same, c.prompt, (size_t)c.count * sizeof *c.prompt);
            memcpy(c.prompt, last.prompt, (size_t)(same < last.count ? same : last.count) * sizeof *c.prompt);
            if (same > last.count)
                memcpy(c.prompt + last.count, last.got, (size_t)(same - last.count) * sizeof *c.prompt);
            c.count += same;
            engine_request r = request_of(&c);
            int64_t known = engine_again(e, 0, &r);
            assert_true(known >= 0 && (same < had || known >= same - 1));
            again += known > WINDOW;
            run_all(e);
            as_alone(&c);
        }
        engine_leave(e, 0);
        assert_int_equal(blocks_left(&e->blocks) - e->doubles - e->promised, e->blocks.count);
        engine_close(e);
    }
    assert_true(again > 10);
    threads_set(1);
}

/* What texts are compared with: the same model, by an engine that gives nothing back. */
static int open_models(void **state) {
    if (scratch_open(state) != 0 || open_windowed("windowed", WINDOW, &windowed) != STATUS_OK) return -1;
    folder = windowed, folder.model.window = 0;
    return windowed.model.window == WINDOW ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(texts_are_planned_as_what_they_have_at_once),
                                        cmocka_unit_test(more_texts_are_written),
                                        cmocka_unit_test(beginnings_need_the_window),
                                        cmocka_unit_test(what_was_computed_meanwhile_is_found),
                                        cmocka_unit_test(what_leads_to_the_window_stays),
                                        cmocka_unit_test(what_is_shared_is_paid_for),
                                        cmocka_unit_test(texts_go_on) };
    return cmocka_run_group_tests(tests, open_models, scratch_close);
}
