/* The packer against the independent check, on random sets of several structures and on imitations of the
 * training steps of transformers. Ratios to the lower bound and times are printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan/check.h"
#include "plan/pack.h"

static uint64_t random_state;

static void random_begin(uint64_t seed) { random_state = seed; }

/* Splitmix64. */
static uint64_t random_word(void) {
    uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static uint32_t random_below(uint32_t n) { return (uint32_t)(random_word() % n); }
static bool one_in(uint32_t n) { return random_below(n) == 0; }

/* A set under construction: what is born at `now` lives on as long as it is used. */
enum { MOST_INTERVALS = 16384, NONE = UINT32_MAX };
static pack_interval set[MOST_INTERVALS];
static uint32_t set_count, now;

static void set_begin(void) { set_count = now = 0; }

static uint32_t born(uint64_t bytes) {
    assert_true(set_count < MOST_INTERVALS);
    set[set_count] = (pack_interval){ (bytes + 63) / 64 * 64, now, now, 0 };
    return set_count++;
}

static void use(uint32_t v) {
    if (v != NONE) set[v].last = now;
}

/* One step that reads up to three values. */
static void step(uint32_t a, uint32_t b, uint32_t c) {
    now++;
    use(a), use(b), use(c);
}

/* Imitations of transformers: sizes, lifetimes and their nesting are those of training, nothing else is. */

typedef struct {
    uint32_t layers, batch, context, width, heads, vocabulary;
    uint32_t chunks;    /* of the loss; 0: in one piece */
    uint32_t recompute; /* segments of so many blocks are computed again; 0: everything is kept */
    bool flash;         /* attention without a matrix of scores */
    bool dropout, tied, scratch, in_place;
    bool early_update; /* no gradient outlives its computation */
    bool no_gradients; /* they are accumulated elsewhere */
    bool cheap_again;  /* norms and activation functions are computed again */
    bool clip;         /* needs all gradients at once */
} transformer;

/* What backward reads of a block. */
typedef struct {
    uint32_t in, norm1, moments1, qkv, scores, sums, attention, middle, norm2, moments2, wide, active;
} block;

enum { MOST_BLOCKS = 64, MOST_GRADIENTS = 2048 };
static block blocks[MOST_BLOCKS];
static uint32_t gradients[MOST_GRADIENTS], gradient_count;

static uint64_t rows(const transformer *m) { return (uint64_t)m->batch * m->context; }
static uint64_t stream_bytes(const transformer *m) { return 4 * rows(m) * m->width; }
static uint64_t score_bytes(const transformer *m) { return 4 * rows(m) * m->heads * m->context; }
static void scratch(const transformer *m) {
    if (m->scratch) born(2 << 20);
}

static uint32_t linear(const transformer *m, uint32_t in, uint64_t bytes) {
    step(in, NONE, NONE);
    scratch(m);
    return born(bytes);
}

static uint32_t dropped(const transformer *m, uint32_t in, uint64_t bytes) {
    if (!m->dropout) return in;
    step(in, NONE, NONE);
    return m->in_place ? in : born(bytes);
}

static uint32_t norm(const transformer *m, uint32_t in, uint32_t *moments) {
    step(in, NONE, NONE);
    *moments = born(8 * rows(m));
    return born(stream_bytes(m));
}

static uint32_t attention(const transformer *m, block *b) {
    uint64_t bytes = score_bytes(m);
    b->scores = b->sums = NONE;
    if (m->flash) {
        step(b->qkv, NONE, NONE);
        b->sums = born(4 * rows(m) * m->heads);
        scratch(m);
        return born(stream_bytes(m));
    }
    uint32_t raw = linear(m, b->qkv, bytes);
    step(raw, NONE, NONE);
    b->scores = m->in_place ? raw : born(bytes);
    step(dropped(m, b->scores, bytes), b->qkv, NONE);
    scratch(m);
    return born(stream_bytes(m));
}

static uint32_t residual(const transformer *m, uint32_t a, uint32_t b) {
    step(a, b, NONE);
    return m->in_place ? a : born(stream_bytes(m));
}

static uint32_t block_forward(const transformer *m, block *b, uint32_t in) {
    uint64_t bytes = stream_bytes(m);
    b->in = in;
    b->norm1 = norm(m, in, &b->moments1);
    b->qkv = linear(m, b->norm1, 3 * bytes);
    b->attention = attention(m, b);
    b->middle = residual(m, dropped(m, linear(m, b->attention, bytes), bytes), in);
    b->norm2 = norm(m, b->middle, &b->moments2);
    b->wide = linear(m, b->norm2, 4 * bytes);
    step(b->wide, NONE, NONE);
    b->active = born(4 * bytes);
    return residual(m, dropped(m, linear(m, b->active, bytes), bytes), b->middle);
}

/* A gradient of a parameter, born now; `more`: there are further contributions to come. */
static uint32_t gradient(const transformer *m, uint64_t bytes, bool more) {
    if (m->no_gradients) return NONE;
    uint32_t g = born(bytes);
    if (m->early_update && !more)
        step(g, NONE, NONE);
    else
        gradients[gradient_count++] = g;
    return g;
}

static uint32_t linear_backward(const transformer *m, uint32_t dy, uint32_t x, uint64_t weight,
                                uint64_t bytes) {
    step(dy, x, NONE);
    scratch(m);
    gradient(m, weight, false);
    step(dy, NONE, NONE);
    gradient(m, 4 * m->width, false);
    step(dy, NONE, NONE);
    scratch(m);
    return born(bytes);
}

static uint32_t norm_backward(const transformer *m, uint32_t dy, uint32_t x, uint32_t moments, uint32_t sum) {
    step(dy, x, moments);
    gradient(m, 4 * m->width, false);
    step(dy, x, moments);
    gradient(m, 4 * m->width, false);
    step(dy, x, moments);
    use(sum);
    return m->in_place && sum != NONE ? sum : born(stream_bytes(m));
}

static uint32_t attention_backward(const transformer *m, const block *b, uint32_t dy) {
    uint64_t bytes = score_bytes(m);
    step(dy, b->qkv, b->attention);
    use(b->sums);
    scratch(m);
    if (m->flash) return born(3 * stream_bytes(m));
    uint32_t dropped_scores = dropped(m, b->scores, bytes);
    step(dy, dropped_scores, NONE); /* of V */
    uint32_t dqkv = born(3 * stream_bytes(m));
    scratch(m);
    uint32_t dscores = dropped(m, linear(m, dy, bytes), bytes);
    use(b->qkv);
    step(dscores, b->scores, NONE);
    uint32_t draw = m->in_place ? dscores : born(bytes);
    for (int i = 0; i < 2; i++) { /* of Q, of K */
        step(draw, b->qkv, dqkv);
        scratch(m);
    }
    return dqkv;
}

static uint32_t block_backward(const transformer *m, block *b, uint32_t d) {
    uint64_t bytes = stream_bytes(m), square = 4 * (uint64_t)m->width * m->width;
    uint32_t dy = dropped(m, d, bytes);
    if (m->cheap_again) b->active = linear(m, b->wide, 4 * bytes);
    uint32_t dactive = linear_backward(m, dy, b->active, 4 * square, 4 * bytes);
    step(dactive, b->wide, NONE);
    uint32_t dwide = m->in_place ? dactive : born(4 * bytes);
    if (m->cheap_again) b->norm2 = norm(m, b->middle, &b->moments2);
    uint32_t dnorm = linear_backward(m, dwide, b->norm2, 4 * square, bytes);
    d = norm_backward(m, dnorm, b->middle, b->moments2, d);
    dy = linear_backward(m, dropped(m, d, bytes), b->attention, square, bytes);
    uint32_t dqkv = attention_backward(m, b, dy);
    if (m->cheap_again) b->norm1 = norm(m, b->in, &b->moments1);
    dnorm = linear_backward(m, dqkv, b->norm1, 3 * square, bytes);
    return norm_backward(m, dnorm, b->in, b->moments1, d);
}

/* From the last norm to its gradient; `*table` is the gradient of the output weights. */
static uint32_t loss(const transformer *m, uint32_t in, uint32_t labels, uint32_t *table) {
    uint32_t chunks = m->chunks ? m->chunks : 1, din = NONE, total = NONE;
    uint64_t bytes = 4 * rows(m) / chunks * m->vocabulary;
    for (uint32_t c = 0; c < chunks; c++) {
        uint32_t logits = linear(m, in, bytes);
        step(logits, labels, total);
        if (!c) total = born(4);
        uint32_t sums = born(8 * rows(m) / chunks);
        step(logits, labels, sums);
        uint32_t dlogits = m->in_place ? logits : born(bytes);
        step(dlogits, in, c ? *table : NONE);
        scratch(m);
        if (!c) *table = gradient(m, 4 * (uint64_t)m->vocabulary * m->width, m->tied || chunks > 1);
        step(dlogits, din, NONE);
        scratch(m);
        if (!c) din = born(stream_bytes(m));
    }
    return din;
}

static void make_transformer(const transformer *m) {
    uint64_t bytes = stream_bytes(m);
    set_begin();
    gradient_count = 0;
    uint32_t tokens = born(4 * rows(m)), labels = born(4 * rows(m)), table = NONE, moments;
    step(tokens, NONE, NONE);
    uint32_t x = born(bytes);
    for (uint32_t l = 0; l < m->layers; l++) x = block_forward(m, &blocks[l], x);
    uint32_t last = norm(m, x, &moments);
    uint32_t d = norm_backward(m, loss(m, last, labels, &table), x, moments, NONE);
    for (uint32_t end = m->layers; end > 0;) {
        uint32_t begin = m->recompute ? (end - 1) / m->recompute * m->recompute : end - 1;
        x = blocks[begin].in;
        for (uint32_t l = begin; m->recompute && l < end; l++) x = block_forward(m, &blocks[l], x);
        for (uint32_t l = end; l-- > begin;) d = block_backward(m, &blocks[l], d);
        end = begin;
    }
    step(d, NONE, NONE);
    gradient(m, 4 * (uint64_t)m->context * m->width, false);
    step(d, tokens, m->tied ? table : NONE);
    if (!m->tied) gradient(m, 4 * (uint64_t)m->vocabulary * m->width, false);
    if (m->clip) now++;
    for (uint32_t i = 0; m->clip && i < gradient_count; i++) use(gradients[i]);
    for (uint32_t i = gradient_count; i-- > 0;) step(gradients[i], NONE, NONE);
}

static void random_transformer(void) {
    static const uint32_t widths[] = { 128, 384, 768, 1024, 1280, 1600 }, layers[] = { 4, 6, 12, 24, 36, 48 },
                          vocabularies[] = { 256, 50257, 32000 };
    uint32_t size = random_below(one_in(3) ? 6 : 3);
    transformer m = { .layers = one_in(3) ? 2 + random_below(20) : layers[size],
                      .batch = 1 + random_below(16),
                      .context = (64u << random_below(5)) - (one_in(4) ? random_below(60) : 0),
                      .width = widths[size],
                      .heads = widths[size] / 64,
                      .vocabulary = vocabularies[random_below(3)],
                      .chunks = one_in(2) ? 2 + random_below(15) : 0,
                      .recompute = one_in(2) ? 1 + random_below(4) : 0,
                      .flash = one_in(2),
                      .dropout = one_in(2),
                      .tied = !one_in(3),
                      .scratch = one_in(2),
                      .in_place = !one_in(4),
                      .early_update = one_in(3),
                      .clip = one_in(2) };
    m.no_gradients = !m.early_update && one_in(4);
    m.cheap_again = !m.recompute && one_in(3);
    make_transformer(&m);
}

/* Other structures. */

static uint64_t random_bytes(void) { return 64 * (uint64_t)(1 + random_below(1u << random_below(16))); }

/* Anything goes. */
static void random_uniform(void) {
    uint32_t steps = 1 + random_below(300);
    set_begin();
    for (uint32_t n = random_below(400); n > 0; n--) {
        now = random_below(steps);
        uint32_t v = born(one_in(20) ? 0 : random_bytes());
        set[v].last = now + random_below(steps - now);
    }
}

/* Lives nest or are apart. */
static void nest(uint32_t depth) {
    for (uint32_t n = random_below(4); n > 0 && set_count < 500; n--) {
        now++;
        uint32_t v = born(random_bytes());
        if (depth) nest(depth - 1);
        now++;
        use(v);
    }
}

static void random_nested(void) {
    set_begin();
    while (set_count < 20) nest(6);
}

/* A chain of short lives, each ending soon after the next begins. */
static void random_chain(void) {
    uint32_t previous[4] = { NONE, NONE, NONE, NONE };
    set_begin();
    for (uint32_t n = 10 + random_below(400); n > 0; n--) {
        now++;
        use(previous[random_below(4)]);
        previous[random_below(4)] = born(random_bytes());
    }
}

/* Values that die in the order opposite to their births while others are born for good. */
static void random_stairs(void) {
    uint32_t n = 2 + random_below(100), bytes[8];
    set_begin();
    for (uint32_t i = 0; i < 8; i++) bytes[i] = 1 + random_below(1000);
    for (uint32_t i = 0; i < n; i++) now++, born(64 * (uint64_t)bytes[i % 4]);
    for (uint32_t i = n; i-- > 0;) {
        now++;
        use(i);
        born(64 * (uint64_t)bytes[4 + i % 4]);
    }
    now++;
    for (uint32_t i = n; i < set_count; i++) use(i);
}

/* Measuring. */

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Packs and proves `set`; arena over lower bound. */
static double pack_and_check(void) {
    uint64_t arena = 1, bound = pack_lower_bound(set, set_count, NULL);
    assert_int_equal(pack_intervals(set, set_count, &arena), STATUS_OK);
    if (check_packing(set, set_count, arena) != STATUS_OK) fail_msg("%s", status_message());
    assert_true(arena >= bound);
    return bound ? (double)arena / (double)bound : 1;
}

typedef struct {
    double average, worst;
    uint32_t exact, sets;
} ratios;

static ratios measure(const char *name, void (*make)(void), uint32_t sets) {
    ratios r = { .sets = sets };
    double intervals = 0, time = 0;
    for (uint32_t i = 0; i < sets; i++) {
        random_begin(i);
        make();
        double begin = milliseconds(), ratio = pack_and_check();
        time += milliseconds() - begin;
        intervals += set_count;
        r.average += ratio / sets;
        if (ratio > r.worst) r.worst = ratio;
        r.exact += ratio <= 1;
    }
    print_message("  %-12s %4u sets, %4.0f intervals on average: arena / lower bound %.5f, worst %.4f, "
                  "exactly 1 in %u; "
                  "%.0f ns per interval, checks included\n",
                  name, sets, intervals / sets, r.average, r.worst, r.exact, time * 1e6 / (intervals + 1));
    return r;
}

/* Tests. */

static void random_sets_are_packed_without_overlap(void **state) {
    (void)state;
    measure("uniform", random_uniform, 500);
    ratios chain = measure("chain", random_chain, 400);
    ratios stairs = measure("stairs", random_stairs, 300);
    ratios nested = measure("nested", random_nested, 300);
    assert_true(chain.average <= 1.02 && stairs.average <= 1.01);
    assert_int_equal(nested.exact, nested.sets);
}

/* About one in a thousand of all seeds is above 1.01: small models whose gradients take the place of their
 * activations one by one. */
static void random_training_steps_take_little_more_than_the_lower_bound(void **state) {
    (void)state;
    ratios r = measure("transformer", random_transformer, 500);
    assert_true(r.worst <= 1.01);
    assert_true(r.average <= 1.0005);
    assert_true(r.exact >= r.sets / 100 * 98);
}

static const struct {
    const char *name;
    uint32_t layers, width;
} models[] = {
    { "char-gpt", 6, 384 }, { "gpt2", 12, 768 }, { "gpt2-medium", 24, 1024 }, { "gpt2-xl", 48, 1600 }
};

static const struct {
    const char *name;
    transformer options;
} variants[] = {
    { "plain", { .tied = true, .clip = true } },
    { "in place", { .tied = true, .in_place = true, .scratch = true } },
    { "attention", { .tied = true, .in_place = true, .flash = true, .clip = true } },
    { "norms again",
      { .tied = true, .in_place = true, .flash = true, .cheap_again = true, .scratch = true } },
    { "blocks again", { .tied = true, .in_place = true, .flash = true, .recompute = 1, .dropout = true } },
    { "4 again", { .tied = true, .in_place = true, .recompute = 4, .clip = true, .scratch = true } },
    { "chunked", { .tied = true, .in_place = true, .flash = true, .chunks = 16, .recompute = 1 } },
    { "early", { .tied = true, .in_place = true, .flash = true, .early_update = true, .scratch = true } },
    { "all",
      { .tied = true, .in_place = true, .flash = true, .chunks = 8, .recompute = 1, .early_update = true } },
    { "accumulate", { .in_place = true, .flash = true, .no_gradients = true, .dropout = true } },
};

static void known_models_are_packed_close_and_fast(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (size_t v = 0; v < sizeof variants / sizeof *variants; v++)
            for (uint32_t batch = 1; batch <= 16; batch *= 4) {
                transformer m = variants[v].options;
                m.layers = models[i].layers, m.width = models[i].width, m.heads = m.width / 64;
                m.batch = batch, m.context = i ? 1024 : 256, m.vocabulary = i ? 50257 : 256;
                make_transformer(&m);
                double ratio = pack_and_check(), best = 1e9;
                for (int round = 0; round < 3; round++) {
                    uint64_t arena;
                    double begin = milliseconds();
                    assert_int_equal(pack_intervals(set, set_count, &arena), STATUS_OK);
                    double time = milliseconds() - begin;
                    if (time < best) best = time;
                }
                print_message("  %-11s %-12s batch %2u: %4u intervals, arena / lower bound %.5f, %.3f ms\n",
                              models[i].name, variants[v].name, batch, set_count, ratio, best);
                assert_true(ratio <= 1.01);
            }
}

/* A collision of offsets, looked for among all pairs. */
static bool overlaps(void) {
    for (uint32_t i = 0; i < set_count; i++)
        for (uint32_t k = 0; k < i; k++) {
            const pack_interval *a = &set[i], *b = &set[k];
            if (a->bytes && b->bytes && a->first <= b->last && b->first <= a->last &&
                a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                return true;
        }
    return false;
}

static void the_check_agrees_with_all_pairs(void **state) {
    (void)state;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < 400; i++) {
        uint64_t arena;
        random_begin(1000 + i);
        if (i % 2)
            random_uniform();
        else
            random_chain();
        if (!set_count) continue;
        assert_int_equal(pack_intervals(set, set_count, &arena), STATUS_OK);
        pack_interval *moved = &set[random_below(set_count)];
        if (moved->bytes > arena) continue;
        moved->offset = 64 * (uint64_t)random_below((uint32_t)((arena - moved->bytes) / 64 + 1));
        wrong += overlaps();
        assert_int_equal(check_packing(set, set_count, arena) == STATUS_OK, !overlaps());
    }
    assert_true(wrong > 100);
}

/* One interval of every length at every place: it is inside, or a byte outside. */
static void the_check_sees_the_end(void **state) {
    (void)state;
    for (uint64_t room = 0; room <= 3 * PACK_ALIGNMENT; room++)
        for (uint64_t bytes = 1; bytes <= 3 * PACK_ALIGNMENT + 2; bytes++)
            for (uint64_t offset = 0; offset <= 3 * PACK_ALIGNMENT; offset += PACK_ALIGNMENT) {
                pack_interval one = { .bytes = bytes, .first = 2, .last = 3, .offset = offset };
                status expected = offset + bytes <= room ? STATUS_OK : STATUS_FAILED;
                if (check_packing(&one, 1, room) != expected)
                    fail_msg("%d bytes at %d of %d", (int)bytes, (int)offset, (int)room);
            }
}

/* What lives for ever does not keep others in their places. */
static void the_check_knows_the_last_step(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < 100; seed++) {
        uint64_t arena;
        random_begin(2000 + seed);
        random_uniform();
        for (uint32_t i = seed % 5; i < set_count; i += 5) set[i].last = UINT32_MAX;
        assert_int_equal(pack_intervals(set, set_count, &arena), STATUS_OK);
        if (check_packing(set, set_count, arena) != STATUS_OK) fail_msg("%s", status_message());
    }
}

static void the_check_sees_what_is_wrong(void **state) {
    (void)state;
    uint64_t arena;
    random_begin(1);
    random_transformer();
    assert_int_equal(pack_intervals(set, set_count, &arena), STATUS_OK);
    assert_int_equal(check_packing(set, set_count, arena), STATUS_OK);
    assert_int_equal(check_packing(set, set_count, arena - 64), STATUS_FAILED);
    assert_int_equal(check_packing(set, set_count, 0), STATUS_FAILED);
    for (uint32_t i = 0; i + 1 < set_count;
         i++) { /* tokens live until the end of backward: a neighbour of many */
        uint64_t right = set[i].offset;
        uint32_t other = i + 1;
        if (set[other].first > set[i].last) continue;
        set[i].offset = set[other].offset;
        assert_int_equal(check_packing(set, set_count, arena + set[i].bytes), STATUS_FAILED);
        set[i].offset = right + 1;
        assert_int_equal(check_packing(set, set_count, arena + 64), STATUS_FAILED);
        set[i].offset = UINT64_MAX - 63;
        assert_int_equal(check_packing(set, set_count, arena), STATUS_FAILED);
        set[i].offset = right;
    }
    assert_int_equal(check_packing(set, set_count, arena), STATUS_OK);
    uint32_t last = set[0].last;
    set[0].first = 5, set[0].last = 4;
    assert_int_equal(check_packing(set, set_count, arena), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "steps 5 to 4"));
    set[0].first = 0, set[0].last = last;
}

static int by_everything(const void *left, const void *right) {
    const pack_interval *a = left, *b = right;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    if (a->last != b->last) return a->last < b->last ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static void the_order_of_the_input_does_not_matter(void **state) {
    (void)state;
    static pack_interval first[MOST_INTERVALS];
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t arena, again;
        random_begin(i);
        if (i % 4 == 0)
            random_transformer();
        else if (i % 2)
            random_uniform();
        else
            random_stairs();
        assert_int_equal(pack_intervals(set, set_count, &arena), STATUS_OK);
        memcpy(first, set, set_count * sizeof *set);
        assert_int_equal(pack_intervals(set, set_count, &again), STATUS_OK);
        assert_memory_equal(first, set, set_count * sizeof *set); /* offsets at entry are not read */
        assert_true(arena == again);
        for (uint32_t k = set_count; k-- > 1;) {
            uint32_t other = random_below(k + 1);
            pack_interval swap = set[k];
            set[k] = set[other], set[other] = swap;
            set[k].offset = random_word();
        }
        assert_int_equal(pack_intervals(set, set_count, &again), STATUS_OK);
        assert_true(arena == again);
        qsort(first, set_count, sizeof *first, by_everything);
        qsort(set, set_count, sizeof *set, by_everything);
        assert_memory_equal(first, set, set_count * sizeof *set);
    }
}

static void only_the_order_of_steps_matters(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        uint64_t arena, spread;
        uint32_t peak, spread_peak;
        random_begin(i);
        random_uniform();
        assert_int_equal(pack_intervals(set, set_count, &arena), STATUS_OK);
        uint64_t bound = pack_lower_bound(set, set_count, &peak);
        for (uint32_t k = 0; k < set_count; k++)
            set[k].first = UINT32_MAX - (300 - set[k].first) * 1000000u,
            set[k].last = UINT32_MAX - (300 - set[k].last) * 1000000u;
        assert_int_equal(pack_intervals(set, set_count, &spread), STATUS_OK);
        assert_int_equal(check_packing(set, set_count, spread), STATUS_OK);
        assert_true(spread == arena);
        assert_true(pack_lower_bound(set, set_count, &spread_peak) == bound);
        assert_true(!bound || spread_peak == UINT32_MAX - (300 - peak) * 1000000u);
    }
}

static void borders_and_wrong_input(void **state) {
    (void)state;
    uint64_t arena = 1;
    uint32_t peak = 7;
    assert_int_equal(pack_intervals(NULL, 0, &arena), STATUS_OK);
    assert_true(arena == 0 && pack_lower_bound(NULL, 0, &peak) == 0 && peak == 0);
    assert_int_equal(check_packing(NULL, 0, 0), STATUS_OK);

    pack_interval empty[2] = { { 0, 0, 9, 64 }, { 0, 3, 3, 64 } };
    assert_int_equal(pack_intervals(empty, 2, &arena), STATUS_OK);
    assert_true(arena == 0 && empty[0].offset == 0 && pack_lower_bound(empty, 2, NULL) == 0);

    pack_interval ends[2] = { { 64, 0, UINT32_MAX, 0 }, { 128, UINT32_MAX, UINT32_MAX, 0 } };
    assert_int_equal(pack_intervals(ends, 2, &arena), STATUS_OK);
    assert_true(arena == 192 && pack_lower_bound(ends, 2, &peak) == 192 && peak == UINT32_MAX);
    assert_int_equal(check_packing(ends, 2, arena), STATUS_OK);

    pack_interval touching[2] = { { 64, 0, 3, 0 }, { 64, 3, 5, 0 } }; /* both ends are included */
    assert_int_equal(pack_intervals(touching, 2, &arena), STATUS_OK);
    assert_true(arena == 128 && pack_lower_bound(touching, 2, &peak) == 128 && peak == 3);

    pack_interval backwards = { 64, 3, 2, 0 }, odd = { 65, 0, 1, 0 };
    assert_int_equal(pack_intervals(&backwards, 1, &arena), STATUS_INVALID);
    assert_int_equal(pack_intervals(&odd, 1, &arena), STATUS_INVALID);
    pack_interval huge[4] = { { UINT64_C(1) << 61, 0, 0, 0 },
                              { UINT64_C(1) << 61, 1, 1, 0 },
                              { 64, 2, 2, 0 } };
    assert_int_equal(pack_intervals(huge, 4, &arena), STATUS_INVALID);
    assert_int_equal(pack_intervals(huge, 1, &arena), STATUS_OK);
    huge[0].bytes = UINT64_MAX - 63; /* would wrap around */
    assert_int_equal(pack_intervals(huge, 3, &arena), STATUS_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sets_are_packed_without_overlap),
        cmocka_unit_test(random_training_steps_take_little_more_than_the_lower_bound),
        cmocka_unit_test(known_models_are_packed_close_and_fast),
        cmocka_unit_test(the_check_agrees_with_all_pairs),
        cmocka_unit_test(the_check_sees_the_end),
        cmocka_unit_test(the_check_knows_the_last_step),
        cmocka_unit_test(the_check_sees_what_is_wrong),
        cmocka_unit_test(the_order_of_the_input_does_not_matter),
        cmocka_unit_test(only_the_order_of_steps_matters),
        cmocka_unit_test(borders_and_wrong_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
