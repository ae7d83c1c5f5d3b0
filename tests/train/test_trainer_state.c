/* The last line of a checkpoint's trainer_state.json: its checksum, without which nothing in it is believed.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "io/scratch.h"
#include "io/spoil.h"
#include "oracle/state_sum.h"
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

/* The file that was written is not complained of for its sum. */
static bool sum_stands(const char *data, size_t bytes) {
    trainer_state t;
    scratch_write("state", data, bytes);
    return trainer_state_read("state", &t) == STATUS_OK || !strstr(status_message(), "damaged or was edited");
}

static void the_sum_must_stand(void **state) {
    (void)state;
    char data[BYTES], other[BYTES + 64];
    size_t bytes = written(data);
    char *key = state_sum_key(data);
    assert_non_null(key);
    assert_string_equal(data + bytes - 3, "\n}\n"); /* its last line is a line, as tools for text want it */
    assert_true(sum_stands(data, bytes));
    int same = snprintf(other, sizeof other, "%.*s\"xxh64\":%s", (int)(key - data), data,
                        strchr(strchr(key, ':'), '"')); /* a blank less behind the key is no damage */
    assert_int_equal(same, (int)bytes - 1);
    assert_true(sum_stands(other, (size_t)same));
    damaged("{}\n", 3, "no sum");
    damaged("{\"format\": 1, \"step\": 7}\n", 25, "no sum behind something");
    int length = snprintf(other, sizeof other, "%.*s\"end\": 1}", (int)(key - data), data);
    damaged(other, (size_t)length, "another key in its place");
    length = snprintf(other, sizeof other, "%.*s\"xxh64\": \"%.15s\"}", (int)(key - data), data,
                      strchr(strchr(key, ':'), '"') + 1);
    damaged(other, (size_t)length, "too short a sum");
    char *digits = strchr(strchr(key, ':'), '"') + 1;
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
    assert_true(sum_stands(data, bytes));
}

/* A file of this text, with a sum that fits. */
static status read_text(const char *text, trainer_state *t) {
    char other[BYTES + 256];
    snprintf(other, sizeof other, "%s", text);
    assert_true(state_sum_sign(other));
    scratch_write("state", other, strlen(other));
    return trainer_state_read("state", t);
}

static status read_with(const char *data, const char *was, const char *is) {
    char other[BYTES + 128];
    const char *at = strstr(data, was);
    trainer_state t;
    assert_non_null(at);
    snprintf(other, sizeof other, "%.*s%s%s", (int)(at - data), data, is, at + strlen(was));
    return read_text(other, &t);
}

/* What no snug writes is refused by its key even where the sum fits. */
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
        { "\"format\": 1", "\"format\": 3", "format" },
        { "\"step\": 7", "\"step\": -1", "'step'" },
        { "\"step\": 7", "\"step\": 7, \"step\": 7", "a key twice" },
    };
    written(data);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(read_with(data, rows[i].was, rows[i].is), STATUS_INVALID);
        if (!strstr(status_message(), rows[i].says)) fail_msg("%s: %s", rows[i].is, status_message());
    }
}

/* As ranks write them. A file that is not listed is missed, also the first one and the index. */
static void files_of_several_ranks(void **state) {
    (void)state;
    static char data[BYTES];
    trainer_state is = { .step = 7, .samples = 56, .micro_batch = 2 }, read;
    is.model.files = 2, is.optimizer.files = SHARDS_MOST;
    is.model.index = (io_sum){ 7, 70, false }, is.optimizer.index = (io_sum){ 8, 80, false };
    for (int k = 0; k < SHARDS_MOST; k++) is.optimizer.sums[k] = (io_sum){ (uint64_t)k, 99, false };
    for (int k = 0; k < 2; k++) is.model.sums[k] = (io_sum){ 10, (uint64_t)k, false };
    assert_int_equal(trainer_state_write("state", &is), STATUS_OK);
    assert_int_equal(trainer_state_read("state", &read), STATUS_OK);
    assert_memory_equal(&is.model, &read.model, sizeof is.model);
    assert_memory_equal(&is.optimizer, &read.optimizer, sizeof is.optimizer);
    FILE *file = fopen("state", "rb");
    data[fread(data, 1, sizeof data - 1, file)] = 0;
    fclose(file);
    assert_non_null(strstr(data, "\"format\": 2")); /* which earlier versions refuse by that */
    static const char *const names[] = { "model-00001-of-00002.safetensors",
                                         "model-00002-of-00002.safetensors", "model.safetensors.index.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *at = strstr(data, names[i]);
        assert_non_null(at);
        *at = 'n';
        assert_int_equal(read_text(data, &read), STATUS_INVALID);
        *at = 'm';
        assert_int_equal(read_text(data, &read), STATUS_OK);
    }
}

/* A state with something of everything that one may hold. */
static void fill(trainer_state *t) {
    *t = (trainer_state){ .step = 7, .samples = 56, .micro_batch = 2 };
    for (int k = 0; k < IDENTITY_KINDS; k++) {
        identity_add(&t->run, (identity_kind)k, "number", k + 0.5, "");
        identity_add(&t->run, (identity_kind)k, "words", 0, "some");
    }
    for (int i = 0, n = 0; pass_table[i] && n < 2; i++)
        if (pass_table[i]->class == PASS_LOSSY) {
            strcpy(t->passes[i].setting, "x");
            t->passes[i].class = PASS_LOSSY, n++;
        }
    t->run.base = (io_sum){ 100, 11, false };
    t->model = (trainer_files){ .files = 1, .sums = { { 200, 22, false } } };
    t->optimizer = (trainer_files){ .files = 1, .sums = { { 300, 33, false } } };
}

/* Which value may be anything: facts of a run are compared, and a fact that is absent or other is another
 * run's; a technique less is another plan's; without "base" the weights are a whole model's. */
static bool may_be_absent(const spoil_text *t, int i) {
    char key[SPOIL_KEY], around[SPOIL_KEY];
    spoil_key(t, i, key);
    spoil_key(t, t->at[i].above, around);
    return strcmp(key, "number") == 0 || strcmp(key, "words") == 0 || (!t->at[i].key && t->at[i].above > 0) ||
           (!*around && strcmp(key, "base") == 0);
}

/* Whether a value is of another kind or out of every range or is not there: the file is refused by its key. A
 * file of an adapter is looked for where "base" is there, so without it another key is missed. */
static void every_value_is_checked(void **state) {
    (void)state;
    static spoil_text t;
    static char text[BYTES];
    trainer_state is, read;
    fill(&is);
    assert_int_equal(trainer_state_write("state", &is), STATUS_OK);
    FILE *file = fopen("state", "rb");
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    if (read_text(text, &read) != STATUS_OK) fail_msg("%s", status_message());
    assert_memory_equal(&is.model, &read.model, sizeof is.model);
    assert_memory_equal(&is.run.base, &read.run.base, sizeof is.run.base);
    assert_int_equal(trainer_state_read("nowhere", &read), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "nowhere"));
    spoil_read(&t, text);
    assert_true(t.count > 30);
    for (int i = 1; i < t.count - 1; i++) { /* the last is the sum of the file */
        char key[SPOIL_KEY];
        const spoil_value *v = &t.at[i];
        const char *with[] = { spoil_is_word(v) ? "7" : "[]", "{}", "null", "-1e308", "1e308", NULL };
        spoil_key(&t, i, key);
        for (int k = 0; k < 6; k++) {
            if (with[k] ? *with[k] == *v->begin : may_be_absent(&t, i)) continue;
            status result =
                read_text(with[k] ? spoil_replaced(&t, i, with[k]) : spoil_left_out(&t, i), &read);
            if (strcmp(key, "base") == 0 && k == 2) continue; /* null is as good as absent */
            if (result != STATUS_INVALID) fail_msg("'%s': %s is taken", key, with[k] ? with[k] : "nothing");
            bool why = strstr(status_message(), "must be") || strstr(status_message(), "is missing");
            if (!why || !strstr(status_message(), key)) fail_msg("'%s': '%s'", key, status_message());
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_sum_must_stand),
                                        cmocka_unit_test(kinds_of_values_are_checked),
                                        cmocka_unit_test(files_of_several_ranks),
                                        cmocka_unit_test(every_value_is_checked) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
