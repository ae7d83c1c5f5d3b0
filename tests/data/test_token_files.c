/* Files of tokens as snug tokenize makes them: what is read of them in samples of any length, with documents
 * cut or alone, is what a slow reading by hand says; and what is wrong with a file is said. (Kept whole:
 * test_windows.c.) */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/mixed_source.h"
#include "data/text_source.h"
#include "io/safetensors.h"
#include "io/scratch.h"

enum { MOST = 1 << 15, MOST_DOCUMENTS = 1 << 12, PADDING = 9, VOCABULARY = 500, FIRST_POSITION = 3 };

typedef struct {
    uint16_t tokens[MOST];
    uint8_t learned[MOST];
    uint64_t ends[MOST_DOCUMENTS];
    uint64_t count, documents;
} made;
static made all;

static void make(uint64_t *random, uint64_t documents, uint32_t longest) {
    all.count = 0, all.documents = documents;
    for (uint64_t d = 0; d < documents; d++) {
        uint64_t length = 1 + scratch_random(random) % longest;
        for (uint64_t i = 0; i < length; i++, all.count++) {
            all.tokens[all.count] = (uint16_t)(scratch_random(random) % VOCABULARY);
            all.learned[all.count] = scratch_random(random) % 3 > 0;
        }
        all.ends[d] = all.count;
    }
}

/* Ids that stand for no text; 0 of them: the file has no such list. */
static uint32_t special[VOCABULARY], special_count;

static bool is_special(uint32_t id) {
    for (uint32_t i = 0; i < special_count; i++)
        if (special[i] == id) return true;
    return false;
}

static void save(const char *path, bool wide, bool learned) {
    static uint32_t ids[MOST];
    for (uint64_t i = 0; i < all.count; i++) ids[i] = all.tokens[i];
    int64_t count = (int64_t)all.count, documents = (int64_t)all.documents;
    safetensors_item items[] = {
        { .name = "ends",
          .dtype = "U64",
          .shape = SHAPE(documents),
          .data = all.ends,
          .bytes = all.documents * 8 },
        { .name = "tokens",
          .dtype = wide ? "U32" : "U16",
          .shape = SHAPE(count),
          .data = wide ? (void *)ids : all.tokens,
          .bytes = all.count * (wide ? 4 : 2) },
        { .name = "learned", .dtype = "U8", .shape = SHAPE(count), .data = all.learned, .bytes = all.count },
        { 0 },
    };
    uint32_t used = learned ? 3 : 2;
    safetensors_item list = { .name = "special",
                              .dtype = "U32",
                              .shape = SHAPE((int64_t)special_count),
                              .data = special,
                              .bytes = special_count * 4 };
    if (special_count) items[used++] = list;
    if (safetensors_write(path, items, used) != STATUS_OK) fail_msg("%s", status_message());
}

/* ---- a slow reading ---- */

typedef struct {
    uint64_t first, count;
} stretch;

static uint64_t document_of(uint64_t token) {
    uint64_t d = 0;
    while (all.ends[d] <= token) d++;
    return d;
}
static uint64_t begin_of(uint64_t d) { return d ? all.ends[d - 1] : 0; }

/* Samples of one document each from `token` to before `end`, both at documents' edges. */
static uint64_t lay_out(uint64_t token, uint64_t end, uint32_t context, stretch *out) {
    uint64_t samples = 0;
    while (token < end) {
        uint64_t rest = all.ends[document_of(token)] - token, count = rest < context ? rest : context;
        out[samples++] = (stretch){ token, count };
        token += count;
    }
    return samples;
}

static void compare(const stretch *x, uint32_t context, bool learned, int32_t *const fields[4],
                    bool positions) {
    int32_t segment = 0, position = FIRST_POSITION;
    for (uint32_t i = 0; i < context; i++) {
        bool inside = i < x->count;
        uint64_t at = x->first + i, d = inside ? document_of(at) : 0;
        bool begins = i > 0 && (inside ? at == begin_of(d) : i == x->count);
        if (begins) segment++, position = FIRST_POSITION;
        bool follows = inside && at + 1 < all.ends[d] && (!learned || all.learned[at + 1]);
        assert_int_equal(fields[0][i], inside ? all.tokens[at] : PADDING);
        assert_int_equal(fields[1][i], follows ? all.tokens[at + 1] : DATA_IGNORED_LABEL);
        assert_int_equal(fields[2][i], segment);
        if (positions) assert_int_equal(fields[3][i], position);
        position++;
    }
}

/* The same of samples whose labels are in place: those of tokens that may be hidden. */
static void compare_gaps(const stretch *x, uint32_t context, bool learned, int32_t *const fields[4]) {
    for (uint32_t i = 0; i < context; i++) {
        uint64_t at = x->first + i;
        bool inside = i < x->count;
        bool open = inside && !is_special(all.tokens[at]) && (!learned || all.learned[at]);
        assert_int_equal(fields[0][i], inside ? all.tokens[at] : PADDING);
        assert_int_equal(fields[1][i], open ? all.tokens[at] : DATA_IGNORED_LABEL);
    }
}

static void check_source(const data_source *s, const stretch *expected, uint64_t samples, uint32_t context,
                         bool learned, bool positions) {
    int32_t *fields[4];
    for (uint32_t f = 0; f < 4; f++) fields[f] = malloc(context * sizeof(int32_t));
    void *scratch = aligned_alloc(64, (s->scratch_bytes + 63) / 64 * 64);
    memset(scratch, 0, s->scratch_bytes);
    assert_int_equal(s->samples, samples);
    for (uint64_t k = 0; k < samples; k++) {
        uint64_t sample = k * 7919 % samples;
        if (s->read(s, sample, scratch, (void *const *)fields) != STATUS_OK) fail_msg("%s", status_message());
        if (s->in_place)
            compare_gaps(&expected[sample], context, learned, fields);
        else
            compare(&expected[sample], context, learned, fields, positions);
    }
    for (int f = 0; f < 4; f++) free(fields[f]);
    free(scratch);
}

static uint64_t cut(uint64_t tokens, uint64_t first, uint32_t context, stretch *out) {
    uint64_t samples = tokens ? (tokens - 1) / context : 0;
    for (uint64_t i = 0; i < samples; i++) out[i] = (stretch){ first + i * context, context };
    return samples;
}

/* Where a document that begins at or behind the token begins. */
static uint64_t edge(uint64_t token) {
    uint64_t d = 0;
    while (d < all.documents && begin_of(d) < token) d++;
    return begin_of(d);
}

static bool gaps; /* for models that fill them */

static void check(const char *path, uint32_t context, text_source_way way, bool positions, bool learned) {
    static stretch expected[MOST];
    data_source s, held;
    text_source_options o = {
        .path = path, .context = context, .vocabulary = VOCABULARY, .gaps = gaps, .hold_out = true
    };
    text_source_packing p = { positions, FIRST_POSITION, way, PADDING, 0 };
    if (text_source_open(&o, &s) != STATUS_OK) fail_msg("%s", status_message());
    if (text_source_held_out(&s, &held) != STATUS_OK) fail_msg("%s", status_message());
    if (text_source_pack(&s, &p) != STATUS_OK) fail_msg("%s", status_message());
    if (text_source_pack(&held, &p) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(text_source_documents(&s), all.documents);
    assert_int_equal(text_source_learns_some(&s), learned);
    assert_int_equal(text_source_kind(&s), DATA_KIND_TOKENS);
    bool in_place = gaps && (learned || special_count || way != TEXT_SOURCE_RUNNING);
    assert_true(s.in_place == in_place && held.in_place == in_place);
    uint64_t tokens = all.count - all.count / 10, from = edge(tokens), samples;
    bool running = way == TEXT_SOURCE_RUNNING;
    samples = running ? cut(tokens, 0, context, expected) : lay_out(0, from, context, expected);
    check_source(&s, expected, samples, context, learned, positions);
    if (!running) {
        assert_int_equal(text_source_tokens(&s), from);
        double empty = 1 - (double)from / (double)(samples * context);
        assert_true(text_source_padding(&s) > empty - 1e-9 && text_source_padding(&s) < empty + 1e-9);
    }
    samples = running ? cut(all.count - tokens, tokens, context, expected)
                      : lay_out(from, all.count, context, expected);
    check_source(&held, expected, samples, context, learned, positions);
    data_source_close(&s);
    data_source_close(&held);
}

static void samples_are_as_read_by_hand(void **state) {
    (void)state;
    uint64_t random = 7;
    for (int round = 0; round < 12; round++) {
        make(&random, 1 + scratch_random(&random) % (round < 6 ? 40 : 900), round % 2 ? 60 : 7);
        bool wide = round % 3 == 0, learned = round % 4 > 0;
        save("t.safetensors", wide, learned);
        for (int i = 0; i < 6; i++) {
            uint32_t context = 1 + (uint32_t)(scratch_random(&random) % (i < 3 ? 20 : 200));
            for (int way = TEXT_SOURCE_RUNNING; way <= TEXT_SOURCE_ALONE; way += TEXT_SOURCE_ALONE)
                check("t.safetensors", context, (text_source_way)way, i % 2, learned);
        }
    }
}

/* Of encoders: what stands for no text, is not learned or fills a sample up is never hidden. */
static void gaps_are_not_made_everywhere(void **state) {
    (void)state;
    uint64_t random = 23;
    for (int round = 0; round < 8; round++) {
        make(&random, 200, 40);
        special_count = 0;
        for (uint32_t id = 0; round % 2 && id < VOCABULARY; id++)
            if (scratch_random(&random) % 5 == 0) special[special_count++] = id;
        save("g.safetensors", round % 3 == 0, round % 4 > 1);
        for (int g = 0; g < 2; g++) {
            gaps = g;
            for (int i = 0; i < 2; i++) /* whole ones: test_windows.c */
                check("g.safetensors", 1 + scratch_random(&random) % 90,
                      i ? TEXT_SOURCE_ALONE : TEXT_SOURCE_RUNNING, g, round % 4 > 1);
        }
    }
    gaps = false, special_count = 0;
}

static data_source open_gaps(const char *path) {
    data_source s;
    text_source_options o = { .path = path, .context = 16, .vocabulary = VOCABULARY, .gaps = true };
    if (text_source_open(&o, &s) != STATUS_OK) fail_msg("%s", status_message());
    return s;
}

/* Ids say nothing of themselves and take any place in a mix: what stands for no text in the other part is
 * never hidden, and of theirs all may be. */
static void gaps_are_the_same_in_any_order(void **state) {
    (void)state;
    uint64_t random = 29;
    make(&random, 60, 40);
    special_count = 1, special[0] = all.tokens[5];
    save("mixed.safetensors", false, false);
    scratch_write("mixed.u16", all.tokens, all.count * sizeof *all.tokens);
    for (int first = 0; first < 2; first++) {
        data_source parts[2], s;
        uint32_t part, hidden = 0;
        parts[first] = open_gaps("mixed.safetensors"), parts[!first] = open_gaps("mixed.u16");
        assert_true(parts[first].in_place && !parts[!first].in_place);
        uint64_t each = parts[0].samples;
        mixed_options o = { .parts = parts, .count = 2, .most = 2 * each };
        if (mixed_source_open(&o, &s, &part) != STATUS_OK) fail_msg("%s", status_message());
        assert_true(s.in_place);
        void *scratch = aligned_alloc(64, (s.scratch_bytes + 63) / 64 * 64);
        memset(scratch, 0, s.scratch_bytes);
        for (uint64_t k = 0; k < s.samples; k++) {
            int32_t ids[16], labels[16];
            bool is_made = (k < each) == (first == 0);
            if (s.read(&s, k, scratch, (void *[]){ ids, labels }) != STATUS_OK)
                fail_msg("%s", status_message());
            for (int i = 0; i < 16; i++) {
                bool kept = is_made && is_special((uint32_t)ids[i]);
                assert_int_equal(ids[i], all.tokens[k % each * 16 + (uint64_t)i]);
                assert_int_equal(labels[i], kept ? DATA_IGNORED_LABEL : ids[i]);
                hidden += kept;
            }
        }
        assert_true(hidden > 0);
        free(scratch);
        data_source_close(&s);
    }
    special_count = 0;
}

/* More tokens, documents and windows than are read at once, and than have their place kept. */
static void long_files_are_read_in_pieces(void **state) {
    (void)state;
    uint64_t random = 11;
    make(&random, MOST_DOCUMENTS, 7);
    save("long.safetensors", false, true);
    check("long.safetensors", 4000, TEXT_SOURCE_RUNNING, true, true);
    check("long.safetensors", 9, TEXT_SOURCE_ALONE, true, true);
    check("long.safetensors", 9, TEXT_SOURCE_ALONE, false, true);
    make(&random, 3, 9000);
    save("long.safetensors", true, true);
    check("long.safetensors", 3000, TEXT_SOURCE_ALONE, true, true);
    check("long.safetensors", 50, TEXT_SOURCE_ALONE, true, true);
}

static void folders_go_on_from_file_to_file(void **state) {
    (void)state;
    uint64_t random = 5;
    assert_int_equal(mkdir("parts", 0700), 0);
    make(&random, 200, 30);
    made whole = all;
    uint64_t at = 0, begin = 0;
    for (int part = 0; part < 3; part++) {
        char path[40];
        uint64_t documents = part < 2 ? 50 : 100;
        all.documents = documents, all.count = whole.ends[at + documents - 1] - begin;
        memcpy(all.tokens, whole.tokens + begin, all.count * 2);
        memcpy(all.learned, whole.learned + begin, all.count);
        for (uint64_t d = 0; d < documents; d++) all.ends[d] = whole.ends[at + d] - begin;
        snprintf(path, sizeof path, "parts/%d.safetensors", part);
        save(path, part == 1, true);
        at += documents, begin += all.count;
    }
    all = whole;
    for (uint32_t context = 5; context < 100; context += 31)
        for (int way = TEXT_SOURCE_RUNNING; way <= TEXT_SOURCE_ALONE; way += TEXT_SOURCE_ALONE)
            check("parts", context, (text_source_way)way, true, true);
}

static void short_data_is_enough_where_documents_stay_whole(void **state) {
    (void)state;
    uint64_t random = 3;
    make(&random, 4, 6);
    save("t.safetensors", false, false);
    data_source s;
    text_source_options o = { .path = "t.safetensors", .context = 100, .vocabulary = VOCABULARY };
    assert_int_equal(text_source_open(&o, &s), STATUS_OK);
    assert_int_equal(text_source_enough(&s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "t.safetensors has"));
    assert_int_equal(text_source_pack(&s, &(text_source_packing){ .way = TEXT_SOURCE_WHOLE }), STATUS_OK);
    assert_int_equal(text_source_enough(&s), STATUS_OK);
    assert_int_equal(s.samples, 1);
    data_source_close(&s);
    scratch_write("b.txt", "no ends are known of text", 25);
    o = (text_source_options){ .path = "b.txt", .context = 4, .vocabulary = VOCABULARY };
    assert_int_equal(text_source_open(&o, &s), STATUS_OK);
    assert_int_equal(text_source_pack(&s, &(text_source_packing){ .way = TEXT_SOURCE_WHOLE }),
                     STATUS_INVALID);
    data_source_close(&s);
}

static void refuse(const safetensors_item *items, uint32_t count, const char *because) {
    data_source s;
    text_source_options o = { .path = "bad.safetensors", .context = 2, .vocabulary = VOCABULARY };
    if (safetensors_write("bad.safetensors", items, count) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(text_source_open(&o, &s), STATUS_INVALID);
    if (!strstr(status_message(), because)) fail_msg("'%s' has no '%s'", status_message(), because);
    assert_non_null(strstr(status_message(), "bad.safetensors"));
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    static const uint16_t ids[4] = { 1, 2, 3, 4 };
    static const uint64_t ends[2] = { 2, 4 }, same[2] = { 4, 4 }, beyond[2] = { 2, 5 }, few[2] = { 1, 3 };
    static const uint8_t learned[4] = { 1 };
    safetensors_item tokens = {
        .name = "tokens", .dtype = "U16", .shape = SHAPE(4), .data = ids, .bytes = 8
    };
    safetensors_item e = { .name = "ends", .dtype = "U64", .shape = SHAPE(2), .data = ends, .bytes = 16 };
    safetensors_item l = { .name = "learned", .dtype = "U8", .shape = SHAPE(3), .data = learned, .bytes = 3 };
    refuse(&e, 1, "it has no 'tokens'");
    refuse(&tokens, 1, "it has no list 'ends'");
    refuse((safetensors_item[]){ tokens, e, l }, 3, "one for each token");
    e.data = same;
    refuse((safetensors_item[]){ tokens, e }, 2, "document 1 ends behind 4 tokens");
    e.data = beyond;
    refuse((safetensors_item[]){ tokens, e }, 2, "document 1 ends behind 5");
    e.data = few;
    refuse((safetensors_item[]){ tokens, e }, 2, "end behind 3 tokens, and it has 4");
    e.data = ends;
    static const uint32_t falling[3] = { 1, 7, 7 };
    safetensors_item marks = {
        .name = "special", .dtype = "U32", .shape = SHAPE(3), .data = falling, .bytes = 12
    };
    refuse((safetensors_item[]){ tokens, e, marks }, 3, "'special' does not rise");
    marks.dtype = "F32";
    refuse((safetensors_item[]){ tokens, e, marks }, 3, "'special' is no list of u32");
    tokens.dtype = "F16";
    refuse((safetensors_item[]){ tokens, e }, 2, "no list of u16 or u32");
    uint64_t random = 1;
    make(&random, 3, 9);
    all.tokens[2] = VOCABULARY;
    save("ids.safetensors", false, false);
    data_source s;
    text_source_options o = { .path = "ids.safetensors", .context = 2, .vocabulary = VOCABULARY };
    assert_int_equal(text_source_open(&o, &s), STATUS_OK);
    assert_int_equal(data_source_check(&s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "token 2 is 500"));
    data_source_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_as_read_by_hand),
        cmocka_unit_test(gaps_are_not_made_everywhere),
        cmocka_unit_test(gaps_are_the_same_in_any_order),
        cmocka_unit_test(long_files_are_read_in_pieces),
        cmocka_unit_test(folders_go_on_from_file_to_file),
        cmocka_unit_test(short_data_is_enough_where_documents_stay_whole),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests_name("token_files", tests, scratch_open, scratch_close);
}
