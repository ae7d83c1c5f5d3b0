#include "base/dtype.h"

static const char *const names[DTYPE_COUNT] = {
    [DTYPE_NONE] = "none", [DTYPE_F32] = "f32",   [DTYPE_F64] = "f64", [DTYPE_I32] = "i32",
    [DTYPE_F16] = "f16",   [DTYPE_BF16] = "bf16", [DTYPE_I8] = "i8",   [DTYPE_U8] = "u8",
};

const char *dtype_name(dtype t) { return names[t]; }
