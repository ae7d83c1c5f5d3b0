/* Sizes and edges of making tokens that few data reach: many documents in a slot, wide ids, what is counted
 * and planned, and what lies there when it was killed. */
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
#include <unistd.h>

#include "cli/command.h"
#include "cli/token_data.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "language/tokenizer_of.h"

static uint32_t expected[TOKENS_MOST];
static char line[1 << 16], value[1 << 16];

static void write_text(const char *path, const char *words) { scratch_write(path, words, strlen(words)); }

/* ---- documents and ids ---- */

/* A slot has room for 8192, of far fewer bytes than it takes. */
static void more_documents_than_a_slot_has(void **state) {
    (void)state;
    tokens_model("m", "gpt2");
    tokens_texts("tiny.jsonl", 20000, 2, 1);
    tokens_make("m", "tiny.jsonl", "--threads 1", "tiny.safetensors");
    tokens_check("m", "tiny.jsonl", "tiny.safetensors");
}

/* Words w2 to w(size - 1), each of the id that it names, behind an unknown one and the end. */
static void make_words(const char *path, uint32_t size) {
    FILE *file = fopen(path, "wb");
    fprintf(file, "{\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"model\": {\"type\": \"WordLevel\", "
                  "\"unk_token\": \"?\", \"vocab\": {\"?\": 0, \"</s>\": 1");
    for (uint32_t i = 2; i < size; i++) fprintf(file, ", \"w%u\": %u", i, i);
    fprintf(file, "}}}");
    assert_int_equal(fclose(file), 0);
}

static void ids_are_as_wide_as_the_vocabulary(void **state) {
    (void)state;
    static const struct {
        uint32_t size;
        const char *type;
    } cases[] = { { 65536, "U16" }, { 65537, "U32" }, { 70000, "U32" } };
    tokens_model("m", "word_level");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t last = cases[i].size - 1, ids[] = { last, 65535, 7, last > 65536 ? 65536 : 2, 1 };
        char said[100];
        safetensors s;
        tokens_made m;
        make_words("m/tokenizer.json", cases[i].size);
        snprintf(said, sizeof said, "w%u w%u w%u w%u", ids[0], ids[1], ids[2], ids[3]);
        write_text("words.txt", said);
        tokens_make("m", "words.txt", "", "words.safetensors");
        assert_int_equal(safetensors_open("words.safetensors", &s), STATUS_OK);
        assert_string_equal(safetensors_find(&s, "tokens")->dtype, cases[i].type);
        safetensors_close(&s);
        tokens_read("words.safetensors", &m);
        assert_int_equal(m.count, 5);
        assert_memory_equal(m.tokens, ids, sizeof ids);
        tokens_free(&m);
    }
}

/* ---- what is learned ---- */

/* The tokenizer puts its first token before a prompt, which is no answer. */
static void what_stands_before_a_prompt_is_not_learned(void **state) {
    (void)state;
    tokens_checker c = { 0 };
    tokenizer_ids ids;
    const tokenizer_span *spans;
    tokens_model("m", "llama3");
    tokens_pairs("pairs.jsonl", 200, 4);
    tokens_make("m", "pairs.jsonl", "", "pairs.safetensors");
    tokens_open("m", "pairs.safetensors", &c);
    assert_true(c.made.masks);
    FILE *file = fopen("pairs.jsonl", "rb");
    while (fgets(line, sizeof line, file)) {
        size_t prompt = tokens_member(line, "prompt", value), learned = 0,
               bytes = prompt + tokens_member(line, "completion", value + prompt),
               count = tokens_frame(&c, value, bytes, expected);
        assert_int_equal(tokenizer_encode_spans(c.tokenizer, c.work, (tokenizer_text){ value, bytes }, false,
                                                &ids, &spans),
                         STATUS_OK);
        assert_int_equal(count, 1 + ids.count);
        while (learned < ids.count && spans[learned].end <= prompt) learned++;
        tokens_expect(&c, expected, count, 1 + learned);
    }
    fclose(file);
    tokens_close(&c);
}

/* A chat of `m` is these words, of which those behind each '<assistant>' are learned, with the end mark. */
static void expect_chat(const char *chat, const char *said) {
    tokens_checker c = { 0 };
    tokenizer_ids ids;
    const tokenizer_span *spans;
    size_t bytes = strlen(said);
    bool learned[256] = { false };
    for (const char *at = said; (at = strstr(at, "<assistant>"));) {
        at += strlen("<assistant>");
        const char *end = strstr(at, "</s>") + strlen("</s>");
        memset(learned + (at - said), true, (size_t)(end - at));
    }
    write_text("chat.jsonl", chat);
    tokens_make("m", "chat.jsonl", "", "chat.safetensors");
    tokens_open("m", "chat.safetensors", &c);
    assert_int_equal(
        tokenizer_encode_spans(c.tokenizer, c.work, (tokenizer_text){ said, bytes }, false, &ids, &spans),
        STATUS_OK);
    assert_int_equal(c.made.count, ids.count);
    for (size_t i = 0; i < ids.count; i++) {
        bool any = false;
        for (size_t k = spans[i].begin; k < spans[i].end; k++) any |= learned[k];
        assert_int_equal(c.made.tokens[i], ids.id[i]);
        assert_int_equal(c.made.learned[i], any);
    }
    c.made.at = 1;
    tokens_close(&c);
}

#define TURN(role, content) "{\"role\": \"" role "\", \"content\": \"" content "\"}"

/* One token ends where the answer does, and the next begins there. */
static void a_turn_behind_an_answer_is_not_learned(void **state) {
    (void)state;
    tokens_model("m", "gpt2");
    expect_chat(
        "{\"messages\": [" TURN("user", "how cold") ", " TURN("assistant", "very, so wear a coat") ", " TURN(
            "user", "and ice") ", " TURN("assistant", "as cold") ", " TURN("user", "so") "]}\n",
        "<user>how cold</s><assistant>very, so wear a coat</s><user>and ice</s><assistant>as cold</s>"
        "<user>so</s>");
}

/* They are translated for chats of another form only. */
static void roles_of_usual_chats_stay(void **state) {
    (void)state;
    tokens_model("m", "gpt2");
    expect_chat("{\"messages\": [" TURN("human", "how cold") ", " TURN("gpt", "so") ", " TURN("assistant",
                                                                                              "very") "]}\n",
                "<human>how cold</s><gpt>so</s><assistant>very</s>");
}

/* ---- what is counted ---- */

static void expect_longest(const char *data) {
    char call[256];
    tokens_made m;
    uint64_t longest = 0;
    snprintf(call, sizeof call, "tokenize m --data %s --out longest.safetensors --threads 3 --json --quiet",
             data);
    uint64_t said = command_asked(call, "longest");
    tokens_read("longest.safetensors", &m);
    for (uint64_t i = 0; i < m.documents; i++) {
        uint64_t count = m.ends[i] - (i ? m.ends[i - 1] : 0);
        if (count > longest) longest = count;
    }
    tokens_free(&m);
    assert_true(longest > 100000);
    assert_int_equal(said, longest);
}

/* Among others, of a text that several slots hold one after the other. */
static void the_longest_is_found_wherever_it_stands(void **state) {
    (void)state;
    tokens_model("m", "gpt2");
    tokens_texts("short.jsonl", 10000, 30, 2);
    command_shell("(printf '{\"text\": \"'; yes 'snow is cold 42' | tr '\\n' ' ' | head -c 2000000; "
                  "printf '\"}\\n') > long.jsonl && cat short.jsonl long.jsonl > behind.jsonl && "
                  "cat long.jsonl short.jsonl > front.jsonl && cat short.jsonl behind.jsonl > last.jsonl");
    expect_longest("behind.jsonl");
    expect_longest("front.jsonl");
    expect_longest("last.jsonl");
}

static void what_is_learned_is_counted(void **state) {
    (void)state;
    static const char *const names[] = { "messages", "role", "content" };
    static const char *const calls[] = {
        "tokenize m --data counted.jsonl --out counted.safetensors --json --quiet",
        "tokenize m --data pairs.jsonl --out counted.safetensors --json --quiet",
        "tokenize m --data pairs.jsonl --out counted.safetensors --learn all --json --quiet",
    };
    tokens_model("m", "gpt2");
    tokens_chats("counted.jsonl", 300, names, 7);
    tokens_pairs("pairs.jsonl", 200, 4);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        tokens_made m;
        uint64_t learned = 0, said = command_asked(calls[i], "learned");
        tokens_read("counted.safetensors", &m);
        for (uint64_t k = 0; k < m.count; k++) learned += m.masks ? m.learned[k] : 1;
        assert_int_equal(m.masks, i < 2);
        assert_int_equal(said, learned);
        assert_true(i == 2 || learned < m.count);
        tokens_free(&m);
    }
}

/* ---- what is planned ---- */

/* What is held of tokens that are added is more than the tokenizer takes for them. */
static void added_tokens_are_planned(void **state) {
    (void)state;
    enum { ADDED = 12, LONG = 200 };
    static char tokens[ADDED][LONG + 1], call[4096];
    text_list list = { .count = 0 };
    wanted_tokens wanted;
    tokenizer *without, *with;
    bool there;
    tokens_model("m", "word_level");
    write_text("one.txt", "snow");
    static const char plain[] = "tokenize m --data one.txt --out one.safetensors --threads 1 --json --quiet";
    uint64_t before = command_asked(plain, "planned_bytes");
    strcpy(call, plain);
    for (size_t i = 0; i < ADDED; i++) {
        memset(tokens[i], 'x', LONG);
        tokens[i][0] = (char)('A' + i);
        list.items[list.count++] = tokens[i];
        strcat(strcat(call, " --add-token "), tokens[i]);
    }
    uint64_t planned = command_asked(call, "planned_bytes") - before;
    assert_int_equal(wanted_tokens_find("m", &list, &wanted), STATUS_OK);
    assert_int_equal(tokenizer_of_open("m", &without, &there), STATUS_OK);
    assert_int_equal(tokenizer_of_open_with("m", &wanted, &with, &there), STATUS_OK);
    assert_true(wanted.bytes >= (uint64_t)ADDED * LONG);
    assert_true(planned >= wanted.bytes + tokenizer_bytes(with) - tokenizer_bytes(without));
    tokenizer_close(with);
    tokenizer_close(without);
    wanted_tokens_close(&wanted);
}

/* ---- what was killed ---- */

/* Kills this call of tokenize in its middle, where there is a mark. */
static void make_killed(const char *data) {
    long calls = 0;
    command_shell("rm -f killed.safetensors*; KILL_COUNT=calls " SNUG_BUILD
                  "/snug-killed tokenize m --data %s "
                  "--out killed.safetensors --threads 1 --quiet >said 2>&1",
                  data);
    FILE *file = fopen("calls", "r");
    assert_true(file && fscanf(file, "%ld", &calls) == 1);
    fclose(file);
    for (long at = calls / 2; at < calls; at++) {
        command_shell("rm -f killed.safetensors*; (KILL_CALL=%ld " SNUG_BUILD
                      "/snug-killed tokenize m --data %s "
                      "--out killed.safetensors --threads 1 --quiet) >said 2>&1; test $? != 0",
                      at, data);
        if (access("killed.safetensors", F_OK) != 0 && access("killed.safetensors.progress", F_OK) == 0)
            return;
    }
    fail_msg("%s: no mark", data);
}

/* What it makes now is what is made of the data at once. */
static void expect_made(const char *data, bool goes_on) {
    command_shell("rm -f once.safetensors");
    tokens_make("m", data, "", "once.safetensors");
    char call[256];
    snprintf(call, sizeof call, "tokenize m --data %s --out killed.safetensors --threads 1", data);
    command_result r = command_run(call);
    if (r.exit != 0) fail_msg("%s%s", r.out, r.err);
    assert_int_equal(command_has_words(r.out, "there already"), goes_on);
    command_free(&r);
    command_shell("cmp once.safetensors killed.safetensors && test \"$(ls killed.*)\" = killed.safetensors");
}

static void it_goes_on_in_the_second_file(void **state) {
    (void)state;
    tokens_model("m", "gpt2");
    command_shell("rm -rf folder && mkdir folder");
    tokens_texts("folder/a.jsonl", 40, 30, 3);
    tokens_texts("folder/b.jsonl", 6000, 150, 4);
    make_killed("folder");
    expect_made("folder", true);
}

/* Of the same length, so that every record stands where one stood. */
static void a_mark_of_other_data_is_not_taken(void **state) {
    (void)state;
    tokens_model("m", "gpt2");
    tokens_texts("changes.jsonl", 6000, 150, 5);
    make_killed("changes.jsonl");
    command_shell("sed -i s/snow/cold/g changes.jsonl");
    expect_made("changes.jsonl", false);
}

static void files_that_are_shorter_than_the_mark_are_made_anew(void **state) {
    (void)state;
    static const char *const names[] = { "messages", "role", "content" };
    static const char *const cut[] = { "partial", "ends", "learned" };
    tokens_model("m", "gpt2");
    tokens_chats("cut.jsonl", 7000, names, 6);
    make_killed("cut.jsonl");
    command_shell("rm -rf kept && mkdir kept && mv killed.* kept");
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        command_shell("rm -f killed.* && cp kept/* . && truncate -s 5000 killed.safetensors.%s", cut[i]);
        expect_made("cut.jsonl", false);
    }
    command_shell("rm killed.* && cp kept/* .");
    expect_made("cut.jsonl", true);
}

/* The process that makes tokens for a training does not outlive it: it stops where it can go on. */
static void a_killed_training_ends_its_maker(void **state) {
    (void)state;
    tokens_model("m", "gpt2");
    tokens_texts("some.jsonl", 6000, 150, 8);
    command_shell("rm -rf halted; for i in $(seq 16); do cat some.jsonl; done > lots.jsonl");
    pid_t pid =
        command_start("train m --data lots.jsonl --context 32 --out halted --quiet --batch 4 --steps 3 "
                      "--threads 1",
                      NULL, -1);
    for (int i = 0; i < 1000 && access("halted/data/train.safetensors.progress", F_OK) != 0; i++)
        usleep(5000);
    assert_int_equal(kill(pid, SIGKILL), 0);
    command_result r = command_wait(pid);
    assert_int_equal(r.exit, -1);
    command_free(&r);
    command_shell("flock -w 30 halted/data/train.safetensors.lock true && "
                  "test -e halted/data/train.safetensors.progress && "
                  "test ! -e halted/data/train.safetensors");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_documents_than_a_slot_has),
        cmocka_unit_test(ids_are_as_wide_as_the_vocabulary),
        cmocka_unit_test(what_stands_before_a_prompt_is_not_learned),
        cmocka_unit_test(a_turn_behind_an_answer_is_not_learned),
        cmocka_unit_test(roles_of_usual_chats_stay),
        cmocka_unit_test(the_longest_is_found_wherever_it_stands),
        cmocka_unit_test(what_is_learned_is_counted),
        cmocka_unit_test(added_tokens_are_planned),
        cmocka_unit_test(it_goes_on_in_the_second_file),
        cmocka_unit_test(a_mark_of_other_data_is_not_taken),
        cmocka_unit_test(files_that_are_shorter_than_the_mark_are_made_anew),
        cmocka_unit_test(a_killed_training_ends_its_maker),
    };
    return cmocka_run_group_tests_name("token details", tests, scratch_open, scratch_close);
}
