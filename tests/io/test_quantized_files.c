/* What a configuration says of the form that weights are stored in: every key of it is checked, and what is
 * no configuration is not taken for one that says nothing. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/quantized_files.h"
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

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_value_is_checked) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
