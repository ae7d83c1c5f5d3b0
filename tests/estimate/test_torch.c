/* PyTorch's rules: single calls of the tape, the caching allocator on sequences worked out by hand, and whole
 * training steps as PyTorch's own CPU allocator counted them (bench/estimate/points_cpu.csv). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "estimate/hardware_files.h"
#include "estimate/small.h"
#include "estimate/torch/allocator.h"
#include "estimate/torch/torch_calls.h"
#include "estimate/torch/torch_process.h"
#include "estimate/torch/torch_sums.h"
#include "io/model_config.h"
#include "io/published.h"

#define MIB (UINT64_C(1) << 20)
#define BENCH SNUG_ROOT "/bench/estimate/"

/* ---- the tape ---- */

static uint64_t peak_of(small *x, const tape_settings *s) {
    tape_result r;
    assert_int_equal(tape_play(&x->t, s, &r), STATUS_OK);
    uint64_t sum = 0;
    for (int k = 0; k < TAPE_TERMS; k++) sum += r.at_peak[k];
    assert_true(sum == r.peak);
    tape_close(&x->t);
    return r.peak;
}

/* x (100 numbers) times w (100): out 100. Backward: what is kept, the gradient of out, then those of x and w.
 */
static void a_product_keeps_what_its_gradients_read(void **state) {
    (void)state;
    for (int trained = 0; trained < 2; trained++) {
        small x;
        small_open(&x, (torch_settings){ 0 });
        tape_value in = small_source(&x, 100, 4, TAPE_ACTIVATIONS, true),
                   w = small_source(&x, 100, 4, TAPE_WEIGHTS, trained);
        tape_value y = torch_linear(&x.r, in, w, 0, 10);
        assert_int_equal(torch_elements(&x.r, y), 100);
        const tape_call *c = (tape_call *)x.t.calls.data + 1;
        assert_int_equal(c->keeps_in, trained ? 3 : 2); /* x for w's gradient, w for x's */
        /* w, y's gradient and x's; and, where it is trained, w's */
        assert_true(peak_of(&x, &(tape_settings){ 0 }) == (trained ? 1600u : 1200u));
    }
}

static void autocast_keeps_its_copies_of_weights(void **state) {
    (void)state;
    small x;
    small_open(&x, (torch_settings){ .types = TORCH_AUTOCAST });
    tape_value w = small_source(&x, 64, 4, TAPE_WEIGHTS, true),
               frozen = small_source(&x, 64, 4, TAPE_WEIGHTS, false);
    tape_value once = torch_weight_to(&x.r, w, 2);
    assert_int_equal(torch_weight_to(&x.r, w, 2), once);
    assert_true(torch_weight_to(&x.r, frozen, 2) != torch_weight_to(&x.r, frozen, 2));
    assert_true(tape_at(&x.t, once)->held);
    tape_close(&x.t);
}

static void a_sum_hands_on_one_gradient(void **state) {
    (void)state;
    small x;
    small_open(&x, (torch_settings){ 0 });
    tape_value a = small_source(&x, 100, 4, TAPE_ACTIVATIONS, true),
               b = small_source(&x, 100, 4, TAPE_ACTIVATIONS, true);
    torch_sum(&x.r, a, b);
    assert_true(peak_of(&x, &(tape_settings){ 0 }) == 400);
}

/* Products that no 64 bits hold are not multiplied out; what has so many numbers fails. */
/* A weight that two calls read, as tied ones are: both gradients are there while they are added up, and
 * where the sum is made anew a third. What was there before the step is added to in place. */
static void tied_gradients_stand_beside_their_sum(void **state) {
    (void)state;
    for (int anew = 0; anew < 2; anew++) {
        small x;
        tape_result r;
        tape_settings s = { .adds_anew = anew };
        small_open(&x, (torch_settings){ 0 });
        tape_value w = small_source(&x, 1000, 4, TAPE_WEIGHTS, true);
        tape_value y = torch_call(&x.r, (tape_call){ .in = { w } }, 1, 4);
        torch_call(&x.r, (tape_call){ .in = { y, w } }, 1, 4);
        assert_int_equal(tape_play(&x.t, &s, &r), STATUS_OK);
        assert_int_equal(r.at_peak[TAPE_GRADIENTS], (2 + anew) * 4000);
        tape_close(&x.t);
    }
}

static void sizes_beyond_counting_fail(void **state) {
    (void)state;
    small x;
    small_open(&x, (torch_settings){ 0 });
    assert_true(torch_count(3, 5, 7) == 105);
    assert_true(torch_count(INT64_C(1) << 30, INT64_C(1) << 30, INT64_C(1) << 30) == TAPE_MOST);
    small_source(&x, TAPE_MOST - 1, 4, TAPE_ACTIVATIONS, false);
    assert_int_equal(x.t.failed, STATUS_OK);
    small_source(&x, TAPE_MOST, 4, TAPE_ACTIVATIONS, false);
    assert_int_equal(x.t.failed, STATUS_INVALID);
    tape_close(&x.t);
}

static void masks_take_a_byte_or_a_number(void **state) {
    (void)state;
    for (int cuda = 0; cuda < 2; cuda++) {
        small x;
        small_open(&x, (torch_settings){ .cuda = cuda });
        tape_value a = small_source(&x, 100, 4, TAPE_ACTIVATIONS, true);
        torch_drop(&x.r, a, 0.1);
        assert_true(((tape_call *)x.t.calls.data + 1)->kept == (cuda ? 100u : 400u));
        assert_int_equal(torch_drop(&x.r, a, 0), a);
        tape_close(&x.t);
    }
}

/* ---- the caching allocator ---- */

static void segments_are_shared_split_and_joined(void **state) {
    (void)state;
    allocator a;
    assert_int_equal(allocator_open(&a), STATUS_OK);
    uint32_t tiny = allocator_take(&a, 1, 0); /* 512 bytes of 2 MiB */
    assert_true(a.reserved == 2 * MIB);
    uint32_t other = allocator_take(&a, MIB, 0);
    assert_true(a.reserved == 2 * MIB);
    uint32_t third = allocator_take(&a, MIB, 0); /* no room: 512 bytes are missing */
    assert_true(a.reserved == 4 * MIB);
    allocator_give(&a, third), allocator_give(&a, other), allocator_give(&a, tiny);
    uint32_t middle = allocator_take(&a, 3 * MIB, 0); /* of a segment of 20 MiB */
    assert_true(a.reserved == 24 * MIB);
    uint32_t rest = allocator_take(&a, 9 * MIB, 0);
    assert_true(a.reserved == 24 * MIB);
    uint32_t large = allocator_take(&a, 11 * MIB + 1, 0); /* of its own, rounded up to 2 MiB */
    assert_true(a.reserved == 36 * MIB);
    allocator_give(&a, middle), allocator_give(&a, rest);
    uint32_t whole = allocator_take(&a, 20 * MIB, 0); /* joined again */
    assert_true(a.reserved == 36 * MIB);
    allocator_give(&a, large);
    uint32_t again = allocator_take(&a, 11 * MIB, 0);
    assert_true(a.reserved == 36 * MIB && again && whole);
    assert_false(a.failed);
    allocator_close(&a);
}

/* One segment that grows by pages of 20 MiB; what was freed before its end is taken first, then the end;
 * small requests and other streams have segments of their own; a full device reserves what is taken. */
static void expandable_segments_grow_at_their_end(void **state) {
    (void)state;
    allocator a;
    assert_int_equal(allocator_open(&a), STATUS_OK);
    a.expandable = true;
    uint32_t one = allocator_take(&a, 30 * MIB, 0), two = allocator_take(&a, 15 * MIB, 0);
    assert_int_equal(a.reserved, 60 * MIB); /* 40, of which 10 were left, and 20 */
    allocator_give(&a, one);
    uint32_t three = allocator_take(&a, 10 * MIB, 0); /* from the first 30, although the end has 15 */
    assert_int_equal(a.reserved, 60 * MIB);
    uint32_t four = allocator_take(&a, 15 * MIB, 0), five = allocator_take(&a, 20 * MIB, 0);
    assert_int_equal(a.reserved, 80 * MIB);
    assert_int_equal(a.taken, 60 * MIB);
    uint32_t tiny = allocator_take(&a, 1, 0), other = allocator_take(&a, 2 * MIB, 1);
    assert_int_equal(a.reserved, 102 * MIB);
    allocator_give(&a, two), allocator_give(&a, tiny), allocator_give(&a, other);
    a.limit = 110 * MIB;
    uint32_t most = allocator_take(&a, 70 * MIB, 0);
    assert_int_equal(a.reserved, 45 * MIB + 70 * MIB);
    allocator_give(&a, three), allocator_give(&a, four), allocator_give(&a, five), allocator_give(&a, most);
    assert_int_equal(a.taken, 0);
    allocator_close(&a);
}

/* Each segment lies below those before it, and of those that fit as well as each other the one at the lowest
 * address is taken, whichever went last. */
static void equals_are_taken_from_low_addresses(void **state) {
    (void)state;
    allocator a;
    assert_int_equal(allocator_open(&a), STATUS_OK);
    uint32_t high = allocator_take(&a, 12 * MIB, 0), low = allocator_take(&a, 12 * MIB, 0);
    uint32_t larger = allocator_take(&a, 14 * MIB, 0);
    allocator_give(&a, low), allocator_give(&a, larger), allocator_give(&a, high);
    assert_int_equal(allocator_take(&a, 12 * MIB, 0), low);
    assert_int_equal(allocator_take(&a, 12 * MIB, 0), high);
    assert_int_equal(allocator_take(&a, 12 * MIB, 0), larger);
    assert_true(a.reserved == 38 * MIB);
    allocator_close(&a);
}

/* What one stream has let go is not for another, pieces of its segments neither. */
static void streams_have_blocks_of_their_own(void **state) {
    (void)state;
    allocator a;
    assert_int_equal(allocator_open(&a), STATUS_OK);
    uint32_t first = allocator_take(&a, 3 * MIB, 0); /* of 20 MiB */
    allocator_give(&a, first);
    uint32_t other = allocator_take(&a, 3 * MIB, 1);
    assert_true(a.reserved == 40 * MIB && other);
    assert_true(allocator_take(&a, 16 * MIB, 1) && a.reserved == 40 * MIB); /* 17 of its own are left */
    assert_true(allocator_take(&a, 20 * MIB, 0) && a.reserved == 40 * MIB);
    allocator_close(&a);
}

static void a_full_device_gets_free_segments_back(void **state) {
    (void)state;
    allocator a;
    assert_int_equal(allocator_open(&a), STATUS_OK);
    a.limit = 100 * MIB;
    uint32_t first = allocator_take(&a, 40 * MIB, 0), second = allocator_take(&a, 40 * MIB, 0);
    allocator_give(&a, first);
    assert_true(a.reserved == 80 * MIB);
    uint32_t large = allocator_take(&a, 50 * MIB, 0); /* 130 would be too much: the first goes */
    assert_true(a.reserved == 90 * MIB && a.most == 90 * MIB && large && second);
    uint32_t more = allocator_take(&a, 50 * MIB, 0); /* there is nothing to give back: it is said as it is */
    assert_true(a.reserved == 140 * MIB && a.most == 140 * MIB && more);
    assert_false(a.failed);
    allocator_close(&a);
}

/* ---- whole steps ---- */

static const struct {
    const char *name;
    torch_settings settings;
} measured[] = {
    { "f32", { .update = TORCH_FOREACH } },
    { "eager", { .attention = TORCH_EAGER, .update = TORCH_SINGLE } },
    { "autocast", { .types = TORCH_AUTOCAST, .update = TORCH_FOREACH } },
    { "half", { .types = TORCH_HALF, .attention = TORCH_EAGER, .update = TORCH_FOREACH } },
    { "checkpointing", { .checkpointing = true, .update = TORCH_SINGLE } },
};

static torch_settings settings_of(const char *name) {
    torch_settings s = { 0 };
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        if (strcmp(measured[i].name, name) == 0) s = measured[i].settings;
    s.transformers = true, s.state_bits = 32, s.batch = 4, s.context = 256, s.gpus = 1;
    return s;
}

static void steps_are_what_pytorch_counted(void **state) {
    (void)state;
    FILE *f = fopen(BENCH "points_cpu.csv", "r");
    char line[512], name[64], settings[64], path[256];
    unsigned long long bytes;
    int points = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        model_config c;
        model m;
        torch_result r;
        if (sscanf(line, "%63[^,],%63[^,],live,%llu", name, settings, &bytes) != 3) continue;
        snprintf(path, sizeof path, BENCH "models/%s.json", name);
        assert_int_equal(model_config_read(path, &c, NULL), STATUS_OK);
        families_model(&c, name, &m);
        torch_settings s = settings_of(settings);
        assert_int_equal(torch_estimate(&m, &s, &r), STATUS_OK);
        double ratio = (double)r.live.likely / (double)bytes;
        double bound = m.context ? 0.005 : 0.015; /* oneDNN's own buffers, which only CPUs have */
        if (m.masks && !s.checkpointing) bound = 0.0005;
        if (!(fabs(ratio - 1) < bound))
            fail_msg("%s %s: estimate over measured is %.4f", name, settings, ratio);
        assert_true(r.live.low <= bytes && bytes <= r.live.high);
        points++;
    }
    fclose(f);
    assert_true(points >= 249);
}

/* ---- published models ---- */

/* What their files say is what their builders make. */
static void published_models_have_the_parameters_that_they_say(void **state) {
    (void)state;
    for (const published_model *p = published_models; p->name; p++) {
        model_config c;
        const char *name;
        model m;
        graph g;
        model_ports ports;
        double count = 0;
        if (!published_find(p->name, &c, &name)) fail_msg("%s: %s", p->name, status_message());
        families_model(&c, name, &m);
        assert_int_equal(graph_open(&g), STATUS_OK);
        m.build(&m, &g, &(model_run){ .mode = MODEL_TRAIN, .batch = 1, .context = m.context ? 8 : 0 },
                &ports);
        if (graph_status(&g) != STATUS_OK) fail_msg("%s: %s", p->name, status_message());
        for (tensor_id t = 1; t < g.tensors.count; t++)
            if (graph_tensor(&g, t)->role == ROLE_PARAMETER && !graph_tensor(&g, t)->producer)
                count += (double)shape_elements(graph_shape(&g, t));
        if (count != published_parameters(p)) fail_msg("%s has %.0f", p->name, count);
        graph_close(&g);
    }
}

static void published_models_have_the_sizes_of_their_names(void **state) {
    (void)state;
    for (const published_model *p = published_models; p->name; p++) {
        model_config c;
        const char *name;
        assert_true(published_find(p->name, &c, &name));
        assert_string_equal(name, p->name);
        if (families_check(&c) != STATUS_OK) fail_msg("%s: %s", p->name, status_message());
        const char *size = strrchr(p->name, '-');
        double said =
            size ? strtod(size + 1, NULL) * (strchr(size, 'm') && !strstr(size, "mini") ? 1e6 : 1e9) : 0;
        double has = published_parameters(p) / said;
        if (c.family != FAMILY_DECODER || c.decoder.experts.count)
            continue; /* their names are of parts; tests/models has what they have */
        if (said > 0 && !(has > 0.6 && has < 1.55)) fail_msg("%s has %g of its name's size", p->name, has);
    }
    model_config c;
    const char *name;
    assert_true(published_find("7B", &c, &name));
    assert_true(published_find("70b", &c, &name));
    assert_non_null(strstr(name, "70b"));
    assert_false(published_find("7", &c, &name));
    assert_false(published_find("B", &c, &name));
    assert_false(published_find("1e99B", &c, &name));
}

/* What a technique saves has the right sign, and several devices hold less each. */
static void settings_go_the_right_way(void **state) {
    (void)state;
    model_config c;
    const char *name;
    model m;
    torch_result plain, r;
    assert_true(published_find("llama-3.2-1b", &c, &name));
    families_model(&c, name, &m);
    torch_settings base = { .transformers = true,
                            .cuda = true,
                            .types = TORCH_AUTOCAST,
                            .attention = TORCH_EAGER,
                            .state_bits = 32,
                            .batch = 2,
                            .context = 2048,
                            .gpus = 1 };
    torch_settings less[7];
    for (int i = 0; i < 7; i++) less[i] = base;
    less[0].attention = TORCH_FLASH;
    less[1].checkpointing = true;
    less[2].fused_loss = true;
    less[3].state_bits = 8;
    less[4].adapter_rank = 8, less[4].base_bits = 16;
    less[5].adapter_rank = 8, less[5].base_bits = 4;
    less[6].gpus = 8, less[6].shard = TORCH_FSDP;
    assert_int_equal(torch_estimate(&m, &base, &plain), STATUS_OK);
    assert_true(plain.reserved.likely >= plain.live.likely && plain.parameters > 1200000000u);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(torch_estimate(&m, &less[i], &r), STATUS_OK);
        if (r.live.likely >= plain.live.likely) fail_msg("setting %d saves nothing", i);
    }
}

/* ---- sums over rows ---- */

/* As measured on an H100 (bench/results/gpu_trace.md), in bytes; and by the formula that is given there. */
static void sums_take_what_was_measured(void **state) {
    (void)state;
    torch_settings s = { .cuda = true, .multiprocessors = 132, .threads = 2048 };
    static const struct {
        int64_t rows, columns;
        double mib;
    } cases[] = { { 1024, 256, 2 },    { 1024, 4096, 32 },   { 8192, 768, 48 },
                  { 8192, 3072, 132 }, { 12608, 768, 73.9 }, { 16384, 30522, 59.6 },
                  { 16384, 768, 96 },  { 1020, 768, 0 },     { 8192, 200 * 4096, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double bytes = (double)torch_sum_buffer(&s, cases[i].rows, cases[i].columns);
        if (fabs(bytes / (double)MIB - cases[i].mib) > 0.05)
            fail_msg("%lld x %lld: %g", (long long)cases[i].rows, (long long)cases[i].columns, bytes);
    }
    for (int64_t rows = 1100; rows < 40000; rows += 997)
        for (int64_t columns = 128; columns < 60000; columns += 1236) {
            int64_t blocks = (columns + 127) / 128, shared = (132 * 16 + blocks - 1) / blocks,
                    parts = shared < (rows + 63) / 64 ? shared : (rows + 63) / 64;
            if (parts < (rows + 1023) / 1024) parts = (rows + 1023) / 1024;
            uint64_t bytes = parts < 2 || blocks > 132 * 16 ? 0 : (uint64_t)(512 * columns * parts);
            assert_int_equal(torch_sum_buffer(&s, rows, columns), bytes);
        }
    s.cuda = false;
    assert_int_equal(torch_sum_buffer(&s, 8192, 3072), 0);
}

/* ---- beside the allocator ---- */

/* As bench/results/gpu.md has it of an H100, in MiB: 751 at the least and 771 at most with modules loaded
 * when they are called, 1,839 to 1,863 with all loaded, and 496 more for a communicator. */
static void a_process_takes_what_was_measured(void **state) {
    (void)state;
    hardware h;
    assert_int_equal(hardware_find("h100-80", &h), STATUS_OK);
    for (int images = 0; images < 2; images++) {
        interval alone = torch_process(images, 1, false), many = torch_process(images, 8, false);
        uint64_t likely = h.context[1] + alone.likely;
        assert_true(h.context[0] + alone.low < 751 * MIB && h.context[2] + alone.high > 1863 * MIB);
        assert_true(images ? likely >= 751 * MIB && likely <= 771 * MIB : likely / MIB == 751);
        assert_true(many.low < alone.low + 496 * MIB && alone.high + 496 * MIB < many.high);
        assert_true(many.likely > alone.likely + 300 * MIB && many.likely < alone.likely + 600 * MIB);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_product_keeps_what_its_gradients_read),
                                        cmocka_unit_test(autocast_keeps_its_copies_of_weights),
                                        cmocka_unit_test(a_sum_hands_on_one_gradient),
                                        cmocka_unit_test(tied_gradients_stand_beside_their_sum),
                                        cmocka_unit_test(sizes_beyond_counting_fail),
                                        cmocka_unit_test(masks_take_a_byte_or_a_number),
                                        cmocka_unit_test(segments_are_shared_split_and_joined),
                                        cmocka_unit_test(expandable_segments_grow_at_their_end),
                                        cmocka_unit_test(equals_are_taken_from_low_addresses),
                                        cmocka_unit_test(streams_have_blocks_of_their_own),
                                        cmocka_unit_test(a_full_device_gets_free_segments_back),
                                        cmocka_unit_test(steps_are_what_pytorch_counted),
                                        cmocka_unit_test(published_models_have_the_parameters_that_they_say),
                                        cmocka_unit_test(published_models_have_the_sizes_of_their_names),
                                        cmocka_unit_test(sums_take_what_was_measured),
                                        cmocka_unit_test(a_process_takes_what_was_measured),
                                        cmocka_unit_test(settings_go_the_right_way) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
