/* A step that is not finite changes nothing, under each technique that touches updates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/reach.h"
#include "run/lab.h"

/* Weights and state, one after the other. */
static char *persistent_state(const plan *p, exec *e, size_t *bytes) {
    char *all = NULL;
    *bytes = 0;
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->category != CATEGORY_WEIGHTS && x->category != CATEGORY_OPTIMIZER) continue;
        all = realloc(all, *bytes + x->bytes);
        memcpy(all + *bytes, exec_persistent(e, x->name), x->bytes);
        *bytes += x->bytes;
    }
    return all;
}

static void step_of(const lab *l, exec *e, const compose_choice *c, int step, bool bad) {
    compose_split split = compose_split_of(&l->run, c);
    *(float *)exec_persistent(e, "loss") = 0;
    for (int64_t i = 0; i <= split.accumulate; i++) {
        const char *k = i < split.accumulate ? "accumulate" : "step";
        lab_hand_in(l, e, k, step, i * c->micro_batch, i < split.accumulate ? c->micro_batch : split.last);
        float *scale = reach_input(e, k, "loss_scale");
        if (bad && i == 0 && scale) *scale = INFINITY;
        reach_run(e, k);
    }
}

static void check(double clip, int64_t micro_batch, const char *settings) {
    lab l;
    lab_open(&l, &(lab_sizes){ .layers = 2,
                               .heads = 2,
                               .channels = 16,
                               .context = 64,
                               .vocabulary = 40,
                               .batch = 8,
                               .clip = clip });
    compose_choice c = lab_choose(&l, micro_batch, settings);
    plan p;
    exec *e;
    size_t bytes;
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    assert_int_equal(exec_open(&p, 0, &e), STATUS_OK);
    lab_fill_weights(&l, &p, e);
    char *start = persistent_state(&p, e, &bytes);
    step_of(&l, e, &c, 0, false);
    char *before = persistent_state(&p, e, &bytes);
    assert_memory_not_equal(start, before, bytes); /* a good one does change them */
    step_of(&l, e, &c, 1, true);
    char *after = persistent_state(&p, e, &bytes);
    if (memcmp(before, after, bytes) != 0)
        fail_msg("clip %g, micro-batch %d, %s", clip, (int)micro_batch, settings);
    free(start);
    free(before);
    free(after);
    exec_close(e);
    plan_close(&p);
}

static void bad_steps_change_nothing(void **state) {
    (void)state;
    for (int clipped = 0; clipped < 2; clipped++) {
        double clip = clipped ? 1 : 0;
        check(clip, 0, "");
        check(clip, 4, "accumulate=add");
        check(clip, 0, "recompute=block attention=flash");
        check(clip, 0, "chunk_loss=256");
        check(clip, 0, clipped ? "update_early=twice" : "update_early=on");
        check(clip, 0, clipped ? "update_early=twice chunk_loss=256" : "update_early=on chunk_loss=256");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(bad_steps_change_nothing) };
    return cmocka_run_group_tests_name("bad step", tests, NULL, NULL);
}
