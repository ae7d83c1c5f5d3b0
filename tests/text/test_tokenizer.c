/* Tokenizers of all kinds against what the tokenizers library made of the same texts
 * (tools/tokenizer_goldens.py), and files that are wrong. */
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/unicode.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/file.h"
#include "io/json_file.h"

enum { LINE = 1 << 14, IDS = 4096 };
static const char golden[] = SNUG_ROOT "/tests/text/golden";

/* ---- goldens ---- */

typedef struct {
    char text[LINE], decoded[LINE], whole[LINE];
    uint64_t bytes, decoded_bytes, whole_bytes;
    uint32_t ids[IDS], special[IDS], spans[2 * IDS]; /* where each of `special` begins and ends */
    size_t count, special_count, span_count;
} golden_case;

static tokenizer *open_file(const char *path) {
    int file;
    uint64_t bytes;
    tokenizer *t;
    tokenizer_counted *c;
    assert_int_equal(io_open(path, &file, &bytes), STATUS_OK);
    json_source source = json_file_source(&file, path, "the tokenizer", 0, bytes);
    assert_int_equal(tokenizer_count(&source, &c), STATUS_OK);
    assert_int_equal(tokenizer_open_counted(c, &t), STATUS_OK);
    assert_int_equal(tokenizer_bytes(t), tokenizer_counted_bytes(c));
    tokenizer_counted_close(c);
    close(file);
    return t;
}

static void read_ids(json_reader *r, uint32_t *ids, size_t *count, size_t room) {
    uint64_t id;
    bool more;
    *count = 0;
    assert_int_equal(json_reader_expect(r, '['), STATUS_OK);
    for (more = !json_reader_take(r, ']'); more;) {
        assert_int_equal(json_reader_whole(r, &id), STATUS_OK);
        ids[(*count)++] = (uint32_t)id;
        assert_true(*count < room);
        assert_int_equal(json_reader_another(r, ']', &more), STATUS_OK);
    }
}

static void read_key(json_reader *r, const char *key) {
    char name[JSON_READER_STRING];
    assert_true(json_reader_take(r, '{') || json_reader_take(r, ','));
    assert_int_equal(json_reader_string(r, name), STATUS_OK);
    assert_string_equal(name, key);
    assert_int_equal(json_reader_expect(r, ':'), STATUS_OK);
}

static void read_case(const char *line, size_t bytes, golden_case *c) {
    json_reader r;
    json_source source = json_source_memory(line, bytes, "golden", "a line");
    json_reader_begin(&r, &source);
    read_key(&r, "text");
    assert_int_equal(json_reader_text(&r, c->text, LINE, &c->bytes), STATUS_OK);
    read_key(&r, "ids");
    read_ids(&r, c->ids, &c->count, IDS);
    read_key(&r, "special");
    read_ids(&r, c->special, &c->special_count, IDS);
    read_key(&r, "spans");
    read_ids(&r, c->spans, &c->span_count, (size_t)2 * IDS);
    read_key(&r, "decoded");
    assert_int_equal(json_reader_text(&r, c->decoded, LINE, &c->decoded_bytes), STATUS_OK);
    read_key(&r, "whole");
    assert_int_equal(json_reader_text(&r, c->whole, LINE, &c->whole_bytes), STATUS_OK);
}

static void compare_ids(tokenizer_ids ids, const uint32_t *expected, size_t count) {
    for (size_t i = 0; i < count && i < ids.count; i++) assert_int_equal(ids.id[i], expected[i]);
    assert_int_equal(ids.count, count);
}

static void compare_text(tokenizer_text text, const char *expected, uint64_t bytes) {
    assert_int_equal(text.bytes, bytes);
    if (bytes) assert_memory_equal(text.data, expected, bytes);
}

static void compare_stream(const tokenizer *t, tokenizer_work *w, const golden_case *c) {
    static char said[LINE];
    tokenizer_stream s = { .special = true };
    tokenizer_text text;
    size_t used = 0;
    for (size_t i = 0; i <= c->special_count; i++) {
        if (i < c->special_count)
            assert_int_equal(tokenizer_stream_add(t, w, &s, c->special[i], &text), STATUS_OK);
        else
            assert_int_equal(tokenizer_stream_end(t, w, &s, &text), STATUS_OK);
        memcpy(said + used, text.data, text.bytes);
        used += text.bytes;
    }
    compare_text((tokenizer_text){ said, used }, c->whole, c->whole_bytes);
}

/* As the library's offsets, and ids are the same with them. */
static size_t compare_spans(const tokenizer *t, tokenizer_work *w, const golden_case *c) {
    tokenizer_ids ids;
    const tokenizer_span *spans;
    assert_int_equal(tokenizer_encode_spans(t, w, (tokenizer_text){ c->text, c->bytes }, true, &ids, &spans),
                     STATUS_OK);
    compare_ids(ids, c->special, c->special_count);
    if (c->span_count == 0) return 0; /* the library's are off */
    assert_int_equal(c->span_count, 2 * ids.count);
    for (size_t i = 0; i < ids.count; i++) {
        assert_int_equal(spans[i].begin, c->spans[2 * i]);
        assert_int_equal(spans[i].end, c->spans[2 * i + 1]);
    }
    return ids.count;
}

/* The library's ids with special ones are those without, and what is said to stand around them. */
static void compare_around(const tokenizer *t, const golden_case *c) {
    tokenizer_frame f = tokenizer_around(t);
    size_t first = f.before.count, inside = first + c->count;
    if (f.before.count + f.behind.count && c->special_count == c->count)
        return; /* both are cut, or filled up */
    assert_int_equal(c->special_count, inside + f.behind.count);
    compare_ids(f.before, c->special, first);
    compare_ids((tokenizer_ids){ c->ids, c->count }, c->special + first, c->count);
    compare_ids(f.behind, c->special + inside, f.behind.count);
}

/* Words one behind the other are the text, but for what a decoder does with its beginning and end: a mark or
 * a blank. */
static void compare_pieces(const tokenizer *t, tokenizer_work *w, const golden_case *c) {
    static char all[1 << 16];
    enum { MARK = 3 };
    size_t used = 0, same = 0, place;
    tokenizer_text word, text;
    for (size_t i = 0; i < c->count; i++) {
        assert_int_equal(tokenizer_word(t, w, c->ids[i], &word), STATUS_OK);
        assert_true(used + word.bytes <= sizeof all);
        memcpy(all + used, word.data, word.bytes);
        used += word.bytes;
    }
    assert_int_equal(tokenizer_decode(t, w, (tokenizer_ids){ c->ids, c->count }, false, &text), STATUS_OK);
    if (!unicode_valid(all, used, &place)) return; /* signs stand for what is none */
    if (used && all[used - 1] == ' ' && (!text.bytes || text.data[text.bytes - 1] != ' ')) used--;
    while (same < used && same < text.bytes && all[used - 1 - same] == text.data[text.bytes - 1 - same])
        same++;
    assert_true(same + MARK >= used && same + MARK >= text.bytes);
}

static size_t compare_case(const tokenizer *t, tokenizer_work *w, const golden_case *c) {
    tokenizer_ids ids;
    tokenizer_text text;
    for (int i = 0; i < 2; i++) { /* the second time words come from the cache */
        assert_int_equal(tokenizer_encode(t, w, c->text, c->bytes, false, &ids), STATUS_OK);
        compare_ids(ids, c->ids, c->count);
    }
    assert_int_equal(tokenizer_encode(t, w, c->text, c->bytes, true, &ids), STATUS_OK);
    compare_ids(ids, c->special, c->special_count);
    compare_around(t, c);
    ids = (tokenizer_ids){ c->special, c->special_count };
    assert_int_equal(tokenizer_decode(t, w, ids, false, &text), STATUS_OK);
    compare_text(text, c->decoded, c->decoded_bytes);
    assert_int_equal(tokenizer_decode(t, w, ids, true, &text), STATUS_OK);
    compare_text(text, c->whole, c->whole_bytes);
    compare_stream(t, w, c);
    return compare_spans(t, w, c);
}

static int compare_file(const char *name, size_t *spans) {
    static golden_case c;
    char path[512];
    char *text;
    uint64_t bytes;
    int cases = 0;
    tokenizer_work *w;
    snprintf(path, sizeof path, "%s/%s", golden, name);
    tokenizer *t = open_file(path);
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    snprintf(path, sizeof path, "%s/%sl", golden, name);
    assert_int_equal(io_read_file(path, 1 << 20, &text, &bytes), STATUS_OK);
    for (uint64_t at = 0, end; at < bytes; at = end + 1, cases++) {
        end = (uint64_t)((const char *)memchr(text + at, '\n', bytes - at) - text);
        read_case(text + at, end - at, &c);
        *spans += compare_case(t, w, &c);
        compare_pieces(t, w, &c);
    }
    free(text);
    tokenizer_work_close(w);
    tokenizer_close(t);
    return cases;
}

static void test_goldens(void **state) {
    (void)state;
    struct dirent *item;
    int files = 0, cases = 0;
    size_t spans = 0;
    DIR *folder = opendir(golden);
    assert_non_null(folder);
    while ((item = readdir(folder))) {
        size_t n = strlen(item->d_name);
        if (n < 5 || strcmp(item->d_name + n - 5, ".json") != 0) continue;
        print_message("%s\n", item->d_name);
        cases += compare_file(item->d_name, &spans);
        files++;
    }
    closedir(folder);
    assert_true(files >= 19 && cases >= 12 * files && spans > (size_t)200 * 19);
}

/* ---- long documents ---- */

/* The golden texts of a tokenizer, one behind the other, `times` times. */
static char *long_document(const char *name, int times, size_t *bytes) {
    static golden_case c;
    char path[512], *lines, *all = malloc((size_t)1 << 22);
    uint64_t size;
    assert_non_null(all);
    *bytes = 0;
    snprintf(path, sizeof path, "%s/%s.jsonl", golden, name);
    assert_int_equal(io_read_file(path, 1 << 20, &lines, &size), STATUS_OK);
    for (int i = 0; i < times; i++)
        for (uint64_t at = 0, end; at < size; at = end + 1) {
            end = (uint64_t)((const char *)memchr(lines + at, '\n', size - at) - lines);
            read_case(lines + at, end - at, &c);
            memcpy(all + *bytes, c.text, c.bytes);
            *bytes += c.bytes;
        }
    free(lines);
    return all;
}

/* Window by window, in which nothing but the last may be left over; how many windows there were. */
static size_t compare_windows(const tokenizer *t, tokenizer_work *w, tokenizer_text text, size_t window) {
    tokenizer_document d = { 0 };
    tokenizer_ids ids;
    assert_int_equal(tokenizer_encode(t, w, text.data, text.bytes, false, &ids), STATUS_OK);
    size_t count = ids.count, done = 0, windows = 0;
    uint32_t *whole = malloc(count * sizeof *whole);
    assert_non_null(whole);
    memcpy(whole, ids.id, count * sizeof *whole);
    for (size_t at = 0, held = 0; at < text.bytes; at += d.used, held -= d.used, windows++) {
        held += d.used || held == 0 ? window - (held < window ? held : window)
                                    : window; /* longer where nothing came */
        bool last = held >= text.bytes - at;
        if (last) held = text.bytes - at;
        tokenizer_window part = { text.data + at, held, last };
        assert_int_equal(tokenizer_encode_window(t, w, &d, part, &ids), STATUS_OK);
        assert_true(done + ids.count <= count && d.used <= held);
        if (ids.count) assert_memory_equal(ids.id, whole + done, ids.count * sizeof *whole);
        done += ids.count;
    }
    assert_int_equal(done, count);
    free(whole);
    return windows;
}

static void test_windows(void **state) {
    (void)state;
    static const char *const names[] = { "gpt2", "llama3", "qwen2", "o200k", "deepseek", "llama2", "gemma" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        size_t bytes;
        tokenizer_work *w;
        char *text = long_document(names[i], 20, &bytes);
        snprintf(path, sizeof path, "%s/%s.json", golden, names[i]);
        tokenizer *t = open_file(path);
        assert_true(tokenizer_takes_windows(t));
        assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
        for (size_t window = 64; window <= 4096; window = window * 3 / 2 + 1)
            assert_true(compare_windows(t, w, (tokenizer_text){ text, bytes }, window) >= bytes / window / 2);
        tokenizer_work_close(w);
        tokenizer_close(t);
        free(text);
    }
}

/* What is hard to cut: rows of one kind, which are longer than windows, and what lies between such kinds. */
static const char *const hostile[] = {
    "a",
    "ab",
    "A",
    "aB",
    "abc ",
    " ",
    "  \n",
    "\n",
    "\t ",
    "!",
    "!/",
    "'",
    "'s",
    "1",
    "12 ",
    "\xc3\xa9",
    "e\xcc\x81",
    "\xcc\x81",
    "o\xcc\xa3\xcc\x82",
    "\xe4\xba\xba",
    "\xe4\xba\xba\xe7\x94\x9f\xe8\x80\x8c",
    "\xe3\x81\x8b\xe3\x82\x99",
    "\xe3\x81\x99\xe3\x81\xb9\xe3\x81\xa6\xe3\x81\xae",
    "\xed\x95\x9c\xea\xb5\xad",
    "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab",
    "\xd0\x9b\xd1\x8e\xd0\xb4\xd0\xb8",
    "\xe0\xb8\xa1\xe0\xb8\x99",
    "\xe0\xa4\x95\xe0\xa5\x8d",
    "\xf0\x9f\x98\x80",
    "\xef\xac\x81",
    "\xe2\x80\x8b",
    "\xe3\x80\x80",
    "humanbeings",
    "\xef\xbc\x8c",
    "\xe2\x96\x81",
    "<unk>",
    "\xf4\x8f\xbf\xbf",
    "\n  \xe4\xba\xba",
};
enum { HOSTILE = sizeof hostile / sizeof *hostile, HOSTILE_BYTES = 24000 };

static uint32_t draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* A text of one kind, or of long and short rows of some. */
static size_t hostile_text(char *text, size_t kind, uint64_t *state) {
    size_t used = 0;
    while (used < HOSTILE_BYTES - 32) {
        const char *row = hostile[kind < HOSTILE ? kind : draw(state) % HOSTILE];
        uint32_t times = kind < HOSTILE    ? UINT32_MAX
                         : draw(state) % 3 ? 1 + draw(state) % 4
                                           : draw(state) % 2500;
        for (; times > 0 && used < HOSTILE_BYTES - 32; times--) {
            memcpy(text + used, row, strlen(row));
            used += strlen(row);
        }
    }
    return used;
}

/* The longest beginning of so many bytes that ends with a character. */
static size_t whole_text(const char *text, size_t bytes) {
    while ((text[bytes] & 0xc0) == 0x80) bytes--;
    return bytes;
}

/* Windows of random lengths, which grow where nothing is used: all ids together are those of the whole. The
 * longest window that nothing was used of. */
static size_t compare_random_windows(const tokenizer *t, tokenizer_work *w, tokenizer_text text,
                                     uint64_t *state) {
    tokenizer_document d = { 0 };
    tokenizer_ids ids;
    assert_int_equal(tokenizer_encode(t, w, text.data, text.bytes, false, &ids), STATUS_OK);
    size_t count = ids.count, done = 0, unused = 0,
           step = text.bytes < 4000 ? 1 + draw(state) % 60 : 500 + draw(state) % 9000;
    uint32_t *whole = malloc((count + 1) * sizeof *whole);
    assert_non_null(whole);
    if (count) memcpy(whole, ids.id, count * sizeof *whole);
    for (size_t at = 0, held = 0; at < text.bytes; at += d.used, held -= d.used) {
        held += 1 + draw(state) % step;
        bool last = held >= text.bytes - at;
        if (last) held = text.bytes - at;
        assert_int_equal(
            tokenizer_encode_window(t, w, &d, (tokenizer_window){ text.data + at, held, last }, &ids),
            STATUS_OK);
        assert_true(done + ids.count <= count && d.used <= held);
        if (ids.count) assert_memory_equal(ids.id, whole + done, ids.count * sizeof *whole);
        done += ids.count;
        if (!last && d.used == 0 && held > unused) unused = held;
    }
    assert_int_equal(done, count);
    free(whole);
    return unused;
}

/* Of how many kinds of rows alone no window up to half the text can be used. */
static const struct {
    const char *name;
    size_t grow;
} growing[] = { { "gpt2.json", 0 },   { "llama3.json", 1 },     { "o200k.json", 4 }, { "deepseek.json", 4 },
                { "llama2.json", 0 }, { "gemma.json", 0 },      { "qwen2.json", 3 }, { "xlmr.json", 6 },
                { "bert.json", 8 },   { "bert_cased.json", 8 }, { "t5.json", 15 } };

/* A tokenizer whose pieces end at blanks is cut there: in other texts nothing of a window is used. */
static void compare_words(const tokenizer *t, tokenizer_work *w, const char *const *words, uint32_t count,
                          uint64_t *state) {
    static char text[HOSTILE_BYTES];
    size_t used = 0;
    while (used < HOSTILE_BYTES - 32) {
        const char *word = words[draw(state) % count];
        memcpy(text + used, word, strlen(word));
        used += strlen(word);
    }
    size_t unused = compare_random_windows(t, w, (tokenizer_text){ text, used }, state);
    assert_true(!tokenizer_takes_windows(t) || unused < HOSTILE_BYTES / 2);
}

static void compare_blanks(const tokenizer *t, tokenizer_work *w, uint64_t *state) {
    static const char *const latin[] = { " human",     " beings",      " a", "  b", " \xc3\xa9galit\xc3\xa9",
                                         " e\xcc\x81", ", C",          "\n", " 12", " \xe4\xba\xba",
                                         "<pad>",      "\xe2\x80\x8b", " fi" };
    static const char *const others[] = {
        " снег", " ёж",   " ελιά",     " שלג",         " بارد",
        " बर्फ",  " नदी",  " 한국어",   " 추운",        " ゆき",
        "雪冷",  "，",    " 1",        "\n",           "  ",
        "ß ",    "Ĳ ",    " \xcc\x81", "е\xcc\x88",    "\xe1\x86\xa8",
        "が",    "<pad>", "İ ",        "\xe2\x80\x8d", "雪\xf3\xa0\x84\x80"
    };
    compare_words(t, w, latin, sizeof latin / sizeof *latin, state);
    compare_words(t, w, others, sizeof others / sizeof *others, state);
}

static size_t may_grow(const char *name) {
    for (size_t i = 0; i < sizeof growing / sizeof *growing; i++)
        if (strcmp(growing[i].name, name) == 0) return growing[i].grow;
    return HOSTILE;
}

static void compare_hostile(const char *name) {
    static char path[512], text[HOSTILE_BYTES];
    tokenizer_work *w;
    uint64_t state = 17;
    size_t grown = 0;
    snprintf(path, sizeof path, "%s/%s", golden, name);
    tokenizer *t = open_file(path);
    assert_int_equal(tokenizer_take_whole(t), STATUS_OK);
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    for (size_t kind = 0; kind < 3 * HOSTILE; kind++) {
        if (!tokenizer_takes_windows(t) && kind % 8) continue; /* the whole text is one window */
        size_t bytes = hostile_text(text, kind, &state);
        if (kind >= 2 * HOSTILE) bytes = whole_text(text, 800); /* in many small windows */
        size_t unused = compare_random_windows(t, w, (tokenizer_text){ text, bytes }, &state);
        grown += kind < HOSTILE && unused > HOSTILE_BYTES / 2;
    }
    for (int i = 0; i < 4; i++) compare_blanks(t, w, &state);
    print_message("%s: %zu of %d kinds of rows are not cut\n", name, grown, HOSTILE);
    assert_true(grown <= may_grow(name));
    tokenizer_work_close(w);
    tokenizer_close(t);
}

/* Every vocabulary that is kept here; none cuts its texts off at a length. */
static void test_hostile_windows(void **state) {
    (void)state;
    struct dirent *item;
    int files = 0;
    DIR *folder = opendir(golden);
    assert_non_null(folder);
    while ((item = readdir(folder))) {
        size_t n = strlen(item->d_name);
        if (n < 5 || strcmp(item->d_name + n - 5, ".json") != 0) continue;
        compare_hostile(item->d_name);
        files++;
    }
    closedir(folder);
    assert_true(files >= 19);
}

/* ---- files that are wrong ---- */

#define HEAD "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,"
#define VOCAB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}"
#define BPE "\"model\":{\"type\":\"BPE\"," VOCAB ",\"merges\":[\"a b\"]}}"
#define MODEL(inside) HEAD "\"model\":{" inside "}}"

static status open_text(const char *text, tokenizer **t) {
    json_source source = json_source_memory(text, strlen(text), "t.json", "the tokenizer");
    return tokenizer_open(&source, t);
}

static const struct {
    const char *text, *sentence;
} wrong[] = {
    { "{}", "there is no model" },
    { HEAD BPE "x", "something follows its end" },
    { "{\"version\":\"2.0\"," BPE, "the version is '2.0' and not 1.0" },
    { MODEL("\"type\":\"Other\"," VOCAB), "the model 'Other' is not known" },
    { MODEL("\"type\":\"BPE\"," VOCAB), "the model 'BPE' has no 'merges'" },
    { MODEL(VOCAB ",\"continuing_subword_prefix\":\"a\""), "the model has no 'type'" },
    { MODEL("\"type\":\"BPE\"," VOCAB ",\"merges\":[\"a c\"]"),
      "a merge has 'c', which is no token of the vocabulary" },
    { MODEL("\"type\":\"BPE\"," VOCAB ",\"merges\":[[\"b\",\"a\"]]"), "a merge has 'ba', which is no token" },
    { MODEL("\"type\":\"BPE\"," VOCAB ",\"merges\":[\"a  b\"]"),
      "a merge is two tokens with one blank between them" },
    { MODEL("\"type\":\"BPE\"," VOCAB ",\"merges\":[],\"dropout\":0.1"), "'dropout' is 0.1" },
    { MODEL("\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]"), "two tokens have the id 0" },
    { MODEL("\"type\":\"BPE\",\"vocab\":{\"a\":99999999},\"merges\":[]"), "an id is above" },
    { MODEL("\"type\":\"WordPiece\"," VOCAB ",\"unk_token\":\"a\""), "has no 'continuing_subword_prefix'" },
    { MODEL("\"type\":\"Unigram\",\"unk_id\":7,\"vocab\":[[\"a\",-1]]"),
      "'unk_id' is larger than the vocabulary" },
    { MODEL("\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",1e99999999999999999999]]"),
      "a number is too large" },
    { MODEL("\"type\":\"Unigram\"," VOCAB), "is a list of tokens with scores" },
    { HEAD "\"normalizer\":{\"type\":\"Odd\"}," BPE, "the normalizer 'Odd' is not known" },
    { HEAD "\"pre_tokenizer\":{\"type\":\"Odd\"}," BPE, "the pre-tokenizer 'Odd' is not known" },
    { HEAD "\"decoder\":{\"type\":\"CTC\"}," BPE, "the decoder 'CTC'" },
    { HEAD "\"post_processor\":{\"type\":\"Odd\"}," BPE, "the post-processor 'Odd' is not known" },
    { HEAD
      "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":\"Isolated\","
      "\"invert\":false}," BPE,
      "the pattern has && in a class at byte 2" },
    { HEAD "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Odd\","
           "\"invert\":false}," BPE,
      "'behavior' is not known as 'Odd'" },
    { HEAD "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/////w==\"}," BPE,
      "the map of characters ends within its trie" },
    { HEAD "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"?\"}," BPE, "is not base64" },
    { HEAD
      "\"added_tokens\":[{\"id\":9,\"content\":\"x\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
      "\"normalized\":false,\"special\":false}]," BPE,
      "the added token 'x' has the id 9, but its place is 3" },
};

static void test_wrong_files(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tokenizer *t;
        assert_int_equal(open_text(wrong[i].text, &t), STATUS_INVALID);
        assert_null(t);
        if (!strstr(status_message(), wrong[i].sentence)) print_message("%s\n", status_message());
        assert_non_null(strstr(status_message(), wrong[i].sentence));
        assert_non_null(strstr(status_message(), "t.json: the tokenizer is wrong at byte "));
    }
}

/* What the library (0.23.3) makes of `text` with models that do not say what they are. */
static const struct {
    const char *model, *text;
    uint32_t ids[2], count;
} untyped[] = {
    { MODEL(VOCAB ",\"merges\":[\"a b\"],\"unk_token\":null"), "abb", { 2, 1 }, 2 },
    { MODEL("\"vocab\":{\"u\":0,\"a\":1,\"#a\":2,\"aa\":3},\"unk_token\":\"u\","
            "\"continuing_subword_prefix\":\"#\",\"max_input_chars_per_word\":9"),
      "aaa",
      { 3, 2 },
      2 },
    { MODEL("\"vocab\":{\"u\":0,\"a\":1},\"unk_token\":\"u\",\"continuing_subword_prefix\":\"#\""),
      "aa",
      { 0 },
      1 },
    { MODEL("\"vocab\":[[\"u\",0],[\"a\",-1],[\"aa\",-1.5]],\"unk_id\":0"), "aaa", { 1, 2 }, 2 },
    /* Two paths that are as good as each other only by the library's reading of the longer number. */
    { MODEL("\"vocab\":[[\"u\",-50],[\"a\",0],[\"b\",-12.850010348417],[\"ab\",-12.850010348417001]],"
            "\"unk_id\":0"),
      "ab",
      { 3 },
      1 },
};

static void test_untyped_models(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof untyped / sizeof *untyped; i++) {
        tokenizer *t;
        tokenizer_work *w;
        tokenizer_ids ids;
        assert_int_equal(open_text(untyped[i].model, &t), STATUS_OK);
        assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
        assert_int_equal(tokenizer_encode(t, w, untyped[i].text, strlen(untyped[i].text), false, &ids),
                         STATUS_OK);
        compare_ids(ids, untyped[i].ids, untyped[i].count);
        tokenizer_work_close(w);
        tokenizer_close(t);
    }
}

static void test_wrong_text(void **state) {
    (void)state;
    tokenizer *t;
    tokenizer_work *w;
    tokenizer_ids ids;
    assert_int_equal(open_text(HEAD BPE, &t), STATUS_OK);
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    assert_int_equal(tokenizer_encode(t, w, "ab\xff", 3, false, &ids), STATUS_INVALID);
    assert_string_equal(status_message(), "the text is not UTF-8 at byte 2");
    assert_int_equal(tokenizer_encode(t, w, "abba", 4, false, &ids), STATUS_OK);
    compare_ids(ids, (uint32_t[]){ 2, 1, 0 }, 3);
    size_t bytes;
    assert_int_equal(tokenizer_id(t, "ab", 2), 2);
    assert_int_equal(tokenizer_id(t, "x", 1), TOKENIZER_NONE);
    assert_int_equal(tokenizer_size(t), 3);
    assert_memory_equal(tokenizer_token(t, 2, &bytes), "ab", 2);
    assert_null(tokenizer_token(t, 3, &bytes));
    tokenizer_work_close(w);
    tokenizer_close(t);
}

/* What was found of a text's spans: begins and ends, one behind the other. */
static void check_spans(const char *file, const char *text, const uint32_t *expected, size_t count) {
    tokenizer *t;
    tokenizer_work *w;
    tokenizer_ids ids;
    const tokenizer_span *spans;
    assert_int_equal(open_text(file, &t), STATUS_OK);
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    uint64_t before = tokenizer_work_bytes(w);
    assert_int_equal(tokenizer_encode_spans(t, w, (tokenizer_text){ text, strlen(text) }, true, &ids, &spans),
                     STATUS_OK);
    assert_int_equal(ids.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(spans[i].begin, expected[2 * i]);
        assert_int_equal(spans[i].end, expected[2 * i + 1]);
    }
    assert_true(count == 0 || tokenizer_work_bytes(w) >= before + count * sizeof *spans);
    tokenizer_work_close(w);
    tokenizer_close(t);
}

#define UNKNOWN_BPE(more)                                                                                    \
    HEAD "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"?\":3},"                         \
         "\"merges\":[\"a b\"]" more "}}"
#define NORMALIZED(what) HEAD "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" what "]}," BPE

/* What goldens have no kind for. */
static void test_spans(void **state) {
    (void)state;
    check_spans(HEAD BPE, "", NULL, 0);
    check_spans(HEAD BPE,
                "aba\xc3\xa9"
                "ab",
                (uint32_t[]){ 0, 2, 2, 3, 5, 7 }, 3); /* é is dropped */
    check_spans(UNKNOWN_BPE(",\"unk_token\":\"?\""),
                "a\xc3\xa9\xc3\xa9"
                "b?ab",
                (uint32_t[]){ 0, 1, 1, 3, 3, 5, 5, 6, 6, 7, 7, 9 }, 6);
    check_spans(UNKNOWN_BPE(",\"unk_token\":\"?\",\"fuse_unk\":true"),
                "a\xc3\xa9\xc3\xa9"
                "b?ab",
                (uint32_t[]){ 0, 1, 1, 5, 5, 6, 6, 7, 7, 9 }, 5);
    /* blanks are taken off in the middle of the buffer that the next normalizer must not write to */
    check_spans(NORMALIZED("{\"type\":\"Lowercase\"},{\"type\":\"Strip\",\"strip_left\":true,"
                           "\"strip_right\":true},{\"type\":\"Prepend\",\"prepend\":\"bbb\"}"),
                "  AB ", (uint32_t[]){ 2, 3, 2, 3, 2, 3, 2, 4 }, 4);
    /* a mark of the same class stands between the letter and the accent, so they don't join */
    check_spans(NORMALIZED("{\"type\":\"NFC\"}"),
                "a\xcc\x8d\xcc\x81"
                "b",
                (uint32_t[]){ 0, 6 }, 1);
    /* nothing is matched before each character: what is put there stands for the one before */
    check_spans(NORMALIZED("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"c*\"},\"content\":\"b\"}"), "acc",
                (uint32_t[]){ 0, 0, 0, 3 }, 2);
}

/* A word of a million characters that all merge: neither slow nor deep. */
static void test_long_word(void **state) {
    (void)state;
    enum { LONG = 1000000 };
    tokenizer *t;
    tokenizer_work *w;
    tokenizer_ids ids;
    char *text = malloc(LONG);
    assert_non_null(text);
    for (int i = 0; i < LONG; i++) text[i] = "ab"[i & 1];
    assert_int_equal(open_text(HEAD BPE, &t), STATUS_OK);
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    assert_int_equal(tokenizer_encode(t, w, text, LONG, false, &ids), STATUS_OK);
    assert_int_equal(ids.count, LONG / 2);
    for (size_t i = 0; i < ids.count; i++) assert_int_equal(ids.id[i], 2);
    tokenizer_work_close(w);
    tokenizer_close(t);
    free(text);
}

/* Looked up page by page: the same as walking through the table. */
static void test_kinds_of_characters(void **state) {
    (void)state;
    for (uint32_t c = 0, at = 0; c < 0x110000; c++) {
        if (at + 1 < unicode_table_range_count && unicode_table_ranges[at + 1] >> 11 == c) at++;
        if (unicode_of(c) != &unicode_table_kinds[unicode_table_ranges[at] & 0x7ff])
            fail_msg("U+%04X is taken for another kind", c);
    }
}

/* The one that is kept is given up where it ends, on both sides. */
static void test_stretches_of_characters(void **state) {
    (void)state;
    unicode_stretch up = { 0 }, down = { 0 };
    for (uint32_t c = 0; c < 0x110000; c++) {
        uint32_t other = 0x110000 - 1 - c;
        if (unicode_near(&up, c) != unicode_of(c)) fail_msg("U+%04X is taken for another kind", c);
        if (unicode_near(&down, other) != unicode_of(other))
            fail_msg("U+%04X is taken for another kind", other);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_of_characters),
        cmocka_unit_test(test_stretches_of_characters),
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_untyped_models),
        cmocka_unit_test(test_wrong_text),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_hostile_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
