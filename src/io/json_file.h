/* Files for the reader of JSON of any length (base/json_reader.h). */
#pragma once

#include "base/json_reader.h"

/* `bytes` bytes from `start` on of a file that is open (io_open). `*file` and the texts must stay. */
json_source json_file_source(const int *file, const char *path, const char *what, uint64_t start,
                             uint64_t bytes);
