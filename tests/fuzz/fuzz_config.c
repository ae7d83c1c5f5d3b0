/* config.json of a model: what is read can be planned with, and so can what it says of stored weights. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "io/model_config.h"
#include "io/quantized_files.h"
#include "passes/storing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    model_config c;
    text notes = { 0 };
    const pass *p;
    pass_setting s;
    const char *file = fuzz_file("x.json", data, size);
    if (fuzz_said(model_config_read(file, &c, &notes)) == STATUS_OK)
        FUZZ_EXPECT(families_check(&c) == STATUS_OK);
    if (fuzz_said(quantized_files_read(file, &p, &s)) == STATUS_OK && p)
        FUZZ_EXPECT(pass_stores(p) && *s.text);
    text_close(&notes);
    return 0;
}
