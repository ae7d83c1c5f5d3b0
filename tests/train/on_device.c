#include "train/on_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "io/file.h"

void on_device_setup(const device *on, const setup_options *o, setup *s) {
    setup_options with = *o;
    with.device = on ? on->name : NULL;
    if (setup_open(&with, NULL, s) != STATUS_OK) fail_msg("%s", status_message());
}

void on_device_run(const setup_options *o, const device *on, outcome *out) {
    setup s;
    decision d = { 0 };
    resume from;
    train_result r = { 0 };
    on_device_setup(on, o, &s);
    status result = resume_find(&s, &from);
    if (result == STATUS_OK) result = resume_decide(&s, &from, &d);
    train_observer silent = { 0 };
    if (result == STATUS_OK) result = train_run(&s, &d, &from, &silent, &r);
    if (result != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(r.steps, o->steps);
    assert_true(o->steps <= 24 && r.evaluation_count <= 16);
    memcpy(out->losses, r.losses, (size_t)o->steps * sizeof *r.losses);
    out->evaluation_count = r.evaluation_count;
    for (uint32_t i = 0; i < r.evaluation_count; i++) out->evaluations[i] = r.evaluations[i].loss;
    memcpy(out->pools, d.plan.pools, sizeof out->pools);
    memcpy(out->measured, r.memory.pools, sizeof out->measured);
    out->staging_bytes = d.plan.staging_bytes;
    out->choice = d.point.choice;
    train_result_close(&r);
    resume_close(&from);
    decision_close(&d);
    setup_close(&s);
}

static void ends_with(status expected, const setup_options *o, const device *on, char said[1024]) {
    setup s;
    decision d = { 0 };
    resume from;
    train_result r = { 0 };
    train_observer silent = { 0 };
    on_device_setup(on, o, &s);
    assert_int_equal(resume_find(&s, &from), STATUS_OK);
    assert_int_equal(resume_decide(&s, &from, &d), STATUS_OK);
    assert_int_equal(train_run(&s, &d, &from, &silent, &r), expected);
    snprintf(said, 1024, "%s", status_message());
    train_result_close(&r);
    resume_close(&from);
    decision_close(&d);
    setup_close(&s);
}

void on_device_fail(const setup_options *o, const device *on, char said[1024]) {
    ends_with(STATUS_FAILED, o, on, said);
}

void on_device_refused(const setup_options *o, const device *on, char said[1024]) {
    ends_with(STATUS_NO_FIT, o, on, said);
}

void on_device_same_file(const char *one, const char *other) {
    char *a, *b;
    uint64_t n, m;
    assert_int_equal(io_read_file(one, 1 << 26, &a, &n), STATUS_OK);
    assert_int_equal(io_read_file(other, 1 << 26, &b, &m), STATUS_OK);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    memory_free(a);
    memory_free(b);
}

void on_device_same(const outcome *a, const outcome *b, int64_t steps) {
    assert_memory_equal(a->losses, b->losses, (size_t)steps * sizeof *a->losses);
    assert_int_equal(a->evaluation_count, b->evaluation_count);
    assert_memory_equal(a->evaluations, b->evaluations, a->evaluation_count * sizeof *a->evaluations);
}

int on_device_pass(const char *name) {
    int i = 0;
    while (strcmp(pass_table[i]->name, name) != 0) i++;
    return i;
}

void on_device_pin(const compose_choice *c, setup_options *o) {
    for (int i = 0; pass_table[i]; i++) o->passes[i] = c->settings[i].text[0] ? c->settings[i].text : "off";
    o->micro_batch = c->micro_batch;
}
