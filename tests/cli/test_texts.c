/* snug generate as a user sees it: several texts, stop strings, prompts from files, terminals, JSON. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/command.h"
#include "io/scratch.h"

static int make_model(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    command_expect(0, "train tiny/config.json --data text --out model --steps 30 --quiet");
    static const char lines[] = "every night\r\n\nthe\nthe lamp";
    scratch_write("prompts", lines, sizeof lines - 1);
    scratch_write("zero", "a\0b", 3);
    scratch_write("blank", "\n\r\n", 3);
    return 0;
}

static char *out_of(const char *line) {
    command_result r = command_run(line);
    if (r.exit) fail_msg("snug %s: %s", line, r.err);
    free(r.err);
    return r.out;
}

static void several_texts_stand_in_the_order_of_their_prompts(void **state) {
    (void)state;
    char *all = out_of("generate model --prompt a --prompt-file prompts --tokens 6 --temperature 0.7");
    char *one = out_of("generate model --prompt a --tokens 6 --temperature 0.7");
    char *last = out_of("generate model --prompt=the --tokens 6 --temperature 0.7");
    char expected[256];
    snprintf(expected, sizeof expected, "== 1 of 4 ==\n%s\n== 2 of 4 ==\nevery night", one);
    assert_int_equal(strncmp(all, expected, strlen(expected)), 0);
    snprintf(expected, sizeof expected, "\n\n== 3 of 4 ==\n%s\n== 4 of 4 ==\nthe lamp", last);
    assert_non_null(strstr(all, expected));
    free(all), free(one), free(last);
}

static json_document json_of(const char *line) {
    char *said = out_of(line);
    json_document d;
    assert_int_equal(json_parse(line, said, strlen(said), &d), STATUS_OK);
    free(said);
    return d;
}

static const char *string_at(json_value object, const char *key) {
    const char *value = NULL;
    assert_int_equal(json_get_string(object, key, &value), STATUS_OK);
    return value;
}

static void json_has_each_text(void **state) {
    (void)state;
    json_document all = json_of("generate model --prompt-file prompts --tokens 7 --json");
    json_document one = json_of("generate model --prompt=the --tokens 7 --json");
    size_t count;
    json_value texts = command_value(&all, "texts");
    assert_int_equal(json_as_array(texts, &count), STATUS_OK);
    assert_int_equal(count, 3);
    assert_string_equal(string_at(json_item(texts, 0), "prompt"), "every night");
    assert_string_equal(string_at(json_item(texts, 1), "text"), string_at(one.root, "text"));
    assert_string_equal(string_at(one.root, "end"), "length");
    assert_int_equal(command_number(&all, "new_tokens"), 21);
    assert_int_equal(command_number(&all, "at_once"), 3);
    assert_true(command_number(&all, "measured.peak_bytes") <= command_number(&all, "predicted.peak_bytes"));
    json_close(&one);
    /* In less memory they are the same texts. */
    char line[160];
    json_document single = json_of("generate model --prompt=the --tokens 7 --json");
    snprintf(line, sizeof line, "generate model --prompt-file prompts --tokens 7 --json --memory %llu",
             (unsigned long long)command_number(&single, "predicted.peak_bytes") + 1000);
    json_document tight = json_of(line);
    assert_true(command_number(&tight, "predicted.peak_bytes") <
                command_number(&all, "predicted.peak_bytes"));
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(string_at(json_item(texts, i), "text"),
                            string_at(json_item(command_value(&tight, "texts"), i), "text"));
    json_close(&single), json_close(&tight), json_close(&all);
}

static void stop_strings_end_a_text(void **state) {
    (void)state;
    char line[200];
    json_document whole = json_of("generate model --prompt=the --tokens 28 --temperature 1 --json");
    const char *full = string_at(whole.root, "text");
    const char *letter = strpbrk(full + 1, "abcdefghijklmnopqrstuvwxyz");
    assert_non_null(letter);
    char stop[2] = { *letter, 0 };
    snprintf(line, sizeof line,
             "generate model --prompt=the --tokens 28 --temperature 1 --json --stop zzz --stop %s", stop);
    json_document cut = json_of(line);
    assert_string_equal(string_at(cut.root, "end"), "stop");
    const char *shorter = string_at(cut.root, "text");
    assert_int_equal(strlen(shorter), strcspn(full, stop));
    assert_int_equal(strncmp(shorter, full, strlen(shorter)), 0);
    json_close(&whole), json_close(&cut);
}

/* Fewer tokens than were asked for are explained. */
static void a_full_context_is_said(void **state) {
    (void)state;
    command_result r = command_run("generate model --prompt=the --prompt=a --tokens 500");
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.err, "2 texts are as long as the model's context"));
    command_free(&r);
    r = command_run("generate model --prompt=the --tokens 5");
    assert_null(strstr(r.err, "the model's context"));
    command_free(&r);
}

/* Drawn at a high temperature, most bytes are no text: a file gets them as they are, a terminal characters
 * that don't command it. */
static void a_terminal_gets_characters_only(void **state) {
    (void)state;
    enum { MOST = 8192 };
    static const char *const with[] = { "TERM=xterm", NULL };
    static const char line[] = "generate model --prompt=the --tokens 28 --temperature 100 --quiet --seed 3";
    static char seen[MOST];
    char *raw = out_of(line);
    bool readable = true;
    for (size_t i = 0; raw[i] && readable; i += utf8_length(raw + i, strlen(raw + i)))
        readable = utf8_length(raw + i, strlen(raw + i)) > 0;
    assert_false(readable);
    free(raw);
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) skip();
    int other = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    if (other < 0) skip();
    pid_t pid = command_start(line, with, other);
    close(other);
    size_t length = 0;
    ssize_t n;
    while (length + 1 < MOST && (n = read(terminal, seen + length, MOST - 1 - length)) > 0)
        length += (size_t)n;
    close(terminal);
    command_result r = command_wait(pid);
    assert_int_equal(r.exit, 0);
    command_free(&r);
    assert_int_equal(strncmp(seen, "\033[1mthe\033[0m", 11), 0);
    for (size_t i = 11; i < length;) {
        size_t bytes = utf8_length(seen + i, length - i);
        unsigned char c = (unsigned char)seen[i];
        assert_true(bytes > 0);
        assert_true(bytes > 1 || (c >= 0x20 && c != 0x7f) || c == '\n' || c == '\r' || c == '\t');
        assert_false(bytes == 2 && c == 0xc2 && (unsigned char)seen[i + 1] < 0xa0);
        i += bytes;
    }
    assert_non_null(strstr(seen, "\xef\xbf\xbd"));
}

static int64_t planned_for(const char *dtype, int tokens) {
    char line[160];
    snprintf(line, sizeof line, "generate model --prompt=the --tokens %d --json --dtype %s", tokens, dtype);
    json_document d = json_of(line);
    int64_t bytes = (int64_t)command_number(&d, "predicted.peak_bytes");
    assert_true(command_number(&d, "measured.peak_bytes") <= (double)bytes);
    json_close(&d);
    return bytes;
}

static int64_t planned(const char *dtype) { return planned_for(dtype, 9); }

/* A folder of f32: as it is unless matrices of 16 bits are asked for; keys and values are bf16 with products.
 */
static void types_of_products_are_chosen(void **state) {
    (void)state;
    int64_t plain = planned("auto");
    assert_int_equal(planned("f32"), plain);
    assert_int_equal(planned("float32"), plain);
    assert_true(planned("half") < plain);
    assert_true(planned("bfloat16") < plain);
    /* Another block of keys and values has half of the bytes. */
    assert_true(planned_for("bf16", 20) - planned("bf16") < planned_for("f32", 20) - plain);
    assert_true(command_says("generate model --prompt a --dtype int8", 2, "auto, f32, bf16, f16"));
}

static void wrong_prompts_get_a_sentence(void **state) {
    (void)state;
    static const struct {
        const char *line, *sentence;
    } cases[] = {
        { "generate model", "generate wants --prompt TEXT" },
        { "generate model --prompt-file nowhere", "nowhere" },
        { "generate model --prompt-file blank", "blank has no line with a prompt" },
        { "generate model --prompt-file zero", "zero has a zero byte" },
        { "generate model --prompt a --top-p 2", "top-p" },
        { "generate model --prompt a --repetition-penalty 0", "repetition-penalty" },
        { "generate model --prompt a --min-p 1.5", "min-p" },
        { "generate model --prompt a --presence-penalty 101", "presence-penalty" },
        { "generate model --prompt a --frequency-penalty nan", "frequency-penalty" },
        { "generate model --prompt a --stop=", "a stop string is empty" },
        { "generate tiny --prompt a", "tiny" },
        { "generate . --prompt a", ". has no config.json" },
        { "generate model --prompt a --prompt 0123456789012345678901234567890123456789",
          "prompt 2 has 40 tokens" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        command_result r = command_run(cases[i].line);
        if (r.exit != 2 || !strstr(r.err, cases[i].sentence))
            fail_msg("snug %s: exit %d, %s", cases[i].line, r.exit, r.err);
        assert_string_equal(r.out, "");
        assert_true(strchr(r.err, '\n') == r.err + strlen(r.err) - 1); /* one sentence */
        command_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_texts_stand_in_the_order_of_their_prompts),
        cmocka_unit_test(json_has_each_text),
        cmocka_unit_test(stop_strings_end_a_text),
        cmocka_unit_test(a_full_context_is_said),
        cmocka_unit_test(a_terminal_gets_characters_only),
        cmocka_unit_test(types_of_products_are_chosen),
        cmocka_unit_test(wrong_prompts_get_a_sentence),
    };
    return cmocka_run_group_tests(tests, make_model, scratch_close);
}
