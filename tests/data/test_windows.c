/* Documents that stay whole: of random lengths, each token stands in one sample, none has more than it
 * holds, labels end where documents do; the same samples in any order, by any number of threads, and in the
 * memory that was planned. The tokens of the files are their own places, so a sample says what it has. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/fill.h"
#include "data/text_source.h"
#include "data/windows.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "sanitized.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define COUNTS 0 /* they have a malloc of their own */
#else
#define COUNTS 1
#endif

enum {
    MOST = 1 << 18,
    MOST_DOCUMENTS = 1 << 13,
    VOCABULARY = MOST + 1,
    PADDING = MOST,
    FIRST_POSITION = 2,
    GUARD = 64
};

typedef struct {
    uint8_t learned[MOST];
    uint64_t ends[MOST_DOCUMENTS], count, documents;
} made;
static made all;
static uint32_t seen[MOST];

static uint64_t begin_of(uint64_t d) { return d ? all.ends[d - 1] : 0; }

static uint64_t document_of(uint64_t token) {
    uint64_t low = 0, high = all.documents;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (all.ends[middle] <= token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_document(uint64_t length) {
    all.count += length;
    all.ends[all.documents++] = all.count;
}

static void save(const char *path, uint64_t first, uint64_t end, bool learned) {
    static uint32_t ids[MOST];
    static uint64_t ends[MOST_DOCUMENTS];
    uint64_t begin = begin_of(first), tokens = begin_of(end) - begin;
    for (uint64_t i = 0; i < tokens; i++) ids[i] = (uint32_t)(begin + i);
    for (uint64_t d = first; d < end; d++) ends[d - first] = all.ends[d] - begin;
    int64_t count = (int64_t)tokens, documents = (int64_t)(end - first);
    safetensors_item items[] = {
        { .name = "ends",
          .dtype = "U64",
          .shape = SHAPE(documents),
          .data = ends,
          .bytes = (end - first) * 8 },
        { .name = "tokens", .dtype = "U32", .shape = SHAPE(count), .data = ids, .bytes = tokens * 4 },
        { .name = "learned",
          .dtype = "U8",
          .shape = SHAPE(count),
          .data = all.learned + begin,
          .bytes = tokens },
    };
    if (safetensors_write(path, items, learned ? 3 : 2) != STATUS_OK) fail_msg("%s", status_message());
}

/* Lengths up to `longest`, of some kind. */
static void make(uint64_t *random, uint64_t documents, uint32_t longest, int kind) {
    all.count = all.documents = 0;
    for (uint64_t d = 0; d < documents; d++) {
        uint32_t draw = scratch_random(random), length = 1 + draw % longest;
        if (kind == 1) length = draw % 5 ? 1 + draw % (longest / 4 + 1) : longest - draw % (longest / 4 + 1);
        if (kind == 2) length = longest;
        if (kind == 3) length = 1 + draw % longest % (1 + scratch_random(random) % longest);
        if (all.count + length <= MOST) add_document(length);
    }
    for (uint64_t i = 0; i < all.count; i++) all.learned[i] = scratch_random(random) % 4 > 0;
}

/* ---- what a sample says ---- */

typedef struct {
    int32_t *tokens, *labels, *segments, *positions; /* (T) each */
    uint32_t context, at;
    int32_t segment;
    bool learned;
} sample;

/* Tokens from `token` on, one behind the other, of which `labelled` have the next one for a label. */
static void expect_run(sample *x, uint64_t token, uint64_t count, uint64_t labelled) {
    assert_true(x->at + count <= x->context);
    for (uint64_t i = 0; i < count; i++, x->at++) {
        uint64_t next = token + i + 1;
        bool label = i < labelled && (!x->learned || all.learned[next]);
        assert_int_equal(x->tokens[x->at], token + i);
        assert_int_equal(x->labels[x->at], label ? (int64_t)next : DATA_IGNORED_LABEL);
        assert_int_equal(x->segments[x->at], x->segment);
        assert_int_equal(x->positions[x->at], FIRST_POSITION + i);
        seen[token + i]++;
    }
    x->segment++;
}

static void expect_padding(sample *x) {
    for (int32_t i = 0; x->at < x->context; x->at++, i++) {
        assert_int_equal(x->tokens[x->at], PADDING);
        assert_int_equal(x->labels[x->at], DATA_IGNORED_LABEL);
        assert_int_equal(x->segments[x->at], x->segment);
        assert_int_equal(x->positions[x->at], FIRST_POSITION + i);
    }
}

/* A whole sample of a longer document, or pieces that end with theirs, each behind the one before it in the
 * data; and padding. All of documents `first` to before `end`. */
static void check_sample(sample *x, uint64_t first, uint64_t end) {
    uint64_t before = 0;
    x->at = 0, x->segment = 0;
    while (x->at < x->context && x->tokens[x->at] != PADDING) {
        uint64_t token = (uint64_t)x->tokens[x->at];
        assert_true(x->tokens[x->at] >= 0 && token < all.count);
        uint64_t d = document_of(token), rest = all.ends[d] - token;
        assert_true(d >= first && d < end && (token - begin_of(d)) % x->context == 0);
        assert_true(x->at == 0 || token > before);
        if (rest > x->context) {
            assert_int_equal(x->at, 0);
            expect_run(x, token, x->context, x->context);
        } else {
            expect_run(x, token, rest, rest - 1);
        }
        before = token;
    }
    assert_true(x->at > 0);
    expect_padding(x);
}

static uint64_t next_fit(uint64_t first, uint64_t end, uint64_t context) {
    uint64_t count = 0, room = 0;
    for (uint64_t d = first; d < end; d++) {
        uint64_t length = all.ends[d] - begin_of(d), fresh = (length + context - 1) / context;
        if (length > room) count += fresh, room = fresh * context;
        room -= length;
    }
    return count;
}

static void check_seen(uint64_t from, uint64_t to) {
    for (uint64_t i = 0; i < all.count; i++)
        if (seen[i] != (i >= from && i < to))
            fail_msg("token %llu is there %u times", (unsigned long long)i, seen[i]);
}

static sample sample_new(uint32_t context, bool learned) {
    int32_t *memory = malloc(4 * context * sizeof *memory);
    return (sample){ .tokens = memory,
                     .labels = memory + context,
                     .segments = memory + 2 * context,
                     .positions = memory + 3 * context,
                     .context = context,
                     .learned = learned };
}

/* ---- windows of blocks of any size ---- */

static void read_window(const windows *w, const corpus *c, uint64_t window, void *scratch, sample *x) {
    static _Thread_local uint64_t pieces[1 << 14];
    assert_true(c->format->scratch_bytes <= sizeof pieces);
    data_window to = { .tokens = x->tokens,
                       .labels = x->labels,
                       .segments = x->segments,
                       .positions = x->positions,
                       .first_position = FIRST_POSITION,
                       .context = x->context,
                       .vocabulary = VOCABULARY,
                       .scratch = pieces,
                       .scratch_bytes = c->format->scratch_bytes };
    if (windows_read(w, c, window, scratch, &to) != STATUS_OK) fail_msg("%s", status_message());
    if (to.at > x->context) return; /* its document goes on */
    format_begin(&to);
    while (to.at < to.context) format_put_as(&to, PADDING, false);
    x->labels[x->context - 1] = DATA_IGNORED_LABEL;
}

/* Blocks follow one another, and none is longer than may be but where its documents are one window. */
static void check_blocks(const windows *w) {
    const windows_options *o = &w->options;
    assert_int_equal(w->blocks[0].document, o->first);
    assert_int_equal(w->blocks[0].window, 0);
    assert_int_equal(w->blocks[w->count].document, o->end);
    assert_int_equal(w->blocks[w->count].window, w->windows);
    for (uint64_t b = 0; b < w->count; b++) {
        uint64_t first = w->blocks[b].document, end = w->blocks[b + 1].document, count;
        count = w->blocks[b + 1].window - w->blocks[b].window;
        assert_true(end > first && count > 0);
        if (end - first > o->block) assert_int_equal(count, next_fit(first, first + 1, o->context));
        assert_true(count <= next_fit(first, end, o->context) || o->alone);
    }
    assert_int_equal(w->held_bytes, (w->count + 1) * sizeof(windows_block));
    if (COUNTS) assert_in_range(malloc_usable_size(w->blocks), w->held_bytes, w->held_bytes + 40);
}

static void check_windows(const char *path, const windows_options *o, bool learned, uint64_t *random) {
    corpus *c;
    windows w;
    sample x = sample_new(o->context, learned);
    uint64_t bytes = windows_scratch_bytes(o->block), b = 0;
    unsigned char *scratch = calloc(1, bytes + GUARD);
    memset(scratch + bytes, 0x5a, GUARD);
    if (corpus_open(path, DATA_KIND_TOKENS, &c) != STATUS_OK) fail_msg("%s", status_message());
    if (windows_open(c, o, &w) != STATUS_OK) fail_msg("%s", status_message());
    check_blocks(&w);
    if (!o->alone) assert_true(w.windows <= next_fit(o->first, o->end, o->context));
    assert_int_equal(w.tokens, begin_of(o->end) - begin_of(o->first));
    memset(seen, 0, sizeof seen);
    for (uint64_t k = 0; k < w.windows; k++) {
        uint64_t window = k * 7919 % w.windows;
        if (w.windows % 7919 == 0) window = k;
        if (scratch_random(random) % 3 == 0) memset(scratch, 0, bytes); /* another reader's */
        while (w.blocks[b].window > window) b--;
        while (w.blocks[b + 1].window <= window) b++;
        read_window(&w, c, window, scratch, &x);
        check_sample(&x, w.blocks[b].document, w.blocks[b + 1].document);
        if (o->alone) assert_true(x.segment == 1);
    }
    check_seen(begin_of(o->first), begin_of(o->end));
    for (int i = 0; i < GUARD; i++) assert_int_equal(scratch[bytes + (uint64_t)i], 0x5a);
    windows_close(&w);
    corpus_close(c);
    free(scratch);
    free(x.tokens);
}

static void each_token_is_in_one_window(void **state) {
    (void)state;
    static const uint32_t blocks[] = { 1, 2, 7, 30, 256, 1024, 5000 };
    uint64_t random = 29;
    for (int round = 0; round < (SANITIZED ? 20 : 80); round++) {
        bool learned = round % 2;
        uint32_t longest = 1 + scratch_random(&random) % (round % 3 ? 40 : 400);
        make(&random, 1 + scratch_random(&random) % (round % 8 ? 120 : 5000), longest, round % 4);
        save("t.safetensors", 0, all.documents, learned);
        for (int i = 0; i < 5; i++) {
            windows_options o = { .block = blocks[scratch_random(&random) % 7], .alone = i == 4 };
            o.context = 1 + scratch_random(&random) % (i < 2 ? 2 * longest : i < 3 ? longest : 20 * longest);
            if (i == 3) o.context = longest;
            o.first = round % 5 ? 0 : scratch_random(&random) % all.documents;
            o.end = o.first + 1 + scratch_random(&random) % (all.documents - o.first);
            if (round % 3) o.end = all.documents;
            check_windows("t.safetensors", &o, learned, &random);
        }
    }
}

/* The block that is held is whole: of one that could not be read nothing is left. */
static void a_failed_block_is_not_held(void **state) {
    (void)state;
    enum { CONTEXT = 20 };
    const windows_options o = { .context = CONTEXT, .block = 64, .end = 900 };
    int32_t ids[4 * CONTEXT];
    uint64_t random = 41, pieces[1 << 14];
    corpus *c;
    windows w;
    all.count = all.documents = 0;
    for (uint64_t d = 0; d < 900; d++) add_document(1 + scratch_random(&random) % CONTEXT);
    assert_int_equal(mkdir("short", 0700), 0);
    save("short/a.safetensors", 0, 600, false);
    save("short/b.safetensors", 600, 900, false);
    assert_int_equal(corpus_open("short", DATA_KIND_TOKENS, &c), STATUS_OK);
    assert_int_equal(windows_open(c, &o, &w), STATUS_OK);
    void *scratch = calloc(1, windows_scratch_bytes(o.block));
    sample before = sample_new(CONTEXT, false), after = sample_new(CONTEXT, false);
    uint64_t window = w.blocks[2].window + 1; /* of the first file */
    read_window(&w, c, window, scratch, &before);
    assert_int_equal(truncate("short/b.safetensors", 500), 0);
    data_window to = { .tokens = ids,
                       .labels = ids + CONTEXT,
                       .segments = ids + 2 * CONTEXT,
                       .context = CONTEXT,
                       .vocabulary = VOCABULARY,
                       .scratch = pieces,
                       .scratch_bytes = c->format->scratch_bytes };
    assert_true(windows_read(&w, c, w.windows - 1, scratch, &to) != STATUS_OK);
    read_window(&w, c, window, scratch, &after);
    assert_memory_equal(after.tokens, before.tokens, CONTEXT * sizeof *ids);
    assert_memory_equal(after.segments, before.segments, CONTEXT * sizeof *ids);
    windows_close(&w);
    corpus_close(c);
    free(scratch), free(before.tokens), free(after.tokens);
}

/* Where the first tokens of all windows are, in order. */
static void expect_windows(const char *path, const windows_options *o, uint64_t count,
                           const uint64_t (*firsts)[3]) {
    corpus *c;
    windows w;
    sample x = sample_new(o->context, false);
    void *scratch = calloc(1, windows_scratch_bytes(o->block));
    assert_int_equal(corpus_open(path, DATA_KIND_TOKENS, &c), STATUS_OK);
    assert_int_equal(windows_open(c, o, &w), STATUS_OK);
    assert_int_equal(w.windows, count);
    for (uint64_t k = 0; k < count; k++) {
        read_window(&w, c, k, scratch, &x);
        for (uint32_t at = 0, i = 0; at < o->context && x.tokens[at] != PADDING; i++) {
            assert_true(i < 3);
            assert_int_equal(x.tokens[at], firsts[k][i]);
            for (int32_t segment = x.segments[at]; at < o->context && x.segments[at] == segment;) at++;
        }
    }
    windows_close(&w);
    corpus_close(c);
    free(scratch);
    free(x.tokens);
}

/* By hand. Neither by size, nor by the first document: by the place of the longest of each. */
static void windows_stand_where_their_longest_does(void **state) {
    (void)state;
    static const uint64_t lengths[] = { 4, 9, 6, 1, 8, 2, /* a block ends here */ 33, 8, 7, 2 };
    uint64_t at[11] = { 0 };
    all.count = all.documents = 0;
    for (size_t d = 0; d < 10; d++) {
        add_document(lengths[d]);
        at[d + 1] = all.count;
    }
    save("hand.safetensors", 0, all.documents, false);
    const uint64_t expected[][3] = {
        { at[1], at[3] }, { at[0], at[2] },      { at[4], at[5] }, /* 9 1, 4 6, 8 2 */
        { at[6] },        { at[6] + 10 },        { at[6] + 20 },   /* 10 10 10 of 33 */
        { at[7], at[9] }, { at[6] + 30, at[8] },                   /* 8 2, 3 7 */
    };
    windows_options o = { .context = 10, .block = 6, .end = 10 };
    expect_windows("hand.safetensors", &o, 8, expected);
}

/* ---- samples ---- */

static bool gaps; /* for models that fill them */

static data_source opened(const char *path, uint32_t context, data_source *held) {
    data_source s;
    text_source_options o = {
        .path = path, .context = context, .vocabulary = VOCABULARY, .gaps = gaps, .hold_out = true
    };
    text_source_packing p = { true, FIRST_POSITION, TEXT_SOURCE_WHOLE, PADDING, 0 };
    if (text_source_open(&o, &s) != STATUS_OK) fail_msg("%s", status_message());
    if (text_source_held_out(&s, held) != STATUS_OK) fail_msg("%s", status_message());
    data_source *parts[] = { &s, held };
    for (int i = 0; i < 2; i++) {
        uint64_t before = parts[i]->held_bytes;
        if (text_source_pack(parts[i], &p) != STATUS_OK) fail_msg("%s", status_message());
        assert_in_range(parts[i]->held_bytes - before, 16, (all.documents / 512 + 3) * 16);
    }
    return s;
}

static void check_source(const data_source *s, uint64_t first, uint64_t end, uint32_t context, bool learned) {
    sample x = sample_new(context, learned);
    void *fields[] = { x.tokens, x.labels, x.segments, x.positions };
    char *scratch = aligned_alloc(64, (s->scratch_bytes + GUARD + 63) / 64 * 64);
    memset(scratch, 0, s->scratch_bytes);
    memset(scratch + s->scratch_bytes, 0x5a, GUARD);
    memset(seen, 0, sizeof seen);
    for (uint64_t k = 0; k < s->samples; k++) {
        uint64_t number = s->samples % 7919 ? k * 7919 % s->samples : k;
        if (s->read(s, number, scratch, fields) != STATUS_OK) fail_msg("%s", status_message());
        check_sample(&x, first, end);
    }
    for (int i = 0; i < GUARD; i++) assert_int_equal(scratch[s->scratch_bytes + (uint64_t)i], 0x5a);
    check_seen(begin_of(first), begin_of(end));
    uint64_t tokens = begin_of(end) - begin_of(first);
    assert_int_equal(text_source_tokens(s), tokens);
    assert_true(s->samples <= next_fit(first, end, context));
    double empty = 1 - (double)tokens / ((double)s->samples * context), told = text_source_padding(s);
    if (s->samples) assert_true(told > empty - 1e-9 && told < empty + 1e-9);
    free(scratch);
    free(x.tokens);
}

/* For models that fill gaps the same samples have their labels in place, of each token that is learned. */
static void check_gaps(const char *path, const data_source *plain, uint32_t context, bool learned) {
    data_source held, s;
    gaps = true;
    s = opened(path, context, &held);
    gaps = false;
    sample a = sample_new(context, learned), b = sample_new(context, learned);
    void *to_a[] = { a.tokens, a.labels, a.segments, a.positions },
         *to_b[] = { b.tokens, b.labels, b.segments, b.positions };
    char *scratch = aligned_alloc(64, (s.scratch_bytes + 63) / 64 * 64);
    memset(scratch, 0, s.scratch_bytes);
    assert_true(s.in_place && s.samples == plain->samples);
    uint64_t learns = 0, expected = 0;
    for (uint64_t k = 0; k < s.samples; k++) {
        assert_int_equal(plain->read(plain, k, scratch, to_a), STATUS_OK);
        memset(scratch, 0, s.scratch_bytes);
        assert_int_equal(s.read(&s, k, scratch, to_b), STATUS_OK);
        memset(scratch, 0, s.scratch_bytes);
        assert_memory_equal(a.tokens, b.tokens, context * sizeof *a.tokens);
        assert_memory_equal(a.segments, b.segments, context * sizeof *a.segments);
        for (uint32_t i = 0; i < context; i++) {
            bool label = b.labels[i] != DATA_IGNORED_LABEL;
            learns += label;
            if (label) assert_int_equal(b.labels[i], b.tokens[i]);
            if (!learned) assert_true(label == (b.tokens[i] != PADDING));
        }
    }
    uint64_t cut = all.count - all.count / 10, from = 0;
    while (from < all.documents && begin_of(from) < cut) from++;
    for (uint64_t i = 0; i < begin_of(from); i++) expected += !learned || all.learned[i];
    assert_int_equal(learns, expected);
    free(scratch), free(a.tokens), free(b.tokens);
    data_source_close(&s);
    data_source_close(&held);
}

static void check(const char *path, uint32_t context, bool learned) {
    data_source s, held;
    uint64_t cut = all.count - all.count / 10, from = 0;
    while (from < all.documents && begin_of(from) < cut) from++;
    s = opened(path, context, &held);
    check_source(&s, 0, from, context, learned);
    check_gaps(path, &s, context, learned);
    check_source(&held, from, all.documents, context, learned);
    data_source_close(&s);
    data_source_close(&held);
}

static void samples_of_one_file_and_of_several(void **state) {
    (void)state;
    uint64_t random = 31;
    enum { SHORT = 7, ALL = SANITIZED ? SHORT : 10 };
    for (int round = 0; round < ALL; round++) {
        uint32_t longest = round % 2 ? 70 : 20;
        make(&random, round < SHORT ? 300 : 7000, longest, round % 4);
        save("t.safetensors", 0, all.documents, round % 3);
        check("t.safetensors", longest, round % 3);
        check("t.safetensors", longest / 2, round % 3);
        check("t.safetensors", 5 * longest + 1, round % 3);
    }
    assert_int_equal(mkdir("parts", 0700), 0);
    make(&random, 3000, 30, 0);
    const uint64_t borders[] = { 0, 1, 700, 2999, all.documents };
    for (int part = 0; part < 4; part++) {
        char path[40];
        snprintf(path, sizeof path, "parts/%d.safetensors", part);
        save(path, borders[part], borders[part + 1], true);
    }
    for (uint32_t context = 5; context < 100; context += 31) check("parts", context, true);
    check("parts", 10000, true);
    check("parts", 100000, true);
}

/* ---- threads ---- */

typedef struct {
    const data_source *s;
    const int32_t *expected; /* (samples, 4, T) */
    uint64_t stride;
    uint32_t context, wrong;
} reader;

static void read_all(const data_source *s, uint64_t number, void *scratch, int32_t *to, uint32_t context) {
    void *fields[] = { to, to + context, to + 2 * context, to + 3 * context };
    if (s->read(s, number, scratch, fields) != STATUS_OK) abort();
}

static void *read_in_order(void *argument) {
    reader *r = argument;
    size_t bytes = 4 * r->context * sizeof(int32_t);
    int32_t *x = malloc(bytes);
    char *scratch = aligned_alloc(64, (r->s->scratch_bytes + 63) / 64 * 64);
    memset(scratch, 0, r->s->scratch_bytes);
    for (uint64_t k = 0; k < r->s->samples; k++) {
        uint64_t number = k * r->stride % r->s->samples;
        read_all(r->s, number, scratch, x, r->context);
        r->wrong += memcmp(x, r->expected + number * 4 * r->context, bytes) != 0;
    }
    free(scratch);
    free(x);
    return NULL;
}

static void threads_read_the_same(void **state) {
    (void)state;
    enum { CONTEXT = 60, THREADS = 4 };
    static const uint64_t strides[THREADS] = { 1, 101, 7919, 65537 };
    uint64_t random = 37;
    data_source s, held;
    make(&random, 6000, 70, 1);
    save("t.safetensors", 0, all.documents, true);
    s = opened("t.safetensors", CONTEXT, &held);
    int32_t *expected = malloc(s.samples * 4 * CONTEXT * sizeof *expected);
    char *scratch = aligned_alloc(64, (s.scratch_bytes + 63) / 64 * 64);
    for (uint64_t k = 0; k < s.samples; k++) {
        memset(scratch, 0, s.scratch_bytes);
        read_all(&s, k, scratch, expected + k * 4 * CONTEXT, CONTEXT);
    }
    pthread_t threads[THREADS];
    reader readers[THREADS];
    for (int t = 0; t < THREADS; t++) {
        readers[t] = (reader){ &s, expected, strides[t], CONTEXT, 0 };
        assert_int_equal(pthread_create(&threads[t], NULL, read_in_order, &readers[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        assert_int_equal(readers[t].wrong, 0);
    }
    free(scratch);
    free(expected);
    data_source_close(&s);
    data_source_close(&held);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_token_is_in_one_window),
        cmocka_unit_test(a_failed_block_is_not_held),
        cmocka_unit_test(windows_stand_where_their_longest_does),
        cmocka_unit_test(samples_of_one_file_and_of_several),
        cmocka_unit_test(threads_read_the_same),
    };
    return cmocka_run_group_tests_name("windows", tests, scratch_open, scratch_close);
}
