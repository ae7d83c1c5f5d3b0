/* Settings that a recorded step was not recorded with, beside recordings that have them. What steps which
 * really have them take is compared by bench/estimate/recorded_settings.py. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "estimate/recorded/edit.h"
#include "estimate/recorded/recorded_play.h"
#include "estimate/recorded/recorded_rewrite.h"
#include "estimate/recorded/recorded_types.h"
#include "estimate/recorded/recorded_within.h"
#include "estimate/recorded_played.h"
#include "estimate/torch/torch_state.h"

#define SEES STEP("sees")
#define SEES_AUTOCAST STEP("sees_autocast")
#define AUTOCAST STEP("autocast")

/* ---- rewriting ---- */

/* What is opened and written without a wish is the step that was recorded. */
static void a_step_without_a_wish_stays(void **state) {
    recorded_sizes sizes;
    recorded_edit e;
    recording_program out;
    uint64_t *bytes;
    (void)state;
    assert_int_equal(recorded_sizes_find(&golden, 2, 64, false, &sizes), STATUS_OK);
    assert_int_equal(edit_open(&e, &golden, &sizes), STATUS_OK);
    assert_int_equal(edit_write(&e, &out, &bytes), STATUS_OK);
    edit_close(&e);
    const recording_program *p = sizes.program;
    assert_int_equal(out.events.count, p->events.count);
    for (uint32_t i = 0, alive = 0; i < out.events.count; i++) { /* within a call in another order */
        assert_int_equal(out.events.of[i] == 0, p->events.of[i] == 0);
        alive += out.events.of[i] > 0;
        assert_true(alive <= recording_storages(p));
    }
    assert_int_equal(out.operands.count, p->operands.count);
    uint64_t before = 0, after = 0; /* storages are numbered anew */
    for (uint32_t i = 1; i <= recording_storages(p); i++) before += sizes.bytes[i], after += bytes[i];
    assert_true(before == after);
    edit_close_program(&out);
    sizes.program = NULL;
    recorded_sizes_close(&sizes);
    memory_free(bytes);
}

static void are_equal(const recording_column *a, const recording_column *b) {
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) assert_true(a->of[i] == b->of[i]);
}

/* What autograd keeps is written as it was recorded, but for the numbers of storages. */
static void what_is_kept_stays_without_a_wish(const char *path) {
    recording r;
    recorded_sizes sizes;
    recorded_edit e;
    recording_program out;
    uint64_t *bytes;
    assert_int_equal(recording_read(path, &r), STATUS_OK);
    const recording_program *p = &r.programs[0];
    assert_int_equal(recorded_sizes_find(&r, p->batches.of[0], p->lengths.of[0], false, &sizes), STATUS_OK);
    assert_int_equal(edit_open(&e, &r, &sizes), STATUS_OK);
    assert_int_equal(edit_write(&e, &out, &bytes), STATUS_OK);
    assert_true(p->save_at.count && p->visit_module.count);
    are_equal(&out.save_module, &p->save_module);
    are_equal(&out.save_at, &p->save_at);
    are_equal(&out.save_used, &p->save_used);
    are_equal(&out.save_until, &p->save_until);
    are_equal(&out.visit_module, &p->visit_module);
    are_equal(&out.visit_calls, &p->visit_calls);
    are_equal(&out.visit_saves, &p->visit_saves);
    assert_int_equal(out.saved.count, p->saved.count);
    int64_t before = 0, after = 0;
    for (uint32_t i = 0; i < p->left.count; i++) before += p->left.of[i], after += out.left.of[i];
    assert_true(before == after);
    for (uint32_t i = 0; i < p->save_storage.count; i++)
        assert_true(bytes[out.save_storage.of[i]] == sizes.bytes[p->save_storage.of[i]]);
    edit_close(&e);
    edit_close_program(&out);
    recorded_sizes_close(&sizes);
    memory_free(bytes);
    recording_close(&r);
}

static void what_is_kept_stays(void **state) {
    static const char *const steps[] = { STEP("blocks"), AUTOCAST, STEP("nested"), STEP("plans") };
    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) what_is_kept_stays_without_a_wish(steps[i]);
}

/* ---- precision ---- */

/* Casts that do nothing are none: from autocast to f32 it is the step that was recorded in f32. */
static void without_casts_it_is_the_other_recording(void **state) {
    recording r;
    torch_settings s = plain();
    (void)state;
    assert_int_equal(recording_read(AUTOCAST, &r), STATUS_OK);
    assert_int_equal(recorded_types_of(&r), TORCH_AUTOCAST);
    assert_int_equal(recorded_types_of(&golden), TORCH_F32);
    assert_int_equal(peak_of(&r, &s), peak_of(&golden, &s));
    s.checkpointing = true; /* so autograd keeps the same */
    assert_int_equal(peak_of(&r, &s), peak_of(&golden, &s));
    s.checkpointing = false;
    /* gradients that came of a cast are gradients: what is trained, and the states that a rule gives them */
    for (s.state_bits = 8; s.state_bits <= 32; s.state_bits += 24) {
        s.update_by_rule = true;
        torch_result cast = played(&r, &s), whole = played(&golden, &s);
        assert_true(whole.trained && whole.state);
        assert_int_equal(cast.trained, whole.trained);
        assert_int_equal(cast.state, whole.state);
        assert_int_equal(cast.live.likely, whole.live.likely);
    }
    recording_close(&r);
}

/* And by autocast's lists the step of f32 becomes the one that was recorded with it, but for what a CPU's
 * product of 16 bits has within itself, which f32 does not tell. */
enum { within = 13768 };

static void with_casts_it_is_the_other_recording(void **state) {
    recording r;
    torch_settings s = plain();
    (void)state;
    s.types = TORCH_AUTOCAST;
    assert_int_equal(recording_read(AUTOCAST, &r), STATUS_OK);
    assert_int_equal(peak_of(&golden, &s), 754868);
    assert_int_equal(peak_of(&r, &s), 754868 + within);
    recording_program *p = &r.programs[0];
    for (uint32_t i = 0; i < recording_storages(p); i++)
        for (uint32_t k = 0; k < p->batches.count; k++)
            if (strcmp(p->strings.of[p->dtype.of[i]], "uint8") == 0) p->bytes[k].of[i] = 0;
    for (int again = 0; again < 2; again++) { /* autograd keeps the same */
        s.checkpointing = again;
        assert_int_equal(peak_of(&golden, &s), peak_of(&r, &s));
    }
    recording_close(&r);
}

#define ATTENDS STEP("attends")
#define MASKED STEP("masked")
#define MASKED_AUTOCAST STEP("masked_autocast")
#define ATTENDS_AUTOCAST STEP("attends_autocast")

enum { MOST_SEEN = 256 };
typedef struct {
    uint64_t of[MOST_SEEN];
    uint32_t count, to_casts;
} bytes_seen;

/* In forward: copies of weights are made in another order. */
static bool is_looked_at(const recording *r, const recording_program *p, uint32_t call, bool casts) {
    static const char *const names[] = {
        "bmm", "_safe_softmax", "mul.", "nll_loss", "sigmoid", "add.Tensor"
    };
    const char *name = p->strings.of[p->call_name.of[call]];
    bool found = p->phase.of[call] == RECORDING_BACKWARD;
    if (found && !casts && (!strncmp(name, "add.", 4) || !strncmp(name, "_to_copy", 8))) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found |= strncmp(name, names[i], strlen(names[i])) == 0;
    return found || !strcmp(r->classes.of[p->module.of[call]], "AttendingBlock");
}

static bool is_loss(const recording_program *p, uint32_t call) {
    return strncmp(p->strings.of[p->call_name.of[call]], "nll_loss_forward", 16) == 0;
}

/* How much is kept to the end of a cast. */
static uint32_t kept_to_casts(const recording_program *p) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < p->save_until.count; i++) {
        int64_t until = p->save_until.of[i];
        bool ends = until && until <= p->call_name.count;
        found += ends && strncmp(p->strings.of[p->call_name.of[until - 1]], "_to_copy", 8) == 0;
    }
    return found;
}

/* What is there when each call of these, or of backward, has made its results, in order; what makes a
 * kilobyte or less is left out, since a bias's gradient is cast in another place. */
static void see(const recording *r, const recording_program *p, const uint64_t *bytes, bool casts,
                bytes_seen *seen) {
    uint64_t live = 0, before = 0;
    uint32_t call = 0;
    bool waits = false, loss = false;
    for (uint32_t i = 0; i < p->events.count; i++) {
        int64_t e = p->events.of[i];
        if (e <= 0 && waits && (loss || live > before + 1024)) {
            assert_true(seen->count < MOST_SEEN);
            seen->of[seen->count++] = live;
        }
        if (e <= 0) waits = false;
        if (!e) waits = is_looked_at(r, p, call, casts), before = live, loss = is_loss(p, call++);
        if (e > 0) live += bytes[e];
        if (e < 0) live -= bytes[-e];
    }
}

static void see_autocast(const char *path, bool casts, bytes_seen *seen) {
    recording r;
    recorded_sizes sizes;
    recorded_edit e;
    recording_program out;
    uint64_t *bytes;
    assert_int_equal(recording_read(path, &r), STATUS_OK);
    assert_int_equal(recorded_sizes_find(&r, 5, 64, false, &sizes), STATUS_OK);
    assert_int_equal(edit_open(&e, &r, &sizes), STATUS_OK);
    if (!*r.autocast) recorded_retype(&e, TORCH_AUTOCAST, false, true);
    recorded_within_mix(&e);
    assert_int_equal(edit_write(&e, &out, &bytes), STATUS_OK);
    *seen = (bytes_seen){ .to_casts = kept_to_casts(&out) };
    see(&r, &out, bytes, casts, seen);
    edit_close(&e);
    edit_close_program(&out);
    recorded_sizes_close(&sizes);
    memory_free(bytes);
    recording_close(&r);
}

/* What is there by rule and as it was recorded, call for call. */
static void are_alike(const char *from, const char *with, bool casts, uint32_t *to_casts) {
    bytes_seen ruled, recorded;
    see_autocast(from, casts, &ruled);
    see_autocast(with, casts, &recorded);
    *to_casts = recorded.to_casts;
    assert_int_equal(ruled.to_casts, recorded.to_casts);
    assert_int_equal(ruled.count, recorded.count);
    for (uint32_t i = 0; i < ruled.count; i++)
        if (ruled.of[i] > recorded.of[i] + 128 || recorded.of[i] > ruled.of[i] + 128)
            fail_msg("at call %u there are %llu bytes and not %llu", i, (unsigned long long)ruled.of[i],
                     (unsigned long long)recorded.of[i]);
}

/* Attention of several calls, which PyTorch does in f32; a product whose rows are turned, and its bias; a
 * gate of 16 bits upon f32; and the logits' copy. */
static void with_casts_attention_is_the_other_recording(void **state) {
    uint32_t to_casts;
    (void)state;
    are_alike(ATTENDS, ATTENDS_AUTOCAST, true, &to_casts);
    assert_true(to_casts > 0);
}

/* A mask that is trained: its gradient comes in 16 bits, and is cast with those of query, key and value.
 * Where results of casts are added up, autograd may do it in place, which by rule is not known. */
static void with_casts_masks_are_the_other_recording(void **state) {
    uint32_t to_casts;
    (void)state;
    are_alike(MASKED, MASKED_AUTOCAST, false, &to_casts);
}

/* As PyTorch counts them of the step itself (tools/record_step.py), but for a state of random numbers of a
 * CPU's that is there while a module runs again. */
static void attention_takes_what_is_counted(void **state) {
    static const struct {
        int64_t batch;
        bool again;
        uint64_t wide, narrow;
    } counted[] = { { 2, false, 1469428, 1450996 },
                    { 5, false, 3269620, 3189748 },
                    { 2, true, 966580, 981684 - 5056 },
                    { 5, true, 1966452, 1993844 - 5056 } };
    static const char *const paths[] = { ATTENDS, ATTENDS_AUTOCAST };
    uint64_t half[2];
    (void)state;
    for (size_t i = 0; i < 2 * sizeof counted / sizeof *counted; i++) {
        recording r;
        torch_settings s = plain();
        assert_int_equal(recording_read(paths[i % 2], &r), STATUS_OK);
        s.batch = s.step = counted[i / 2].batch, s.checkpointing = counted[i / 2].again;
        assert_int_equal(peak_of(&r, &s), counted[i / 2].wide);
        s.types = TORCH_AUTOCAST;
        assert_int_equal(peak_of(&r, &s), counted[i / 2].narrow);
        s.types = TORCH_HALF; /* not counted: casts that are gone do not shorten what attention holds */
        half[i % 2] = peak_of(&r, &s);
        if (i % 2) assert_int_equal(half[0], half[1]);
        recording_close(&r);
    }
}

/* Autocast casts the mask as well. As PyTorch counts them (tools/record_step.py). */
static void masks_take_what_is_counted(void **state) {
    static const uint64_t counted[][3] = { { 2, 1464024, 1558088 }, { 5, 3138264, 3220040 } };
    recording r;
    (void)state;
    assert_int_equal(recording_read(MASKED, &r), STATUS_OK);
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        torch_settings s = plain();
        s.batch = s.step = (int64_t)counted[i][0];
        assert_int_equal(peak_of(&r, &s), counted[i][1]);
        s.types = TORCH_AUTOCAST;
        assert_int_equal(peak_of(&r, &s), counted[i][2]);
    }
    recording_close(&r);
}

/* What pieces of the loss are given is there until the last one's product is differentiated; counted by
 * PyTorch likewise. */
static void pieces_under_autocast_take_what_is_counted(void **state) {
    static const uint64_t counted[][3] = { { 2, 2, 5690348 }, { 5, 4, 6727660 } };
    recording r;
    (void)state;
    assert_int_equal(recording_read(STEP("words"), &r), STATUS_OK);
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        torch_settings s = plain();
        s.batch = s.step = (int64_t)counted[i][0], s.loss_chunks = (int64_t)counted[i][1];
        s.types = TORCH_AUTOCAST;
        assert_int_equal(peak_of(&r, &s), counted[i][2]);
    }
    recording_close(&r);
}

/* Autocast holds its copies of weights until forward is over, and so to the loss of the last piece; a module
 * that is computed again does not let go of them before. */
static void copies_of_weights_stay_to_the_last_piece(void **state) {
    recording r;
    recorded_sizes sizes;
    recording_program p;
    torch_settings s = plain();
    uint32_t copies = 0, last = 0, at = 0;
    (void)state;
    s.types = TORCH_AUTOCAST, s.loss_chunks = 2;
    assert_int_equal(recording_read(AUTOCAST, &r), STATUS_OK);
    assert_int_equal(recorded_sizes_find(&r, s.batch, s.context, false, &sizes), STATUS_OK);
    assert_int_equal(recorded_rewrite(&r, &s, &sizes, &p), STATUS_OK);
    for (uint32_t call = 1; call <= p.call_name.count; call++)
        if (p.phase.of[call - 1] == RECORDING_FORWARD) last = call;
    for (uint32_t call = 1; call <= p.call_name.count; call++) {
        const int64_t *operands = p.operands.of + at;
        at += (uint32_t)(p.reads.of[call - 1] + p.makes.of[call - 1]);
        bool cast = strcmp(p.strings.of[p.call_name.of[call - 1]], "_to_copy.default") == 0 &&
                    p.phase.of[call - 1] == RECORDING_FORWARD;
        if (!cast || p.role.of[operands[0] - 1] != RECORDING_PARAMETER) continue;
        copies++;
        assert_true(p.left.of[operands[1] - 1] >= last);
    }
    assert_true(copies > 4);
    edit_close_program(&p);
    recorded_sizes_close(&sizes);
    recording_close(&r);
}

/* ---- what a CPU's calls have within themselves ---- */

/* As PyTorch counts them of the step itself (tools/record_step.py), but for a few numbers without dimensions.
 */
static void what_is_within_calls_has_their_types(void **state) {
    static const struct {
        torch_types types;
        uint64_t of_2, of_5;
    } counted[] = { { TORCH_F32, 306260, 521300 },
                    { TORCH_AUTOCAST, 310164, 431508 },
                    { TORCH_HALF, 287424, 399552 } };
    static const char *const paths[] = { SEES, SEES_AUTOCAST };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof counted / sizeof *counted; i++) {
        recording r;
        torch_settings s = plain();
        assert_int_equal(recording_read(paths[i % 2], &r), STATUS_OK);
        s.types = counted[i / 2].types;
        s.context = 1, s.batch = s.step = 2;
        assert_in_range(peak_of(&r, &s), counted[i / 2].of_2 - 32, counted[i / 2].of_2 + 4);
        s.batch = s.step = 5;
        assert_in_range(peak_of(&r, &s), counted[i / 2].of_5 - 32, counted[i / 2].of_5 + 4);
        recording_close(&r);
    }
}

typedef struct {
    uint32_t calls; /* of that name and phase */
    uint64_t bytes; /* what the last of them has within itself */
} within_seen;

/* `name`: "add.Tensor". */
static within_seen see_within(const recording_program *p, const uint64_t *bytes, const char *name,
                              recording_phase in) {
    within_seen seen = { 0 };
    bool is_it = false;
    uint32_t call = 0, *born = memory_new((size_t)p->role.count + 1, sizeof *born);
    assert_non_null(born);
    for (uint32_t i = 0; i < p->events.count; i++) {
        int64_t x = p->events.of[i];
        if (!x) {
            is_it = strcmp(p->strings.of[p->call_name.of[call]], name) == 0 && p->phase.of[call] == (int)in;
            if (is_it) seen.calls++, seen.bytes = 0;
            call++;
        }
        if (x > 0) born[x] = call;
        if (x < 0 && is_it && born[-x] == call) seen.bytes += bytes[-x];
    }
    memory_free(born);
    return seen;
}

static within_seen see_rewritten(const char *path, torch_types types, bool cuda, const char *name,
                                 recording_phase in) {
    recording r;
    recorded_sizes sizes;
    recording_program out;
    torch_settings s = plain();
    assert_int_equal(recording_read(path, &r), STATUS_OK);
    s.context = 1, s.types = types, s.cuda = cuda;
    assert_int_equal(recorded_sizes_find(&r, s.batch, s.context, false, &sizes), STATUS_OK);
    assert_int_equal(recorded_rewrite(&r, &s, &sizes, &out), STATUS_OK);
    within_seen seen = see_within(&out, sizes.bytes, name, in);
    edit_close_program(&out);
    recorded_sizes_close(&sizes);
    recording_close(&r);
    return seen;
}

/* A sum of 16 bits and f32 has a copy of the former in f32 on a CPU; none where both are one type. */
static void where_types_meet_a_cpu_copies(void **state) {
    enum { NUMBERS = 2 * 8 * 16 * 16 }; /* of what the first convolution makes */
    (void)state;
    within_seen narrow = see_rewritten(SEES, TORCH_AUTOCAST, false, "add.Tensor", RECORDING_FORWARD);
    within_seen cuda = see_rewritten(SEES, TORCH_AUTOCAST, true, "add.Tensor", RECORDING_FORWARD);
    within_seen half = see_rewritten(SEES, TORCH_HALF, false, "add.Tensor", RECORDING_FORWARD);
    within_seen wide = see_rewritten(SEES_AUTOCAST, TORCH_F32, false, "add.Tensor", RECORDING_FORWARD);
    assert_int_equal(narrow.calls, 1);
    assert_int_equal(narrow.bytes, 4 * NUMBERS);
    assert_int_equal(cuda.bytes, 0);
    assert_int_equal(half.bytes, 0);
    assert_int_equal(wide.calls, 1);
    assert_int_equal(wide.bytes, 0);
}

/* The two recordings say the same of each other's type. */
static void convolutions_have_what_was_recorded_of_the_other_type(void **state) {
    recording r;
    (void)state;
    assert_int_equal(recording_read(SEES, &r), STATUS_OK);
    assert_true(r.programs[0].within.count > 4);
    recording_close(&r);
    within_seen wide =
        see_rewritten(SEES_AUTOCAST, TORCH_F32, false, "convolution_backward.default", RECORDING_BACKWARD);
    within_seen narrow =
        see_rewritten(SEES, TORCH_AUTOCAST, false, "convolution_backward.default", RECORDING_BACKWARD);
    assert_int_equal(wide.calls, 2);
    assert_int_equal(narrow.calls, 2);
    assert_int_equal(wide.bytes, 16384);
    assert_int_equal(narrow.bytes, 27648);
}

/* As PyTorch counts them (tools/record_step.py): both gradients of what a norm has read twice are there at
 * once, and a norm that reads in f32 for one call alone keeps that copy and what it was of. */
static void norms_add_up_in_f32(void **state) {
    static const struct {
        torch_types types;
        int64_t batch;
        uint64_t bytes;
    } counted[] = {
        { TORCH_F32, 2, 203424 },
        { TORCH_F32, 5, 429216 },
        { TORCH_HALF, 2, 176480 },
        { TORCH_HALF, 5, 401504 },
    };
    recording r;
    (void)state;
    assert_int_equal(recording_read(STEP("normed"), &r), STATUS_OK);
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        torch_settings s = plain();
        s.types = counted[i].types, s.batch = s.step = counted[i].batch;
        assert_int_equal(peak_of(&r, &s), counted[i].bytes);
    }
    recording_close(&r);
}

/* Where a recording does not say whether code widens its logits it is taken to. */
static void what_a_model_casts_itself_widens_the_interval(void **state) {
    torch_settings s = plain();
    recording_program *p = &golden.programs[0];
    (void)state;
    s.types = TORCH_HALF;
    assert_true(p->tells_widened && !p->widened.count);
    torch_result known = played(&golden, &s);
    p->tells_widened = false;
    torch_result out = played(&golden, &s);
    s.narrow_throughout = true;
    torch_result narrow = played(&golden, &s);
    p->tells_widened = true;
    assert_int_equal(known.live.likely, narrow.live.likely);
    assert_true(out.live.likely > narrow.live.likely);
    assert_true(out.live.low <= narrow.live.low);
    assert_int_equal(out.state, out.trained * 4 + 21 * 4); /* two moments of 16 bits, and counters */
}

/* A norm whose code casts nothing computes in the type that it is given; where nobody says, in f32. */
static void norms_are_wide_where_code_says_so(void **state) {
    recording r;
    torch_settings s = plain();
    (void)state;
    assert_int_equal(recording_read(STEP("normed"), &r), STATUS_OK);
    recording_program *p = &r.programs[0];
    uint32_t widened = p->widened.count, widened_for = p->widened_for.count;
    s.types = TORCH_HALF;
    torch_result wide = played(&r, &s);
    p->widened.count = p->widened_for.count = 0;
    torch_result none = played(&r, &s);
    s.narrow_throughout = true;
    assert_true(none.live.likely < wide.live.likely);
    assert_true(none.live.low < wide.live.low);
    assert_int_equal(none.live.likely, peak_of(&r, &s));
    s.narrow_throughout = p->tells_widened = false;
    torch_result unsaid = played(&r, &s);
    assert_true(unsaid.live.likely > none.live.likely);
    assert_true(unsaid.live.low <= none.live.low);
    p->widened.count = widened, p->widened_for.count = widened_for;
    recording_close(&r);
}

/* The logits, or what a copy of them is of. */
static void what_code_widens_is_wide(void **state) {
    torch_settings s = plain();
    recording_program *p = &golden.programs[0];
    uint32_t at = 0, logits = 0;
    (void)state;
    s.types = TORCH_HALF;
    uint64_t narrow = peak_of(&golden, &s);
    for (uint32_t call = 0; call < p->call_name.count && !logits; call++) {
        bool softens = strcmp(p->strings.of[p->call_name.of[call]], "_log_softmax.default") == 0;
        if (softens) logits = (uint32_t)p->operands.of[at];
        at += (uint32_t)(p->reads.of[call] + p->makes.of[call]);
    }
    int64_t said[] = { logits };
    p->widened = (recording_column){ said, 1, 1 };
    uint64_t wide = peak_of(&golden, &s);
    said[0] = 1; /* a weight, behind the product */
    uint64_t other = peak_of(&golden, &s);
    p->widened = (recording_column){ 0 };
    assert_true(logits && wide > narrow);
    assert_int_equal(other, narrow);
}

/* ---- optimizers ---- */

static void gradients_that_go_at_once_are_never_all_there(void **state) {
    torch_settings s = plain();
    (void)state;
    s.context = 8; /* so that weights are most of it */
    torch_result all = played(&golden, &s);
    s.in_backward = s.update_by_rule = true;
    torch_result one = played(&golden, &s);
    assert_true(one.live.likely < all.live.likely);
    assert_int_equal(one.state, 8 * all.trained);
}

static void averages_are_weights_again(void **state) {
    torch_settings s = plain();
    (void)state;
    torch_result without = played(&golden, &s);
    s.averages = true;
    torch_result with = played(&golden, &s);
    assert_int_equal(with.live.likely - without.live.likely, 4 * without.parameters);
    assert_int_equal(with.parameters, without.parameters);
}

static void states_go_by_shape(void **state) {
    torch_settings s = plain();
    torch_weight w = { .rows = 128, .columns = 64, .width = 4, .in_block = true };
    (void)state;
    assert_true(torch_state_of(&s, &w) == 8 * 128 * 64);
    s.matrices = TORCH_MUON;
    assert_true(torch_state_of(&s, &w) == 4 * 128 * 64);
    s.matrices = TORCH_APOLLO;
    assert_true(torch_state_of(&s, &w) == 2 * 4 * 4 * 128);
    s.matrices = TORCH_GALORE;
    assert_true(torch_state_of(&s, &w) == 2 * 4 * 4 * 128 + 4 * 4 * 64);
    w.in_block = false;
    assert_true(torch_state_of(&s, &w) == 8 * 128 * 64);
    s.state_bits = 4;
    assert_true(torch_state_of(&s, &w) == 2 * 128 * 64 * (0.5 + 4.0 / 128));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_without_a_wish_stays),
        cmocka_unit_test(what_is_kept_stays),
        cmocka_unit_test(without_casts_it_is_the_other_recording),
        cmocka_unit_test(with_casts_it_is_the_other_recording),
        cmocka_unit_test(with_casts_attention_is_the_other_recording),
        cmocka_unit_test(with_casts_masks_are_the_other_recording),
        cmocka_unit_test(attention_takes_what_is_counted),
        cmocka_unit_test(masks_take_what_is_counted),
        cmocka_unit_test(pieces_under_autocast_take_what_is_counted),
        cmocka_unit_test(copies_of_weights_stay_to_the_last_piece),
        cmocka_unit_test(what_is_within_calls_has_their_types),
        cmocka_unit_test(where_types_meet_a_cpu_copies),
        cmocka_unit_test(convolutions_have_what_was_recorded_of_the_other_type),
        cmocka_unit_test(norms_add_up_in_f32),
        cmocka_unit_test(what_a_model_casts_itself_widens_the_interval),
        cmocka_unit_test(norms_are_wide_where_code_says_so),
        cmocka_unit_test(what_code_widens_is_wide),
        cmocka_unit_test(gradients_that_go_at_once_are_never_all_there),
        cmocka_unit_test(averages_are_weights_again),
        cmocka_unit_test(states_go_by_shape),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
