/* P1 and P4 over random combinations of all techniques, models and batches. In each the planned bytes are the
 * measured ones. EXACT ones run twenty steps to the bits of the plain run. With others among them a run is
 * the same at any number of threads and however its memory lies, and EXACT ones change no bit of it.
 *
 * A case is a function of its number: SNUG_TEST_LONG=1 runs 1,000 of them, SNUG_COMBINATIONS=FIRST:LAST some.
 *
 * Where the emulated GPU is built, some more run there with its libraries' stand-ins (tests/device/standin):
 * at any order of its threads and pace of its lanes, bits are the same. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/threads.h"
#include "device/device.h"
#include "run/lab.h"

#ifdef SNUG_CUDA_EMULATED
#include "device/cuda/device_emulated.h"
#include "device/cuda/emulate_order.h"
#endif

enum { SHORT = 45, LONG = 1000, ENOUGH = 40, THREADS = 3 };
#ifdef __SANITIZE_ADDRESS__
enum { STEPS = 4 }; /* ten times as slow */
#else
enum { STEPS = 20 };
#endif

static struct {
    int index;
    char text[256];
    int drawn[PASS_MAX]; /* by technique, over all cases */
    int beside;          /* cases in which EXACT ones stood beside others */
} now;

static void run(const lab *l, const compose_choice *c, unsigned modes, int threads, lab_result *r) {
    threads_set(threads);
    lab_run(l, c, EXEC_POISON | modes, STEPS, r);
    for (int k = 0; k < CATEGORY_COUNT; k++)
        if (r->planned[k] != r->measured[k])
            fail_msg("case %d: %s: %s planned %llu, measured %llu", now.index, now.text,
                     category_name((category)k), (unsigned long long)r->planned[k],
                     (unsigned long long)r->measured[k]);
    for (int step = 0; step < STEPS; step++)
        if (!isfinite(r->losses[step]))
            fail_msg("case %d: %s: loss %d is %g", now.index, now.text, step, (double)r->losses[step]);
}

static void must_agree(lab_result *a, lab_result *b, const char *what) {
    if (!lab_same(a, b))
        fail_msg("case %d: %s differs %s, by %g", now.index, now.text, what, lab_distance(a, b));
    lab_result_close(b);
}

static lab_sizes draw_sizes(uint32_t *random) {
    lab_sizes s = { .layers = 1 + lab_random(random, 4),
                    .heads = 1 + lab_random(random, 3),
                    .context = lab_random(random, 4) ? 32 : 64,
                    .vocabulary = 11 + lab_random(random, 90),
                    .batch = 8 * (1 + lab_random(random, 3)),
                    .clip = lab_random(random, 2) ? 0.7 : 0,
                    .dropout = lab_random(random, 3) ? 0 : 0.1,
                    .untied = lab_random(random, 2),
                    .optimizer = (optimizer_kind)lab_random(random, OPTIMIZER_COUNT),
                    .documents = lab_random(random, 3) ? 0 : 1 << lab_random(random, 4) };
    s.channels = s.heads * 8 * (1 + lab_random(random, 4));
    if (!lab_random(random, 5))
        s.head = lab_random(random, 2) ? (model_head){ HEAD_CLASSES, 2 + lab_random(random, 5) }
                                       : (model_head){ HEAD_SCORE, 1 };
    if (lab_random(random, 3)) return s;
    s.decoder = lab_random(random, 2) ? "llama" : "qwen2", s.dropout = 0;
    if (s.heads == 2 && lab_random(random, 2)) s.kv_heads = 1;
    return s;
}

/* Does a technique that is on make pass i's choice show in results? */
static bool is_followed(const compose_choice *c, int i) {
    bool found = false;
    for (int k = i + 1; pass_table[k]; k++) found |= pass_table[k]->follows && c->settings[k].text[0];
    return found;
}

/* Can technique i be left out where c has it? */
static bool is_needed(const lab *l, const compose_choice *c, int i) {
    pass_without without = PASS_OPTIONAL;
    pass_context context = compose_context(&l->run, c);
    pass_setting offered[64];
    graph g;
    if (compose_graph(&l->run, c, pass_table[i]->stage, &g) == STATUS_OK)
        pass_table[i]->settings(&g, &context, offered, 64, &without);
    graph_close(&g);
    return without == PASS_NEEDED;
}

/* The same without what claims to be EXACT here; false: there is nothing of that. */
static bool without_exact(const lab *l, const compose_choice *c, compose_choice *out) {
    bool any = false;
    *out = *c;
    for (int i = 0; pass_table[i]; i++) {
        const pass_setting *s = &c->settings[i];
        if (!s->text[0] || s->class != PASS_EXACT || is_followed(c, i) || is_needed(l, c, i)) continue;
        out->settings[i] = (pass_setting){ 0 };
        any = true;
    }
    return any;
}

static void exact_case(const lab *l, uint32_t *random) {
    compose_choice c = lab_choose_randomly(l, random, PASS_EXACT), plain = lab_choose(l, 0, "");
    lab_result a, b;
    lab_choice_text(&c, now.text);
    for (int i = 0; pass_table[i]; i++) now.drawn[i] += c.settings[i].text[0] != 0;
    run(l, &plain, 0, THREADS, &a);
    run(l, &c, 0, 1 + (int)lab_random(random, THREADS), &b);
    must_agree(&a, &b, "from plain");
    lab_result_close(&a);
}

static void any_case(const lab *l, uint32_t *random) {
    compose_choice c = lab_choose_randomly(l, random, PASS_LOSSY), less;
    lab_result a, b;
    lab_choice_text(&c, now.text);
    for (int i = 0; pass_table[i]; i++) now.drawn[i] += c.settings[i].text[0] != 0;
    run(l, &c, 0, THREADS, &a);
    run(l, &c, EXEC_SEPARATE, 1 + (int)lab_random(random, THREADS), &b);
    must_agree(&a, &b, "when separate, or with fewer threads,");
    if (without_exact(l, &c, &less)) {
        run(l, &less, 0, 2, &b);
        must_agree(&a, &b, "without its EXACT techniques");
        now.beside++;
    }
    lab_result_close(&a);
}

/* One is tested with the files that it makes, one is of several processes, two want a GPU's library. */
static bool is_elsewhere(const char *name) {
    return strcmp(name, "quantize") == 0 || strcmp(name, "sharding") == 0 ||
           strncmp(name, "library_", 8) == 0;
}

static void range(int *first, int *last) {
    const char *some = getenv("SNUG_COMBINATIONS");
    *first = 0, *last = getenv("SNUG_TEST_LONG") ? LONG : SHORT;
    if (some && sscanf(some, "%d:%d", first, last) != 2)
        fail_msg("SNUG_COMBINATIONS=%s is not FIRST:LAST", some);
}

static void random_combinations(void **state) {
    (void)state;
    int first, last;
    range(&first, &last);
    for (now.index = first; now.index < last; now.index++) {
        uint32_t random = (uint32_t)now.index * 2654435761u + 20u;
        for (int i = 0; i < 4; i++) lab_random(&random, 2);
        lab l;
        lab_sizes sizes = draw_sizes(&random);
        threads_set(THREADS); /* planned for */
        lab_open(&l, &sizes);
        if (now.index % 3)
            any_case(&l, &random);
        else
            exact_case(&l, &random);
    }
    threads_set(2);
    for (int i = 0; pass_table[i] && last - first >= ENOUGH; i++)
        if (!now.drawn[i] && !is_elsewhere(pass_table[i]->name))
            fail_msg("%s was never drawn: is it in lab.c?", pass_table[i]->name);
    if (last - first >= ENOUGH) assert_true(now.beside > 0);
}

#ifdef SNUG_CUDA_EMULATED

enum { LIBRARY_CASES = 24, LIBRARY_STEPS = 2 };
#ifdef __SANITIZE_ADDRESS__
enum { LIBRARY_CASES_TAKEN = 4 };
#else
enum { LIBRARY_CASES_TAKEN = LIBRARY_CASES };
#endif

static int place_of(const char *name) {
    int i = 0;
    while (strcmp(pass_table[i]->name, name) != 0) i++;
    return i;
}

/* Small, since each thread of a kernel is emulated; without what the library's attention does not see. */
static lab_sizes draw_small_sizes(uint32_t *random) {
    lab_sizes s = { .layers = 1 + lab_random(random, 2),
                    .heads = 1 + lab_random(random, 2),
                    .context = 16,
                    .vocabulary = 32,
                    .batch = 4,
                    .clip = lab_random(random, 2) ? 0.7 : 0,
                    .untied = lab_random(random, 2) };
    s.channels = s.heads * 16;
    if (lab_random(random, 2)) s.decoder = "llama";
    return s;
}

/* With libraries more often than chance would have them, and what they want. Weights are floats: the lab
 * reads codes where they lie, which is the device's memory. */
static compose_choice choose_with_libraries(const lab *l, uint32_t *random) {
    compose_choice c = lab_choose_randomly(l, random, PASS_LOSSY);
    const struct {
        const char *pass, *text;
    } wanted[] = { { "library_products", "on" },
                   { "precision", "mixed-bf16" },
                   { "attention", "flash" },
                   { "library_attention", lab_random(random, 3) ? "on" : "forward" } };
    c.settings[place_of("lora")] = c.settings[place_of("qat")] = (pass_setting){ 0 };
    uint32_t with = lab_random(random, 3); /* products, attention or both */
    for (size_t i = with == 1; i < (with == 0 ? 1 : sizeof wanted / sizeof *wanted); i++) {
        int at = place_of(wanted[i].pass);
        assert_int_equal(pass_table[at]->parse(wanted[i].text, &c.settings[at]), STATUS_OK);
    }
    int precision = place_of("precision");
    if (with == 0 && strncmp(c.settings[precision].text, "int8", 4) == 0)
        c.settings[precision] = (pass_setting){ 0 };
    if (with == 0) c.settings[place_of("library_attention")] = (pass_setting){ 0 };
    if (with == 1) c.settings[place_of("library_products")] = (pass_setting){ 0 };
    return c;
}

static bool can_be(const lab *l, const compose_choice *c) {
    graph g;
    status made = compose_graph(&l->run, c, PASS_STEP, &g);
    graph_close(&g);
    return made == STATUS_OK;
}

static void run_there(const lab *l, const compose_choice *c, int variant, lab_result *r) {
    emulate_order_set((emulate_order)(variant % EMULATE_ORDERS));
    emulated_pace_set((emulated_pace)(variant % EMULATED_PACES), (uint64_t)variant + 1);
    lab_run(l, c, EXEC_POISON, LIBRARY_STEPS, r);
    emulate_order_set(EMULATE_FORWARD);
    lab_assert_exact_bytes(r, now.text);
}

static void combinations_with_libraries(void **state) {
    (void)state;
    int drawn[2] = { 0 };
    for (int i = 0; i < DEVICE_LIBRARIES; i++)
        assert_int_equal(device_emulated.library(&device_emulated, (device_library)i), STATUS_OK);
    for (now.index = 0; now.index < LIBRARY_CASES_TAKEN; now.index++) {
        uint32_t random = (uint32_t)now.index * 2654435761u + 20u;
        lab_result a, b;
        lab l;
        for (int i = 0; i < 4; i++) lab_random(&random, 2);
        lab_sizes sizes = draw_small_sizes(&random);
        lab_open(&l, &sizes);
        l.run.lower.device = &device_emulated;
        compose_choice c = choose_with_libraries(&l, &random);
        lab_choice_text(&c, now.text);
        if (!can_be(&l, &c)) continue; /* drawn settings that contradict these */
        emulated_seen = (emulated_counts){ 0 };
        run_there(&l, &c, 0, &a);
        drawn[0] += emulated_seen.products > 0, drawn[1] += emulated_seen.attentions > 0;
        assert_int_equal(emulated_seen.products > 0, c.settings[place_of("library_products")].text[0] != 0);
        assert_int_equal(emulated_seen.attentions > 0,
                         c.settings[place_of("library_attention")].text[0] != 0);
        run_there(&l, &c, 1 + now.index, &b);
        must_agree(&a, &b, "in another order of threads, at another pace,");
        lab_result_close(&a);
    }
    assert_true(drawn[0] > 0 && drawn[1] > 0);
}

/* The stand-ins are found by this program's own environment, which is read when it begins. */
static void find_standins(char **words) {
    const char *there = getenv("LD_LIBRARY_PATH");
    if (there && strcmp(there, SNUG_BUILD "/standin") == 0) return;
    setenv("LD_LIBRARY_PATH", SNUG_BUILD "/standin", 1);
    execv("/proc/self/exe", words);
}

#else

static void find_standins(char **words) { (void)words; }
static void combinations_with_libraries(void **state) { (void)state; }

#endif

int main(int count, char **words) {
    (void)count;
    find_standins(words);
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_combinations),
                                        cmocka_unit_test(combinations_with_libraries) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
