/* A text packed by Zstandard. */
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_documents(fuzz_file("d.txt.zst", data, size));
    return 0;
}
