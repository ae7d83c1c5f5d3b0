/* Random models, batches, units or none, ranks, techniques and budgets under mpirun: each run keeps to its
 * plan, and with --exact has the bits of one process, or all end with one sentence. And processes that are
 * killed at random instants, while they load, plan, compute and save: all are gone within 5 s, and what is
 * left goes on with other ranks to the bits of a run that nobody has killed.
 *
 *     test_ranks_random [CASES [SEED]]        more of them than the fixed number, or others */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/several.h"
#include "io/scratch.h"

enum { CASES = 8, KILLS = 2, LINE = 900 };

static uint64_t seed = 1;
static int wanted = CASES;

static int draw(int below) { return (int)(scratch_random(&seed) % (uint32_t)below); }
static int one_of(const int *list, int count) { return list[draw(count)]; }
#define DRAW(...)                                                                                            \
    one_of((const int[]){ __VA_ARGS__ }, (int)(sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)))
#define WORD(...)                                                                                            \
    ((const char *const[]){                                                                                  \
        __VA_ARGS__ }[draw((int)(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)))])

/* ---- runs ---- */

static void draw_model(void) {
    char config[500];
    int heads = DRAW(1, 2, 4), width = heads * DRAW(8, 16, 24, 40), layers = DRAW(1, 2, 3);
    const char *tied = WORD("true", "false");
    if (draw(2))
        snprintf(
            config, sizeof config,
            "{\"model_type\": \"gpt2\", \"n_layer\": %d, \"n_head\": %d, \"n_embd\": %d, \"n_positions\": "
            "64, \"vocab_size\": %d, \"tie_word_embeddings\": %s}\n",
            layers, heads, width, DRAW(256, 2500, 5000), tied);
    else
        snprintf(config, sizeof config,
                 "{\"model_type\": \"llama\", \"num_hidden_layers\": %d, \"num_attention_heads\": %d, "
                 "\"num_key_value_heads\": %d, \"hidden_size\": %d, \"intermediate_size\": %d, "
                 "\"max_position_embeddings\": 64, \"vocab_size\": %d, \"rms_norm_eps\": 1e-5, "
                 "\"tie_word_embeddings\": %s}\n",
                 layers, heads, draw(2) ? heads : 1, width, width * DRAW(2, 3), DRAW(256, 2500, 5000), tied);
    mkdir("drawn", 0700);
    scratch_write("drawn/config.json", config, strlen(config));
}

typedef struct {
    int ranks;
    bool exact;
    char options[LINE];
    const char *sharding; /* of several alone */
} run;

/* Without a unit: some or no whole tiles of rows on each rank, in one micro-batch or in several. */
static run draw_chain(void) {
    run r = { .ranks = DRAW(2, 3, 4, 6), .exact = true, .sharding = WORD("", " --sharding chain") };
    int context = DRAW(16, 32, 64), tile = 256 / context, samples = tile * DRAW(1, 1, 2, 3);
    if (draw(6) == 0) samples--;
    char more[40] = "";
    if (draw(4) == 0) snprintf(more, sizeof more, " --micro-batch %d", draw(2) ? tile : samples);
    snprintf(r.options, sizeof r.options,
             "drawn --data text --context %d --batch %d --steps %d --optimizer %s --clip %s --dropout %s "
             "--eval-samples %d --eval-every 2 --threads %d --seed %d --quiet --exact%s%s",
             context, samples * r.ranks, DRAW(2, 3), WORD("adamw", "sgd", "lion", "adafactor"),
             WORD("off", "1", "0.1"), WORD("0", "0.2"), DRAW(1, 3, 37), DRAW(1, 1, 2), draw(1000), more,
             WORD("", "", " --recompute block", " --chunk-loss 256"));
    return r;
}

static run draw_run(void) {
    if (draw(4) == 0) return draw_chain();
    run r = { .ranks = DRAW(2, 3, 4, 6), .exact = draw(4) > 0 };
    int unit = DRAW(1, 2, 3, 4), units = r.ranks * DRAW(1, 2);
    if (draw(10) == 0) units++; /* which mostly can't be divided */
    char more[300] = "";
    if (draw(3) == 0) snprintf(more, sizeof more, " --micro-batch %d", r.exact || draw(2) ? unit : 1);
    snprintf(r.options, sizeof r.options,
             "drawn --data text --context %d --batch %d --unit %d --steps %d --optimizer %s --clip %s "
             "--eval-samples %d --eval-every 2 --accumulation %s --threads %d --seed %d --quiet%s%s%s%s",
             DRAW(16, 32, 64), unit * units, unit, DRAW(2, 3),
             WORD("adamw", "adamw", "sgd", "lion", "adafactor"), WORD("off", "1", "0.1"), DRAW(1, 3, 7),
             r.exact ? "auto" : WORD("auto", "add", "defer"), DRAW(1, 1, 2), draw(1000), more,
             r.exact ? WORD("", " --recompute block") : WORD("", " --recompute block", " --chunk-loss 16"),
             r.exact ? " --exact" : "", r.exact ? "" : WORD(" --precision mixed-bf16", ""));
    r.sharding = WORD("", "", " --sharding copies", " --sharding gradients", " --sharding weights",
                      " --sharding weights:ahead=0:keep=1", " --sharding weights:group=2",
                      " --sharding gradients:group=2", " --sharding weights:ahead=2:group=3");
    return r;
}

/* Of one process that has all the memory it wants. */
static bool one_process(const run *r) {
    char line[LINE + 100];
    command_shell("rm -rf alone");
    snprintf(line, sizeof line, "train %s --out alone", r->options);
    return several_start(1, line) == 0;
}

static void judge(const run *r, const char *line, int code, int expected) {
    if (code != expected)
        fail_msg("%d ranks: %s: exit %d, not %d: %s", r->ranks, line, code, expected, several_said());
    if (code) {
        if (several_times(several_said(), "snug: ") != 1) fail_msg("%s: %s", line, several_said());
        return;
    }
    several_kept_to_plans("several", r->ranks);
    if (!r->exact) return;
    several_same_losses("alone", "several");
    if (system("cmp -s alone/model.safetensors several/model.safetensors") != 0)
        fail_msg("%d ranks: %s: other weights than of one process", r->ranks, line);
}

/* Without a budget, at the least one, somewhere above, and below. */
static void at_a_budget(const run *r) {
    char line[LINE + 200], memory[60] = "";
    int kind = draw(4);
    unsigned long long least = 0;
    snprintf(line, sizeof line, "plan %s --ranks %d --json%s", r->options, r->ranks, r->sharding);
    if (kind) least = command_least_budget(line);
    if (kind == 2) least += least / 4 * (unsigned long long)draw(4) / 3;
    if (kind == 3) least -= 1 << 16;
    if (kind) snprintf(memory, sizeof memory, " --memory %llu", least);
    snprintf(line, sizeof line, "train %s --out several%s%s", r->options, r->sharding, memory);
    command_shell("rm -rf several");
    judge(r, line, several_start(r->ranks, line), kind == 3 ? 3 : 0);
}

/* What is refused with nobody there is refused with all. */
static bool run_case(const run *r) {
    char line[LINE + 100];
    snprintf(line, sizeof line, "plan %s --ranks %d%s", r->options, r->ranks, r->sharding);
    command_result planned = command_run(line);
    command_shell("rm -rf several");
    if (planned.exit == 0) {
        at_a_budget(r);
    } else {
        snprintf(line, sizeof line, "train %s --out several%s", r->options, r->sharding);
        judge(r, line, several_start(r->ranks, line), planned.exit);
    }
    bool ran = planned.exit == 0;
    command_free(&planned);
    return ran;
}

static void random_runs(void **state) {
    (void)state;
    int ran = 0, drawn = 0;
    if (several_left_out()) return;
    for (; ran < wanted && drawn < 8 * wanted; drawn++) {
        draw_model();
        run r = draw_run();
        if (one_process(&r)) ran += run_case(&r);
    }
    print_message("%d cases drawn, of which %d ran on several ranks\n", drawn, ran);
    assert_int_equal(ran, wanted);
}

/* ---- kills ---- */

/* Weights of up to 102,400 numbers: sums that are told in two steps. */
static const char wide[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 4, \"n_embd\": 160, "
                           "\"n_positions\": 32, \"vocab_size\": 300}\n";

/* What is killed, on so many ranks, and goes on on so many. */
static const struct {
    const char *line, *sharding;
    int steps, ranks[3], others[3];
} killed_runs[] = {
    { "tiny --batch 8 --unit 2 --eval-every 4", "", 60, { 2, 4, 4 }, { 1, 2, 4 } },
    { "wide --context 32 --batch 48 --eval-every 4", " --sharding chain", 20, { 3, 6, 6 }, { 1, 2, 6 } },
    { "wide --context 32 --batch 12 --unit 2 --eval-every 4",
      " --sharding weights:group=2",
      20,
      { 6, 6, 6 },
      { 1, 2, 3 } },
};
static const char usual[] = "--data text --dropout 0.1 --eval-samples 3 --schedule constant --threads 1 "
                            "--exact --quiet";

static pid_t start_apart(const char *line) {
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* One of the processes, whichever. */
static bool kill_one(void) {
    pid_t list[16];
    int count = 0;
    FILE *found = popen("echo " SEVERAL_TRAINING("killed"), "r");
    while (found && count < 16 && fscanf(found, "%d", &list[count]) == 1) count++;
    if (found) pclose(found);
    return count && kill(list[draw(count)], SIGKILL) == 0;
}

static void resume_to_the_end(int which, int ranks) {
    char line[LINE];
    snprintf(line, sizeof line, "train %s %s --steps %d --save-every 2 --out killed --resume",
             killed_runs[which].line, usual, killed_runs[which].steps);
    if (several_start(ranks, line)) fail_msg("%d ranks don't go on: %s", ranks, several_said());
    several_same_losses("whole", "killed");
    command_shell("cmp whole/model.safetensors killed/model.safetensors");
}

/* At a random instant of as long as the run took. */
static void kill_at_random(int which, double seconds) {
    int ranks = killed_runs[which].ranks[draw(3)], steps = killed_runs[which].steps;
    char line[LINE];
    command_shell("rm -rf killed");
    snprintf(line, sizeof line,
             "exec timeout -k 5 60 mpirun --oversubscribe --bind-to none -n %d " SEVERAL_SNUG
             " train %s %s%s --steps %d --save-every %d --out killed >said 2>&1 </dev/null",
             ranks, killed_runs[which].line, usual, killed_runs[which].sharding, steps, DRAW(1, 2));
    pid_t pid = start_apart(line);
    usleep((useconds_t)(draw(1000) * 1000 * seconds));
    bool killed = kill_one();
    int code;
    if (killed) several_all_gone("killed", 5); /* whatever mpirun does then: some wait for ever */
    assert_int_equal(waitpid(pid, &code, 0), pid);
    several_all_gone("killed", 5);
    resume_to_the_end(which, killed_runs[which].others[draw(3)]);
}

static void random_kills(void **state) {
    (void)state;
    enum { RUNS = sizeof killed_runs / sizeof *killed_runs };
    char line[LINE];
    if (several_left_out()) return;
    mkdir("wide", 0700);
    scratch_write("wide/config.json", wide, strlen(wide));
    for (int which = 0; which < RUNS; which++) {
        command_shell("rm -rf whole");
        snprintf(line, sizeof line, "train %s %s --steps %d --out whole", killed_runs[which].line, usual,
                 killed_runs[which].steps);
        double begun = clock_seconds();
        command_expect(0, line);
        double seconds = 0.7 + clock_seconds() - begun;
        for (int i = 0; i < KILLS * wanted / CASES; i++) kill_at_random(which, seconds);
    }
}

int main(int count, char **arguments) {
    if (count > 1) wanted = atoi(arguments[1]);
    if (count > 2) seed = strtoull(arguments[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_runs),
        cmocka_unit_test(random_kills),
    };
    return cmocka_run_group_tests(tests, several_open, several_close);
}
