/* config.json of a model: what is read can be planned with, and what is written of it reads the same. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "io/model_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    model_config c;
    text notes = { 0 };
    if (fuzz_said(model_config_read(fuzz_file("x.json", data, size), &c, &notes)) == STATUS_OK)
        FUZZ_EXPECT(families_check(&c) == STATUS_OK);
    text_close(&notes);
    return 0;
}
