/* What a resume is given and must not take for something else: checkpoints of earlier versions and of other
 * names, files that were edited, other weights; and disks without room for what comes. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/command.h"
#include "io/scratch.h"
#include "oracle/state_sum.h"

#define RUN                                                                                                  \
    "train tiny --data text --steps 6 --batch 4 --eval-samples 2 --threads 2 --save-every 2 --keep 9 "       \
    "--micro-batch 4 "

static void expect(int code, const char *line, const char *words) {
    if (!command_says(line, code, words)) fail_msg("%s: not exit %d with '%s'", line, code, words);
}

/* tests/cli/begun-by-167b34f was written by that version, with nothing but what stands there. */
static void earlier_versions_go_on(void **state) {
    (void)state;
#define EARLIER                                                                                              \
    "train earlier/config.json --data earlier/tokens.u16 --data-kind u16 --batch 4 --context 8 --steps 6 "   \
    "--save-every 3 --keep 2 --lr 0.01 --warmup 2 --eval-samples 2 "
    command_shell("cp -r " SNUG_ROOT "/tests/cli/begun-by-167b34f earlier && chmod -R u+w earlier");
    expect(0, EARLIER "--out earlier/run --resume",
           "resuming earlier/run/checkpoint-3 with the plan that it was begun with");
    expect(0, EARLIER "--out anew", "planned");
    json_document was, is; /* on another processor the last digits may be others */
    assert_int_equal(json_open("earlier/run/run.json", &was), STATUS_OK);
    assert_int_equal(json_open("anew/run.json", &is), STATUS_OK);
    for (size_t step = 3; step < 6; step++) {
        double a, b;
        assert_int_equal(json_as_number(json_item(command_value(&was, "losses"), step), 0, 9, &a), STATUS_OK);
        assert_int_equal(json_as_number(json_item(command_value(&is, "losses"), step), 0, 9, &b), STATUS_OK);
        assert_true(a - b < 1e-5 && b - a < 1e-5);
    }
    json_close(&was);
    json_close(&is);
    expect(2, EARLIER "--out earlier/run --resume --seed 2", "--seed was 1337 and is 2");
}

/* --resume where there is nothing to go on from begins, and says so. */
static void a_run_without_checkpoints_begins(void **state) {
    (void)state;
    expect(0, RUN "--out none --resume", "none has no checkpoint yet: the run begins at the start");
    expect(0, RUN "--out none --resume", "resuming none/checkpoint-6");
    command_shell("cmp -s none/model.safetensors none/checkpoint-6/model.safetensors");
}

/* Whichever checkpoint a run went on from, its report has the loss of every step, and the validations. */
static void a_report_tells_of_all_steps(void **state) {
    (void)state;
    static const char *const gone[] = { "told/checkpoint-6", "told/checkpoint-[46]" };
    expect(0, RUN "--eval-every 1 --out told", "planned");
    command_shell("mv told/run.json whole.json");
    for (int i = 0; i < 2; i++) {
        char line[128];
        snprintf(line, sizeof line, "rm -rf %s told/run.json told/model.safetensors", gone[i]);
        command_shell("%s", line);
        expect(0, RUN "--eval-every 1 --out told --resume", "resuming told/checkpoint-");
        command_shell(
            "for list in losses eval_losses; do grep -h \"\\\"$list\\\"\" whole.json told/run.json > both "
            "|| exit 1; "
            "test $(wc -l < both) = 2 && test $(sort -u both | wc -l) = 1 || exit 1; done");
    }
}

/* ---- trainer_state.json ---- */

static const char STATE[] = "edited/checkpoint-6/trainer_state.json";

static char *read_state(void) {
    FILE *file = fopen("begun/checkpoint-6/trainer_state.json", "rb");
    char *data = calloc(1, 1 << 16);
    assert_true(file && data && fread(data, 1, (1 << 16) - 64, file) > 0);
    fclose(file);
    return data;
}

/* Writes it with a sum that fits. */
static void write_signed(char *data) {
    assert_true(state_sum_sign(data));
    scratch_write(STATE, data, strlen(data));
}

/* Puts words in front of the place where others stand the last time. */
static char *insert(const char *before, const char *words) {
    char *data = read_state(), *at = NULL, *edited = calloc(1, 1 << 16);
    for (char *found = data; (found = strstr(found, before)); found++) at = found;
    assert_non_null(at);
    snprintf(edited, 1 << 16, "%.*s%s%s", (int)(at - data), data, words, at);
    free(data);
    return edited;
}

static void edited_states_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *before, *words, *says;
        bool sign;
    } cases[] = {
        { "\n}", ",\"samples\": 16", "was edited", false },
        { "\n}", ",\"step\": 5", "was edited", false },
        { "\n}", " ", "resuming edited/checkpoint-6", false }, /* blanks are no content */
        { "\n}", ",\"digest\": \"0000000000000000\"", "was edited", false },
        { "\"plan\"", "\"samples\": 16, ", "was edited", false },
        { "\"plan\"", "\"samples\": 16, ", "has a key twice", true },
        { "\"seed\"", "\"seed\": 4, ", "has a key twice", true },
        { "\"plan\"", "\"later\": 16, ", "resuming edited/checkpoint-6", true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        command_shell("rm -rf edited && cp -r begun edited");
        char *edited = insert(cases[i].before, cases[i].words);
        if (cases[i].sign)
            write_signed(edited);
        else
            scratch_write(STATE, edited, strlen(edited));
        free(edited);
        expect(0, RUN "--out edited --resume", cases[i].says);
    }
}

static void renamed_checkpoints_are_passed_over(void **state) {
    (void)state;
    command_shell("rm -rf renamed && mkdir renamed && cp -r begun/checkpoint-2 renamed/checkpoint-4");
    expect(2, RUN "--out renamed --resume",
           "renamed/checkpoint-4 is passed over: it says that it is of step 2; begin anew");
    expect(0, RUN "--out fresh --resume renamed/checkpoint-4", "resuming renamed/checkpoint-4");
}

/* ---- weights ---- */

static void other_weights_are_noticed(void **state) {
    (void)state;
    const char *rest =
        "--data text --steps 4 --batch 4 --eval-samples 2 --threads 2 --save-every 2 --out tuned";
    char line[512];
    expect(0, RUN "--seed 7 --out other", "planned");
    snprintf(line, sizeof line, "train begun %s", rest);
    expect(0, line, "planned");
    command_shell("rm -r tuned/checkpoint-4");
    snprintf(line, sizeof line, "train other %s --resume", rest);
    expect(2, line, "of a run with another model: weights was");
    snprintf(line, sizeof line, "train tiny %s --resume", rest);
    expect(2, line, "and is new");
    snprintf(line, sizeof line, "train begun %s --resume", rest);
    expect(0, line, "resuming tuned/checkpoint-2");
    command_shell("rm -r tuned/checkpoint-4 && cp -r begun elsewhere"); /* the same ones under another name */
    snprintf(line, sizeof line, "train elsewhere %s --resume", rest);
    expect(0, line, "resuming tuned/checkpoint-2");
}

/* A model that is trained in its own folder takes its own place at the end, and the run still goes on. */
static void a_model_may_take_its_own_place(void **state) {
    (void)state;
    command_shell("mkdir own && cp begun/config.json begun/model.safetensors own");
    const char *line =
        "train own --data text --steps 4 --batch 4 --eval-samples 2 --threads 2 --save-every 2 "
        "--out own --overwrite";
    expect(0, line, "planned");
    command_shell("rm own/run.json && sed -i '$d' own/metrics.jsonl && cp own/model.safetensors after");
    expect(0,
           "train own --data text --steps 4 --batch 4 --eval-samples 2 --threads 2 --save-every 2 --out own "
           "--resume",
           "resuming own/checkpoint-4");
    command_shell("cmp own/model.safetensors after && test -e own/run.json");
}

/* ---- room ---- */

/* The exit code of a run on a file system of so many KiB; -1: none can be mounted here. */
static int run_on(int kib) {
    char line[1024], code[8] = "";
    snprintf(line, sizeof line,
             "unshare -m sh -c 'mount -t tmpfs -o size=%dk none small && { " SNUG_BUILD
             "/snug train tiny --data text --steps 12 --batch 4 --eval-samples 2 --threads 2 --save-every 2 "
             "--keep 2 "
             "--out small/run >said 2>&1; echo $? >code; ls small >there; }' 2>/dev/null",
             kib);
    if (system(line) != 0) return -1;
    FILE *file = fopen("code", "r");
    assert_true(file && fgets(code, sizeof code, file));
    fclose(file);
    return atoi(code);
}

/* Refused before anything is written, or done to the end; and not refused where there is room to spare. */
static void small_disks_are_refused(void **state) {
    (void)state;
    command_shell("mkdir -p small");
    int accepted = 0;
    for (int kib = 300; kib <= 2300; kib += 100) {
        int code = run_on(kib);
        if (code < 0) {
            print_message("no file system can be mounted here\n");
            return;
        }
        if (code == 3 && !accepted)
            command_shell(
                "grep -q 'the disk of small/run has .* left, and the run takes .* with 2 checkpoints kept' "
                "said && "
                "test ! -s there");
        else if (code != 0)
            fail_msg("%d KiB: exit %d", kib, code);
        if (code == 0 && !accepted) accepted = kib;
    }
    /* it takes 1,472: three checkpoints at once of 436, the model and 28 of small files */
    print_message("accepted from %d KiB on\n", accepted);
    assert_true(accepted >= 1500 && accepted <= 1700);
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (failed) return failed;
    command_make_files();
    command_expect(0, RUN "--out begun --quiet");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(earlier_versions_go_on),
        cmocka_unit_test(a_run_without_checkpoints_begins),
        cmocka_unit_test(a_report_tells_of_all_steps),
        cmocka_unit_test(edited_states_are_refused),
        cmocka_unit_test(renamed_checkpoints_are_passed_over),
        cmocka_unit_test(other_weights_are_noticed),
        cmocka_unit_test(a_model_may_take_its_own_place),
        cmocka_unit_test(small_disks_are_refused),
    };
    return cmocka_run_group_tests_name("resume files", tests, open_files, scratch_close);
}
