/* The decoders against Hugging Face's transformers, a tiny model of each family. Also: techniques on them,
 * and configurations that come back as they were. */
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
#include "run/transformers.h"

static const char *const families[] = { "llama",
                                        "mistral",
                                        "qwen2",
                                        "qwen3",
                                        "phi",
                                        "phi_normed",
                                        "phi3",
                                        "gemma",
                                        "gemma2",
                                        "qwen3_yarn",
                                        "olmo2",
                                        "gemma3_text",
                                        "gpt_neox",
                                        "granite",
                                        "smollm3",
                                        "glm",
                                        "glm4",
                                        "falcon",
                                        "falcon_wide",
                                        "falcon_narrow",
                                        "starcoder2",
                                        "olmo3",
                                        "exaone4",
                                        "ministral",
                                        "vaultgemma",
                                        "seed_oss",
                                        "ernie4_5",
                                        "hunyuan_v1_dense",
                                        "helium",
                                        "arcee",
                                        "jais2",
                                        "stablelm",
                                        "stablelm_parallel",
                                        "cohere",
                                        "cohere2",
                                        NULL };

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
                                        cmocka_unit_test(configurations_come_back) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
