/* Mixing: shares are kept at every place of a run, each sample of a part comes before any comes twice, and
 * what stands at a place depends on nothing but the place. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/loader.h"
#include "data/mixed_source.h"
#include "data/order.h"
#include "io/scratch.h"

/* ---- turns ---- */

static mixture turns_of(const double *weights, uint32_t parts) {
    mixture m;
    uint32_t part;
    if (mixture_open(weights, parts, &m, &part) != STATUS_OK) fail_msg("%s", status_message());
    return m;
}

/* Of a long stretch, which may begin anywhere: by how much a part is ever away from its share. */
static double largest_error(const mixture *m, uint64_t from, uint64_t places) {
    uint64_t had[MIXTURE_PARTS] = { 0 }, turn;
    double most = 0;
    for (uint64_t k = 0; k < places; k++) {
        uint32_t p = mixture_at(m, from + k, &turn);
        had[p]++;
        for (uint32_t i = 0; i < m->parts; i++) {
            double share = (double)m->share[i] / m->period,
                   error = fabs((double)had[i] - share * (double)(k + 1));
            if (error > most) most = error;
        }
    }
    return most;
}

static void draw_weights(uint64_t *state, double *weights, uint32_t parts) {
    static const double scales[] = { 1, 0.01, 1e6, 1.0 / 3 };
    double scale = scales[scratch_random(state) % 4];
    uint32_t kind = scratch_random(state) % 3;
    for (uint32_t i = 0; i < parts; i++) {
        double drawn = 1 + scratch_random(state) % 99;
        weights[i] = (kind == 0   ? drawn
                      : kind == 1 ? pow(1.07, drawn)
                                  : drawn + scratch_random(state) / 3e9) *
                     scale;
    }
}

/* To within one from the beginning; of any stretch to within one for two parts, and less than two for more.
 */
static void shares_are_kept_at_every_place(void **state) {
    (void)state;
    uint64_t random = 11;
    for (int c = 0; c < 150; c++) {
        uint32_t parts = 2 + scratch_random(&random) % (c % 3 ? 5 : MIXTURE_PARTS - 1);
        double weights[MIXTURE_PARTS];
        draw_weights(&random, weights, parts);
        mixture m = turns_of(weights, parts);
        assert_true(largest_error(&m, 0, 3000) <= 1 - 1.0 / (2 * parts - 2) + 1e-9);
        uint64_t far = ((uint64_t)scratch_random(&random) << 20) + scratch_random(&random);
        assert_true(largest_error(&m, far, 3000) <= 2 - 1.0 / (parts - 1) + 1e-9);
        assert_true(largest_error(&m, far / m.period * m.period, 3000) < 1);
        mixture_close(&m);
    }
}

/* A table of a period agrees with itself wherever it is asked. */
static void turns_count_up(void **state) {
    (void)state;
    uint64_t random = 5;
    for (int c = 0; c < 60; c++) {
        uint32_t parts = 1 + scratch_random(&random) % 9;
        double weights[MIXTURE_PARTS];
        draw_weights(&random, weights, parts);
        mixture m = turns_of(weights, parts);
        uint64_t next[MIXTURE_PARTS] = { 0 }, turn, place, sum = 0;
        for (uint64_t k = 0; k < 2 * (uint64_t)m.period + 7 && k < 20000; k++) {
            uint32_t p = mixture_at(&m, k, &turn);
            assert_true(p < parts);
            assert_int_equal(turn, next[p]++);
            if (k % 97) continue;
            assert_int_equal(mixture_place(&m, p, turn, &place), STATUS_OK);
            assert_int_equal(place, k);
        }
        for (uint32_t p = 0; p < parts; p++) sum += m.share[p];
        assert_int_equal(sum, m.period);
        mixture_close(&m);
    }
}

static void shares_are_those_of_the_weights(void **state) {
    (void)state;
    static const struct {
        double weights[3];
        uint32_t parts, period, share[3];
    } cases[] = { { { 0.7, 0.3 }, 2, 10, { 7, 3 } },
                  { { 7, 3 }, 2, 10, { 7, 3 } },
                  { { 1, 2 }, 2, 3, { 1, 2 } },
                  { { 0.125, 0.125 }, 2, 2, { 1, 1 } },
                  { { 0.333, 0.333, 0.334 }, 3, 1000, { 333, 333, 334 } },
                  { { 1e-300, 3e-300 }, 2, 4, { 1, 3 } },
                  { { 1e308, 1e308, 1e308 }, 3, 3, { 1, 1, 1 } },
                  { { 5 }, 1, 1, { 1 } },
                  { { 1, 65535 }, 2, 65536, { 1, 65535 } },
                  { { 1, 1.41421356237 }, 2, MIXTURE_PERIOD, { 27146, 38390 } },
                  { { 1e6, 1e6 + 1, 40 }, 3, MIXTURE_PERIOD, { 32767, 32768, 1 } },
                  { { 1, 0.5477225575051661, 1 }, 3, MIXTURE_PERIOD, { 25724, 14089, 25723 } } };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        mixture m = turns_of(cases[c].weights, cases[c].parts);
        assert_int_equal(m.period, cases[c].period);
        for (uint32_t p = 0; p < cases[c].parts && cases[c].share[0]; p++)
            assert_int_equal(m.share[p], cases[c].share[p]);
        assert_int_equal(m.held_bytes, 3 * (uint64_t)m.period);
        mixture_close(&m);
    }
}

/* Of equals the first comes first. */
static void equals_come_in_their_order(void **state) {
    (void)state;
    static const struct {
        double weights[4];
        uint32_t parts, period, part[6];
    } cases[] = { { { 1, 1 }, 2, 2, { 0, 1 } },
                  { { 1, 1, 1 }, 3, 3, { 0, 1, 2 } },
                  { { 2, 2, 2, 2 }, 4, 4, { 0, 1, 2, 3 } },
                  { { 1, 2, 1 }, 3, 4, { 1, 0, 2, 1 } },
                  { { 2, 1, 2, 1 }, 4, 6, { 0, 2, 1, 3, 0, 2 } } };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint64_t turn;
        mixture m = turns_of(cases[c].weights, cases[c].parts);
        assert_int_equal(m.period, cases[c].period);
        for (uint32_t k = 0; k < m.period; k++) assert_int_equal(mixture_at(&m, k, &turn), cases[c].part[k]);
        mixture_close(&m);
    }
}

static void shares_too_small_are_refused(void **state) {
    (void)state;
    mixture m;
    uint32_t part;
    assert_int_equal(mixture_open((double[]){ 1, 1e-6, 1 }, 3, &m, &part), STATUS_INVALID);
    assert_int_equal(part, 1);
    assert_non_null(strstr(status_message(), "the least share is 1 in 65536"));
    assert_null(m.part);
    uint64_t place;
    m = turns_of((double[]){ 1, 65535 }, 2);
    assert_int_equal(mixture_place(&m, 0, (uint64_t)1 << 60, &place), STATUS_INVALID);
    mixture_close(&m);
}

/* ---- sources ---- */

/* A sample of a part is its number and the part's. */
typedef struct {
    uint32_t part;
    bool *closed;
} counting;

static status read_number(const data_source *s, uint64_t sample, void *scratch, void *const fields[]) {
    const counting *c = s->state;
    assert_true(sample < s->samples);
    memset(scratch, 1, s->scratch_bytes);
    ((int32_t *)fields[0])[0] = (int32_t)c->part;
    ((int32_t *)fields[0])[1] = (int32_t)sample;
    return STATUS_OK;
}

static status refuse_third(const data_source *s) {
    const counting *c = s->state;
    return c->part == 2 ? status_set(STATUS_INVALID, "the third is damaged") : STATUS_OK;
}

static void note_closed(data_source *s) {
    const counting *c = s->state;
    *c->closed = true;
}

enum { PARTS = 7 };
typedef struct {
    counting state[PARTS];
    bool closed[PARTS];
    data_source source[PARTS];
    uint64_t all;
} numbered;

static void make_parts(numbered *n, const uint64_t *samples, uint32_t count) {
    n->all = 0;
    for (uint32_t p = 0; p < count; p++) {
        n->closed[p] = false;
        n->state[p] = (counting){ p, &n->closed[p] };
        n->source[p] = (data_source){ .samples = samples[p],
                                      .field_count = 1,
                                      .label_field = DATA_NO_LABELS,
                                      .field_bytes = { 2 * sizeof(int32_t) },
                                      .scratch_bytes = 8 + 8 * p,
                                      .held_bytes = 100,
                                      .read = read_number,
                                      .check = refuse_third,
                                      .close = note_closed,
                                      .state = &n->state[p] };
        n->all += samples[p];
    }
}

static data_source mixed_of(const mixed_options *o) {
    data_source s;
    uint32_t part;
    if (mixed_source_open(o, &s, &part) != STATUS_OK) fail_msg("%s", status_message());
    return s;
}

typedef struct {
    int32_t part, sample;
} seen;

static seen seen_at(const data_source *s, uint64_t place) {
    seen x;
    char scratch[64];
    void *fields[] = { &x };
    assert_int_equal(s->read(s, place, scratch, fields), STATUS_OK);
    return x;
}

/* Every sample of a part once, in each of its passes, and in another order each time. */
static void parts_are_seen_whole_before_again(void **state) {
    (void)state;
    uint64_t random = 3;
    for (int c = 0; c < 40; c++) {
        uint32_t count = 2 + scratch_random(&random) % (PARTS - 1);
        uint64_t samples[PARTS], had[PARTS] = { 0 };
        double weights[PARTS];
        numbered n;
        for (uint32_t p = 0; p < count; p++) samples[p] = 1 + scratch_random(&random) % 60;
        draw_weights(&random, weights, count);
        make_parts(&n, samples, count);
        data_source s = mixed_of(&(mixed_options){
            .parts = n.source, .count = count, .weights = weights, .shuffles = true, .seed = (uint64_t)c });
        uint32_t *times = calloc(PARTS * 60, sizeof *times);
        uint64_t epoch = 0, changed = 0, compared = 0;
        int32_t first[PARTS][60];
        bool all = false;
        for (uint64_t k = 0; k < 4000; k++) {
            seen x = seen_at(&s, k);
            uint64_t pass = had[x.part] / samples[x.part], at = had[x.part]++ % samples[x.part];
            assert_int_equal(times[x.part * 60 + x.sample]++, pass); /* so often before */
            if (pass == 0) first[x.part][at] = x.sample;
            if (pass == 1 && samples[x.part] > 9) changed += first[x.part][at] != x.sample, compared++;
            bool now = true;
            for (uint32_t p = 0; p < count; p++) now = now && had[p] >= samples[p];
            if (now && !all) epoch = k + 1, all = true;
        }
        if (all) assert_int_equal(s.samples, epoch); /* as long as the part that lasts longest */
        assert_true(all || s.samples > 4000);
        assert_true(changed * 10 >= compared * 8);
        free(times);
        data_source_close(&s);
    }
}

/* Without weights they are one source. */
static void without_weights_all_come_once_an_epoch(void **state) {
    (void)state;
    static const uint64_t samples[] = { 5, 1, 40, 17 };
    numbered n;
    make_parts(&n, samples, 4);
    data_source s = mixed_of(&(mixed_options){ .parts = n.source, .count = 4, .shuffles = true, .seed = 9 });
    assert_int_equal(s.samples, n.all);
    assert_false(mixed_source_weighted(&s));
    for (uint64_t k = 0; k < 3 * n.all; k++) {
        uint64_t of_one = data_order_sample(9, n.all, k);
        uint32_t p = 0;
        while (of_one >= samples[p]) of_one -= samples[p++];
        seen x = seen_at(&s, k);
        assert_int_equal(x.part, p);
        assert_int_equal(x.sample, of_one);
    }
    mixed_share share = mixed_source_share(&s, 2);
    assert_true(share.places == 40 && share.of == 63);
    data_source_close(&s);
}

/* The first samples of each, in their shares; by sizes what is evenly spread, each at most once. */
static void validation_has_the_same_shares(void **state) {
    (void)state;
    static const uint64_t samples[] = { 50, 100, 850 };
    numbered n;
    make_parts(&n, samples, 3);
    data_source s = mixed_of(
        &(mixed_options){ .parts = n.source, .count = 3, .weights = (double[]){ 5, 3, 2 }, .most = 64 });
    uint64_t had[3] = { 0 };
    assert_int_equal(s.samples, 64);
    for (uint64_t k = 0; k < s.samples; k++) {
        seen x = seen_at(&s, k);
        assert_int_equal(x.sample, had[x.part]++);
    }
    assert_true(had[0] == 32 && had[1] >= 19 && had[1] <= 20 && had[2] >= 12 && had[2] <= 13);
    data_source_close(&s);
    for (uint64_t most = 1; most < 1100; most += 37) {
        make_parts(&n, samples, 3);
        s = mixed_of(&(mixed_options){ .parts = n.source, .count = 3, .most = most });
        bool twice[3][850] = { 0 };
        memset(had, 0, sizeof had);
        assert_int_equal(s.samples, most < 1000 ? most : 1000);
        for (uint64_t k = 0; k < s.samples; k++) {
            seen x = seen_at(&s, k);
            assert_false(twice[x.part][x.sample]);
            twice[x.part][x.sample] = true, had[x.part]++;
        }
        for (int p = 0; p < 3; p++)
            assert_true(fabs((double)had[p] - (double)s.samples * (double)samples[p] / 1000) <= 1);
        data_source_close(&s);
    }
}

/* One that is too short for its share comes again from its beginning. */
static void short_validation_comes_again(void **state) {
    (void)state;
    static const uint64_t samples[] = { 3, 40 };
    numbered n;
    make_parts(&n, samples, 2);
    data_source s = mixed_of(
        &(mixed_options){ .parts = n.source, .count = 2, .weights = (double[]){ 1, 1 }, .most = 999 });
    uint64_t had[2] = { 0 };
    assert_in_range(s.samples, 79, 80);
    for (uint64_t k = 0; k < s.samples; k++) {
        seen x = seen_at(&s, k);
        assert_int_equal(x.sample, had[x.part]++ % samples[x.part]);
    }
    data_source_close(&s);
}

/* Parts of one size are not gone through side by side: lines that belong together would always meet. */
static void equal_parts_have_orders_of_their_own(void **state) {
    (void)state;
    static const uint64_t samples[] = { 100, 100 };
    numbered n;
    make_parts(&n, samples, 2);
    data_source s = mixed_of(
        &(mixed_options){ .parts = n.source, .count = 2, .weights = (double[]){ 1, 1 }, .shuffles = true });
    uint32_t same = 0;
    for (uint64_t k = 0; k < 200; k += 2) same += seen_at(&s, k).sample == seen_at(&s, k + 1).sample;
    assert_true(same < 10);
    data_source_close(&s);
}

/* Whatever the batch, the workers and the place where a run goes on. */
static void loaders_read_the_same_places(void **state) {
    (void)state;
    static const uint64_t samples[] = { 13, 30, 4 };
    static const uint32_t workers[] = { 0, 1, 3 };
    for (int w = 0; w < 2; w++)
        for (size_t i = 0; i < 3; i++) {
            numbered n;
            make_parts(&n, samples, 3);
            data_source s = mixed_of(&(mixed_options){ .parts = n.source,
                                                       .count = 3,
                                                       .weights = w ? (double[]){ 2, 3, 1 } : NULL,
                                                       .shuffles = true,
                                                       .seed = 77 });
            loader_options o = { .source = &s, .batch = 5, .depth = 2, .workers = workers[i], .seed = 1234 };
            o.first_sample = 15 * i;
            uint64_t bytes;
            loader *l;
            assert_int_equal(loader_bytes(&o, &bytes), STATUS_OK);
            void *memory = aligned_alloc(LOADER_ALIGNMENT, (bytes + 63) / 64 * 64);
            assert_int_equal(loader_open(&o, memory, &l), STATUS_OK);
            for (uint64_t k = o.first_sample; k < o.first_sample + 100; k += 5) {
                loader_batch b;
                assert_int_equal(loader_next(l, &b), STATUS_OK);
                for (uint64_t j = 0; j < 5; j++) {
                    seen x = seen_at(&s, k + j);
                    assert_memory_equal((seen *)b.fields[0] + j, &x, sizeof x);
                }
                loader_done(l);
            }
            loader_close(l);
            free(memory);
            data_source_close(&s);
        }
}

static void a_mix_is_its_parts(void **state) {
    (void)state;
    static const uint64_t samples[] = { 3, 4, 5 };
    numbered n;
    make_parts(&n, samples, 2);
    data_source s = mixed_of(
        &(mixed_options){ .parts = n.source, .count = 2, .weights = (double[]){ 1, 3 }, .shuffles = true });
    assert_int_equal(s.scratch_bytes, 16); /* of the one that wants most */
    assert_int_equal(data_source_parts(&s), 2);
    assert_int_equal(data_source_part(&s, 1)->samples, 4);
    assert_int_equal(data_source_parts(&n.source[0]), 1);
    assert_ptr_equal(data_source_part(&n.source[0], 0), &n.source[0]);
    uint64_t held = s.held_bytes;
    assert_true(held >= 2 * 100 + 3 * 4 + 2 * sizeof(data_source));
    assert_int_equal(data_source_check(&s), STATUS_OK);
    data_source_close(&s);
    assert_true(n.closed[0] && n.closed[1]);
    make_parts(&n, samples, 2);
    n.source[0].held_bytes += 1000, n.source[1].held_bytes += 20;
    s = mixed_of(
        &(mixed_options){ .parts = n.source, .count = 2, .weights = (double[]){ 1, 3 }, .shuffles = true });
    assert_int_equal(s.held_bytes, held + 1020); /* each holds its own */
    data_source_close(&s);
    make_parts(&n, samples, 3);
    s = mixed_of(&(mixed_options){ .parts = n.source, .count = 3, .shuffles = true });
    assert_int_equal(data_source_check(&s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "the third is damaged"));
    data_source_close(&s);
}

static void what_can_not_be_mixed_stays_open(void **state) {
    (void)state;
    static const uint64_t samples[] = { 3, 0 }, some[] = { 3, 3 };
    numbered n;
    data_source s;
    uint32_t part;
    mixed_options o = { .parts = n.source, .count = 2, .shuffles = true };
    make_parts(&n, samples, 2);
    assert_int_equal(mixed_source_open(&o, &s, &part), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "part 2 of the data has no sample"));
    make_parts(&n, some, 2);
    n.source[1].field_bytes[0] = 4;
    assert_int_equal(mixed_source_open(&o, &s, &part), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "other fields"));
    make_parts(&n, some, 2);
    o.weights = (double[]){ 1e-9, 1 };
    assert_int_equal(mixed_source_open(&o, &s, &part), STATUS_INVALID);
    assert_int_equal(part, 0);
    o.weights = NULL, n.source[0].samples = n.source[1].samples = (uint64_t)1 << 61;
    assert_int_equal(mixed_source_open(&o, &s, &part), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "more samples than can be counted"));
    assert_false(n.closed[0] || n.closed[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_kept_at_every_place),
        cmocka_unit_test(turns_count_up),
        cmocka_unit_test(shares_are_those_of_the_weights),
        cmocka_unit_test(equals_come_in_their_order),
        cmocka_unit_test(shares_too_small_are_refused),
        cmocka_unit_test(parts_are_seen_whole_before_again),
        cmocka_unit_test(without_weights_all_come_once_an_epoch),
        cmocka_unit_test(validation_has_the_same_shares),
        cmocka_unit_test(short_validation_comes_again),
        cmocka_unit_test(equal_parts_have_orders_of_their_own),
        cmocka_unit_test(loaders_read_the_same_places),
        cmocka_unit_test(a_mix_is_its_parts),
        cmocka_unit_test(what_can_not_be_mixed_stays_open),
    };
    return cmocka_run_group_tests_name("mixing", tests, NULL, NULL);
}
