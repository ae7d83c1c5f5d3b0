/* The engine with a model that answers: sources are read as a whole, side by side, and have blocks beside
 * those of answers. Every answer is what it is alone, whoever is beside it, and no block is lost. */
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

enum { CLIENTS = 24, BLOCKS_EACH = 2 * CONTEXT / CACHE_BLOCK, START = 3 };

/* What an answer begins behind. */
static const int32_t start_id = START;

static int open_model(void **state) {
    model_config c = { .family = FAMILY_T5,
                       .t5 = { .type = "t5",
                               .layers = 2,
                               .decoder_layers = 3,
                               .heads = 2,
                               .head_size = 20,
                               .channels = WIDTH,
                               .inner = 40,
                               .context = CONTEXT,
                               .vocabulary = VOCABULARY,
                               .buckets = 8,
                               .farthest = 20,
                               .tied = true,
                               .scaled = true,
                               .start = START,
                               .activation = T5_RELU,
                               .epsilon = 1e-6,
                               .factor = 1 } };
    if (scratch_open(state) != 0) return -1;
    if (open_folder_of("t5", &c, NEVER, &folder) != STATUS_OK) fail_msg("%s", status_message());
    return 0;
}

/* Its prompt is a source; source and answer are drawn apart. */
static void make_asker(client *c, uint64_t seed, uint32_t i) {
    make_client(c, seed, i, CONTEXT);
    c->count = 1 + drawn(seed, i, 40, CONTEXT);
    c->tokens = 1 + drawn(seed, i, 41, CONTEXT);
    c->leaves = 1 + drawn(seed, i, 3, (uint32_t)c->tokens);
    if (drawn(seed, i, 2, 4)) c->leaves = NEVER;
    c->group = drawn(seed, i, 42, 3) ? drawn(seed, i, 43, 2) : ENGINE_ALONE;
    uint32_t like = drawn(seed, i, 44, 2) ? i : 1000 + drawn(seed, i, 45, 3); /* as others ask, or alone */
    if (like != i) c->count = 1 + drawn(seed, like, 40, CONTEXT);
    for (int64_t k = 0; k < c->count; k++)
        c->prompt[k] = (int32_t)drawn(seed, like, 100 + (uint32_t)k, VOCABULARY);
}

static engine_request asks(client *c) {
    engine_request r = request_of(c);
    r.source = c->prompt, r.source_count = c->count;
    r.ids = &start_id, r.count = 1;
    return r;
}

static engine_sizes sizes_for(int64_t texts, int64_t most_blocks, dtype cache) {
    engine_sizes s = sizes_of(texts, 256, most_blocks, cache);
    s.source_length = CONTEXT, s.least_texts = 1, s.pools = false;
    assert_int_equal(engine_sizes_longest(&s), BLOCKS_EACH);
    return s;
}

static void answer_alone(client *clients, uint32_t count, dtype cache) {
    engine_sizes sizes = sizes_for(1, 0, cache);
    engine *e = start(&folder, &sizes, 0, 1);
    for (uint32_t i = 0; i < count; i++) {
        engine_request r = asks(&clients[i]);
        assert_int_equal(engine_begin(e, &r), 0);
        while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
        assert_true(clients[i].over);
        engine_leave(e, 0);
    }
    engine_close(e);
}

/* Blocks have as many users as there are lines with them; those of answers have one. */
static void look_at_blocks(const engine *e) {
    enum { MOST = 1024 };
    int64_t used = 0;
    int32_t users[MOST] = { 0 };
    for (int32_t t = 0; t < e->sizes.texts; t++) {
        const engine_text *x = &e->texts[t];
        const int32_t *source = engine_source_line(e, t), *line = engine_line(e, t);
        if (x->used && x->going && !x->waits)
            assert_int_equal(x->source_blocks, (x->source_count + CACHE_BLOCK - 1) / CACHE_BLOCK);
        if (x->used && x->waits) assert_int_equal(x->source_blocks + x->blocks, 0);
        for (int64_t k = 0; x->used && k < x->source_blocks; k++) users[source[k]]++;
        for (int64_t k = 0; x->used && k < x->blocks; k++) {
            assert_int_equal(users[line[k]], 0);
            users[line[k]] = -1;
        }
    }
    for (int64_t i = 0; i < e->blocks.count; i++) {
        assert_int_equal(e->blocks.all[i].chain, 0); /* what an answer has depends on more than its ids */
        if (users[i]) assert_int_equal(e->blocks.all[i].users, users[i] < 0 ? 1 : users[i]);
        used += users[i] != 0;
    }
    assert_int_equal(used, e->blocks.count - blocks_left(&e->blocks));
}

static void begin_some(engine *e, client *clients, uint32_t count, uint32_t *next) {
    for (; *next < count; ++*next) {
        client *c = &clients[*next];
        engine_request r = asks(c);
        int64_t left = blocks_left(&e->blocks);
        assert_true(engine_ever(e, &r));
        c->place = engine_begin(e, &r);
        if (c->place != ENGINE_NONE) continue;
        if (!e->sizes.expects) assert_int_equal(blocks_left(&e->blocks), left); /* or somebody came back */
        assert_true(engine_going(e) > 0); /* or it would wait for ever */
        return;
    }
}

static void answer_together(engine *e, client *clients, uint32_t count) {
    uint32_t next = 0;
    int64_t most_steps = 100000;
    begin_some(e, clients, count, &next);
    while (engine_going(e) && most_steps-- > 0) {
        assert_int_equal(engine_step(e, take), STATUS_OK);
        look_at_blocks(e);
        for (uint32_t i = 0; i < next; i++)
            if (clients[i].over && clients[i].place != ENGINE_NONE) {
                engine_leave(e, clients[i].place);
                clients[i].place = ENGINE_NONE;
            }
        begin_some(e, clients, count, &next);
    }
    assert_int_equal(next, count);
    assert_int_equal(blocks_left(&e->blocks), e->blocks.count);
    assert_int_equal(e->promised + e->doubles, 0);
}

static void compare(const client *alone, const client *together, uint64_t seed) {
    for (uint32_t i = 0; i < CLIENTS; i++)
        if (alone[i].got_count != together[i].got_count ||
            memcmp(alone[i].got, together[i].got, sizeof alone[i].got) != 0)
            fail_msg("seed %d: the answer %d of %d tokens to %d has other tokens among its neighbours",
                     (int)seed, (int)i, (int)alone[i].tokens, (int)alone[i].count);
}

/* Once the largest programs ran, all that is planned was there. */
static void compare_bytes(const engine *e) {
    exec_measured measured;
    const plan *p = engine_plan_of(e);
    assert_int_equal(engine_measure(e, &measured), STATUS_OK);
    for (int c = 0; c < CATEGORY_COUNT; c++)
        if (c != CATEGORY_RUNTIME && c != CATEGORY_GAPS)
            assert_int_equal(measured.by_category[c], p->by_category[c]);
}

/* With certain and with expected admission, guesses and none, in caches from one text upwards. */
static void answers_are_what_they_are_alone(void **state) {
    (void)state;
    static client alone[CLIENTS], together[CLIENTS];
    static const dtype caches[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F32, DTYPE_I8, DTYPE_F16 };
    uint64_t cases = SANITIZED ? 6 : 30, put_back = 0, accepted = 0, shared = 0;
    for (uint64_t seed = 1; seed <= cases; seed++) {
        dtype cache = caches[seed % 5];
        for (uint32_t i = 0; i < CLIENTS; i++) make_asker(&alone[i], seed, i), together[i] = alone[i];
        answer_alone(alone, CLIENTS, cache);
        engine_sizes sizes =
            sizes_for(1 + drawn(seed, 0, 50, 9), BLOCKS_EACH + drawn(seed, 0, 52, 30), cache);
        sizes.expects = drawn(seed, 0, 53, 2), sizes.guesses = drawn(seed, 0, 54, 3);
        engine *e = start(&folder, &sizes, 0, 1 + (int)(seed % 3));
        answer_together(e, together, CLIENTS);
        compare(alone, together, seed);
        engine_stats s;
        engine_stats_of(e, &s);
        assert_true(s.cached_tokens <= s.prompt_tokens); /* each source counts once, whoever was put back */
        put_back += s.put_back, accepted += s.accepted, shared += s.cached_tokens;
        engine_close(e);
    }
    assert_true(SANITIZED || (put_back > 0 && accepted > 0 && shared > 0));
    threads_set(1);
}

/* Several sources fit into a step, and the longest alone; both programs' bytes are those of the plan. */
static void plans_are_kept(void **state) {
    (void)state;
    enum { TEXTS = 6 };
    static client c[TEXTS];
    engine_sizes sizes = sizes_for(TEXTS, 0, DTYPE_F32);
    engine *e = start(&folder, &sizes, 0, 2);
    assert_int_equal(engine_planned(e)->blocks, TEXTS * BLOCKS_EACH);
    assert_int_equal(engine_planned(e)->rows, TEXTS); /* more are of no use */
    const int64_t counts[TEXTS] = { CONTEXT, CONTEXT / 2, CONTEXT / 2, 1, 1, CONTEXT - 1 };
    for (uint32_t i = 0; i < TEXTS; i++) {
        make_asker(&c[i], 9, i);
        c[i].count = counts[i], c[i].tokens = 4, c[i].leaves = NEVER, c[i].group = ENGINE_ALONE;
        engine_request r = asks(&c[i]);
        assert_int_equal(engine_begin(e, &r), i);
    }
    const int64_t rows[] = { CONTEXT, 1, CONTEXT, 3, 2 }; /* sources and answers by turns */
    engine_stats before, s;
    for (int i = 0; i < 5; i++) {
        engine_stats_of(e, &before);
        assert_int_equal(engine_step(e, take), STATUS_OK);
        engine_stats_of(e, &s);
        assert_int_equal(s.rows - before.rows, rows[i]);
    }
    while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
    compare_bytes(e);
    engine_close(e);
    threads_set(1);
}

/* While sources come, who writes gets a row in every second step at least. */
static void who_writes_does_not_wait_for_sources(void **state) {
    (void)state;
    enum { TEXTS = 10 };
    static client c[TEXTS];
    engine_sizes sizes = sizes_for(TEXTS, 0, DTYPE_F32);
    engine *e = start(&folder, &sizes, 0, 1);
    for (uint32_t i = 0; i < TEXTS; i++) {
        make_asker(&c[i], 10, i);
        c[i].count = CONTEXT, c[i].tokens = CONTEXT, c[i].leaves = NEVER, c[i].group = ENGINE_ALONE;
        engine_request r = asks(&c[i]);
        assert_int_equal(engine_begin(e, &r), i);
    }
    for (int step = 0; step < 2 * TEXTS; step++) assert_int_equal(engine_step(e, take), STATUS_OK);
    for (int i = 0; i < TEXTS; i++) assert_int_equal(c[i].got_count, TEXTS - i);
    engine_close(e);
}

/* The same source is read once for a group, and has its blocks once, as long as anybody has it. */
static void sources_are_shared(void **state) {
    (void)state;
    enum { TEXTS = 4 };
    static client c[TEXTS], other;
    engine_sizes sizes = sizes_for(TEXTS, 0, DTYPE_F32);
    engine *e = start(&folder, &sizes, 0, 2);
    engine_stats s;
    make_asker(&c[0], 11, 0);
    c[0].count = CONTEXT, c[0].tokens = 20, c[0].leaves = NEVER, c[0].group = 0;
    c[0].sample.temperature = 0;
    for (uint32_t i = 0; i < TEXTS; i++) {
        if (i) c[i] = c[0];
        c[i].group = i == 2; /* another one's */
        c[i].tokens = i == 0 ? 2 : 20;
        engine_request r = asks(&c[i]);
        if (i == 1)
            assert_int_equal(engine_step(e, take), STATUS_OK); /* it was read before, or is read at once */
        assert_int_equal(engine_begin(e, &r), i);
        assert_int_equal(engine_cached(e, (int32_t)i), i == 1 || i == 3 ? CONTEXT : 0);
    }
    engine_stats_of(e, &s);
    assert_int_equal(s.blocks_used, 2 * CONTEXT / CACHE_BLOCK);
    assert_int_equal(s.cached_tokens, 2 * CONTEXT);
    while (engine_goes_on(e, 0)) assert_int_equal(engine_step(e, take), STATUS_OK);
    engine_leave(e, 0); /* others still have what it read */
    other = c[0], other.got_count = 0, other.over = false;
    for (int64_t k = 0; k < other.count; k++) other.prompt[k] = 1;
    engine_request r = asks(&other);
    assert_int_equal(engine_begin(e, &r), 0);
    while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK), look_at_blocks(e);
    engine_stats_of(e, &s);
    for (int i = 1; i < TEXTS; i++) {
        assert_int_equal(c[i].got_count, 20);
        assert_memory_equal(c[i].got, c[1].got, sizeof c[i].got);
        assert_memory_equal(c[i].got, c[0].got, 2 * sizeof c[i].got[0]);
        engine_leave(e, i);
    }
    assert_int_equal(s.rows, 3 * CONTEXT + 2 * 2 + 3 * 20); /* sources of two groups and of the other one */
    engine_leave(e, 0);
    assert_int_equal(blocks_left(&e->blocks), e->blocks.count);
    engine_close(e);
    threads_set(1);
}

/* Who shares a source that is not read yet waits for it, also where it would be the turn of texts. */
static void sources_are_shared_before_they_are_read(void **state) {
    (void)state;
    enum { TEXTS = 3 };
    static client c[TEXTS];
    engine_sizes sizes = sizes_for(TEXTS, 0, DTYPE_F32);
    engine *e = start(&folder, &sizes, 0, 1);
    engine_stats s;
    for (uint32_t i = 0; i < TEXTS; i++) {
        make_asker(&c[i], 12, i == 2 ? 1 : i);
        c[i].tokens = 3, c[i].leaves = NEVER, c[i].group = 0;
        engine_request r = asks(&c[i]);
        if (i == 1) assert_int_equal(engine_step(e, take), STATUS_OK); /* of the first source */
        assert_int_equal(engine_begin(e, &r), i);
    }
    assert_int_equal(engine_cached(e, 2), c[1].count);
    assert_int_equal(engine_step(e, take), STATUS_OK);
    engine_stats_of(e, &s);
    assert_int_equal(s.rows, c[0].count + 1);
    assert_int_equal(engine_step(e, take), STATUS_OK);
    engine_stats_of(e, &s);
    assert_int_equal(s.rows, c[0].count + 1 + c[1].count);
    assert_int_equal(engine_step(e, take), STATUS_OK);
    engine_stats_of(e, &s);
    assert_int_equal(s.rows, c[0].count + 1 + c[1].count + TEXTS);
    while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
    assert_memory_equal(c[1].got, c[2].got, sizeof c[1].got);
    engine_close(e);
}

/* Who is put back before it has a row, and finds its source again, does not have it in the cache twice. */
static void a_source_counts_once(void **state) {
    (void)state;
    enum { TEXTS = 3 };
    static client c[TEXTS];
    engine_sizes sizes = sizes_for(TEXTS, BLOCKS_EACH, DTYPE_F32);
    sizes.expects = true;
    engine *e = start(&folder, &sizes, 0, 1);
    engine_stats s;
    for (uint32_t i = 0; i < TEXTS; i++) {
        make_asker(&c[i], 13, i);
        c[i].count = i ? CACHE_BLOCK : 2 * CACHE_BLOCK, c[i].tokens = CONTEXT, c[i].leaves = NEVER;
        c[i].group = 0;
    }
    memcpy(c[2].prompt, c[1].prompt, sizeof c[1].prompt);
    for (uint32_t i = 0; i < TEXTS; i++) { /* 2 + 5 blocks; 1 + 1, and a second one soon; 1 beside a source */
        engine_request r = asks(&c[i]);
        while (i == 2 && e->texts[1].done < CACHE_BLOCK) assert_int_equal(engine_step(e, take), STATUS_OK);
        c[i].place = engine_begin(e, &r);
        assert_int_equal(c[i].place, i);
        e->share = 0.01;
    }
    assert_int_equal(engine_cached(e, 2), CACHE_BLOCK);
    assert_int_equal(engine_step(e, take), STATUS_OK);
    assert_true(e->texts[2].waits);
    while (engine_going(e)) {
        assert_int_equal(engine_step(e, take), STATUS_OK);
        look_at_blocks(e);
        for (int i = 0; i < TEXTS; i++)
            if (c[i].over && c[i].place != ENGINE_NONE) engine_leave(e, c[i].place), c[i].place = ENGINE_NONE;
    }
    engine_stats_of(e, &s);
    assert_int_equal(s.put_back, 1);
    assert_int_equal(s.cached_tokens, CACHE_BLOCK);
    assert_int_equal(s.again_tokens, 0);
    assert_int_equal(blocks_left(&e->blocks), e->blocks.count);
    engine_close(e);
}

/* What never fits is known at once; what does not now leaves everything as it is. */
static void what_can_never_be_is_said(void **state) {
    (void)state;
    static client c;
    make_asker(&c, 3, 0);
    engine_sizes sizes = sizes_for(2, BLOCKS_EACH + 1, DTYPE_F32);
    engine *e = start(&folder, &sizes, 0, 1);
    c.count = CONTEXT, c.tokens = CONTEXT;
    engine_request r = asks(&c);
    assert_true(engine_ever(e, &r));
    r.tokens = CONTEXT + 1;
    assert_false(engine_ever(e, &r));
    r.tokens = 1, r.source_count = CONTEXT + 1;
    assert_false(engine_ever(e, &r));
    assert_int_equal(engine_begin(e, &r), ENGINE_NONE);
    r.source_count = 0;
    assert_false(engine_ever(e, &r));
    assert_int_equal(engine_begin(e, &r), ENGINE_NONE);
    r.source_count = CONTEXT, r.tokens = CONTEXT;
    assert_int_equal(engine_begin(e, &r), 0);
    r.source_count = r.tokens = 1;
    assert_int_equal(engine_begin(e, &r), ENGINE_NONE); /* one block is left, and two are needed */
    engine_leave(e, 0);
    assert_int_equal(engine_begin(e, &r), 0);
    assert_int_equal(engine_again(e, 0, &r), ENGINE_NONE);
    engine_close(e);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(answers_are_what_they_are_alone),
                                        cmocka_unit_test(plans_are_kept),
                                        cmocka_unit_test(who_writes_does_not_wait_for_sources),
                                        cmocka_unit_test(sources_are_shared),
                                        cmocka_unit_test(sources_are_shared_before_they_are_read),
                                        cmocka_unit_test(a_source_counts_once),
                                        cmocka_unit_test(what_can_never_be_is_said) };
    return cmocka_run_group_tests(tests, open_model, scratch_close);
}
