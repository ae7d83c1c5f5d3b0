/* config.json of a model: what is read can be planned with, and what is written of it reads the same. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "io/model_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gpt2_config c;
    if (fuzz_said(model_files_read_config(fuzz_file("x.json", data, size), &c)) == STATUS_OK)
        FUZZ_EXPECT(gpt2_check(&c) == STATUS_OK);
    return 0;
}
