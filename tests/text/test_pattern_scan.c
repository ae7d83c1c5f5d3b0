/* Matching by tables beside PCRE2: the same matches of published patterns around every character, and of
 * patterns drawn at random. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "io/scratch.h"
#include "text/tokenizer/pattern.h"

enum { TEXT = 4096, MATCHES = 4 * TEXT };

static uint64_t state = 17;
static pattern_memory memory;
static pattern_match *room;

static uint32_t draw(uint32_t below) { return (uint32_t)(scratch_random(&state) % below); }

/* ---- walks ---- */

typedef struct {
    size_t count, begun;
    size_t start[MATCHES], end[MATCHES];
    bool refused;
} matches;

static void find_all(const pattern *p, const char *text, size_t bytes, bool open, matches *m) {
    pattern_walk w = pattern_begin(p, room, text, bytes);
    bool found = true;
    m->count = 0, m->refused = false;
    w.open = open;
    while (found) {
        if (pattern_next(&w, &found, &m->start[m->count], &m->end[m->count]) != STATUS_OK) {
            m->refused = true;
            break;
        }
        if (found) m->count++;
    }
    m->begun = w.begun;
}

static void same_matches(const char *shown, const pattern *a, const pattern *b, const char *text,
                         size_t bytes) {
    static matches x, y;
    find_all(a, text, bytes, false, &x);
    find_all(b, text, bytes, false, &y);
    if (x.refused || y.refused) return; /* each has its own limit */
    for (size_t i = 0; i < x.count || i < y.count; i++)
        if (i >= x.count || i >= y.count || x.start[i] != y.start[i] || x.end[i] != y.end[i])
            fail_msg("'%s': match %zu of %zu and %zu differs: %zu to %zu, %zu to %zu in '%.*s'", shown, i,
                     x.count, y.count, x.start[i], x.end[i], y.start[i], y.end[i], (int)bytes, text);
}

/* What is found before the end is known is found afterwards too, and up to `begun` there is no more. */
static void same_in_windows(const char *shown, const pattern *p, const char *text, size_t bytes) {
    static matches whole, part;
    size_t cut = draw((uint32_t)bytes + 1), i = 0;
    while (cut > 0 && cut < bytes && ((unsigned char)text[cut] & 0xc0) == 0x80) cut--;
    find_all(p, text, bytes, false, &whole);
    find_all(p, text, cut, true, &part);
    if (whole.refused || part.refused) return;
    for (; i < part.count; i++)
        if (i >= whole.count || part.start[i] != whole.start[i] || part.end[i] != whole.end[i])
            fail_msg("'%s': match %zu of the first %zu bytes changes in '%.*s'", shown, i, cut, (int)bytes,
                     text);
    size_t known = part.begun == SIZE_MAX ? cut : part.begun;
    if (i < whole.count && whole.start[i] < known)
        fail_msg("'%s': match %zu begins before byte %zu in '%.*s'", shown, i, known, (int)bytes, text);
}

static pattern *open_pattern(const char *text, bool plain) {
    pattern *p;
    status result = plain ? pattern_open_plain(text, strlen(text), &memory, &p)
                          : pattern_open(text, strlen(text), &memory, &p);
    if (result != STATUS_OK) fail_msg("'%s': %s", text, status_message());
    return p;
}

static int open_room(void **s) {
    (void)s;
    return pattern_match_open(&room) == STATUS_OK ? 0 : -1;
}

static int close_room(void **s) {
    (void)s;
    pattern_match_close(room);
    return memory.held == 0 ? 0 : -1;
}

/* ---- published patterns ---- */

static const char *const published[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", /* GPT-2 */
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", /* Llama 3 */
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", /* o200k */
    "\\p{N}{1,3}",
    "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", /* DeepSeek */
    "<\\|startoftext\\|>|<\\|endoftext\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]"
    "+", /* CLIP */
    "\\p{N}",
    " ", /* SmolLM's digits; a blank */
};

static void add_point(char *text, size_t *bytes, uint32_t point) {
    *bytes += utf8_encode(point, text + *bytes);
}

/* Each character beside two others, of which there are more in a long run. */
static void around_every_character(const char *shown, const pattern *a, const pattern *b, uint32_t step) {
    static const char *const beside[] = { " ", "a", "7", "\n", ".", "'", "S" };
    static char text[TEXT];
    size_t n = 0, kinds = sizeof beside / sizeof *beside, times = getenv("SNUG_TEST_LONG") ? kinds : 1;
    for (uint32_t point = 1; point < 0x110000; point += step) {
        if (point >= 0xd800 && point < 0xe000) point += 0x800;
        for (size_t i = 0; i < times; i++) {
            add_point(text, &n, point);
            if (point % 2) add_point(text, &n, point);
            n += (size_t)sprintf(text + n, "%s", beside[(point + i) % kinds]);
        }
        if (n < TEXT - 64 && point + step < 0x110000) continue;
        same_matches(shown, a, b, text, n);
        n = 0;
    }
}

static void published_patterns_match_alike(void **s) {
    (void)s;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        pattern *a = open_pattern(published[i], false), *b = open_pattern(published[i], true);
        if (!pattern_is_scanned(a)) fail_msg("'%s' is left to the library", published[i]);
        assert_false(pattern_is_scanned(b));
        around_every_character(published[i], a, b, i == 0 || getenv("SNUG_TEST_LONG") ? 1 : 19);
        pattern_close(a);
        pattern_close(b);
    }
}

/* ---- at random ---- */

static const char *const alphabet[] = { "a",      "b",      "S",          "k",     "7",      " ",
                                        " ",      "\n",     "'",          ".",     "\u017f", "\u212a",
                                        "\u0434", "\u96ea", "\U0001f642", "\u0301" };

static size_t random_text(char *text, size_t most) {
    size_t n = 0;
    while (n + 8 < most) {
        const char *c = alphabet[draw(sizeof alphabet / sizeof *alphabet)];
        for (uint32_t times = draw(3) ? 1 : 1 + draw(4); times > 0 && n + 8 < most; times--)
            n += (size_t)sprintf(text + n, "%s", c);
    }
    return n;
}

static void add_set(char *to, bool fold) {
    static const char *const sets[] = { "a",
                                        "b",
                                        "S",
                                        "k",
                                        "7",
                                        " ",
                                        "'",
                                        "\\p{L}",
                                        "\\p{N}",
                                        "\\s",
                                        "\\S",
                                        "[^ab]",
                                        "[a-z7]",
                                        "[^\\s\\p{L}]",
                                        "[\\r\\n]",
                                        "[\\p{M}.]",
                                        "\u96ea",
                                        "\\p{Ll}",
                                        "[\\p{Lu}\\p{Lo}]",
                                        "[\\p{Ll}\\p{Lo}]" };
    strcat(to, sets[draw(fold ? 7 : sizeof sets / sizeof *sets)]);
}

static void add_sequence(char *to, bool fold, uint32_t depth);

static void add_group(char *to, uint32_t depth) {
    static const char *const ends[] = { ")", ")", ")?", ")??", "){1}", ")?+" };
    bool fold = draw(3) == 0;
    strcat(to, fold ? "(?i:" : draw(2) ? "(?:" : "(");
    for (uint32_t n = 1 + draw(3); n > 0; n--) {
        add_sequence(to, fold, depth + 1);
        if (n > 1) strcat(to, "|");
    }
    strcat(to, ends[draw(draw(4) ? 3 : 6)]);
}

static void add_sequence(char *to, bool fold, uint32_t depth) {
    static const char *const repeats[] = { "",    "",      "",      "?",  "*",  "+", "+",
                                           "{2}", "{1,3}", "{0,2}", "++", "*+", "?+" };
    for (uint32_t n = 1 + draw(3); n > 0; n--) {
        uint32_t kind = draw(12);
        if (kind == 0 && depth < 2) {
            add_group(to, depth);
        } else if (kind == 1) {
            strcat(to, draw(2) ? "(?!" : "(?=");
            add_set(to, fold);
            strcat(to, ")");
        } else {
            add_set(to, fold);
            strcat(to, repeats[draw(sizeof repeats / sizeof *repeats)]);
        }
    }
}

static void random_patterns_match_alike(void **s) {
    (void)s;
    enum { TEXTS = 4, MOST = 300 };
    const uint32_t patterns = getenv("SNUG_TEST_LONG") ? 6000 : 1000;
    char text[MOST], shape[2048];
    uint32_t scanned = 0, refused = 0;
    for (uint32_t i = 0; i < patterns; i++) {
        pattern *a, *b;
        shape[0] = 0;
        for (uint32_t n = 1 + draw(4); n > 0; n--) {
            add_sequence(shape, false, 0);
            if (n > 1) strcat(shape, "|");
        }
        if (pattern_open(shape, strlen(shape), &memory, &a) != STATUS_OK) {
            refused++; /* folded pairs that the other syntax reads as one */
            continue;
        }
        if (pattern_is_scanned(a)) {
            scanned++;
            b = open_pattern(shape, true);
            for (int k = 0; k < TEXTS; k++) {
                size_t bytes = random_text(text, 16 + draw(MOST - 16));
                same_matches(shape, a, b, text, bytes);
                same_in_windows(shape, a, text, bytes);
            }
            pattern_close(b);
        }
        pattern_close(a);
    }
    assert_true(scanned > patterns / 3 && refused < patterns / 4);
}

static void published_patterns_match_alike_at_random(void **s) {
    (void)s;
    static char text[TEXT];
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        pattern *a = open_pattern(published[i], false), *b = open_pattern(published[i], true);
        for (int k = 0; k < 200; k++) {
            size_t bytes = random_text(text, 16 + draw(k % 20 ? 200 : TEXT - 16));
            same_matches(published[i], a, b, text, bytes);
            same_in_windows(published[i], a, text, bytes);
        }
        pattern_close(a);
        pattern_close(b);
    }
}

/* Looks ahead that end a text, which few patterns drawn have. */
static void ends_of_texts_match_alike(void **s) {
    (void)s;
    static const char *const shapes[] = { "a(?:(?=b)|(?!b))", "a(?:b?(?=k)|(?!k))", "a+(?!\\S)(?:b|(?!b))" };
    static const char *const texts[] = { "a", "ab", "aab", "aak", "abk ", "aa b", "a\n" };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        pattern *a = open_pattern(shapes[i], false), *b = open_pattern(shapes[i], true);
        assert_true(pattern_is_scanned(a));
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            same_matches(shapes[i], a, b, texts[k], strlen(texts[k]));
        pattern_close(a);
        pattern_close(b);
    }
}

/* ---- limits ---- */

/* What the tables don't do is left to the library, and matches all the same. */
static void others_are_left_to_the_library(void **s) {
    (void)s;
    static const struct {
        const char *pattern, *text;
        size_t start, end;
    } others[] = { { "xa*?b", "-xaab", 1, 5 }, { "(?>a+)b", "aab", 0, 3 },    { "(ab)+", "-abab", 1, 5 },
                   { "\\bab", "-ab", 1, 3 },   { "^ab", "ab", 0, 2 },         { "(?<!x)ab", "xab ab", 4, 6 },
                   { "ab$", "ab", 0, 2 },      { "(?!a|b)\\S", "abc", 2, 3 }, { "a*", "aa", 0, 2 } };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        matches *m = calloc(1, sizeof *m);
        pattern *p = open_pattern(others[i].pattern, false);
        assert_false(pattern_is_scanned(p));
        find_all(p, others[i].text, strlen(others[i].text), false, m);
        assert_true(m->count > 0);
        assert_int_equal(m->start[0], others[i].start);
        assert_int_equal(m->end[0], others[i].end);
        pattern_close(p);
        free(m);
    }
}

/* A long run is no reason to refuse a text; trying each of its places for each of its places is. */
static void steps_are_bounded(void **s) {
    (void)s;
    enum { LONG = 8 << 20, SHORT = 64 << 10 };
    char *text = malloc(LONG);
    bool found;
    size_t start, end;
    memset(text, 'a', LONG);
    pattern *run = open_pattern("a+", false), *tower = open_pattern("a+a+b", false);
    assert_true(pattern_is_scanned(run) && pattern_is_scanned(tower));
    pattern_walk w = pattern_begin(run, room, text, LONG);
    assert_int_equal(pattern_next(&w, &found, &start, &end), STATUS_OK);
    assert_true(found && start == 0 && end == LONG);
    w = pattern_begin(tower, room, text, SHORT);
    assert_int_equal(pattern_next(&w, &found, &start, &end), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "takes too long"));
    assert_non_null(strstr(status_message(), "at byte 0 of a piece (too many steps)"));
    pattern_close(run);
    pattern_close(tower);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_patterns_match_alike),
        cmocka_unit_test(published_patterns_match_alike_at_random),
        cmocka_unit_test(random_patterns_match_alike),
        cmocka_unit_test(ends_of_texts_match_alike),
        cmocka_unit_test(others_are_left_to_the_library),
        cmocka_unit_test(steps_are_bounded),
    };
    return cmocka_run_group_tests_name("pattern scan", tests, open_room, close_room);
}
