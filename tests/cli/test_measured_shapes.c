/* What `snug devices --measure` keeps of a GPU's products and attention decides what is predicted: on the
 * emulated GPU, with stand-ins in the place of cuBLASLt and cuDNN (tests/device/standin), a library that was
 * measured to be slower is declined as not faster, and one that was faster is taken. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef SNUG_CUDA_EMULATED

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "device/cuda/device_emulated.h"
#include "io/scratch.h"
#include "run/shapes.h"

#define HALF " --precision mixed-bf16 --attention flash "
#define LIBRARY "LD_LIBRARY_PATH=" SNUG_BUILD "/standin"
#define PLAN                                                                                                 \
    "plan gpt2.json --batch 4 --context 16 --threads 1 --device emulated --eval-samples 2 --rates known "

static const char gpt2[] = "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32, "
                           "\"n_positions\": 32, \"vocab_size\": 256, \"resid_pdrop\": 0, \"embd_pdrop\": 0, "
                           "\"attn_pdrop\": 0}\n";

static void plan_says(const char *options, const char *sentence, bool says) {
    const char *with[] = { LIBRARY, NULL };
    char line[600];
    snprintf(line, sizeof line, PLAN "%s", options);
    command_result c = command_run_with(line, with);
    if (c.exit != 0 || command_has_words(c.out, sentence) != says)
        fail_msg("%s: exit %d, %s%s", line, c.exit, c.out, c.err);
    command_free(&c);
}

/* What `snug devices --measure` would have kept, of a GPU on which one of the two is a hundred times slower.
 */
static void keep_measured(double own, double by_library) {
    measure_pair products[2], attention[2];
    for (int i = 0; i < 2; i++) {
        device_shape one = { .half = i, .tiles = 1, .flops = 65536 };
        products[i] = (measure_pair){ .shape = one, .own = own, .by_library = by_library };
        one.half = true, one.work = i ? DEVICE_ATTENTION_BACKWARD : DEVICE_ATTENTION;
        attention[i] = (measure_pair){ .shape = one, .own = own, .by_library = by_library };
    }
    const shapes_measured of[DEVICE_LIBRARIES] = { { "cuBLASLt 13.1.0", products, 2 },
                                                   { "cuDNN 9.26.0", attention, 2 } };
    command_shell("mkdir -p measured");
    char here[4096], folder[4200];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(folder, sizeof folder, "%s/measured", here);
    assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
    assert_int_equal(shapes_store(&device_emulated, of), STATUS_OK);
}

/* Where snug's own kernels are faster the planner has no reason to take the library's, and says so; where
 * they are not, it takes those. Which they are was measured. */
static void what_is_not_faster_is_declined(void **state) {
    (void)state;
    static const char *const options[] = { "--allow library-products", HALF "--allow library-attention" };
    static const char *const sentences[] = {
        "--library-products was allowed and declined: it is not faster,",
        "--library-attention was allowed and declined: it is not faster,"
    };
    for (int slow = 0; slow < 2; slow++) {
        keep_measured(slow ? 1e-4 : 1e-2, slow ? 1e-2 : 1e-4);
        for (size_t i = 0; i < 2; i++) {
            char json[200];
            plan_says(options[i], sentences[i], slow);
            plan_says(options[i], "products and attention measured here", true);
            snprintf(json, sizeof json, "--json --quiet %s", options[i]);
            plan_says(json, "\"not faster\"", slow);
        }
    }
    assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
}

/* What can't be read is passed over with a sentence, and so is what is of another GPU. */
static void damaged_shapes_are_passed_over(void **state) {
    (void)state;
    static const char *const ways[] = { "echo '{' > $f",
                                        "sed -i 's/emulated/another/' $f",
                                        "sed -i 's/\"tiles\": 1/\"tiles\": -1/' $f",
                                        "sed -i 's/\"product\"/\"guess\"/' $f",
                                        "sed -i 's/\"seconds\": [0-9.e-]*/\"seconds\": 1e400/' $f",
                                        ": > $f" };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        keep_measured(1e-4, 1e-2);
        command_shell("for f in measured/snug/shapes-*.json; do %s; done", ways[i]);
        plan_says("", "measured shapes are passed over:", true);
    }
    assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
}

static int open_folder(void **state) {
    int result = scratch_open(state);
    scratch_write("gpt2.json", gpt2, strlen(gpt2));
    return result;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_not_faster_is_declined),
                                        cmocka_unit_test(damaged_shapes_are_passed_over) };
    return cmocka_run_group_tests_name("measured shapes", tests, open_folder, scratch_close);
}
#else
#include "emulation_left_out.h"

int main(void) { return emulation_left_out("measured shapes"); }
#endif
