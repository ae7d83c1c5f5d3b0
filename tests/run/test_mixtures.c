/* Mixtures of experts against Hugging Face's transformers, a tiny model of each family, alone and under
 * techniques. Nobody trains them with snug yet: this is the proof that what is planned is what they compute.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/transformers.h"

static const char *const families[] = { "mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "olmoe_bounded", NULL };
static const char *const balanced[] = { "mixtral_balanced", "qwen3_moe_balanced", NULL };

static void losses_are_those_of_transformers(void **state) {
    (void)state;
    transformers_losses_of(families, 0, "");
    transformers_losses_of(balanced, 0, "");
}

static void gradients_are_those_of_transformers(void **state) {
    (void)state;
    transformers_gradients_of(families);
    transformers_gradients_of(balanced);
}

static void techniques_change_nothing(void **state) {
    (void)state;
    transformers_losses_of(families, 0,
                           "fuse=on attention=flash recompute=block update_early=twice chunk_loss=32");
    transformers_losses_of(balanced, 0,
                           "fuse=on attention=flash recompute=block update_early=twice chunk_loss=32");
    transformers_losses_of(families, 1, "attention=flash recompute=cheap accumulate=add");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(losses_are_those_of_transformers),
                                        cmocka_unit_test(gradients_are_those_of_transformers),
                                        cmocka_unit_test(techniques_change_nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
