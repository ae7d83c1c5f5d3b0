/* The engine against texts that are alone: random arrivals, lengths, neighbours, budgets and clients that
 * leave. Every text that begins ends, with the tokens that it has alone, and no block is lost. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "base/threads.h"
#include "golden/golden.h"
#include "infer/engine_internal.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "io/scratch.h"
#include "ops/cache_write/cache_write.h"
#include "sanitized.h"

enum { CONTEXT = 80, VOCABULARY = 64, REQUESTS = 24, NEVER = -1 };

static model_folder folder;

/* Weights that make texts differ. */
static int open_model(void **state) {
    if (scratch_open(state) != 0 || mkdir("model", 0755) != 0) return -1;
    model_config c = { .gpt2 = gpt2_default() };
    c.gpt2.layers = 2, c.gpt2.heads = 2, c.gpt2.channels = 24, c.gpt2.inner = 48;
    c.gpt2.context = CONTEXT, c.gpt2.vocabulary = VOCABULARY;
    if (model_config_write("model", &c, NULL) != STATUS_OK) return -1;
    model m;
    families_model(&c, "model", &m);
    enum { MOST = 64 };
    static model_weight weights[MOST];
    static float values[MOST][VOCABULARY * 72];
    graph g;
    uint32_t count = 0;
    model_ports ports;
    if (graph_open(&g) != STATUS_OK) return -1;
    m.build(&m, &g, &(model_run){ .mode = MODEL_EVALUATE, .batch = 1, .context = 4 }, &ports);
    for (tensor_id t = 1; t < g.tensors.count; t++) {
        const tensor *x = graph_tensor(&g, t);
        if (x->role != ROLE_PARAMETER) continue;
        const char *name = graph_name(&g, t);
        weights[count] =
            (model_weight){ .name = name, .shape = x->shape, .data = values[count], .type = DTYPE_F32 };
        for (int64_t i = 0; i < shape_elements(&x->shape); i++)
            values[count][i] = (float)(4 * golden_weight(name, (int)x->shape.rank, i));
        count++;
    }
    status result = model_files_save("model", weights, count);
    graph_close(&g);
    if (result == STATUS_OK) result = model_folder_open("model", NULL, DTYPE_NONE, UINT64_MAX, &folder);
    return result == STATUS_OK ? 0 : -1;
}

/* ---- a client ---- */

typedef struct {
    int32_t prompt[CONTEXT];
    int64_t count, tokens;
    int64_t leaves; /* after so many tokens; NEVER */
    sample_options sample;
    int32_t place; /* in the engine; ENGINE_NONE: not there */
    int32_t got[CONTEXT];
    int64_t got_count;
    bool over;
} client;

static uint32_t drawn(uint64_t seed, uint32_t i, uint32_t what, uint32_t below) {
    return philox_draw(seed, (philox_block){ { i, what } }).word[0] % below;
}

static void make(client *c, uint64_t seed, uint32_t i, int64_t most) {
    *c = (client){ .place = ENGINE_NONE };
    c->count = 1 + drawn(seed, i, 0, (uint32_t)most - 1);
    c->tokens = 1 + drawn(seed, i, 1, (uint32_t)(most - c->count));
    c->leaves = 1 + drawn(seed, i, 3, (uint32_t)c->tokens);
    if (drawn(seed, i, 2, 4)) c->leaves = NEVER;
    for (int64_t k = 0; k < c->count; k++)
        c->prompt[k] = (int32_t)drawn(seed, i, 100 + (uint32_t)k, VOCABULARY);
    c->sample = (sample_options){ .temperature = drawn(seed, i, 4, 3) ? 1.5 : 0,
                                  .top_k = drawn(seed, i, 5, 3) ? 0 : 5,
                                  .top_p = drawn(seed, i, 6, 2) ? 1 : 0.8,
                                  .repetition_penalty = drawn(seed, i, 7, 2) ? 1 : 1.3,
                                  .seed = drawn(seed, i, 8, 1000) };
}

static engine_request request_of(client *c) {
    return (engine_request){
        .ids = c->prompt, .count = c->count, .tokens = c->tokens, .sample = &c->sample, .context = c
    };
}

static status take(void *context, int32_t id, bool *over) {
    client *c = context;
    assert_true(c->got_count < c->tokens && !c->over);
    c->got[c->got_count++] = id;
    *over = c->got_count == c->leaves;
    c->over = *over || c->got_count == c->tokens;
    return STATUS_OK;
}

static engine *start(const engine_sizes *sizes, uint64_t memory, int threads) {
    engine *e;
    assert_int_equal(engine_open(&(engine_options){ .threads = threads, .memory = memory }, &folder, &e),
                     STATUS_OK);
    if (engine_plan(e, sizes) != STATUS_OK || engine_start(e) != STATUS_OK) fail_msg("%s", status_message());
    return e;
}

static engine_sizes sizes_of(int64_t texts, int64_t rows, int64_t most_blocks, dtype cache) {
    return (engine_sizes){ .texts = texts,
                           .text_length = CONTEXT,
                           .rows = rows,
                           .blocks = most_blocks,
                           .least_blocks = CONTEXT / CACHE_BLOCK,
                           .cache = cache,
                           .cuts_mass = true,
                           .penalises = true };
}

/* ---- alone ---- */

static void run_alone(client *clients, uint32_t count, dtype cache) {
    engine_sizes sizes = sizes_of(1, 1, 0, cache);
    engine *e = start(&sizes, 0, 1);
    for (uint32_t i = 0; i < count; i++) {
        engine_request r = request_of(&clients[i]);
        int32_t place = engine_begin(e, &r);
        assert_int_equal(place, 0);
        while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
        assert_true(clients[i].over);
        engine_leave(e, place);
    }
    engine_close(e);
}

/* ---- together ---- */

/* Each text begins in turn as soon as there is room. */
static void begin_some(engine *e, client *clients, uint32_t count, uint32_t *next) {
    for (; *next < count; ++*next) {
        client *c = &clients[*next];
        engine_request r = request_of(c);
        int64_t free = e->blocks.left;
        assert_true(engine_ever(e, &r));
        c->place = engine_begin(e, &r);
        if (c->place == ENGINE_NONE) {
            assert_int_equal(e->blocks.left, free);
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
    assert_int_equal(e->blocks.left, e->blocks.count);
}

static void compare(const client *alone, const client *together, uint32_t count, uint64_t seed) {
    for (uint32_t i = 0; i < count; i++)
        if (alone[i].got_count != together[i].got_count ||
            memcmp(alone[i].got, together[i].got, sizeof alone[i].got) != 0)
            fail_msg("seed %d: text %d of %d and %d tokens has others among its neighbours", (int)seed,
                     (int)i, (int)alone[i].count, (int)alone[i].tokens);
}

static void texts_are_what_they_are_alone(void **state) {
    (void)state;
    static client alone[REQUESTS], together[REQUESTS];
    static const dtype caches[] = { DTYPE_F32, DTYPE_F32, DTYPE_BF16, DTYPE_I8, DTYPE_F16 };
    uint64_t cases = SANITIZED ? 8 : 40;
    for (uint64_t seed = 1; seed <= cases; seed++) {
        dtype cache = caches[seed % 5];
        for (uint32_t i = 0; i < REQUESTS; i++) make(&alone[i], seed, i, CONTEXT), together[i] = alone[i];
        run_alone(alone, REQUESTS, cache);
        engine_sizes sizes = sizes_of(1 + drawn(seed, 0, 50, 9), 1 + drawn(seed, 0, 51, 40),
                                      CONTEXT / CACHE_BLOCK + drawn(seed, 0, 52, 20), cache);
        engine *e = start(&sizes, 0, 1 + (int)(seed % 3));
        run_together(e, together, REQUESTS);
        compare(alone, together, REQUESTS, seed);
        engine_close(e);
    }
    threads_set(1);
}

/* From what all of it takes down to one block less than a text, each plan keeps to its budget. */
static void budgets_are_kept(void **state) {
    (void)state;
    static client alone[REQUESTS], together[REQUESTS];
    for (uint32_t i = 0; i < REQUESTS; i++) make(&alone[i], 7, i, CONTEXT), together[i] = alone[i];
    run_alone(alone, REQUESTS, DTYPE_F32);
    engine_sizes sizes = sizes_of(8, 32, 0, DTYPE_F32);
    engine *e = start(&sizes, 0, 2);
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
    make(&c, 3, 0, CONTEXT);
    engine_sizes sizes = sizes_of(2, 8, 6, DTYPE_F32);
    engine *e = start(&sizes, 0, 1);
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
        make(&first, seed, 0, 30);
        first.leaves = NEVER;
        engine_sizes sizes = sizes_of(1, 16, 0, DTYPE_F32);
        engine *e = start(&sizes, 0, 2);
        engine_request r = request_of(&first);
        assert_int_equal(engine_begin(e, &r), 0);
        while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
        make(&second, seed, 1, 20);
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
        assert_int_equal(e->blocks.left, e->blocks.count);
        engine_close(e);
        run_alone(&plain, 1, DTYPE_F32);
        compare(&plain, &second, 1, seed);
    }
    threads_set(1);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(texts_are_what_they_are_alone),
                                        cmocka_unit_test(budgets_are_kept),
                                        cmocka_unit_test(what_can_never_be_is_said),
                                        cmocka_unit_test(a_text_goes_on) };
    return cmocka_run_group_tests(tests, open_model, scratch_close);
}
