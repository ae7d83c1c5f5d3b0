/* What is read, from outside: files that are large, deep or not what they seem. A refusal takes no more
 * memory than the runtime reserve, and what is read is in the plan. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "cli/command.h"
#include "device/device.h"
#include "io/file.h"
#include "io/scratch.h"

#define SHORT "--batch 4 --context 16 --steps 2 --eval-samples 2 --threads 1 --quiet --overwrite "

/* ---- making files ---- */

/* A text of a beginning, a part that comes so many times (with its number where it has a %d), and an end. */
static void make_long(const char *path, const char *begin, const char *part, int times, const char *end) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(begin, file);
    for (int i = 0; i < times; i++) fprintf(file, part, i);
    fputs(end, file);
    assert_int_equal(fclose(file), 0);
}

static void copy_model(const char *to) {
    char line[256];
    snprintf(line, sizeof line, "rm -rf %s && mkdir %s && cp model/config.json model/model.safetensors %s",
             to, to, to);
    assert_int_equal(system(line), 0);
}

/* The model's header with more in it: `part` as often as asked. */
static void make_header(const char *folder, const char *part, int times) {
    char path[64], *whole;
    uint64_t bytes, length;
    copy_model(folder);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(io_read_file(path, 64 << 20, &whole, &bytes), STATUS_OK);
    memcpy(&length, whole, 8);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fseek(file, 8, SEEK_SET);
    char *rest = strchr(whole + 8, '}'); /* behind {"__metadata__":{"format":"pt" */
    fwrite(whole + 8, 1, (size_t)(rest - whole - 8), file);
    for (int i = 0; i < times; i++) fprintf(file, part, i);
    fwrite(rest, 1, (size_t)(8 + length) - (size_t)(rest - whole), file);
    uint64_t now = (uint64_t)ftell(file) - 8;
    fwrite(whole + 8 + length, 1, bytes - 8 - length, file);
    fseek(file, 0, SEEK_SET);
    fwrite(&now, 8, 1, file);
    assert_int_equal(fclose(file), 0);
    free(whole);
}

/* ---- memory ---- */

static uint64_t reserve(void) {
    device_runtime own = device_runtime_reserve(1);
    return own.code + own.threads + own.tables;
}

/* Refused with this sentence, and cheaply. */
static void refused(const char *line, int code, const char *words) {
    command_result r = command_run(line);
    if (r.exit != code || !strstr(r.err, words)) fail_msg("snug %s: exit %d, %s", line, r.exit, r.err);
    if (r.resident_peak > reserve())
        fail_msg("snug %s: took %llu bytes to refuse, the reserve is %llu", line,
                 (unsigned long long)r.resident_peak, (unsigned long long)reserve());
    command_free(&r);
}

/* Done, within the reserve. */
static void read_cheaply(const char *line) {
    command_result r = command_run(line);
    if (r.exit) fail_msg("snug %s: exit %d, %s", line, r.exit, r.err);
    if (r.resident_peak > reserve())
        fail_msg("snug %s: took %llu bytes", line, (unsigned long long)r.resident_peak);
    command_free(&r);
}

/* Done, and within what was planned; the text may be too long for io/json.h. */
static void within_plan(const char *line) {
    command_result r = command_run(line);
    if (r.exit) fail_msg("snug %s: exit %d, %s", line, r.exit, r.err);
    const char *at = strstr(r.out, "\"predicted\": {");
    if (at) at = strstr(at, "\"peak_bytes\": ");
    if (!at) fail_msg("snug %s says no plan: %.400s", line, r.out);
    uint64_t planned = strtoull(at + strlen("\"peak_bytes\": "), NULL, 10);
    if (r.resident_peak > planned)
        fail_msg("snug %s: took %llu bytes, planned %llu", line, (unsigned long long)r.resident_peak,
                 (unsigned long long)planned);
    command_free(&r);
}

static void headers_are_in_the_plan(void **state) {
    (void)state;
    make_header("notes",
                ",\"%d\":\"a note that nobody reads, a hundred letters long: one two three four five six "
                "seven eight nine\"",
                200000);
    within_plan("train notes --data text " SHORT "--json --out o");
    within_plan("generate notes --prompt the --tokens 4 --threads 1 --json");
    refused("quantize notes --to int8 --out notes", 2, "is the model itself");
    read_cheaply("quantize notes --to int8 --out q --threads 1");
    make_header("tensors", "},\"x%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]", 200000);
    refused("train tensors --data text " SHORT "--memory 24MiB --out o", 3, "reading the model and its data");
    refused("generate tensors --prompt the --memory 24MiB --threads 1", 3, "more than --memory allows");
    refused("quantize tensors --to int8 --memory 24MiB --out q2 --threads 1", 3, "making codes");
}

/* Known before: it is part of what is planned. */
static void lists_of_tensors_are_planned(void **state) {
    (void)state;
    uint64_t few = command_least_budget("plan model --batch 4 --context 16 --json --quiet"),
             many = command_least_budget("plan tensors --batch 4 --context 16 --json --quiet");
    assert_in_range(many - few, 200000 * 100, 200000 * 200);
}

static void configurations_are_bounded(void **state) {
    (void)state;
    copy_model("labels");
    make_long("labels/config.json", "{\"id2label\": {\"x\": \"y\"", ", \"%d\": \"a label\"", 700000, "}}");
    copy_model("tables");
    make_long("tables/config.json", "{\"model_type\": \"gpt2\", \"x\": [{}", ",{}", 300000, "]}");
    copy_model("nested");
    make_long("nested/config.json", "{\"model_type\": \"gpt2\", \"x\": ", "[", 500, "");
    static const struct {
        const char *model, *words;
    } cases[] = { { "labels", "config.json has 15677812 bytes; at most 1048576 are read" },
                  { "tables", "at most 3145728 are used" },
                  { "nested", "config.json is not JSON at byte" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        static const char *const commands[] = { "plan %s", "train %s --data text --out o --quiet --overwrite",
                                                "generate %s --prompt the", "quantize %s --to int8 --out q3",
                                                "merge %s --adapter adapter --out q4" };
        for (size_t k = 0; k < sizeof commands / sizeof *commands; k++) {
            snprintf(line, sizeof line, commands[k], cases[i].model);
            refused(line, 2, i ? cases[i].words : "config.json has 1");
        }
    }
}

static void indexes_take_no_memory(void **state) {
    (void)state;
    copy_model("shards");
    assert_int_equal(rename("shards/model.safetensors", "shards/a.safetensors"), 0);
    make_long("shards/model.safetensors.index.json", "{\"metadata\":{\"x\":\"", "%d ", 2000000,
              "\"},\"weight_map\":{\"transformer.wte.weight\":\"a.safetensors\"}}");
    within_plan("train shards --data text " SHORT "--json --out o");
    make_long("shards/model.safetensors.index.json",
              "{\"weight_map\":{\"transformer.wte.weight\":\"a.safetensors\"",
              ",\"transformer.h.%d.x\":\"a.safetensors\"", 300000, "}}");
    refused("train shards --data text " SHORT "--out o", 2, "'transformer.h.0.x' is not in its shard");
}

static void other_files_are_bounded(void **state) {
    (void)state;
    make_long("long.jsonl", "{\"text\": \"the beginning\"}\n{\"other\": \"", "%d ", 4000000,
              "\", \"text\": \"and the end of it all, which is long enough to be trained on, is it not\"}\n");
    within_plan(
        "train tiny --data long.jsonl --context 8 --batch 1 --steps 1 --threads 1 --quiet --overwrite --json "
        "--out o");
    make_long("prompts", "", "%d\n", 70000, "");
    refused("generate model --prompt-file prompts", 2, "more than 65536 lines");
    make_long("prompts", "", "%080d\n", 70000, "");
    refused("generate model --prompt-file prompts", 2, "at most 4194304 are read");
    make_long("prompts", "", "%d\n", 20000, "");
    within_plan("generate model --prompt-file prompts --tokens 1 --threads 1 --json --quiet");
    make_long("many.yaml", "batch: [", "%d,", 300000, "1]\n");
    refused("plan tiny --config many.yaml", 2, "at most 262144 are read");
    make_long("oom.log", "", "a line of a log that says nothing, number %d\n", 600000,
              "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
              "capacity of "
              "23.64 GiB of which 1.10 GiB is free.\n");
    read_cheaply("explain-oom oom.log");
    read_cheaply("train tiny --data text " SHORT "--out seen");
    make_long("line", "{\"step\": 3, \"x\": [{}", ",{}", 400000, "]}\n");
    assert_int_equal(system("cat line >> seen/metrics.jsonl"), 0);
    read_cheaply("status seen");
}

/* ---- address space ---- */

static void little_address_space_is_enough(void **state) {
    (void)state;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct rlimit all, little;
    assert_int_equal(getrlimit(RLIMIT_AS, &all), 0);
    little = all, little.rlim_cur = 500000u << 10;
    assert_int_equal(setrlimit(RLIMIT_AS, &little), 0);
    command_expect(
        0, "train char-small --data text --batch 4 --context 64 --steps 1 --eval-samples 1 --allow all "
           "--overwrite --quiet --out o");
    command_expect(0, "generate o --prompt the --tokens 2");
    command_expect(0, "plan gpt2 --batch 8 --memory 3GiB");
    little.rlim_cur = 60000u << 10;
    assert_int_equal(setrlimit(RLIMIT_AS, &little), 0);
    bool said = command_says("plan gpt2-xl --batch 8", 1, "limit on address space");
    assert_int_equal(setrlimit(RLIMIT_AS, &all), 0);
    assert_true(said);
#endif
}

/* ---- what text stands for ---- */

static void make_tokenizer(const char *folder) {
    char line[256];
    copy_model(folder);
    snprintf(line, sizeof line,
             "cd %s && echo 1 > tokenizer.json && echo 2 > special_tokens_map.json && echo 3 > "
             "chat_template.jinja && "
             "echo 4 > generation_config.json",
             folder);
    assert_int_equal(system(line), 0);
}

#define HAS "words has a tokenizer (tokenizer.json)"

static void text_beside_a_tokenizer_is_refused(void **state) {
    (void)state;
    make_tokenizer("words");
    assert_true(command_says("train words --data text " SHORT "--out o", 2, "words/tokenizer.json"));
    assert_true(command_says("plan words --data text", 2, HAS));
    assert_true(command_says("train words --data ids.u16 --eval-data text " SHORT "--out o", 2,
                             "words/tokenizer.json"));
    assert_true(
        command_says("train words --eval-only --data text --quiet", 2, "name one, or make them with"));
    assert_true(command_says("generate words --prompt the", 2, "words/tokenizer.json"));
    assert_true(command_says("quantize words --to int8 --data text --out q5", 2, HAS));
    assert_true(command_says("quantize words --to int8 --mode static --calibrate text --out q5", 2, HAS));
    assert_true(command_says("train words/config.json --data text " SHORT "--out o", 2, "has a tokenizer"));
    command_expect(0, "train words --eval-only --data text --data-kind bytes --eval-samples 2");
    command_expect(0, "generate words --prompt the --tokens 1 --data-kind bytes");
    static const char *const others[] = { "tokenizer.model", "spiece.model", "vocab.txt" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char path[64];
        copy_model("others");
        snprintf(path, sizeof path, "others/%s", others[i]);
        scratch_write(path, "x", 1);
        assert_true(command_says("generate others --prompt the", 2, others[i]));
    }
    copy_model("others");
    scratch_write("others/vocab.json", "{}", 2);
    command_expect(0, "generate others --prompt the --tokens 1"); /* alone it makes no tokens */
    scratch_write("others/merges.txt", "", 0);
    assert_true(command_says("generate others --prompt the", 2, "(vocab.json)"));
}

static void assert_kept(const char *folder, bool kept) {
    static const struct {
        const char *name, *text;
    } files[] = { { "tokenizer.json", "1\n" },
                  { "special_tokens_map.json", "2\n" },
                  { "chat_template.jinja", "3\n" },
                  { "generation_config.json", "4\n" } };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128], *data;
        uint64_t bytes;
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        if (!kept) {
            if (i < 3 && access(path, F_OK) == 0) fail_msg("%s is there", path);
            continue;
        }
        if (io_read_file(path, 64, &data, &bytes) != STATUS_OK) fail_msg("%s", status_message());
        assert_string_equal(data, files[i].text);
        free(data);
    }
}

static void tokenizers_go_on_with_the_model(void **state) {
    (void)state;
    make_tokenizer("words");
    command_expect(0, "train words --data ids.u16 " SHORT "--save-every 1 --out kept");
    assert_kept("kept", true);
    assert_kept("kept/checkpoint-2", true);
    command_expect(0, "train words/config.json --data ids.u16 " SHORT "--out kept");
    assert_kept("kept", true);
    command_expect(0, "quantize words --to int8 --out kept-int8");
    assert_kept("kept-int8", true);
    command_expect(0, "merge words --adapter adapter --out kept-merged");
    assert_kept("kept-merged", true);
    /* What has learned bytes is no longer that tokenizer's, also where one lay before. */
    command_expect(0, "train words --data text --data-kind bytes " SHORT "--save-every 1 --out kept");
    assert_kept("kept", false);
    assert_kept("kept/checkpoint-2", false);
    command_expect(0, "generate kept --prompt the --tokens 1");
}

static void other_data_is_no_text(void **state) {
    (void)state;
    assert_int_equal(
        system("cp text t.csv && cp text t.TSV && cp text t.json && mkdir -p data && cp text data/a.txt && "
               "cp text data/b.json"),
        0);
    assert_true(command_says("train tiny --data t.csv " SHORT "--out o", 2, "t.csv is a table of comma"));
    assert_true(command_says("train tiny --data t.TSV " SHORT "--out o", 2, "t.TSV is a table of tab"));
    assert_true(command_says("train tiny --data t.json " SHORT "--out o", 2, "say --data-kind jsonl"));
    assert_true(
        command_says("train tiny --data data " SHORT "--out o", 2, "data/b.json is JSON by its name"));
    assert_true(
        command_says("train tiny --data text --eval-data t.csv " SHORT "--out o", 2, "t.csv is a table"));
    command_expect(0, "train tiny --data t.csv --data-kind bytes " SHORT "--out o");
    command_expect(0, "train tiny --data data --data-kind bytes " SHORT "--out o");
    assert_true(command_says("train tiny --data - " SHORT "--out o", 2, "cat > FILE"));
    assert_true(command_says("train tiny --data /dev/stdin " SHORT "--out o", 2, "cat > FILE"));
}

static void other_tasks_are_refused(void **state) {
    (void)state;
    static const char judge[] = "{\"model_type\":\"bert\",\"architectures\":[\"BertForTokenClassification\"],"
                                "\"vocab_size\":300,\"hidden_size\":32,\"num_hidden_layers\":1,"
                                "\"num_attention_heads\":2,\"intermediate_size\":64,"
                                "\"max_position_embeddings\":32,\"mask_token_id\":4}";
    static const char filler[] = "{\"model_type\":\"bert\",\"architectures\":[\"BertForMaskedLM\"],"
                                 "\"vocab_size\":300,\"hidden_size\":32,\"num_hidden_layers\":1,"
                                 "\"num_attention_heads\":2,\"intermediate_size\":64,"
                                 "\"max_position_embeddings\":32,\"mask_token_id\":4}";
    scratch_write("judge.json", judge, sizeof judge - 1);
    scratch_write("filler.json", filler, sizeof filler - 1);
    assert_true(
        command_says("train judge.json --data text " SHORT "--out o", 2, "BertForTokenClassification"));
    assert_true(command_says("plan judge.json", 2, "BertForTokenClassification"));
    command_expect(0, "train filler.json --data text " SHORT "--out o");
    command_expect(
        0, "plan judge.json --head classes:2 --batch 1 --threads 1 --quiet"); /* its own is replaced */
}

/* Where the configuration can still be named and the weights beside it can't, nothing is begun without them.
 */
static void paths_too_long_are_refused(void **state) {
    (void)state;
    enum { LENGTH = 4078 };
    static char path[LENGTH + 1], line[LENGTH + 64], inside[LENGTH + 16];
    memset(path, 'd', LENGTH);
    for (int i = 200; i < LENGTH - 1; i += 200) {
        path[i] = 0;
        assert_int_equal(mkdir(path, 0700), 0);
        path[i] = '/';
    }
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(inside, sizeof inside, "%s/config.json", path);
    assert_int_equal(link("model/config.json", inside), 0);
    snprintf(line, sizeof line, "plan %s", path);
    bool said = command_says(line, 2, "is too long");
    assert_int_equal(system("rm -rf ddd*"),
                     0); /* from here: its whole name is too long for whoever cleans up */
    assert_true(said);
}

/* ---- data that changes ---- */

static void pause_for(double seconds) {
    nanosleep(&(struct timespec){ (time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds)) }, NULL);
}

static void changed_data_stops_the_run(void **state) {
    (void)state;
    assert_int_equal(system("cp text changing"), 0);
    pid_t pid = command_start(
        "train tiny --data changing --batch 4 --steps 30000 --save-every 50 --quiet --overwrite "
        "--threads 1 --out stopped",
        NULL, -1);
    for (int wait = 0; wait < 20000 && access("stopped/checkpoint-50", F_OK) != 0; wait++) pause_for(0.001);
    int file = open("changing", O_WRONLY);
    assert_int_equal(pwrite(file, "ZZZZ", 4, 100), 4); /* in place, and as long as before */
    close(file);
    command_result r = command_wait(pid);
    if (r.exit != 1 || !strstr(r.err, "changing has changed since it was opened"))
        fail_msg("exit %d, %s", r.exit, r.err);
    assert_non_null(strstr(r.err, "--resume goes on from stopped/checkpoint-"));
    command_free(&r);
    assert_int_equal(access("stopped/model.safetensors", F_OK), -1);
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (failed) return failed;
    command_make_files();
    char *data;
    uint64_t bytes;
    static uint16_t ids[60000];
    assert_int_equal(io_read_file("text", 60000, &data, &bytes), STATUS_OK);
    for (uint64_t i = 0; i < bytes; i++) ids[i] = (unsigned char)data[i];
    scratch_write("ids.u16", ids, bytes * 2);
    free(data);
    command_expect(0, "train tiny --data text " SHORT "--out model");
    command_expect(0, "train model --data text --lora rank=2 " SHORT "--out adapter");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_are_in_the_plan),
        cmocka_unit_test(lists_of_tensors_are_planned),
        cmocka_unit_test(configurations_are_bounded),
        cmocka_unit_test(indexes_take_no_memory),
        cmocka_unit_test(other_files_are_bounded),
        cmocka_unit_test(little_address_space_is_enough),
        cmocka_unit_test(text_beside_a_tokenizer_is_refused),
        cmocka_unit_test(tokenizers_go_on_with_the_model),
        cmocka_unit_test(other_data_is_no_text),
        cmocka_unit_test(other_tasks_are_refused),
        cmocka_unit_test(paths_too_long_are_refused),
        cmocka_unit_test(changed_data_stops_the_run),
    };
    return cmocka_run_group_tests_name("reading", tests, open_files, scratch_close);
}
