/* Recorded steps of one of several devices. What two processes really take is compared by
 * bench/estimate/recorded_shards.py and recorded_plans.py. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "estimate/recorded/edit.h"
#include "estimate/recorded/recorded_rewrite.h"
#include "estimate/recorded_played.h"

/* ---- several devices ---- */

static void buckets_are_gradients_again(void **state) {
    torch_settings s = plain();
    (void)state;
    torch_result alone = played(&golden, &s);
    s.gpus = 2, s.step = 4, s.shard = TORCH_DDP;
    assert_int_equal(peak_of(&golden, &s) - alone.live.likely, 4 * alone.trained);
}

/* A rank of two, and the whole of a block and of the next one. */
static void shares_are_halves(void **state) {
    torch_settings s = plain();
    (void)state;
    torch_result alone = played(&golden, &s);
    s.gpus = 2, s.step = 4, s.shard = TORCH_FSDP;
    torch_result shared = played(&golden, &s);
    assert_true(2 * shared.by_term[TAPE_WEIGHTS] <= alone.by_term[TAPE_WEIGHTS] + 2 * 22);
    assert_true(shared.live.likely < alone.live.likely);
    s.host_keeps = TORCH_KEEPS_ALL;
    torch_result hosted = played(&golden, &s);
    assert_int_equal(hosted.by_term[TAPE_WEIGHTS], 0);
    assert_int_equal(hosted.by_term[TAPE_OPTIMIZER], 0);
    assert_true(hosted.live.likely < shared.live.likely);
}

/* What PyTorch counts of the first of two processes, each with 4 samples (tools/record_step.py): of FSDP each
 * tensor that goes over, in its type; of Python's numbers it may be a little more. */
static void shares_are_those_of_the_steps_themselves(void **state) {
    enum { F32 = TORCH_F32, NARROW = TORCH_AUTOCAST, HALF = TORCH_HALF };
    static const struct {
        const char *path;
        int64_t length;
        torch_shard shard;
        int types, times; /* times: micro-batches */
        uint64_t bytes;
    } counted[] = {
        { "step_blocks", 64, TORCH_DDP, F32, 1, 1636292 },
        { "step_blocks", 64, TORCH_FSDP, F32, 1, 1431640 },
        { "step_blocks", 64, TORCH_FSDP, NARROW, 1, 803404 },
        { "step_blocks", 64, TORCH_FSDP, NARROW, 2, 860400 },
        { "step_blocks", 64, TORCH_FSDP, HALF, 1, 717910 },
        { "step_words", 64, TORCH_DDP, F32, 1, 13766108 },
        { "step_words", 64, TORCH_FSDP, F32, 1, 12343628 },
        { "step_words", 64, TORCH_FSDP, NARROW, 1, 6834648 },
        { "step_words", 64, TORCH_FSDP, NARROW, 2, 7275144 },
        { "step_words", 64, TORCH_FSDP, HALF, 1, 6173904 },
        { "step_tied", 8, TORCH_DDP, F32, 1, 3268312 },
        { "step_tied", 8, TORCH_FSDP, F32, 1, 2421832 },
        { "step_tied", 8, TORCH_FSDP, HALF, 1, 1211212 },
        { "step_tied", 8, TORCH_FSDP, NARROW, 1, 1610244 },
        { "step_normed", 64, TORCH_FSDP, F32, 1, 346016 },
        { "step_normed", 64, TORCH_FSDP, NARROW, 1, 334432 },
        { "step_normed", 64, TORCH_FSDP, NARROW, 2, 342368 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        char path[256];
        recording r;
        torch_settings s = plain();
        snprintf(path, sizeof path, SNUG_ROOT "/tests/estimate/recorded/%s.json", counted[i].path);
        assert_int_equal(recording_read(path, &r), STATUS_OK);
        s.batch = 4, s.context = counted[i].length, s.gpus = 2, s.step = 8 * counted[i].times;
        s.shard = counted[i].shard, s.types = (torch_types)counted[i].types;
        uint64_t told = peak_of(&r, &s), off = counted[i].bytes / 500;
        if (told + off < counted[i].bytes || told > counted[i].bytes + off)
            fail_msg("%s, %d in %d, %d times: %llu and not %llu", counted[i].path, (int)s.shard,
                     counted[i].types, counted[i].times, (unsigned long long)told,
                     (unsigned long long)counted[i].bytes);
        recording_close(&r);
    }
}

/* ---- pieces of the loss beside FSDP ---- */

typedef struct {
    uint32_t casts, cats; /* that make so many bytes of f32; that copy gradients on their way */
    bool gathers_first;   /* weights of a block come before the pieces of the loss are computed again */
} beside_seen;

static beside_seen see_backward(const recording_program *p, const uint64_t *bytes, uint64_t size) {
    beside_seen seen = { 0 };
    bool again = false;
    for (uint32_t call = 0, at = 0; call < p->call_name.count; call++) {
        const char *name = p->strings.of[p->call_name.of[call]];
        uint32_t made = at + (uint32_t)p->reads.of[call];
        at = made + (uint32_t)p->makes.of[call];
        if (p->phase.of[call] != RECORDING_BACKWARD) continue;
        int64_t y = p->makes.of[call] ? p->operands.of[made] : 0;
        bool wide = y && strcmp(p->strings.of[p->dtype.of[y - 1]], "float32") == 0;
        seen.casts += strcmp(name, "_to_copy.default") == 0 && wide && bytes[y] == size;
        seen.cats += strcmp(name, "cat") == 0;
        again |= strcmp(name, "_log_softmax.default") == 0;
        seen.gathers_first |= strcmp(name, "all_gather") == 0 && !again;
    }
    return seen;
}

/* `inside`: as if the model computed its loss. */
static beside_seen see_beside(const torch_settings *s, bool inside) {
    enum { WORDS = 3000, WIDTH = 32 };
    recording r;
    recorded_sizes sizes;
    recording_program out, *p = &r.programs[0];
    torch_settings with = recorded_prepared(s);
    assert_int_equal(recording_read(STEP("words"), &r), STATUS_OK);
    for (uint32_t i = 0; inside && i < p->visit_module.count; i++)
        if (!p->visit_module.of[i]) p->visit_calls.of[2 * i + 1] = p->call_name.count;
    assert_int_equal(recorded_sizes_find(&r, with.batch, with.context, false, &sizes), STATUS_OK);
    assert_int_equal(recorded_rewrite(&r, &with, &sizes, &out), STATUS_OK);
    beside_seen seen = see_backward(&out, sizes.bytes, (uint64_t)4 * WORDS * WIDTH);
    edit_close_program(&out);
    recorded_sizes_close(&sizes);
    recording_close(&r);
    return seen;
}

/* FSDP whose shares are f32 casts the gradient of the head's weight for each piece, before they are added up,
 * and that of the table; a model of 16 bits has no such cast, nor has one that computes its loss. Only of the
 * latter FSDP knows that backward begins. A CPU copies what it sends in another type. */
static void gradients_of_pieces_are_cast_beside_fsdp(void **state) {
    enum { PIECES = 4, BLOCKS = 3, OF_A_BLOCK = 6, OF_THE_ROOT = 3 };
    torch_settings s = plain();
    (void)state;
    s.gpus = 2, s.step = 4, s.shard = TORCH_FSDP, s.loss_chunks = PIECES, s.types = TORCH_AUTOCAST;
    beside_seen outside = see_beside(&s, false), inside = see_beside(&s, true);
    assert_int_equal(outside.casts, PIECES + 1);
    assert_int_equal(inside.casts, 0);
    assert_true(inside.gathers_first && !outside.gathers_first);
    assert_int_equal(outside.cats, BLOCKS * OF_A_BLOCK);
    assert_int_equal(inside.cats, BLOCKS * OF_A_BLOCK + OF_THE_ROOT);
    s.cuda = true;
    assert_int_equal(see_beside(&s, true).cats, 0);
    s.cuda = false, s.types = TORCH_HALF;
    assert_int_equal(see_beside(&s, false).casts, 0);
}

/* The emitted policy, on two processes with 4 samples each, takes 3786936. */
static void pieces_beside_fsdp_take_what_is_counted(void **state) {
    recording r;
    torch_settings s = plain();
    (void)state;
    assert_int_equal(recording_read(STEP("words"), &r), STATUS_OK);
    s.batch = 4, s.step = 8, s.gpus = 2, s.shard = TORCH_FSDP, s.loss_chunks = 4, s.types = TORCH_AUTOCAST;
    assert_in_range(peak_of(&r, &s), 3786936, 3786940);
    recording_close(&r);
}

/* What is given in f32 stays beside its copy of 16 bits, which the model's calls read, in backward too. */
static void inputs_are_cast_beside_themselves(void **state) {
    enum { NUMBERS = 2 * 3 * 16 * 16 };
    recording r;
    recorded_sizes sizes;
    recording_program out;
    torch_settings s = plain();
    uint32_t casts = 0, others = 0, at = 0;
    (void)state;
    assert_int_equal(recording_read(STEP("sees"), &r), STATUS_OK);
    s.context = 1, s.gpus = 2, s.step = 4, s.shard = TORCH_FSDP, s.types = TORCH_AUTOCAST;
    torch_settings with = recorded_prepared(&s);
    assert_int_equal(recorded_sizes_find(&r, with.batch, with.context, false, &sizes), STATUS_OK);
    assert_int_equal(recorded_rewrite(&r, &with, &sizes, &out), STATUS_OK);
    for (uint32_t call = 0; call < out.call_name.count; call++) {
        bool cast = strcmp(out.strings.of[out.call_name.of[call]], "_to_copy.default") == 0;
        for (int64_t k = 0; k < out.reads.of[call]; k++) {
            int64_t x = out.operands.of[at + k];
            if (out.role.of[x - 1] != RECORDING_INPUT || sizes.bytes[x] != 4 * NUMBERS) continue;
            casts += cast, others += !cast;
        }
        at += (uint32_t)(out.reads.of[call] + out.makes.of[call]);
    }
    assert_int_equal(casts, 1);
    assert_int_equal(others, 0);
    edit_close_program(&out);
    recorded_sizes_close(&sizes);
    recording_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_are_gradients_again),
        cmocka_unit_test(shares_are_halves),
        cmocka_unit_test(shares_are_those_of_the_steps_themselves),
        cmocka_unit_test(gradients_of_pieces_are_cast_beside_fsdp),
        cmocka_unit_test(pieces_beside_fsdp_take_what_is_counted),
        cmocka_unit_test(inputs_are_cast_beside_themselves),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
