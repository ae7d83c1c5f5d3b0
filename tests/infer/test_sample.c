/* Drawing against a plain implementation that sorts: random logits with ties, outliers and clusters, random
 * options, and the same with some tokens left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "infer/sample.h"
#include "infer/sample_select.h"
#include "sanitized.h"

enum { MOST = 131072, TEXT = 50 };

static float logits[MOST], changed[MOST];
static uint64_t allowed[MOST / 64], weights[MOST];
static int32_t ids[TEXT];
static void *memory;

static uint32_t word(uint64_t seed, uint32_t i, uint32_t what) {
    return philox_draw(seed, (philox_block){ { i, what } }).word[0];
}
static uint32_t below(uint64_t seed, uint32_t what, uint32_t most) { return word(seed, 0, what) % most; }
static double unit(uint64_t seed, uint32_t i, uint32_t what) { return (word(seed, i, what) + 0.5) * 0x1p-32; }

/* ---- the plain implementation ---- */

static int descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static double times(int32_t id, int64_t from, int64_t to) {
    double n = 0;
    for (int64_t i = from; i < to; i++) n += ids[i] == id;
    return n;
}

static double clamped(double x) {
    const double most = 3.4028234663852886e38;
    return x > most ? most : x < -most ? -most : x;
}

/* False: nothing is left. */
static bool plain_change(const sample_options *o, const sample_from *from) {
    bool any = false;
    for (int32_t id = 0; id < from->vocabulary; id++) {
        float x = logits[id];
        if (times(id, 0, from->count) > 0) {
            double p = (float)o->repetition_penalty;
            x = (float)clamped(x > 0 ? (float)(x / p) : (float)(x * p));
        }
        double n = times(id, from->prompt, from->count);
        if (n > 0) x = (float)clamped(x - (o->presence_penalty + n * o->frequency_penalty));
        for (uint32_t i = 0; i < o->bias_count; i++)
            if (o->biases[i].id == id) x = (float)clamped((double)x + o->biases[i].bias);
        bool in = !from->allowed || allowed[id / 64] >> id % 64 & 1;
        changed[id] = in ? x : -INFINITY;
        any = any || in;
    }
    return any;
}

static int32_t plain(const sample_options *o, const sample_from *from) {
    static float sorted[MOST];
    int64_t n = from->vocabulary, kept = n;
    if (!plain_change(o, from)) return SAMPLE_NONE;
    memcpy(sorted, changed, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, descending);
    if (o->temperature == 0 || o->top_k == 1) {
        for (int32_t i = 0;; i++)
            if (changed[i] == sorted[0]) return i;
    }
    if (o->top_k > 0 && o->top_k < n) kept = o->top_k;
    while (kept < n && sorted[kept] == sorted[kept - 1]) kept++;
    double total = 0, reached = 0;
    for (int64_t i = 0; i < n; i++)
        weights[i] = (uint64_t)llround(ldexp(exp(((double)sorted[i] - sorted[0]) / o->temperature), 44));
    for (int64_t i = 0; i < kept; i++) total += (double)weights[i];
    if (o->top_p < 1) {
        int64_t i = 0;
        while (i < kept && (i == 0 || reached < total * o->top_p)) reached += (double)weights[i++];
        while (i < kept && sorted[i] == sorted[i - 1]) i++;
        kept = i;
    }
    while (o->min_p > 0 && kept > 1 && (double)weights[kept - 1] < o->min_p * 0x1p44) kept--;
    double sum = 0;
    for (int64_t i = 0; i < kept; i++) sum += (double)weights[i];
    philox_block b = philox_draw(o->seed, (philox_block){ { 0, 0, from->position, 0x73616d70 } });
    double wanted = ((double)((uint64_t)(b.word[0] >> 6) << 26 | b.word[1] >> 6) + 0.5) * 0x1p-52 * sum,
           to = 0;
    for (int32_t i = 0; i < n; i++) {
        if (changed[i] < sorted[kept - 1]) continue;
        to += floor(0.5 + ldexp(exp(((double)changed[i] - sorted[0]) / o->temperature), 44));
        if (to > wanted) return i;
    }
    return SAMPLE_NONE;
}

/* ---- cases ---- */

static float made(uint64_t seed, uint32_t i, uint32_t kind) {
    double u = unit(seed, i, 1), v = unit(seed, i, 2);
    double normal = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
    switch (kind) {
    case 0: return (float)(4 * normal);
    case 1: return (float)(round(2 * normal) / 2);                 /* many ties */
    case 2: return (float)(normal * exp2(-30 * unit(seed, i, 3))); /* clusters at zero */
    case 3: return (float)(i % 7 ? 30 * u : -1e9);
    case 4: return (float)(20 + 1e-6 * normal);
    case 5: return 1;
    case 6: return (float)(word(seed, i, 4) % 50 ? -20 + normal : 10 + normal);
    default: return i % 2 ? 0.0f : -0.0f;
    }
}

static sample_options options_of(uint64_t seed, const sample_bias *biases) {
    static const double temperatures[] = { 1, 0.7, 1.3, 0.01, 100, 0 };
    return (sample_options){ .temperature = temperatures[below(seed, 10, 6)],
                             .top_k = below(seed, 11, 3) ? 0 : 1 + below(seed, 12, 60),
                             .top_p = below(seed, 13, 3) ? 0.02 + 0.97 * unit(seed, 0, 14) : 1,
                             .min_p = below(seed, 15, 4) ? 0 : 0.3 * unit(seed, 0, 16),
                             .repetition_penalty = below(seed, 17, 4) ? 1 : 0.7 + unit(seed, 0, 18),
                             .presence_penalty = below(seed, 19, 4) ? 0 : 2 * unit(seed, 0, 20) - 1,
                             .frequency_penalty = below(seed, 21, 4) ? 0 : 2 * unit(seed, 0, 22) - 1,
                             .biases = biases,
                             .bias_count = below(seed, 23, 4) ? 0 : 3,
                             .seed = seed };
}

static void run_case(uint64_t seed, int64_t count) {
    sample_bias biases[3];
    uint32_t kind = below(seed, 30, 8);
    for (uint32_t i = 0; i < count; i++) logits[i] = made(seed, i, kind);
    for (uint32_t i = 0; i < TEXT; i++) ids[i] = (int32_t)(word(seed, i, 5) % (uint32_t)count % 40);
    for (uint32_t i = 0; i < 3; i++)
        biases[i] =
            (sample_bias){ (int32_t)(word(seed, i, 6) % (uint32_t)count), (float)(9 * unit(seed, i, 7) - 3) };
    uint32_t holes = below(seed, 31, 4);
    for (int64_t i = 0; i < (count + 63) / 64; i++) {
        allowed[i] = (uint64_t)word(seed, (uint32_t)i, 8) << 32 | word(seed, (uint32_t)i, 9);
        if (holes == 1) allowed[i] &= i % 5 == 0 ? allowed[i] << 3 : 0;
    }
    sample_options o = options_of(seed, biases);
    assert_int_equal(sample_check(&o), STATUS_OK);
    for (uint32_t position = 0; position < 4; position++) {
        sample_from from = { .logits = logits,
                             .ids = ids,
                             .count = TEXT,
                             .prompt = TEXT / 2,
                             .vocabulary = count,
                             .position = position,
                             .allowed = holes < 2 ? allowed : NULL,
                             .memory = memory };
        sample_drawn drawn;
        if (sample_next(&o, &from, &drawn) != STATUS_OK) fail_msg("%s", status_message());
        int32_t expected = plain(&o, &from);
        if (drawn.id != expected)
            fail_msg("case %d of %d logits of kind %d: %d is drawn, and sorting draws %d", (int)seed,
                     (int)count, (int)kind, (int)drawn.id, (int)expected);
    }
}

static void draws_are_those_of_sorting(void **state) {
    (void)state;
    uint64_t cases = SANITIZED ? 300 : 3000;
    for (uint64_t seed = 1; seed <= cases; seed++) run_case(seed, 1 + below(seed, 40, seed % 8 ? 300 : 5000));
    for (uint64_t seed = 1; seed <= 16; seed++) run_case(seed, 128000 + below(seed, 41, 3000));
}

/* ---- logarithms ---- */

static void assert_near(double a, double b, double most) { assert_true(fabs(a - b) <= most); }

static void logarithms_are_of_the_model(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        int64_t count = 1 + below(seed, 40, 400);
        uint32_t kind = below(seed, 30, 8);
        double best = -1e30, sum = 0;
        for (uint32_t i = 0; i < count; i++) logits[i] = made(seed, i, kind);
        for (int64_t i = 0; i < count; i++) best = logits[i] > best ? logits[i] : best;
        for (int64_t i = 0; i < count; i++) sum += exp(logits[i] - best);
        for (int64_t i = 0; i < TEXT; i++) ids[i] = (int32_t)(i % count);
        sample_options o = options_of(seed, NULL);
        o.bias_count = 0, o.logprobs = true, o.likeliest = below(seed, 42, SAMPLE_LIKELIEST + 1);
        sample_drawn d;
        assert_int_equal(
            sample_next(
                &o,
                &(sample_from){
                    .logits = logits, .ids = ids, .count = TEXT, .vocabulary = count, .memory = memory },
                &d),
            STATUS_OK);
        assert_near(d.logprob, logits[d.id] - best - log(sum), 1e-5 * (1 + fabs((double)d.logprob)));
        assert_int_equal(d.count, o.likeliest < count ? o.likeliest : count);
        for (int32_t k = 0; k < d.count;
             k++) { /* each stands behind those that are likelier, or as likely and before it */
            int64_t before = 0, id = d.likeliest[k].id;
            for (int64_t i = 0; i < count; i++)
                before += logits[i] > logits[id] || (logits[i] == logits[id] && i < id);
            assert_int_equal(before, k);
            assert_near(d.likeliest[k].logprob, logits[id] - best - log(sum),
                        1e-5 * (1 + fabs((double)d.likeliest[k].logprob)));
        }
    }
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    const sample_options good = { .temperature = 1, .top_p = 1, .repetition_penalty = 1 };
    sample_options bad[] = { good, good, good, good, good, good, good };
    bad[0].temperature = NAN, bad[1].top_p = 0, bad[2].min_p = 1.5, bad[3].min_p = NAN;
    bad[4].presence_penalty = INFINITY, bad[5].frequency_penalty = NAN, bad[6].repetition_penalty = 0;
    assert_int_equal(sample_check(&good), STATUS_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(sample_check(&bad[i]), STATUS_INVALID);
}

static int open_memory(void **state) {
    (void)state;
    uint64_t bytes = sample_bytes(&(sample_needs){ true, true }, MOST);
    return (memory = memory_new((size_t)bytes, 1)) ? 0 : -1;
}
static int close_memory(void **state) {
    (void)state;
    memory_free(memory);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(draws_are_those_of_sorting),
                                        cmocka_unit_test(logarithms_are_of_the_model),
                                        cmocka_unit_test(what_makes_no_sense_is_refused) };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
