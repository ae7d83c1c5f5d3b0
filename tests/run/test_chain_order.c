/* Sums that go from rank to rank: in each program they are taken up in the order in which they are handed on,
 * nothing goes round while a sum is on its way, and all get the last rank's when none is: a large one in two
 * steps, the second of which begins right behind the first. Then ranks never
 * wait for each other in a ring. A model whose sums lie otherwise is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/op.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/matmul/matmul.h"
#include "ops/pass_on/pass_on.h"
#include "run/lab.h"

enum { MOST = 400 };

/* ---- the order ---- */

typedef struct {
    tensor_id begun[MOST];
    int begins, ends, rounds, told;
    int in_two;       /* of `told` */
    tensor_id spread; /* a piece of it goes to each; 0: of none */
} journey;

/* Sums are known by their places. */
static void follow(journey *j, const graph *g, const node *n) {
    tensor_id place = graph_storage(g, node_out(g, n, 0), NULL);
    pass_on_step step = (pass_on_step)((const pass_on_attributes *)node_attributes(g, n))->step;
    assert_true(j->spread == (step == PASS_COLLECT ? place : 0));
    j->spread = step == PASS_SPREAD ? place : 0;
    if (step == PASS_COLLECT) {
        j->in_two++;
    } else if (step == PASS_FROM_BEFORE) {
        assert_true(j->begins < MOST && !j->told);
        j->begun[j->begins++] = place;
    } else if (step == PASS_TO_NEXT) {
        assert_true(j->ends < j->begins && !j->told);
        assert_int_equal(j->begun[j->ends++], place);
    } else {
        assert_int_equal(j->begins, j->ends);
        *(step == PASS_AROUND ? &j->rounds : &j->told) += 1;
    }
}

static journey journey_of(const program *p) {
    journey j = { .begins = 0 };
    for (uint32_t s = 0; s < p->count; s++) {
        const node *n = graph_node(&p->graph, p->steps[s].node);
        if (n->op == &op_pass_on) follow(&j, &p->graph, n);
    }
    assert_true(j.begins == j.ends && !j.spread);
    return j;
}

static journey planned_of(int channels, bool untied, int micro_batch, const char *settings) {
    lab_sizes own = { .layers = 2, .heads = 2, .context = 64, .vocabulary = 97, .batch = 32, .clip = 0.5 };
    own.channels = channels;
    lab l;
    plan p;
    own.untied = untied;
    lab_open(&l, &own);
    l.run.ranks = 4;
    compose_choice c = lab_choose(&l, micro_batch, settings);
    if (compose_plan(&l.run, &c, &p) != STATUS_OK) fail_msg("%s", status_message());
    journey j = journey_of(&p.programs[0].program);
    for (uint32_t k = 1; k < p.program_count; k++) {
        const program *other = &p.programs[k].program;
        journey calls = journey_of(other); /* only training needs the others */
        bool adds = strcmp(other->shape.name, "accumulate") == 0;
        assert_int_equal(calls.begins, adds ? j.begins : 0);
        assert_int_equal(calls.rounds, adds ? j.rounds : 0);
        assert_int_equal(calls.told, 0);
    }
    plan_close(&p);
    return j;
}

static journey planned(bool untied, int micro_batch, const char *settings) {
    return planned_of(32, untied, micro_batch, settings);
}

/* GPT-2 of two layers trains 2 embeddings, 2 of the last norm, and 12 in each layer; and there is the loss.
 */
static void sums_are_begun_as_they_are_handed_on(void **state) {
    enum { SUMS = 2 + 2 + 2 * 12 + 1 };
    (void)state;
    static const char *const settings[] = { "sharding=chain", "sharding=chain chunk_loss=64",
                                            "sharding=chain chunk_loss=64 recompute=block precision=bf16" };
    for (int i = 0; i < 3; i++) {
        journey tied = planned(false, 8, settings[i]), apart = planned(true, 8, settings[i]);
        assert_true(tied.told == SUMS && tied.begins == SUMS + 1 && tied.rounds == 1);
        assert_true(apart.told == SUMS + 1 && apart.begins == SUMS + 1 && apart.rounds == 0);
        assert_true(!tied.in_two && !apart.in_two);
    }
}

/* Of four ranks the last one would send a sum three times, and sends it one and a half times in two steps.
 * Those of 128 * 384 and of 128 * 512 elements are large enough for that, in each layer one and two. */
static void large_sums_are_told_in_two_steps(void **state) {
    enum { SUMS = 2 + 2 + 2 * 12 + 1 };
    (void)state;
    journey one = planned_of(128, false, 8, "sharding=chain"),
            calls = planned_of(128, true, 4, "sharding=chain accumulate=add");
    assert_true(one.told == SUMS && one.in_two == 2 * 3);
    assert_true(calls.told == SUMS + 1 && calls.in_two == 2 * 3);
}

/* What the last rank has of the call before comes around for each sum, before any is begun. */
static void sums_of_calls_come_around_first(void **state) {
    enum { SUMS = 2 + 2 + 2 * 12 + 1 };
    (void)state;
    journey tied = planned(false, 4, "sharding=chain accumulate=add"),
            apart = planned(true, 4, "sharding=chain accumulate=add");
    assert_true(tied.told == SUMS && tied.begins == SUMS + 1 && tied.rounds == SUMS + 1);
    assert_true(apart.told == SUMS + 1 && apart.begins == SUMS + 1 && apart.rounds == SUMS + 1);
}

/* ---- what is refused ---- */

enum { WIDTH = 16, ROWS = 256 };

/* One weight before and behind another one: its sum begins first, and is handed on last. */
static void build_entangled(const model *m, graph *g, const model_run *run, model_ports *ports) {
    (void)m;
    tensor_id x = model_input(g, "x", SHAPE(run->batch * ROWS, WIDTH), DTYPE_F32),
              labels = model_input(g, "labels", SHAPE(run->batch * ROWS), DTYPE_I32),
              scale = model_input(g, "loss_scale", SHAPE(1), DTYPE_F32),
              outside = model_parameter(g, "outside", SHAPE(WIDTH, WIDTH), 0),
              inside = model_parameter(g, "inside", SHAPE(WIDTH, WIDTH), 0);
    const tensor_id weights[] = { outside, inside, outside };
    for (int i = 0; i < 3; i++) x = matmul_apply(g, &(matmul_inputs){ .a = x, .b = weights[i] });
    ports->loss = cross_entropy_apply(g, x, labels, scale, model_result(g, "loss"));
}

static void entangled_sums_are_refused(void **state) {
    static const lab_sizes sizes = {
        .layers = 1, .heads = 1, .channels = 16, .context = ROWS, .vocabulary = WIDTH, .batch = 2
    };
    lab l;
    plan p;
    (void)state;
    lab_open(&l, &sizes);
    model entangled = l.model;
    entangled.build = build_entangled;
    l.run.model = &entangled, l.run.eval_samples = 0;
    compose_choice c = lab_choose(&l, 1, "accumulate=add");
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    plan_close(&p);
    l.run.ranks = 2;
    c = lab_choose(&l, 1, "sharding=chain");
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "ranks would wait for each other"));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(sums_are_begun_as_they_are_handed_on),
                                        cmocka_unit_test(large_sums_are_told_in_two_steps),
                                        cmocka_unit_test(sums_of_calls_come_around_first),
                                        cmocka_unit_test(entangled_sums_are_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
