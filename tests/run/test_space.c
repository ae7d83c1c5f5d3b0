/* Which settings there are to try of a deep model is asked of a few of its layers, where all are alike: that
 * is what they all offer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/device_gpu.h"
#include "run/lab.h"
#include "search/space.h"

static int cases(int few) {
    const char *wanted = getenv("SNUG_TEST_CASES");
    return wanted && atoi(wanted) < few ? atoi(wanted) : few;
}

static void draw_model(lab *l, uint32_t *random) {
    static const char *const decoders[] = { NULL, NULL, "llama", "qwen2", "gemma" };
    lab_sizes s = { .layers = 9 + lab_random(random, 24),
                    .heads = 1 + lab_random(random, 3),
                    .context = 4 + lab_random(random, 60),
                    .vocabulary = 5 + lab_random(random, 300),
                    .batch = 1 + lab_random(random, 12),
                    .clip = lab_random(random, 2) ? 1 : 0,
                    .decoder = decoders[lab_random(random, 5)],
                    .untied = lab_random(random, 3) == 0 };
    s.channels = s.heads * 8 * (1 + lab_random(random, 12));
    lab_open(l, &s);
    l->run.eval_samples = lab_random(random, 5);
    l->run.training = lab_random(random, 8) > 0;
    if (l->run.training && l->run.batch % 2 == 0 && lab_random(random, 2)) {
        l->run.unit = l->run.batch / 2;
        if (lab_random(random, 2)) l->run.ranks = 2;
    }
}

/* The device must outlive the request. */
static void draw_device(search_request *q, device_elsewhere *at) {
    static const device_gpu gpu = { .name = "h200",
                                    .title = "H200",
                                    .capability = 90,
                                    .multiprocessors = 132,
                                    .threads = 2048,
                                    .memory = UINT64_C(139) << 30,
                                    .f32 = 6.7e13,
                                    .bandwidth = 4.8e12,
                                    .link = 6.4e10 };
    assert_int_equal(device_elsewhere_plan(&gpu, at), STATUS_OK);
    q->run.lower.device = &at->device;
    q->run.lower.rates = at->device.rates(&at->device, q->run.lower.threads);
}

static void draw_wishes(search_request *q, uint32_t *random) {
    q->allowed = lab_random(random, 6) ? PASS_REASSOCIATING : PASS_EXACT;
    if (lab_random(random, 2)) q->run.folder = ".";
    for (int i = 0; pass_table[i]; i++) {
        bool needed = q->run.ranks > 1 && strcmp(pass_table[i]->name, "sharding") == 0;
        q->lossy[i].given = q->allowed != PASS_EXACT && lab_random(random, 4) == 0;
        if (!needed && lab_random(random, 8) == 0) q->pins[i].kind = SEARCH_OFF;
    }
}

static void are_equal(const space *a, const space *b, int index) {
    uint64_t size = space_size(a);
    if (space_size(b) != size || a->stem_count != b->stem_count || a->place_count != b->place_count)
        fail_msg("case %d: %llu candidates of few layers, %llu of all", index, (unsigned long long)size,
                 (unsigned long long)space_size(b));
    for (int i = 0; pass_table[i]; i++) {
        assert_int_equal(a->known[i].count, b->known[i].count);
        for (uint32_t k = 0; k < a->known[i].count; k++) {
            const pass_setting *x = &a->known[i].settings[k], *y = &b->known[i].settings[k];
            if (strcmp(x->text, y->text) != 0 || x->class != y->class ||
                memcmp(x->value, y->value, sizeof x->value) != 0)
                fail_msg("case %d: %s has '%s' of few layers, '%s' of all", index, pass_table[i]->name,
                         x->text, y->text);
        }
    }
    assert_memory_equal(a->stems, b->stems, a->stem_count * sizeof *a->stems);
    assert_memory_equal(a->places, b->places, a->place_count);
}

static void few_layers_offer_what_all_do(void **state) {
    uint32_t random = 41, listed = 0;
    (void)state;
    for (int i = 0; i < cases(150); i++) {
        lab l;
        device_elsewhere at;
        draw_model(&l, &random);
        search_request q = { .run = l.run };
        q.run.model = &l.model;
        if (q.run.ranks < 2 && lab_random(&random, 2)) draw_device(&q, &at);
        draw_wishes(&q, &random);
        space few, all;
        assert_true(l.model.alike);
        status result = space_open(&q, &few);
        l.model.alike = false;
        assert_int_equal(space_open(&q, &all), result);
        if (result == STATUS_OK) are_equal(&few, &all, i), listed++;
        space_close(&few);
        space_close(&all);
    }
    printf("%u spaces were listed\n", listed);
    assert_true(listed > 0);
}

/* A pin is checked against the layers that there are. */
static void pins_are_of_all_layers(void **state) {
    lab l;
    space s;
    (void)state;
    lab_open(&l, &(lab_sizes){
                     .layers = 12, .heads = 2, .channels = 16, .context = 8, .vocabulary = 20, .batch = 2 });
    search_request q = { .run = l.run, .allowed = PASS_REASSOCIATING };
    q.run.model = &l.model;
    for (int i = 0; pass_table[i]; i++) {
        if (strcmp(pass_table[i]->name, "recompute") != 0) continue;
        q.pins[i].kind = SEARCH_PINNED;
        assert_int_equal(pass_table[i]->parse("block:12", &q.pins[i].setting), STATUS_OK);
        assert_int_equal(space_open(&q, &s), STATUS_OK);
        space_close(&s);
        assert_int_equal(pass_table[i]->parse("block:13", &q.pins[i].setting), STATUS_OK);
        assert_int_equal(space_open(&q, &s), STATUS_INVALID);
        assert_non_null(strstr(status_message(), "there are 12 blocks"));
        space_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_layers_offer_what_all_do),
        cmocka_unit_test(pins_are_of_all_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
