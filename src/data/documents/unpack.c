#include "data/documents/unpack.h"

status unpack_missing(const char *library, const char *package) {
    return status_set(STATUS_INVALID,
                      "this program was built without %s; install %s and build it again, or unpack the data",
                      library, package);
}

status unpack_finished(const char *name, const unpack_span *block) {
    if (block->out_left)
        return status_set(STATUS_INVALID, "what %s unpacks is %zu bytes short of what is said of it", name,
                          block->out_left);
    if (block->in_left)
        return status_set(STATUS_INVALID, "%zu bytes follow the end of what %s unpacks", block->in_left,
                          name);
    return STATUS_OK;
}
