/* Recorded steps: peaks are those that PyTorch counted of the steps themselves (tools/record_step.py prints
 * them), and what is no recording is said to be none. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "estimate/recorded/recorded_course.h"
#include "estimate/recorded/recorded_kinds.h"
#include "estimate/recorded/recorded_play.h"
#include "estimate/recorded/recorded_regions.h"
#include "io/file.h"
#include "io/scratch.h"

#define GOLDEN SNUG_ROOT "/tests/estimate/recorded/step_blocks.json"

static void open_golden(recording *r) { assert_int_equal(recording_read(GOLDEN, r), STATUS_OK); }

static torch_settings at(int64_t batch, int64_t length) {
    return (torch_settings){ .batch = batch, .step = batch, .context = length, .gpus = 1, .state_bits = 32 };
}

static uint64_t peak_of(const recording *r, const torch_settings *s) {
    torch_result out;
    assert_int_equal(recorded_play(r, s, &out), STATUS_OK);
    uint64_t whole = 0;
    for (int i = 0; i < TAPE_TERMS; i++) whole += out.by_term[i];
    assert_true(whole == out.live.likely);
    return whole;
}

typedef struct {
    int64_t batch, length;
    bool again;
    uint64_t bytes;
} counted;

static void peaks_are(const recording *r, const counted *c, size_t count, uint64_t within) {
    for (size_t i = 0; i < count; i++) {
        torch_settings s = at(c[i].batch, c[i].length);
        s.checkpointing = c[i].again;
        assert_in_range(peak_of(r, &s), c[i].bytes, c[i].bytes + within);
    }
}

/* Recorded were 2 x 64, 3 x 64 and 2 x 32. */
static const counted of_blocks[] = { { 2, 64, false, 943740 }, { 5, 64, false, 1816628 },
                                     { 2, 48, false, 799100 }, { 7, 96, false, 3438644 },
                                     { 2, 64, true, 686396 },  { 6, 80, true, 1436348 } };

static void peaks_are_those_of_the_steps_themselves(void **state) {
    recording r;
    (void)state;
    open_golden(&r);
    peaks_are(&r, of_blocks, sizeof of_blocks / sizeof *of_blocks, 0);
    recording_close(&r);
}

/* Modules that are computed again within others that are, and one that runs twice. */
static void modules_may_lie_within_one_another(void **state) {
    static const counted of_stages[] = { { 2, 64, false, 2235972 }, { 5, 64, false, 4592636 },
                                         { 2, 48, false, 1844036 }, { 7, 96, false, 8934908 },
                                         { 2, 64, true, 1129028 },  { 6, 80, true, 1907780 } };
    recording r;
    recorded_course c;
    (void)state;
    assert_int_equal(recording_read(SNUG_ROOT "/tests/estimate/recorded/step_nested.json", &r), STATUS_OK);
    assert_int_equal(r.again.count, 9);
    assert_int_equal(recorded_course_find(&r, &r.programs[0], true, NULL, &c), STATUS_OK);
    assert_int_equal(c.depth, 2);
    assert_int_equal(c.blocks, 3 + 3 * 3);
    recorded_course_close(&c);
    peaks_are(&r, of_stages, sizeof of_stages / sizeof *of_stages, 128); /* a gradient of a bias */
    recording_close(&r);
}

/* Of modules that are computed again, with results of some operations that stay. */
typedef struct {
    counted of;
    const char *saves;
} saving;

static void peaks_with_saves_are(const recording *r, const saving *c, size_t count) {
    for (size_t i = 0; i < count; i++) {
        torch_settings s = at(c[i].of.batch, c[i].of.length);
        s.checkpointing = true, s.checkpoint_saves = c[i].saves;
        assert_int_equal(peak_of(r, &s), c[i].of.bytes);
    }
}

static void results_may_stay(void **state) {
    static const char all[] = "mm,native_layer_norm gelu, add";
    static const saving of_each[] = {
        { { 2, 64, true, 842172 }, "mm" },
        { { 6, 80, true, 2112188 }, "addmm" },
        { { 2, 64, true, 793020 }, "gelu" },
        { { 6, 80, true, 1927868 }, "gelu" },
        { { 2, 64, true, 696764 }, "native_layer_norm" },
        { { 6, 80, true, 1566908 }, "native_layer_norm" },
        { { 2, 64, true, 1024444 }, all },
        { { 6, 80, true, 2795708 }, all },
        { { 2, 64, true, 686396 }, "" },
    };
    static const saving of_stages[] = {
        { { 2, 64, true, 1715012 }, "mm" },
        { { 6, 80, true, 4426820 }, "mm" },
        { { 2, 64, true, 1567556 }, "gelu" },
        { { 6, 80, true, 3873860 }, "gelu" },
        { { 2, 64, true, 1182532 }, "native_layer_norm" },
        { { 6, 80, true, 2430020 }, "native_layer_norm" },
        { { 2, 64, true, 2493252 }, all },
        { { 6, 80, true, 7364348 }, all },
    };
    recording r;
    torch_settings s = at(2, 64);
    torch_result out;
    (void)state;
    open_golden(&r);
    peaks_with_saves_are(&r, of_each, sizeof of_each / sizeof *of_each);
    s.checkpointing = true, s.checkpoint_saves = "mm,softplus";
    assert_int_equal(recorded_play(&r, &s, &out), STATUS_INVALID);
    assert_non_null(
        strstr(status_message(), "no operation 'softplus'; it has embedding, native_layer_norm, mm"));
    recording_close(&r);
    assert_int_equal(recording_read(SNUG_ROOT "/tests/estimate/recorded/step_nested.json", &r), STATUS_OK);
    peaks_with_saves_are(&r, of_stages, sizeof of_stages / sizeof *of_stages);
    recording_close(&r);
    assert_int_equal(recording_read(SNUG_ROOT "/tests/estimate/recorded/step_plans.json", &r), STATUS_OK);
    s.context = 48, s.checkpoint_saves = "bernoulli_";
    assert_int_equal(recorded_play(&r, &s, &out), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "changes in place what was to be kept"));
    s.checkpoint_saves = "empty_like";
    assert_int_equal(recorded_play(&r, &s, &out), STATUS_INVALID);
    recording_close(&r);
}

/* More kinds of operations than there is room for: what draws is of a kind wherever it stands, and of the
 * others some are not, which is said. */
static void kinds_beyond_the_room_are_said(void **state) {
    enum { CALLS = RECORDED_MOST_KINDS + 6 };
    static char names[CALLS][RECORDED_KIND_BYTES];
    static char *of[CALLS];
    static int64_t call_names[CALLS], phases[CALLS], makes[CALLS];
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        snprintf(names[i], sizeof names[i], i == CALLS - 1 ? "native_dropout.default" : "kind_%d.default", i);
        of[i] = names[i], call_names[i] = i, phases[i] = RECORDING_FORWARD, makes[i] = 1;
    }
    recording r = { .program_count = 1 };
    r.programs[0].strings = (recording_texts){ of, CALLS, CALLS };
    r.programs[0].call_name = (recording_column){ call_names, CALLS, CALLS };
    r.programs[0].phase = (recording_column){ phases, CALLS, CALLS };
    r.programs[0].makes = (recording_column){ makes, CALLS, CALLS };
    recorded_kinds k;
    uint64_t set;
    recorded_kinds_find(&r, &k);
    assert_true(k.more && k.count == RECORDED_MOST_KINDS && k.draws[0] && k.draws[0] == k.draws[1]);
    assert_int_equal(recorded_kinds_read(&k, "native_dropout,kind_0", &set), STATUS_OK);
    assert_true((set & k.draws[0]) && set != k.draws[0]);
    assert_int_equal(recorded_kinds_read(&k, "kind_68", &set), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "of more kinds none can stay"));
}

/* Where the loss is the most of a step, whole and in pieces: the steps themselves of tools/record_step.py. */
static void the_peak_may_lie_in_the_loss(void **state) {
    static const counted whole[] = { { 2, 64, false, 7764092 },
                                     { 5, 64, false, 15445628 },
                                     { 7, 96, false, 29528444 } };
    static const uint64_t pieces[][3] = { /* samples, pieces, bytes */
                                          { 2, 2, 5864284 },
                                          { 2, 3, 5110972 },
                                          { 5, 4, 7232348 },
                                          { 5, 7, 6012700 }
    };
    recording r;
    (void)state;
    assert_int_equal(recording_read(SNUG_ROOT "/tests/estimate/recorded/step_words.json", &r), STATUS_OK);
    peaks_are(&r, whole, sizeof whole / sizeof *whole, 0);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        torch_settings s = at((int64_t)pieces[i][0], 64);
        s.loss_chunks = (int64_t)pieces[i][1];
        assert_int_equal(peak_of(&r, &s), pieces[i][2]);
    }
    recording_close(&r);
}

/* The gradient of a linear layer's weight is a view, to which autograd adds anew: of a table of words that is
 * the head's weight too both gradients and their sum are there, the most of a step of few tokens. Of a head
 * in pieces the first is a sum already, and the other is added to it in place. */
static void a_tied_weight_is_added_to_anew(void **state) {
    static const uint64_t pieces[][3] = { { 2, 1, 2756312 }, { 2, 2, 2719192 }, { 5, 4, 2817948 } };
    static const counted of_tied[] = {
        { 2, 8, false, 2756312 }, { 5, 8, false, 3091384 }, { 2, 6, false, 2756248 }, { 7, 4, false, 2756504 }
    };
    recording r;
    (void)state;
    assert_int_equal(recording_read(SNUG_ROOT "/tests/estimate/recorded/step_tied.json", &r), STATUS_OK);
    peaks_are(&r, of_tied, sizeof of_tied / sizeof *of_tied, 0);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        torch_settings s = at((int64_t)pieces[i][0], 8);
        s.loss_chunks = (int64_t)pieces[i][1];
        assert_in_range(peak_of(&r, &s), pieces[i][2] - 4, pieces[i][2] + 4); /* a number */
    }
    recording_close(&r);
}

/* Head and loss in pieces of rows, 8 x 48: PyTorch's own of the policies that are emitted for step_plans. */
static void head_and_loss_may_come_in_pieces(void **state) {
    static const uint64_t counts[][2] = { { 4, 5774904 }, { 7, 5766840 } };
    recording r;
    torch_settings s = at(8, 48);
    torch_result out;
    (void)state;
    assert_int_equal(recording_read(SNUG_ROOT "/tests/estimate/recorded/step_plans.json", &r), STATUS_OK);
    uint64_t whole = peak_of(&r, &s);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        s.loss_chunks = (int64_t)counts[i][0];
        assert_int_equal(peak_of(&r, &s), counts[i][1]);
        assert_true(counts[i][1] < whole);
    }
    s.loss_chunks = 4096; /* rows are no more than 384 */
    uint64_t least = peak_of(&r, &s);
    s.loss_chunks = 384;
    assert_int_equal(peak_of(&r, &s), least);
    for (uint32_t i = 0; i < r.programs[0].strings.count; i++)
        if (strcmp(r.programs[0].strings.of[i], "_log_softmax.default") == 0)
            memcpy(r.programs[0].strings.of[i], "_log_sigmoid", 12);
    assert_int_equal(recorded_play(&r, &s, &out), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "is not of a log_softmax"));
    recording_close(&r);
}

/* A bias of zeros wants a gradient only where its blocks are computed again, as T5's: 16 KiB of 2 x 64. */
static void code_may_do_otherwise_where_modules_are_computed_again(void **state) {
    static const counted of_switched[] = { { 2, 64, false, 943740 }, { 5, 64, false, 1816628 },
                                           { 2, 48, false, 799100 }, { 7, 96, false, 3438644 },
                                           { 2, 64, true, 735548 },  { 6, 80, true, 1559228 } };
    recording r;
    (void)state;
    assert_int_equal(recording_read(SNUG_ROOT "/tests/estimate/recorded/step_switched.json", &r), STATUS_OK);
    assert_int_equal(r.program_count, 2);
    peaks_are(&r, of_switched, sizeof of_switched / sizeof *of_switched, 0);
    r.programs[1].switched = false;
    torch_settings s = at(2, 64);
    s.checkpointing = true;
    assert_int_equal(peak_of(&r, &s), 735548 - (2 * 64 * 32 * 4)); /* without such a step */
    recording_close(&r);
}

/* A step whose library was told to compute modules again counts with --gradient-checkpointing alone. */
static void the_librarys_switch_may_make_another_step(void **state) {
    recording r;
    recorded_sizes sizes;
    (void)state;
    open_golden(&r);
    for (int again = 0; again < 2; again++) { /* without such a step the other one counts */
        assert_int_equal(recorded_sizes_find(&r, 2, 64, again, &sizes), STATUS_OK);
        assert_ptr_equal(sizes.program, &r.programs[0]);
        recorded_sizes_close(&sizes);
    }
    r.programs[1] = r.programs[0], r.programs[1].switched = true, r.program_count = 2;
    for (int again = 0; again < 2; again++)
        for (int64_t batch = 2; batch < 6; batch += 3) { /* recorded, and computed */
            assert_int_equal(recorded_sizes_find(&r, batch, 64, again, &sizes), STATUS_OK);
            assert_ptr_equal(sizes.program, &r.programs[again]);
            assert_int_equal(sizes.was_recorded, batch == 2);
            recorded_sizes_close(&sizes);
        }
    r.program_count = 1; /* the second has the columns of the first */
    recording_close(&r);
}

/* Where nothing says what is to be computed again, nothing is. */
static void without_modules_that_repeat_none_is_computed_again(void **state) {
    recording r;
    torch_settings s = at(2, 64);
    (void)state;
    open_golden(&r);
    assert_true(recorded_computes_again(&r));
    uint64_t once = peak_of(&r, &s);
    s.checkpointing = true;
    assert_true(peak_of(&r, &s) < once);
    for (uint32_t i = 0; i < r.modules.count; i++)
        if (strcmp(r.classes.of[i], "ModuleList") == 0) memcpy(r.classes.of[i], "ModuleDict", 10);
    assert_false(recorded_computes_again(&r));
    assert_int_equal(peak_of(&r, &s), once);
    recording_close(&r);
}

/* A recording that does not say what is kept and which modules ran: what calls read tells as much here. */
static void what_is_kept_can_be_guessed(void **state) {
    recording r;
    (void)state;
    open_golden(&r);
    recording_program *p = &r.programs[0];
    p->left.count = p->save_storage.count = p->visit_module.count = 0;
    peaks_are(&r, of_blocks, sizeof of_blocks / sizeof *of_blocks, 0);
    recording_close(&r);
}

/* Autocast holds its copies of weights to the end of forward, which no call says. */
static void copies_of_weights_can_be_guessed(void **state) {
    recording r;
    recorded_holds known, guessed, without;
    uint32_t block_of[64], copies = 0;
    (void)state;
    assert_int_equal(recording_read(SNUG_ROOT "/tests/estimate/recorded/step_autocast.json", &r), STATUS_OK);
    recording_program *p = &r.programs[0];
    assert_int_equal(recorded_blocks_again(&r, block_of), 3);
    assert_int_equal(recorded_holds_find(p, block_of, true, &known), STATUS_OK);
    p->left.count = p->save_storage.count = p->visit_module.count = 0;
    assert_int_equal(recorded_holds_find(p, block_of, true, &guessed), STATUS_OK);
    assert_int_equal(recorded_holds_find(p, block_of, false, &without), STATUS_OK);
    for (uint32_t i = 1; i <= recording_storages(p); i++) {
        if (guessed.left[i] == without.left[i]) continue;
        assert_int_equal(guessed.left[i], known.left[i]);
        copies++;
    }
    assert_true(copies >= 3 * 2);
    recorded_holds_close(&known);
    recorded_holds_close(&guessed);
    recorded_holds_close(&without);
    recording_close(&r);
}

static void items_of_lists_are_blocks(void **state) {
    recording r;
    uint32_t block_of[64];
    (void)state;
    open_golden(&r);
    assert_true(r.modules.count <= 64);
    assert_int_equal(recorded_blocks(&r, block_of), 3);
    for (uint32_t i = 0; i < r.modules.count; i++) {
        int number = -1;
        if (sscanf(r.modules.of[i], "blocks.%d", &number) != 1) number = -1;
        assert_int_equal(block_of[i], number + 1);
    }
    recording_close(&r);
}

/* Modules by name and class, of which each is its own block's number or in one. */
static void is_blocks(const char *const modules[][2], uint32_t count, const uint32_t *expected) {
    char *names[8], *classes[8];
    uint32_t block_of[8], most = 0;
    for (uint32_t i = 0; i < count; i++) {
        names[i] = (char *)(uintptr_t)modules[i][0], classes[i] = (char *)(uintptr_t)modules[i][1];
        if (expected[i] > most) most = expected[i];
    }
    recording r = { .modules = { names, count, count }, .classes = { classes, count, count } };
    assert_int_equal(recorded_blocks(&r, block_of), most);
    assert_memory_equal(block_of, expected, count * sizeof *block_of);
}

static void a_model_may_be_the_list(void **state) {
    (void)state;
    static const char *const equal[][2] = {
        { "", "Sequential" }, { "0", "Block" }, { "0.up", "Linear" }, { "1", "Block" }, { "1.up", "Linear" }
    };
    is_blocks(equal, 5, (const uint32_t[]){ 0, 1, 1, 2, 2 });
    /* With others beside them it is a list within that repeats, or none. */
    static const char *const body[][2] = { { "", "Sequential" }, { "0", "Linear" },  { "1", "Sequential" },
                                           { "1.0", "Block" },   { "1.1", "Block" }, { "2", "Linear" } };
    is_blocks(body, 6, (const uint32_t[]){ 0, 0, 0, 1, 2, 0 });
    static const char *const alone[][2] = { { "", "Block" }, { "0", "Linear" }, { "1", "Linear" } };
    is_blocks(alone, 3, (const uint32_t[]){ 0, 0, 0 });
}

/* A size between two lengths and beyond them lies on their line. */
static void sizes_grow_by_samples_and_tokens(void **state) {
    recording r;
    recorded_sizes recorded, computed;
    (void)state;
    open_golden(&r);
    assert_int_equal(recorded_sizes_find(&r, 3, 64, false, &recorded), STATUS_OK);
    assert_true(recorded.was_recorded);
    assert_int_equal(recorded_sizes_find(&r, 6, 64, false, &computed), STATUS_OK);
    assert_false(computed.was_recorded);
    const recording_program *p = recorded.program;
    for (uint32_t i = 1; i <= recording_storages(p); i++) {
        uint64_t two = (uint64_t)p->bytes[0].of[i - 1], three = recorded.bytes[i];
        assert_int_equal(computed.bytes[i], two + 4 * (three - two));
    }
    recorded_sizes_close(&recorded);
    recorded_sizes_close(&computed);
    recording_close(&r);
}

/* 8 bits: a byte and 4/256 of each of two states, of tensors of 4,096 numbers and more. */
static void an_update_by_rule_has_its_own_states(void **state) {
    recording r;
    torch_result recorded, coded, none;
    torch_settings s = at(2, 64);
    (void)state;
    open_golden(&r);
    assert_int_equal(recorded_play(&r, &s, &recorded), STATUS_OK);
    s.update_by_rule = true, s.state_bits = 8;
    assert_int_equal(recorded_play(&r, &s, &coded), STATUS_OK);
    s.state_bits = 32, s.optimizer = OPTIMIZER_SGD;
    assert_int_equal(recorded_play(&r, &s, &none), STATUS_OK);
    /* AdamW's counter of steps of each of the 21 weights is a state as well */
    assert_int_equal(recorded.state, 8 * recorded.trained + 21 * 4);
    uint64_t large = 6 * 4096, small = recorded.trained - large;
    assert_int_equal(coded.state, 2 * (large + large / 64) + 8 * small);
    assert_int_equal(none.state, 0);
    assert_true(recorded.parameters == recorded.trained && coded.trained == recorded.trained);
    recording_close(&r);
}

/* Gradients of earlier micro-batches are there all the time. */
static void gradients_that_add_up_are_there_in_forward(void **state) {
    recording r;
    torch_settings s = at(2, 64);
    (void)state;
    open_golden(&r);
    uint64_t once = peak_of(&r, &s);
    s.step = 4;
    assert_true(peak_of(&r, &s) > once);
    recording_close(&r);
}

static void reserved_is_at_least_what_is_live(void **state) {
    recording r;
    torch_result out;
    torch_settings s = at(64, 64);
    (void)state;
    open_golden(&r);
    s.cuda = true, s.workspace = 8 << 20;
    assert_int_equal(recorded_play(&r, &s, &out), STATUS_OK);
    assert_true(out.held >= out.live.likely && out.held % (2 << 20) == 0);
    recording_close(&r);
}

/* ---- what is none ---- */

static char text_of_golden[1 << 16];
static size_t golden_bytes;

static void read_golden(void) {
    char *data;
    uint64_t bytes;
    assert_int_equal(io_read_file(GOLDEN, sizeof text_of_golden - 1, &data, &bytes), STATUS_OK);
    memcpy(text_of_golden, data, bytes);
    golden_bytes = bytes;
    memory_free(data);
}

static void is_refused(const char *data, size_t bytes, const char *why) {
    recording r;
    scratch_write("step.json", data, bytes);
    assert_int_equal(recording_read("step.json", &r), STATUS_INVALID);
    if (!strstr(status_message(), why)) fail_msg("%s", status_message());
    recording_close(&r);
}

static void every_cut_is_refused(void **state) {
    (void)state;
    read_golden();
    for (size_t bytes = 0; bytes + 1 < golden_bytes; bytes += 97)
        is_refused(text_of_golden, bytes, "step.json");
}

/* The text with one place of it replaced. */
static void is_refused_with(const char *from, const char *to, const char *why) {
    static char changed[1 << 17];
    read_golden();
    text_of_golden[golden_bytes] = 0;
    char *place = strstr(text_of_golden, from);
    assert_non_null(place);
    size_t before = (size_t)(place - text_of_golden);
    int n =
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)before, text_of_golden, to, place + strlen(from));
    is_refused(changed, (size_t)n, why);
}

static void what_contradicts_itself_is_refused(void **state) {
    (void)state;
    is_refused_with("\"snug_step\":1", "\"snug_step\":2", "version 2 and this snug reads version 1");
    is_refused_with("\"events\":[0,", "\"events\":[0,0,", "more calls than events");
    is_refused_with("\"events\":[0,", "\"events\":[0,-60000,", "not there");
    is_refused_with("\"events\":[0,", "\"events\":[0,1,", "made twice");
    is_refused_with("\"role\":[0,", "\"role\":[9,", "may not stand there");
    is_refused_with("\"role\":[0,", "\"role\":[", "differ in length");
    is_refused_with("\"bytes\":[[", "\"bytes\":[[9223372036854775807,", "may not stand there");
    is_refused_with("\"model\":", "\"modle\":", "not whole");
    is_refused_with("\"runs\":[[2,64],[3,64],[2,32]]", "\"runs\":[]", "no runs");
    is_refused_with("\"strings\":[", "\"string\":[", "no name or type");
    /* what stands for the other type lies behind it, so the last storage has none */
    is_refused_with("\"events\":[0,", "\"within\":[175],\"events\":[0,", "within itself that is not there");
    is_refused_with("\"left\":[", "\"left\":[0,", "what is kept differ in length");
    is_refused_with("\"at\":[0", "\"at\":[600000", "behind a call that is not there");
    is_refused_with("\"visits\":{\"module\":[0", "\"visits\":{\"module\":[600000", "kept that is not there");
    is_refused_with("\"visits\":{\"module\":[0,1,3", "\"visits\":{\"module\":[0,1", "differ in length");
    is_refused_with("\"again\":[]", "\"again\":[600000]", "computed again are not there");
    is_refused_with("\"calls\":[0,17", "\"calls\":[18,17", "ends before it begins");
    is_refused_with("\"widened\":[]", "\"widened\":[60000]", "not there");
    is_refused_with("{\"runs\":", "{\"widened_for\":[1],\"runs\":", "cast for a call comes in pairs");
    is_refused_with("{\"runs\":", "{\"widened_for\":[60000,1],\"runs\":", "not there");
    is_refused_with("{\"runs\":", "{\"widened_for\":[1,60000],\"runs\":", "not there");
    is_refused_with("{\"runs\":", "{\"switched\":1,\"runs\":", "first program is one of modules that are");
    is_refused_with("{\"runs\":", "{\"switched\":2,\"runs\":", "may not stand there");
}

/* One batch does not tell how a step grows, and the sentence says what does. */
static void one_batch_tells_of_no_other(void **state) {
    recording r;
    torch_result out;
    torch_settings s = at(4, 64);
    (void)state;
    open_golden(&r);
    recording_program *p = &r.programs[0];
    p->batches.of[1] = 2, p->lengths.of[1] = 64; /* the same run twice */
    assert_int_equal(recorded_play(&r, &s, &out), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "say --batch 2, or record it with batches=(1, 2, 3)"));
    recording_close(&r);
}

/* One run of 1 x 1, of so many storages of so many bytes. */
static recording_program plain_program(int64_t *bytes, uint32_t storages, int64_t each) {
    static int64_t one = 1;
    recording_program p = { .batches = { &one, 1, 1 },
                            .lengths = { &one, 1, 1 },
                            .role = { bytes, storages, storages },
                            .bytes = { { bytes, storages, storages } } };
    for (uint32_t i = 0; i < storages; i++) bytes[i] = each;
    return p;
}

static void sums_have_a_bound(void **state) {
    enum { STORAGES = 1 << 14 };
    static int64_t bytes[STORAGES];
    static recording r = { .program_count = 1 };
    recorded_sizes sizes;
    (void)state;
    r.programs[0] = plain_program(bytes, STORAGES, 1ll << 45);
    assert_int_equal(recorded_sizes_find(&r, 1, 1, false, &sizes), STATUS_OK);
    recorded_sizes_close(&sizes);
    r.programs[0] = plain_program(bytes, STORAGES, 1ll << 46);
    assert_int_equal(recorded_sizes_find(&r, 1, 1, false, &sizes), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "2^60 bytes or more together"));
    recorded_sizes_close(&sizes);
}

/* Blocks look through storages too, also where there are no events. */
static void work_has_a_bound(void **state) {
    enum { BLOCKS = 1 << 12, STORAGES = 1 << 20 };
    static int64_t bytes[STORAGES];
    static char *names[BLOCKS + 1], *classes[BLOCKS + 1], numbers[BLOCKS][8];
    static char list[] = "Sequential", block[] = "Block", none[] = "";
    recorded_course c;
    (void)state;
    names[0] = none, classes[0] = list;
    for (int i = 0; i < BLOCKS; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%d", i);
        names[i + 1] = numbers[i], classes[i + 1] = block;
    }
    recording r = { .model = list,
                    .modules = { names, BLOCKS + 1, BLOCKS + 1 },
                    .classes = { classes, BLOCKS + 1, BLOCKS + 1 } };
    recording_program p = plain_program(bytes, STORAGES, 1);
    assert_int_equal(recorded_course_find(&r, &p, true, NULL, &c), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "more than a step has"));
    recorded_course_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peaks_are_those_of_the_steps_themselves),
        cmocka_unit_test(modules_may_lie_within_one_another),
        cmocka_unit_test(results_may_stay),
        cmocka_unit_test(the_peak_may_lie_in_the_loss),
        cmocka_unit_test(a_tied_weight_is_added_to_anew),
        cmocka_unit_test(kinds_beyond_the_room_are_said),
        cmocka_unit_test(head_and_loss_may_come_in_pieces),
        cmocka_unit_test(code_may_do_otherwise_where_modules_are_computed_again),
        cmocka_unit_test(the_librarys_switch_may_make_another_step),
        cmocka_unit_test(without_modules_that_repeat_none_is_computed_again),
        cmocka_unit_test(what_is_kept_can_be_guessed),
        cmocka_unit_test(copies_of_weights_can_be_guessed),
        cmocka_unit_test(items_of_lists_are_blocks),
        cmocka_unit_test(a_model_may_be_the_list),
        cmocka_unit_test(sizes_grow_by_samples_and_tokens),
        cmocka_unit_test(an_update_by_rule_has_its_own_states),
        cmocka_unit_test(gradients_that_add_up_are_there_in_forward),
        cmocka_unit_test(reserved_is_at_least_what_is_live),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(what_contradicts_itself_is_refused),
        cmocka_unit_test(one_batch_tells_of_no_other),
        cmocka_unit_test(sums_have_a_bound),
        cmocka_unit_test(work_has_a_bound),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
