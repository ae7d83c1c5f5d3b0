#include "io/json_file.h"

#include "io/file.h"

static status read_file(const void *from, const char *path, uint64_t offset, void *into, uint64_t bytes) {
    return io_read_at(*(const int *)from, path, offset, into, bytes);
}

json_source json_file_source(const int *file, const char *path, const char *what, uint64_t start,
                             uint64_t bytes) {
    return (json_source){
        .read = read_file, .from = file, .path = path, .what = what, .start = start, .bytes = bytes
    };
}
