/* llm.c's blocks, to the byte or the MiB that its programs print. Printed values: README and train_gpt2.c's
 * output (num_activations: 73323776, B 4, T 64); karpathy/llm.c#201 (train_gpt2_fp32.cu, B 4, T 1024); a log
 * of train_gpt2cu -e d12 -b 56 -t 1024 -r 1 with cuDNN; karpathy/llm.c#676 (350M, B 20, -r 2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "estimate/llmc/llmc.h"
#include "models/families.h"

static llmc_bytes bytes_of(const char *preset, const llmc_settings *s) {
    static model_config c;
    model m;
    llmc_bytes b;
    assert_true(families_preset(preset, &c));
    families_model(&c, preset, &m);
    assert_int_equal(llmc_read(&m, s, &b), STATUS_OK);
    return b;
}

static uint64_t mib(uint64_t bytes) { return bytes >> 20; }

static void the_cpus_activations_are_what_it_prints(void **state) {
    (void)state;
    llmc_bytes b = bytes_of("gpt2", &(llmc_settings){ .program = LLMC_CPU, .batch = 4, .context = 64 });
    assert_true(b.parameters == 124439808 && b.weights == 4 * b.parameters);
    assert_true(b.activations == UINT64_C(73323776) * 4);
    assert_true(b.activation_gradients == b.activations && !b.masters);
}

static void the_arena_of_f32_is_what_it_prints(void **state) {
    (void)state;
    llmc_bytes b =
        bytes_of("gpt2", &(llmc_settings){ .program = LLMC_CUDA_F32, .batch = 4, .context = 1024 });
    assert_int_equal(mib(b.weights), 474);
    assert_int_equal(mib(b.activations), 5706);
    assert_int_equal(mib(b.gradients), 474);
    assert_int_equal(mib(b.activation_gradients), 252);
    assert_int_equal(mib(b.moments / 2), 474);
}

static void the_arena_of_16_bits_is_what_it_prints(void **state) {
    (void)state;
    llmc_settings s = { .program = LLMC_CUDA, .again = 1, .cudnn = true, .batch = 56, .context = 1024 };
    llmc_bytes b = bytes_of("gpt2", &s);
    assert_true(b.parameters == 124475904); /* a vocabulary of 50,304 */
    assert_int_equal(mib(b.weights), 237);
    assert_int_equal(mib(b.gradients), 237);
    assert_int_equal(mib(b.activations), 18564);
    assert_int_equal(mib(b.moments / 2), 474);
    assert_int_equal(mib(b.masters), 474);
}

static void norms_that_are_computed_again_are_not_kept(void **state) {
    (void)state;
    llmc_settings s = { .program = LLMC_CUDA, .again = 2, .cudnn = true, .batch = 20, .context = 1024 };
    assert_int_equal(mib(bytes_of("gpt2-medium", &s).activations), 12042);
    uint64_t less = bytes_of("gpt2-medium", &s).activations;
    s.again = 1;
    assert_true(bytes_of("gpt2-medium", &s).activations - less == UINT64_C(2) * 24 * 20 * 1024 * 1024 * 2);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_cpus_activations_are_what_it_prints),
                                        cmocka_unit_test(the_arena_of_f32_is_what_it_prints),
                                        cmocka_unit_test(the_arena_of_16_bits_is_what_it_prints),
                                        cmocka_unit_test(norms_that_are_computed_again_are_not_kept) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
