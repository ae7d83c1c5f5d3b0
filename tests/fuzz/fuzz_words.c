/* Any bytes as text for a tokenizer of bytes, whose ids must give the same bytes again, and for one of words.
 * Also as a pattern. */
#include <stdio.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/unicode.h"

static tokenizer *bytes_of, *words_of;
static tokenizer_work *bytes_work, *words_work;

static status open_text(const char *text, size_t size, tokenizer **t, tokenizer_work **w) {
    json_source source = json_source_memory(text, size, "words.json", "the tokenizer");
    TRY(tokenizer_open(&source, t));
    return tokenizer_work_open(*t, w);
}

/* All bytes, by the letters that stand for them, and a few merges. */
static void open_bytes(void) {
    static char file[1 << 14];
    int n = snprintf(file, sizeof file,
                     "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                     "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (unsigned b = 0, hidden = 0; b < 256; b++) {
        unsigned seen = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        n += snprintf(file + n, sizeof file - (size_t)n, "\"\\u%04x\":%u,", seen ? b : 0x100 + hidden, b);
        hidden += !seen;
    }
    n += snprintf(file + n, sizeof file - (size_t)n,
                  "\"aa\":256,\"aaaa\":257,\"\\u0120a\":258},\"merges\":[\"a a\",\"aa aa\",\"\\u0120 a\"]}}");
    FUZZ_EXPECT(open_text(file, (size_t)n, &bytes_of, &bytes_work) == STATUS_OK);
}

static void open_words(void) {
    static const char file[] =
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Nmt\"},{\"type\":\"NFKC\"},"
        "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"lowercase\":true}]}"
        ","
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"UnicodeScripts\"},"
        "{\"type\":\"BertPreTokenizer\"},{\"type\":\"Metaspace\",\"replacement\":\"_\"}]},"
        "\"added_tokens\":[{\"id\":5,\"content\":\"aa\",\"single_word\":true,\"lstrip\":true,\"rstrip\":true,"
        "\"normalized\":true,\"special\":false}],"
        "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",-1],[\"a\",-2],[\"_\",-1],[\"_a\",-2]"
        ","
        "[\"e\\u0301\",-3]]}}";
    FUZZ_EXPECT(open_text(file, sizeof file - 1, &words_of, &words_work) == STATUS_OK);
}

/* Cut in two, and where nothing of the first part is certain yet, whole: as many ids. */
static void use_windows(const char *text, size_t size, size_t count) {
    tokenizer_document d = { 0 };
    tokenizer_ids ids;
    size_t half = size / 2;
    FUZZ_EXPECT(tokenizer_encode_window(bytes_of, bytes_work, &d, (tokenizer_window){ text, half, false },
                                        &ids) == STATUS_OK);
    FUZZ_EXPECT(d.used <= half && ids.count <= count);
    count -= ids.count;
    tokenizer_window rest = { text + d.used, size - d.used, true };
    FUZZ_EXPECT(tokenizer_encode_window(bytes_of, bytes_work, &d, rest, &ids) == STATUS_OK &&
                ids.count == count);
}

static void use_pattern(const char *data, size_t size) {
    pattern_memory memory = { 0 };
    pattern_match *m;
    pattern *p;
    size_t start, end, last = 0;
    bool found = true;
    if (fuzz_said(pattern_open(data, size < 256 ? size : 256, &memory, &p)) != STATUS_OK) return;
    FUZZ_EXPECT(pattern_match_open(&m) == STATUS_OK);
    static const char text[] = "aab \xc3\xa9\n12 _x";
    pattern_walk w = pattern_begin(p, m, text, sizeof text - 1);
    while (found && fuzz_said(pattern_next(&w, &found, &start, &end)) == STATUS_OK)
        if (found) FUZZ_EXPECT(start <= end && start >= last && (last = end) < sizeof text);
    pattern_match_close(m);
    pattern_close(p);
    FUZZ_EXPECT(memory.held == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    tokenizer_ids ids;
    tokenizer_text back;
    size_t place;
    if (!bytes_of) open_bytes(), open_words();
    bool valid = unicode_valid(text, size, &place);
    FUZZ_EXPECT(valid || place < size);
    FUZZ_EXPECT((fuzz_said(tokenizer_encode(bytes_of, bytes_work, text, size, false, &ids)) == STATUS_OK) ==
                valid);
    if (valid) {
        FUZZ_EXPECT(tokenizer_decode(bytes_of, bytes_work, ids, true, &back) == STATUS_OK);
        FUZZ_EXPECT(back.bytes == size && (size == 0 || memcmp(back.data, text, size) == 0));
        use_windows(text, size, ids.count);
        FUZZ_EXPECT(tokenizer_encode(words_of, words_work, text, size, false, &ids) == STATUS_OK);
    }
    use_pattern(text, size);
    return 0;
}
