/* Any bytes as the JSON of a chat: what is read holds what was counted, and what a template writes of it by
 * `tojson` is read as the same values. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "text/template/template_json.h"

/* What `{{ v|tojson }}` makes of it; false where the template refuses it. */
static bool show(const template_json *j, template_output *out) {
    static const char source[] = "{{ v|tojson }}";
    template *t;
    template_value v = *template_json_value(j);
    v.key = "v", v.key_length = 1;
    const template_value all = template_value_many(TEMPLATE_OBJECT, &v, 1);
    FUZZ_EXPECT(template_parse("x", source, sizeof source - 1, &t) == STATUS_OK);
    status result = template_render(t, &all, &(template_options){ .memory = 16 << 20, .plain = true }, out);
    template_close(t);
    return fuzz_said(result) == STATUS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_source source = json_source_memory(data, size, "x.json", "the chat");
    template_json *j, *again;
    template_output first, second;
    if (fuzz_said(template_json_open(&source, 16 << 20, &j)) != STATUS_OK) return 0;
    uint64_t bytes = template_json_bytes(j);
    FUZZ_EXPECT(template_json_open(&source, bytes, &again) == STATUS_OK);
    template_json_close(again);
    FUZZ_EXPECT(template_json_open(&source, bytes - 1, &again) == STATUS_INVALID && !again);
    if (show(j, &first)) {
        source = json_source_memory(first.text, first.length, "y.json", "the chat");
        FUZZ_EXPECT(template_json_open(&source, 16 << 20, &again) == STATUS_OK);
        FUZZ_EXPECT(show(again, &second));
        FUZZ_EXPECT(first.length == second.length && memcmp(first.text, second.text, first.length) == 0);
        template_output_close(&first);
        template_output_close(&second);
        template_json_close(again);
    }
    template_json_close(j);
    return 0;
}
