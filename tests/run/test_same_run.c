/* P1 and P4: techniques change memory and time, not the run. Each EXACT one, alone and combined, gives the
 * same bits as the plain run, at one and two threads; REASSOCIATING ones stay within a tolerance; and planned
 * and measured bytes are equal in every one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/threads.h"
#include "run/lab.h"

static const lab_sizes small = {
    .layers = 2, .heads = 2, .channels = 32, .context = 64, .vocabulary = 97, .batch = 8, .clip = 0.5
};

static void compare_with_plain(const lab_sizes *sizes, int64_t micro_batch, const char *base,
                               const char *settings, bool same) {
    lab_compare(&(lab_pair){ .sizes = sizes,
                             .base = base,
                             .with = settings,
                             .micro_batch = micro_batch,
                             .modes = EXEC_POISON,
                             .distance = same ? 0 : 2e-4 });
}

static void each_technique_alone(void **state) {
    (void)state;
    compare_with_plain(&small, 0, "", "", true);
    compare_with_plain(&small, 0, "", "fuse=on", true);
    compare_with_plain(&small, 0, "", "gelu_epilogue=on", true);
    compare_with_plain(&small, 0, "", "recompute=cheap", true);
    compare_with_plain(&small, 0, "", "recompute=2", true);
    compare_with_plain(&small, 0, "", "recompute=3", true);
    compare_with_plain(&small, 0, "", "recompute=block", true);
    compare_with_plain(&small, 0, "", "recompute=block:1+cheap", true);
    compare_with_plain(&small, 0, "", "chunk_loss=256", true);
    compare_with_plain(&small, 0, "", "chunk_loss=100", false);
    compare_with_plain(&small, 0, "", "update_early=twice", true);
    compare_with_plain(&small, 0, "", "attention=flash", false);
    compare_with_plain(&small, 4, "", "accumulate=defer", true);
    compare_with_plain(&small, 4, "", "accumulate=add", false);
    compare_with_plain(&small, 3, "", "accumulate=add", false); /* 3 + 3 + 2: a remainder */
}

static void early_update_without_clipping(void **state) {
    (void)state;
    lab_sizes sizes = small;
    sizes.clip = 0;
    compare_with_plain(&sizes, 0, "", "update_early=on", true);
    compare_with_plain(&sizes, 0, "attention=flash",
                       "attention=flash update_early=on recompute=block chunk_loss=256", true);
}

/* Techniques see update nodes, whichever they are. */
static void every_optimizer(void **state) {
    (void)state;
    lab_sizes clipped = small, free = small;
    free.clip = 0;
    for (int kind = 0; kind < OPTIMIZER_COUNT; kind++) {
        clipped.optimizer = free.optimizer = (optimizer_kind)kind;
        compare_with_plain(&clipped, 0, "", "recompute=block chunk_loss=256 update_early=twice", true);
        compare_with_plain(&clipped, 4, "", "recompute=cheap accumulate=defer", true);
        compare_with_plain(&free, 0, "", "update_early=on", true);
    }
}

static uint64_t padded(int64_t floats) { return ((uint64_t)floats * sizeof(float) + 63) / 64 * 64; }

/* By formula: what each keeps for a model whose parameters are known. */
static void optimizers_keep_what_they_say(void **state) {
    (void)state;
    static const char *const names[] = { "adamw", "sgd", "adafactor", "lion" };
    uint64_t weights = 0, factored = 0, kept[OPTIMIZER_COUNT];
    for (int kind = 0; kind < OPTIMIZER_COUNT; kind++) {
        assert_string_equal(optimizer_name((optimizer_kind)kind), names[kind]);
        lab l;
        lab_sizes sizes = small;
        sizes.optimizer = (optimizer_kind)kind;
        lab_open(&l, &sizes);
        compose_choice c = lab_choose(&l, 0, "");
        plan p;
        assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
        kept[kind] = p.by_category[CATEGORY_OPTIMIZER];
        weights = p.by_category[CATEGORY_WEIGHTS], factored = 0;
        for (uint32_t i = 0; i < p.persistent_count; i++) {
            const shape *s = &p.persistent[i].shape;
            if (p.persistent[i].category != CATEGORY_WEIGHTS) continue;
            factored +=
                s->rank > 1 ? padded(shape_rows(s)) + padded(shape_last(s)) : padded(shape_elements(s));
        }
        plan_close(&p);
    }
    uint64_t step = padded(1); /* their number */
    assert_int_equal(kept[OPTIMIZER_ADAMW], 2 * weights + step);
    assert_int_equal(kept[OPTIMIZER_SGD], weights);
    assert_int_equal(kept[OPTIMIZER_LION], weights);
    assert_int_equal(kept[OPTIMIZER_ADAFACTOR], factored + step);
}

/* State of fewer bits is another run, by little; beside that run all techniques are as exact as they were. */
static void narrow_state_beside_every_technique(void **state) {
    (void)state;
    static const char *const forms[] = { "quantize_state=8bit", "quantize_state=8bit:all",
                                         "quantize_state=bf16" };
    static const optimizer_kind kinds[] = { OPTIMIZER_ADAMW, OPTIMIZER_SGD, OPTIMIZER_LION };
    for (int i = 0; i < 9; i++) {
        lab_sizes clipped = small, free = small;
        clipped.optimizer = free.optimizer = kinds[i % 3];
        free.clip = 0;
        const char *form = forms[i / 3];
        char with[128];
        snprintf(with, sizeof with, "%s recompute=block chunk_loss=256 update_early=twice", form);
        compare_with_plain(&clipped, 0, form, with, true);
        snprintf(with, sizeof with, "%s recompute=cheap accumulate=defer", form);
        compare_with_plain(&clipped, 4, form, with, true);
        snprintf(with, sizeof with, "%s update_early=on", form);
        compare_with_plain(&free, 0, form, with, true);
    }
}

/* Bytes by formula, and a run that is near the plain one without being it. */
static void narrow_state_is_small_and_near(void **state) {
    (void)state;
    static const struct {
        const char *setting;
        uint64_t bits_of_large, bits_of_small;
    } forms[] = { { "", 32, 32 },
                  { "quantize_state=8bit", 8, 32 },
                  { "quantize_state=8bit:all", 8, 8 },
                  { "quantize_state=bf16", 16, 16 } };
    lab_result results[4];
    for (int i = 0; i < 4; i++) {
        lab l;
        lab_open(&l, &small);
        compose_choice c = lab_choose(&l, 0, forms[i].setting);
        plan p;
        assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
        uint64_t should = 64; /* their number */
        for (uint32_t k = 0; k < p.persistent_count; k++) {
            int64_t n = shape_elements(&p.persistent[k].shape);
            if (p.persistent[k].category != CATEGORY_WEIGHTS) continue;
            uint64_t bits = n < 4096 ? forms[i].bits_of_small : forms[i].bits_of_large;
            should += 2 * (((uint64_t)n * bits / 8 + 63) / 64 * 64);
            if (bits == 8) should += 2 * padded((n + 2047) / 2048);
        }
        assert_int_equal(p.by_category[CATEGORY_OPTIMIZER], should);
        plan_close(&p);
        lab_run(&l, &c, EXEC_POISON, 20, &results[i]);
        lab_assert_exact_bytes(&results[i], forms[i].setting);
        double distance = lab_distance(&results[0], &results[i]);
        if (i && (distance == 0 || distance > 0.05)) fail_msg("%s: %g away", forms[i].setting, distance);
    }
    for (int i = 0; i < 4; i++) lab_result_close(&results[i]);
}

/* More pieces than there are slots, the last one of a few elements, and small states that stay in memory. */
static const lab_sizes many_words = {
    .layers = 1, .heads = 2, .channels = 32, .context = 8, .vocabulary = 160001, .batch = 2
};

static void state_in_a_file_is_the_same(void **state) {
    (void)state;
    static const optimizer_kind kinds[] = { OPTIMIZER_ADAMW, OPTIMIZER_SGD, OPTIMIZER_LION };
    static const char *const forms[] = { "", " quantize_state=8bit", " quantize_state=bf16" };
    for (int i = 0; i < 9; i++) {
        lab_sizes sizes = i < 3 ? many_words : small;
        char with[128];
        sizes.optimizer = kinds[i % 3];
        snprintf(with, sizeof with, "offload=optimizer%s", forms[i / 3]);
        compare_with_plain(&sizes, 0, forms[i / 3], with, true);
        if (i < 3) continue;
        snprintf(with, sizeof with, "offload=optimizer recompute=block accumulate=defer%s", forms[i / 3]);
        compare_with_plain(&sizes, 4, forms[i / 3], with, true);
        sizes.clip = 0;
        snprintf(with, sizeof with, "offload=optimizer update_early=on%s", forms[i / 3]);
        compare_with_plain(&sizes, 0, forms[i / 3], with, true);
    }
    compare_with_plain(&many_words, 0, " quantize_state=8bit",
                       "offload=optimizer update_early=on quantize_state=8bit", true);
}

/* Activations in a file, written by one program and read in it; beside everything that comes before backward
 * and after it. Many blocks: far more pieces than slots, read soon after they were written and long after. */
static void activations_in_a_file_are_the_same(void **state) {
    (void)state;
    static const struct {
        int64_t micro_batch;
        const char *base, *with;
    } cases[] = { { 0, "", "offload=activations" },
                  { 0, "", "offload=optimizer+activations update_early=twice chunk_loss=256" },
                  { 4, "", "offload=optimizer+activations accumulate=defer" },
                  { 0, "attention=flash", "attention=flash offload=activations recompute=block:1+cheap" },
                  { 0, "attention=flash", "attention=flash offload=activations fuse=on gelu_epilogue=on" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_sizes sizes = small, deep = small;
        sizes.dropout = i % 2 ? 0.2 : 0;
        compare_with_plain(&sizes, cases[i].micro_batch, cases[i].base, cases[i].with, true);
        deep.layers = 9;
        if (i < 2) compare_with_plain(&deep, cases[i].micro_batch, cases[i].base, cases[i].with, true);
    }
}

/* What waits for backward is in the file and no longer in memory, but for the slots. */
static void activations_in_a_file_leave_memory(void **state) {
    (void)state;
    lab_sizes sizes = small;
    sizes.layers = 9, sizes.batch = 32;
    lab l;
    lab_open(&l, &sizes);
    compose_choice without = lab_choose(&l, 0, ""), with = lab_choose(&l, 0, "offload=activations");
    plan a, b;
    assert_int_equal(compose_plan(&l.run, &without, &a), STATUS_OK);
    assert_int_equal(compose_plan(&l.run, &with, &b), STATUS_OK);
    const uint64_t row = 32 * 64 * 4; /* bytes of a channel of the batch */
    /* of a block: what the two norms, the two products after them, attention and GELU read or have made */
    assert_true(plan_file_bytes(&b) >= 9 * 32 * (1 + 3 + 1 + 1 + 4 + 4) * row);
    assert_true(b.by_category[CATEGORY_ACTIVATIONS] < a.by_category[CATEGORY_ACTIVATIONS] / 4);
    const plan_persistent *slots = plan_find(&b, PLAN_SLOTS);
    assert_non_null(slots);
    assert_true(plan_pool_bytes(&b) - slots->bytes < plan_pool_bytes(&a) / 2);
    plan_close(&a);
    plan_close(&b);
}

/* Memory falls by the state, less the slots; what is small stays. */
static void state_in_a_file_takes_its_slots(void **state) {
    (void)state;
    lab l;
    lab_open(&l, &many_words);
    compose_choice without = lab_choose(&l, 0, ""), with = lab_choose(&l, 0, "offload=optimizer");
    plan a, b;
    assert_int_equal(compose_plan(&l.run, &without, &a), STATUS_OK);
    assert_int_equal(compose_plan(&l.run, &with, &b), STATUS_OK);
    uint64_t in_file = 0, large = 0;
    for (uint32_t i = 0; i < b.persistent_count; i++)
        if (b.persistent[i].pool == POOL_FILE) in_file += b.persistent[i].bytes, large++;
    assert_int_equal(large, 2 * 3); /* the words, and two products of the block; AdamW keeps two of each */
    const uint64_t bytes = 2 * 4 * (160001 * 32 + 2 * 4096), page = 4096;
    assert_int_equal(in_file, bytes + 2 * (page - 4 * 160001 * 32 % page));
    assert_int_equal(plan_file_bytes(&b), in_file);
    const plan_persistent *slots = plan_find(&b, PLAN_SLOTS);
    assert_non_null(slots);
    assert_int_equal(slots->bytes, 16 * (2 * 4 << 18) + 4096);
    assert_int_equal(plan_pool_bytes(&a) - plan_pool_bytes(&b), bytes - slots->bytes);
    plan_close(&a);
    plan_close(&b);
}

static void untied_needs_no_deferring(void **state) {
    (void)state;
    lab_sizes sizes = small;
    sizes.untied = true;
    compare_with_plain(&sizes, 4, "", "accumulate=add", true);
}

static void combined(void **state) {
    (void)state;
    lab_sizes sizes = small;
    compare_with_plain(&sizes, 4, "attention=flash",
                       "attention=flash fuse=on recompute=block chunk_loss=128 accumulate=defer", false);
    compare_with_plain(&sizes, 4, "attention=flash", "attention=flash recompute=2 accumulate=defer", true);
    compare_with_plain(
        &sizes, 0, "attention=flash",
        "attention=flash fuse=on gelu_epilogue=on recompute=block chunk_loss=256 update_early=twice", true);
}

static void dropout_draws_the_same(void **state) {
    (void)state;
    lab_sizes sizes = small;
    sizes.dropout = 0.2;
    compare_with_plain(&sizes, 0, "attention=flash", "attention=flash recompute=block update_early=twice",
                       true);
    compare_with_plain(&sizes, 4, "attention=flash", "attention=flash recompute=block accumulate=defer",
                       true);
    compare_with_plain(&sizes, 0, "", "attention=flash", false);
}

static void thread_counts_agree(void **state) {
    (void)state;
    lab_result first = { 0 };
    for (int threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        lab l;
        lab_open(&l, &small);
        compose_choice c =
            lab_choose(&l, 4, "attention=flash recompute=cheap chunk_loss=256 accumulate=defer");
        lab_result r;
        lab_run(&l, &c, 0, 5, &r);
        if (threads == 1)
            first = r;
        else {
            assert_true(lab_same(&first, &r));
            lab_result_close(&r);
        }
    }
    threads_set(2);
    lab_result_close(&first);
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_technique_alone),
        cmocka_unit_test(early_update_without_clipping),
        cmocka_unit_test(every_optimizer),
        cmocka_unit_test(optimizers_keep_what_they_say),
        cmocka_unit_test(narrow_state_beside_every_technique),
        cmocka_unit_test(narrow_state_is_small_and_near),
        cmocka_unit_test(state_in_a_file_is_the_same),
        cmocka_unit_test(state_in_a_file_takes_its_slots),
        cmocka_unit_test(activations_in_a_file_are_the_same),
        cmocka_unit_test(activations_in_a_file_leave_memory),
        cmocka_unit_test(untied_needs_no_deferring),
        cmocka_unit_test(combined),
        cmocka_unit_test(dropout_draws_the_same),
        cmocka_unit_test(thread_counts_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
