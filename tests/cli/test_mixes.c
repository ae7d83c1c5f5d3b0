/* --data given several times: mixed by weights, the same at any place of a run however it came there, and
 * refused where the weights have no meaning. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/command.h"
#include "io/scratch.h"

#define RUN "--batch 4 --eval-samples 6 --threads 2 --steps 6 --save-every 1 --keep 9 --quiet "
#define MIX "--data a:0.5 --data b:0.3 --data c:0.2 "

static void run(const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    command_result r = command_run(line);
    if (r.exit) fail_msg("%s: exit %d, %s", line, r.exit, r.err);
    command_free(&r);
}

static void expect(int code, const char *line, const char *words) {
    if (!command_says(line, code, words)) fail_msg("%s: not exit %d with '%s'", line, code, words);
}

static int open_folder(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    uint16_t ids[2000];
    for (int i = 0; i < 2000; i++) ids[i] = (uint16_t)(i * i % 251);
    scratch_write("ids.u16", ids, sizeof ids);
    FILE *lines = fopen("d.jsonl", "w");
    for (int i = 0; i < 60; i++)
        fprintf(lines, "{\"text\": \"document %d of them, about %d things\"}\n", i, i * i);
    fclose(lines);
    return system("head -c 20000 text >a && tail -c 9000 text | tr a-y b-z >b && head -c 1500 text | tr a-z "
                  "A-Z >c && head -c 300 text >short && : >empty && "
                  "mkdir folder && cp a b folder && cp b odd:2");
}

/* ---- the same run ---- */

static void a_weight_alone_says_nothing(void **state) {
    (void)state;
    run("train tiny --data a --out plain " RUN);
    run("train tiny --data a:0.3 --out weighed " RUN);
    command_shell("cmp plain/model.safetensors weighed/model.safetensors");
    command_shell("cp -r plain gone && rm -r gone/model.safetensors gone/checkpoint-[3-6]");
    run("train tiny --data a:7 --out gone --resume " RUN);
    command_shell("cmp plain/model.safetensors gone/model.safetensors");
}

/* Threads, workers and where it was resumed. */
static void a_run_depends_on_its_places_alone(void **state) {
    (void)state;
    static const char *const mixes[] = { MIX, "--data a --data b --data c ",
                                         "--data ids.u16:1 --data a:1.41421356 --data folder:0.7 " };
    for (size_t m = 0; m < sizeof mixes / sizeof *mixes; m++) {
        command_shell("rm -rf whole other");
        run("train tiny %s --out whole " RUN, mixes[m]);
        run("train tiny %s --out other --batch 4 --eval-samples 3 --threads 1 --steps 6 --workers 3 "
            "--quiet",
            mixes[m]);
        command_shell("cmp whole/model.safetensors other/model.safetensors");
        for (int step = 1; step < 6; step++) {
            command_shell("rm -rf went && cp -r whole went && rm went/model.safetensors");
            for (int later = step + 1; later <= 6; later++) command_shell("rm -r went/checkpoint-%d", later);
            run("train tiny %s --out went --resume --workers %d " RUN, mixes[m], step % 3);
            command_shell("diff -r -x 'events.*' -x run.json -x metrics.jsonl whole went");
        }
    }
}

static int start_killed(const char *line, long at) {
    char call[1024];
    snprintf(call, sizeof call, "KILL_CALL=%ld KILL_COUNT=calls exec %s %s >said 2>&1", at,
             SNUG_BUILD "/snug-killed", line);
    int how = system(call);
    if (WIFSIGNALED(how)) return -1;
    return WEXITSTATUS(how) == 128 + SIGKILL ? -1 : WEXITSTATUS(how);
}

static void go_on(long at) {
    command_result r = command_run("train tiny " MIX "--out killed --resume " RUN);
    if (r.exit == 2) { /* killed before there was a checkpoint */
        command_free(&r);
        r = command_run("train tiny " MIX "--out killed --overwrite " RUN);
    }
    if (r.exit) fail_msg("killed at %ld: exit %d, %s", at, r.exit, r.err);
    command_free(&r);
}

static void kills_change_nothing(void **state) {
    (void)state;
    static const char line[] = "train tiny " MIX "--out killed " RUN;
    long calls = 0, killed = 0;
    run("train tiny " MIX "--out unkilled " RUN);
    assert_int_equal(start_killed(line, -1), 0);
    FILE *file = fopen("calls", "r");
    assert_true(file && fscanf(file, "%ld", &calls) == 1 && fclose(file) == 0);
    assert_true(calls > 50);
    for (long at = 3; at < calls; at += calls / 12) {
        command_shell("rm -rf killed");
        int ended = start_killed(line, at);
        if (ended < 0) {
            go_on(at);
            killed++;
        } else {
            assert_int_equal(ended, 0); /* lines of progress come by the clock: this run had fewer calls */
        }
        command_shell("cmp unkilled/model.safetensors killed/model.safetensors");
    }
    assert_true(killed >= 9);
}

/* ---- another run ---- */

static void other_data_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *data, *says;
    } cases[] = {
        { "--data a:0.5 --data b:0.2 --data c:0.3", "shares was 5:3:2 and is 5:2:3" },
        { "--data a:0.5 --data b:0.5", "parts was 3 and is 2, shares was 5:3:2 and is 1:1" },
        { "--data a --data b --data c", "shares was 5:3:2 and is by size" },
        { "--data a", "parts was 3 and is 1" },
        { "--data b:0.5 --data a:0.3 --data c:0.2", "samples was" },
        { "--data b:0.5 --data a:0.3 --data c:0.2 --eval-data a", "samples was" },
        { "--data a:1 --data b:1.41421356 --data c:0.777", "shares was 5:3:2 and is 20" },
    };
    run("train tiny " MIX "--out first " RUN);
    command_shell("rm -r first/checkpoint-[456] first/model.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[512];
        snprintf(line, sizeof line, "train tiny %s --out first --resume " RUN, cases[i].data);
        expect(2, line, cases[i].says);
    }
    run("train tiny --data a:50 --data b:30 --data c:20 --out first --resume " RUN); /* the same shares */
    run("train tiny --data a --out alone " RUN);
    command_shell("rm -r alone/checkpoint-[456] alone/model.safetensors");
    expect(2, "train tiny --data a:0.5 --data b:0.5 --out alone --resume " RUN, "parts was 1 and is 2");
    /* Shares too long to be written out are known by a digest. */
#define LONG "train tiny --data a:1 --data b:1.4142 --data c:0.777 --data a:0.577 --data b:0."
    run(LONG "301 --eval-data c --out long " RUN);
    command_shell("rm -r long/checkpoint-[456] long/model.safetensors");
    expect(2, LONG "302 --eval-data c --out long --resume " RUN, "shares was ");
    run(LONG "301 --eval-data c --out long --resume " RUN);
    /* What only one of them has is seen, however little it is. */
    command_shell("cp c kept && tr A-Z B-ZA <kept >c");
    run("train tiny --data a:0.5 --data b:0.3 --data kept:0.2 --out told " RUN);
    command_shell("rm -r told/checkpoint-[456] told/model.safetensors");
    expect(2, "train tiny " MIX "--out told --resume " RUN, "other data: digest was");
    command_shell("mv kept c");
}

static void weights_without_a_meaning_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *data, *says;
    } cases[] = {
        { "--data a:0.5 --data b", "a has a weight and b has none; give each of them one, or none" },
        { "--data a --data b --data c:2", "c has a weight and a has none" },
        { "--data a:0 --data b:1", "the weight of a is 0; it has to be a number above 0" },
        { "--data a:-0.5 --data b:1", "the weight of a is -0.5" },
        { "--data a:nan --data b:1", "the weight of a is nan" },
        { "--data a:1 --data b:-inf", "the weight of b is -inf" },
        { "--data a:1 --data b:1e999", "the weight of b is 1e999" },
        { "--data a:1 --data b:1e-9", "b: its weight is 1e-09 of all; the least share is 1 in 65536" },
        { "--data a:1 --data b:1e-320", "the least share is 1 in 65536" },
        { "--data a:1 --data b:x", "there is b, but 'x' behind it is no weight" },
        { "--data a:1 --data nowhere:1", "cannot open the data nowhere" },
        { "--data a:1 --data empty:1", "empty" },
        { "--data a:1 --data short:1 --context 300", "--context 300" },
        { "--data a --data short --context 32 --batch 4 --pack whole", "can't be kept whole" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[512];
        snprintf(line, sizeof line, "train tiny %s --out none --steps 1 --quiet", cases[i].data);
        expect(2, line, cases[i].says);
        assert_int_equal(system("test ! -e none/model.safetensors"), 0);
    }
    char many[2048] = "data: [a";
    for (int i = 0; i < 64; i++) strcat(many, ", a");
    strcat(many, "]\n");
    scratch_write("many.yaml", many, strlen(many));
    expect(2, "plan tiny --config many.yaml", "data: given more than 64 times");
    expect(2, "train char-small --data a:1 --data ids.u16:1 --pack documents --out none --steps 1",
           "ids.u16 doesn't say where its documents end");
    expect(2, "tokenize tiny --data a:0.5 --data b:0.5 --out x.safetensors",
           "--data a:0.5: tokenize writes all of the data once");
    expect(2, "train tiny --data a --data b --head classes:2 --out none --steps 1",
           "records with labels are not mixed");
    expect(2, "train tiny --data a:1 --data b:1 --head score --out none --steps 1",
           "records with labels are not mixed");
    scratch_write("run.yaml", "data: [\"a:1\", b]\n", 17);
    expect(2, "train tiny --config run.yaml --out none --steps 1", "a has a weight and b has none");
}

/* ---- what is said ---- */

static double number_of(const json_document *d, const char *key, uint32_t part) {
    double number;
    json_value one = json_item(command_value(d, "data"), part);
    assert_int_equal(json_get_number(one, key, -1, 1e12, &number), STATUS_OK);
    return number;
}

/* An epoch has the longest part once and no other less. */
static void epochs_have_every_part_whole(void **state) {
    (void)state;
    json_document d;
    run("train tiny " MIX "--out epoch --batch 4 --epochs 1 --quiet");
    assert_int_equal(json_open("epoch/run.json", &d), STATUS_OK);
    double least = 99;
    static const double shares[] = { 0.5, 0.3, 0.2 };
    for (uint32_t p = 0; p < 3; p++) {
        double times = number_of(&d, "times_an_epoch", p), all = number_of(&d, "times", p);
        assert_true(number_of(&d, "share", p) == shares[p]);
        assert_true(all >= times);
        if (times < least) least = times;
        if (p == 0) assert_true(number_of(&d, "tokens", p) == 18000 && number_of(&d, "samples", p) == 562);
    }
    /* the order of a period decides by less than a sample when it is seen whole */
    assert_true(least > 1 - 1.0 / 562 && least < 1 + 1.0 / 100);
    json_close(&d);
    run("train tiny --data a --data b --out sizes --batch 1 --epochs 1 --quiet");
    assert_int_equal(json_open("sizes/run.json", &d), STATUS_OK);
    for (uint32_t p = 0; p < 2; p++) {
        assert_true(fabs(number_of(&d, "times_an_epoch", p) - 1) < 1e-12);
        assert_true(fabs(number_of(&d, "times", p) - 1) < 1e-12);
    }
    json_close(&d);
    expect(0, "train tiny " MIX "--out showed --steps 1 --batch 4",
           "Data: 3 parts mixed by weights, an epoch of 1,123 samples");
    expect(0, "train tiny --data a --data b --out showed --overwrite --steps 1 --batch 4",
           "2 parts mixed by their sizes, an epoch of 815 samples");
    expect(0, "train tiny --data a:1 --data short:1 --out showed --overwrite --steps 1 --batch 4",
           "note: the last tenth of 1 of them has no whole sample, so it doesn't validate");
}

static void every_command_takes_them(void **state) {
    (void)state;
    run("train tiny " MIX "--out model --steps 2 --batch 4 --quiet");
    expect(0, "plan tiny " MIX "--batch 4", "least budget");
    expect(0, "compare tiny --batch 4 --json " MIX, "\"data\": \"a:0.5, b:0.3, c:0.2\"");
    expect(0, "profile tiny --batch 4 --steps 2 " MIX, "Data: a and 2 more");
    expect(0, "train model --eval-only --context 32 " MIX, "samples of a and 2 more");
    expect(0, "quantize model --to int8 --context 32 --out q " MIX, "loss");
    static const char yaml[] = "data:\n  - a:0.5\n  - odd:2:0.5\nbatch: 4\nsteps: 1\n";
    scratch_write("run.yaml", yaml, sizeof yaml - 1);
    expect(0, "train tiny --config run.yaml --out configured", "50.00 %");
    expect(0, "completion zsh", "PATH\\[\\:WEIGHT\\]:_files");
    expect(0, "train tiny --data odd:2 --out named --steps 1 --batch 4", "Data: odd:2, text");
}

/* Validation is of the same shares: of a part alone it is what that part's own would be. */
static void validation_is_mixed_alike(void **state) {
    (void)state;
    json_document d;
    double loss[6];
    static const char *const data[] = { "--data a --eval-samples 30",
                                        "--data b --eval-samples 20",
                                        "--data a:3 --data b:2 --eval-samples 50",
                                        "--data short:7 --data a:0.6 --data b:0.4 --eval-samples 50",
                                        "--data a --data b --eval-samples 9",
                                        "--data a --eval-samples 9" };
    run("train tiny --data a --out judge --steps 2 --batch 4 --quiet");
    for (int i = 0; i < 6; i++) {
        char line[256];
        snprintf(line, sizeof line, "train judge --eval-only --context 32 --json --quiet %s", data[i]);
        command_result r = command_run(line);
        assert_int_equal(r.exit, 0);
        assert_int_equal(json_parse("it", r.out, strlen(r.out), &d), STATUS_OK);
        assert_int_equal(json_as_number(command_value(&d, "evaluation.loss"), 0, 99, &loss[i]), STATUS_OK);
        json_close(&d);
        command_free(&r);
    }
    assert_true(fabs(0.6 * loss[0] + 0.4 * loss[1] - loss[2]) < 1e-5);
    assert_true(fabs(loss[0] - loss[1]) > 1e-3);
    assert_true(fabs(loss[4] - loss[5]) > 1e-3); /* by sizes it is of all parts, however few samples */
    assert_true(loss[3] == loss[2]);             /* of the one that is too short nothing is held out */
}

/* ---- memory ---- */

static void memory_is_planned(void **state) {
    (void)state;
    char many[1024] = "", each[32];
    for (int i = 0; i < 20; i++) {
        snprintf(each, sizeof each, "--data a:%.4f ", 1 + 0.01 * i + 0.0001 * (i % 7));
        strcat(many, each);
    }
    const char *const mixes[] = { MIX, "--data a:1 --data b:1.41421356 ", many };
    uint64_t least = command_least_budget("plan tiny --batch 8 --data a --eval-samples 4 --json --quiet");
    for (size_t m = 0; m < 3; m++) {
        char line[2048];
        json_document d;
        snprintf(line, sizeof line, "plan tiny --batch 8 --eval-samples 4 --json --quiet %s", mixes[m]);
        uint64_t budget = command_least_budget(line);
        assert_true(budget > least);
        if (m) assert_true(budget >= least + (3 << 15)); /* the turns of a period */
        snprintf(line, sizeof line,
                 "train tiny --batch 8 --eval-samples 4 --steps 2 --json --quiet --out kept --overwrite %s "
                 "--memory %llu",
                 mixes[m], (unsigned long long)budget);
        command_result r = command_run(line);
        if (r.exit) fail_msg("%s: exit %d, %s", line, r.exit, r.err);
        assert_int_equal(json_parse("run", r.out, strlen(r.out), &d), STATUS_OK);
        uint64_t predicted = command_number(&d, "predicted.peak_bytes");
        assert_true(r.resident_peak <= predicted && predicted <= budget);
        json_close(&d);
        command_free(&r);
    }
}

/* ---- documents and tokens ---- */

static const char CONFIG[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 16, "
    "\"intermediate_size\": 32, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 2, \"max_position_embeddings\": 256, \"rms_norm_eps\": 1e-6, "
    "\"vocab_size\": 4096, \"tie_word_embeddings\": true}";

/* Each part is made into a file of its own, and one of tokens is taken as it is. */
static void parts_may_be_of_several_kinds(void **state) {
    (void)state;
    command_shell("mkdir words && cp %s/tests/text/golden/gpt2.json words/tokenizer.json", SNUG_ROOT);
    scratch_write("words/config.json", CONFIG, sizeof CONFIG - 1);
    scratch_write("words/tokenizer_config.json", "{\"eos_token\": \"</s>\"}", 21);
    command_shell(
        "for i in $(seq 80); do echo \"{\\\"prompt\\\": \\\"is $i cold\\\", \\\"completion\\\": \\\"it is "
        "$i\\\"}\"; done >qa.jsonl");
    run("tokenize words --data d.jsonl --out d.safetensors --quiet");
#define WORDS "train words --data qa.jsonl:2 --data d.safetensors:1 --data d.jsonl:1 --context 32 "
    run(WORDS "--out kinds " RUN);
    command_shell("test -e kinds/data/train-1.safetensors && test ! -e kinds/data/train-2.safetensors && "
                  "cmp kinds/data/train-3.safetensors d.safetensors");
    command_shell("stat -c %%Y.%%i kinds/data/*.safetensors >was && rm -r kinds/model.safetensors "
                  "kinds/checkpoint-[456]"
                  " && cp kinds/checkpoint-3/model.safetensors third");
    run(WORDS "--out kinds --resume " RUN);
    command_shell("stat -c %%Y.%%i kinds/data/*.safetensors | cmp - was"); /* they were taken again */
    run(WORDS "--out again --workers 2 " RUN);
    command_shell(
        "cmp kinds/model.safetensors again/model.safetensors && ! cmp -s kinds/model.safetensors third");
    /* The longest document of all parts decides on the context, wherever it stands. */
    command_shell("printf '{\"text\": \"%%0150d\"}\\n%%.0s' $(seq 30) >long.jsonl");
    static const char *const orders[] = { "d long qa", "long qa d", "qa d long" };
    for (int i = 0; i < 3; i++) {
        char line[512], parts[3][8];
        assert_int_equal(sscanf(orders[i], "%7s %7s %7s", parts[0], parts[1], parts[2]), 3);
        snprintf(line, sizeof line,
                 "train kinds --data %s.jsonl --data %s.jsonl --data %s.jsonl --out longest%d --batch 1 "
                 "--steps 1",
                 parts[0], parts[1], parts[2], i);
        expect(0, line, "Context: 192 tokens, as the longest document of the data wants it");
    }
    run("train words --data qa.jsonl:2 --data d.jsonl:1 --data-kind jsonl --context 32 --out "
        "named-kind " RUN);
    expect(0, WORDS "--out shown --steps 1 --batch 4", "50.00 %");
    expect(2,
           "train words --data qa.jsonl:2 --data d.jsonl:1 --data d.safetensors:1 --context 32 --out kinds "
           "--overwrite --resume --steps 1",
           "leave one of the two out");
    expect(2, "plan words --data d.safetensors:2 --data d.jsonl:1 --context 32", "snug tokenize");
    /* Nothing is made where another part is refused anyway. */
    static const char *const refused[] = { "nowhere.jsonl:1", "d.jsonl", "d.jsonl:1e-9" };
    for (int i = 0; i < 3; i++) {
        char line[256];
        snprintf(line, sizeof line,
                 "train words --data qa.jsonl:2 --data %s --context 32 --out broken --steps 1", refused[i]);
        expect(2, line, i == 0 ? "nowhere.jsonl" : "d.jsonl");
        command_shell("test ! -e broken/data");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_weight_alone_says_nothing),
        cmocka_unit_test(a_run_depends_on_its_places_alone),
        cmocka_unit_test(kills_change_nothing),
        cmocka_unit_test(other_data_are_refused),
        cmocka_unit_test(weights_without_a_meaning_are_refused),
        cmocka_unit_test(epochs_have_every_part_whole),
        cmocka_unit_test(every_command_takes_them),
        cmocka_unit_test(validation_is_mixed_alike),
        cmocka_unit_test(memory_is_planned),
        cmocka_unit_test(parts_may_be_of_several_kinds),
    };
    return cmocka_run_group_tests_name("mixes", tests, open_folder, scratch_close);
}
