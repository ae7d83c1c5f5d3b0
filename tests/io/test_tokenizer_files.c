/* Files of a tokenizer go on with the model: all that are known, byte for byte, and no others. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "base/memory.h"
#include "io/file.h"
#include "io/scratch.h"
#include "io/tokenizer_files.h"

static const char *const known[] = { "tokenizer.json",
                                     "tokenizer.model",
                                     "spiece.model",
                                     "sentencepiece.bpe.model",
                                     "tekken.json",
                                     "vocab.json",
                                     "vocab.txt",
                                     "merges.txt",
                                     "tokenizer_config.json",
                                     "special_tokens_map.json",
                                     "added_tokens.json",
                                     "chat_template.json",
                                     "chat_template.jinja",
                                     "generation_config.json" };
enum { KNOWN = sizeof known / sizeof *known };

static void each_is_copied(void **state) {
    (void)state;
    char path[128];
    assert_int_equal(mkdir("from", 0700) | mkdir("to", 0700), 0);
    for (int i = 0; i < KNOWN; i++) {
        snprintf(path, sizeof path, "from/%s", known[i]);
        scratch_write(path, known[i], strlen(known[i]));
    }
    scratch_write("from/notes.txt", "x", 1);
    if (tokenizer_files_copy("from", "to") != STATUS_OK) fail_msg("%s", status_message());
    for (int i = 0; i < KNOWN; i++) {
        char *data;
        uint64_t bytes;
        snprintf(path, sizeof path, "to/%s", known[i]);
        if (io_read_file(path, 4096, &data, &bytes) != STATUS_OK) fail_msg("%s", status_message());
        assert_string_equal(data, known[i]);
        memory_free(data);
    }
    assert_int_not_equal(access("to/notes.txt", F_OK), 0);
}

/* Those of other names lie in a folder of their own; nothing else in it is copied, counted or removed. */
static void templates_in_a_folder_are_copied(void **state) {
    (void)state;
    char *data;
    uint64_t bytes;
    assert_int_equal(
        mkdir("many", 0700) | mkdir("many/additional_chat_templates", 0700) | mkdir("there", 0700), 0);
    scratch_write("many/chat_template.jinja", "one", 3);
    scratch_write("many/additional_chat_templates/tool_use.jinja", "a tool", 6);
    scratch_write("many/additional_chat_templates/rag.jinja", "found", 5);
    scratch_write("many/additional_chat_templates/notes.txt", "x", 1);
    assert_int_equal(tokenizer_files_bytes("many"), 14);
    for (int again = 0; again < 2; again++)
        if (tokenizer_files_copy("many", "there") != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(io_read_file("there/additional_chat_templates/tool_use.jinja", 64, &data, &bytes),
                     STATUS_OK);
    assert_string_equal(data, "a tool");
    memory_free(data);
    assert_int_equal(access("there/additional_chat_templates/rag.jinja", F_OK), 0);
    assert_int_not_equal(access("there/additional_chat_templates/notes.txt", F_OK), 0);
    assert_int_equal(tokenizer_files_remove("many", "many"), STATUS_OK);
    assert_int_equal(access("many/additional_chat_templates/rag.jinja", F_OK), 0);
    assert_int_equal(tokenizer_files_remove("there", "many"), STATUS_OK);
    assert_int_not_equal(access("there/additional_chat_templates", F_OK), 0);
    assert_int_equal(tokenizer_files_remove("many", NULL), STATUS_OK);
    assert_int_equal(access("many/additional_chat_templates/notes.txt", F_OK), 0);
    assert_int_not_equal(access("many/additional_chat_templates/rag.jinja", F_OK), 0);
}

/* Whatever its length is, beside that of the pieces in which it is copied. */
static void any_length_is_copied(void **state) {
    (void)state;
    enum { PIECE = 32 << 10 };
    static const size_t lengths[] = { 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 17 };
    static char bytes[4 * PIECE];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)('a' + (i * i + i / 7) % 26);
    assert_int_equal(mkdir("long", 0700) | mkdir("copied", 0700), 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char *data;
        uint64_t length;
        scratch_write("long/tokenizer.json", bytes, lengths[i]);
        if (tokenizer_files_copy("long", "copied") != STATUS_OK) fail_msg("%s", status_message());
        assert_int_equal(io_read_file("copied/tokenizer.json", 1 << 20, &data, &length), STATUS_OK);
        assert_int_equal(length, lengths[i]);
        assert_memory_equal(data, bytes, length);
        memory_free(data);
    }
}

/* What was there stays, and no half of the new one. */
static void a_full_disk_is_said(void **state) {
    (void)state;
    static char large[300000];
    struct rlimit old, small;
    memset(large, 'x', sizeof large);
    assert_int_equal(mkdir("large", 0700), 0);
    scratch_write("large/tokenizer.json", large, sizeof large);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 1000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    status result = tokenizer_files_copy("large", "to");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(result, STATUS_FAILED);
    assert_non_null(strstr(status_message(), "to/tokenizer.json"));
    char *data;
    uint64_t bytes;
    assert_int_equal(io_read_file("to/tokenizer.json", 4096, &data, &bytes), STATUS_OK);
    assert_string_equal(data, "tokenizer.json");
    memory_free(data);
    assert_int_not_equal(access("to/tokenizer.json.partial", F_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_is_copied),
                                        cmocka_unit_test(templates_in_a_folder_are_copied),
                                        cmocka_unit_test(any_length_is_copied),
                                        cmocka_unit_test(a_full_disk_is_said) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
