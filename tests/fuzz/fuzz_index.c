/* The index of a model in shards, beside two shards with a tensor each. */
#include <stdio.h>

#include "fuzz/fuzz.h"
#include "io/safetensors.h"

static void write_shard(const char *name, const char *tensor) {
    char file[256] = { 0 };
    int length = snprintf(file + 8, sizeof file - 8,
                          "{\"%s\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", tensor);
    file[0] = (char)length;
    fuzz_file(name, file, 8 + (size_t)length + 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int shards;
    safetensors s;
    if (!shards++) write_shard("a.safetensors", "w"), write_shard("b.safetensors", "v");
    if (fuzz_said(safetensors_open(fuzz_file("x.index.json", data, size), &s)) == STATUS_OK)
        FUZZ_EXPECT(s.file_count <= 2 && s.count == s.file_count);
    safetensors_close(&s);
    return 0;
}
