/* How long a run is, where it stops and what it keeps: --epochs, --patience, --keep-best; what is usual where
 * weights are there already; and names that people bring from other tools. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "io/scratch.h"

#define RUN "tiny --data text --batch 4 --eval-samples 2 --threads 2 --micro-batch 4 --quiet "
/* So large a rate that validation soon gets worse. */
#define WORSE RUN "--lr 3 --warmup 1 --steps 40 --eval-every 2 --keep-best --save-every 3 --keep 9 "

static void expect(int code, const char *line, const char *words) {
    if (!command_says(line, code, words)) fail_msg("%s: not exit %d with '%s'", line, code, words);
}

static double number_of(const char *run, const char *path) {
    char file[256];
    json_document d;
    double x;
    snprintf(file, sizeof file, "%s/run.json", run);
    assert_int_equal(json_open(file, &d), STATUS_OK);
    assert_int_equal(json_as_number(command_value(&d, path), -1e9, 1e9, &x), STATUS_OK);
    json_close(&d);
    return x;
}

static int64_t steps_of(const char *run) {
    char file[256];
    json_document d;
    size_t count;
    snprintf(file, sizeof file, "%s/run.json", run);
    assert_int_equal(json_open(file, &d), STATUS_OK);
    assert_int_equal(json_as_array(command_value(&d, "losses"), &count), STATUS_OK);
    json_close(&d);
    return (int64_t)count;
}

static int open_folder(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    return 0;
}

/* ---- how long ---- */

static void epochs_are_steps(void **state) {
    (void)state;
    command_expect(0, "train " RUN "--context 32 --epochs 1 --out once");
    command_expect(0, "train " RUN "--context 32 --epochs 0.25 --out part");
    command_expect(0, "train " RUN "--context 32 --num-train-epochs 0.000001 --out least");
    int64_t once = steps_of("once"), part = steps_of("part");
    struct stat about;
    assert_int_equal(stat("text", &about), 0);
    int64_t tokens = about.st_size - about.st_size / 10, samples = (tokens - 1) / 32;
    assert_int_equal(once, (samples + 3) / 4);
    assert_int_equal(part, (samples + 15) / 16);
    assert_int_equal(steps_of("least"), 1);
    expect(2, "train " RUN "--epochs 1 --steps 4 --out o", "--steps 4 and --epochs 1 both say how long");
    expect(2, "train " RUN "--epochs 1000000 --context 1 --out o", "too many");
    expect(2, "train " RUN "--epochs 0 --out o", "--epochs");
}

static void the_course_is_said_before_it_begins(void **state) {
    (void)state;
    static const char fresh[] =
        "train tiny --data text --batch 4 --context 32 --steps 3 --eval-samples 2 --out fresh",
                      tuned[] = "train fresh --data text --batch 4 --context 32 --steps 50 --eval-samples 2 "
                                "--out tuned";
    expect(0, fresh, "Course: 3 steps of 128 tokens, in all");
    expect(0, tuned, "Rate: 5e-05 after 2 steps of warmup, usual where weights are there already");
    expect(0, "train fresh --data text --batch 4 --context 32 --steps 5 --lora rank=2 --out adapted",
           "Rate: 0.0002 after 1 step of warmup, usual for adapters");
    expect(0, "train fresh --data text --batch 4 --context 32 --steps 5 --lr 0.001 --out o",
           "its warmup is 3 %");
    command_result r =
        command_run("train fresh --data text --batch 4 --context 32 --steps 5 --lr 0.001 --warmup 0 "
                    "--out o2");
    assert_null(strstr(r.out, "Rate:"));
    command_free(&r);
}

/* ---- where it stops, and what stays ---- */

static void it_stops_where_nothing_becomes_better(void **state) {
    (void)state;
    command_expect(0, "train " WORSE "--patience 2 --out early");
    int64_t steps = steps_of("early"), best = (int64_t)number_of("early", "best.step");
    assert_true(steps < 40 && steps == best + 4);
    command_expect(0, "train " WORSE "--out whole");
    assert_int_equal(steps_of("whole"), 40);
    assert_true(number_of("whole", "best.step") >= (double)best);
    /* It is the model of that validation, to the bit of the loss. */
    command_result r = command_run("train early/best --data text --eval-only --eval-samples 2 --json --quiet "
                                   "--threads 2 --eval-batch 2");
    json_document d;
    double loss;
    assert_int_equal(r.exit, 0);
    assert_int_equal(json_parse("evaluated", r.out, strlen(r.out), &d), STATUS_OK);
    assert_int_equal(json_as_number(command_value(&d, "evaluation.loss"), 0, 1e9, &loss), STATUS_OK);
    double kept = number_of("early", "best.loss");
    if (loss - kept > 1e-5 * kept || kept - loss > 1e-5 * kept) fail_msg("%.9g, not %.9g", loss, kept);
    json_close(&d);
    command_free(&r);
    command_shell("! cmp -s early/model.safetensors early/best/model.safetensors");
}

/* From each of its checkpoints it comes to the same files, also from the one where it stopped. */
static void a_resumed_run_stops_at_the_same_place(void **state) {
    (void)state;
    char line[512];
    int64_t steps = steps_of("early");
    command_shell("mkdir tries");
    for (int64_t from = 3; from <= steps; from++) {
        snprintf(line, sizeof line, "early/checkpoint-%lld", (long long)from);
        if (access(line, F_OK) != 0) continue;
        command_shell("rm -rf tries && cp -r early tries");
        for (int64_t k = from + 1; k <= steps; k++) {
            snprintf(line, sizeof line, "rm -rf tries/checkpoint-%lld", (long long)k);
            command_shell("%s", line);
        }
        command_expect(0, "train " WORSE "--patience 2 --out tries --resume");
        assert_int_equal(steps_of("tries"), steps);
        command_shell("cmp tries/model.safetensors early/model.safetensors");
        command_shell("cmp tries/best/model.safetensors early/best/model.safetensors");
    }
    command_shell("test -d early/checkpoint-3");
    command_expect(0, "train " WORSE "--patience 2 --out early --resume");
    command_shell("cmp tries/model.safetensors early/model.safetensors");
}

static void another_run_removes_the_best(void **state) {
    (void)state;
    command_shell("cp -r early over && touch over/best/mine");
    command_expect(0, "train " RUN "--steps 2 --out over --overwrite");
    command_shell("test ! -e over/best/model.safetensors && test -e over/best/mine");
    command_shell("rm -rf over && cp -r early over");
    command_expect(0, "train " RUN "--steps 2 --out over --overwrite");
    command_shell("test ! -e over/best");
}

static void what_counts_validations_needs_some(void **state) {
    (void)state;
    expect(2, "train " RUN "--steps 4 --patience 1 --out o", "say how often to validate with --eval-every");
    expect(2, "train " RUN "--steps 4 --patience 1 --eval-every 5 --out o", "with --eval-every");
    scratch_write("short", "a text that has no tenth of itself that is long enough", 54);
    expect(2, "train tiny --data short --context 16 --batch 1 --steps 4 --keep-best --out o",
           "nothing validates");
}

/* The model in half the bytes; a run goes on from checkpoints, which are exact, and is told how much disk it
 * takes. */
static void the_model_may_be_written_in_other_types(void **state) {
    (void)state;
    struct stat whole, half, wide;
    command_expect(0, "train " RUN "--steps 4 --save-every 2 --out f32");
    command_expect(0, "train " RUN "--steps 4 --save-every 2 --save-dtype bf16 --keep-best --out bf16");
    command_expect(0, "train " RUN "--steps 4 --save-dtype f16 --out f16");
    command_expect(0, "train " RUN "--steps 4 --precision bf16 --save-dtype f32 --out wide");
    assert_int_equal(stat("f32/model.safetensors", &whole), 0);
    assert_int_equal(stat("wide/model.safetensors", &wide), 0);
    static const char *const halves[] = { "bf16/model.safetensors", "bf16/best/model.safetensors",
                                          "f16/model.safetensors" };
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        assert_int_equal(stat(halves[i], &half), 0);
        assert_true(half.st_size < whole.st_size * 6 / 10);
    }
    assert_true(wide.st_size > whole.st_size * 9 / 10);
    command_shell("cmp f32/checkpoint-4/model.safetensors bf16/checkpoint-4/model.safetensors");
    command_shell("grep -q bfloat16 bf16/config.json && grep -q float16 f16/config.json && grep -q float32 "
                  "wide/config.json");
    expect(0, "train f16 --data text --eval-only --eval-samples 2", "validation loss");
    command_shell("cp -r f32 again && rm -r again/checkpoint-4");
    expect(0, "train " RUN "--steps 4 --save-every 2 --save-dtype f16 --out again --resume", "");
    command_shell("cmp f16/model.safetensors again/model.safetensors");
    expect(2, "train f16 --data text --lora rank=2 --save-dtype f16 --out o", "is of whole models");
}

/* ---- other tools' names ---- */

static void familiar_names_are_taken(void **state) {
    (void)state;
    command_expect(
        0, "train tiny --train-file text --batch-size 4 --max-steps 3 --learning-rate 0.01 --block-size 16 "
           "--warmup-steps 1 --max-grad-norm 2 --eval-steps 2 --save-steps 2 --save-total-limit 1 "
           "--adam-beta1 0.8 --adam-beta2 0.9 --bf16 --dataloader-num-workers 0 --output-dir theirs "
           "--threads 2 --micro-batch 4 --quiet");
    command_expect(0, "train tiny --data text --batch 4 --steps 3 --lr 0.01 --context 16 --warmup 1 --clip 2 "
                      "--eval-every 2 --save-every 2 --keep 1 --beta1 0.8 --beta2 0.9 --precision mixed-bf16 "
                      "--workers 0 --out ours --threads 2 --micro-batch 4 --quiet");
    command_shell(
        "cmp theirs/model.safetensors ours/model.safetensors && ls ours theirs | grep -c checkpoint-3 | "
        "grep -qx 2");
    expect(2, "train tiny --data text --batch-size 4 --batch 4 --out o", "--batch is given twice");
    expect(2, "train tiny --data text --bf16=1 --out o", "--bf16 takes no value");
    expect(2, "train tiny --data text --learning-rate --out o", "--learning-rate wants a value");
    expect(2, "train tiny --data text --lora-r 8 --out o", "did you mean --lora rank=8?");
    expect(2, "generate ours --prompt a --batch-size 4", "unknown option --batch-size");
    expect(0, "generate ours --prompt a --max-new-tokens 2 --data-kind bytes", "a");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epochs_are_steps),
        cmocka_unit_test(the_course_is_said_before_it_begins),
        cmocka_unit_test(it_stops_where_nothing_becomes_better),
        cmocka_unit_test(a_resumed_run_stops_at_the_same_place),
        cmocka_unit_test(another_run_removes_the_best),
        cmocka_unit_test(what_counts_validations_needs_some),
        cmocka_unit_test(the_model_may_be_written_in_other_types),
        cmocka_unit_test(familiar_names_are_taken),
    };
    return cmocka_run_group_tests_name("course", tests, open_folder, scratch_close);
}
