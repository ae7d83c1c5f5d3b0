/* Which layers of a decoder have a window, as a config.json says it in letters. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "io/model_config.h"

static bool reads(const char *json, model_config *c) {
    memset(c, 0, sizeof *c);
    return model_config_parse("config.json", json, c) == STATUS_OK;
}

/* EXAONE 4's letters: the pattern repeats, and the last layer sees all. */
static void letters_say_which_layers_have_a_window(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *layers; /* G: sees all */
    } cases[] = { { "\"LLLG\"", "LLLGLLLGLG" },
                  { "\"G\"", "GGGGGGGGGG" },
                  { "\"L\"", "LLLLLLLLLG" },
                  { "\"GLLGLLLLLLLLLL\"", "GLLGLLLLLG" },
                  { "4", "LLLGLLLGLL" } };
    static const char *const wrong[] = { "\"\"", "\"LLXG\"", "\"lllg\"", "0", "true", "[\"L\"]" };
#define LETTERS                                                                                              \
    "{\"model_type\": \"exaone4\", \"num_hidden_layers\": 10, \"num_attention_heads\": 4, "                  \
    "\"num_key_value_heads\": 2, \"hidden_size\": 64, \"intermediate_size\": 96, "                           \
    "\"max_position_embeddings\": 64, \"vocab_size\": 61, \"sliding_window\": 6, "                           \
    "\"sliding_window_pattern\": %s}"
    char json[512];
    model_config c;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        snprintf(json, sizeof json, LETTERS, cases[k].pattern);
        if (!reads(json, &c)) fail_msg("%s: %s", json, status_message());
        for (int i = 0; i < 10; i++) {
            assert_int_equal(decoder_sees_far(&c.decoder, i), cases[k].layers[i] == 'G');
            assert_int_equal(decoder_turns(&c.decoder, i), cases[k].layers[i] != 'G');
        }
    }
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        snprintf(json, sizeof json, LETTERS, wrong[k]);
        if (reads(json, &c)) fail_msg("%s is read", json);
        if (!strstr(status_message(), "sliding_window_pattern")) fail_msg("%s: %s", json, status_message());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(letters_say_which_layers_have_a_window) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
