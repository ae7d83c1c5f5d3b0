/* The engine against texts that are alone: random arrivals, lengths, neighbours, budgets and clients that
 * leave. Every text that begins ends, with the tokens that it has alone, and no block is lost. */
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
#include "sanitized.h"

enum { REQUESTS = 24 };

/* ---- together ---- */

/* Each text begins in turn as soon as there is room. */
static void begin_some(engine *e, client *clients, uint32_t count, uint32_t *next) {
    for (; *next < count; ++*next) {
        client *c = &clients[*next];
        engine_request r = request_of(c);
        int64_t free = blocks_left(&e->blocks);
        assert_true(engine_ever(e, &r));
        c->place = engine_begin(e, &r);
        if (c->place == ENGINE_NONE) {
            assert_int_equal(blocks_left(&e->blocks), free);
            assert_true(engine_going(e) > 0); /* or it would wait for ever */
            return;
        }
    }
}

static void run_together(engine *e, client *clients, uint32_t count) {
    uint32_t next = 0;
    int64_t most_steps = 100000;
    begin_some(e, clients, count, &next);
    while (engine_going(e) && most_steps-- > 0) {
        assert_int_equal(engine_step(e, take), STATUS_OK);
        for (uint32_t i = 0; i < next; i++)
            if (clients[i].over && clients[i].place != ENGINE_NONE) {
                engine_leave(e, clients[i].place);
                clients[i].place = ENGINE_NONE;
            }
        begin_some(e, clients, count, &next);
    }
    assert_int_equal(next, count);
    assert_int_equal(blocks_left(&e->blocks), e->blocks.count);
}

static void compare(const client *alone, const client *together, uint32_t count, uint64_t seed) {
    for (uint32_t i = 0; i < count; i++) {
        const client *a = &alone[i], *t = &together[i];
        const char *other = a->got_count != t->got_count || memcmp(a->got, t->got, sizeof a->got) != 0
                                ? "tokens"
                            : memcmp(a->told, t->told, sizeof a->told) != 0 ? "logarithms of its prompt"
                            : memcmp(a->numbers, t->numbers, sizeof a->numbers) != 0 ? "numbers in its vector"
                                                                                     : NULL;
        if (other)
            fail_msg("seed %d: text %d of %d and %d tokens has other %s among its neighbours", (int)seed,
                     (int)i, (int)a->count, (int)a->tokens, other);
    }
}

static void texts_are_what_they_are_alone(void **state) {
    (void)state;
    static client alone[REQUESTS], together[REQUESTS];
    static const dtype caches[] = { DTYPE_F32, DTYPE_F32, DTYPE_BF16, DTYPE_I8, DTYPE_F16 };
    uint64_t cases = SANITIZED ? 8 : 40;
    for (uint64_t seed = 1; seed <= cases; seed++) {
        dtype cache = caches[seed % 5];
        for (uint32_t i = 0; i < REQUESTS; i++)
            make_client(&alone[i], seed, i, CONTEXT), make_pooled(&alone[i], seed, i, 4),
                make_scored(&alone[i], seed, i, 4), together[i] = alone[i];
        run_alone(alone, REQUESTS, cache);
        engine_sizes sizes = sizes_of(1 + drawn(seed, 0, 50, 9), 1 + drawn(seed, 0, 51, 40),
                                      CONTEXT / CACHE_BLOCK + drawn(seed, 0, 52, 20), cache);
        engine *e = start(&folder, &sizes, 0, 1 + (int)(seed % 3));
        run_together(e, together, REQUESTS);
        compare(alone, together, REQUESTS, seed);
        engine_close(e);
    }
    threads_set(1);
}

/* With one block more, or with the rows and texts of the next larger plan, it would not fit. */
static void no_more_fits(const engine *e, const engine_sizes *wanted, uint64_t memory) {
    const engine_sizes *s = engine_planned(e);
    engine_sizes more = *s;
    engine *other;
    if (s->blocks == s->texts * CONTEXT / CACHE_BLOCK) {
        if (s->rows == wanted->rows && s->texts == wanted->texts) return;
        more.texts = s->texts * 2 <= wanted->texts ? s->texts * 2 : s->texts;
        more.rows = s->rows * 2 <= wanted->rows ? s->rows * 2 : s->rows;
    }
    more.blocks = more.texts == s->texts && more.rows == s->rows ? s->blocks + 1 : CONTEXT / CACHE_BLOCK;
    assert_int_equal(engine_open(&(engine_options){ .threads = 2 }, &folder, &other), STATUS_OK);
    assert_int_equal(engine_plan(other, &more), STATUS_OK);
    assert_true(engine_planned_bytes(other) > memory);
    engine_close(other);
}

/* From what all of it takes down to one block less than a text, each plan keeps to its budget. */
static void budgets_are_kept(void **state) {
    (void)state;
    static client alone[REQUESTS], together[REQUESTS];
    for (uint32_t i = 0; i < REQUESTS; i++) make_client(&alone[i], 7, i, CONTEXT), together[i] = alone[i];
    run_alone(alone, REQUESTS, DTYPE_F32);
    engine_sizes sizes = sizes_of(8, 32, 0, DTYPE_F32);
    engine *e = start(&folder, &sizes, 0, 2);
    uint64_t most = engine_planned_bytes(e);
    assert_int_equal(engine_planned(e)->blocks, 8 * CONTEXT / CACHE_BLOCK);
    engine_close(e);
    int plans = 0;
    for (uint64_t memory = most - 1;; plans++) {
        assert_int_equal(engine_open(&(engine_options){ .threads = 2, .memory = memory }, &folder, &e),
                         STATUS_OK);
        status fits = engine_plan(e, &sizes);
        if (fits != STATUS_OK) {
            assert_int_equal(fits, STATUS_NO_FIT);
            assert_int_equal(engine_planned(e)->texts * engine_planned(e)->rows, 1);
            engine_close(e);
            break;
        }
        assert_true(engine_planned_bytes(e) <= memory);
        no_more_fits(e, &sizes, memory);
        memory = engine_planned_bytes(e) - 1;
        if (plans % 8 == 0) {
            if (engine_start(e) != STATUS_OK) fail_msg("%s", status_message());
            memcpy(together, alone, sizeof together);
            for (uint32_t i = 0; i < REQUESTS; i++)
                together[i].got_count = 0, together[i].over = false,
                memset(together[i].got, 0, sizeof together[i].got);
            run_together(e, together, REQUESTS);
            compare(alone, together, REQUESTS, memory);
        }
        engine_close(e);
    }
    assert_true(plans > 20);
    threads_set(1);
}

/* What never fits is known at once; what does not now leaves everything as it is. */
static void what_can_never_be_is_said(void **state) {
    (void)state;
    static client c;
    make_client(&c, 3, 0, CONTEXT);
    engine_sizes sizes = sizes_of(2, 8, 6, DTYPE_F32);
    engine *e = start(&folder, &sizes, 0, 1);
    c.count = 60, c.tokens = 21; /* the last token is not read */
    engine_request r = request_of(&c);
    assert_true(engine_ever(e, &r));
    r.tokens = 22;
    assert_false(engine_ever(e, &r));
    assert_int_equal(engine_begin(e, &r), ENGINE_NONE);
    r.tokens = 21;
    assert_int_equal(engine_begin(e, &r), 0);
    assert_int_equal(engine_begin(e, &r), ENGINE_NONE); /* one block is left */
    r.count = 10, r.tokens = 7;
    assert_int_equal(engine_begin(e, &r), 1);
    r.count = 1, r.tokens = 1;
    assert_int_equal(engine_begin(e, &r), ENGINE_NONE); /* no place */
    engine_leave(e, 0);
    assert_int_equal(engine_begin(e, &r), 0);
    engine_close(e);
}

/* A text that goes on with what it had computes only what is new, with the same bits. */
static void a_text_goes_on(void **state) {
    (void)state;
    static client first, second, plain;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        make_client(&first, seed, 0, 30);
        first.leaves = NEVER;
        engine_sizes sizes = sizes_of(1, 16, 0, DTYPE_F32);
        engine *e = start(&folder, &sizes, 0, 2);
        engine_request r = request_of(&first);
        assert_int_equal(engine_begin(e, &r), 0);
        while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
        make_client(&second, seed, 1, 20);
        second.leaves = NEVER;
        int64_t same = first.count + (int64_t)(seed % 3 ? first.got_count : 0);
        memmove(second.prompt + same, second.prompt, (size_t)second.count * sizeof *second.prompt);
        memcpy(second.prompt, first.prompt, (size_t)first.count * sizeof *first.prompt);
        if (same > first.count)
            memcpy(second.prompt + first.count, first.got, (size_t)first.got_count * sizeof(int32_t));
        second.count += same, plain = second;
        r = request_of(&second);
        int64_t known = engine_again(e, 0, &r);
        assert_true(known >= same - 1 && known < second.count);
        while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
        engine_leave(e, 0);
        assert_int_equal(blocks_left(&e->blocks), e->blocks.count);
        engine_close(e);
        run_alone(&plain, 1, DTYPE_F32);
        compare(&plain, &second, 1, seed);
    }
    threads_set(1);
}

/* ---- numbers that are none ---- */

/* Texts that come to a position with damaged weights end there, with a sentence; others have what they would
 * have without them, and what those have computed is found by nobody. */
static void damage_ends_one_text(void **state) {
    (void)state;
    enum { SPOILT = 40, TEXTS = 6 };
    static client alone[TEXTS], together[TEXTS];
    static model_folder damaged;
    if (open_folder("damaged", SPOILT, &damaged) != STATUS_OK) fail_msg("%s", status_message());
    for (uint32_t i = 0; i < TEXTS; i++) {
        make_client(&alone[i], 5, i, SPOILT); /* the last token is not read */
        alone[i].leaves = NEVER;
        if (i == 2) alone[i].count = SPOILT - 8, alone[i].tokens = 20;
        if (i == 4) alone[i].count = SPOILT + 2, alone[i].tokens = 20;
        together[i] = alone[i];
    }
    run_alone(alone, TEXTS, DTYPE_F32);
    engine_sizes sizes = sizes_of(TEXTS, 16, 0, DTYPE_F32);
    engine *e = start(&damaged, &sizes, 0, 2);
    for (uint32_t i = 0; i < TEXTS; i++) {
        engine_request r = request_of(&together[i]);
        assert_int_equal(engine_begin(e, &r), (int32_t)i);
    }
    while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
    for (int32_t i = 0; i < TEXTS; i++) {
        const char *why = engine_failure(e, i);
        if (i == 2 || i == 4) {
            assert_non_null(why);
            assert_non_null(strstr(why, "the weights are damaged"));
            assert_false(together[i].over);
            assert_int_equal(together[i].got_count, i == 2 ? 9 : 0);
            assert_memory_equal(together[i].got, alone[i].got, (size_t)together[i].got_count * 4);
        } else {
            assert_null(why);
            compare(&alone[i], &together[i], 1, (uint64_t)i);
        }
        engine_leave(e, i);
    }
    engine_stats s;
    engine_stats_of(e, &s);
    assert_int_equal(s.failed, 2);
    assert_int_equal(s.finished, TEXTS - 2);
    assert_int_equal(blocks_left(&e->blocks), e->blocks.count);
    engine_request r = request_of(&together[4]);
    int32_t again = engine_begin(e, &r);
    assert_int_equal(engine_cached(e, again), 0);
    assert_null(engine_failure(e, again));
    engine_close(e);
    threads_set(1);
}

/* ---- beginnings in common ---- */

static int64_t run_one(engine *e, client *c) {
    engine_stats before, after;
    engine_stats_of(e, &before);
    engine_request r = request_of(c);
    c->got_count = 0, c->over = false;
    int32_t place = engine_begin(e, &r);
    assert_int_equal(place, 0);
    while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
    int64_t cached = engine_cached(e, place);
    engine_leave(e, place);
    engine_stats_of(e, &after);
    assert_int_equal(after.cached_tokens - before.cached_tokens, cached);
    assert_int_equal(after.rows - before.rows, c->count + c->tokens - 1 - cached);
    return cached;
}

/* Whole blocks of what was asked and of what was answered are there again, for the group alone, as long as
 * nobody needs the room. */
static void beginnings_are_shared(void **state) {
    (void)state;
    static client first, second, plain;
    make_client(&first, 1, 0, CONTEXT);
    first.count = 40, first.tokens = 12, first.leaves = NEVER;
    for (int32_t k = 0; k < 40; k++) first.prompt[k] = (k * k + 3) % VOCABULARY;
    engine_sizes sizes = sizes_of(2, 16, 0, DTYPE_F32);
    engine *e = start(&folder, &sizes, 0, 2);
    assert_int_equal(run_one(e, &first), 0);
    plain = first;
    assert_int_equal(run_one(e, &first), 32);
    assert_memory_equal(first.got, plain.got, sizeof plain.got);
    second = first; /* goes on behind the answer: 51 of its ids were read */
    memcpy(second.prompt + 40, first.got, 12 * sizeof *first.got);
    second.prompt[52] = 7, second.count = 53;
    plain = second, plain.got_count = 0, plain.over = false;
    assert_int_equal(run_one(e, &second), 48);
    run_alone(&plain, 1, DTYPE_F32);
    compare(&plain, &second, 1, 1);
    second.prompt[20] ^= 1; /* another one amidst the second block */
    assert_int_equal(run_one(e, &second), 16);
    second.prompt[20] ^= 1, second.group = 1;
    assert_int_equal(run_one(e, &second), 0);
    assert_int_equal(run_one(e, &second), 48);
    second.group = ENGINE_ALONE;
    assert_int_equal(run_one(e, &second), 0);
    assert_int_equal(run_one(e, &second), 0);
    for (int32_t i = 0; i < 12; i++) { /* others need all of it */
        make_client(&plain, 77, (uint32_t)i, CONTEXT);
        plain.count = 60, plain.tokens = 20, plain.leaves = NEVER, plain.prompt[0] = i;
        assert_int_equal(run_one(e, &plain), 0);
    }
    assert_int_equal(run_one(e, &first), 0);
    engine_close(e);
    threads_set(1);
}

/* Of texts that come together the first computes what they have in common, also where all stand in one
 * step; with blocks for what they need together and no more. */
static void what_is_being_read_is_shared(void **state) {
    (void)state;
    enum { TEXTS = 5, SAME = 48 };
    static client alone[TEXTS], together[TEXTS];
    for (uint32_t i = 0; i < TEXTS; i++) {
        make_client(&alone[i], 9, i, CONTEXT);
        alone[i].count = SAME + 1 + i, alone[i].tokens = 8, alone[i].leaves = NEVER;
        for (int32_t k = 0; k < SAME; k++) alone[i].prompt[k] = (k * 5 + 1) % VOCABULARY;
        together[i] = alone[i];
    }
    run_alone(alone, TEXTS, DTYPE_F32);
    for (int64_t rows = 7; rows < 200; rows += 48) {
        engine_sizes sizes = sizes_of(TEXTS, rows, 0, DTYPE_F32);
        engine *e = start(&folder, &sizes, 0, 2);
        engine_stats s;
        for (uint32_t i = 0; i < TEXTS; i++) {
            together[i].got_count = 0, together[i].over = false;
            engine_request r = request_of(&together[i]);
            assert_int_equal(engine_begin(e, &r), (int32_t)i);
        }
        while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
        compare(alone, together, TEXTS, (uint64_t)rows);
        engine_stats_of(e, &s);
        assert_int_equal(s.cached_tokens, (TEXTS - 1) * SAME);
        assert_int_equal(s.blocks_used, SAME / CACHE_BLOCK + TEXTS);
        engine_close(e);
    }
    threads_set(1);
}

static int open_model(void **state) {
    return scratch_open(state) == 0 && open_folder("model", NEVER, &folder) == STATUS_OK ? 0 : -1;
}

/* What is at the beginning of texts stays longest; who shares nothing leaves nothing. */
static void ends_of_texts_go_first(void **state) {
    (void)state;
    static client first, other;
    engine_stats s;
    make_client(&first, 1, 0, CONTEXT);
    first.count = 50, first.tokens = 1, first.leaves = NEVER;
    for (int32_t k = 0; k < 50; k++) first.prompt[k] = (k * 7 + 2) % VOCABULARY;
    other = first;
    other.count = 40, other.group = ENGINE_ALONE;
    engine_sizes sizes = sizes_of(1, 16, 0, DTYPE_F32);
    engine *e = start(&folder, &sizes, 0, 2);
    assert_int_equal(run_one(e, &other), 0);
    engine_stats_of(e, &s);
    assert_int_equal(s.blocks_kept, 0);
    run_one(e, &first);
    engine_stats_of(e, &s);
    assert_int_equal(s.blocks_kept, 3);
    run_one(e, &other); /* two blocks are free, and it needs three */
    assert_int_equal(run_one(e, &first), 32);
    engine_close(e);
    threads_set(1);
}

static void run_again(engine *e, client *c, int64_t cached) {
    engine_request r = request_of(c);
    c->got_count = 0, c->over = false;
    assert_int_equal(engine_again(e, c->place, &r), cached);
    while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
}

static void begin_and_run(engine *e, client *c, int64_t cached) {
    engine_request r = request_of(c);
    c->got_count = 0, c->over = false;
    c->place = engine_begin(e, &r);
    assert_int_not_equal(c->place, ENGINE_NONE);
    while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
    assert_int_equal(engine_cached(e, c->place), cached);
}

static void as_alone(const client *c) {
    static client alone;
    alone = *c, alone.got_count = 0, alone.over = false;
    memset(alone.got, 0, sizeof alone.got);
    run_alone(&alone, 1, DTYPE_F32);
    assert_memory_equal(alone.got, c->got, (size_t)c->got_count * sizeof *c->got);
}

/* A text that goes on with other ids amidst a block writes it anew, but not where another text has it, and
 * nobody finds there what stood there before. */
static void what_is_written_anew_is_nobody_elses(void **state) {
    (void)state;
    static client a, b, old;
    make_client(&a, 1, 0, CONTEXT);
    a.count = 40, a.tokens = 6, a.leaves = NEVER;
    for (int32_t k = 0; k < CONTEXT; k++) a.prompt[k] = (k * 7 + 2) % VOCABULARY;
    b = a;
    engine_sizes sizes = sizes_of(3, 16, 0, DTYPE_F32);
    engine *e = start(&folder, &sizes, 0, 2);
    begin_and_run(e, &a, 0);
    begin_and_run(e, &b, 32);
    a.prompt[20] ^= 1;
    run_again(e, &a, 16); /* b has the second block as well */
    as_alone(&a);
    b.prompt[38] ^= 1;
    run_again(e, &b, 38); /* its third one is its own */
    as_alone(&b);
    b.prompt[10] ^= 1;
    run_again(e, &b, 0); /* a has the first block as well */
    as_alone(&b);
    old = a;
    a.prompt[24] ^= 1;
    run_again(e, &a, 24); /* nobody else has it */
    as_alone(&a);
    begin_and_run(e, &old, 16); /* what a had before is not there */
    as_alone(&old);
    engine_leave(e, old.place);
    old = a;
    begin_and_run(e, &old, 32);
    as_alone(&old);
    for (int32_t i = 0; i < 3; i++) engine_leave(e, i);
    assert_int_equal(blocks_left(&e->blocks), e->blocks.count);
    engine_close(e);
    threads_set(1);
}

/* Two texts compute the same block at once: one of the two is known, and the other stays its text's own,
 * also where that goes on. */
static void the_same_at_once_is_known_once(void **state) {
    (void)state;
    static client c[2];
    make_client(&c[0], 1, 0, CONTEXT);
    c[0].count = 40, c[0].tokens = 6, c[0].leaves = NEVER;
    c[1] = c[0];
    engine_sizes sizes = sizes_of(2, 8, 0, DTYPE_F32);
    engine *e = start(&folder, &sizes, 0, 2);
    for (int32_t i = 0; i < 2; i++) {
        engine_request r = request_of(&c[i]);
        assert_int_equal(c[i].place = engine_begin(e, &r), i);
        assert_int_equal(engine_step(e, take), STATUS_OK); /* half a block */
        engine_pause(e, 0, i == 0);
    }
    while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
    const blocks_one *own = &e->blocks.all[engine_line(e, 1)[0]];
    assert_int_equal(own->chain, 0);
    assert_int_equal(engine_cached(e, 1), 16); /* the second block */
    as_alone(&c[0]), as_alone(&c[1]);
    c[1].prompt[39] ^= 1;
    run_again(e, &c[1], 39);
    assert_int_equal(own->chain, 0);
    as_alone(&c[1]);
    engine_close(e);
    threads_set(1);
}

/* A guess that comes true saves a step, a wrong one costs a row, and what is drawn is the same. */
static void guesses_save_steps(void **state) {
    (void)state;
    static client plain, guessed;
    static model_folder alike;
    uint64_t saved = 0;
    if (open_folder("alike", ALIKE, &alike) != STATUS_OK) fail_msg("%s", status_message());
    for (uint64_t seed = 1; seed <= 20; seed++) {
        make_client(&plain, seed, 0, CONTEXT);
        plain.count = 20, plain.tokens = 60, plain.leaves = NEVER;
        plain.sample.temperature = seed % 4 ? 0 : 0.3, plain.sample.repetition_penalty = 1;
        guessed = plain;
        for (int64_t guesses = 0; guesses < 7; guesses++) {
            client *c = guesses ? &guessed : &plain;
            engine_sizes sizes = sizes_of(1, 32, 0, DTYPE_F32);
            sizes.guesses = guesses;
            engine *e = start(&alike, &sizes, 0, 2);
            engine_stats s;
            begin_and_run(e, c, 0);
            engine_stats_of(e, &s);
            assert_int_equal(s.steps, 60 - s.accepted);
            assert_int_equal(s.rows, 20 + 59 + s.proposed - s.accepted);
            if (guesses) compare(&plain, &guessed, 1, seed);
            saved += s.accepted;
            engine_close(e);
        }
    }
    assert_true(saved > 500);
    threads_set(1);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(texts_are_what_they_are_alone),
                                        cmocka_unit_test(budgets_are_kept),
                                        cmocka_unit_test(what_can_never_be_is_said),
                                        cmocka_unit_test(a_text_goes_on),
                                        cmocka_unit_test(damage_ends_one_text),
                                        cmocka_unit_test(beginnings_are_shared),
                                        cmocka_unit_test(what_is_being_read_is_shared),
                                        cmocka_unit_test(ends_of_texts_go_first),
                                        cmocka_unit_test(what_is_written_anew_is_nobody_elses),
                                        cmocka_unit_test(the_same_at_once_is_known_once),
                                        cmocka_unit_test(guesses_save_steps) };
    return cmocka_run_group_tests(tests, open_model, scratch_close);
}
