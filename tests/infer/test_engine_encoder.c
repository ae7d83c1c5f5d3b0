/* Encoders through the engine: vectors are those of a forward pass that is written here by hand, in double; a
 * text has the same bits alone and among others, with whatever fills its step up; blocks are not lost, and
 * all of it is planned. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "base/threads.h"
#include "golden/golden.h"
#include "infer/engine_clients.h"
#include "io/scratch.h"
#include "ops/cache_write/cache_write.h"
#include "sanitized.h"

enum { HEADS = 2, INNER = 32, KINDS = 3, REQUESTS = 40, MOST = 72 /* numbers of a row */ };

static const char *const names[KINDS] = { "bert", "roberta", "distilbert" };
static model_folder folders[KINDS];

/* ---- by hand ---- */

typedef struct {
    double x[CONTEXT][MOST];
    int64_t rows;
} table;

static double weight(const char *name, int rank, int64_t i) {
    return (double)(float)(4 * golden_weight(name, rank, i));
}

static const char *name_of(const encoder_config *c, int64_t layer, const char *module, const char *suffix) {
    static char name[160];
    if (layer < 0)
        snprintf(name, sizeof name, "%s%s", module, suffix);
    else
        snprintf(name, sizeof name, "%s.%lld.%s%s", c->kind->layers, (long long)layer, module, suffix);
    return name;
}

static void linear(const encoder_config *c, int64_t layer, const char *module, const table *in, int64_t from,
                   int64_t to, table *out) {
    out->rows = in->rows;
    for (int64_t o = 0; o < to; o++) {
        double bias = weight(name_of(c, layer, module, ".bias"), 1, o);
        const char *matrix = name_of(c, layer, module, ".weight");
        for (int64_t r = 0; r < in->rows; r++) {
            double sum = bias;
            for (int64_t i = 0; i < from; i++) sum += in->x[r][i] * weight(matrix, 2, o * from + i);
            out->x[r][o] = sum;
        }
    }
}

static void norm(const encoder_config *c, int64_t layer, const char *module, table *t) {
    for (int64_t r = 0; r < t->rows; r++) {
        double mean = 0, squares = 0;
        for (int i = 0; i < WIDTH; i++) mean += t->x[r][i] / WIDTH;
        for (int i = 0; i < WIDTH; i++) squares += (t->x[r][i] - mean) * (t->x[r][i] - mean) / WIDTH;
        for (int i = 0; i < WIDTH; i++)
            t->x[r][i] = (t->x[r][i] - mean) / sqrt(squares + c->epsilon) *
                             weight(name_of(c, layer, module, ".weight"), 1, i) +
                         weight(name_of(c, layer, module, ".bias"), 1, i);
    }
}

static void embed(const encoder_config *c, const client *of, table *x) {
    const encoder_kind *k = c->kind;
    int64_t first = strcmp(k->type, "roberta") == 0 ? 2 : 0; /* behind padding, which is 1 */
    x->rows = of->count;
    for (int64_t r = 0; r < of->count; r++)
        for (int i = 0; i < WIDTH; i++)
            x->x[r][i] = weight(name_of(c, -1, k->words, ".weight"), 2, of->prompt[r] * WIDTH + i) +
                         weight(name_of(c, -1, k->positions, ".weight"), 2, (first + r) * WIDTH + i) +
                         (k->types ? weight(name_of(c, -1, k->types, ".weight"), 2, i) : 0);
    norm(c, -1, k->norm, x);
}

static void attend(const encoder_config *c, int64_t layer, const table *x, table *out) {
    static table q, k, v, mixed;
    enum { SIZE = WIDTH / HEADS };
    linear(c, layer, c->kind->q, x, WIDTH, WIDTH, &q);
    linear(c, layer, c->kind->k, x, WIDTH, WIDTH, &k);
    linear(c, layer, c->kind->v, x, WIDTH, WIDTH, &v);
    mixed.rows = x->rows;
    for (int64_t r = 0; r < x->rows; r++)
        for (int h = 0; h < WIDTH; h += SIZE) {
            double weights[CONTEXT], all = 0;
            for (int64_t o = 0; o < x->rows; o++) {
                double score = 0;
                for (int i = h; i < h + SIZE; i++) score += q.x[r][i] * k.x[o][i];
                all += weights[o] = exp(score / sqrt(SIZE));
            }
            for (int i = h; i < h + SIZE; i++) {
                mixed.x[r][i] = 0;
                for (int64_t o = 0; o < x->rows; o++) mixed.x[r][i] += weights[o] / all * v.x[o][i];
            }
        }
    linear(c, layer, c->kind->o, &mixed, WIDTH, WIDTH, out);
}

static void add(table *x, const table *y) {
    for (int64_t r = 0; r < x->rows; r++)
        for (int i = 0; i < WIDTH; i++) x->x[r][i] += y->x[r][i];
}

/* The hidden states of a text. */
static void forward(const encoder_config *c, const client *of, table *x) {
    static table wide, y;
    embed(c, of, x);
    for (int64_t layer = 0; layer < c->layers; layer++) {
        attend(c, layer, x, &y);
        add(x, &y);
        norm(c, layer, c->kind->attention_norm, x);
        linear(c, layer, c->kind->up, x, WIDTH, INNER, &wide);
        for (int64_t r = 0; r < x->rows; r++)
            for (int i = 0; i < INNER; i++) wide.x[r][i] *= 0.5 * (1 + erf(wide.x[r][i] / sqrt(2)));
        linear(c, layer, c->kind->down, &wide, INNER, WIDTH, &y);
        add(x, &y);
        norm(c, layer, c->kind->feed_norm, x);
    }
}

static void assert_vector(const encoder_config *c, const client *of) {
    static table x;
    double expected[WIDTH] = { 0 }, all = 0, squares = 0;
    forward(c, of, &x);
    for (int64_t r = 0; r < x.rows; r++) {
        double counts = of->how.kind == POOLING_MEAN       ? 1
                        : of->how.kind == POOLING_WEIGHTED ? (double)(r + 1)
                        : of->how.kind == POOLING_FIRST    ? r == 0
                                                           : r + 1 == x.rows;
        for (int i = 0; i < WIDTH; i++) expected[i] += counts * x.x[r][i];
        all += counts;
    }
    for (int i = 0; i < WIDTH; i++) expected[i] /= all, squares += expected[i] * expected[i];
    for (int i = 0; i < WIDTH; i++) {
        double length = of->how.normalizes ? sqrt(squares) : 1;
        if (!(fabs(of->numbers[i] - expected[i] / length) < 2e-5))
            fail_msg("%s: number %d of a text of %d tokens is %.9g, and %.9g by hand", c->kind->type, i,
                     (int)of->count, of->numbers[i], expected[i] / length);
    }
}

/* ---- through the engine ---- */

static void make_text(client *c, uint64_t seed, uint32_t i) {
    make_client(c, seed, i, CONTEXT);
    make_pooled(c, seed, i, 1);
    if (!drawn(seed, i, 60, 8)) c->count = CONTEXT;
    for (int64_t k = 0; k < c->count; k++) { /* some begin alike, and none of it is shared */
        uint32_t who = k < 40 && i % 2 ? 1000 + i % 4 : i;
        c->prompt[k] = (int32_t)drawn(seed, who, 200 + (uint32_t)k, VOCABULARY);
    }
    c->leaves = NEVER;
}

/* All of them, as there is room; some go before they were read, some pause. */
static uint64_t run_together(engine *e, client *clients, uint64_t seed) {
    uint32_t next = 0, turn = 0;
    uint64_t steps = 0, left = 0;
    for (; next < REQUESTS || engine_going(e); turn++) {
        for (uint32_t come = 1 + drawn(seed, turn, 70, 8); come-- && next < REQUESTS; next++) {
            engine_request r = request_of(&clients[next]);
            assert_true(engine_ever(e, &r));
            if ((clients[next].place = engine_begin(e, &r)) == ENGINE_NONE) break;
        }
        for (uint32_t i = 0; i < next; i++)
            if (clients[i].place != ENGINE_NONE) {
                engine_pause(e, clients[i].place, !drawn(seed, turn, 100 + i, 9));
                if (drawn(seed, turn, 200 + i, 60)) continue;
                engine_leave(e, clients[i].place);
                clients[i].place = ENGINE_NONE, left++;
            }
        assert_int_equal(engine_step(e, take), STATUS_OK);
        steps++;
        for (uint32_t i = 0; i < next; i++)
            if (clients[i].over && clients[i].place != ENGINE_NONE)
                engine_leave(e, clients[i].place), clients[i].place = ENGINE_NONE;
        assert_true(steps < 10000);
    }
    assert_int_equal(blocks_left(&e->blocks), e->blocks.count);
    assert_int_equal(e->promised + e->doubles, 0);
    return left;
}

static void assert_planned(const engine *e) {
    exec_measured m;
    assert_int_equal(engine_measure(e, &m), STATUS_OK);
    for (int c = 0; c < CATEGORY_COUNT; c++)
        if (c != CATEGORY_RUNTIME) assert_int_equal(m.by_category[c], engine_plan_of(e)->by_category[c]);
}

static void texts_are_what_they_are_alone(void **state) {
    (void)state;
    static client alone[REQUESTS], together[REQUESTS];
    static const dtype caches[] = { DTYPE_F32, DTYPE_F32, DTYPE_BF16, DTYPE_I8 };
    uint64_t cases = SANITIZED ? 6 : 36, left = 0, read = 0;
    for (uint64_t seed = 1; seed <= cases; seed++) {
        dtype cache = caches[seed % 4];
        folder = folders[seed % KINDS];
        for (uint32_t i = 0; i < REQUESTS; i++) make_text(&alone[i], seed, i), together[i] = alone[i];
        run_alone(alone, REQUESTS, cache);
        for (uint32_t i = 0; i < REQUESTS && cache == DTYPE_F32 && seed <= 9; i += 7)
            assert_vector(&folder.config.encoder, &alone[i]);
        engine_sizes sizes = sizes_of(1 + drawn(seed, 0, 50, 9), 1 + drawn(seed, 0, 51, 200), 0, cache);
        sizes.guesses = seed % 2 ? 3 : 0, sizes.expects = seed % 3 == 0;
        engine *e = start(&folder, &sizes, 0, 1 + (int)(seed % 3));
        assert_true(engine_planned(e)->rows >= CONTEXT);
        left += run_together(e, together, seed);
        for (uint32_t i = 0; i < REQUESTS; i++) {
            if (!together[i].over) continue;
            read++;
            if (memcmp(alone[i].numbers, together[i].numbers, sizeof alone[i].numbers) != 0)
                fail_msg("seed %d: text %d of %d tokens has another vector among its neighbours", (int)seed,
                         (int)i, (int)alone[i].count);
        }
        assert_planned(e);
        engine_close(e);
    }
    assert_int_equal(left + read, cases * REQUESTS);
    assert_true(left && read > cases * REQUESTS / 2);
    threads_set(1);
}

/* Down to the least memory that one text fits in; a byte less is refused. */
static void budgets_are_kept(void **state) {
    (void)state;
    static client alone, together;
    engine *e;
    folder = folders[0];
    engine_sizes sizes = sizes_of(8, 256, 0, DTYPE_F32);
    make_text(&alone, 1, 0);
    alone.count = CONTEXT, together = alone;
    run_alone(&alone, 1, DTYPE_F32);
    uint64_t memory = UINT64_MAX;
    int plans = 0;
    for (;; plans++) {
        assert_int_equal(engine_open(&(engine_options){ .threads = 1, .memory = memory }, &folder, &e),
                         STATUS_OK);
        if (engine_plan(e, &sizes) != STATUS_OK) break;
        assert_true(engine_planned_bytes(e) <= memory && engine_planned(e)->rows >= CONTEXT);
        memory = engine_planned_bytes(e) - 1;
        if (plans % 5 == 0) {
            assert_int_equal(engine_start(e), STATUS_OK);
            engine_request r = request_of(&together);
            together.over = false;
            assert_int_equal(engine_begin(e, &r), 0);
            while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
            assert_memory_equal(alone.numbers, together.numbers, sizeof alone.numbers);
        }
        engine_close(e);
    }
    assert_int_equal(engine_planned(e)->texts, 1);
    assert_int_equal(engine_planned(e)->rows, CONTEXT);
    assert_int_equal(engine_planned(e)->blocks, CONTEXT / CACHE_BLOCK);
    engine_close(e);
    assert_true(plans > 10);
    threads_set(1);
}

static status open_kind(int kind) {
    static const char *const keys[KINDS] = {
        "\"hidden_size\": %d, \"num_hidden_layers\": 2, \"num_attention_heads\": %d, \"intermediate_size\": "
        "%d, "
        "\"type_vocab_size\": 2, \"max_position_embeddings\": %d",
        "\"hidden_size\": %d, \"num_hidden_layers\": 2, \"num_attention_heads\": %d, \"intermediate_size\": "
        "%d, "
        "\"type_vocab_size\": 1, \"pad_token_id\": 1, \"max_position_embeddings\": %d",
        "\"dim\": %d, \"n_layers\": 2, \"n_heads\": %d, \"hidden_dim\": %d, \"max_position_embeddings\": %d"
    };
    char config[512];
    int n = snprintf(config, sizeof config, "{\"model_type\": \"%s\", \"vocab_size\": %d, ", names[kind],
                     VOCABULARY);
    n += snprintf(config + n, sizeof config - (size_t)n, keys[kind], WIDTH, HEADS, INNER,
                  CONTEXT + (kind == 1 ? 2 : 0));
    snprintf(config + n, sizeof config - (size_t)n, "}");
    return open_configured(names[kind], config, &folders[kind]);
}

static int open_models(void **state) {
    if (scratch_open(state) != 0) return -1;
    for (int k = 0; k < KINDS; k++)
        if (open_kind(k) != STATUS_OK) return print_error("%s\n", status_message()), -1;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(texts_are_what_they_are_alone),
                                        cmocka_unit_test(budgets_are_kept) };
    return cmocka_run_group_tests(tests, open_models, scratch_close);
}
