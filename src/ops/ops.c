/* The registry: ops.def as a table. Nothing else lists the ops. */
#include "ir/op.h"

#define OP(name) extern const op_def op_##name;
#include "ops/ops.def"
#undef OP

const op_def *const op_table[] = {
#define OP(name) &op_##name,
#include "ops/ops.def"
#undef OP
    NULL
};
