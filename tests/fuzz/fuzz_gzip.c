/* JSON lines packed by gzip. */
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_documents(fuzz_file("d.jsonl.gz", data, size));
    return 0;
}
