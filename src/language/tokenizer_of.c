#include "language/tokenizer_of.h"

#include <stdio.h>
#include <unistd.h>

#include "io/file.h"
#include "io/json_file.h"

status tokenizer_of_open(const char *directory, tokenizer **t, bool *there) {
    char path[4096];
    int file;
    uint64_t bytes;
    *t = NULL;
    int length = snprintf(path, sizeof path, "%s/tokenizer.json", directory);
    *there = length < (int)sizeof path && access(path, F_OK) == 0;
    if (!*there) return STATUS_OK;
    TRY(io_open(path, &file, &bytes));
    json_source source = json_file_source(&file, path, "the tokenizer", 0, bytes);
    status result = tokenizer_open(&source, t);
    close(file);
    return result;
}
