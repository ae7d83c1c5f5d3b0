/* Any bytes as what a model directory says of chats: its tokenizer_config.json, and its
 * special_tokens_map.json too. What opens renders within bounds, the second time as the first, and holds no
 * more than before. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "language/chat.h"
#include "text/template/template_json.h"

static void use(chat *c) {
    const template_value message[] = { { .kind = TEMPLATE_TEXT,
                                         .key = "role",
                                         .key_length = 4,
                                         .text = { "user", 4 } } },
                         item = { .kind = TEMPLATE_OBJECT, .list = { message, 1 } },
                         messages = { .kind = TEMPLATE_LIST, .list = { &item, 1 } };
    template_output first, second;
    chat_limit(
        c, &(template_options){ .steps = 20000, .memory = 8 << 20, .output = 1 << 20, .at = &(time_t){ 0 } });
    for (int tools = 0; tools < 2; tools++) {
        const template_value *with = tools ? &messages : NULL;
        if (fuzz_said(chat_render(c, &messages, with, true, &first)) != STATUS_OK) continue;
        uint64_t bytes = chat_bytes(c);
        FUZZ_EXPECT(chat_render(c, &messages, with, true, &second) == STATUS_OK);
        FUZZ_EXPECT(first.length == second.length && memcmp(first.text, second.text, first.length) == 0);
        FUZZ_EXPECT(chat_bytes(c) == bytes);
        template_output_close(&first);
        template_output_close(&second);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    chat *c;
    bool there;
    fuzz_file("tokenizer_config.json", data, size);
    fuzz_file("special_tokens_map.json", data, size);
    if (fuzz_said(chat_open(fuzz_folder(), &c, &there)) == STATUS_OK && there) use(c);
    chat_close(c);
    return 0;
}
