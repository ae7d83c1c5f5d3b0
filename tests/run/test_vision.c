/* Models of images against Hugging Face's transformers, a tiny model of each family, alone and under
 * techniques. Nobody trains them with snug yet: this is the proof that what is planned is what they compute.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/transformers.h"

/* Batch norm takes the mean of a whole batch: those with it come last, and are not cut into pieces. */
static const char *const families[] = { "vit", "clip_vision", "convnext", "resnet", "resnet_basic" };
enum { FAMILIES = sizeof families / sizeof *families, BY_SAMPLE = 3 };

static void losses_are_those_of_transformers(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) transformers_losses(families[i], 0, "");
}

static void gradients_are_those_of_transformers(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) transformers_gradients(families[i]);
}

static void techniques_change_nothing(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) transformers_losses(families[i], 0, "fuse=on update_early=twice");
    for (int i = 0; i < BY_SAMPLE; i++) {
        transformers_losses(families[i], 0, "recompute=block");
        transformers_losses(families[i], 1, "recompute=cheap accumulate=add");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(losses_are_those_of_transformers),
                                        cmocka_unit_test(gradients_are_those_of_transformers),
                                        cmocka_unit_test(techniques_change_nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
