/* CSV, read as documents. */
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_documents(fuzz_file("d.csv", data, size));
    return 0;
}
