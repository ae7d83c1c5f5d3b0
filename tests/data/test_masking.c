/* Gaps for encoders: how many, of what, the same whoever reads, others in each epoch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "data/loader.h"
#include "data/masking.h"

enum { T = 64, MASK = 300, VOCABULARY = 301, SAMPLES = 23 };

static const data_masking masking = {
    .on = true, .seed = 5, .context = T, .vocabulary = VOCABULARY, .mask = MASK
};

static int32_t word(uint64_t sample, int64_t place) {
    return (int32_t)((sample * 131 + (uint64_t)place) % 256);
}

/* Of what is chosen eight in ten become the mask, one any token, one stays; labels are what was there. */
static void shares_are_as_published(void **state) {
    (void)state;
    enum { ROUNDS = 4000 };
    double chosen = 0, masked = 0, kept = 0, all = (double)ROUNDS * T;
    for (uint64_t number = 0; number < ROUNDS; number++) {
        int32_t tokens[T], labels[T];
        for (int i = 0; i < T; i++) tokens[i] = word(number, i), labels[i] = 12345;
        data_masking_apply(&masking, number, tokens, labels);
        for (int i = 0; i < T; i++) {
            assert_in_range(tokens[i], 0, VOCABULARY - 1);
            if (labels[i] == DATA_IGNORED_LABEL) {
                assert_int_equal(tokens[i], word(number, i));
                continue;
            }
            assert_int_equal(labels[i], word(number, i));
            chosen++;
            masked += tokens[i] == MASK;
            kept += tokens[i] == labels[i];
        }
    }
    assert_true(chosen / all > 0.146 && chosen / all < 0.154);
    assert_true(masked / chosen > 0.79 && masked / chosen < 0.81);
    assert_true(kept / chosen > 0.094 && kept / chosen < 0.108); /* any token is the old one now and then */
}

/* What labels ignore stays as it is and is not asked for; the others are chosen as they were without. */
static void what_is_ignored_is_not_hidden(void **state) {
    (void)state;
    data_masking careful = masking;
    careful.skips_ignored = true;
    uint64_t hidden = 0;
    for (uint64_t number = 0; number < 200; number++) {
        int32_t tokens[T], labels[T], all[T], every[T];
        for (int i = 0; i < T; i++) {
            tokens[i] = all[i] = word(number, i);
            labels[i] = i % 5 == 0 || i % 7 == 0 ? DATA_IGNORED_LABEL : tokens[i];
        }
        data_masking_apply(&careful, number, tokens, labels);
        data_masking_apply(&masking, number, all, every);
        for (int i = 0; i < T; i++) {
            bool ignored = i % 5 == 0 || i % 7 == 0;
            assert_int_equal(labels[i], ignored ? DATA_IGNORED_LABEL : every[i]);
            assert_int_equal(tokens[i], ignored ? word(number, i) : all[i]);
            hidden += labels[i] != DATA_IGNORED_LABEL;
        }
    }
    assert_true(hidden > 1000);
}

static void what_is_off_does_nothing(void **state) {
    (void)state;
    int32_t tokens[1] = { 7 }, labels[1] = { 8 };
    data_masking_apply(&(data_masking){ .context = 1 }, 3, tokens, labels);
    assert_true(tokens[0] == 7 && labels[0] == 8);
}

static status read_words(const data_source *s, uint64_t sample, void *scratch, void *const fields[]) {
    (void)s, (void)scratch;
    for (int i = 0; i < T; i++) ((int32_t *)fields[0])[i] = word(sample, i);
    memset(fields[1], 0, T * sizeof(int32_t));
    return STATUS_OK;
}

/* The tokens of batches 0, 1, ... as a loader brings them, from `first` on. */
static void load(uint32_t workers, uint64_t first, uint32_t batches, int32_t *out, uint64_t *counted) {
    enum { BATCH = 4 };
    data_source s = { .samples = SAMPLES,
                      .field_count = 2,
                      .label_field = 1,
                      .field_bytes = { T * 4, T * 4 },
                      .read = read_words };
    loader_options o = { .source = &s,
                         .batch = BATCH,
                         .depth = 2,
                         .workers = workers,
                         .seed = 9,
                         .first_sample = first,
                         .masking = masking };
    uint64_t bytes;
    loader *l;
    assert_int_equal(loader_bytes(&o, &bytes), STATUS_OK);
    void *memory = aligned_alloc(64, bytes);
    assert_int_equal(loader_open(&o, memory, &l), STATUS_OK);
    *counted = 0;
    for (uint32_t b = 0; b < batches; b++) {
        loader_batch batch;
        assert_int_equal(loader_next(l, &batch), STATUS_OK);
        memcpy(out + b * BATCH * T, batch.fields[0], BATCH * T * 4);
        for (int i = 0; i < BATCH * T; i++)
            *counted -= ((const int32_t *)batch.fields[1])[i] != DATA_IGNORED_LABEL;
        *counted += batch.counted_labels;
        loader_done(l);
    }
    loader_close(l);
    free(memory);
}

static void gaps_do_not_depend_on_workers(void **state) {
    (void)state;
    enum { BATCHES = 12, ALL = BATCHES * 4 * T };
    static int32_t one[ALL], more[ALL];
    uint64_t counted;
    load(0, 0, BATCHES, one, &counted);
    assert_int_equal(counted, 0); /* what is counted is what is there */
    for (uint32_t workers = 1; workers <= 4; workers++) {
        load(workers, 0, BATCHES, more, &counted);
        assert_memory_equal(one, more, sizeof one);
    }
    load(2, 8, BATCHES - 2, more, &counted); /* as a resumed run begins */
    assert_memory_equal(one + 8 * T, more, sizeof one - 8 * T * sizeof *one);
}

/* The same sample in another epoch has other gaps; the same number always the same. */
static void every_epoch_hides_others(void **state) {
    (void)state;
    int32_t a[T], b[T], labels[T];
    int same = 0;
    for (int i = 0; i < T; i++) a[i] = b[i] = word(1, i);
    data_masking_apply(&masking, 1, a, labels);
    data_masking_apply(&masking, 1 + SAMPLES, b, labels);
    for (int i = 0; i < T; i++) same += a[i] == b[i];
    assert_true(same < T);
    for (int i = 0; i < T; i++) b[i] = word(1, i);
    data_masking_apply(&masking, 1, b, labels);
    assert_memory_equal(a, b, sizeof a);
    for (int i = 0; i < T; i++) b[i] = word(1, i);
    data_masking_apply(&masking, 1 + ((uint64_t)1 << 32), b, labels);
    assert_memory_not_equal(a, b, sizeof a);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(shares_are_as_published),
                                        cmocka_unit_test(what_is_ignored_is_not_hidden),
                                        cmocka_unit_test(what_is_off_does_nothing),
                                        cmocka_unit_test(gaps_do_not_depend_on_workers),
                                        cmocka_unit_test(every_epoch_hides_others) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
