/* Two threads of a program, each with networks of its own: planned, trained, loaded and asked at the same
 * time, each on another number of threads. What comes out is what came out alone. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <snug/snug.h>

#include "base/patience.h"
#include "io/scratch.h"

enum { INPUTS = 5, CLASSES = 3, SAMPLES = 64, USERS = 2, ROUNDS = 4 };

static int read_point(void *context, int64_t i, void *const fields[]) {
    float *x = fields[0];
    int32_t *label = fields[1];
    uint64_t state = (uint64_t)i * 31 + 7;
    (void)context;
    scratch_random(&state);
    for (int k = 0; k < INPUTS; k++) x[k] = (float)(scratch_random(&state) % 2001) / 1000 - 1;
    *label = x[0] > x[1] ? 0 : x[1] > x[2] ? 1 : 2;
    return 0;
}

static void build(void *context, snug_graph *g) {
    const int64_t *width = context;
    snug_tensor x = snug_gelu(g, snug_linear(g, "hidden", snug_input(g, "point"), *width));
    x = snug_linear(g, "classes", x, CLASSES);
    snug_cross_entropy(g, x, snug_input(g, "class"));
    snug_output(g, x);
}

typedef struct {
    int64_t width, threads, batch;
    const char *folder;
    double loss, eval_loss;
    float outputs[CLASSES];
    bool fits;
    char failed[512];
} user;

static bool trouble(user *u, const char *what) {
    snprintf(u->failed, sizeof u->failed, "%s: %s", what, snug_error());
    return false;
}

static bool train(user *u, const snug_network *n) {
    const snug_data data = { .samples = SAMPLES, .read = read_point };
    snug_options o = snug_defaults();
    snug_result r;
    snug_run *run;
    o.batch = u->batch, o.steps = 12, o.learning_rate = 0.02, o.warmup = 0, o.threads = u->threads;
    o.eval_samples = 20, o.out = u->folder, o.overwrite = true;
    if (snug_plan(n, &data, &data, &o, &run) != SNUG_OK) return trouble(u, "planning");
    u->fits = snug_run_needs(run).fits && snug_run_text(run) && snug_run_json(run);
    bool done = snug_train(run, NULL, &r) == SNUG_OK || trouble(u, "training");
    u->loss = r.loss, u->eval_loss = r.eval_loss;
    snug_close(run);
    return done;
}

static bool ask(user *u, const snug_network *n) {
    float point[INPUTS] = { 0.5f, -0.25f, 0.125f, 1, -1 };
    int64_t count = 0;
    snug_predictor *p = snug_load(n, u->folder, 0, u->threads);
    if (!p) return trouble(u, "loading");
    for (int again = 0; again < 20; again++) {
        const float *y = snug_predict(p, (const void *const[]){ point, NULL }, &count);
        if (y && count == CLASSES) memcpy(u->outputs, y, sizeof u->outputs);
    }
    snug_unload(p);
    return count == CLASSES || trouble(u, "asking");
}

static void use(user *u) {
    const snug_network n = {
        .name = u->folder,
        .fields = { { "point", SNUG_SHAPE(INPUTS), SNUG_F32 }, { .name = "class", .type = SNUG_I32 } },
        .labels = "class",
        .build = build,
        .context = &u->width,
    };
    if (train(u, &n)) ask(u, &n);
}

static void *use_often(void *context) {
    user *u = context, first = *u;
    for (int round = 0; round < ROUNDS && !*u->failed; round++) {
        use(u);
        if (!*u->failed && (u->loss != first.loss || u->eval_loss != first.eval_loss ||
                            memcmp(u->outputs, first.outputs, sizeof u->outputs) != 0))
            snprintf(u->failed, sizeof u->failed, "%s: loss %.9g, alone %.9g", u->folder, u->loss,
                     first.loss);
    }
    return NULL;
}

static void two_users_do_not_meet(void **state) {
    (void)state;
    user users[USERS] = { { .width = 12, .threads = 1, .batch = 16, .folder = "narrow" },
                          { .width = 40, .threads = 4, .batch = 32, .folder = "wide" } };
    pthread_t threads[USERS];
    patience("two users of the library", 300);
    for (int i = 0; i < USERS; i++) {
        use(&users[i]);
        if (*users[i].failed) fail_msg("%s", users[i].failed);
        assert_true(users[i].fits && users[i].loss > 0);
    }
    for (int i = 0; i < USERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_often, &users[i]), 0);
    for (int i = 0; i < USERS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < USERS; i++)
        if (*users[i].failed) fail_msg("%s", users[i].failed);
    patience("", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(two_users_do_not_meet) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
