/* The engine under load, without HTTP: texts with beginnings in common come, pause and leave at random, in
 * caches from one text upwards, with certain and with expected admission, with guesses and without. Beside
 * it stands a model of the cache that knows which ids each place was written for: no row may look at a place
 * that was written for other ids. Blocks are counted after every step, every text that was admitted and
 * stayed gets all its tokens, and what it gets is what it gets alone. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/threads.h"
#include "infer/engine_clients.h"
#include "io/scratch.h"
#include "ops/cache_write/cache_write.h"
#include "sanitized.h"

enum {
    CLIENTS = 200,
    PLACES = 12,
    MOST_BLOCKS = 64,
    FAMILIES = 3,
    SAMPLED = 5, /* one of so many is compared with itself alone */
    MOST_STEPS = 40000,
};

typedef struct {
    client clients[CLIENTS];
    engine *e;
    int64_t window; /* positions that a row sees, itself included */
    uint64_t seed;
    uint32_t next, turn;
    int32_t at[PLACES]; /* the client there; or ENGINE_NONE */
    bool paused[PLACES], was_back[PLACES], waits[PLACES];
    uint64_t written[MOST_BLOCKS * CACHE_BLOCK]; /* what the ids were up to the one of this place */
    uint64_t left, put_back;
    int64_t given, most_given; /* blocks before the texts' first; at once */
} load;

/* ---- the model of the cache ---- */

static uint64_t extended(uint64_t ids, int32_t with) {
    return (ids ^ (uint64_t)(with + 1)) * 0x100000001b3u + 0x9e3779b97f4a7c15u;
}

/* Of the first n ids of a text and the group that it is in, none of which is that of nothing. */
static uint64_t named(const load *l, int32_t number, const int32_t *ids, int64_t n) {
    uint64_t name = l->clients[l->at[number]].group + 17;
    for (int64_t i = 0; i < n; i++) name = extended(name, ids[i]);
    return name;
}

/* The ids that a row stands behind: those of its text, and guesses behind them. */
static void row_ids(const load *l, int64_t row, int32_t *ids) {
    const engine_rows *s = &l->e->step;
    const engine_text *t = &l->e->texts[s->text[row]];
    memcpy(ids, t->ids, (size_t)(s->position[row] + 1) * sizeof *ids);
    assert_int_equal(ids[s->position[row]], s->tokens[row]);
}

static void write_rows(load *l) {
    const engine_rows *s = &l->e->step;
    int32_t ids[CONTEXT + 1];
    for (int64_t i = 0; i < s->count; i++) {
        assert_in_range(s->slot[i], 0, l->e->blocks.count * CACHE_BLOCK - 1);
        for (int64_t k = 0; k < i; k++) assert_int_not_equal(s->slot[i], s->slot[k]);
        row_ids(l, i, ids);
        assert_false(l->paused[s->text[i]]);
        l->written[s->slot[i]] = named(l, s->text[i], ids, s->position[i] + 1);
    }
}

static int64_t first_seen(const load *l, int64_t position) {
    return position < l->window ? 0 : position - l->window + 1;
}

/* Every place that a row looks at was written for its ids; blocks behind them are not in the table. */
static void look_at_rows(const load *l) {
    const engine_rows *s = &l->e->step;
    int32_t ids[CONTEXT + 1];
    for (int64_t i = 0; i < s->count; i++) {
        const int32_t *line = engine_line(l->e, s->text[i]);
        uint64_t name = named(l, s->text[i], ids, 0);
        row_ids(l, i, ids);
        for (int64_t p = 0; p <= s->position[i]; p++) {
            name = extended(name, ids[p]);
            if (p / CACHE_BLOCK < l->e->texts[s->text[i]].first)
                assert_int_equal(line[p / CACHE_BLOCK], BLOCKS_NONE);
            if (p < first_seen(l, s->position[i])) continue;
            if (l->written[line[p / CACHE_BLOCK] * CACHE_BLOCK + p % CACHE_BLOCK] != name)
                fail_msg("seed %d, turn %d: a row at %d looks at %d, written for others", (int)l->seed,
                         (int)l->turn, (int)s->position[i], (int)p);
        }
    }
}

/* ---- blocks ---- */

static void count_list(const blocks *b, int32_t from, int64_t count, int8_t *found) {
    int64_t n = 0;
    for (int32_t i = from; i != BLOCKS_NONE; i = b->all[i].next, n++) {
        assert_int_equal(found[i]++, 0);
        assert_int_equal(b->all[i].users, 0);
        assert_true(n < count);
    }
    assert_int_equal(n, count);
}

/* Known blocks are known as what stands behind the block before them. */
static void look_at_chain(const engine *e, int32_t number) {
    const int32_t *line = engine_line(e, number);
    for (int64_t k = e->texts[number].first; k < e->texts[number].blocks; k++) {
        bool begins = k == e->texts[number].first;
        const blocks_one *x = &e->blocks.all[line[k]], *before = begins ? NULL : &e->blocks.all[line[k - 1]];
        if (x->chain && before && before->chain) assert_int_equal(x->before, before->chain);
        if (x->chain && !k) assert_int_equal(x->before, 0);
        if (x->chain) assert_memory_equal(x->ids, e->texts[number].ids + k * CACHE_BLOCK, sizeof x->ids);
    }
}

/* Blocks that hold what the rows of its next step see, and those that may be added in it: as many as there is
 * room for, or a block that is found, and guesses. */
static int64_t needed_next(const load *l, const engine_text *t) {
    const engine_sizes *s = &l->e->sizes;
    int64_t at = t->scores && t->scored < t->prompt && t->scored < t->done ? t->scored : t->done;
    int64_t rows = s->rows > CACHE_BLOCK ? s->rows : CACHE_BLOCK, ids = t->count - at + s->guesses;
    int64_t end = at + (rows < ids ? rows : ids), first = first_seen(l, at) / CACHE_BLOCK;
    if (end > t->most - 1) end = t->most - 1;
    return (end + CACHE_BLOCK - 1) / CACHE_BLOCK - first;
}

/* What a text has and is promised is enough for what comes next; and that it has all it sees, no more. */
static void look_at_text(load *l, int32_t number) {
    const engine *e = l->e;
    const engine_text *t = &e->texts[number];
    int64_t had = t->blocks - t->first, at = t->done;
    if (t->scores && t->scored < t->prompt && t->scored < at) at = t->scored;
    if (!e->sizes.expects) assert_true(had + t->promised >= needed_next(l, t));
    if (t->going) assert_int_equal(t->first, t->waits ? 0 : first_seen(l, at) / CACHE_BLOCK);
    assert_true(t->first * CACHE_BLOCK <= first_seen(l, at));
    l->given += t->first;
}

static void count_blocks(load *l) {
    const engine *e = l->e;
    const blocks *b = &e->blocks;
    int32_t users[MOST_BLOCKS] = { 0 }, stay[MOST_BLOCKS] = { 0 };
    int64_t paid = 0;
    l->given = 0;
    int8_t found[MOST_BLOCKS] = { 0 };
    int64_t promised = 0, used = 0;
    for (int32_t i = 0; i < e->sizes.texts; i++) {
        const engine_text *t = &e->texts[i];
        assert_true(t->used == (l->at[i] != ENGINE_NONE));
        if (!t->used) continue;
        promised += t->promised;
        assert_true(t->blocks + t->promised <= engine_blocks_for(t->most));
        assert_false(t->waits && t->blocks + t->promised);
        assert_true(t->done >= CACHE_BLOCK || !t->chain);
        look_at_chain(e, i);
        look_at_text(l, i);
        for (int64_t k = t->first; k < t->blocks; k++) {
            users[engine_line(e, i)[k]]++;
            stay[engine_line(e, i)[k]] += first_seen(l, t->most - 1) < CACHE_BLOCK;
        }
    }
    if (l->given > l->most_given) l->most_given = l->given;
    for (int64_t i = 0; i < b->count; i++) {
        assert_int_equal(users[i], b->all[i].users);
        used += users[i] > 0;
        paid += users[i] - stay[i] + (stay[i] > 0); /* those who stay pay together */
        assert_true(users[i] < 2 || b->all[i].chain);
    }
    count_list(b, b->first_free, b->free, found);
    count_list(b, b->oldest, b->kept, found);
    assert_int_equal(used + b->free + b->kept, b->count);
    assert_int_equal(promised, e->promised);
    assert_int_equal(paid, used + e->doubles);
    assert_true(paid + promised <= b->count);
}

/* ---- texts ---- */

/* Some of the ids of its family, and then its own. */
static void make_one(client *c, uint64_t seed, uint32_t i) {
    make_client(c, seed, i, CONTEXT);
    make_pooled(c, seed, i, 5);
    make_scored(c, seed, i, 4);
    c->dawdles = drawn(seed, i, 34, 2);
    uint32_t family = drawn(seed, i, 20, FAMILIES + 1), few = drawn(seed, i, 21, 3);
    int64_t same = drawn(seed, i, 22, 2) ? c->count : drawn(seed, i, 25, (uint32_t)c->count + 1);
    if (drawn(seed, i, 26, 2)) c->leaves = 1 + drawn(seed, i, 27, 6 < c->tokens ? 6 : (uint32_t)c->tokens);
    for (int64_t k = 0; family && k < same; k++)
        c->prompt[k] = (int32_t)drawn(seed, 1000 + family, 100 + (uint32_t)k, VOCABULARY);
    for (int64_t k = 0; !few && k < c->count; k++) c->prompt[k] %= 3; /* with much that stands there twice */
    c->group = drawn(seed, i, 23, 3) ? 0 : drawn(seed, i, 24, 2) ? 5 : ENGINE_ALONE;
}

static void leave(load *l, int32_t place) {
    client *c = &l->clients[l->at[place]];
    const engine *e = l->e;
    const int32_t *line = engine_line(e, place);
    int64_t free = blocks_left(&e->blocks), own = 0;
    for (int64_t k = e->texts[place].first; k < e->texts[place].blocks; k++)
        own += e->blocks.all[line[k]].users == 1;
    engine_leave(l->e, place);
    assert_int_equal(blocks_left(&e->blocks), free + own); /* at once */
    c->place = ENGINE_NONE, l->at[place] = ENGINE_NONE;
}

static bool begin(load *l) {
    client *c = &l->clients[l->next];
    engine_request r = request_of(c);
    assert_true(engine_ever(l->e, &r));
    c->place = engine_begin(l->e, &r);
    if (c->place == ENGINE_NONE) return false;
    for (int32_t i = 0; i < l->e->sizes.texts; i++) /* those come first */
        assert_false(l->e->texts[i].used && l->e->texts[i].waits && !l->e->texts[i].paused);
    l->at[c->place] = (int32_t)l->next++;
    l->paused[c->place] = l->was_back[c->place] = l->waits[c->place] = false;
    return true;
}

/* Who comes, dawdles and leaves before the next step. */
static void let_clients(load *l) {
    uint32_t come = drawn(l->seed, l->turn, 30, 4);
    while (come-- && l->next < CLIENTS && begin(l)) continue;
    for (int32_t i = 0; i < l->e->sizes.texts; i++) {
        if (l->at[i] == ENGINE_NONE) continue;
        client *c = &l->clients[l->at[i]];
        if (!drawn(l->seed, l->turn, 40 + (uint32_t)i, 12)) l->paused[i] = !l->paused[i];
        engine_pause(l->e, i, l->paused[i]);
        if (c->over || !engine_goes_on(l->e, i)) {
            assert_true(c->over && !engine_failure(l->e, i));
            leave(l, i);
        } else if (!drawn(l->seed, l->turn, 60 + (uint32_t)i, 150)) { /* in the midst of it */
            c->leaves = c->got_count;
            l->left++;
            leave(l, i);
        }
    }
}

/* Who is first is never put back, and nobody twice. */
static void look_who_waits(load *l, int32_t oldest) {
    for (int32_t i = 0; i < l->e->sizes.texts; i++) {
        bool waits = l->e->texts[i].used && l->e->texts[i].waits;
        if (waits && !l->waits[i]) {
            assert_true(l->e->sizes.expects && i != oldest && !l->was_back[i]);
            l->was_back[i] = true, l->put_back++;
        }
        l->waits[i] = waits;
    }
}

static bool step(load *l) {
    uint32_t k;
    int32_t oldest = l->e->order_count ? l->e->order[0] : ENGINE_NONE;
    bool any = engine_gather(l->e, &k);
    look_who_waits(l, oldest);
    if (any) {
        write_rows(l);
        look_at_rows(l);
        assert_int_equal(engine_compute(l->e, k), STATUS_OK);
        assert_int_equal(engine_draw(l->e, k, take), STATUS_OK);
    }
    count_blocks(l);
    return any;
}

static bool is_busy(const load *l) {
    for (int32_t i = 0; i < l->e->sizes.texts; i++)
        if (l->at[i] != ENGINE_NONE) return true;
    return l->next < CLIENTS;
}

static void run_load(load *l) {
    int idle = 0;
    for (l->turn = 0; is_busy(l); l->turn++) {
        if (l->turn > MOST_STEPS) fail_msg("seed %d: %d texts began and do not end", (int)l->seed, l->next);
        let_clients(l);
        idle = step(l) ? 0 : idle + 1;
        if (idle > 1) memset(l->paused, 0, sizeof l->paused); /* all of them dawdle */
        if (idle > 50) fail_msg("seed %d, turn %d: nothing goes on", (int)l->seed, (int)l->turn);
    }
    assert_int_equal(blocks_left(&l->e->blocks), l->e->blocks.count);
    assert_int_equal(l->e->promised + l->e->doubles, 0);
}

static bool is_compared(const client *c, uint32_t i) {
    return i % SAMPLED == 0 && (c->pools ? c->over : c->got_count > 0);
}

static void compare(load *l, dtype cache) {
    static client alone[CLIENTS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        const client *c = &l->clients[i];
        assert_true(c->leaves != NEVER || (c->pools ? c->over : c->got_count == c->tokens));
        if (!is_compared(c, i)) continue;
        alone[count] = *c, alone[count].dawdles = false, alone[count].got_count = 0,
        alone[count].over = false;
        alone[count].tokens = c->pools ? 1 : c->got_count, alone[count++].leaves = NEVER;
    }
    run_alone(alone, count, cache);
    for (uint32_t i = 0, n = 0; i < CLIENTS; i++) {
        const client *c = &l->clients[i];
        if (!is_compared(c, i)) continue;
        if (c->pools && memcmp(alone[n].numbers, c->numbers, sizeof c->numbers) != 0)
            fail_msg("seed %d: text %d has another vector than alone", (int)l->seed, (int)i);
        if (alone[n].told_count != c->told_count || memcmp(alone[n].told, c->told, sizeof c->told) != 0)
            fail_msg("seed %d: the prompt of text %d is told otherwise than alone", (int)l->seed, (int)i);
        if (memcmp(alone[n++].got, c->got, (size_t)c->got_count * sizeof *c->got) != 0)
            fail_msg("seed %d: text %d has others than alone", (int)l->seed, (int)i);
    }
}

/* What all loads had: that they met what they are for. */
static engine_stats sum;
static int64_t sum_given;

static void add_stats(const load *l) {
    engine_stats s;
    engine_stats_of(l->e, &s);
    assert_int_equal(s.blocks_used + s.blocks_promised + s.texts + s.waiting, 0);
    assert_int_equal(s.blocks_free + s.blocks_kept, s.blocks);
    assert_int_equal(s.begun, CLIENTS);
    assert_int_equal(s.finished + l->left, CLIENTS);
    assert_int_equal(s.put_back, l->put_back);
    uint64_t tokens = 0, prompts = 0;
    for (uint32_t i = 0; i < CLIENTS; i++)
        tokens += (uint64_t)l->clients[i].got_count, prompts += (uint64_t)l->clients[i].count;
    assert_int_equal(s.drawn, tokens);
    assert_int_equal(s.prompt_tokens, prompts);
    assert_true(s.accepted <= s.proposed && s.cached_tokens <= s.prompt_tokens);
    sum.steps += s.steps, sum.cached_tokens += s.cached_tokens, sum.put_back += s.put_back;
    sum_given += l->most_given;
    sum.proposed += s.proposed, sum.accepted += s.accepted, sum.again_tokens += s.again_tokens;
}

/* A window of 0: the model has none. */
static void run_seed(const model_folder *of, int64_t window, uint64_t seed) {
    static const dtype caches[] = { DTYPE_F32, DTYPE_F32, DTYPE_I8, DTYPE_BF16 };
    load *l = calloc(1, sizeof *l);
    dtype cache = caches[seed % 4];
    l->seed = seed, l->window = window ? window : CONTEXT;
    for (uint32_t i = 0; i < CLIENTS; i++) make_one(&l->clients[i], seed, i);
    for (int i = 0; i < PLACES; i++) l->at[i] = ENGINE_NONE;
    engine_sizes sizes = sizes_of(1 + drawn(seed, 0, 50, PLACES), 1 + drawn(seed, 0, 51, 48),
                                  (window ? 1 : CONTEXT / CACHE_BLOCK) + drawn(seed, 0, 52,
                                                                               window     ? 4
                                                                               : seed % 2 ? 14
                                                                                          : 50),
                                  cache);
    sizes.expects = seed % 4 != 3, sizes.guesses = seed % 3 == 0 ? 0 : 1 + drawn(seed, 0, 53, 5);
    l->e = start(of, &sizes, 0, 1 + (int)(seed % 3));
    assert_true(l->e->blocks.count <= MOST_BLOCKS);
    run_load(l);
    add_stats(l);
    compare(l, cache);
    engine_close(l->e);
    free(l);
}

static void end_loads(uint64_t loads) {
    print_message("%d texts, %d steps: %d tokens of prompts were there, %d texts put back (%d tokens read "
                  "again), %d of %d guesses came true\n",
                  (int)loads * CLIENTS, (int)sum.steps, (int)sum.cached_tokens, (int)sum.put_back,
                  (int)sum.again_tokens, (int)sum.accepted, (int)sum.proposed);
    assert_true(sum.cached_tokens && sum.put_back && sum.again_tokens && sum.accepted);
    assert_true(sum.accepted < sum.proposed);
    threads_set(1);
}

static void all_that_is_admitted_ends(void **state) {
    (void)state;
    uint64_t loads = SANITIZED ? 6 : getenv("SNUG_TEST_LONG") ? 500 : 30;
    sum = (engine_stats){ 0 };
    for (uint64_t seed = 1; seed <= loads; seed++) run_seed(&folder, 0, seed);
    end_loads(loads);
}

/* Alone they are written by an engine that gives nothing back before the end. */
static void windows_give_back(void **state) {
    (void)state;
    static const int64_t windows[] = { 1, 7, 16, 17, 30 };
    enum { WINDOWS = sizeof windows / sizeof *windows };
    static model_folder of[WINDOWS];
    const model_folder before = folder;
    uint64_t loads = SANITIZED ? 6 : getenv("SNUG_TEST_LONG") ? 500 : 30;
    sum = (engine_stats){ 0 }, sum_given = 0;
    for (uint64_t seed = 1; seed <= loads; seed++) {
        char name[32];
        model_folder *f = &of[seed % WINDOWS];
        int64_t window = windows[seed % WINDOWS];
        snprintf(name, sizeof name, "window-%d", (int)window);
        if (seed <= WINDOWS && open_windowed(name, window, f) != STATUS_OK) fail_msg("%s", status_message());
        assert_int_equal(f->model.window, window);
        folder = *f, folder.model.window = 0;
        run_seed(f, window, seed);
    }
    folder = before;
    end_loads(loads);
    print_message("%d blocks were given back by texts that went on\n", (int)sum_given);
    assert_true(sum_given > (int64_t)loads);
}

static int open_model(void **state) {
    return scratch_open(state) == 0 && open_folder("model", NEVER, &folder) == STATUS_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_that_is_admitted_ends),
                                        cmocka_unit_test(windows_give_back) };
    return cmocka_run_group_tests(tests, open_model, scratch_close);
}
