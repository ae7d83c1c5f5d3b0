/* The decoders against Hugging Face's transformers, a tiny model of each family. Also: techniques on them,
 * generating, and configurations that come back as they were. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/threads.h"
#include "io/scratch.h"
#include "oracle/reach.h"
#include "run/transformers.h"

static const char *const families[] = { "llama",      "mistral",    "qwen2", "qwen3",       "phi",
                                        "phi_normed", "phi3",       "gemma", "gemma3_text", "gpt_neox",
                                        "gemma2",     "qwen3_yarn", NULL };

static void losses_are_those_of_transformers(void **state) {
    (void)state;
    transformers_losses_of(families, 0, "");
}

static void gradients_are_those_of_transformers(void **state) {
    (void)state;
    transformers_gradients_of(families);
}

static void techniques_change_nothing(void **state) {
    (void)state;
    transformers_losses_of(families, 0,
                           "fuse=on attention=flash recompute=block update_early=twice chunk_loss=32");
    transformers_losses_of(families, 1, "attention=flash recompute=cheap accumulate=add");
}

/* The logits of position after position, from caches, are those of the whole text at once. */
static void decoding_agrees(const char *family) {
    enum { TIMES = 24 };
    transformers t;
    plan p;
    exec *e;
    double loss = 0;
    transformers_open(&t, family);
    t.lab.run.batch = 3;
    assert_int_equal(compose_decode(&t.lab.run, NULL, &p), STATUS_OK);
    assert_int_equal(exec_open(&p, 0, &e), STATUS_OK);
    lab_fill_weights(&t.lab, &p, e);
    for (int at = 0; at < TIMES; at++) {
        int32_t *tokens = reach_input(e, "decode", "tokens");
        *(int32_t *)reach_input(e, "decode", "position") = at;
        for (int b = 0; b < 3; b++) tokens[b] = t.lab.token(0, b, at);
        reach_run(e, "decode");
        const float *logits = reach_output(e, "decode", "logits");
        for (int b = 0; b < 3; b++) {
            const float *row = logits + b * 61;
            double sum = 0;
            for (int v = 0; v < 61; v++) sum += exp((double)row[v]);
            loss += log(sum) - (double)row[t.lab.token(0, b, at + 1)];
        }
    }
    if (!(fabs(loss / (3 * TIMES) - t.golden.loss[0]) < 1e-5 * t.golden.loss[0]))
        fail_msg("%s: the loss of decoded logits is %.8g, transformers has %.8g", family, loss / (3 * TIMES),
                 t.golden.loss[0]);
    exec_close(e);
    plan_close(&p);
    transformers_close(&t);
}

static void decoding_is_the_same_model(void **state) {
    (void)state;
    for (int i = 0; families[i]; i++) decoding_agrees(families[i]);
}

static void configurations_come_back(void **state) {
    (void)state;
    for (int i = 0; families[i]; i++) {
        model_config c, back;
        transformers_configuration(families[i]);
        transformers_config(families[i], &c);
        assert_int_equal(model_config_read("config.json", &back, NULL), STATUS_OK);
        assert_true(c.decoder.kind == back.decoder.kind && c.decoder.head_size == back.decoder.head_size);
        assert_memory_equal(c.decoder.far, back.decoder.far, sizeof c.decoder.far);
    }
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = { cmocka_unit_test(losses_are_those_of_transformers),
                                        cmocka_unit_test(gradients_are_those_of_transformers),
                                        cmocka_unit_test(techniques_change_nothing),
                                        cmocka_unit_test(decoding_is_the_same_model),
                                        cmocka_unit_test(configurations_come_back) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
