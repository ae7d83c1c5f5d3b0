/* P5 as a user meets it: runs that are killed, stopped, damaged and resumed, compared bit for bit with one
 * that nothing happened to. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/command.h"
#include "io/safetensors.h"
#include "io/scratch.h"

enum { SAVE_EVERY = 4, STEPS = 60 };
/* With dropout, clipping, several validations and a batch that falls into micro-batches. */
#define RUN                                                                                                  \
    "train tiny --data text --steps 60 --batch 8 --warmup 5 --lr 0.003 --eval-every 15 --eval-samples 8 "    \
    "--save-every 4 --threads 2 --micro-batch 8 "

static double whole_seconds; /* that an undisturbed run takes here */

/* ---- looking at runs ---- */

static char *contents(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("there is no %s", path);
    char *data = calloc(1, 4 << 20);
    *bytes = fread(data, 1, 4 << 20, file);
    fclose(file);
    return data;
}

static void assert_same_file(const char *a, const char *b) {
    size_t n, m;
    char *x = contents(a, &n), *y = contents(b, &m);
    if (n != m || memcmp(x, y, n) != 0) fail_msg("%s and %s differ", a, b);
    free(x);
    free(y);
}

/* The numbers of run.json from "losses" on, as text: equal texts are equal bits. */
static char *losses_of(const char *run) {
    char path[64];
    size_t bytes;
    snprintf(path, sizeof path, "%s/run.json", run);
    char *data = contents(path, &bytes), *from = strstr(data, "\"losses\""),
         *to = strstr(data, "\"tokens_per_second\"");
    assert_true(from && to && from < to);
    char *kept = strndup(from, (size_t)(to - from));
    free(data);
    return kept;
}

/* The whole outcome: weights, state of the optimizer, all losses and validations. */
static void assert_same_run(const char *a, const char *b) {
    char x[64], y[64];
    static const char *const files[] = { "model.safetensors", "checkpoint-60/optimizer.safetensors",
                                         "checkpoint-60/model.safetensors" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(x, sizeof x, "%s/%s", a, files[i]);
        snprintf(y, sizeof y, "%s/%s", b, files[i]);
        assert_same_file(x, y);
    }
    char *one = losses_of(a), *other = losses_of(b);
    assert_string_equal(one, other);
    free(one);
    free(other);
}

static int64_t last_step(const char *run) {
    char path[64], line[512];
    long long step = 0, last = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "{\"step\": %lld, \"loss\"", &step) == 1 && strchr(line, '\n')) last = step;
    if (file) fclose(file);
    return last;
}

static int64_t newest(const char *run) {
    DIR *folder = opendir(run);
    long long step, most = 0;
    char rest;
    for (struct dirent *item; folder && (item = readdir(folder));)
        if (sscanf(item->d_name, "checkpoint-%lld%c", &step, &rest) == 1 && step > most) most = step;
    if (folder) closedir(folder);
    return most;
}

/* Was it killed inside a save? */
static bool has_partial(const char *run) {
    DIR *folder = opendir(run);
    bool found = false;
    for (struct dirent *item; folder && (item = readdir(folder));)
        found |= strncmp(item->d_name, "checkpoint-", 11) == 0 && strstr(item->d_name, ".partial");
    if (folder) closedir(folder);
    return found;
}

static command_result expect(int code, const char *line, const char *says) {
    command_result r = command_run(line);
    if (r.exit != code || !(strstr(r.err, says) || strstr(r.out, says)))
        fail_msg("snug %s: exit %d, nothing of '%s' in %s%s", line, r.exit, says, r.out, r.err);
    return r;
}

static void expect_quietly(int code, const char *line, const char *says) {
    command_result r = expect(code, line, says);
    command_free(&r);
}

static void copy_run(const char *from, const char *to) {
    char line[256];
    snprintf(line, sizeof line, "rm -rf %s && cp -r %s %s", to, from, to);
    assert_int_equal(system(line), 0);
}

static void pause_for(double seconds) {
    nanosleep(&(struct timespec){ .tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) },
              NULL);
}

/* ---- tests ---- */

/* Killed again and again at random instants, many of them inside a save, and resumed each time. */
static void kills_lose_nothing(void **state) {
    (void)state;
    bool thorough = getenv("SNUG_TEST_LONG") && atoi(getenv("SNUG_TEST_LONG"));
    int wanted = thorough ? 200 : 8, kills = 0, inside = 0, runs = 0;
    uint64_t random = 20260727;
    while (kills < wanted) {
        char run[32], line[256];
        int code = -1;
        snprintf(run, sizeof run, "killed-%d", runs++);
        snprintf(line, sizeof line, RUN "--out %s --resume", run);
        while (code != 0) {
            pid_t pid = command_start(line, NULL, -1);
            pause_for((double)scratch_random(&random) / (double)(1u << 31) * 0.8 * whole_seconds);
            kill(pid, SIGKILL);
            command_result r = command_wait(pid);
            code = r.exit;
            if (code > 0) fail_msg("after %d kills: exit %d, %s", kills, code, r.err);
            kills += code != 0;
            inside += code != 0 && has_partial(run);
            command_free(&r);
            int64_t lost = last_step(run) - newest(run);
            if (lost > SAVE_EVERY) fail_msg("after %d kills %lld steps were lost", kills, (long long)lost);
        }
        assert_same_run("whole", run);
        snprintf(line, sizeof line, "rm -r %s", run);
        assert_int_equal(system(line), 0);
    }
    print_message("%d kills, %d of them inside a save, in %d runs\n", kills, inside, runs);
}

/* A stop in the middle, then other threads and another budget: the same bits. */
static void stops_at(const char *out, int64_t least) {
    char line[256];
    snprintf(line, sizeof line, RUN "--out %s", out);
    pid_t pid = command_start(line, NULL, -1);
    for (int wait = 0; wait < 20000 && last_step(out) < least; wait++) pause_for(0.0005);
    kill(pid, SIGUSR1);
    command_result r = command_wait(pid);
    if (r.exit == 0) fail_msg("the run was too fast to be stopped");
    assert_int_equal(r.exit, 130);
    assert_non_null(strstr(r.err, "--resume goes on from there"));
    command_free(&r);
    assert_int_equal(newest(out), last_step(out));
}

static void stopped_runs_go_on(void **state) {
    (void)state;
    stops_at("stopped", 10);
    copy_run("stopped", "threads");
    expect_quietly(0, RUN "--out stopped --resume", "with the plan that it was begun with");
    assert_same_run("whole", "stopped");
    expect_quietly(0,
                   "train tiny --data text --steps 60 --batch 8 --warmup 5 --lr 0.003 --eval-every 15 "
                   "--eval-samples 8 --save-every 4 --threads 1 --out threads --resume",
                   "with the plan that it was begun with");
    assert_same_run("whole", "threads");
    expect_quietly(0, RUN "--out stopped --resume", "resuming stopped/checkpoint-60"); /* nothing is left */
    assert_same_run("whole", "stopped");
}

/* char-small has room for choices: the stored ones do not fit the smaller budget. */
static void smaller_budgets_plan_anew(void **state) {
    (void)state;
#define CHARS "train char-small --data text --steps 4 --batch 4 --save-every 2 --eval-samples 2 --threads 2 "
    expect_quietly(0, CHARS "--out roomy --attention off --exact", "planned");
    copy_run("roomy", "tight");
    assert_int_equal(system("rm -r tight/checkpoint-4 tight/model.safetensors"), 0);
    copy_run("tight", "loose");
    /* Between what must be and what the first run took; with sanitizers in the process both are larger. */
    uint64_t least = command_least_budget("plan char-small --batch 4 --threads 2 --json --quiet");
    char line[512];
    snprintf(line, sizeof line, CHARS "--out tight --resume --memory %llu",
             (unsigned long long)least + (12 << 20));
    command_result r = expect(0, line, "with another plan, since the earlier one does not fit ");
    assert_true(command_has_words(r.err, "results stay the same bit for bit") ||
                command_has_words(r.out, "results stay the same bit for bit"));
    command_free(&r);
    assert_same_file("roomy/model.safetensors", "tight/model.safetensors");
    expect_quietly(0, CHARS "--out loose --resume --recompute block",
                   "with another plan, as the options ask; results stay the same bit for bit");
    assert_same_file("roomy/model.safetensors", "loose/model.safetensors");
}

/* State of the optimizer in fewer bits is kept as it is, bit for bit, and a run goes on with what it had. */
static void narrow_state_goes_on(void **state) {
    (void)state;
    static const char *const forms[] = { "8bit:all", "bf16", "8bit:all --optimizer lion",
                                         "8bit:all --optimizer sgd --momentum 0.9" };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char line[512];
        const char *run = "train tiny --data text --steps 60 --batch 8 --warmup 5 --lr 0.003 --threads 2 "
                          "--save-every 30 --optimizer-state";
        assert_int_equal(system("rm -rf narrow resumed"), 0);
        snprintf(line, sizeof line, "%s %s --out narrow", run, forms[i]);
        expect_quietly(0, line, "planned");
        copy_run("narrow", "resumed");
        assert_int_equal(system("rm -r resumed/checkpoint-60 resumed/model.safetensors"), 0);
        snprintf(line, sizeof line, "%s %s --out resumed --resume", run, forms[i]);
        expect_quietly(0, line, "with the plan that it was begun with");
        assert_same_run("narrow", "resumed");
        assert_int_equal(system("rm -r resumed/checkpoint-60"), 0);
        char *rest = strchr(forms[i], ' '); /* not said again it is the same all the same */
        snprintf(line, sizeof line, "%s auto %s --out resumed --resume", run, rest ? rest : "");
        expect_quietly(0, line, "with the plan that it was begun with");
        assert_same_run("narrow", "resumed");
        assert_int_equal(system("rm -r resumed/checkpoint-60"), 0);
        snprintf(line, sizeof line, "%s f32 %s --out resumed --resume", run, rest ? rest : "");
        expect_quietly(2, line, "resume with the options that it was begun with");
    }
}

/* State in a file is the same run: its checkpoints are the same bytes, it goes on from another's and another
 * from its own, also after a kill; and nothing stays in the folder. */
static void moved_out_state_goes_on(void **state) {
    (void)state;
#define MOVED "--offload optimizer --offload-to " SNUG_BUILD " --out "
    command_result r = command_run(RUN MOVED "moved");
    if (strstr(r.err, "lies in memory")) {
        print_message("the build is on no disk\n");
        command_free(&r);
        return;
    }
    assert_int_equal(r.exit, 0);
    command_free(&r);
    assert_same_run("whole", "moved");
    for (int back = 0; back < 2; back++) {
        assert_int_equal(system("rm -r moved/checkpoint-60 moved/model.safetensors"), 0);
        expect_quietly(0, back ? RUN "--out moved --resume" : RUN MOVED "moved --resume",
                       "resuming moved/checkpoint-56");
        assert_same_run("whole", "moved");
    }
    copy_run("whole", "back");
    assert_int_equal(system("rm -r back/checkpoint-60 back/model.safetensors"), 0);
    expect_quietly(0, RUN MOVED "back --resume", "results stay the same bit for bit");
    assert_same_run("whole", "back");
    pid_t pid = command_start(RUN MOVED "shot", NULL, -1);
    for (int wait = 0; wait < 20000 && newest("shot") < 8; wait++) pause_for(0.0005);
    kill(pid, SIGKILL);
    r = command_wait(pid);
    command_free(&r);
    assert_int_equal(system("ls -A " SNUG_BUILD " | grep -q moved-out"), 1 << 8);
    expect_quietly(0, RUN MOVED "shot --resume", "resuming shot/checkpoint-");
    assert_same_run("whole", "shot");
#define MIXED                                                                                                \
    "train tiny --data text --steps 60 --batch 8 --warmup 5 --lr 0.003 --eval-every 15 --eval-samples 8 "    \
    "--save-every 4 --threads 2 --precision mixed-bf16 --micro-batch 4 --accumulation add "
#define ALL "--offload optimizer,master,gradients --offload-to " SNUG_BUILD
    expect_quietly(0, MIXED "--out mixed", "planned");
    expect_quietly(0, MIXED ALL " --out mixed-moved", "planned");
    assert_same_run("mixed", "mixed-moved");
    for (int back = 0; back < 2; back++) {
        assert_int_equal(system("rm -r mixed-moved/checkpoint-60 mixed-moved/model.safetensors"), 0);
        expect_quietly(0, back ? MIXED "--out mixed-moved --resume" : MIXED ALL " --out mixed-moved --resume",
                       "resuming mixed-moved/checkpoint-56");
        assert_same_run("mixed", "mixed-moved");
    }
}

/* What is kept in 8 bits between forward and backward is gone when a step is done, and weights that are read
 * rounded are saved as they are: nothing of either is in a checkpoint, and the run goes on as it was. */
static void rounding_goes_on(void **state) {
    (void)state;
    static const char *const forms[] = { "--compress-activations 8bit", "--qat int8 --micro-batch 4",
                                         "--qat int8 --precision mixed-bf16 --compress-activations 8bit" };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char line[512];
        const char *run = "train tiny --data text --steps 60 --batch 8 --warmup 5 --lr 0.003 --threads 2 "
                          "--save-every 30";
        assert_int_equal(system("rm -rf rounded resumed"), 0);
        snprintf(line, sizeof line, "%s %s --out rounded", run, forms[i]);
        expect_quietly(0, line, "planned");
        copy_run("rounded", "resumed");
        for (int again = 0; again < 2; again++) { /* said again, and not */
            assert_int_equal(system("rm -r resumed/checkpoint-60 resumed/model.safetensors"), 0);
            snprintf(line, sizeof line, "%s %s --out resumed --resume", run, again ? "" : forms[i]);
            expect_quietly(0, line, "with the plan that it was begun with");
            assert_same_run("rounded", "resumed");
        }
    }
}

/* So are weights of 16 bits, the scale of f16's gradients and where stochastic rounding stands; the model
 * that comes of it speaks. */
static void precisions_go_on(void **state) {
    (void)state;
    static const char *const forms[] = { "bf16 --micro-batch 4", "mixed-f16:7 --recompute block",
                                         "mixed-bf16", "bf16 --optimizer-state 8bit:all --optimizer lion",
                                         "int8 --micro-batch 4" };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char line[512];
        const char *run = "train tiny --data text --steps 60 --batch 8 --warmup 5 --lr 0.003 --threads 2 "
                          "--save-every 30 --precision";
        assert_int_equal(system("rm -rf narrow resumed"), 0);
        snprintf(line, sizeof line, "%s %s --out narrow", run, forms[i]);
        expect_quietly(0, line, "planned");
        copy_run("narrow", "resumed");
        assert_int_equal(system("rm -r resumed/checkpoint-60 resumed/model.safetensors"), 0);
        snprintf(line, sizeof line, "%s %s --out resumed --resume", run, forms[i]);
        expect_quietly(0, line, "with the plan that it was begun with");
        assert_same_run("narrow", "resumed");
        expect_quietly(0, "generate narrow --prompt a --tokens 5", "");
    }
#define AGAIN "train narrow --data text --steps 1 --batch 8 --threads 2 "
    expect_quietly(0, AGAIN "--precision int8 --out again", "planned");
    expect_quietly(2, AGAIN "--out more", "--precision int8");
    expect_quietly(0, "train narrow --data text --eval-only --eval-samples 4", "validation loss");
    expect_quietly(0, "train tiny --data text --steps 2 --batch 8 --precision bf16 --out half", "planned");
#undef AGAIN
#define AGAIN "train half --data text --steps 1 --batch 8 --threads 2 "
    expect_quietly(0, AGAIN "--out more", "planned");
    expect_quietly(0, AGAIN "--precision bf16 --out more --overwrite", "planned");
    expect_quietly(0, AGAIN "--precision int8 --out more --overwrite", "planned");
}

static void other_runs_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *more, *says;
    } cases[] = {
        { "tiny --data text --batch 16", "--batch was 8 and is 16" },
        { "tiny --data text --batch 8 --seed 4", "--seed was 1337 and is 4" },
        { "tiny --data text --batch 8 --optimizer sgd", "--optimizer was adamw and is sgd" },
        { "tiny --data text --batch 8 --clip off", "--clip was 1 and is 0" },
        { "tiny --data text --batch 8 --context 16", "--context was 32 and is 16" },
        { "tiny --data text --batch 8 --dropout 0", "another model: embd_pdrop was 0.1 and is 0" },
        { "deep --data text --batch 8", "n_layer was 2 and is 96" },
        { "tiny --data changed --batch 8", "other data: digest was" },
        { "tiny --data shorter --batch 8", "other data: samples was" },
    };
    size_t bytes;
    char *words = contents("text", &bytes);
    scratch_write("shorter", words, bytes - 1000);
    words[bytes / 2] ^= 1;
    scratch_write("changed", words, bytes);
    free(words);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[512];
        snprintf(line, sizeof line, "train %s --steps 60 --warmup 5 --lr 0.003 --out whole --resume",
                 cases[i].more);
        expect_quietly(2, line, cases[i].says);
    }
    expect_quietly(2, RUN "--out fresh --resume missing", "there is no checkpoint-N in it");
    assert_int_equal(access("fresh", F_OK), -1);
    expect_quietly(0, RUN "--out fresh --resume whole", "resuming whole/checkpoint-60");
    assert_same_file("fresh/model.safetensors", "whole/model.safetensors");
}

/* What lies in --out is left alone without a word for it, to the byte, however the run there ended; and what
 * is said fits what lies there. */
static void folders_in_use_are_refused(void **state) {
    (void)state;
#define SHORT "train tiny --data text --steps 3 --batch 4 --eval-samples 2 --threads 2 "
    static const struct {
        const char *line, *says;
    } cases[] = {
        { RUN "--out whole", "whole holds this run, and it is finished: all 60 steps are done; to train on" },
        { RUN "--seed 4 --out whole", "whole holds another run, which finished after 60 steps" },
        { SHORT "--out done", "done holds this run, and it is finished: all 3 steps are done; to train on" },
        { SHORT "--out done --resume", "and it is finished: all 3 steps are done" },
        { SHORT "--seed 4 --out done --resume", "done holds another run" },
        { SHORT "--seed 4 --out done", "choose another --out, or --overwrite to begin anew" },
        { RUN "--out done --resume whole", "done holds another run, which finished after 3 steps" },
        { SHORT "--out model", "model holds a model already (model.safetensors)" },
        { SHORT "--out model --resume", "model holds a model already" },
        { SHORT "--out tiny", "tiny holds a model already (config.json)" },
        { SHORT "--out part", "part has checkpoints of an earlier run, the newest of step 4; continue it" },
        { SHORT "--out done --resume --overwrite", "leave one of the two out" },
        { RUN "--out whole/ --resume whole --overwrite", "leave one of the two out" },
        { RUN "--out nest --resume nest/inner", "nest holds another run, which finished after 3 steps" },
        { "train whole/checkpoint-60 --data text --out whole --overwrite", "which the run begins from" },
        { "train tiny --data text --steps 3 --schedule constant --save-every 2 --out level",
          "give more --steps and --resume to train on" },
    };
    expect_quietly(0, SHORT "--out done", "planned");
    expect_quietly(0, "train tiny --data text --steps 3 --schedule constant --save-every 2 --out level", "");
    assert_int_equal(
        system("mkdir model part && cp -r done nest && cp -r whole nest/inner && cp done/model.safetensors "
               "done/config.json model && "
               "cp -r whole/checkpoint-60 part/checkpoint-4 && "
               "find whole done nest model part level tiny -type f | sort | xargs md5sum >before"),
        0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect_quietly(2, cases[i].line, cases[i].says);
    assert_int_equal(
        system("find whole done nest model part level tiny -type f | sort | xargs md5sum >after && "
               "cmp before after"),
        0);
}

/* Nothing is going to run, so no plan is announced. */
static void a_finished_run_is_only_said_to_be_one(void **state) {
    (void)state;
    copy_run("whole", "over");
    command_result r = command_run(RUN "--out over --resume");
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "all 60 steps are done already"));
    assert_null(strstr(r.out, "predicted peak"));
    command_free(&r);
    assert_int_equal(system(SNUG_BUILD "/snug " RUN "--out over --resume --json --quiet >over/said"), 0);
    assert_int_equal(system("cmp over/said over/run.json"), 0);
}

/* A folder is what it is, however it is written: the run goes on there, and its history with it. */
static void another_spelling_is_the_same_folder(void **state) {
    (void)state;
    copy_run("whole", "spelt");
    assert_int_equal(system("rm -r spelt/checkpoint-60"), 0);
    expect_quietly(0, RUN "--out spelt/ --resume ./spelt", "resuming");
    assert_same_run("whole", "spelt");
}

/* With the word for it nothing of the run that was before stays; but the model that is trained on does until
 * there is its successor. */
static void overwriting_begins_anew(void **state) {
    (void)state;
    copy_run("whole", "anew");
    expect_quietly(0, SHORT "--seed 4 --out apart", "planned");
    expect_quietly(3, SHORT "--seed 4 --out anew --overwrite --memory 1MiB", "does not fit");
    assert_same_run("whole", "anew");
    expect_quietly(0, SHORT "--seed 4 --out anew --overwrite", "planned");
    assert_same_file("apart/model.safetensors", "anew/model.safetensors");
    assert_int_equal(newest("anew"), 0);
    copy_run("whole", "begun");
    unlink("begun/metrics.jsonl");
    pid_t pid = command_start("train tiny --data text --steps 1000000 --out begun --overwrite", NULL, -1);
    for (int wait = 0; wait < 20000 && last_step("begun") < 1; wait++) pause_for(0.0005);
    kill(pid, SIGKILL);
    command_result r = command_wait(pid);
    command_free(&r);
    assert_int_equal(access("begun/model.safetensors", F_OK), -1);
    assert_int_equal(newest("begun"), 0);
    expect_quietly(0, SHORT "--out begun", "planned"); /* a start that came to nothing is in nobody's way */
    expect_quietly(0, "train anew --data text --steps 2 --batch 4 --out anew --overwrite", "planned");
}

/* A start that validates less often has room for fewer of them than the starts before have left. */
static void validating_less_often_goes_on(void **state) {
    (void)state;
    json_document d;
    copy_run("whole", "seldom");
    assert_int_equal(system("rm -r seldom/checkpoint-60"), 0);
    expect_quietly(0,
                   "train tiny --data text --steps 60 --batch 8 --warmup 5 --lr 0.003 --eval-samples 8 "
                   "--threads 2 --micro-batch 8 --out seldom --resume",
                   "resuming");
    assert_int_equal(json_open("seldom/run.json", &d), STATUS_OK);
    json_value of = command_value(&d, "eval_losses");
    size_t count;
    int64_t step;
    assert_int_equal(json_as_array(of, &count), STATUS_OK);
    assert_int_equal(count, 1);
    assert_int_equal(json_get_integer(json_item(of, 0), "step", 1, 60, &step), STATUS_OK);
    assert_int_equal(step, 60);
    json_close(&d);
}

/* Each file of the newest checkpoint damaged in turn: cut, one bit turned, gone. */
static void damage_falls_back(void **state) {
    (void)state;
    static const char *const files[] = { "model.safetensors", "optimizer.safetensors", "trainer_state.json" };
    for (size_t i = 0; i < 3; i++)
        for (int how = 0; how < 3; how++) {
            char path[64];
            size_t bytes;
            copy_run("whole", "damaged");
            snprintf(path, sizeof path, "damaged/checkpoint-60/%s", files[i]);
            char *data = contents(path, &bytes);
            data[bytes / 2] ^= 4;
            if (how == 2)
                unlink(path);
            else
                scratch_write(path, data, how ? bytes : bytes / 2);
            free(data);
            command_result r =
                expect(0, RUN "--out damaged --resume", "damaged/checkpoint-60 is passed over: ");
            assert_non_null(strstr(r.out, "resuming damaged/checkpoint-56 "));
            command_free(&r);
            assert_same_run("whole", "damaged");
        }
    assert_int_equal(system("rm -r damaged/checkpoint-60 && rm damaged/checkpoint-56/model.safetensors"), 0);
    expect_quietly(2, RUN "--out damaged --resume", "none of the 1 checkpoints in damaged can be used");
}

static void two_runs_in_one_folder_are_refused(void **state) {
    (void)state;
    pid_t pid = command_start("train tiny --data text --out busy --steps 1000000", NULL, -1);
    for (int wait = 0; wait < 20000 && last_step("busy") < 1; wait++) pause_for(0.0005);
    rename("err", "err-first"); /* the second run has files of these names too */
    rename("out", "out-first");
    command_result r = command_run(RUN "--out busy --resume");
    char says[64];
    snprintf(says, sizeof says, "busy/run.lock is held by process %d", (int)pid);
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, says));
    command_free(&r);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(access("busy/run.lock", F_OK), 0); /* left behind, and no lock any more */
    expect_quietly(0, RUN "--out busy --resume", "the run begins at the start");
    assert_int_equal(access("busy/run.lock", F_OK), -1);
}

/* The second SIGINT ends it at once; a SIGTERM after a SIGTERM does not. */
static void second_interrupt_stops_at_once(void **state) {
    (void)state;
    static const int second[] = { SIGINT, SIGTERM };
    for (int i = 0; i < 2; i++) {
        unlink("twice/metrics.jsonl");
        pid_t pid = command_start("train char-small --data text --out twice --steps 1000 --batch 64 "
                                  "--save-every off --resume",
                                  NULL, -1);
        for (int wait = 0; wait < 20000 && last_step("twice") < 1; wait++) pause_for(0.0005);
        kill(pid, SIGTERM);
        pause_for(0.02); /* within the next step, which takes longer */
        kill(pid, second[i]);
        command_result r = command_wait(pid);
        assert_int_equal(r.exit, 130);
        assert_true((newest("twice") > 0) == (i == 1));
        command_free(&r);
    }
}

/* Whether the process has handlers for these signals already. */
static bool watches(pid_t pid, int signal_number) {
    char path[64], line[256];
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "SigCgt: %llx", &caught) == 1) break;
    if (file) fclose(file);
    return caught >> (signal_number - 1) & 1;
}

/* Nothing was begun, so nothing is left behind; a script sees the same exit code as later. */
static void signals_while_planning(void **state) {
    (void)state;
    static const int signals[] = { SIGINT, SIGTERM, SIGUSR1 };
    for (int i = 0; i < 3; i++) {
        pid_t pid = command_start("train gpt2-xl --data text --batch 64 --out unborn", NULL, -1);
        for (int wait = 0; wait < 20000 && !watches(pid, SIGUSR1); wait++) pause_for(0.0005);
        kill(pid, signals[i]);
        command_result r = command_wait(pid);
        assert_int_equal(r.exit, 130);
        assert_non_null(strstr(r.err, "stopped before training began"));
        command_free(&r);
        assert_int_equal(access("unborn", F_OK), -1);
    }
}

/* A validation is not worth waiting for; resuming makes up for it. */
#define JUDGED                                                                                               \
    "train char-small --data text --eval-data text --eval-every 1 --eval-samples 192 --batch 1 "             \
    "--steps 1000 --save-every off --out judged --resume"

/* Starts or goes on, and gets the signal behind step `after`; returns the step it stopped at. */
static int64_t stop_judging(int signal_number, int64_t after) {
    pid_t pid = command_start(JUDGED, NULL, -1);
    for (int wait = 0; wait < 60000 && last_step("judged") <= after; wait++) pause_for(0.001);
    pause_for(0.02); /* into the validation, which takes much longer than a step */
    kill(pid, signal_number);
    command_result r = command_wait(pid);
    assert_int_equal(r.exit, 130);
    command_free(&r);
    assert_int_equal(newest("judged"), last_step("judged"));
    return newest("judged");
}

static bool is_judged(int64_t step) {
    char line[64];
    size_t bytes;
    snprintf(line, sizeof line, "{\"step\": %lld, \"eval_loss\"", (long long)step);
    char *metrics = contents("judged/metrics.jsonl", &bytes);
    bool found = strstr(metrics, line);
    free(metrics);
    return found;
}

static void signals_while_validating(void **state) {
    (void)state;
    static const int signals[] = { SIGINT, SIGTERM, SIGUSR1 };
    int64_t before = 0;
    for (int i = 0; i < 3; i++) {
        int64_t done = stop_judging(signals[i], before);
        assert_true(done > before);
        assert_false(is_judged(done));
        assert_true(!before || is_judged(before));
        before = done;
    }
}

/* The data goes away under a run; put back, the run goes on. */
static void read_errors_lose_nothing(void **state) {
    (void)state;
    size_t bytes;
    char *words = contents("text", &bytes);
    scratch_write("vanishing", words, bytes);
    const char *line = "train tiny --data vanishing --steps 1000000 --save-every 5 --out torn --resume";
    pid_t pid = command_start(line, NULL, -1);
    for (int wait = 0; wait < 20000 && newest("torn") < 5; wait++) pause_for(0.0005);
    assert_int_equal(truncate("vanishing", 100), 0);
    command_result r = command_wait(pid);
    assert_int_equal(r.exit, 1);
    assert_non_null(strstr(r.err, "it has become shorter; --resume goes on from torn/checkpoint-"));
    command_free(&r);
    scratch_write("vanishing", words, bytes);
    free(words);
    int64_t before = newest("torn");
    pid = command_start(line, NULL, -1);
    for (int wait = 0; wait < 20000 && newest("torn") <= before; wait++) pause_for(0.0005);
    kill(pid, SIGTERM);
    r = command_wait(pid);
    assert_int_equal(r.exit, 130);
    assert_true(newest("torn") > before);
    command_free(&r);
}

/* A file system of its own with room for so many files and folders, used up by one save or another, which
 * bytes do not tell beforehand; then there is room again. */
static void full_disks_lose_nothing(void **state) {
    (void)state;
    static const int files[] = { 8, 14, 19, 22 };
    mkdir("small", 0700);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char line[1024], run[32];
        snprintf(run, sizeof run, "filled-%d", files[i]);
        snprintf(line, sizeof line,
                 "unshare -m sh -c 'mount -t tmpfs -o size=64m,nr_inodes=%d none small && { " SNUG_BUILD
                 "/snug " RUN "--out small/run >said 2>&1; echo $? >code; cp -r small/run %s; }' 2>/dev/null",
                 files[i], run);
        if (system(line) != 0) {
            print_message("no file system can be mounted here\n");
            return;
        }
        size_t bytes;
        char *said = contents("said", &bytes), *code = contents("code", &bytes);
        if (strcmp(code, "1\n") != 0 || !strstr(said, "No space left on device; free some space"))
            fail_msg("%d files: exit %s, %s", files[i], code, said);
        assert_true((newest(run) > 0) ==
                    (strstr(said, "--resume goes on from small/run/checkpoint-") != NULL));
        assert_true((newest(run) > 0) == (files[i] > 10));
        free(said);
        free(code);
        snprintf(line, sizeof line, RUN "--out %s --resume", run);
        command_expect(0, line);
        assert_same_run("whole", run);
    }
}

/* One byte of the text has an embedding near the end of what f32 holds: the step that meets it fails. */
static void faults_are_found(void **state) {
    (void)state;
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32, "
        "\"n_positions\": 32, \"vocab_size\": 256, \"tie_word_embeddings\": false}\n";
    float huge[32];
    size_t bytes;
    for (int i = 0; i < 32; i++) huge[i] = i % 2 ? 3e38f : -3e38f;
    mkdir("untied", 0700);
    scratch_write("untied/config.json", config, sizeof config - 1);
    command_expect(0, "train untied --data text --steps 1 --out poisoned --quiet");
    safetensors file;
    assert_int_equal(safetensors_open("poisoned", &file), STATUS_OK);
    uint64_t at = safetensors_find(&file, "transformer.wte.weight")->offset + 'Z' * sizeof huge;
    safetensors_close(&file);
    char *data = contents("poisoned/model.safetensors", &bytes);
    memcpy(data + at, huge, sizeof huge);
    scratch_write("poisoned/model.safetensors", data, bytes);
    free(data);
    data = contents("text", &bytes);
    data[bytes / 3] = 'Z';
    scratch_write("rare", data, bytes);
    free(data);
    command_result r =
        expect(1, "train poisoned --data rare --steps 60 --batch 32 --save-every 3 --out faulty",
               "layernorm in block 0 made it first, in forward");
    long long step, saved;
    const char *sentence = strstr(r.err, "the loss became "), *rest = strstr(r.err, "faulty/checkpoint-");
    assert_non_null(sentence);
    assert_non_null(rest);
    assert_int_equal(sscanf(strstr(sentence, "in step"), "in step %lld", &step), 1);
    assert_int_equal(sscanf(rest, "faulty/checkpoint-%lld", &saved), 1);
    assert_int_equal(saved, (step - 1) / 3 * 3);
    assert_int_equal(last_step("faulty"), step - 1);
    command_free(&r);
    command_expect(1,
                   "train poisoned --data rare --steps 60 --batch 32 --save-every 3 --out faulty --resume");
    assert_int_equal(last_step("faulty"), step - 1); /* it comes to the same place */
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (failed) return failed;
    command_make_files();
    double begin = clock_seconds();
    command_expect(0, RUN "--out whole --quiet");
    whole_seconds = clock_seconds() - begin;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_runs_go_on),
        cmocka_unit_test(kills_lose_nothing),
        cmocka_unit_test(smaller_budgets_plan_anew),
        cmocka_unit_test(narrow_state_goes_on),
        cmocka_unit_test(moved_out_state_goes_on),
        cmocka_unit_test(other_runs_are_refused),
        cmocka_unit_test(folders_in_use_are_refused),
        cmocka_unit_test(overwriting_begins_anew),
        cmocka_unit_test(a_finished_run_is_only_said_to_be_one),
        cmocka_unit_test(another_spelling_is_the_same_folder),
        cmocka_unit_test(validating_less_often_goes_on),
        cmocka_unit_test(precisions_go_on),
        cmocka_unit_test(rounding_goes_on),
        cmocka_unit_test(damage_falls_back),
        cmocka_unit_test(two_runs_in_one_folder_are_refused),
        cmocka_unit_test(signals_while_planning),
        cmocka_unit_test(signals_while_validating),
        cmocka_unit_test(read_errors_lose_nothing),
        cmocka_unit_test(full_disks_lose_nothing),
        cmocka_unit_test(faults_are_found),
        cmocka_unit_test(second_interrupt_stops_at_once),
    };
    return cmocka_run_group_tests_name("resume", tests, open_files, scratch_close);
}
