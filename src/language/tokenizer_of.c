#include "language/tokenizer_of.h"

#include <stdio.h>
#include <unistd.h>

status tokenizer_of_open_with(const char *directory, const wanted_tokens *w, tokenizer **t, bool *there) {
    static const char name[] = "tokenizer.json";
    char path[4096];
    spliced_file file;
    *t = NULL;
    int length = snprintf(path, sizeof path, "%s/%s", directory, name);
    *there = length < (int)sizeof path && access(path, F_OK) == 0;
    if (!*there) return STATUS_OK;
    TRY(spliced_file_open(path, w ? wanted_tokens_splice(w, name) : NULL, &file));
    json_source source = spliced_file_source(&file, "the tokenizer");
    status result = tokenizer_open(&source, t);
    spliced_file_close(&file);
    return result;
}

status tokenizer_of_open(const char *directory, tokenizer **t, bool *there) {
    return tokenizer_of_open_with(directory, NULL, t, there);
}
