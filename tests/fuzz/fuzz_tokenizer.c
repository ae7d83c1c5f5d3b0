/* A tokenizer.json. One that opens holds what was planned, and whatever text it is given becomes ids that are
 * text again, or a sentence. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "text/tokenizer/tokenizer.h"

static void use(const tokenizer *t, tokenizer_work *w, const char *text, size_t bytes) {
    tokenizer_ids ids;
    tokenizer_text back, said;
    tokenizer_stream s = { .special = true };
    if (fuzz_said(tokenizer_encode(t, w, text, bytes, true, &ids)) != STATUS_OK) return;
    uint32_t first = ids.count ? ids.id[0] : 0;
    if (fuzz_said(tokenizer_decode(t, w, ids, false, &back)) != STATUS_OK) return;
    FUZZ_EXPECT(back.data != NULL);
    if (fuzz_said(tokenizer_stream_add(t, w, &s, first, &said)) != STATUS_OK) return;
    FUZZ_EXPECT(tokenizer_stream_end(t, w, &s, &said) == STATUS_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] =
        " Hello  w\xc3\xb6rld, it's 12345\n\n\xe4\xba\xba\xe4\xba\xba <s>a\xcc\x81\xcc\xa3 ab abba";
    json_source source = json_source_memory(data, size, "x.json", "the tokenizer");
    tokenizer_counted *c;
    tokenizer *t = NULL;
    tokenizer_work *w = NULL;
    bool counted = fuzz_said(tokenizer_count(&source, &c)) == STATUS_OK;
    if (counted && fuzz_said(tokenizer_open_counted(c, &t)) == STATUS_OK) {
        FUZZ_EXPECT(tokenizer_bytes(t) == tokenizer_counted_bytes(c));
        if (fuzz_said(tokenizer_work_open(t, &w)) == STATUS_OK) use(t, w, text, sizeof text - 1);
    }
    tokenizer_work_close(w);
    tokenizer_close(t);
    tokenizer_counted_close(c);
    return 0;
}
