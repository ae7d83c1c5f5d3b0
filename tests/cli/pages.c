#include "cli/pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "io/file.h"
#include "report/page_read.h"

char *pages_read(const char *path, size_t most) {
    char *data = NULL;
    uint64_t bytes = 0;
    assert_int_equal(io_read_file(path, most, &data, &bytes), STATUS_OK);
    assert_int_equal(strlen(data), bytes);
    assert_memory_equal(data, "<!DOCTYPE html>", 15);
    assert_true(text_ends_with(data, "</html>\n"));
    assert_non_null(strstr(data, "default-src 'none'"));
    return data;
}

json_document pages_chart(const char *page, const char *name) {
    static const char begin[] = "<script type=\"application/json\">";
    char caption[256];
    json_document d;
    snprintf(caption, sizeof caption, ">%s</figcaption>", name);
    const char *at = strstr(page, caption);
    if (!at) fail_msg("there is no chart '%s'", name);
    at = strstr(at, begin);
    assert_non_null(at);
    at += strlen(begin);
    const char *end = strstr(at, "</script>");
    assert_non_null(end);
    assert_int_equal(json_parse_within(name, at, (size_t)(end - at), UINT64_C(1) << 32, &d), STATUS_OK);
    return d;
}

json_value pages_bar(const json_document *chart, const char *label) {
    json_value bars;
    size_t count;
    const char *said;
    assert_int_equal(json_get(chart->root, "bars", &bars), STATUS_OK);
    assert_int_equal(json_as_array(bars, &count), STATUS_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(json_get_string(json_item(bars, i), "label", &said), STATUS_OK);
        if (strcmp(said, label) == 0) return json_item(bars, i);
    }
    fail_msg("there is no bar '%s'", label);
    return (json_value){ 0 };
}

uint64_t pages_bar_value(const json_document *chart, const char *label) {
    double value = 0;
    assert_int_equal(json_get_number(pages_bar(chart, label), "value", 0, 1e18, &value), STATUS_OK);
    return (uint64_t)value;
}

static int64_t integer_at(json_value array, size_t index) {
    int64_t n = 0;
    assert_int_equal(json_as_integer(json_item(array, index), INT64_MIN, INT64_MAX, &n), STATUS_OK);
    return n;
}

uint64_t pages_number(json_value v, size_t index) { return (uint64_t)integer_at(v, index); }

static json_value member(json_value object, const char *key, size_t *count) {
    json_value v;
    assert_int_equal(json_get(object, key, &v), STATUS_OK);
    assert_int_equal(json_as_array(v, count), STATUS_OK);
    return v;
}

/* [name, form, from, category, phase, group, bytes, first, last] */
uint64_t pages_bytes_at(const json_document *bands, uint64_t moment, const char *category) {
    size_t categories, count, stairs;
    json_value names = member(bands->root, "categories", &categories), list;
    int64_t wanted = -1, sum = 0, c = 0;
    const char *name;
    for (size_t i = 0; i < categories; i++) {
        assert_int_equal(json_as_string(json_item(names, i), &name), STATUS_OK);
        if (strcmp(name, category) == 0) wanted = (int64_t)i;
    }
    assert_true(wanted >= 0);
    list = member(bands->root, "base", &count);
    for (size_t i = 0; i < count; i++)
        if (integer_at(json_item(list, i), 3) == wanted) sum += integer_at(json_item(list, i), 6);
    list = member(bands->root, "bands", &count);
    for (size_t i = 0; i < count; i++) {
        json_value b = json_item(list, i);
        if (integer_at(b, 3) == wanted && pages_number(b, 7) <= moment && moment <= pages_number(b, 8))
            sum += integer_at(b, 6);
    }
    list = member(bands->root, "gathered", &count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(json_get_integer(json_item(list, i), "category", 0, 99, &c), STATUS_OK);
        if (c != wanted || json_has(json_item(list, i), "seen")) continue;
        json_value s = member(json_item(list, i), "stairs", &stairs);
        int64_t there = 0;
        for (size_t k = 0; k + 2 < stairs && pages_number(s, k) <= moment; k += 3)
            there = integer_at(s, k + 1);
        sum += there;
    }
    return (uint64_t)sum;
}

void pages_check_markup(const char *page) {
    page_read_markup(page);
    page_read_policy(page);
    assert_null(strstr(page, "\xe2\x80\xae")); /* right to left from here on */
}
