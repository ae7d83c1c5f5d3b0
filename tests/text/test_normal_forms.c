/* Normal forms of Korean syllables beside what may join them: as Python's unicodedata (Unicode 14) has them.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "text/tokenizer/tokenizer.h"

/* A vocabulary of one word, which the normalized text is: id 1. */
static uint32_t id_of(const char *form, const char *text, const char *normal, bool spans) {
    char file[1024];
    tokenizer *t;
    tokenizer_work *w;
    tokenizer_ids ids;
    const tokenizer_span *places;
    snprintf(
        file, sizeof file,
        "{\"normalizer\": {\"type\": \"%s\"}, \"model\": {\"type\": \"WordLevel\", \"unk_token\": \"?\", "
        "\"vocab\": {\"?\": 0, \"%s\": 1}}}",
        form, normal);
    json_source source = json_source_memory(file, strlen(file), "t.json", "the tokenizer");
    if (tokenizer_open(&source, &t) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    tokenizer_text all = { text, strlen(text) };
    status result = spans ? tokenizer_encode_spans(t, w, all, false, &ids, &places)
                          : tokenizer_encode(t, w, all.data, all.bytes, false, &ids);
    if (result != STATUS_OK) fail_msg("%s", status_message());
    uint32_t id = ids.count == 1 ? ids.id[0] : UINT32_MAX;
    tokenizer_work_close(w);
    tokenizer_close(t);
    return id;
}

static void syllables_join_what_they_may(void **state) {
    (void)state;
    static const struct {
        const char *text, *composed, *apart;
    } cases[] = { { "\uac00\u11a8", "\uac01", "\u1100\u1161\u11a8" },
                  { "\uac01\u11a8", "\uac01\u11a8", "\u1100\u1161\u11a8\u11a8" },
                  { "\uac00\uac00\u11a8", "\uac00\uac01", "\u1100\u1161\u1100\u1161\u11a8" },
                  { "\uac00\u0301\u11a8", "\uac00\u0301\u11a8", "\u1100\u1161\u0301\u11a8" },
                  { "\uac00\u304b\u3099", "\uac00\u304c", "\u1100\u1161\u304b\u3099" },
                  { "\uac00\u1161", "\uac00\u1161", "\u1100\u1161\u1161" },
                  { "\u1100\uac00", "\u1100\uac00", "\u1100\u1100\u1161" },
                  { "\u1100\u1161\uac00\u11a8", "\uac00\uac01", "\u1100\u1161\u1100\u1161\u11a8" },
                  { "\uac00\u11a7", "\uac00\u11a7", "\u1100\u1161\u11a7" },
                  { "\uac00\u11c2", "\uac1b", "\u1100\u1161\u11c2" },
                  { "\uac00\u11c3", "\uac00\u11c3", "\u1100\u1161\u11c3" },
                  { "\uac00x\u11a8", "\uac00x\u11a8", "\u1100\u1161x\u11a8" },
                  { "x\uac00\u11a8y", "x\uac01y", "x\u1100\u1161\u11a8y" },
                  { "\ud7a3\u11a8", "\ud7a3\u11a8", "\u1112\u1175\u11c2\u11a8" },
                  { "\ud788\u11c2", "\ud7a3", "\u1112\u1175\u11c2" },
                  { "\uac00\u0323\u0307", "\uac00\u0323\u0307", "\u1100\u1161\u0323\u0307" },
                  { "e\u0301\uac00\u11a8", "\u00e9\uac01", "e\u0301\u1100\u1161\u11a8" },
                  { "\uac00\u1e69", "\uac00\u1e69", "\u1100\u1161s\u0323\u0307" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int spans = 0; spans < 2; spans++) {
            if (id_of("NFC", cases[i].text, cases[i].composed, spans) != 1) fail_msg("NFC of case %zu", i);
            if (id_of("NFKC", cases[i].text, cases[i].composed, spans) != 1) fail_msg("NFKC of case %zu", i);
            if (id_of("NFD", cases[i].text, cases[i].apart, spans) != 1) fail_msg("NFD of case %zu", i);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(syllables_join_what_they_may) };
    return cmocka_run_group_tests_name("normal forms", tests, NULL, NULL);
}
