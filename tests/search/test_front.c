/* A wish is answered by points of the whole front (tests/run/test_wider.c compares that with planning
 * everything); what outlining says of a choice is a bound; and how much is looked at for an answer is known.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "base/memory.h"
#include "base/threads.h"
#include "chain/known.h"
#include "io/scratch.h"
#include "run/setup.h"
#include "sanitized.h"
#include "search/front.h"
#include "search/points.h"
#include "search/visit.h"

enum { MOST = 600 };

typedef struct {
    setup s;
    search_point points[MOST];
    uint32_t count;
} trial;

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

/* ---- many choices ---- */

/* All combinations of at most three settings of each pass, and none, from pass i on. */
static void combine(trial *t, int i, compose_choice *c) {
    enum { FEW = 3 };
    pass_setting offered[64];
    if (!pass_table[i]) {
        pass_class class = PASS_EXACT;
        for (int k = 0; pass_table[k]; k++)
            if (c->settings[k].text[0] && c->settings[k].class > class) class = c->settings[k].class;
        if (t->count < MOST) t->points[t->count++] = (search_point){ .choice = *c, .class = class };
        return;
    }
    uint32_t count = 0;
    if (pass_table[i]->class != PASS_LOSSY)
        must(search_offers(&t->s.request.run, c, i, offered, sizeof offered / sizeof *offered, &count));
    for (uint32_t k = 0; k < count && k < FEW; k++) {
        c->settings[i] = offered[k * (count - 1) / FEW];
        combine(t, i + 1, c);
    }
    c->settings[i] = (pass_setting){ .class = PASS_EXACT };
    combine(t, i + 1, c);
}

static trial *trial_open(void) {
    trial *t = memory_new(1, sizeof *t);
    setup_options o = setup_defaults();
    o.model = "char-small", o.batch = 4, o.context = 64, o.threads = 2;
    must(setup_open(&o, NULL, &t->s));
    for (int64_t micro = 4; micro; micro /= 4) {
        compose_choice c = { .micro_batch = micro };
        combine(t, 0, &c);
    }
    assert_in_range(t->count, 60, MOST - 1);
    return t;
}

static void trial_close(trial *t) {
    setup_close(&t->s);
    memory_free(t);
}

/* ---- what is wished for ---- */

static bool same_point(const search_point *a, const search_point *b) {
    return a->peak_bytes == b->peak_bytes && a->seconds == b->seconds && compose_same(&a->choice, &b->choice);
}

static bool has(const search_front *f, const search_point *x) {
    for (uint32_t i = 0; i < f->count; i++)
        if (same_point(&f->points[i], x)) return true;
    return false;
}

/* Of the whole front the points that the wish is for, in order. */
static void grant(const search_request *q, const search_front *all, const search_wish *w) {
    search_front f;
    uint32_t slow = 0;
    const search_point *fastest = search_pick(all, w->budget);
    must(search_run(q, w, &f));
    assert_true(same_point(&f.points[0], &all->points[0]));
    assert_in_range(f.planned, f.count, 3 * f.count + 24);
    if (fastest) assert_true(has(&f, fastest));
    while (slow < all->count && all->points[slow].seconds > w->seconds) slow++;
    if (w->seconds > 0 && slow < all->count) assert_true(has(&f, &all->points[slow]));
    for (uint32_t i = 0; i < f.count; i++) {
        assert_true(has(all, &f.points[i]));
        if (i) assert_true(f.points[i].peak_bytes > f.points[i - 1].peak_bytes);
    }
    assert_in_range(f.count, 1, 3);
    search_close(&f);
}

static void a_wish_is_a_part_of_the_front(void **state) {
    (void)state;
    setup s;
    setup_options o = setup_defaults();
    o.model = "char-small", o.batch = 4, o.context = 64, o.threads = 2;
    must(setup_open(&o, NULL, &s));
    search_front all;
    must(search_run(&s.request, NULL, &all));
    assert_true(all.count > 4);
    for (uint32_t i = 0; i < all.count; i++) {
        uint64_t bytes = all.points[i].peak_bytes;
        double seconds = all.points[i].seconds;
        const search_wish wishes[] = { { .budget = bytes },
                                       { .budget = bytes - 1 },
                                       { .budget = 1 },
                                       { .budget = bytes + 1, .seconds = seconds },
                                       { .seconds = seconds * 0.999 } };
        for (size_t k = 0; k < sizeof wishes / sizeof *wishes; k++) grant(&s.request, &all, &wishes[k]);
    }
    grant(&s.request, &all, &(search_wish){ 0 });
    grant(&s.request, &all, &(search_wish){ .budget = UINT64_MAX, .seconds = 1e300 });
    search_close(&all);
    setup_close(&s);
}

/* A point is of the class of the setting that changes the most, whichever technique that is. */
static void a_point_has_the_class_of_its_settings(void **state) {
    (void)state;
    setup s;
    setup_options o = setup_defaults();
    search_front all;
    o.model = "char-small", o.batch = 4, o.context = 64, o.threads = 2;
    for (int i = 0; pass_table[i]; i++) {
        if (strcmp(pass_table[i]->name, "attention") == 0) o.passes[i] = "off";
        if (strcmp(pass_table[i]->name, "chunk_loss") == 0) o.passes[i] = "100";
    }
    must(setup_open(&o, NULL, &s));
    must(search_run(&s.request, NULL, &all));
    assert_true(all.count > 1);
    for (uint32_t i = 0; i < all.count; i++) {
        const compose_choice *c = &all.points[i].choice;
        pass_class class = PASS_EXACT;
        for (int k = 0; pass_table[k]; k++)
            if (c->settings[k].text[0] && c->settings[k].class > class) class = c->settings[k].class;
        assert_int_equal(class, PASS_REASSOCIATING);
        assert_int_equal(all.points[i].class, class);
    }
    search_close(&all);
    setup_close(&s);
}

/* What has that room to be made in leaves the program its own, and uses up the memory but for a bit. */
static void what_is_made_fits_its_room(void **state) {
    (void)state;
    uint64_t code = device_runtime_reserve(0).code;
    for (uint64_t more = 1 << 10; more < 1ULL << 40; more *= 4) {
        uint64_t making = plan_making_bytes(plan_graph_room(code + more).bytes);
        assert_in_range(making, more - more / 16, more);
    }
    for (uint64_t less = 0; less < 3; less++) assert_int_equal(plan_graph_room(code - less).bytes, 1);
}

/* A processor that is the same wherever the test runs. */
static void set_rates(search_request *q) {
    q->run.lower.rates = (device_rates){ .flops = { 330e9, 122e9, 600e9, 560e9, 240e9 },
                                         .draws = 3.5e9,
                                         .moved = 112e9,
                                         .cached = 270e9,
                                         .bandwidth = 100e9,
                                         .fetched = 40e9,
                                         .cache_bytes = 16 << 20,
                                         .call_seconds = 3e-6,
                                         .file_read = 1e9,
                                         .file_written = 1e9,
                                         .scale = 1 };
}

/* Within each budget that some exact plan needs, what may be chosen without --exact is no slower: also where
 * only a plan that is leaner than the leanest with flash attention leaves room for it. */
static void more_freedom_is_never_slower(void **state) {
    (void)state;
    static const char config[] =
        "{\"model_type\": \"mistral\", \"num_hidden_layers\": 2, \"num_attention_heads\": 3, "
        "\"hidden_size\": 48, \"intermediate_size\": 17, \"max_position_embeddings\": 256, "
        "\"vocab_size\": 830, \"rms_norm_eps\": 1e-06, \"num_key_value_heads\": 3, \"head_dim\": 16, "
        "\"tie_word_embeddings\": false, \"sliding_window\": 8}";
    setup s;
    setup_options o = setup_defaults();
    scratch_write("mistral.json", config, sizeof config - 1);
    o.model = "mistral.json", o.batch = 8, o.context = 64, o.threads = 2, o.dropout = 0.1;
    must(setup_open(&o, NULL, &s));
    set_rates(&s.request);
    search_request exact = s.request;
    exact.allowed = PASS_EXACT;
    search_front all;
    must(search_run(&exact, NULL, &all));
    assert_true(all.count > 4);
    for (uint32_t i = 0; i < all.count; i++) {
        search_front f;
        uint64_t budget = all.points[i].peak_bytes;
        must(search_run(&s.request, &(search_wish){ .budget = budget }, &f));
        const search_point *x = search_pick(&f, budget);
        assert_true(x && x->seconds <= all.points[i].seconds);
        search_close(&f);
    }
    search_close(&all);
    setup_close(&s);
}

/* ---- bounds ---- */

static search_point *copy_of(const trial *t) {
    search_point *points = memory_new(t->count, sizeof *points);
    memcpy(points, t->points, t->count * sizeof *points);
    return points;
}

/* Outlines within a limit, and what is above it: a bound, or nothing. */
static void a_limit_plans_what_is_within(void **state) {
    (void)state;
    trial *t = trial_open();
    search_point *all = copy_of(t), *some = copy_of(t);
    must(points_plan(&t->s.request.run, UINT64_MAX, all, t->count));
    uint64_t limit = all[t->count / 2].peak_bytes;
    must(points_plan(&t->s.request.run, limit, some, t->count));
    for (uint32_t i = 0; i < t->count; i++) {
        if (all[i].peak_bytes && all[i].peak_bytes <= limit)
            assert_true(same_point(&all[i], &some[i]));
        else
            assert_true(!some[i].peak_bytes || some[i].peak_bytes > limit || some[i].seconds == 0);
    }
    memory_free(all);
    memory_free(some);
    trial_close(t);
}

/* What compose_bound hands to reach.beyond. */
typedef struct {
    compose_least first;
    uint32_t index, times;
    bool beyond;
} first_seen;
static first_seen seen;

static bool note_first(const void *context, uint32_t index, const compose_least *first) {
    assert_ptr_equal(context, &seen);
    seen.first = *first, seen.index = index, seen.times++;
    return seen.beyond;
}

/* The outline of the first program is asked about once, and no more than the whole outline; what is beyond is
 * given up, and what is not has the same outline as ever. */
static void ask_the_first(const compose_run *r, const compose_choice *c, compose_trunk *trunk,
                          const compose_least *whole, uint32_t index) {
    compose_reach reach = { .peak_bytes = UINT64_MAX, .planning_only = true, .beyond = note_first };
    compose_least again;
    reach.context = &seen, reach.index = index;
    for (int beyond = 0; beyond < 2; beyond++) {
        seen = (first_seen){ .beyond = beyond };
        must(compose_bound(r, c, trunk, &reach, &again));
        assert_int_equal(seen.times, 1);
        assert_int_equal(seen.index, index);
        assert_int_equal(again.given_up, beyond);
        assert_true(again.peak_bytes == (beyond ? seen.first.peak_bytes : whole->peak_bytes));
        assert_true(beyond || again.seconds == whole->seconds);
    }
    const compose_least *first = &seen.first;
    assert_in_range(first->peak_bytes, whole->peak_bytes / 2, whole->peak_bytes);
    assert_in_range(first->fixed_bytes, whole->fixed_bytes / 2, whole->fixed_bytes);
    assert_in_range(first->values.all, 1, whole->values.all);
    assert_in_range(first->values.but_gradients, 1, whole->values.but_gradients);
    assert_true(first->away_bytes <= whole->away_bytes && first->pieces.count <= whole->pieces.count);
    assert_true(first->pieces.slot_bytes <= whole->pieces.slot_bytes);
    assert_true(first->computing > 0 && first->computing <= whole->computing);
}

static void outlines_are_bounds(void **state) {
    (void)state;
    trial *t = trial_open();
    compose_run *r = &t->s.request.run;
    search_point *planned = copy_of(t);
    must(points_plan(r, UINT64_MAX, planned, t->count));
    for (uint32_t i = 0; i < t->count; i += 7) {
        compose_stem stem;
        compose_trunk trunk = { .stem = &stem, .most = i % (COMPOSE_KEPT + 1) };
        compose_least least, low;
        const compose_reach all_of_it = { .peak_bytes = UINT64_MAX }, nothing = { .peak_bytes = 1 };
        must(compose_stem_open(r, &t->points[i].choice, &stem));
        status result = compose_bound(r, &t->points[i].choice, &trunk, &all_of_it, &least);
        assert_int_equal(result == STATUS_OK, planned[i].peak_bytes > 0);
        if (result == STATUS_OK) {
            assert_true(least.peak_bytes <= planned[i].peak_bytes);
            assert_true(least.peak_bytes * 10 > planned[i].peak_bytes * 9);
            assert_true(least.seconds == planned[i].seconds);
            must(compose_bound(r, &t->points[i].choice, &trunk, &nothing, &low));
            assert_true(low.given_up);
            assert_in_range(low.peak_bytes, 2, least.peak_bytes);
            /* what is as fast as the best so far may still be leaner than that */
            const compose_reach as_fast = { 1, .budget = UINT64_MAX, .seconds = least.seconds },
                                faster = { 1, UINT64_MAX, .seconds = nextafter(least.seconds, 0) };
            must(compose_bound(r, &t->points[i].choice, &trunk, &as_fast, &low));
            assert_false(low.given_up);
            must(compose_bound(r, &t->points[i].choice, &trunk, &faster, &low));
            assert_true(low.given_up);
            ask_the_first(r, &t->points[i].choice, &trunk, &least, i);
        }
        compose_trunk_close(&trunk);
        compose_stem_close(&stem);
    }
    memory_free(planned);
    trial_close(t);
}

/* ---- memory ---- */

/* A trunk that keeps no graph, or one, gives the same plans as a full one, and keeps no more than that. */
static void trunks_change_no_plan(void **state) {
    (void)state;
    trial *t = trial_open();
    compose_run *r = &t->s.request.run;
    bool full = false;
    for (uint32_t i = 0; i + 1 < t->count; i += 29) {
        uint64_t peak[COMPOSE_KEPT + 1] = { 0 };
        for (uint32_t most = 0; most <= COMPOSE_KEPT; most++) {
            compose_stem stem;
            compose_trunk trunk = { .stem = &stem, .most = most };
            must(compose_stem_open(r, &t->points[i].choice, &stem));
            for (uint32_t k = i; k < i + 2; k++) { /* the second goes on from the first */
                plan p;
                if (!compose_same_stem(&t->points[i].choice, &t->points[k].choice) ||
                    compose_plan_on(r, &t->points[k].choice, &trunk, &p) != STATUS_OK)
                    continue;
                peak[most] = peak[most] * 3 + p.peak_bytes;
                plan_close(&p);
                assert_in_range(trunk.count, 0, most);
                full |= most > 1 && trunk.count == most;
            }
            compose_trunk_close(&trunk);
            compose_stem_close(&stem);
            assert_int_equal(peak[most], peak[0]);
        }
    }
    assert_true(full);
    trial_close(t);
}

/* The tables of a stem's graphs, each when it was largest. */
static uint64_t tables_of(const compose_stem *s) {
    uint64_t bytes = 0;
    for (int k = 0; k < COMPOSE_PROGRAMS; k++)
        if (s->graphs[k].nodes.count) bytes += plan_growing_bytes(&s->graphs[k]);
    return bytes;
}

/* All graphs of a choice together have the room of the thread. What making them takes is part of the plan. */
static void programs_share_their_room(void **state) {
    (void)state;
    enum { LAST_NODE = 4096 }; /* a graph is full when it has gone beyond */
    trial *t = trial_open();
    const compose_run *r = &t->s.request.run;
    compose_stem stem;
    bool shrunk = false; /* some pass has made a graph smaller, and it shows */
    for (uint32_t i = 0; i < t->count; i += 41) {
        const compose_choice *c = &t->points[i].choice;
        plan p;
        graph_room room = plan_graph_room(1);
        if (compose_plan(r, c, &p) != STATUS_OK) continue;
        must(compose_stem_open(r, c, &stem));
        uint64_t tables = tables_of(&stem), growing = 0;
        for (uint32_t k = 0; k < p.program_count; k++) {
            const graph *g = &p.programs[k].program.graph;
            growing += plan_growing_bytes(g);
            shrunk |= plan_growing_bytes(g) > plan_graph_bytes(g);
        }
        compose_stem_close(&stem);
        assert_true(p.planning_bytes >= plan_making_bytes(growing) + p.runtime.code);
        plan_close(&p);
        for (int enough = 0; enough < 2; enough++) {
            room.bytes = enough ? tables : tables - LAST_NODE;
            graph_limit(&room);
            status result = compose_stem_open(r, c, &stem);
            assert_int_equal(graph_limit_now().bytes, room.bytes);
            graph_limit(&(graph_room){ 0 });
            assert_int_equal(result, enough ? STATUS_OK : STATUS_NO_FIT);
            compose_stem_close(&stem);
        }
    }
    assert_true(shrunk);
    trial_close(t);
}

static void first_of(const void *context, uint32_t index, compose_choice *out) {
    (void)index;
    *out = ((const search_point *)context)->choice;
}

static void forget(void *context, uint32_t index, const compose_least *found) {
    (void)context, (void)index, (void)found;
}

/* Where there is no room for one candidate beside the program they are looked at one by one all the same;
 * with room for two, two at once; with room for six, two that keep as many graphs as four others take. */
static void there_is_always_room_for_one(void **state) {
    (void)state;
    trial *t = trial_open();
    compose_run run = t->s.request.run;
    enum { TABLES = 1 << 20 };
    uint64_t code = device_runtime_reserve(0).code, each = plan_making_bytes(TABLES + TABLES / 2);
    const struct {
        uint64_t memory, at_once;
    } cases[] = { { code - each / 2, 1 },     { code - 1, 1 },        { code, 1 },
                  { code + each / 2, 1 },     { code + each, 1 },     { code + 2 * each, 2 },
                  { code + 6 * each - 1, 2 }, { code + 6 * each, 6 }, { 0, 6 } };
    static const char something[100000];
    threads_set(2);
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        const bool knows = i % 2; /* then what is kept leaves as much less room, and is held too */
        visit_memory memory = visit_memory_none;
        compose_known known;
        memory.table_bytes = TABLES;
        known_open(&known, &run);
        memo_keep(known.memo, "", 0, something, sizeof something);
        const uint64_t kept = knows ? known_bytes(&run) : 0;
        if (!knows) run.known = NULL;
        assert_true(!knows || kept > sizeof something);
        run.memory = cases[i / 2].memory ? cases[i / 2].memory + kept : 0;
        visit v = { .run = &run,
                    .memory = &memory,
                    .reach = { .peak_bytes = UINT64_MAX, .seconds = HUGE_VAL },
                    .context = t->points,
                    .choice = first_of,
                    .take = forget };
        must(visit_all(&v, 1));
        assert_int_equal(memory.held,
                         code + kept + cases[i / 2].at_once * plan_making_bytes(memory.table_bytes));
        known_close(&known);
    }
    trial_close(t);
}

static compose_choice visited;

static void tally(void *context, uint32_t index, const compose_least *found) {
    (void)index, (void)found;
    ++*(_Atomic int *)context;
}

static void the_usual(const void *context, uint32_t index, compose_choice *out) {
    (void)context, (void)index;
    *out = visited;
}

/* Also where there is memory for fewer than there are threads each candidate is looked at, once. */
static void fewer_than_threads_look_at_all(void **state) {
    (void)state;
    trial *t = trial_open();
    compose_run run = t->s.request.run;
    enum { TABLES = 1 << 20 };
    visited = t->points[0].choice;
    threads_set(4);
    for (uint64_t room = 1; room <= 4; room++) {
        _Atomic int looked = 0;
        visit_memory memory = visit_memory_none;
        memory.table_bytes = TABLES;
        run.memory = device_runtime_reserve(0).code + room * plan_making_bytes(TABLES + TABLES / 2);
        visit v = { .run = &run,
                    .memory = &memory,
                    .reach = { .peak_bytes = UINT64_MAX, .seconds = HUGE_VAL },
                    .context = &looked,
                    .choice = the_usual,
                    .take = tally };
        must(visit_all(&v, 7));
        assert_int_equal(looked, 7);
    }
    threads_set(2);
    trial_close(t);
}

/* Where all of it is used no room is left, which is not as if there were no limit. */
static void a_room_that_is_used_up_stays_one(void **state) {
    (void)state;
    for (uint64_t used = 99; used <= 101; used++) {
        compose_limit(&(graph_room){ .bytes = 100 }, used);
        assert_int_equal(graph_limit_now().bytes, 1);
    }
    compose_limit(&(graph_room){ .bytes = 100 }, 40);
    assert_int_equal(graph_limit_now().bytes, 60);
    compose_limit(&(graph_room){ 0 }, 40);
    assert_int_equal(graph_limit_now().bytes, 0);
    graph_limit(&(graph_room){ 0 });
}

/* What a pass has made smaller was larger on the way. */
static void what_was_larger_counts(void **state) {
    (void)state;
    graph g;
    assert_int_equal(graph_open(&g), STATUS_OK);
    uint64_t own = plan_graph_bytes(&g);
    assert_int_equal(plan_growing_bytes(&g), own);
    g.parent = (graph_size){ .tensors = g.tensors.count, .nodes = 100 + g.nodes.count };
    assert_in_range(plan_growing_bytes(&g), own + 100 * sizeof(node), own + 100 * 1024);
    graph_close(&g);
}

/* ---- work ---- */

/* Of hundreds of candidates a handful is packed and proved, whatever the budget. */
static void few_are_planned(void **state) {
    (void)state;
    const search_wish wishes[] = { { .budget = UINT64_MAX }, { .budget = 80 } };
    setup s;
    setup_options o = setup_defaults();
    o.model = "llama-3.1-405b", o.batch = 4, o.context = 4096, o.threads = 2;
    must(setup_open(&o, NULL, &s));
    s.config.decoder.layers = s.model.layers = 4;
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        search_front front;
        must(search_run(&s.request, &wishes[i], &front));
        assert_in_range(front.candidates, 200, 4000);
        assert_in_range(front.planned, front.count, 24);
        search_close(&front);
    }
    setup_close(&s);
}

static void is_near(uint32_t count, uint32_t usual) {
    assert_in_range(count, usual - usual / 32, usual + usual / 32 + 1);
}

/* How much is looked at to answer a wish: a bound that gives less up, or a stem that is looked at for
 * nothing, changes no answer. Where a search is meant to look at more, or at less, these numbers are written
 * anew. The scratch of a processor's kernels may change them a little. */
static void work_is_what_it_was(void **state) {
    (void)state;
    if (SANITIZED) skip(); /* whose own memory is most of each peak, so that fewer are told apart */
    static const char saving[] = "compress-activations,optimizer-state";
    const struct {
        const char *model;
        int64_t batch;
        const char *allow, *folder;
        uint64_t candidates;
        uint32_t outlined[2], given_up[2], planned[2]; /* for the leanest, and within half as much again */
    } searches[] = {
        { "char-small", 8, NULL, NULL, 170, { 128, 146 }, { 73, 88 }, { 3, 4 } },
        { "char-small", 4, saving, NULL, 816, { 248, 248 }, { 154, 154 }, { 2, 3 } },
        { "char-small", 2, NULL, ".", 612, { 187, 187 }, { 89, 89 }, { 2, 3 } },
        { "gpt2", 2, NULL, NULL, 102, { 65, 65 }, { 5, 2 }, { 2, 3 } },
    };
    for (size_t i = 0; i < sizeof searches / sizeof *searches; i++) {
        setup s;
        setup_options o = setup_defaults();
        o.model = searches[i].model, o.batch = searches[i].batch, o.context = 64, o.threads = 2;
        o.allow = searches[i].allow, o.folder = searches[i].folder;
        must(setup_open(&o, NULL, &s));
        set_rates(&s.request);
        uint64_t budget = 0;
        for (int k = 0; k < 2; k++) {
            search_front front;
            must(search_run(&s.request, &(search_wish){ .budget = budget }, &front));
            print_message("%s: %u outlines, %u given up, %u plans\n", o.model, front.outlined, front.given_up,
                          front.planned);
            assert_int_equal(front.candidates, searches[i].candidates);
            is_near(front.outlined, searches[i].outlined[k]);
            is_near(front.given_up, searches[i].given_up[k]);
            is_near(front.planned, searches[i].planned[k]);
            budget = search_least(&front) / 2 * 3;
            search_close(&front);
        }
        setup_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wish_is_a_part_of_the_front),
        cmocka_unit_test(more_freedom_is_never_slower),
        cmocka_unit_test(a_limit_plans_what_is_within),
        cmocka_unit_test(outlines_are_bounds),
        cmocka_unit_test(trunks_change_no_plan),
        cmocka_unit_test(programs_share_their_room),
        cmocka_unit_test(a_point_has_the_class_of_its_settings),
        cmocka_unit_test(what_is_made_fits_its_room),
        cmocka_unit_test(there_is_always_room_for_one),
        cmocka_unit_test(fewer_than_threads_look_at_all),
        cmocka_unit_test(a_room_that_is_used_up_stays_one),
        cmocka_unit_test(what_was_larger_counts),
        cmocka_unit_test(few_are_planned),
        cmocka_unit_test(work_is_what_it_was),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
