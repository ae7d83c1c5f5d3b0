/* The commands as a user runs them. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "io/scratch.h"

#define TRAIN "train tiny --data text --steps 12 --batch 8 --warmup 2 --eval-samples 8 --threads 2 "

static bool one_sentence(const char *err) {
    const char *line = strchr(err, '\n');
    return strncmp(err, "snug: ", 6) == 0 && line && !line[1] && strlen(err) > 20 && !strstr(err, "(null)");
}

static void parse(const char *name, const char *bytes, json_document *d) {
    if (json_parse(name, bytes, strlen(bytes), d) != STATUS_OK) fail_msg("%s: %s", status_message(), bytes);
}

/* ---- help ---- */

static void help_teaches(void **state) {
    (void)state;
    static const char *const pages[] = {
        "help",         "--help",         "help plan",     "plan --help",     "help train",
        "train --help", "train x -h",     "help generate", "generate --help", "plan gpt2 --help --nonsense",
        "help profile", "profile --help", "help devices",  "devices --help",  "--version"
    };
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        command_result r = command_run(pages[i]);
        assert_int_equal(r.exit, 0);
        assert_string_equal(r.err, "");
        assert_null(strstr(r.out, "(null)"));
        if (strstr(pages[i], "version"))
            assert_true(strncmp(r.out, "snug ", 5) == 0 && isdigit((unsigned char)r.out[5]));
        else
            assert_non_null(strstr(r.out, "snug plan") ? r.out : strstr(r.out, "Examples"));
        for (const char *line = r.out; *line; line += strcspn(line, "\n") + 1)
            assert_true(strcspn(line, "\n") <= 110);
        command_free(&r);
    }
}

/* Each option is described once, and help names every one that parsing knows. */
static void help_lists_options_once(void **state) {
    (void)state;
    command_result r = command_run("help train");
    static const char *const some[] = {
        "--memory SIZE|auto", "--micro-batch ",  "--accumulate ", "--exact", "--recompute ",
        "--chunk-loss ",      "--update-early ", "--attention ",  "--fuse ", "--accumulation ",
        "--clip X|off",       "--schedule KIND", "--out DIR",     "--json"
    };
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        char line[64];
        snprintf(line, sizeof line, "\n  %s", some[i]);
        const char *at = strstr(r.out, line);
        assert_non_null(at);
        assert_null(strstr(at + 1, line));
    }
    command_free(&r);
}

static void nothing_said_shows_the_way(void **state) {
    (void)state;
    command_result r = command_run("");
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "snug train"));
    command_free(&r);
}

/* ---- mistakes ---- */

static const struct {
    const char *line, *says;
} mistakes[] = {
    { "pla gpt2", "did you mean plan" },
    { "trian gpt2", "did you mean train" },
    { "frobnicate", "unknown command" },
    { "--memory 4GiB", "a command comes before" },
    { "help frobnicate", "unknown command" },
    { "help plan train", "one command" },
    { "plan", "wants a MODEL" },
    { "train", "wants a MODEL" },
    { "generate", "wants a DIR" },
    { "plan gpt2 gpt2-xl", "one MODEL" },
    { "plan gpt2 --recmpute block", "did you mean --recompute" },
    { "plan gpt2 --chunk_loss 256", "did you mean --chunk-loss" },
    { "plan gpt2 --microbatch 2", "did you mean --micro-batch" },
    { "plan gpt2 --frobnicate", "unknown option --frobnicate" },
    { "plan gpt2 -x", "two hyphens" },
    { "plan gpt2 --batch", "--batch wants a value" },
    { "plan gpt2 --batch --json", "--batch wants a value" },
    { "plan gpt2 --batch=", "--batch wants a value" },
    { "plan gpt2 --batch 4 --batch=8", "given twice" },
    { "plan gpt2 --batch 0", "--batch: '0'" },
    { "plan gpt2 --batch -3", "--batch: '-3'" },
    { "plan gpt2 --batch 3.5", "'3.5'" },
    { "plan gpt2 --batch many", "'many'" },
    { "plan gpt2 --batch 99999999999999999999", "--batch" },
    { "plan gpt2 --json=yes", "takes no value" },
    { "plan gpt2 --memory lots", "'lots'" },
    { "plan gpt2 --memory 0", "'0'" },
    { "plan gpt2 --memory -4GiB", "'-4GiB'" },
    { "plan gpt2 --memory 4GX", "'4GX'" },
    { "plan gpt2 --micro-batch some", "write auto" },
    { "plan gpt2 --micro-batch 16 --batch 8", "--micro-batch 16" },
    { "plan gpt2 --context 4096", "--context 4096" },
    { "plan gpt2 --dropout 1", "--dropout" },
    { "plan gpt2 --clip nan", "--clip" },
    { "plan gpt2 --clip none", "write off" },
    { "plan gpt2 --lr 1e999", "--lr" },
    { "plan gpt2 --schedule zigzag", "cosine, linear, constant" },
    { "plan gpt2 --optimizer adam", "adamw, sgd, adafactor, lion" },
    { "plan gpt2 --recompute everything", "--recompute" },
    { "plan gpt2 --allow recompute", "does not change numerics" },
    { "plan gpt2 --allow everything", "'everything' is no technique" },
    { "plan gpt2 --exact --allow all", "leave one of the two out" },
    { "plan gpt2 --attention fast", "--attention" },
    { "plan gpt2 --chunk-loss some", "--chunk-loss" },
    { "plan gpt2 --accumulation twice", "--accumulation" },
    { "plan tiny --exact --micro-batch 1", "leaves no plan" },
    { "plan gpt2 --prompt hello", "no option of plan" },
    { "generate tiny --steps 3", "no option of generate" },
    { "generate tiny", "--prompt" },
    { "generate missing --prompt a", "missing" },
    { "generate tiny --prompt a", "tiny" },
    { "plan no-such-model", "no-such-model" },
    { "plan text", "text" },
    { "train tiny --out x", "--data" },
    { "train tiny --data text", "--out" },
    { "train tiny --data missing --out x", "missing" },
    { "train tiny --data empty --out x", "empty" },
};

static void mistakes_get_one_sentence(void **state) {
    (void)state;
    scratch_write("empty", "", 0);
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        command_result r = command_run(mistakes[i].line);
        bool good = r.exit == 2 && !*r.out && one_sentence(r.err) && strstr(r.err, mistakes[i].says);
        if (!good) fail_msg("snug %s: exit %d, out '%s', err '%s'", mistakes[i].line, r.exit, r.out, r.err);
        command_free(&r);
    }
}

static void environment_counts_less_than_the_line(void **state) {
    (void)state;
    const char *const four[] = { "SNUG_MICRO_BATCH=4", "SNUG_BATCH=8", "SNUG_JSON=1", "SNUG_QUIET=1", NULL };
    const char *const wrong[] = { "SNUG_MICRO_BATCH=few", NULL };
    const char *const lines[] = { "plan tiny", "plan tiny --micro-batch 2" };
    for (uint64_t i = 0; i < 2; i++) {
        command_result r = command_run_with(lines[i], four);
        json_document d;
        parse("plan", r.out, &d);
        assert_int_equal(command_number(&d, "choices.micro_batch"), i ? 2 : 4);
        assert_string_equal(r.err, "");
        json_close(&d);
        command_free(&r);
    }
    command_result r = command_run_with("plan tiny", wrong);
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "SNUG_MICRO_BATCH"));
    command_free(&r);
}

/* ---- plan ---- */

static void plan_answers(void **state) {
    (void)state;
    command_result r = command_run("plan tiny --batch 4 --memory 1GiB --listing");
    static const char *const says[] = { "predicted peak", "budget",    "least budget", "step time",
                                        "--recompute",    "weights",   "runtime",      "The peak",
                                        "program step",   "layernorm", "kernels" };
    assert_int_equal(r.exit, 0);
    assert_string_equal(r.err, "");
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (!strstr(r.out, says[i])) fail_msg("nothing of '%s' in %s", says[i], r.out);
    assert_null(strchr(r.out, '\033')); /* no colours in a file */
    command_free(&r);
    command_expect(0, "plan char-small --quiet");
    command_expect(
        0, "plan tiny --exact --clip off --optimizer sgd --micro-batch 8 --batch 32 --dropout 0.1 --quiet");
}

static void check_plan_json(const json_document *d) {
    static const char *const keys[] = { "fits",
                                        "budget_bytes",
                                        "least_budget_bytes",
                                        "rates",
                                        "plain.peak_bytes",
                                        "plain.step_seconds",
                                        "predicted.peak_bytes",
                                        "predicted.arena_bytes",
                                        "predicted.lower_bound_bytes",
                                        "predicted.persistent_bytes",
                                        "predicted.step_seconds",
                                        "measured",
                                        "pools",
                                        "choices.micro_batch",
                                        "choices.accumulate",
                                        "choices.eval_batch",
                                        "choices.passes",
                                        "rank",
                                        "world" };
    static const char *const categories[] = { "weights",     "gradients",   "optimizer",
                                              "activations", "temporaries", "scratch",
                                              "inputs",      "gaps",        "runtime" };
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) command_value(d, keys[i]);
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++) {
        char path[64];
        snprintf(path, sizeof path, "predicted.by_category.%s", categories[i]);
        sum += command_number(d, path);
    }
    assert_int_equal(sum, command_number(d, "predicted.peak_bytes"));
}

/* The least budget is enough, and a byte less is not. */
static void plan_json_and_least_budget(void **state) {
    (void)state;
    command_result r = command_run("plan tiny --batch 16 --json --quiet");
    json_document d;
    parse("plan", r.out, &d);
    assert_int_equal(r.exit, 0);
    assert_string_equal(r.err, "");
    check_plan_json(&d);
    uint64_t least = command_number(&d, "least_budget_bytes");
    json_close(&d);
    command_free(&r);
    for (uint64_t less = 0; less < 2; less++) {
        char line[128];
        bool fits = true;
        snprintf(line, sizeof line, "plan tiny --batch 16 --json --memory %llu",
                 (unsigned long long)(least - less));
        r = command_run(line);
        parse("plan", r.out, &d);
        assert_int_equal(r.exit, less ? 3 : 0);
        assert_int_equal(json_as_bool(command_value(&d, "fits"), &fits), STATUS_OK);
        assert_int_equal(fits, !less);
        check_plan_json(&d);
        assert_int_equal(command_number(&d, "least_budget_bytes"), least);
        assert_int_equal(command_number(&d, "predicted.peak_bytes"), least);
        assert_true(strlen(r.err) > 0); /* what people read */
        json_close(&d);
        command_free(&r);
    }
}

static void refusal_explains(void **state) {
    (void)state;
    static const char *const says[] = { "does not fit", "missing", "least budget", "--micro-batch auto",
                                        "The peak" };
    char line[128];
    uint64_t least = command_least_budget("plan char-small --batch 48 --micro-batch 48 --json --quiet");
    snprintf(line, sizeof line, "plan char-small --batch 48 --micro-batch 48 --memory %llu",
             (unsigned long long)(least - 1));
    command_result r = command_run(line);
    assert_int_equal(r.exit, 3);
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (!strstr(r.out, says[i])) fail_msg("nothing of '%s' in %s", says[i], r.out);
    assert_true(one_sentence(r.err));
    command_free(&r);
    command_expect(3, TRAIN "--out refused --memory 1MiB");
    assert_int_not_equal(access("refused", F_OK), 0);
}

/* ---- outputs that end ---- */

static void closed_pipe_is_no_failure(void **state) {
    (void)state;
    const char *const lines[] = { "plan tiny --listing", "plan tiny --json", "help train",
                                  TRAIN "--out piped" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        close(ends[0]);
        pid_t pid = command_start(lines[i], NULL, ends[1]);
        close(ends[1]);
        command_result r = command_wait(pid);
        if (r.exit) print_error("%s: %s", lines[i], r.err);
        assert_int_equal(r.exit, 0);
        assert_null(strstr(r.err, "snug:"));
        command_free(&r);
    }
    assert_int_equal(access("piped/model.safetensors", F_OK), 0); /* and the run went on */
}

static void full_disk_is_one(void **state) {
    (void)state;
    /* What it says fits below the limit, where its output is to be appended nothing does. */
    enum { LIMIT = 4096 };
    static const char taken[LIMIT];
    scratch_write("full", taken, sizeof taken);
    int full = open("full", O_WRONLY | O_APPEND | O_CLOEXEC);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){ LIMIT, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    pid_t pid = command_start("plan tiny --json --quiet", NULL, full);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    command_result r = command_wait(pid);
    close(full);
    assert_int_equal(r.exit, 1);
    assert_true(one_sentence(r.err));
    command_free(&r);
}

/* ---- train and generate ---- */

static void train_then_generate(void **state) {
    (void)state;
    command_result r = command_run(TRAIN "--out model --eval-every 5");
    if (r.exit) print_error("%s%s", r.out, r.err);
    static const char *const says[] = {
        "step 1/12", "step 12/12", "loss",  "norm",   "tok/s",         "validation loss",
        "planned",   "measured",   "equal", "within", "read as bytes", "snug generate model"
    };
    assert_int_equal(r.exit, 0);
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (!strstr(r.out, says[i]) && !(i == 0 && strstr(r.out, "step  1/12")))
            fail_msg("nothing of '%s' in %s", says[i], r.out);
    assert_null(strstr(r.out, "apart by"));
    assert_null(strchr(r.out, '\r'));
    command_free(&r);
    static const char *const files[] = { "model/config.json", "model/model.safetensors",
                                         "model/metrics.jsonl", "model/run.json" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) assert_int_equal(access(files[i], F_OK), 0);

    r = command_run("generate model --prompt=the --tokens 20 --seed 3");
    assert_int_equal(r.exit, 0);
    assert_true(strncmp(r.out, "the", 3) == 0 && strlen(r.out) == 3 + 20 + 1);
    command_result again =
        command_run("generate model --prompt=the --tokens 20 --seed 3 --threads 1 --quiet");
    assert_string_equal(r.out, again.out);
    assert_string_equal(again.err, "");
    command_free(&r);
    command_free(&again);
    r = command_run("generate model --prompt=the --tokens 5 --temperature 0 --json");
    json_document d;
    parse("generate", r.out, &d);
    assert_int_equal(command_number(&d, "new_tokens"), 5);
    assert_int_equal(command_number(&d, "prompt_tokens"), 3);
    json_close(&d);
    command_free(&r);
    command_expect(3, "generate model --prompt=the --memory 1MiB");
    command_expect(0, "train model --data text --out tuned --steps 2 --quiet"); /* goes on from weights */
}

static void run_json_keeps_the_promise(void **state) {
    (void)state;
    command_result r = command_run(TRAIN "--out kept --json");
    json_document printed, kept;
    assert_int_equal(r.exit, 0);
    parse("stdout", r.out, &printed);
    assert_int_equal(json_open("kept/run.json", &kept), STATUS_OK);
    check_plan_json(&kept);
    static const char *const categories[] = { "weights",     "gradients", "optimizer", "activations",
                                              "temporaries", "scratch",   "inputs",    "gaps" };
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++) {
        char planned[64], measured[64];
        snprintf(planned, sizeof planned, "predicted.by_category.%s", categories[i]);
        snprintf(measured, sizeof measured, "measured.by_category.%s", categories[i]);
        assert_int_equal(command_number(&kept, planned), command_number(&kept, measured));
    }
    assert_int_equal(command_number(&kept, "predicted.arena_bytes"),
                     command_number(&kept, "measured.arena_bytes"));
    size_t losses, evaluations, printed_losses;
    assert_int_equal(json_as_array(command_value(&kept, "losses"), &losses), STATUS_OK);
    assert_int_equal(json_as_array(command_value(&kept, "eval_losses"), &evaluations), STATUS_OK);
    assert_int_equal(json_as_array(command_value(&printed, "losses"), &printed_losses), STATUS_OK);
    assert_int_equal(losses, 12);
    assert_int_equal(printed_losses, 12);
    assert_int_equal(evaluations, 1);
    double first, last, rate;
    json_value kept_losses = command_value(&kept, "losses");
    assert_int_equal(json_as_number(json_item(kept_losses, 0), 0, 100, &first), STATUS_OK);
    assert_int_equal(json_as_number(json_item(kept_losses, 11), 0, 100, &last), STATUS_OK);
    assert_int_equal(json_as_number(command_value(&kept, "tokens_per_second"), 0, 1e12, &rate), STATUS_OK);
    assert_true(last < first && rate > 0);
    json_close(&printed);
    json_close(&kept);
    command_free(&r);
}

static long lines_in(const char *path) {
    FILE *file = fopen(path, "r");
    long lines = 0;
    for (int c; file && (c = fgetc(file)) != EOF;) lines += c == '\n';
    if (file) fclose(file);
    return lines;
}

static void pause_briefly(void) { nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL); }

static void interrupt_saves(void **state) {
    (void)state;
    static const int signals[] = { SIGINT, SIGTERM, SIGUSR1 };
    for (size_t i = 0; i < 3; i++) {
        unlink("stopped/metrics.jsonl");
        pid_t pid = command_start(
            "train tiny --data text --out stopped --steps 1000000 --batch 8 --save-every off --resume", NULL,
            -1);
        for (int wait = 0; wait < 3000 && lines_in("stopped/metrics.jsonl") < 3; wait++) pause_briefly();
        assert_true(lines_in("stopped/metrics.jsonl") >= 3);
        kill(pid, signals[i]);
        command_result r = command_wait(pid);
        assert_int_equal(r.exit, 130);
        assert_non_null(strstr(r.err, "snug: "));
        command_free(&r);
        command_expect(0, "generate stopped --prompt=a --tokens 3");
        assert_int_equal(access("stopped/run.json", F_OK), 0);
    }
}

/* Begun with SIGINT ignored, as by nohup or in the background of a script, it does not mind a Ctrl-C that is
 * meant for others. */
static void what_is_ignored_stays_ignored(void **state) {
    (void)state;
    signal(SIGINT, SIG_IGN);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("SNUG_RATES", "built-in", 1);
        execl(SNUG_BUILD "/snug", "snug", "train", "tiny", "--data", "text", "--out", "ignoring", "--steps",
              "1000000", "--batch", "8", "--save-every", "off", "--quiet", NULL);
        _exit(127);
    }
    signal(SIGINT, SIG_DFL);
    for (int wait = 0; wait < 12000 && lines_in("ignoring/metrics.jsonl") < 3; wait++) pause_briefly();
    assert_true(lines_in("ignoring/metrics.jsonl") >= 3);
    kill(pid, SIGINT);
    long before = lines_in("ignoring/metrics.jsonl");
    for (int wait = 0; wait < 12000 && lines_in("ignoring/metrics.jsonl") < before + 3; wait++)
        pause_briefly();
    assert_true(lines_in("ignoring/metrics.jsonl") >= before + 3);
    kill(pid, SIGTERM);
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 130);
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (!failed) command_make_files();
    return failed;
}

/* ---- devices ---- */

static void expect_rates(const char *line, const char *source) {
    const char *const with[] = { "SNUG_RATES=auto", NULL };
    command_result r = command_run_with(line, with);
    if (r.exit != 0 || !command_has_words(r.out, source)) fail_msg("no '%s' in %s%s", source, r.out, r.err);
    command_free(&r);
}

/* Before anything is known, after a run, after measuring, and when the file is damaged. */
static void devices_and_the_rates_in_use(void **state) {
    (void)state;
    const char *const with[] = { "XDG_CACHE_HOME=/dev/null/none", NULL };
    command_result r = command_run_with("devices --json", with);
    json_document d;
    assert_int_equal(r.exit, 0);
    parse("devices", r.out, &d);
    int64_t bytes;
    const char *processor;
    assert_int_equal(json_get_integer(d.root, "memory_bytes", 1 << 20, INT64_MAX, &bytes), STATUS_OK);
    assert_int_equal(json_get_string(d.root, "processor", &processor), STATUS_OK);
#ifndef SNUG_CUDA_DEVICE
    const char *why;
    assert_int_equal(json_get_string(d.root, "no_gpu", &why), STATUS_OK);
    assert_true(strncmp(why, "this snug is built for the CPU only", 35) == 0);
#endif
    json_close(&d);
    command_free(&r);
    expect_rates("plan tiny --rates known", "predicted, with rates of the built-in table");
    expect_rates("plan tiny --rates built-in", "predicted, with rates of the built-in table");
    expect_rates("plan tiny", "predicted, with rates of the short measurement of this machine");
    expect_rates("devices --json", "short measurement of this machine");
    expect_rates("train char-small --data text --out learned --steps 21 --batch 4", "a step (predicted ");
    expect_rates("devices --threads 3 --measure", "measurement of this machine");
    expect_rates("plan tiny", "measurement of this machine");
    expect_rates("plan tiny --json --quiet", "\"rates\": \"measurement of this machine\"");
    command_expect(2, "devices here");
}

/* A first plan measures within the memory of the least budget, and a file that can't be kept is no failure.
 */
static void measuring_stays_within_the_budget(void **state) {
    (void)state;
    const char *const with[] = { "SNUG_RATES=auto", "XDG_CACHE_HOME=/dev/null/none", NULL };
    char line[256];
    uint64_t least = command_least_budget("plan tiny --data text --batch 1 --steps 3 --json --quiet");
    snprintf(line, sizeof line, "plan tiny --data text --batch 1 --steps 3 --memory %llu",
             (unsigned long long)least);
    command_result r = command_run_with(line, with);
    if (r.exit != 0 || !strstr(r.out, "taken now")) fail_msg("%d %s%s", r.exit, r.out, r.err);
    assert_true(r.resident_peak <= least);
    command_free(&r);
    snprintf(line, sizeof line, "train tiny --data text --out within --batch 1 --steps 3 --memory %llu",
             (unsigned long long)least);
    r = command_run_with(line, with);
    if (r.exit != 0) fail_msg("%s%s", r.out, r.err);
    assert_true(r.resident_peak <= least);
    command_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_teaches),
        cmocka_unit_test(help_lists_options_once),
        cmocka_unit_test(nothing_said_shows_the_way),
        cmocka_unit_test(mistakes_get_one_sentence),
        cmocka_unit_test(environment_counts_less_than_the_line),
        cmocka_unit_test(plan_answers),
        cmocka_unit_test(plan_json_and_least_budget),
        cmocka_unit_test(refusal_explains),
        cmocka_unit_test(closed_pipe_is_no_failure),
        cmocka_unit_test(full_disk_is_one),
        cmocka_unit_test(train_then_generate),
        cmocka_unit_test(run_json_keeps_the_promise),
        cmocka_unit_test(interrupt_saves),
        cmocka_unit_test(what_is_ignored_stays_ignored),
        cmocka_unit_test(devices_and_the_rates_in_use),
        cmocka_unit_test(measuring_stays_within_the_budget),
    };
    return cmocka_run_group_tests_name("cli", tests, open_files, scratch_close);
}
