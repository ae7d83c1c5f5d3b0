/* Any bytes as a chat template: it is rendered or refused within small bounds; the ranges cover what was
 * written. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "text/template/template.h"

#define TEXT(words) .kind = TEMPLATE_TEXT, .text = { words, sizeof words - 1 }
#define KEY(word) .key = word, .key_length = sizeof word - 1
#define MANY(array) .list = { array, sizeof array / sizeof *array }

static const template_value call[] = { { KEY("name"), TEXT("f\"é") },
                                       { KEY("n"), .kind = TEMPLATE_INTEGER, .integer = -7 } },
                            calls[] = { { .kind = TEMPLATE_OBJECT, MANY(call) } },
                            first[] = { { KEY("role"), TEXT("user") },
                                        { KEY("content"), TEXT(" Hi \n🙂") } },
                            second[] = { { KEY("role"), TEXT("assistant") },
                                         { KEY("content"), TEXT("<t>a</t>b") },
                                         { KEY("calls"), .kind = TEMPLATE_LIST, MANY(calls) },
                                         { KEY("x"), .kind = TEMPLATE_NUMBER, .number = 0.1 } },
                            messages[] = { { .kind = TEMPLATE_OBJECT, MANY(first) },
                                           { .kind = TEMPLATE_OBJECT, MANY(second) },
                                           { .kind = TEMPLATE_OBJECT, MANY(first) } },
                            all[] = { { KEY("messages"), .kind = TEMPLATE_LIST, MANY(messages) },
                                      { KEY("tools"), .kind = TEMPLATE_NONE },
                                      { KEY("add_generation_prompt"), .kind = TEMPLATE_BOOL, .yes = true },
                                      { KEY("eos_token"), TEXT("</s>") } };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const template_value variables = { .kind = TEMPLATE_OBJECT, MANY(all) };
    const template_options limits = {
        .steps = 20000, .memory = 8 << 20, .output = 1 << 20, .at = &(time_t){ 0 }
    };
    template *t;
    template_output out;
    if (fuzz_said(template_parse("x", (const char *)data, size, &t)) != STATUS_OK) return 0;
    if (fuzz_said(template_render(t, &variables, &limits, &out)) == STATUS_OK) {
        size_t at = 0;
        for (size_t i = 0; i < out.range_count; i++) {
            FUZZ_EXPECT(out.ranges[i].begin == at && out.ranges[i].end > at && out.ranges[i].message < 3);
            FUZZ_EXPECT(out.ranges[i].message == 1 || !out.ranges[i].learned || template_marks_learned(t));
            at = out.ranges[i].end;
        }
        FUZZ_EXPECT(at == out.length && strlen(out.text) <= at);
        template_output_close(&out);
    }
    template_close(t);
    return 0;
}
