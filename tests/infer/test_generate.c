#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "exec/exec.h"
#include "golden/golden.h"
#include "infer/generate.h"
#include "infer/sample.h"
#include "io/model_files.h"
#include "io/scratch.h"
#include "oracle/oracle.h"

enum { CONTEXT = 12, VOCABULARY = 128, MOST_WEIGHTS = 64 };

/* The model of these tests stands in ./model, and in the oracle. */
static oracle *truth;
static gpt2_config config;

static void fill(oracle *o, model_weight *weights, float **data) {
    for (int i = 0; i < oracle_count(o); i++) {
        oracle_tensor *t = oracle_tensor_at(o, i);
        data[i] = malloc((size_t)t->count * sizeof(float));
        for (int64_t k = 0; k < t->count; k++)
            t->value[k] = (double)(data[i][k] = 3 * golden_weight(t->name, t->rank, k));
        shape s = t->rank == 2 ? SHAPE(t->dim[0], t->dim[1]) : SHAPE(t->dim[0]);
        weights[i] = (model_weight){ .name = t->name, .shape = s, .data = data[i] };
    }
}

static int open_model(void **state) {
    if (scratch_open(state) != 0 || mkdir("model", 0755) != 0) return -1;
    config = gpt2_default();
    config.layers = 2, config.heads = 3, config.channels = 24, config.inner = 96;
    config.context = CONTEXT, config.vocabulary = VOCABULARY;
    truth = oracle_open(&(oracle_config){ .layers = 2,
                                          .heads = 3,
                                          .channels = 24,
                                          .context = CONTEXT,
                                          .vocabulary = VOCABULARY,
                                          .batch = 1,
                                          .tied = true });
    static model_weight weights[MOST_WEIGHTS];
    static float *data[MOST_WEIGHTS];
    int count = oracle_count(truth);
    if (count > MOST_WEIGHTS) return -1;
    fill(truth, weights, data);
    status result = model_files_write_config("model", &config);
    if (result == STATUS_OK) result = model_files_save("model", weights, (uint32_t)count);
    for (int i = 0; i < count; i++) free(data[i]);
    return result == STATUS_OK ? 0 : -1;
}

static int close_model(void **state) {
    oracle_close(truth);
    return scratch_close(state);
}

/* log p(token `id` | ids[0 .. count-1]) by the oracle. */
static double true_log(const int32_t *ids, int count, int32_t id) {
    int32_t labels[CONTEXT];
    for (int i = 0; i < count; i++) labels[i] = i == count - 1 ? id : -100;
    return -oracle_loss(
        truth, &(oracle_batch){ .samples = 1, .time = count, .tokens = ids, .labels = labels, .scale = 1 });
}

/* ---- the decoding program ---- */

static void load_into(exec *e, const plan *p) {
    model_weight weights[MOST_WEIGHTS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->category == CATEGORY_WEIGHTS)
            weights[count++] = (model_weight){ x->name, x->shape, exec_persistent(e, x->name) };
    }
    assert_int_equal(model_files_load("model", weights, count), STATUS_OK);
}

static void one_token_at_a_time_gives_the_logits_of_the_whole(void **state) {
    (void)state;
    static const int32_t ids[CONTEXT] = { 5, 127, 0, 33, 33, 64, 1, 99, 12, 12, 77, 3 };
    model m;
    gpt2_model(&config, "tiny", &m);
    for (unsigned modes = 0; modes < 8; modes++) {
        plan p;
        exec *e;
        lower_options lower = { .threads = threads_count(), .rates = device_rates_default(1) };
        assert_int_equal(compose_decode(&m, &lower, &p), STATUS_OK);
        assert_int_equal(exec_open(&p, modes, &e), STATUS_OK);
        load_into(e, &p);
        for (int i = 0; i < CONTEXT; i++) {
            *(int32_t *)exec_input(e, PROGRAM_DECODE, "tokens") = ids[i];
            *(int32_t *)exec_input(e, PROGRAM_DECODE, "position") = i;
            exec_run(e, PROGRAM_DECODE);
            const float *logits = exec_output(e, PROGRAM_DECODE, "logits");
            assert_non_null(logits);
            double total = 0;
            for (int k = 0; k < VOCABULARY; k++) total += exp((double)logits[k]);
            for (int32_t k = 0; k < VOCABULARY; k++)
                assert_true(fabs((double)logits[k] - log(total) - true_log(ids, i + 1, k)) < 2e-5);
        }
        exec_close(e);
        plan_close(&p);
    }
}

/* ---- whole texts ---- */

typedef struct {
    int32_t ids[CONTEXT + 1];
    int count;
} written;

static void write_down(void *context, int32_t id) {
    written *w = context;
    assert_true(w->count <= CONTEXT);
    w->ids[w->count++] = id;
}

static written run(generate_options o, generate_result *r) {
    written w = { .count = 0 };
    o.directory = "model", o.token = write_down, o.context = &w;
    assert_int_equal(generate_run(&o, r), STATUS_OK);
    assert_int_equal(r->new_tokens, w.count);
    assert_true(r->seconds_prompt > 0 && r->seconds_new >= 0);
    return w;
}

static void greedy_takes_the_likeliest(void **state) {
    (void)state;
    generate_result r;
    written w = run((generate_options){ .prompt = "ab~", .tokens = 6, .seed = 1 }, &r);
    int32_t ids[CONTEXT] = { 'a', 'b', '~' };
    assert_int_equal(w.count, 6);
    assert_int_equal(r.prompt_tokens, 3);
    for (int i = 0; i < w.count; i++) {
        int32_t best = 0;
        for (int32_t k = 0; k < VOCABULARY; k++)
            if (true_log(ids, 3 + i, k) > true_log(ids, 3 + i, best)) best = k;
        assert_int_equal(w.ids[i], best);
        ids[3 + i] = w.ids[i];
    }
    written one =
        run((generate_options){ .prompt = "ab~", .tokens = 6, .temperature = 2, .top_k = 1, .seed = 9 }, &r);
    assert_memory_equal(one.ids, w.ids, sizeof one.ids[0] * 6);
}

static void the_seed_decides(void **state) {
    (void)state;
    generate_result r;
    generate_options o = { .prompt = "x", .tokens = 11, .temperature = 1.5, .seed = 4, .threads = 1 };
    written a = run(o, &r);
    o.threads = 3;
    written b = run(o, &r);
    assert_memory_equal(&a, &b, sizeof a);
    o.seed = 5;
    written c = run(o, &r);
    assert_true(memcmp(&a, &c, sizeof a) != 0);
    threads_set(1);
}

static void it_ends_where_the_context_ends(void **state) {
    (void)state;
    generate_result r;
    assert_int_equal(run((generate_options){ .prompt = "0123456789", .tokens = 50 }, &r).count, CONTEXT - 10);
    assert_int_equal(run((generate_options){ .prompt = "0123456789", .tokens = 0 }, &r).count, 0);
    written empty = run((generate_options){ .prompt = "", .tokens = 3 }, &r);
    assert_int_equal(r.prompt_tokens, 1);
    written line = run((generate_options){ .prompt = "\n", .tokens = 3 }, &r);
    assert_memory_equal(&empty, &line, sizeof line);
    assert_int_equal(run((generate_options){ .tokens = 100 }, &r).count, CONTEXT - 1);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    generate_result r;
    static const struct {
        generate_options options;
        const char *sentence;
    } cases[] = {
        { { .directory = "model", .prompt = "0123456789ab", .tokens = 1 }, "the context 12" },
        { { .directory = "model", .prompt = "a\xc3\xa9", .tokens = 1 }, "byte 1 of the prompt is 195" },
        { { .directory = "model", .prompt = "a", .tokens = -1 }, "-1 tokens" },
        { { .directory = "model", .prompt = "a", .tokens = 1, .temperature = -1 }, "temperature is -1" },
        { { .directory = "model", .prompt = "a", .tokens = 1, .temperature = NAN }, "temperature" },
        { { .directory = "model", .prompt = "a", .tokens = 1, .top_k = -1 }, "top-k is -1" },
        { { .directory = "nowhere", .prompt = "a", .tokens = 1 }, "nowhere" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(generate_run(&cases[i].options, &r), STATUS_INVALID);
        assert_non_null(strstr(status_message(), cases[i].sentence));
        assert_int_equal(r.new_tokens, 0);
    }
}

static void the_budget_is_kept_to_the_byte(void **state) {
    (void)state;
    generate_result r;
    run((generate_options){ .prompt = "a", .tokens = 2 }, &r);
    uint64_t needed = r.planned_bytes;
    run((generate_options){ .prompt = "a", .tokens = 2, .memory = needed }, &r);
    assert_true(r.planned_bytes == needed);
    generate_options less = { .directory = "model", .prompt = "a", .tokens = 2, .memory = needed - 1 };
    assert_int_equal(generate_run(&less, &r), STATUS_NO_FIT);
    assert_non_null(strstr(status_message(), "1 B more"));
}

/* ---- drawing ---- */

static void draws_follow_the_distribution(void **state) {
    (void)state;
    static const float logits[6] = { 0, 1, -2, 1, 3, -0.0f };
    enum { DRAWS = 20000 };
    for (int64_t top = 0; top <= 7; top++) {
        sample_options o = { .temperature = 2, .top_k = top, .seed = 77 };
        int seen[6] = { 0 };
        for (uint32_t position = 0; position < DRAWS; position++) {
            int32_t id;
            assert_int_equal(sample_next(&o, logits, 6, position, &id), STATUS_OK);
            seen[id]++;
        }
        /* Of the likeliest two there are three, of the likeliest four five: equals are kept together. */
        static const float least[8] = { -9, 3, 1, 1, 0, 0, -9, -9 };
        double total = 0;
        for (int i = 0; i < 6; i++) total += logits[i] >= least[top] ? exp((double)logits[i] / 2) : 0;
        for (int i = 0; i < 6; i++) {
            double p = logits[i] >= least[top] ? exp((double)logits[i] / 2) / total : 0;
            assert_true(fabs(seen[i] - DRAWS * p) <= 4.5 * sqrt(DRAWS * p * (1 - p)));
        }
    }
}

static void extreme_logits_are_no_trouble(void **state) {
    (void)state;
    float logits[3] = { -3e38f, 3e38f, 3e38f };
    int32_t id;
    for (int i = 0; i < 3; i++) {
        sample_options o = { .temperature = i == 0 ? 0 : i == 1 ? 1e-300 : 1000, .seed = 3 };
        assert_int_equal(sample_next(&o, logits, 3, 0, &id), STATUS_OK);
        assert_true(i == 0 ? id == 1 : id >= 1);
    }
    logits[2] = NAN;
    assert_int_equal(sample_next(&(sample_options){ .temperature = 1 }, logits, 3, 8, &id), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "token 2 at position 8"));
    logits[2] = INFINITY;
    assert_int_equal(sample_next(&(sample_options){ .temperature = 0 }, logits, 3, 8, &id), STATUS_FAILED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_token_at_a_time_gives_the_logits_of_the_whole),
        cmocka_unit_test(greedy_takes_the_likeliest),
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(it_ends_where_the_context_ends),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(the_budget_is_kept_to_the_byte),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(extreme_logits_are_no_trouble),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
