/* The last line of a checkpoint's trainer_state.json: its digest, without which nothing in it is believed. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "io/scratch.h"
#include "train/trainer_state.h"

enum { BYTES = 1 << 14 };

static size_t written(char *data) {
    trainer_state t = { .step = 7, .samples = 56, .micro_batch = 2 };
    if (trainer_state_write("state", &t) != STATUS_OK) fail_msg("%s", status_message());
    FILE *file = fopen("state", "rb");
    size_t bytes = fread(data, 1, BYTES - 1, file);
    fclose(file);
    data[bytes] = 0;
    return bytes;
}

static void damaged(const char *data, size_t bytes, const char *what) {
    trainer_state t;
    scratch_write("state", data, bytes);
    assert_int_equal(trainer_state_read("state", &t), STATUS_INVALID);
    if (!strstr(status_message(), "damaged or was edited")) fail_msg("%s: %s", what, status_message());
}

/* The file that was written is not complained of for its digest. */
static bool digest_stands(const char *data, size_t bytes) {
    trainer_state t;
    scratch_write("state", data, bytes);
    return trainer_state_read("state", &t) == STATUS_OK || !strstr(status_message(), "damaged or was edited");
}

static void the_digest_must_stand(void **state) {
    (void)state;
    char data[BYTES], other[BYTES + 64];
    size_t bytes = written(data);
    char *key = NULL;
    for (char *at = data; (at = strstr(at, "\"digest\"")); at++) key = at;
    assert_non_null(key);
    assert_true(digest_stands(data, bytes));
    damaged("{}\n", 3, "no digest");
    damaged("{\"format\": 1, \"step\": 7}\n", 25, "no digest behind something");
    int length = snprintf(other, sizeof other, "%.*s\"end\": 1}", (int)(key - data), data);
    damaged(other, (size_t)length, "another key in its place");
    length = snprintf(other, sizeof other, "%.*s\"digest\": \"%.15s\"}", (int)(key - data), data,
                      strchr(key + 8, '"') + 1);
    damaged(other, (size_t)length, "too short a digest");
    char *digits = strchr(key + 8, '"') + 1;
    for (int i = 0; i < 16; i++) {
        char old = digits[i];
        digits[i] = old == '0' ? '1' : '0';
        damaged(data, bytes, "another digit");
        digits[i] = old;
    }
    char *step = strstr(data, "7");
    *step = '8';
    damaged(data, bytes, "another step");
    *step = '7';
    length = snprintf(other, sizeof other, "%.*s, \"more\": 1}", (int)(strchr(digits, '"') + 1 - data), data);
    damaged(other, (size_t)length, "more behind it");
    assert_true(digest_stands(data, bytes));
}

/* The file with one text replaced, and a digest that fits. */
static status read_with(const char *data, const char *was, const char *is) {
    char other[BYTES + 256], digits[DIGEST_TEXT_BYTES], *key = NULL;
    const char *at = strstr(data, was);
    trainer_state t;
    assert_non_null(at);
    snprintf(other, sizeof other, "%.*s%s%s", (int)(at - data), data, is, at + strlen(was));
    for (char *k = other; (k = strstr(k, "\"digest\":")); k++) key = k;
    digest d = digest_begin();
    digest_add(&d, other, (uint64_t)(key - other));
    memcpy(strchr(key + 9, '"') + 1, digest_text_of(digest_value(&d), digits), 16);
    scratch_write("state", other, strlen(other));
    return trainer_state_read("state", &t);
}

/* What no snug writes is refused by its key even where the digest fits. */
static void kinds_of_values_are_checked(void **state) {
    (void)state;
    char data[BYTES];
    static const struct {
        const char *was, *is, *says;
    } rows[] = {
        { "\"options\": {}", "\"options\": 3", "'options'" },
        { "\"model\": {}", "\"model\": [1]", "'model'" },
        { "\"data\": {}", "\"data\": \"x\"", "'data'" },
        { "\"passes\": []", "\"passes\": {}", "'passes'" },
        { "\"micro_batch\": 2", "\"micro_batch\": 0", "'micro_batch'" },
        { "\"format\": 1", "\"format\": 2", "format" },
        { "\"step\": 7", "\"step\": -1", "'step'" },
        { "\"step\": 7", "\"step\": 7, \"step\": 7", "a key twice" },
    };
    written(data);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(read_with(data, rows[i].was, rows[i].is), STATUS_INVALID);
        if (!strstr(status_message(), rows[i].says)) fail_msg("%s: %s", rows[i].is, status_message());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_digest_must_stand),
                                        cmocka_unit_test(kinds_of_values_are_checked) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
