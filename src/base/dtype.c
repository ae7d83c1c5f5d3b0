#include "base/dtype.h"

static const struct {
    const char *name;
    uint32_t bytes;
} table[DTYPE_COUNT] = {
    [DTYPE_NONE] = { "none", 0 }, [DTYPE_F32] = { "f32", 4 }, [DTYPE_F64] = { "f64", 8 },
    [DTYPE_I32] = { "i32", 4 },   [DTYPE_F16] = { "f16", 2 }, [DTYPE_BF16] = { "bf16", 2 },
    [DTYPE_I8] = { "i8", 1 },     [DTYPE_U8] = { "u8", 1 }
};

uint32_t dtype_bytes(dtype t) { return table[t].bytes; }

const char *dtype_name(dtype t) { return table[t].name; }
