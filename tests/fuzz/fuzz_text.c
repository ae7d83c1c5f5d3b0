#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_data(fuzz_file("x.txt", data, size));
    return 0;
}
