/* Allowances: LOSSY techniques are used where they are named and nowhere else, and where a budget cannot be
 * met the cheapest set of them that would meet it is found. The registry here is the test's own, with two
 * LOSSY techniques made up for it: each lets the parameters of some layers go without moments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define pass_table real_table /* its functions are wanted, its table is not */
#include "passes/passes.c"
#undef pass_table

#include "base/memory.h"
#include "ir/rewrite.h"
#include "ops/adamw/adamw.h"
#include "ops/sgd/sgd.h"
#include "run/lab.h"
#include "search/advise.h"

/* ---- two techniques ---- */

static status parse(const char *text, pass_setting *out) {
    bool one = strcmp(text, "one") == 0;
    if (!one && strcmp(text, "none") != 0) return status_set(STATUS_INVALID, "moments: '%s'", text);
    *out = (pass_setting){ .value = { one }, .class = PASS_LOSSY };
    strcpy(out->text, text);
    return STATUS_OK;
}

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    (void)g, (void)c, (void)without;
    assert_true(room >= 2);
    assert_int_equal(parse("one", &out[0]), STATUS_OK);
    assert_int_equal(parse("none", &out[1]), STATUS_OK);
    return 2;
}

static bool is_of_block(const char *name) { return strstr(name, "h.") != NULL; }

/* Updates of the chosen parameters become gradient descent, with the first moment as momentum or without. */
static status run(const graph *in, const pass_setting *s, graph *out, bool blocks) {
    rewrite r = { .in = in, .out = out, .map = memory_new(in->tensors.count, sizeof(tensor_id)) };
    for (tensor_id t = 1; t < in->tensors.count; t++) {
        const tensor *x = graph_tensor(in, t);
        const char *name = x->name ? graph_name(in, t) : NULL;
        bool moment = name && (strncmp(name, "adamw.v.", 8) == 0 ||
                               (strncmp(name, "adamw.m.", 8) == 0 && !s->value[0]));
        if (x->producer || (moment && is_of_block(name) == blocks)) continue;
        r.map[t] = graph_add_source(
            out,
            &(graph_source){
                .name = name, .shape = x->shape, .dtype = x->dtype, .role = x->role, .flags = x->flags });
    }
    for (node_id id = 1; id < in->nodes.count; id++) {
        const node *n = graph_node(in, id);
        if (n->op != &op_adamw || is_of_block(graph_name(in, node_in(in, n, 0))) != blocks) {
            rewrite_node(&r, id);
            continue;
        }
        out->phase = n->phase;
        sgd_apply(out,
                  (sgd_inputs){ .w = r.map[node_in(in, n, 0)],
                                .g = r.map[node_in(in, n, 1)],
                                .buffer = s->value[0] ? r.map[node_in(in, n, 2)] : 0,
                                .lr = r.map[node_in(in, n, 4)] },
                  &(sgd_attributes){ .momentum = s->value[0] ? 0.9f : 0 });
    }
    return rewrite_close(&r);
}

static status run_blocks(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    (void)c;
    return run(in, s, out, true);
}

static status run_others(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    (void)c;
    return run(in, s, out, false);
}

static const pass block_moments = { .name = "block_moments",
                                    .help = "",
                                    .values = "auto, off, one, none",
                                    .class = PASS_LOSSY,
                                    .stage = PASS_STEP,
                                    .of_state = true, /* of updates */
                                    .training_only = true,
                                    .parse = parse,
                                    .frees = 1u << ROLE_STATE,
                                    .settings = settings,
                                    .run = run_blocks };
static const pass other_moments = { .name = "other_moments",
                                    .help = "",
                                    .values = "auto, off, one, none",
                                    .class = PASS_LOSSY,
                                    .stage = PASS_STEP,
                                    .of_state = true, /* of updates */
                                    .training_only = true,
                                    .parse = parse,
                                    .frees = 1u << ROLE_STATE,
                                    .settings = settings,
                                    .run = run_others };

extern const pass *const pass_table[];
const pass *const pass_table[] = { &pass_recompute, &pass_accumulate, &block_moments, &other_moments, NULL };
enum { BLOCK_MOMENTS = 2, OTHER_MOMENTS = 3 };

/* ---- what is asked ---- */

static lab the_lab;

static search_request request(void) {
    lab_open(&the_lab, &(lab_sizes){ .layers = 2,
                                     .heads = 2,
                                     .channels = 64,
                                     .context = 32,
                                     .vocabulary = 700,
                                     .batch = 4,
                                     .clip = 1 });
    return (search_request){ .run = the_lab.run, .allowed = PASS_REASSOCIATING };
}

static search_front searched(const search_request *q) {
    search_front front;
    if (search_run(q, NULL, &front) != STATUS_OK) fail_msg("%s", status_message());
    return front;
}

static uint64_t least_of_request(const search_request *q) {
    search_front front = searched(q);
    uint64_t least = search_least(&front);
    search_close(&front);
    return least;
}

static search_request allowing_list(const char *list) {
    search_request q = request();
    if (advise_allow(&q, list) != STATUS_OK) fail_msg("%s: %s", list, status_message());
    return q;
}

/* ---- tests ---- */

static void only_what_is_named(void **state) {
    (void)state;
    search_request none = request(), one = allowing_list("block-moments=one"),
                   any = allowing_list("other-moments, block-moments=one"), all = allowing_list("all");
    uint64_t least = least_of_request(&none), least_one = least_of_request(&one),
             least_any = least_of_request(&any), least_all = least_of_request(&all);
    assert_true(least_one < least && least_any < least_one && least_all < least_any);
    search_front front = searched(&any);
    for (uint32_t i = 0; i < front.count; i++) {
        const char *block = front.points[i].choice.settings[BLOCK_MOMENTS].text;
        assert_true(!*block || strcmp(block, "one") == 0);
    }
    search_close(&front);
    front = searched(&none);
    for (uint32_t i = 0; i < front.count; i++) assert_true(front.points[i].class < PASS_LOSSY);
    search_close(&front);
    all.allowed = PASS_EXACT; /* never beside --exact */
    none.allowed = PASS_EXACT;
    assert_int_equal(least_of_request(&all), least_of_request(&none));
}

static void lists_are_read_with_sentences(void **state) {
    (void)state;
    static const struct {
        const char *list, *said;
    } wrong[] = { { "block-momemts", "did you mean block-moments?" },
                  { "recompute", "leave it out" },
                  { "fine", "block-moments, other-moments, and all" },
                  { "block-moments=half", "'half'" },
                  { "block-moments,,other-moments=", "''" } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        search_request q = request();
        assert_int_equal(advise_allow(&q, wrong[i].list), STATUS_INVALID);
        if (!strstr(status_message(), wrong[i].said)) fail_msg("%s: %s", wrong[i].list, status_message());
    }
}

/* By trying every set of settings. */
static search_point cheapest_by_force(uint64_t budget, int *techniques) {
    static const char *const lists[] = { "block-moments=one",
                                         "block-moments=none",
                                         "other-moments=one",
                                         "other-moments=none",
                                         "block-moments=one,other-moments=one",
                                         "block-moments=one,other-moments=none",
                                         "block-moments=none,other-moments=one",
                                         "block-moments=none,other-moments=none" };
    search_point best = { 0 };
    *techniques = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        int count = strchr(lists[i], ',') ? 2 : 1;
        if (*techniques && count > *techniques) break;
        search_request q = allowing_list(lists[i]);
        search_front front = searched(&q);
        const search_point *x = search_pick(&front, budget);
        if (x && (!best.peak_bytes || x->seconds < best.seconds)) best = *x, *techniques = count;
        search_close(&front);
    }
    return best;
}

static void the_cheapest_set_is_found(void **state) {
    (void)state;
    search_request none = request(), all = allowing_list("all");
    uint64_t high = least_of_request(&none), low = least_of_request(&all);
    int seen[3] = { 0 };
    for (int k = 0; k <= 12; k++) {
        uint64_t budget = low - 1 + (high - low) / 12 * (uint64_t)k;
        char set[ADVISE_SET_BYTES], advice[ADVISE_BYTES];
        search_point x;
        int techniques;
        search_point best = cheapest_by_force(budget, &techniques);
        advise_lossy(&none, budget, set, &x);
        seen[techniques]++;
        if (!x.peak_bytes != !best.peak_bytes || (x.peak_bytes && x.seconds > best.seconds))
            fail_msg("budget %llu: %s at %g s, by force %g s", (unsigned long long)budget, set, x.seconds,
                     best.seconds);
        advise_run(&none, budget, advice);
        assert_int_equal(strstr(advice, "--allow") != NULL, techniques > 0);
        if (!x.peak_bytes) continue;
        assert_int_equal(strchr(set, ',') ? 2 : 1, techniques);
        assert_true(x.peak_bytes <= budget);
        search_request q = allowing_list(set); /* and what is said can be said back */
        assert_true(least_of_request(&q) <= budget);
        assert_non_null(strstr(advice, set));
    }
    assert_true(seen[0] && seen[1] && seen[2]);
}

/* What is allowed already is no advice, and what is pinned off is not talked about. */
static void it_adds_to_what_is_allowed(void **state) {
    (void)state;
    char set[ADVISE_SET_BYTES];
    search_point x;
    search_request all = allowing_list("all"), some = allowing_list("block-moments");
    uint64_t low = least_of_request(&all);
    advise_lossy(&some, low, set, &x);
    assert_string_equal(set, "other-moments=none");
    some.pins[OTHER_MOMENTS].kind = SEARCH_OFF;
    advise_lossy(&some, low, set, &x);
    assert_string_equal(set, "");
    some = allowing_list("block-moments=none"); /* one setting is allowed: it is not named again */
    advise_lossy(&some, low, set, &x);
    assert_string_equal(set, "other-moments=none");
    some = allowing_list("block-moments=one"); /* and another one of the same technique is */
    advise_lossy(&some, low, set, &x);
    assert_string_equal(set, "block-moments=none,other-moments=none");
}

/* To leave a pin out is named where that is enough, to the byte. */
static void releases_are_exact(void **state) {
    (void)state;
    search_request q = request();
    uint64_t least = least_of_request(&q);
    char advice[ADVISE_BYTES];
    static const char alone[] = "--micro-batch auto (and no --accumulate) (needs";
    q.micro_batch = q.run.batch;
    assert_true(least_of_request(&q) > least);
    advise_run(&q, least, advice);
    if (!strstr(advice, alone)) fail_msg("%s", advice);
    advise_run(&q, least - 1, advice);
    if (strstr(advice, alone)) fail_msg("%s", advice);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_named),        cmocka_unit_test(lists_are_read_with_sentences),
        cmocka_unit_test(the_cheapest_set_is_found), cmocka_unit_test(it_adds_to_what_is_allowed),
        cmocka_unit_test(releases_are_exact),
    };
    return cmocka_run_group_tests_name("advise", tests, NULL, NULL);
}
