/* What TensorFlow, JAX and PyTorch/XLA say, which compile graphs and keep a pool of their own. */
#include <string.h>

#include "estimate/oom/readers.h"

/* ---- TensorFlow ---- */

static uint64_t bytes_of_type(span s) {
    static const struct {
        const char *name;
        uint64_t bytes;
    } types[] = { { "double", 8 },   { "int64", 8 }, { "float", 4 }, { "int32", 4 }, { "half", 2 },
                  { "bfloat16", 2 }, { "int8", 1 },  { "uint8", 1 }, { "bool", 1 } };
    span type = span_behind(s, " and type ");
    for (size_t i = 0; type.at && i < sizeof types / sizeof *types; i++) {
        size_t n = strlen(types[i].name);
        if ((size_t)(type.end - type.at) >= n && memcmp(type.at, types[i].name, n) == 0)
            return types[i].bytes;
    }
    return 0;
}

/* [128,3,8,128]: bytes; 0: no type is said, or no such shape. */
static uint64_t bytes_of_shape(span s) {
    uint64_t bytes = bytes_of_type(s);
    double side = 1, all = (double)bytes;
    span at = { s.at, s.end };
    while (bytes && span_number(&at, &side)) {
        all *= side;
        if (at.at == at.end || *at.at != ',') break;
        at.at++;
    }
    return all < 1e18 ? (uint64_t)all : (uint64_t)1e18;
}

static bool read_tensor(span s, span all, oom *o) {
    (void)all;
    o->tried = bytes_of_shape(s);
    o->gpu = span_count(span_behind(s, "device:GPU:"), -1);
    if (span_behind(s, "by allocator cpu").at || span_behind(s, "device:CPU").at) o->backend = OOM_ON_HOST;
    return true;
}

/* failed to allocate 190.31M (199557120 bytes) from device; before it the device may have been described. */
static bool read_driver(span s, span all, oom *o) {
    span description = span_behind(all, "Total memory: ");
    o->tried = span_size(s);
    o->units = OOM_G;
    o->total = span_size(description);
    o->free = span_size(span_behind(description, "Free memory: "));
    o->free_said = o->total > 0 && o->free > 0;
    return span_behind(s, "from device").at;
}

static bool read_pool(span s, span all, oom *o) {
    (void)all;
    o->tried = span_size(span_behind(s, "trying to allocate "));
    return true;
}

/* ---- XLA ---- */

/* Attempting to reserve 6.48G at the bottom of memory. That was not possible. There are 6.78G free, 0B
 * reserved, and 3.33G reservable. */
static bool read_tpu(span s, span all, oom *o) {
    (void)all;
    o->backend = OOM_ON_TPU;
    o->units = OOM_G;
    o->tried = span_size(s);
    o->free = span_size(span_behind(s, "There are "));
    o->free_said = span_behind(s, "There are ").at != NULL;
    o->piece = span_size_before(s, " reservable");
    o->total = span_size(span_behind(s, "HBM capacity "));
    o->allocated = span_size(span_behind(s, "Currently allocated: "));
    return o->tried > 0;
}

/* Used 21.95G of 15.48G hbm. */
static bool read_compiled(span s, span all, oom *o) {
    (void)all;
    o->backend = OOM_ON_TPU;
    o->units = OOM_G;
    o->tried = o->program = span_size(span_behind(s, "Used "));
    o->total = span_size(span_behind(span_behind(s, "Used "), " of "));
    return o->total > 0;
}

/* Also said of quotas that have nothing to do with memory. */
static bool read_exhausted(span s, span all, oom *o) {
    if (span_behind(all, "_bfc) ran out of memory").at) return false; /* TensorFlow's own pool says more */
    span asked = span_behind(s, "llocat");                            /* "Allocating", "allocate" */
    span request = span_behind(s, "request for ");
    o->tried = span_size(request.at ? request : span_behind(asked, " "));
    o->program = span_size(span_behind(s, "total allocation: "));
    return asked.at || span_behind(s, "emory").at;
}

const oom_message oom_messages_graphs[] = {
    { OOM_TENSORFLOW, "OOM when allocating tensor with shape[", read_tensor },
    { OOM_TENSORFLOW, "OOM when allocating tensor of shape [", read_tensor },
    { OOM_XLA, "Ran out of memory in memory space hbm", read_compiled },
    { OOM_XLA, "Attempting to reserve ", read_tpu },
    { OOM_XLA, "Attempting to allocate ", read_tpu },
    { OOM_XLA, "RESOURCE_EXHAUSTED", read_exhausted },
    { OOM_XLA, "Resource exhausted: ", read_exhausted },
    { OOM_XLA, "ResourceExhaustedError: ", read_exhausted },
    { OOM_TENSORFLOW, "failed to allocate ", read_driver },
    { OOM_TENSORFLOW, "_bfc) ran out of memory", read_pool },
    { OOM_TENSORFLOW, "Dst tensor is not initialized", NULL },
    { 0 }
};
