/* What a configuration says of the form that weights are stored in: every key of it is checked, and what is
 * no configuration is not taken for one that says nothing. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/quantized_files.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "io/spoil.h"

static status read_text(const char *json, const pass **p, pass_setting *s) {
    scratch_write("config.json", json, strlen(json));
    return quantized_files_read(".", p, s);
}

static void every_value_is_checked(void **state) {
    (void)state;
    static const char json[] =
        "{\"quantization_config\": {\"quant_method\": \"snug-int8\", \"setting\": \"int8\"}}";
    static spoil_text t;
    const pass *p;
    pass_setting s;
    char key[SPOIL_KEY];
    if (read_text(json, &p, &s) != STATUS_OK) fail_msg("%s", status_message());
    assert_non_null(p);
    assert_string_equal(s.text, "int8");
    spoil_read(&t, json);
    for (int i = 0; i < t.count; i++)
        for (int k = 0; k < 3; k++) {
            bool whole = i == 0, form = t.at[i].above == 0;
            if (k == 2 && (whole || form)) continue; /* without it the weights are plain */
            const char *with = k == 0   ? spoil_replaced(&t, i, "[]")
                               : k == 1 ? spoil_replaced(&t, i, "\"other\"")
                                        : spoil_left_out(&t, i);
            assert_int_equal(read_text(with, &p, &s), STATUS_INVALID);
            assert_null(p);
            if (!strstr(status_message(), whole ? "must be an object" : spoil_key(&t, i, key)))
                fail_msg("%s: %s", with, status_message());
        }
    assert_int_equal(read_text("{}", &p, &s), STATUS_OK);
    assert_null(p);
    assert_int_equal(quantized_files_read("nowhere", &p, &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "nowhere"));
    assert_null(p);
}

/* ---- memory ---- */

static uint64_t taken; /* by large blocks */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    if (count * size >= 1 << 17) taken += count * size;
    return __real_calloc(count, size);
}

/* What is planned for is what is taken: buffers that no weight's size changes. */
static void what_it_holds_is_known(void **state) {
    (void)state;
    static const float numbers[6] = { 1, 2, 3, 4, 5, 6 };
    safetensors_item item = { "w", "F32", SHAPE(2, 3), .data = numbers, .bytes = sizeof numbers };
    model_weight w = { .name = "w", .shape = SHAPE(2, 3), .type = DTYPE_F32 };
    quantized_files_bytes bytes;
    assert_int_equal(mkdir("from", 0700) | mkdir("to", 0700), 0);
    assert_int_equal(safetensors_write("from/model.safetensors", &item, 1), STATUS_OK);
    taken = 0;
    if (quantized_files_convert("from", "to", &w, 1, &bytes) != STATUS_OK) fail_msg("%s", status_message());
    assert_in_range(taken, 1 << 20, 1 << 24);
    assert_in_range(quantized_files_held(&w, 1), taken, taken + 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_value_is_checked),
                                        cmocka_unit_test(what_it_holds_is_known) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
