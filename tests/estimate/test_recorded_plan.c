/* Plans of recorded steps: more memory is never slower, promises are what PyTorch takes (peaks are those that
 * tests/cli/planned.py measured of the emitted policies), and ladders are no dearer than any choice. */
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
#include "estimate/recorded/plan_ladder.h"
#include "estimate/recorded/recorded_plan.h"
#include "io/file.h"
#include "io/scratch.h"

#define STEP(name) SNUG_ROOT "/tests/estimate/recorded/" name ".json"

static const hardware device = {
    .f32 = 19.5e12, .f16 = 312e12, .bandwidth = 2e12, .link = 32e9, .call = 10e-6, .workspace = 8 << 20
};

static void open_step(const char *path, recording *r) {
    if (recording_read(path, r) != STATUS_OK) fail_msg("%s", status_message());
}

static plan_request at(const recording *r, int64_t batch, bool cuda) {
    return (plan_request){ .recording = r,
                           .settings = { .batch = batch,
                                         .step = batch,
                                         .context = r->programs[0].lengths.of[0],
                                         .gpus = 1,
                                         .state_bits = 32,
                                         .cuda = cuda },
                           .hardware = &device };
}

static void find(const plan_request *q, recorded_plan *p) {
    if (recorded_plan_find(q, p) != STATUS_OK) fail_msg("%s", status_message());
}

static uint64_t drawn(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static bool lies_within(const char *outer, const char *inner) {
    size_t n = strlen(outer);
    return strncmp(outer, inner, n) == 0 && inner[n] == '.';
}

/* ---- monotone ---- */

static double seconds_within(const recorded_plan *p, uint64_t budget) {
    const plan_way *w = recorded_plan_within(p, budget);
    if (w) assert_true(w->bytes <= budget);
    for (uint32_t i = 0; w && i < p->count; i++)
        if (p->ways[i].bytes <= budget) assert_true(w->seconds <= p->ways[i].seconds);
    return w ? w->seconds : 1e300;
}

static void is_monotone(const recorded_plan *p, uint64_t *seed) {
    uint64_t least = p->ways[0].bytes, most = p->ways[p->count - 1].bytes;
    assert_true(seconds_within(p, least) < 1e300);
    assert_true(seconds_within(p, least - 1) >= 1e300);
    for (int i = 0; i < 200; i++) {
        uint64_t a = least / 2 + drawn(seed) % most, b = a + drawn(seed) % most;
        assert_true(seconds_within(p, b) <= seconds_within(p, a));
    }
}

static void more_memory_is_never_slower(void **state) {
    static const char *const steps[] = { STEP("step_blocks"), STEP("step_plans") };
    uint64_t seed = 7;
    (void)state;
    for (int i = 0; i < 2; i++) {
        recording r;
        open_step(steps[i], &r);
        for (int k = 0; k < 8; k++) {
            recorded_plan p;
            plan_request q = at(&r, (int64_t[]){ 1, 3, 8, 12 }[k / 2], k % 2);
            q.surely = drawn(&seed) % 2;
            find(&q, &p);
            is_monotone(&p, &seed);
            recorded_plan_close(&p);
        }
        recording_close(&r);
    }
}

/* ---- settings that make another step ---- */

static const struct {
    torch_types types;
    int64_t rank, gpus;
    torch_shard shard;
} settings[] = { { TORCH_AUTOCAST, 0, 1, TORCH_ALONE }, { TORCH_HALF, 0, 1, TORCH_ALONE },
                 { TORCH_F32, 4, 1, TORCH_ALONE },      { TORCH_AUTOCAST, 4, 1, TORCH_ALONE },
                 { TORCH_F32, 0, 2, TORCH_DDP },        { TORCH_F32, 0, 2, TORCH_ZERO2 },
                 { TORCH_F32, 0, 2, TORCH_ZERO3 },      { TORCH_F32, 4, 2, TORCH_FSDP },
                 { TORCH_AUTOCAST, 0, 2, TORCH_FSDP } };
enum { SETTINGS = sizeof settings / sizeof *settings };

static plan_request with(const recording *r, int i, bool cuda) {
    plan_request q = at(r, 8, cuda);
    q.settings.types = settings[i].types, q.settings.adapter_rank = settings[i].rank;
    q.settings.gpus = settings[i].gpus, q.settings.shard = settings[i].shard;
    q.settings.step = 8 * settings[i].gpus, q.settings.base_bits = 16;
    q.settings.update_by_rule = settings[i].rank > 0;
    return q;
}

/* Without a choice a plan promises what is estimated of those settings, and never less than is alive; more
 * memory is never slower. */
static void settings_come_first(void **state) {
    uint64_t seed = 5;
    recording r;
    (void)state;
    open_step(STEP("step_plans"), &r);
    for (int k = 0; k < 2 * SETTINGS; k++) {
        recorded_plan p;
        torch_result asked;
        plan_request q = with(&r, k / 2, k % 2);
        find(&q, &p);
        is_monotone(&p, &seed);
        assert_int_equal(recorded_play(&r, &q.settings, &asked), STATUS_OK);
        assert_int_equal(p.plain.live.likely, asked.live.likely);
        assert_int_equal(p.trained, asked.trained);
        for (uint32_t i = 0; i < p.count; i++) {
            assert_true(p.ways[i].bytes >= p.ways[i].live.likely);
            assert_int_equal(p.ways[i].batch * p.ways[i].accumulate, 8);
        }
        assert_true(p.ways[0].bytes < p.plain.bytes);
        recorded_plan_close(&p);
    }
    recording_close(&r);
}

/* With types that are allowed nothing is slower at any budget, less is enough, and without none is another.
 */
static void allowed_types_are_chosen_where_they_help(void **state) {
    recording r;
    recorded_plan alone, allowed;
    uint64_t seed = 3, others = 0;
    (void)state;
    open_step(STEP("step_plans"), &r);
    plan_request q = at(&r, 8, false);
    find(&q, &alone);
    q.types = 1u << TORCH_AUTOCAST | 1u << TORCH_HALF;
    find(&q, &allowed);
    is_monotone(&allowed, &seed);
    for (uint32_t i = 0; i < alone.count; i++) {
        assert_int_equal(alone.ways[i].types, TORCH_F32);
        assert_true(seconds_within(&allowed, alone.ways[i].bytes) <= alone.ways[i].seconds);
    }
    for (uint32_t i = 0; i < allowed.count; i++) others += allowed.ways[i].types != TORCH_F32;
    assert_true(others && allowed.ways[0].bytes < alone.ways[0].bytes);
    assert_int_equal(allowed.plain.bytes, alone.plain.bytes); /* as asked */
    recorded_plan_close(&alone);
    recorded_plan_close(&allowed);
    recording_close(&r);
}

/* Casts that do nothing are none, so plans of both recordings are the same. */
static void without_casts_plans_are_those_of_the_other_recording(void **state) {
    recording plain, cast;
    recorded_plan p, c;
    (void)state;
    open_step(STEP("step_blocks"), &plain);
    open_step(STEP("step_autocast"), &cast);
    plan_request of_plain = at(&plain, 8, false), of_cast = at(&cast, 8, false);
    find(&of_plain, &p);
    find(&of_cast, &c);
    assert_int_equal(p.count, c.count);
    for (uint32_t i = 0; i < p.count; i++) {
        assert_int_equal(p.ways[i].bytes, c.ways[i].bytes);
        assert_memory_equal(p.ways[i].action, c.ways[i].action, plain.modules.count);
    }
    recorded_plan_close(&p);
    recorded_plan_close(&c);
    recording_close(&plain);
    recording_close(&cast);
}

/* A module around several units would gather all their weights once more. */
static void what_has_several_units_does_not_act(void **state) {
    recording r;
    recorded_plan p;
    (void)state;
    open_step(STEP("step_plans"), &r);
    uint32_t *block_of = memory_new(r.modules.count, sizeof *block_of),
             blocks = recorded_blocks(&r, block_of);
    plan_request q = with(&r, SETTINGS - 1, false);
    find(&q, &p);
    assert_true(blocks > 1);
    for (uint32_t i = 0; i < p.count; i++)
        for (uint32_t m = 0; m < r.modules.count; m++)
            for (uint32_t k = m; p.ways[i].action[m] && !block_of[m] && k < r.modules.count; k++)
                if (block_of[k]) assert_false(lies_within(r.modules.of[m], r.modules.of[k]));
    memory_free(block_of);
    recorded_plan_close(&p);
    recording_close(&r);
}

/* ---- what is promised, and what PyTorch took ---- */

static void promises_are_kept(void **state) {
    /* A budget, and the peak of the policy that was emitted for it. */
    static const uint64_t measured[][2] = { { 1190142, 1179340 },
                                            { 1750121, 1743300 },
                                            { 2500802, 2491068 },
                                            { 3514017, 3467704 },
                                            { 6295014, 6270520 } };
    recording r;
    recorded_plan p;
    (void)state;
    open_step(STEP("step_plans"), &r);
    plan_request q = at(&r, 8, false);
    find(&q, &p);
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        const plan_way *w = recorded_plan_within(&p, measured[i][0]);
        assert_non_null(w);
        double promised = (double)w->bytes, took = (double)measured[i][1];
        if (promised < took || promised > 1.02 * took)
            fail_msg("%llu: promised %.0f, and %.0f were measured", (unsigned long long)measured[i][0],
                     promised, took);
    }
    recorded_plan_close(&p);
    recording_close(&r);
}

/* ---- what is chosen ---- */

static uint32_t module_named(const recording *r, const char *name) {
    for (uint32_t m = 0; m < r->modules.count; m++)
        if (strcmp(r->modules.of[m], name) == 0) return m;
    fail_msg("%s", name);
    return 0;
}

static void check_choice(const recording *r, const plan_way *w) {
    assert_int_equal(w->action[0], PLAN_KEEP);
    /* It runs twice, and that changes a buffer. */
    assert_int_equal(w->action[module_named(r, "twice")], PLAN_KEEP);
    assert_int_not_equal(w->action[module_named(r, "counter")], PLAN_AGAIN);
    for (uint32_t a = 0; a < r->modules.count; a++)
        for (uint32_t b = 0; w->action[a] != PLAN_KEEP && b < r->modules.count; b++)
            if (w->action[b] != PLAN_KEEP) assert_false(lies_within(r->modules.of[a], r->modules.of[b]));
}

static void what_may_not_run_again_does_not(void **state) {
    recording r;
    recorded_plan p;
    uint32_t again = 0, away = 0;
    (void)state;
    open_step(STEP("step_plans"), &r);
    plan_request q = at(&r, 8, false);
    find(&q, &p);
    for (uint32_t i = 0; i < p.count; i++) {
        check_choice(&r, &p.ways[i]);
        again += p.ways[i].again, away += p.ways[i].away;
        assert_int_equal(p.ways[i].batch * p.ways[i].accumulate, 8);
        assert_int_equal(p.ways[i].host_bytes > 0, p.ways[i].away > 0);
    }
    assert_true(again > 0 && away > 0);
    recorded_plan_close(&p);
    recording_close(&r);
}

static void the_host_keeps_no_more_than_it_may(void **state) {
    recording r;
    (void)state;
    open_step(STEP("step_plans"), &r);
    for (int i = 0; i < 3; i++) {
        recorded_plan p;
        plan_request q = at(&r, 8, false);
        q.none_away = i == 0, q.most_away = i == 1 ? 300000 : 0;
        find(&q, &p);
        uint64_t most = 0;
        for (uint32_t k = 0; k < p.count; k++)
            if (p.ways[k].host_bytes > most) most = p.ways[k].host_bytes;
        if (i == 0) assert_int_equal(most, 0);
        if (i == 1) assert_in_range(most, 1, 300000);
        if (i == 2) assert_true(most > 300000);
        recorded_plan_close(&p);
    }
    recording_close(&r);
}

/* Where calls cost what they compute, and not to be begun. */
static const hardware computes = { .f32 = 1e10, .f16 = 1e10, .bandwidth = 1e11, .link = 1e8, .call = 1e-9 };

/* With results that stay nothing is slower within any budget, and some are faster. What is changed in place
 * does not stay. */
static void results_stay_where_that_is_faster(void **state) {
    recording r;
    recorded_kinds kinds;
    (void)state;
    open_step(STEP("step_plans"), &r);
    recorded_kinds_find(&r, &kinds);
    for (int cuda = 0; cuda < 2; cuda++) {
        recorded_plan with, without;
        plan_request q = at(&r, 8, cuda);
        uint32_t faster = 0, keeping = 0;
        uint64_t seed = 17;
        q.hardware = &computes;
        find(&q, &with);
        is_monotone(&with, &seed);
        q.none_stays = true;
        find(&q, &without);
        for (uint32_t i = 0; i < without.count; i++) {
            const plan_way *w = &without.ways[i];
            assert_int_equal(w->keeping, 0);
            assert_true(seconds_within(&with, w->bytes) <= w->seconds);
            faster += seconds_within(&with, w->bytes) < w->seconds * 0.999;
        }
        for (uint32_t i = 0; i < with.count; i++)
            for (uint32_t m = 0; m < r.modules.count; m++)
                for (uint32_t k = 0; k < kinds.count; k++) {
                    if (!(with.ways[i].keeps[m] & recorded_kind_bit(k + 1))) continue;
                    keeping++;
                    assert_int_equal(with.ways[i].action[m], PLAN_AGAIN);
                    assert_string_not_equal(kinds.name[k], "empty_like");
                    assert_true(kinds.name[k][strlen(kinds.name[k]) - 1] != '_');
                }
        assert_true(keeping > 0 && faster > 0);
        recorded_plan_close(&with);
        recorded_plan_close(&without);
    }
    recording_close(&r);
}

/* ---- head and loss in pieces ---- */

/* With pieces nothing is slower within any budget, and less is enough. What the steps of these types promise
 * is what is estimated of that many pieces, and the fastest way, which has all the memory it wants, has none.
 */
static void pieces_are_chosen_where_logits_are_the_most(void **state) {
    recording r;
    uint32_t beside = 0; /* ways with pieces and with what only their ladders find */
    (void)state;
    open_step(STEP("step_words"), &r);
    for (int k = 0; k < 4; k++) {
        recorded_plan chosen, whole;
        uint64_t seed = 23;
        uint32_t pieces = 0;
        plan_request q = at(&r, 6, k % 2);
        q.settings.types = k / 2 ? TORCH_AUTOCAST : TORCH_F32;
        find(&q, &chosen);
        is_monotone(&chosen, &seed);
        q.loss_is_pinned = true;
        find(&q, &whole);
        for (uint32_t i = 0; i < whole.count; i++) {
            assert_int_equal(whole.ways[i].pieces, 0);
            assert_true(seconds_within(&chosen, whole.ways[i].bytes) <= whole.ways[i].seconds);
        }
        for (uint32_t i = 0; i < chosen.count; i++) {
            const plan_way *w = &chosen.ways[i];
            torch_settings s = q.settings;
            torch_result asked;
            pieces += w->pieces > 0, beside += w->pieces > 0 && (w->keeping || w->away);
            if (!w->pieces || w->again || w->away || w->accumulate > 1) continue;
            s.loss_chunks = w->pieces;
            assert_int_equal(recorded_play(&r, &s, &asked), STATUS_OK);
            assert_int_equal(w->live.likely, asked.live.likely);
        }
        assert_true(pieces > 0 && chosen.ways[0].bytes < whole.ways[0].bytes);
        assert_int_equal(chosen.ways[chosen.count - 1].pieces, 0);
        assert_int_equal(chosen.plain.bytes, whole.plain.bytes);
        assert_true(chosen.tried <= 4 * whole.tried);
        recorded_plan_close(&chosen);
        recorded_plan_close(&whole);
    }
    assert_true(beside > 0);
    recording_close(&r);
}

static void pieces_that_are_asked_for_stay(void **state) {
    recording r;
    recorded_plan p;
    (void)state;
    open_step(STEP("step_words"), &r);
    plan_request q = at(&r, 6, false);
    q.loss_is_pinned = true, q.settings.loss_chunks = 5;
    find(&q, &p);
    for (uint32_t i = 0; i < p.count; i++) assert_int_equal(p.ways[i].pieces, 5);
    recorded_plan_close(&p);
    recording_close(&r);
}

/* FSDP holds the root's weights from forward to the end of backward, and a unit's for its own call alone. */
static void a_head_that_comes_and_goes_has_no_pieces(void **state) {
    static char unit[] = "blocks.3";
    recording r;
    torch_result out;
    (void)state;
    open_step(STEP("step_words"), &r);
    plan_request q = at(&r, 6, false);
    q.settings.gpus = 2, q.settings.shard = TORCH_FSDP, q.settings.step = 12;
    uint32_t head = module_named(&r, "head");
    char *name = r.modules.of[head];
    for (int i = 0; i < 3; i++) {
        recorded_plan p;
        uint32_t pieces = 0;
        bool is_unit = i == 1, narrow = i == 2;
        r.modules.of[head] = is_unit ? unit : name;
        q.settings.types = narrow ? TORCH_AUTOCAST : TORCH_F32;
        find(&q, &p);
        for (uint32_t k = 0; k < p.count; k++) pieces += p.ways[k].pieces > 0;
        assert_int_equal(pieces > 0, !is_unit);
        recorded_plan_close(&p);
    }
    r.modules.of[head] = unit, q.settings.types = TORCH_F32;
    q.settings.loss_chunks = 4;
    assert_int_equal(recorded_play(&r, &q.settings, &out), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "is gathered with a unit of --shard fsdp"));
    q.settings.shard = TORCH_DDP;
    assert_int_equal(recorded_play(&r, &q.settings, &out), STATUS_OK);
    r.modules.of[head] = name;
    recording_close(&r);
}

static void a_pinned_micro_batch_stays(void **state) {
    recording r;
    recorded_plan p;
    (void)state;
    open_step(STEP("step_plans"), &r);
    plan_request q = at(&r, 8, false);
    q.settings.batch = 2, q.micro_is_pinned = true;
    find(&q, &p);
    for (uint32_t i = 0; i < p.count; i++) assert_int_equal(p.ways[i].batch, 2);
    recorded_plan_close(&p);
    recording_close(&r);
}

/* The recording with a word of it replaced by another as long. */
static void open_changed(const char *from, const char *to, recording *r) {
    char *data;
    uint64_t bytes;
    assert_int_equal(io_read_file(STEP("step_plans"), 1 << 20, &data, &bytes), STATUS_OK);
    char *at_word = memmem(data, bytes, from, strlen(from));
    assert_non_null(at_word);
    memcpy(at_word, to, strlen(to));
    scratch_write("changed.json", data, bytes);
    memory_free(data);
    open_step("changed.json", r);
}

static void batch_norm_sees_the_whole_batch(void **state) {
    recording r;
    recorded_plan p;
    (void)state;
    open_changed("native_layer_norm", "native_batch_norm", &r);
    plan_request q = at(&r, 8, false);
    find(&q, &p);
    assert_true(p.keeps_batch);
    for (uint32_t i = 0; i < p.count; i++) assert_int_equal(p.ways[i].batch, 8);
    recorded_plan_close(&p);
    recording_close(&r);
}

static void without_counts_nothing_runs_again(void **state) {
    recording r;
    recorded_plan p;
    (void)state;
    open_changed("\"entered\"", "\"another\"", &r);
    plan_request q = at(&r, 8, false);
    find(&q, &p);
    assert_false(p.knows_modules);
    for (uint32_t i = 0; i < p.count; i++) assert_true(!p.ways[i].again && !p.ways[i].away);
    recorded_plan_close(&p);
    recording_close(&r);
}

/* ---- ladders beside all choices ---- */

enum { MODULES = 8, KINDS = 3 };

/* A tree of modules with costs that are drawn; "0.1" is within "0". */
typedef struct {
    char names[MODULES][16];
    char *of[MODULES];
    recording r;
    uint32_t parent[MODULES];
    plan_cost again[MODULES], away[MODULES];
    plan_result results[MODULES * KINDS];
    uint64_t keeps[MODULES], draws[MODULES]; /* of the plan_tree */
    plan_tree t;
} small_tree;

/* Kinds of which results may stay; of those that draw all or none do. */
static bool may_stay(const small_tree *x, uint32_t module, uint64_t kinds) {
    uint64_t drawn_here = x->draws[module], stays = kinds & drawn_here;
    return !(kinds & ~x->keeps[module]) && (!stays || stays == drawn_here);
}

static void draw_tree(small_tree *x, uint64_t *seed) {
    memset(x, 0, sizeof *x);
    for (uint32_t m = 0; m < MODULES; m++) {
        x->parent[m] = m ? (uint32_t)(drawn(seed) % m) : 0;
        x->of[m] = x->names[m];
        x->again[m] =
            (plan_cost){ m && drawn(seed) % 4, (double)(drawn(seed) % 9), (double)(drawn(seed) % 9) };
        x->away[m] =
            (plan_cost){ m && drawn(seed) % 4, (double)(drawn(seed) % 9), (double)(drawn(seed) % 9) };
        x->keeps[m] = drawn(seed) % 8, x->draws[m] = drawn(seed) % 8 & drawn(seed);
        for (uint32_t k = 0; k < KINDS; k++) {
            plan_result *r = &x->results[m * KINDS + k];
            *r = (plan_result){ (double)(drawn(seed) % 4), (double)(1 + drawn(seed) % 4) };
            x->again[m].seconds += r->seconds;
        }
    }
    x->r.modules = (recording_texts){ x->of, MODULES, MODULES };
    x->t = (plan_tree){ .recording = &x->r,
                        .parent = x->parent,
                        .again = x->again,
                        .away = x->away,
                        .kinds.count = KINDS,
                        .results = x->results,
                        .keeps = x->keeps,
                        .draws = x->draws };
}

/* Bytes and seconds of actions, and of results that stay; false: one may not be, or lies in another. */
static bool weigh(const small_tree *x, const uint8_t *action, const uint64_t *keeps, double *bytes,
                  double *seconds) {
    *bytes = *seconds = 0;
    for (uint32_t m = 0; m < MODULES; m++) {
        if (action[m] == PLAN_KEEP) continue;
        const plan_cost *c = action[m] == PLAN_AGAIN ? &x->again[m] : &x->away[m];
        if (!c->may) return false;
        for (uint32_t up = m; up; up = x->parent[up])
            if (action[x->parent[up]] != PLAN_KEEP) return false;
        *bytes += c->bytes, *seconds += c->seconds;
        if (action[m] != PLAN_AGAIN || !keeps[m]) continue;
        if (!may_stay(x, m, keeps[m])) return false;
        for (uint32_t k = 0; k < KINDS; k++)
            if (keeps[m] & recorded_kind_bit(k + 1)) {
                *bytes -= x->results[m * KINDS + k].bytes;
                *seconds -= x->results[m * KINDS + k].seconds;
            }
    }
    return true;
}

/* The least seconds by which the ladder saves so many bytes, if it may do the last step in part. */
static double price(const plan_ladder *l, double bytes) {
    const plan_hull *h = &l->of[0];
    for (uint32_t i = 1; i < h->count; i++) {
        const plan_point *a = &h->points[i - 1], *b = &h->points[i];
        if (b->bytes >= bytes)
            return a->seconds + (b->seconds - a->seconds) * (bytes - a->bytes) / (b->bytes - a->bytes);
    }
    return h->points[h->count - 1].bytes >= bytes ? h->points[h->count - 1].seconds : 1e300;
}

/* With each choice, results are drawn that stay. */
static void no_choice_is_below_the_ladder(const small_tree *x, const plan_ladder *l, bool stay,
                                          uint64_t *seed) {
    uint32_t choices = 1;
    for (int m = 0; m < MODULES; m++) choices *= 3;
    for (uint32_t c = 0; c < choices; c++) {
        uint8_t action[MODULES];
        uint64_t keeps[MODULES];
        double bytes, seconds;
        for (uint32_t m = 0, rest = c; m < MODULES; m++, rest /= 3) {
            action[m] = (uint8_t)(rest % 3);
            do keeps[m] = stay && action[m] == PLAN_AGAIN ? drawn(seed) % (1 << KINDS) : 0;
            while (keeps[m] && !may_stay(x, m, keeps[m]));
        }
        if (weigh(x, action, keeps, &bytes, &seconds)) assert_true(price(l, bytes) <= seconds + 1e-9);
    }
}

static void rungs_are_what_they_say(const small_tree *x, const plan_ladder *l) {
    for (uint32_t rung = 0; rung < plan_ladder_rungs(l); rung++) {
        uint8_t action[MODULES];
        uint64_t keeps[MODULES];
        double bytes, seconds;
        assert_int_equal(plan_ladder_rung(l, rung, action, keeps), STATUS_OK);
        for (uint32_t m = 0; m < MODULES; m++) assert_true(action[m] == PLAN_AGAIN || !keeps[m]);
        assert_true(weigh(x, action, keeps, &bytes, &seconds));
        const plan_point *p = &l->of[0].points[rung];
        assert_true(bytes == p->bytes && seconds == p->seconds); /* whole numbers */
    }
}

static void ladders_are_no_dearer_than_any_choice(void **state) {
    uint64_t seed = 11, stayed = 0;
    (void)state;
    for (int i = 0; i < 300; i++) {
        small_tree x;
        plan_ladder l;
        int results = i % 2 ? PLAN_MAY_RESULTS : 0;
        draw_tree(&x, &seed);
        assert_int_equal(plan_ladder_find(&x.t, PLAN_MAY_AGAIN | PLAN_MAY_AWAY | results, 1e9, &l),
                         STATUS_OK);
        rungs_are_what_they_say(&x, &l);
        no_choice_is_below_the_ladder(&x, &l, results != 0, &seed);
        for (uint32_t m = 0; m < MODULES; m++)
            for (uint32_t k = 0; k < l.of[m].count; k++) stayed += l.of[m].points[k].keeps != 0;
        plan_ladder_close(&l);
    }
    assert_true(stayed > 100);
}

/* ---- bad input ---- */

static void counts_of_other_modules_are_refused(void **state) {
    recording r;
    (void)state;
    char *data;
    uint64_t bytes;
    assert_int_equal(io_read_file(STEP("step_plans"), 1 << 20, &data, &bytes), STATUS_OK);
    char *list = memmem(data, bytes, "\"entered\":[1,", 13);
    assert_non_null(list);
    memcpy(list, "\"entered\":[  ", 13);
    scratch_write("changed.json", data, bytes);
    memory_free(data);
    assert_int_equal(recording_read("changed.json", &r), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "how often they run"));
    recording_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_memory_is_never_slower),
        cmocka_unit_test(settings_come_first),
        cmocka_unit_test(allowed_types_are_chosen_where_they_help),
        cmocka_unit_test(without_casts_plans_are_those_of_the_other_recording),
        cmocka_unit_test(what_has_several_units_does_not_act),
        cmocka_unit_test(promises_are_kept),
        cmocka_unit_test(what_may_not_run_again_does_not),
        cmocka_unit_test(the_host_keeps_no_more_than_it_may),
        cmocka_unit_test(results_stay_where_that_is_faster),
        cmocka_unit_test(pieces_are_chosen_where_logits_are_the_most),
        cmocka_unit_test(pieces_that_are_asked_for_stay),
        cmocka_unit_test(a_head_that_comes_and_goes_has_no_pieces),
        cmocka_unit_test(a_pinned_micro_batch_stays),
        cmocka_unit_test(batch_norm_sees_the_whole_batch),
        cmocka_unit_test(without_counts_nothing_runs_again),
        cmocka_unit_test(ladders_are_no_dearer_than_any_choice),
        cmocka_unit_test(counts_of_other_modules_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
