/* A device's file: what is read has memory, and its sizes rise. */
#include "estimate/hardware_files.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hardware h;
    if (fuzz_said(hardware_find(fuzz_file("x.yaml", data, size), &h)) != STATUS_OK) return 0;
    FUZZ_EXPECT(h.memory > 0 && h.context[0] <= h.context[1] && h.context[1] <= h.context[2]);
    return 0;
}
