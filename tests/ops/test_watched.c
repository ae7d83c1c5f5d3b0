/* Kernels for GPUs, watched (device/cuda/emulate_watch.h): the watch finds mistakes that are planted, and
 * none in any case of the op harness. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef SNUG_WATCHED

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cuda/emulate_order.h"
#include "device/cuda/emulate_watch.h"
#include "harness_case.h"
#include "mistaken_kernels.h"

/* ---- every op ---- */

static bool is_input(const op_call *c, const void *data) {
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->in[i].data == data) return true;
    return false;
}

static void look_on(const op_call *c) {
    emulate_watch_begin(&(emulate_watch_options){ 0 });
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->in[i].data)
            emulate_watch_memory(c->in[i].data, harness_block_bytes(c->in[i].data), EMULATE_WATCH_FILLED);
    for (uint32_t o = 0; o < c->out_count; o++)
        if (!is_input(c, c->out[o].data))
            emulate_watch_memory(c->out[o].data, harness_block_bytes(c->out[o].data), EMULATE_WATCH_RAW);
    emulate_watch_memory(c->scratch, c->scratch_bytes, EMULATE_WATCH_SCRATCH);
}

static harness_place *watched;
static uint64_t accesses;

static void look_away(const op_call *c) {
    (void)c;
    emulate_traffic t;
    uint64_t mistakes = emulate_watch_end(&t);
    accesses += t.accesses;
    if (mistakes)
        harness_fail(watched, "%llu mistakes, the first of them: %s", (unsigned long long)mistakes,
                     emulate_watch_said());
}

static const harness_watch watch = { look_on, look_away };

/* A case is watched in one type, the next in the next: a kernel touches the same places in all of them. Ops
 * with few cases, and SNUG_TEST_LONG=1, take all types. */
static bool is_taken(size_t number, size_t cases, size_t type) {
    const char *all = getenv("SNUG_TEST_LONG");
    return (all && atoi(all)) || cases < 3 || number % 3 == type;
}

static void op_is_clean(void **state) {
    const op_def *op = *state;
    static const dtype floats[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
    int failures = 0;
    accesses = 0;
    size_t cases = 0;
    while (op->cases && op->cases[cases].name) cases++;
    for (const op_case *one = op->cases; one && one->name; one++)
        for (size_t t = 0; t < sizeof floats / sizeof *floats; t++) {
            if (!is_taken((size_t)(one - op->cases), cases, t)) continue;
            harness_place p = { .op = op, .one = one, .kernel = dtype_name(floats[t]) };
            harness_case h;
            if (!harness_case_try(&h, &p, floats[t])) continue;
            watched = &p, harness_watching = &watch;
            emulate_order_set((emulate_order)(t % EMULATE_ORDERS));
            harness_run_kernels(&p, &h);
            harness_watching = NULL;
            harness_case_close(&h);
            failures += p.failures;
        }
    emulate_order_set(EMULATE_FORWARD);
    assert_int_equal(failures, 0);
    if (op->cuda) assert_true(accesses > 0);
}

/* ---- planted ones ---- */

static uint64_t run_watched(const mistaken_kernel *k, bool mended) {
    const uint64_t bytes = MISTAKEN_NUMBERS * sizeof(float);
    float *memory = memory_new(3 * MISTAKEN_NUMBERS, sizeof *memory);
    assert_non_null(memory);
    float *x = memory, *host = x + MISTAKEN_NUMBERS, *y = host + MISTAKEN_NUMBERS;
    for (int i = 0; i < MISTAKEN_NUMBERS; i++) x[i] = (float)i;
    emulate_watch_begin(&(emulate_watch_options){ 0 });
    emulate_watch_memory(x, bytes, EMULATE_WATCH_FILLED);
    emulate_watch_memory(y, bytes, EMULATE_WATCH_RAW);
    k->run(mended, x, y, host);
    uint64_t mistakes = emulate_watch_end(NULL);
    memory_free(memory);
    return mistakes;
}

static void planted_mistakes_are_found(void **state) {
    (void)state;
    for (int order = EMULATE_FORWARD; order < EMULATE_ORDERS; order++) {
        emulate_order_set((emulate_order)order);
        for (const mistaken_kernel *k = mistaken_kernels; k->name; k++) {
            if (run_watched(k, true)) fail_msg("%s, mended: %s", k->name, emulate_watch_said());
            if (!run_watched(k, false)) fail_msg("%s is not found", k->name);
            if (!strstr(emulate_watch_said(), k->said)) fail_msg("%s: %s", k->name, emulate_watch_said());
        }
    }
    emulate_order_set(EMULATE_FORWARD);
}

/* One test per op; with an argument, of the op of that name only. */
int main(int argc, char **argv) {
    size_t count = 0;
    while (op_table[count]) count++;
    struct CMUnitTest *tests = memory_new(count + 1, sizeof *tests);
    if (!tests) return 1;
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    tests[0] = (struct CMUnitTest)cmocka_unit_test(planted_mistakes_are_found);
    for (size_t i = 0; i < count; i++)
        tests[i + 1] = (struct CMUnitTest){ .name = op_table[i]->name,
                                            .test_func = op_is_clean,
                                            .initial_state = (void *)(uintptr_t)op_table[i] };
    int failed = _cmocka_run_group_tests("watched kernels", tests, count + 1, NULL, NULL);
    memory_free(tests);
    return failed;
}

#else

#include "emulation_left_out.h"

int main(void) { return emulation_left_out("watched kernels"); }

#endif
