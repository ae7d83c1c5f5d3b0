/* A safetensors file: all tensors lie inside it, one behind the other, and can be read. */
#include <string.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"
#include "io/safetensors.h"

static void read_all(const safetensors *s, uint64_t length) {
    char block[256];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const safetensors_entry *e = &s->entries[i];
        FUZZ_EXPECT(e->offset <= length && e->bytes <= length - e->offset);
        FUZZ_EXPECT(safetensors_find(s, e->name) == e);
        FUZZ_EXPECT(i == 0 || strcmp(s->entries[i - 1].name, e->name) < 0);
        for (uint64_t at = 0; at < e->bytes && at < 4096; at += sizeof block) {
            uint64_t n = e->bytes - at < sizeof block ? e->bytes - at : sizeof block;
            FUZZ_EXPECT(safetensors_read_bytes(s, e, at, block, n) == STATUS_OK);
        }
        FUZZ_EXPECT(safetensors_read_bytes(s, e, e->bytes, block, 1) == STATUS_INVALID);
        sum += e->bytes;
    }
    FUZZ_EXPECT(sum <= length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    safetensors s;
    if (fuzz_said(safetensors_open(fuzz_file("x.safetensors", data, size), &s)) == STATUS_OK)
        read_all(&s, size);
    safetensors_close(&s);
    return 0;
}
