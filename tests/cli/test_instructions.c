/* Instructions that bf16 is multiplied by are part of what a run is: a checkpoint names them, a resume with
 * others says what changes, and --exact refuses it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/instructions.h"
#include "cli/command.h"
#include "io/scratch.h"
#include "oracle/state_sum.h"

#define RUN "train tiny --data text --batch 8 --lr 0.003 --seed 1 --quiet --schedule constant --save-every 4 "

enum { BYTES = 1 << 16 };

/* As if the run had been made by other instructions. */
static void rewrite_kind(const char *path, const char *kind) {
    static char data[BYTES], other[BYTES];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    data[fread(data, 1, BYTES / 2, file)] = 0;
    fclose(file);
    char *at = strstr(data, "\"micro_batch\":");
    assert_non_null(at);
    snprintf(other, sizeof other, "%.*s\"products\": \"%s\", %s", (int)(at - data), data, kind, at);
    assert_true(state_sum_sign(other));
    scratch_write(path, other, strlen(other));
}

static void a_resume_says_what_changes(void **state) {
    (void)state;
    command_expect(0, RUN "--steps 4 --precision bf16 --out run --instructions widened");
    rewrite_kind("run/checkpoint-4/trainer_state.json", "amx");
    assert_true(
        command_says("train tiny --data text --batch 8 --lr 0.003 --seed 1 --schedule constant --steps 8 "
                     "--out run --resume --exact --instructions widened",
                     2, "whose products of 16 bits were amx and would be widened"));
    assert_true(
        command_says("train tiny --data text --batch 8 --lr 0.003 --seed 1 --schedule constant --steps 8 "
                     "--out run --resume --instructions widened",
                     0, "products of 16 bits were amx and are widened, so results differ"));
}

static void what_was_widened_goes_on_so(void **state) {
    (void)state;
    command_expect(0, RUN "--steps 4 --precision bf16 --out plain --instructions widened");
    command_result r = command_run("train tiny --data text --batch 8 --lr 0.003 --seed 1 --schedule constant "
                                   "--steps 8 --out plain --resume --exact --instructions widened");
    assert_int_equal(r.exit, 0);
    assert_false(command_has_words(r.out, "products of 16 bits") ||
                 command_has_words(r.err, "products of 16 bits"));
    command_free(&r);
}

/* A run in f32 has the same bits whatever there is: it names no kind and is asked for none. */
static void f32_names_no_kind(void **state) {
    (void)state;
    command_expect(0, RUN "--steps 4 --out wide");
    rewrite_kind("wide/checkpoint-4/trainer_state.json", "amx");
    command_result r = command_run("train tiny --data text --batch 8 --lr 0.003 --seed 1 --schedule constant "
                                   "--steps 8 --out wide --resume --exact --instructions widened");
    assert_int_equal(r.exit, 0);
    assert_false(command_has_words(r.out, "products of 16 bits") ||
                 command_has_words(r.err, "products of 16 bits"));
    command_free(&r);
}

/* Where the processor has them. */
static void a_kind_is_written_and_has_its_own_bits(void **state) {
    (void)state;
    if (!instructions_present(INSTRUCTIONS_AVX512_BF16)) skip();
    command_expect(0, RUN "--steps 4 --precision bf16 --out pairs --threads 1 --instructions avx512-bf16");
    command_expect(0, RUN "--steps 4 --precision bf16 --out again --threads 2 --micro-batch 8 "
                          "--instructions avx512-bf16");
    command_expect(0, RUN "--steps 4 --precision bf16 --out other --instructions widened");
    command_shell("grep -q '\"products\": \"avx512-bf16\"' pairs/checkpoint-4/trainer_state.json");
    command_shell("! grep -q products other/checkpoint-4/trainer_state.json");
    command_shell("cmp pairs/model.safetensors again/model.safetensors");
    command_shell("! cmp -s pairs/model.safetensors other/model.safetensors");
    assert_true(
        command_says("train tiny --data text --batch 8 --lr 0.003 --seed 1 --schedule constant --steps 8 "
                     "--out pairs --resume --instructions widened",
                     0, "products of 16 bits were avx512-bf16 and are widened"));
}

static void what_there_is_not_is_refused(void **state) {
    (void)state;
    assert_true(
        command_says("train tiny --data text --steps 1 --out no --instructions mmx", 2,
                     "this processor has no instructions 'mmx'; it has auto, tensor-cores, tensor-groups, "
                     "widened, plain"));
    json_document d = command_json("devices --json --instructions widened");
    assert_string_equal(command_string(&d, "bf16_products"), "widened");
    json_close(&d);
    d = command_json("devices --json --instructions plain");
    assert_string_equal(command_string(&d, "instructions"), "plain C");
    json_close(&d);
}

static int open_files(void **state) {
    int result = scratch_open(state);
    if (result == 0) command_make_files();
    return result;
}

/* Bits depend on the kind, so which one is usual is a matter of the processor alone, and of no clock. */
static void the_usual_kind_goes_by_the_maker(void **state) {
    (void)state;
    bool amd = system("grep -q AuthenticAMD /proc/cpuinfo") == 0;
    const char *kind = instructions_present(INSTRUCTIONS_AMX)                  ? "amx"
                       : amd && instructions_present(INSTRUCTIONS_AVX512_BF16) ? "avx512-bf16"
                                                                               : "widened";
    assert_int_equal(instructions_pin("auto"), STATUS_OK);
    assert_string_equal(instructions_kind(), kind);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resume_says_what_changes),
        cmocka_unit_test(what_was_widened_goes_on_so),
        cmocka_unit_test(the_usual_kind_goes_by_the_maker),
        cmocka_unit_test(f32_names_no_kind),
        cmocka_unit_test(a_kind_is_written_and_has_its_own_bits),
        cmocka_unit_test(what_there_is_not_is_refused),
    };
    return cmocka_run_group_tests_name("instructions", tests, open_files, scratch_close);
}
