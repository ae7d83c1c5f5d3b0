/* torchtitan's bytes beside sums by hand, from the sizes of Llama 3.1 8B: 32 layers of 4096 channels, 32
 * heads of 128 on 8, 14336 within; 218,112,000 weights a layer, tables of 128,256 rows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "estimate/framework.h"
#include "estimate/titan/titan.h"
#include "io/published.h"
#include "models/families.h"

static model_config config;
static model llama;

static int open_model(void **state) {
    const char *name;
    (void)state;
    if (published_find("llama-3.1-8b", &config, &name) == PUBLISHED_NONE) return 1;
    families_model(&config, name, &llama);
    return 0;
}

static const titan_settings plain = { .tensor = 1,
                                      .pipeline = 1,
                                      .contexts = 1,
                                      .experts = 1,
                                      .replicas = 1,
                                      .gpus = 8,
                                      .batch = 2,
                                      .context = 8192,
                                      .passes = 1,
                                      .accumulate = 1,
                                      .stages_each = 1 };

static titan_result asked(titan_settings s) {
    titan_result r;
    assert_int_equal(titan_check(&llama, &config, &s), STATUS_OK);
    assert_int_equal(titan_estimate(&llama, &config, &s, &r), STATUS_OK);
    return r;
}

static const double layer = 218112000, table = 128256.0 * 4096, norm = 4096;
static const double tokens = 16384, channels = 4096, within = 14336, keys = 1024;

static void states_are_shared_out(void **state) {
    (void)state;
    double all = 32 * layer + 2 * table + norm;
    titan_settings s = plain;
    assert_true(asked(s).parameters == all);
    assert_true(asked(s).at.weights == 4 * all / 8);
    assert_true(asked(s).at.optimizer == 8 * all / 8);
    s.gpus = 16, s.replicas = 2; /* HSDP */
    assert_true(asked(s).shards == 8);
    assert_true(asked(s).at.weights == 4 * all / 8);
    s.replicas = 1, s.contexts = 2; /* contexts share weights out too */
    assert_true(asked(s).at.weights == 4 * all / 16);
    s.tensor = 2, s.experts = 8; /* experts of 8 lie on 2 x 2 devices and as many shares */
    assert_int_equal(titan_least_devices(&s), 8);
    s = plain, s.accumulate = 2; /* gradients of the pass before */
    assert_true(asked(s).at.live - asked(plain).at.live == 4 * all / 8);
    s.context = 1024,
    s.checkpoint = TITAN_FULL; /* so the loss is the most, which else is the end of backward */
    assert_true(asked(s).at.logits > 0);
    s.accumulate = 1;
    assert_true(asked(s).at.logits == 0);
    s = plain, s.tensor = 2;
    assert_true(asked(s).shards == 4);
    assert_true(asked(s).at.weights == 4 * all / 8);
}

/* What came in, queries, values, gate, attention's result with a number a row and head, and the last
 * product's, which a compiled block leaves out. */
static void every_second_product_is_kept(void **state) {
    (void)state;
    titan_settings s = plain;
    double kept = 2 * tokens * (channels + channels + keys + within + channels + channels) + 4 * tokens * 32;
    assert_true(asked(s).at.activations == 32 * kept);
    s.compiled = s.eager_loss = true;
    assert_true(asked(s).at.activations == 32 * (kept - 2 * tokens * channels));
    s.checkpoint = TITAN_FULL;
    assert_true(asked(s).at.activations == 32 * 2 * tokens * channels);
    s.tensor = 8, s.gpus = 64;
    assert_true(asked(s).at.activations == 32 * 2 * tokens * channels / 8);
}

/* The log-softmax in f32, its gradient and that of the logits; of divided products one more; compiled, logits
 * and their gradients in bf16. */
static void the_loss_is_what_its_code_holds(void **state) {
    (void)state;
    titan_settings s = plain;
    const double head = 2 * tokens * channels;
    assert_true(asked(s).at.logits == 12 * tokens * 128256 + head);
    s.compiled = true;
    assert_true(asked(s).at.logits == 4 * tokens * 128256 + head);
    s.eager_loss = true;
    assert_true(asked(s).at.logits == 12 * tokens * 128256 + head);
    s.tensor = 2;
    assert_true(asked(s).at.logits == 16 * tokens * 128256 / 2 + head);
    assert_true(asked(s).at.left == 2 * tokens * 128256 / 2);
    s = plain, s.loss = TITAN_LOSS_CHUNKED, s.checkpoint = TITAN_FULL;
    titan_stage chunked = asked(s).at;
    s.loss = TITAN_LOSS_PLAIN;
    assert_true(chunked.live < asked(s).at.live);
}

/* Reserved: what is live and 3 % of it, what the loss leaves, and the streams; within 2.1 % of what
 * torchtitan published of 8B, compiled and not, over 8 devices. */
static void what_is_reserved_is_what_was_published(void **state) {
    static const double published[] = { 82.4, 77.0 };
    const hardware none = { 0 };
    (void)state;
    for (int compiled = 0; compiled < 2; compiled++) {
        framework_settings s = { .titan = plain };
        framework_subject q = { .model = &llama, .config = &config, .hardware = &none };
        framework_result r;
        s.titan.foreach = s.titan.eager_loss = true, s.titan.compiled = compiled;
        titan_stage at = asked(s.titan).at;
        assert_true(titan_held(&at) == at.live + at.streams + at.left && at.left > 0);
        assert_int_equal(framework_titan.estimate(&q, &s, &r), STATUS_OK);
        double likely = (double)r.layers[FRAMEWORK_RESERVED].likely;
        assert_true(fabs(likely - titan_held(&at) - 0.03 * at.live) < 2);
        assert_true(fabs(likely / (published[compiled] * 0x1p30) - 1) < 0.021);
    }
}

/* A stage of 1F1B keeps as many micro-batches as there are stages from it on; of two parts each, by Narayanan
 * et al.; never more than there are. */
static void pipelines_keep_what_is_in_flight(void **state) {
    (void)state;
    titan_settings s = plain;
    s.pipeline = 4, s.gpus = 8, s.batch = 8, s.passes = 8;
    titan_result r = asked(s);
    assert_true(r.at.kept == 4 - (double)r.stage);
    s.passes = 2;
    assert_true(asked(s).at.kept <= 2);
    s.passes = 8, s.stages_each = 2, s.schedule = TITAN_INTERLEAVED;
    r = asked(s);
    assert_true(r.at.kept == fmin(16, 2 * (3 - (double)r.stage) + 4 + 1));
    s = plain, s.pipeline = 2, s.passes = 2; /* 34 units: 16 layers and an end on each */
    assert_true(asked(s).at.layers == 16);
}

/* Weights that are sent in 8 bits are a half of what is gathered of them; nothing else gets smaller. */
static void float8_saves_what_is_sent_alone(void **state) {
    (void)state;
    titan_settings s = plain, codes;
    s.compiled = s.eager_loss = true;
    codes = s, codes.float8 = TITAN_ROWWISE;
    titan_result was = asked(s), rows = asked(codes);
    assert_true(rows.at.weights == was.at.weights && rows.at.activations == was.at.activations);
    assert_true(rows.at.gathered == was.at.gathered && rows.at.saved == 0);
    codes.float8 = TITAN_TENSORWISE, codes.gathers_float8 = true;
    titan_result sent = asked(codes);
    double matrices = layer - 2 * norm;
    assert_true(was.at.gathered - sent.at.gathered == 2 * matrices);
    assert_true(sent.at.saved == 3 * matrices);
    assert_true(sent.at.activations == was.at.activations && sent.at.optimizer == was.at.optimizer);
    codes.float8 = TITAN_MX;
    assert_int_equal(titan_check(&llama, &config, &codes), STATUS_INVALID);
}

static void what_cannot_be_divided_is_refused(void **state) {
    (void)state;
    struct {
        titan_settings s;
        const char *says;
    } cases[] = { { plain, "heads of keys and values: 8 can't be divided" },
                  { plain, "say a multiple of 3" },
                  { plain, "the model has no experts" },
                  { plain, "say --pipeline-parallel-degree" },
                  { plain, "samples of --batch: 2" },
                  { plain, "32 layers over 32 stages" } };
    cases[0].s.tensor = 16, cases[0].s.gpus = 16;
    cases[1].s.replicas = 3;
    cases[2].s.experts = 2;
    cases[3].s.passes = 2;
    cases[4].s.pipeline = 2, cases[4].s.passes = 4;
    cases[5].s.pipeline = 32, cases[5].s.gpus = 32;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(titan_check(&llama, &config, &cases[i].s), STATUS_INVALID);
        if (!strstr(status_message(), cases[i].says)) fail_msg("%zu: %s", i, status_message());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(states_are_shared_out),
                                        cmocka_unit_test(every_second_product_is_kept),
                                        cmocka_unit_test(the_loss_is_what_its_code_holds),
                                        cmocka_unit_test(what_is_reserved_is_what_was_published),
                                        cmocka_unit_test(pipelines_keep_what_is_in_flight),
                                        cmocka_unit_test(float8_saves_what_is_sent_alone),
                                        cmocka_unit_test(what_cannot_be_divided_is_refused) };
    return cmocka_run_group_tests(tests, open_model, NULL);
}
