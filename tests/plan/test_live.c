/* Lifetimes of a program made by hand, against numbers that were worked out by hand: from which step to which
 * each buffer is needed, and who may live on in whose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/add/add.h"
#include "ops/gelu/gelu.h"
#include "ops/matmul/matmul.h"
#include "ops/reshape/reshape.h"
#include "ops/scale/scale.h"
#include "ops/sum/sum.h"
#include "plan/live.h"

typedef struct {
    graph g;
    program p;
    live_set live;
} trial;

static void open_trial(trial *t) {
    *t = (trial){ 0 };
    assert_int_equal(graph_open(&t->g), STATUS_OK);
}

/* In the order in which the nodes were added. */
static void survey(trial *t) {
    lower_options options = { .threads = 1, .rates = device_rates_default(1) };
    assert_int_equal(graph_status(&t->g), STATUS_OK);
    if (lower_program(&t->g, &options, &t->p) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(live_of_program(&t->p, &t->live), STATUS_OK);
}

static void close_trial(trial *t) {
    live_close(&t->live);
    lower_close(&t->p);
}

static tensor_id input(trial *t, const char *name) {
    return graph_add_source(&t->g, &(graph_source){ name, SHAPE(8, 8), DTYPE_F32, ROLE_INPUT, 0 });
}

static tensor_id weight(trial *t) {
    return graph_add_source(&t->g, &(graph_source){ "w", SHAPE(8, 8), DTYPE_F32, ROLE_PARAMETER, 0 });
}

static void keep(trial *t, tensor_id x) { graph_tensor(&t->g, x)->flags |= TENSOR_KEEP; }

static const live_storage *of(const trial *t, tensor_id x) {
    assert_int_not_equal(t->live.of_tensor[x], LIVE_NONE);
    return &t->live.storages[t->live.of_tensor[x]];
}

static bool together(const trial *t, tensor_id a, tensor_id b) {
    return t->live.of_tensor[a] == t->live.of_tensor[b];
}

static void needs(const trial *t, tensor_id x, uint32_t first, uint32_t last) {
    const live_storage *s = of(t, x);
    if (s->first != first || s->last != last)
        fail_msg("tensor %u lives from step %u to %u, not from %u to %u", x, s->first, s->last, first, last);
    assert_int_equal(s->bytes, 256);
}

static tensor_id times(trial *t, tensor_id a, tensor_id b, tensor_id residual) {
    return matmul_apply(&t->g, &(matmul_inputs){ .a = a, .b = b, .residual = residual });
}

/* Products don't overwrite what they multiply, so nothing moves in here. */
static void lifetimes_are_those_of_uses(void **state) {
    (void)state;
    trial t;
    open_trial(&t);
    tensor_id w = weight(&t), early = input(&t, "early"), late = input(&t, "late");
    tensor_id a = times(&t, early, w, 0);  /* step 0 */
    tensor_id b = times(&t, a, w, 0);      /* 1 */
    tensor_id kept = times(&t, b, w, 0);   /* 2 */
    tensor_id c = times(&t, b, w, 0);      /* 3 */
    tensor_id d = times(&t, c, late, 0);   /* 4 */
    tensor_id unread = times(&t, d, w, 0); /* 5 */
    tensor_id end = times(&t, d, a, 0);    /* 6 */
    keep(&t, kept);
    survey(&t);
    assert_int_equal(t.p.count, 7);
    needs(&t, early, 0, 0);
    needs(&t, late, 0, 4); /* the host has written it before */
    needs(&t, a, 0, 6);
    needs(&t, b, 1, 3);
    needs(&t, kept, 2, 6); /* the host reads it after */
    needs(&t, c, 3, 4);
    needs(&t, d, 4, 6);
    needs(&t, unread, 5, 5);
    needs(&t, end, 6, 6);
    assert_int_equal(t.live.of_tensor[w], LIVE_NONE);
    close_trial(&t);
}

/* In place where the input is read for the last time; then the buffer lives as long as the two. */
static void what_dies_is_taken_over(void **state) {
    (void)state;
    trial t;
    open_trial(&t);
    tensor_id w = weight(&t), x = input(&t, "x");
    tensor_id a = times(&t, x, w, 0);    /* step 0 */
    tensor_id b = add_apply(&t.g, a, x); /* 1: in a */
    tensor_id c = add_apply(&t.g, b, x); /* 2: b is needed once more; it goes into x */
    tensor_id d = times(&t, b, w, c);    /* 3: in c */
    tensor_id e = times(&t, d, w, 0);    /* 4 */
    survey(&t);
    assert_true(together(&t, a, b));
    needs(&t, a, 0, 3);
    assert_false(together(&t, b, c));
    assert_true(together(&t, c, d));
    needs(&t, d, of(&t, d)->first, 4);
    assert_false(together(&t, d, e));
    close_trial(&t);
}

/* The last step may not write over what the host reads after it, nor over what a kept value has moved into.
 */
static void what_is_kept_is_not_taken_over(void **state) {
    (void)state;
    trial t;
    open_trial(&t);
    tensor_id w = weight(&t), x = input(&t, "x");
    tensor_id a = times(&t, x, w, 0);    /* step 0 */
    tensor_id b = add_apply(&t.g, a, w); /* 1: in a */
    tensor_id c = add_apply(&t.g, b, w); /* 2, the last */
    keep(&t, b);
    survey(&t);
    assert_true(together(&t, a, b));
    assert_false(together(&t, b, c));
    needs(&t, b, 0, 2);
    close_trial(&t);
}

/* A node that reads a buffer twice still needs it while it writes its result: a product of a value, added to
 * it, would overwrite rows that other columns are still made of. */
static void one_input_only(void **state) {
    (void)state;
    for (int view = 0; view < 2; view++) {
        trial t;
        open_trial(&t);
        tensor_id w = weight(&t), a = times(&t, input(&t, "x"), w, 0);
        tensor_id factor = view ? reshape_apply(&t.g, a, SHAPE(8, 8)) : a;
        tensor_id twice = times(&t, factor, w, a);
        tensor_id z = times(&t, twice, w, 0), once = times(&t, z, w, twice);
        survey(&t);
        assert_false(together(&t, a, twice));
        needs(&t, a, 0, 1);
        assert_true(together(&t, twice, once)); /* while this may */
        needs(&t, twice, 1, 3);
        close_trial(&t);
    }
}

/* What others still see of a buffer, and what is persistent, is not taken over. */
static void what_stays_is_not_taken_over(void **state) {
    (void)state;
    trial t;
    open_trial(&t);
    tensor_id w = weight(&t), a = times(&t, input(&t, "x"), w, 0), b = times(&t, a, w, 0);
    keep(&t, a);
    tensor_id c = add_apply(&t.g, a, b);           /* step 2: not in a, which the host reads */
    tensor_id d = add_apply(&t.g, w, c);           /* 3: not in w */
    tensor_id narrow = sum_apply(&t.g, d, 0);      /* 4: of another size */
    tensor_id e = scale_apply(&t.g, narrow, 0, 2); /* 5 */
    survey(&t);
    assert_false(together(&t, a, c));
    needs(&t, a, 0, t.p.count - 1);
    assert_false(together(&t, w, d));
    assert_false(together(&t, d, narrow));
    (void)e;
    close_trial(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lifetimes_are_those_of_uses),    cmocka_unit_test(what_dies_is_taken_over),
        cmocka_unit_test(what_is_kept_is_not_taken_over), cmocka_unit_test(one_input_only),
        cmocka_unit_test(what_stays_is_not_taken_over),
    };
    return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
