#define _GNU_SOURCE
#include "cli/quantizing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

json_document quantizing_asks(const char *line, command_result *r) {
    json_document d;
    *r = command_run(line);
    if (r->exit) fail_msg("snug %s: %s", line, r->err);
    assert_int_equal(json_parse("result", r->out, strlen(r->out), &d), STATUS_OK);
    return d;
}

double quantizing_loss(const char *words, uint64_t *weights) {
    static const char *const categories[] = { "weights", "temporaries", "scratch", "inputs", "gaps" };
    char line[200], path[64];
    command_result r;
    double loss = 0;
    snprintf(line, sizeof line, "train %s --data text --eval-only --json --quiet", words);
    json_document d = quantizing_asks(line, &r);
    assert_int_equal(json_get_number(command_value(&d, "evaluation"), "loss", 0, 1e9, &loss), STATUS_OK);
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++) {
        snprintf(path, sizeof path, "predicted.by_category.%s", categories[i]);
        uint64_t planned = command_number(&d, path);
        snprintf(path, sizeof path, "measured.by_category.%s", categories[i]);
        assert_int_equal(command_number(&d, path), planned);
    }
    *weights = command_number(&d, "predicted.by_category.weights");
    assert_true(r.resident_peak <= command_number(&d, "predicted.peak_bytes"));
    json_close(&d);
    command_free(&r);
    return loss;
}

char *quantizing_text(const char *line) {
    command_result r;
    const char *added;
    json_document d = quantizing_asks(line, &r);
    assert_int_equal(json_get_string(json_item(command_value(&d, "texts"), 0), "text", &added), STATUS_OK);
    char *copy = strdup(added);
    json_close(&d);
    command_free(&r);
    return copy;
}

void quantizing_needs_what_it_says(const char *kind) {
    char line[160];
    snprintf(line, sizeof line, "quantize model --to %s --out never --memory 2MiB --quiet", kind);
    command_result r = command_run(line);
    const char *at = strstr(r.err, "it needs ");
    if (r.exit != 3 || !at || !(at = strchr(at, '('))) fail_msg("exit %d, %s", r.exit, r.err);
    uint64_t bytes = strtoull(at + 1, NULL, 10);
    command_free(&r);
    for (int less = 1; less >= 0; less--) {
        snprintf(line, sizeof line, "quantize model --to %s --out exactly --memory %llu --quiet", kind,
                 (unsigned long long)bytes - (unsigned)less);
        command_expect(less ? 3 : 0, line);
        assert_int_equal(access("exactly", F_OK) == 0, !less);
    }
}
