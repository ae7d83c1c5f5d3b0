/* Seconds of torchtitan's step beside sums by hand, from the sizes of Llama 3.1 8B (test_titan.c); what
 * settings do to them; and tokens a second beside published ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "estimate/hardware_files.h"
#include "estimate/titan/titan_time.h"
#include "io/published.h"
#include "models/families.h"

static model_config config;
static model llama;
static hardware device;

static int open_model(void **state) {
    const char *name;
    (void)state;
    if (published_find("llama-3.1-8b", &config, &name) == PUBLISHED_NONE) return 1;
    families_model(&config, name, &llama);
    return hardware_find("h100-96", &device) != STATUS_OK;
}

static const titan_settings plain = { .tensor = 1,
                                      .pipeline = 1,
                                      .contexts = 1,
                                      .experts = 1,
                                      .replicas = 1,
                                      .gpus = 1,
                                      .batch = 2,
                                      .context = 8192,
                                      .passes = 1,
                                      .accumulate = 1,
                                      .stages_each = 1,
                                      .checkpoint = TITAN_KEEPS,
                                      .compiled = true };

static titan_time asked(titan_settings s) {
    titan_result r;
    titan_time t = { 0 };
    assert_int_equal(titan_check(&llama, &config, &s), STATUS_OK);
    assert_int_equal(titan_estimate(&llama, &config, &s, &r), STATUS_OK);
    const char *why = titan_time_find(&config, &s, &device, &r, &t);
    if (why) fail_msg("%s", why);
    double parts = t.products + t.attention + t.memory + t.sending + t.update + t.idle + t.begins;
    assert_true(fabs(parts - t.step) < 1e-9 * t.step && t.sending >= 0 && t.begins >= 0);
    assert_true(t.tokens_low < t.tokens && t.tokens < t.tokens_high);
    return t;
}

static void near(double is, double should) {
    if (fabs(is - should) > 1e-9 * should) fail_msg("%g, not %g", is, should);
}

static const double layer = 218103808, last = 14336.0 * 4096, head = 128256.0 * 4096, tokens = 16384;

/* Twice for each weight and token forward, four times on the way back; of a layer that is computed again
 * twice more, but for its last product. In 8 bits all but the head. */
static void products_are_counted(void **state) {
    const double rate = 706e12 * 0.746, rate_8 = 1413e12 * 0.746 * 0.709 / 0.803;
    titan_settings s = plain;
    (void)state;
    near(asked(s).products, tokens * 6 * (32 * layer + head) / rate);
    s.checkpoint = TITAN_FULL;
    near(asked(s).products, tokens * (32 * (8 * layer - 2 * last) + 6 * head) / rate);
    s.checkpoint = TITAN_SELECTIVE;
    near(asked(s).products,
         tokens * (32 * (6 * layer + 2 * (4096.0 * 1024 + 4096.0 * 4096 + last)) + 6 * head) / rate);
    s = plain, s.float8 = TITAN_TENSORWISE;
    near(asked(s).products, tokens * 6 * (32 * layer / rate_8 + head / rate));
    assert_true(asked(s).memory > asked(plain).memory);
    s = plain, s.accumulate = 3;
    near(asked(s).products, 3 * asked(plain).products);
    near(asked(s).update, asked(plain).update);
}

/* A token looks back at half of the text at the mean. Forward has two products of what is looked at, backward
 * five; only where all is computed again attention is. */
static void attention_is_counted(void **state) {
    double once = tokens * 32 * 2 * 2 * 4096 * 4096 / (706e12 * 0.31);
    titan_settings s = plain;
    (void)state;
    near(asked(s).attention, 3.5 * once);
    s.checkpoint = TITAN_SELECTIVE;
    near(asked(s).attention, 3.5 * once);
    s.checkpoint = TITAN_FULL;
    near(asked(s).attention, 4.5 * once);
    s.batch = 1, s.context = 16384; /* as many tokens look back twice as far */
    near(asked(s).attention, 9 * once);
}

/* Of eight tensors: forward gathers twice and scatters twice what lies between products, and so does
 * backward; head and loss once each. 370 of NVLink's 450 GB/s. */
static void tensors_send(void **state) {
    titan_settings s = plain;
    (void)state;
    s.tensor = 8, s.gpus = 8;
    double once = 2 * tokens * 4096 * 7 / 8 / 370e9;
    near(asked(s).sending, (32 * 8 + 2) * once);
    s.sends_beside = true;
    near(asked(s).sending, (32 * 8 * 2.0 / 3 + 2) * once);
    s.sends_beside = false, s.float8 = TITAN_ROWWISE; /* what is gathered has 8 bits */
    near(asked(s).sending, (32 * 6 + 2) * once);
    s.float8 = TITAN_BF16, s.checkpoint = TITAN_FULL; /* two gatherings more, and the first scattering */
    near(asked(s).sending, (32 * 11 + 2) * once);
}

/* What FSDP sends is hidden but for a layer's weights and gradients, as long as products take longer. */
static void shares_are_sent_beside(void **state) {
    titan_settings s = plain;
    (void)state;
    assert_true(asked(s).sending == 0);
    s.gpus = 8;
    double all = 32 * (layer + 2 * 4096) + 2 * head + 4096, edges = 6 * all * 7 / 8 / 370e9 / 33;
    titan_time near_ones = asked(s);
    near(near_ones.sending, edges);
    assert_true(near_ones.memory > asked(plain).memory); /* copies out of what was gathered */
    s.gpus = 128; /* a node of eight sends as much through eight links of 50 GB/s */
    near(asked(s).sending, 6 * all * 127 / 128 / (400e9 * 370 / 450) / 33);
    s.gpus = 8, s.context = 256;
    assert_true(asked(s).sending > 4 * near_ones.sending); /* little is computed beside it */
    s.context = 8192, s.gpus = 16, s.replicas = 2;
    assert_true(asked(s).sending > near_ones.sending);
}

/* Of P devices and M micro-batches (P - 1) of M more are waited, with two parts each half of it. */
static void pipelines_fill_and_empty(void **state) {
    titan_settings s = plain;
    (void)state;
    s.pipeline = 2, s.gpus = 2, s.batch = s.passes = 8;
    titan_time one = asked(s);
    near(one.idle, (one.products + one.attention + one.memory + one.sending) / 8);
    s.stages_each = 2, s.schedule = TITAN_INTERLEAVED;
    titan_time two = asked(s);
    near(two.idle, (two.products + two.attention + two.memory + two.sending) / 16);
    assert_true(two.tokens > one.tokens);
}

static void small_models_wait_for_kernels_to_begin(void **state) {
    titan_settings s = plain;
    (void)state;
    assert_true(asked(s).begins == 0);
    s.batch = 1, s.context = 16;
    assert_true(asked(s).begins > 0);
    s.compiled = false;
    assert_true(asked(s).step > 32 * 150 * 10e-6);
}

static void what_has_no_rate_is_said(void **state) {
    static const struct {
        const char *device, *words;
        titan_float8 float8;
        int64_t gpus;
    } cases[] = { { "t4", "without flash attention", TITAN_BF16, 1 },
                  { "a100-80", "no rate for 8 bits", TITAN_ROWWISE, 1 },
                  { "rtx-4090", "sends to others of its node", TITAN_BF16, 2 } };
    titan_result r;
    titan_time t;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hardware h;
        titan_settings s = plain;
        assert_int_equal(hardware_find(cases[i].device, &h), STATUS_OK);
        s.float8 = cases[i].float8, s.gpus = cases[i].gpus;
        assert_int_equal(titan_estimate(&llama, &config, &s, &r), STATUS_OK);
        const char *why = titan_time_find(&config, &s, &h, &r, &t);
        if (!why || !strstr(why, cases[i].words))
            fail_msg("%s: %s", cases[i].device, why ? why : "it has an answer");
    }
}

/* github.com/pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md; bench/results/titan.md has all.
 */
static void published_runs_are_near(void **state) {
    static const struct {
        int64_t gpus;
        bool compiled;
        titan_float8 float8;
        double tokens;
    } runs[] = { { 8, false, TITAN_BF16, 5762 },
                 { 8, true, TITAN_BF16, 6667 },
                 { 8, true, TITAN_TENSORWISE, 8532 },
                 { 128, false, TITAN_BF16, 5605 },
                 { 128, true, TITAN_TENSORWISE, 8380 } };
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        titan_settings s = plain;
        s.gpus = runs[i].gpus, s.compiled = runs[i].compiled, s.float8 = runs[i].float8;
        s.gathers_float8 = s.float8 == TITAN_TENSORWISE;
        s.checkpoint = TITAN_SELECTIVE, s.foreach = s.eager_loss = true;
        double ratio = asked(s).tokens / runs[i].tokens;
        if (ratio < 0.85 || ratio > 1.15) fail_msg("run %zu: %.2f of what was published", i, ratio);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(products_are_counted),
                                        cmocka_unit_test(attention_is_counted),
                                        cmocka_unit_test(tensors_send),
                                        cmocka_unit_test(shares_are_sent_beside),
                                        cmocka_unit_test(pipelines_fill_and_empty),
                                        cmocka_unit_test(small_models_wait_for_kernels_to_begin),
                                        cmocka_unit_test(what_has_no_rate_is_said),
                                        cmocka_unit_test(published_runs_are_near) };
    return cmocka_run_group_tests(tests, open_model, NULL);
}
