/* snug estimate step.json --memory SIZE: the plan of a recorded step, its policy for PyTorch, and, where
 * torch is installed, what a step takes with it (tests/cli/planned.py). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "io/scratch.h"
#include "sanitized.h"

#define STEP "estimate " SNUG_ROOT "/tests/estimate/recorded/step_plans.json --batch 8 "
#define ON_CPU STEP "--device cpu "

static void the_plan_is_said_and_counted(void **state) {
    (void)state;
    assert_true(command_says(ON_CPU "--memory 2MiB", 0, "Within 2.0 MiB of live bytes"));
    assert_true(command_says(ON_CPU "--memory 2MiB", 0, "computed again"));
    assert_true(command_says(ON_CPU "--memory 2MiB", 0, "this plan"));
    assert_true(command_says(STEP "--memory 1GiB", 0, "since no device is named"));
    assert_true(command_says(STEP "--gpu a100-80 --memory 1GiB", 0, "Within 1024.0 MiB of the whole device"));
    json_document d = command_json(ON_CPU "--memory 2MiB --json");
    assert_true(command_number(&d, "plan.bytes") <= 2 << 20);
    assert_int_equal(command_number(&d, "budget_bytes"), 2 << 20);
    assert_int_equal(command_number(&d, "plan.micro_batch") * command_number(&d, "plan.accumulate"), 8);
    assert_string_equal(command_string(&d, "budget_of"), "live bytes");
    json_close(&d);
}

/* The least budget that is named works, and one byte less is refused, with that number. */
static void what_does_not_fit_says_what_would(void **state) {
    char line[256], least[32];
    (void)state;
    json_document d = command_json(ON_CPU "--memory 1GiB --json");
    uint64_t bytes = command_number(&d, "least_budget_bytes");
    json_close(&d);
    snprintf(line, sizeof line, ON_CPU "--memory %llu", (unsigned long long)bytes);
    command_expect(0, line);
    snprintf(line, sizeof line, ON_CPU "--memory %llu", (unsigned long long)bytes - 1);
    snprintf(least, sizeof least, "(%llu bytes)", (unsigned long long)bytes);
    assert_true(command_says(line, 3, least));
    assert_true(command_says(line, 3, "the most of it are optimizer"));
    assert_true(command_says(STEP "--gpu a100-80 --memory 100MiB", 3, "does not fit 100.0 MiB"));
    assert_true(command_says(STEP "--gpu a100-80 --memory 100MiB", 3, "are the driver and libraries"));
    strcat(line, " --emit torch --quiet");
    command_result r = command_run(line);
    assert_int_equal(r.exit, 3);
    assert_string_equal(r.out, "");
    command_free(&r);
}

static void what_cannot_be_asked_is_refused(void **state) {
    static const char *const wrong[][2] = {
        { STEP "--emit torch", "say --memory SIZE or --gpu NAME" },
        { STEP "--memory auto", "say a size" },
        { STEP "--memory 1GiB --gradient-checkpointing", "leave --gradient-checkpointing out" },
        { STEP "--memory 1GiB --gpus 2 --shard zero2 --host-keeps optimizer", "a plan has no --host-keeps" },
        { STEP "--memory 1GiB --optimizer-in-backward", "a plan has no --optimizer-in-backward" },
        { STEP "--gpu a100-80 --emit torch --average", "a plan has no --average" },
        { STEP "--memory 1GiB --gpus 2 --shard zero2 --emit torch", "say --shard fsdp" },
        { STEP "--memory 1GiB --adapter-rank 8 --base-bits 4 --emit torch",
          "leave --base-bits or --emit out" },
        { STEP "--memory 1GiB --adapter-rank 8 --adapter-targets q_proj", "no product of a linear module" },
        { STEP "--memory 1GiB --gradient-checkpointing --checkpoint-saves mm",
          "leave --gradient-checkpointing out" },
        { STEP "--checkpoint-saves mm", "say --gradient-checkpointing as well" },
        { STEP "--gradient-checkpointing --checkpoint-saves mm,softplus", "no operation 'softplus'" },
        { STEP "--gradient-checkpointing --checkpoint-saves empty_like",
          "changes in place what was to be kept" },
        { "estimate gpt2 --gradient-checkpointing --checkpoint-saves mm", "is of a recorded step" },
        { "estimate gpt2 --loss-chunks 4", "--loss-chunks is of a recorded step" },
        { STEP "--loss-chunks 0", "--loss-chunks" },
        { "estimate gpt2 --loss-chunks 1", "--loss-chunks is of a recorded step" },
        { STEP "--memory 1GiB --allow precision", "there are dtype, dtype=autocast" },
        { STEP "--allow dtype", "say --memory SIZE as well" },
        { "estimate gpt2 --allow dtype", "--allow is for --framework snug" },
        { STEP "--memory 1GiB --emit hf", "say --emit torch" },
        { STEP "--memory 1GiB --html page.html", "no page" },
        { STEP "--memory 1GiB --solve batch", "leave --memory out" },
        { STEP "--base-bits 16", "--base-bits 16: a recorded step's weights are as they were recorded" },
        { STEP "--adapter-rank 8 --base-bits 32", "--base-bits 32: a recorded step's weights" },
        { STEP "--tensor-model-parallel-size 2", "is PyTorch's; leave --tensor-model-parallel-size out" },
        { STEP "--framework megatron", "leave --framework out" },
        { STEP "--framework pytorch --reentrant", "say --framework hf" },
        { "estimate gpt2 --tensor-model-parallel-size 2", "say --framework megatron" },
        { "estimate gpt2 --memory 1GiB", "--memory is for --framework snug" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_true(command_says(wrong[i][0], 2, wrong[i][1]));
    command_expect(0, STEP "--adapter-rank 8 --base-bits 4");
    command_expect(0, STEP "--adapter-rank 8");
}

static char *emitted(const char *asked, const char *path, char said[32]) {
    char line[512];
    snprintf(line, sizeof line, "%s --json", asked);
    json_document d = command_json(line);
    snprintf(said, 32, "%llu", (unsigned long long)command_number(&d, "plan.bytes"));
    json_close(&d);
    snprintf(line, sizeof line, "%s --emit torch --quiet", asked);
    command_result r = command_run(line);
    assert_int_equal(r.exit, 0);
    scratch_write(path, r.out, strlen(r.out));
    char *source = strdup(r.out);
    command_free(&r);
    return source;
}

static void policies_are_python(void **state) {
    static const char *const asked[] = { ON_CPU "--memory 1200000", ON_CPU "--memory 2MiB",
                                         ON_CPU "--memory 1GiB", STEP "--gpu a100-80 --memory 1TiB",
                                         STEP "--gpu a100-80 --memory 4GiB --strict" };
    bool python = system("command -v python3 >/dev/null") == 0;
    char promised[32];
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        char *source = emitted(asked[i], "policy.py", promised);
        assert_non_null(strstr(source, promised));
        assert_non_null(strstr(source, "def prepare(model)"));
        if (python) command_shell("python3 -m py_compile policy.py");
        free(source);
    }
}

/* Settings stand in the policy in PyTorch's words. */
static void policies_say_the_settings(void **state) {
    static const char *const asked[][3] = {
        { "--dtype autocast", "with torch.autocast(", "dtype=torch.bfloat16" },
        { "--dtype half", "p.data = p.data.to(torch.bfloat16)", "def prepare" },
        { "--adapter-rank 8 --adapter-dropout 0.1",
          "LoraConfig(r=8, lora_dropout=0.1, target_modules=ADAPTED)", "from peft import" },
        { "--loss-chunks 4", "HEAD = \"head\"", "cross_entropy(input.head(rows), target" },
        { "--gpus 2 --shard fsdp --loss-chunks 4", "HEAD = \"head\"", "fully_shard(model)" },
        { "--gpus 2 --shard fsdp --dtype autocast --loss-chunks 4", "HEAD = \"head\"", "mp_policy=policy" },
        { "--gpus 2 --shard ddp", "model = DistributedDataParallel(model)", "of each device" },
        { "--gpus 2 --shard fsdp", "fully_shard(base.get_submodule(name))", "UNITS = [" },
        { "--gpus 2 --shard fsdp --dtype autocast", "fully_shard(model, mp_policy=policy)",
          "MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)" },
    };
    bool python = system("command -v python3 >/dev/null") == 0;
    char line[256], promised[32];
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        snprintf(line, sizeof line, ON_CPU "--memory 1GiB %s", asked[i][0]);
        char *source = emitted(line, "policy.py", promised);
        assert_non_null(strstr(source, promised));
        for (int k = 1; k < 3; k++)
            if (!strstr(source, asked[i][k])) fail_msg("%s: no %s in\n%s", asked[i][0], asked[i][k], source);
        assert_true(strstr(source, "autocast(") == NULL || i == 0);
        if (python) command_shell("python3 -m py_compile policy.py");
        free(source);
    }
}

/* What is allowed is chosen where f32 does not fit, and stands in the policy. */
static void types_are_chosen_where_they_are_allowed(void **state) {
    char promised[32];
    (void)state;
    assert_true(command_says(ON_CPU "--memory 900000", 3, "does not fit"));
    assert_true(command_says(ON_CPU "--memory 900000 --allow dtype=half", 0, "half, which was allowed"));
    assert_true(command_says(ON_CPU "--memory 900000 --allow dtype=half", 0, "half  this plan"));
    assert_true(command_says(ON_CPU "--memory 1KiB --allow all", 3, " bytes), with --dtype half, 1 at once"));
    assert_true(command_says(ON_CPU "--memory 1KiB", 3, " bytes), with 1 at once"));
    command_result r = command_run(ON_CPU "--memory 2MiB --loss-chunks 1");
    assert_non_null(
        strstr(r.out, "at once    again         host\n")); /* no column where nothing is allowed */
    command_free(&r);
    json_document d = command_json(ON_CPU "--memory 1GiB --allow all --json");
    assert_true(command_number(&d, "least_budget_bytes") < 900000);
    json_close(&d);
    char *source = emitted(ON_CPU "--memory 900000 --allow dtype=half", "policy.py", promised);
    assert_non_null(strstr(source, "p.data = p.data.to(torch.bfloat16)"));
    free(source);
}

/* What a device of two gets from the other one in a step, by hand: of each sum half, and of what is gathered
 * the half that it has not. Root weights, and rows that don't divide, are within FSDP's bounds. */
static void what_devices_send_is_counted(void **state) {
    static const struct {
        const char *shard;
        double each, once, most; /* of the parameters' bytes: a micro-batch's, and a step's */
    } known[] = { { "", 0, 0, 0 },
                  { "--gpus 2 --shard ddp", 0, 1, 0 },
                  { "--gpus 2 --shard zero1", 0, 1, 0 },
                  { "--gpus 2 --shard zero2", 0.5, 0.5, 0 },
                  { "--gpus 2 --shard fsdp", 1.4, 0, 1.5 },
                  { "--gpus 2 --shard fsdp --dtype autocast", 0.95, 0, 1 } };
    static const char *const budgets[] = { "1GiB", "1700000" };
    int several = 0;
    (void)state;
    for (size_t i = 0; i < 2 * sizeof known / sizeof *known; i++) {
        char line[256];
        snprintf(line, sizeof line, ON_CPU "--json --memory %s %s", budgets[i % 2], known[i / 2].shard);
        json_document d = command_json(line);
        double bytes = 4 * (double)command_number(&d, "parameters"),
               times = (double)command_number(&d, "plan.accumulate"),
               least = bytes * (times * known[i / 2].each + known[i / 2].once),
               most = known[i / 2].most > 0 ? bytes * times * known[i / 2].most : least,
               told = (double)command_number(&d, "plan.link_bytes");
        if (told < least || told > most)
            fail_msg("%s: %.0f bytes in %.0f times, not %.0f to %.0f", line, told, times, least, most);
        several += times > 1;
        json_close(&d);
    }
    assert_true(several >= 4);
}

/* Without a wish the plan has pieces where they help; one piece is none. */
static void pieces_of_the_loss_are_said_where_they_are_chosen(void **state) {
    static const char words[] =
        "estimate " SNUG_ROOT "/tests/estimate/recorded/step_words.json --batch 6 --device cpu --memory ";
    char line[512], promised[32];
    (void)state;
    snprintf(line, sizeof line, "%s1GiB --json", words);
    json_document d = command_json(line);
    uint64_t least = command_number(&d, "least_budget_bytes");
    assert_int_equal(command_number(&d, "plan.loss_chunks"), 1);
    json_close(&d);
    snprintf(line, sizeof line, "%s%llu", words, (unsigned long long)least);
    assert_true(command_says(line, 0, "pieces of rows, each computed again; added up in another order"));
    assert_true(command_says(line, 0, "host   pieces\n"));
    char *source = emitted(line, "policy.py", promised);
    assert_non_null(strstr(source, "HEAD = \"head\""));
    assert_non_null(strstr(source, promised));
    free(source);
    strcat(line, " --loss-chunks 1");
    assert_true(command_says(line, 3, "does not fit"));
    snprintf(line, sizeof line, "%s%llu", words, (unsigned long long)least - 1);
    assert_true(command_says(line, 3, ", head and loss in "));
    source = emitted("estimate " SNUG_ROOT "/tests/estimate/recorded/step_words.json --batch 6 --device cpu "
                     "--memory 1GiB --loss-chunks 1",
                     "policy.py", promised);
    assert_null(strstr(source, "HEAD"));
    free(source);
}

/* Names of modules are a stranger's: they stay within their quotes. */
static void names_stay_in_their_quotes(void **state) {
    char promised[32];
    (void)state;
    if (system("command -v python3 >/dev/null") != 0) skip();
    command_shell(
        "sed 's/\"blocks\\.\\([0-9]\\)/\"b\\\\\"]+[print(1)]+{x}\\\\n\\1/g; s/\"model\":\"Model\"/\"model\":"
        "\"A\\\\nimport os\"/' '%s/tests/estimate/recorded/step_plans.json' > odd.json",
        SNUG_ROOT);
    free(emitted("estimate odd.json --batch 8 --device cpu --memory 1300000", "policy.py", promised));
    command_shell("python3 -c 'import ast; t = ast.parse(open(\"policy.py\").read()); assert not [n for n in "
                  "ast.walk(t) if isinstance(n, ast.Call) and getattr(n.func, \"id\", \"\") == \"print\"]'");
}

static bool find_python(const char *packages, char python[256]) {
    const char *named = getenv("SNUG_PYTHON");
    char list[2048], command[512], *rest = list;
    snprintf(list, sizeof list, "%s", named && *named ? named : "python3");
    for (char *one; (one = strsep(&rest, ":"));) {
        snprintf(python, 256, "%s", one);
        snprintf(command, sizeof command, "'%s' -c 'import %s' >probe 2>&1", python, packages);
        if (system(command) == 0) return true;
    }
    print_message("skipped: no Python here has %s; SNUG_PYTHON names interpreters that do\n", packages);
    return false;
}

static void a_step_takes_what_was_promised(void **state) {
    static const char *const budgets[] = { "1200000", "1500000", "2MiB",
                                           "3500000", "1GiB",    "3300000 --micro-batch 8 --loss-chunks 5" };
    char python[256], line[256], path[32], promised[32], all[1024] = "";
    (void)state;
    if (SANITIZED || !find_python("torch, transformers", python)) skip();
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        snprintf(line, sizeof line, ON_CPU "--memory %s", budgets[i]);
        snprintf(path, sizeof path, "policy%zu.py", i);
        free(emitted(line, path, promised));
        snprintf(all + strlen(all), sizeof all - strlen(all), " %s %s", path, promised);
    }
    command_shell("'%s' '%s/tests/cli/planned.py'%s >answer 2>&1 || { cat answer; exit 1; }", python,
                  SNUG_ROOT, all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_is_said_and_counted),
        cmocka_unit_test(what_does_not_fit_says_what_would),
        cmocka_unit_test(what_cannot_be_asked_is_refused),
        cmocka_unit_test(policies_are_python),
        cmocka_unit_test(policies_say_the_settings),
        cmocka_unit_test(types_are_chosen_where_they_are_allowed),
        cmocka_unit_test(what_devices_send_is_counted),
        cmocka_unit_test(pieces_of_the_loss_are_said_where_they_are_chosen),
        cmocka_unit_test(names_stay_in_their_quotes),
        cmocka_unit_test(a_step_takes_what_was_promised),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
