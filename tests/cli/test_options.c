/* The one table of options: what help, manual pages and completion make of it, which layer wins, and what a
 * configuration file may say. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "io/scratch.h"

static void write_text(const char *path, const char *words) { scratch_write(path, words, strlen(words)); }

static command_result run_in(const char *line, const char *variable) {
    const char *const with[] = { variable, NULL };
    return command_run_with(line, with);
}

/* Whether a line of shell ends with 0. */
static bool shell(const char *line) {
    int how = system(line);
    return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

static bool installed(const char *name) {
    char line[128];
    snprintf(line, sizeof line, "command -v %s >/dev/null 2>&1", name);
    if (shell(line)) return true;
    print_message("%s is not installed: left out\n", name);
    return false;
}

/* ---- layers ---- */

static int64_t micro_batch_of(const char *line, const char *variable) {
    command_result r = run_in(line, variable);
    json_document d;
    if (r.exit != 0) fail_msg("snug %s: %s", line, r.err);
    assert_int_equal(json_parse("plan", r.out, strlen(r.out), &d), STATUS_OK);
    int64_t found = (int64_t)command_number(&d, "choices.micro_batch");
    json_close(&d);
    command_free(&r);
    return found;
}

static void nearer_to_the_run_wins(void **state) {
    (void)state;
    write_text("run.yaml", "# nightly\nmodel: tiny\nbatch: 8\nmicro-batch: 4\njson: yes\nquiet: true\n");
    write_text("auto.yaml", "micro-batch: \"auto\"\n");
    assert_int_equal(micro_batch_of("plan --config run.yaml", NULL), 4);
    assert_int_equal(micro_batch_of("plan --config run.yaml", "SNUG_MICRO_BATCH=1"), 4);
    assert_int_equal(micro_batch_of("plan --config=run.yaml --micro-batch 2", "SNUG_MICRO_BATCH=1"), 2);
    assert_int_equal(micro_batch_of("plan --micro-batch 2", "SNUG_CONFIG=run.yaml"), 2);
    assert_int_equal(micro_batch_of("plan tiny --batch 8 --json --quiet", "SNUG_MICRO_BATCH=1"), 1);
    assert_int_equal(
        micro_batch_of("plan tiny --batch 8 --json --quiet --config auto.yaml", "SNUG_MICRO_BATCH=1"), 8);
    assert_int_equal(micro_batch_of("plan deep --batch 2 --config run.yaml --micro-batch 1", NULL), 1);
    command_result r = command_run("plan --config run.yaml --no-json --no-quiet");
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "predicted peak")); /* a switch of the file was taken back */
    command_free(&r);
}

/* One file for several commands: what belongs to another is checked and has no effect. */
static void a_file_serves_several_commands(void **state) {
    (void)state;
    write_text("all.yaml",
               "model: tiny\nbatch: 4\nprompt: once upon\ntemperature: 0\nmeasure: no\ntokens: 3\n");
    write_text("bad.yaml", "model: tiny\ntemperature: hot\n");
    command_expect(0, "plan --config all.yaml");
    command_expect(0, "devices --config all.yaml");
    command_expect(2, "plan --config bad.yaml");
    command_result r =
        command_run("generate tiny --config all.yaml"); /* no weights, but the prompt is there */
    assert_int_equal(r.exit, 2);
    assert_null(strstr(r.err, "--prompt"));
    command_free(&r);
}

static const struct {
    const char *text, *says;
} wrong_files[] = {
    { "bach: 3\n", "wrong.yaml:1: there is no option bach; did you mean batch?" },
    { "\nmicro_batch: 3\n", "wrong.yaml:2: there is no option micro_batch; did you mean micro-batch?" },
    { "frobnicate: 3\n", "there is no option frobnicate; 'snug help plan'" },
    { "batch: 4\nsteps: 3\nbatch: 8\n", "wrong.yaml:3: batch is given twice, first in line 1" },
    { "batch: many\n", "wrong.yaml:1: batch: 'many' is not a whole number" },
    { "batch: 1.5\n", "'1.5'" },
    { "batch: true\n", "'true'" },
    { "batch: [4]\n", "batch wants one value, not a list" },
    { "batch:\n", "batch has no value" },
    { "batch: null\n", "batch has no value" },
    { "batch: {size: 4}\n", "maps in maps are not taken" },
    { "batch: &size 4\n", "anchors and aliases (&size)" },
    { "batch: *size\n", "anchors and aliases (*size)" },
    { "batch: !!int 4\n", "tags" },
    { "<<: 4\n", "there is no option <<" },
    { "? [batch]\n: 4\n", "a key is the name of an option" },
    { "- batch\n", "lines of the form name: value" },
    { "batch\n", "lines of the form name: value" },
    { "batch: \"4\n", "this is no YAML" },
    { "batch: 4\n bach: 4\n", "this is no YAML" },
    { "batch: 4\n---\nbatch: 5\n", "a second document" },
    { "out: \"a\\0b\"\n", "zero byte" },
    { "out: \xff\xfe\n", "no UTF-8 text" },
    { "json: perhaps\n", "neither yes nor no" },
    { "memory: 4GX\n", "memory: '4GX' is not a size" },
    { "recompute: blok\n", "wrong.yaml:1: recompute: 'blok'" },
    { "schedule: cosin\n", "did you mean cosine?" },
    { "momentum: 0.9\n", "wrong.yaml:1: --momentum is for --optimizer sgd" },
    { "config: other.yaml\n", "belongs on the command line" },
    { "help: yes\n", "belongs on the command line" },
    { "model: [a, b]\n", "model wants one value" },
};

static void wrong_files_get_one_sentence(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong_files / sizeof *wrong_files; i++) {
        write_text("wrong.yaml", wrong_files[i].text);
        command_result r = command_run("plan tiny --config wrong.yaml");
        const char *end = strchr(r.err, '\n');
        bool good = r.exit == 2 && !*r.out && strstr(r.err, wrong_files[i].says) && end && !end[1];
        if (!good) fail_msg("%s: exit %d, '%s'", wrong_files[i].text, r.exit, r.err);
        command_free(&r);
    }
    write_text("empty.yaml", "# nothing yet\n");
    command_expect(0, "plan tiny --config empty.yaml");
    command_expect(2, "plan tiny --config missing.yaml");
}

/* Whatever is cut off or changed, reading ends with a file or with a sentence. */
static void damaged_files_are_read_or_refused(void **state) {
    (void)state;
    static const char good[] = "model: tiny\nbatch: 4 # so many\nprompt: [a, 'b', \"c\\n\"]\nlr: 1e-3\n"
                               "out: |\n  two\n  lines\njson: yes\n";
    uint64_t draw = 11;
    for (int i = 0; i < 3000; i++) {
        char bytes[sizeof good];
        size_t length = i < (int)sizeof good ? (size_t)i : sizeof good - 1;
        memcpy(bytes, good, sizeof good);
        for (int k = 0; i >= (int)sizeof good && k < 3; k++)
            bytes[scratch_random(&draw) % (sizeof good - 1)] = (char)scratch_random(&draw);
        yaml_file file;
        status result = yaml_read("damaged", bytes, length, &file);
        assert_true(result == STATUS_OK || (result == STATUS_INVALID && strlen(status_message()) > 20));
        yaml_close(&file);
    }
}

static void unknown_variables_get_a_sentence(void **state) {
    (void)state;
    command_result r = run_in("plan tiny", "SNUG_MEMROY=2GiB");
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "did you mean SNUG_MEMORY?"));
    command_free(&r);
    static const char *const fine[] = { "SNUG_MEMROY=", "SNUG_NIGHTLY_QUEUE=7", "SNUGGLE=1",
                                        "SNUG_MOMENTUM=0.9" };
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        r = run_in("plan tiny", fine[i]);
        if (r.exit != 0) fail_msg("%s: %s", fine[i], r.err);
        command_free(&r);
    }
}

/* ---- mistakes ---- */

/* What others call a word of ours is taken for it, and the answer is the same. */
static void usual_names_are_understood(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        { "--dtype bf16", "--dtype half" },
        { "--dtype bfloat16", "--dtype half" },
        { "--dtype fp16", "--dtype half" },
        { "--dtype float16", "--dtype half" },
        { "--dtype amp", "--dtype autocast" },
        { "--dtype bf16-mixed", "--dtype autocast" },
        { "--dtype fp32", "--dtype float32" },
        { "--attn sdpa", "--attn flash" },
        { "--attn flash_attention_3", "--attn flash_attention_2" },
        { "--attn FA2", "--attn flash_attention_2" },
        { "--attn flash_attn", "--attn flash_attention_2" },
        { "--attn xformers", "--attn flash" },
        { "--attn math", "--attn eager" },
        { "--attn SDPA", "--attn flash" },
        { "--optimizer adam", "--optimizer adamw" },
        { "--optimizer AdamW", "--optimizer adamw" },
        { "--optimizer adamw_torch", "--optimizer adamw --optimizer-kernels foreach" },
        { "--optimizer adamw_torch_fused", "--optimizer-kernels fused" },
        { "--optimizer adamw_8bit", "--optimizer adamw --optimizer-bits 8" },
        { "--optimizer paged_adamw_8bit", "--optimizer-bits 8" },
        { "--optimizer adamw_8bit --optimizer-bits 32", "--optimizer adamw" },
        { "--optimizer-bits 32 --optimizer adamw_8bit", "--optimizer adamw" },
        { "--gpus 2 --shard FSDP2", "--gpus 2 --shard fsdp" },
        { "--gpus 2 --shard full_shard", "--gpus 2 --shard fsdp" },
        { "--gpus 2 --shard deepspeed_stage_3", "--gpus 2 --shard zero3" },
        { "--loss liger", "--loss fused" },
        { "--gpu a100-80 --overhead 1.5G", "--gpu a100-80 --overhead 1536MiB" },
        { "--gpu a100-80 --overhead 1.5GB", "--gpu a100-80 --overhead 1500000000" },
    };
    char *said[2], line[128];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        for (int k = 0; k < 2; k++) {
            snprintf(line, sizeof line, "estimate gpt2 --batch 1 --context 64 --json --quiet %s",
                     pairs[i][k]);
            command_result r = command_run(line);
            if (r.exit != 0) fail_msg("%s: %s", line, r.err);
            said[k] = r.out;
            free(r.err);
        }
        assert_string_equal(said[0], said[1]);
        free(said[0]), free(said[1]);
    }
    assert_true(command_says("estimate gpt2 --attn sdpb", 2, "'sdpb' is none of auto, flash, eager"));
    /* what a word implies is checked as though it had been said, and Adam's updates are not AdamW's */
    assert_true(command_says("estimate gpt2 --optimizer adamw_8bit --framework snug", 2,
                             "--optimizer-bits is for --framework hf"));
    assert_true(command_says("train gpt2 --optimizer adam", 2, "'adam' is none of"));
}

static void near_misses_are_suggested(void **state) {
    (void)state;
    static const struct {
        const char *line, *says;
    } near[] = {
        { "plan gtp2", "did you mean gpt2?" },
        { "plan gpt2-medum", "did you mean gpt2-medium?" },
        { "estimate gpt2 --per-device-train-batch-size 4",
          "unknown option --per-device-train-batch-size; did you mean --batch?" },
        { "estimate gpt2 --gradient-accumulation-steps 4", "did you mean --accumulate?" },
        { "estimate gpt2 --load-in-4bit", "did you mean --base-bits 4?" },
        { "estimate gpt2 --activation-checkpointing", "did you mean --gradient-checkpointing?" },
        { "plan tiny --recompute blok", "--recompute: 'blok' is neither" },
        { "plan tiny --recompute blok", "did you mean block?" },
        { "plan tiny --attention flsh", "did you mean flash?" },
        { "plan tiny --optimizer adam", "did you mean adamw?" },
        { "plan tiny --momentum 0.9", "say --optimizer sgd" },
        { "plan tiny --optimizer sgd --beta1 0.8", "say --optimizer adamw" },
        { "train tiny --dat text", "did you mean --data?" }, /* not --qat, which is as near */
        { "plan tiny --no-batch", "unknown option --no-batch" },
        { "plan tiny --json --no-json", "given twice" },
        { "completion tcsh", "bash, zsh, fish" },
        { "manual plam", "did you mean plan?" },
    };
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        command_result r = command_run(near[i].line);
        if (r.exit != 2 || !strstr(r.err, near[i].says))
            fail_msg("snug %s: exit %d, %s", near[i].line, r.exit, r.err);
        command_free(&r);
    }
    command_expect(0, "plan tiny --optimizer sgd --momentum 0.9 --quiet");
}

/* A number of blocks that the model does not have, and an output that can't be written: before planning. */
static void what_cannot_be_is_refused_early(void **state) {
    (void)state;
    static const struct {
        const char *line, *says;
    } wrong[] = {
        { "plan tiny --recompute cheap:3", "--recompute cheap:3: there are 2 blocks" },
        { "plan tiny --recompute block:9+cheap", "there are 2 blocks" },
        { "train deep --data text --out text", "cannot write to text: text is no folder" },
        { "train deep --data text --out text/a/b", "cannot write to text/a/b: text" },
        { "train deep --data text --out /dev/null", "/dev/null is no folder" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        command_result r = command_run(wrong[i].line);
        if (r.exit != 2 || *r.out || !strstr(r.err, wrong[i].says))
            fail_msg("snug %s: exit %d, %s%s", wrong[i].line, r.exit, r.out, r.err);
        command_free(&r);
    }
    command_expect(0, "plan tiny --recompute cheap:2 --quiet");
    command_expect(3, "train tiny --data text --out not-made/here --memory 2MiB --quiet");
    assert_int_not_equal(access("not-made", F_OK), 0); /* nothing was touched */
}

static void the_hint_can_be_copied(void **state) {
    (void)state;
    mkdir("a folder", 0700);
    write_text("out.yaml", "out: a folder/it's\n");
    command_result r = command_run(
        "train tiny --config out.yaml --data text --steps 2 --batch 2 --warmup 0 --eval-samples 2");
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "snug generate 'a folder/it'\\''s' --prompt"));
    command_free(&r);
}

/* ---- pages ---- */

static const option_table *table(void) {
    static option_table t;
    options_table(&t);
    return &t;
}

/* Each row is told in a way that every page can show, and its name in the environment is its own. */
static void every_row_is_whole(void **state) {
    (void)state;
    const option_table *t = table();
    for (uint32_t i = 0; i < t->count; i++) {
        const option *row = &t->rows[i];
        assert_non_null(row->help);
        assert_true(strlen(row->name) < 40 && row->commands != 0);
        assert_int_equal(row->kind == OPTION_FLAG, row->hint == NULL);
        assert_true(row->kind != OPTION_CHOICE || row->words != NULL);
        /* of "sdpa=flash", flash is one of the words */
        for (const char *at = row->also; at && (at = strchr(at, '=')); at++) {
            char meant[OPTION_NAME_BYTES], all[256];
            snprintf(meant, sizeof meant, ", %.*s,", (int)strcspn(at + 1, ",+"), at + 1);
            at += strcspn(at, ",") - 1; /* past what it says of another option */
            snprintf(all, sizeof all, ", %s,", row->words);
            if (!strstr(all, meant)) fail_msg("--%s: %s is no word of it", row->name, meant);
        }
        for (uint32_t k = 0; k < i; k++)
            assert_true(strcmp(t->rows[k].name, row->name) != 0 || !(t->rows[k].commands & row->commands));
    }
}

static void help_fits_the_terminal(void **state) {
    (void)state;
    static const char *const widths[] = { "COLUMNS=40", "COLUMNS=60", "COLUMNS=80", "COLUMNS=300" };
    static const int most[] = { 40, 60, 80, 100 };
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (const cli_command *c = cli_commands; c->name; c++) {
            char line[64];
            snprintf(line, sizeof line, "help %s", c->name);
            command_result r = run_in(line, widths[w]);
            for (const char *at = r.out; *at; at += strcspn(at, "\n") + 1) {
                bool command_to_copy = strncmp(at, "  snug ", 7) == 0 || strncmp(at, "  source ", 9) == 0;
                /* Megatron-LM's names are longer than the narrowest terminal, and can't be broken. */
                bool name = most[w] == 40 && strncmp(at, "  --", 4) == 0 && strcspn(at, "\n") < 50;
                if (!command_to_copy && !name && (int)strcspn(at, "\n") > most[w])
                    fail_msg("%s, %s: %.120s", line, widths[w], at);
            }
            command_free(&r);
        }
}

/* Every option of every command is on its manual page, and man reads it without a word. */
static void manual_pages_are_whole(void **state) {
    (void)state;
    const option_table *t = table();
    bool groff = installed("groff");
    for (const cli_command *c = cli_commands; c->name; c++) {
        char line[64], name[96];
        snprintf(line, sizeof line, "manual %s", c->name);
        command_result r = command_run(line);
        assert_int_equal(r.exit, 0);
        for (uint32_t i = 0; i < t->count; i++) {
            if (!(t->rows[i].commands & c->command)) continue;
            size_t used = (size_t)snprintf(name, sizeof name, "\\fB\\-\\-");
            for (const char *n = t->rows[i].name; *n; n++)
                used += (size_t)snprintf(name + used, sizeof name - used, *n == '-' ? "\\-" : "%c", *n);
            snprintf(name + used, sizeof name - used, "\\fR");
            if (!strstr(r.out, name)) fail_msg("nothing of %s in the manual of %s", name, c->name);
        }
        write_text("page.1", r.out);
        if (groff)
            assert_true(shell("said=$(groff -man -Tascii -ww page.1 2>&1 >/dev/null) && [ -z \"$said\" ]"));
        command_free(&r);
    }
    command_expect(0, "manual");
}

static void write_completion(const char *name) {
    char line[64];
    snprintf(line, sizeof line, "completion %s", name);
    command_result r = command_run(line);
    assert_int_equal(r.exit, 0);
    write_text(name, r.out);
    command_free(&r);
}

/* What bash offers for a line whose last word is being completed. */
static void bash_offers(const char *words, const char *expected) {
    char line[1024];
    snprintf(
        line, sizeof line,
        "bash -c 'compopt() { :; }; . ./bash; COMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _snug; "
        "case \" ${COMPREPLY[*]} \" in *\" %s \"*) ;; *) echo \"${COMPREPLY[*]}\"; exit 1 ;; esac'",
        words, expected);
    if (!shell(line)) fail_msg("bash does not offer %s for %s", expected, words);
}

static void bash_completes(void **state) {
    (void)state;
    if (!installed("bash")) return;
    write_completion("bash");
    bash_offers("snug pl", "plan");
    bash_offers("snug plan --mem", "--memory");
    bash_offers("snug plan --memory a", "auto");
    bash_offers("snug plan --memory = \"\"", "auto");
    bash_offers("snug plan --recompute \"\"", "auto off cheap block");
    bash_offers("snug plan g", "gpt2-xl");
    bash_offers("snug help gen", "generate");
    bash_offers("snug plan llama-3-8", "llama-3-8b");
    bash_offers("snug estimate qwen3-0", "qwen3-0.6b");
    bash_offers("snug estimate 7B --device h100-8", "h100-80");
    bash_offers("snug estimate 7B --cluster asc", "ascend");
    bash_offers("snug explain-oom log --for mixtral-8x7", "mixtral-8x7b");
    write_text("mine.yaml", "");
    bash_offers("snug estimate 7B --device mi", "mine.yaml");
    bash_offers("snug quantize model --to int8", "int8 int8:static int8:all int8:static:all");
    bash_offers("snug quantize model --to int4", "int4 int4:all");
    bash_offers("snug export model --dtype q", "q8_0");
}

static void shells_take_their_completion(void **state) {
    (void)state;
    write_completion("zsh");
    assert_true(shell("grep -q 'compadd -- .*h100-80.*; _files' zsh"));
    if (installed("zsh")) {
        assert_true(shell("zsh -n zsh"));
        assert_true(shell(
            "HOME=$PWD zsh -fc 'autoload -U compinit && compinit -u -D && . ./zsh && (( $+functions[_snug] "
            "))'"));
    }
    if (!installed("fish")) return;
    write_completion("fish");
    assert_true(shell("HOME=$PWD fish -c 'source fish; complete -C \"snug pl\"' | grep -q '^plan'"));
    assert_true(
        shell("HOME=$PWD fish -c 'source fish; complete -C \"snug plan --recom\"' | grep -q '^--recompute'"));
    assert_true(
        shell("HOME=$PWD fish -c 'source fish; complete -C \"snug plan --recompute \"' | grep -q '^cheap'"));
    assert_true(
        shell("HOME=$PWD fish -c 'source fish; complete -C \"snug train gpt2-x\"' | grep -q '^gpt2-xl'"));
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (!failed) command_make_files();
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearer_to_the_run_wins),
        cmocka_unit_test(a_file_serves_several_commands),
        cmocka_unit_test(wrong_files_get_one_sentence),
        cmocka_unit_test(damaged_files_are_read_or_refused),
        cmocka_unit_test(unknown_variables_get_a_sentence),
        cmocka_unit_test(usual_names_are_understood),
        cmocka_unit_test(near_misses_are_suggested),
        cmocka_unit_test(what_cannot_be_is_refused_early),
        cmocka_unit_test(the_hint_can_be_copied),
        cmocka_unit_test(every_row_is_whole),
        cmocka_unit_test(help_fits_the_terminal),
        cmocka_unit_test(manual_pages_are_whole),
        cmocka_unit_test(bash_completes),
        cmocka_unit_test(shells_take_their_completion),
    };
    return cmocka_run_group_tests_name("options", tests, open_files, scratch_close);
}
