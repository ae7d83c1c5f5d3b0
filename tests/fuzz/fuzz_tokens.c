#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_data(fuzz_file("x.bin", data, size));
    fuzz_data(fuzz_file("x.u32", data, size));
    return 0;
}
