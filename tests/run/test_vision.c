/* Models of images against Hugging Face's transformers, a tiny model of each family, alone and under
 * techniques. What trains is what they compute.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/transformers.h"

static const char *const families[] = { "vit",      "dinov2", "dinov2_gated", "clip_vision",
                                        "convnext", "resnet", "resnet_basic", NULL };
/* Batch norm takes the mean of a whole batch, which is not cut into pieces. */
static const char *const by_sample[] = { "vit", "dinov2", "dinov2_gated", "clip_vision", "convnext", NULL };

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
    transformers_losses_of(families, 0, "fuse=on update_early=twice");
    transformers_losses_of(by_sample, 0, "recompute=block");
    transformers_losses_of(by_sample, 1, "recompute=cheap accumulate=add");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(losses_are_those_of_transformers),
                                        cmocka_unit_test(gradients_are_those_of_transformers),
                                        cmocka_unit_test(techniques_change_nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
