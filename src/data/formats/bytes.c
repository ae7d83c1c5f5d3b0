/* Text as it is: every byte is a token, with ids 0 to 255. */
#include <string.h>

#include "data/formats/format.h"

/* What people hand over by mistake: it is no text, or not text that has its letters in its bytes. */
static status refuse_packed(const data_file *f) {
    static const struct {
        const char *magic;
        size_t bytes;
        const char *what, *remedy;
    } known[] = { { "\x93NUMPY", 6, "a NumPy array", "name it .npy" },
                  { "PAR1", 4, "a Parquet table", "write its text column as JSON lines" },
                  { "ARROW1", 6, "an Arrow table", "write its text column as JSON lines" },
                  { "\x1f\x8b", 2, "gzip-compressed", "unpack it" },
                  { "PK\x03\x04", 4, "a zip archive", "unpack it" },
                  { "\x28\xb5\x2f\xfd", 4, "zstd-compressed", "unpack it" },
                  { "\xfd"
                    "7zXZ",
                    5, "xz-compressed", "unpack it" },
                  { "BZh", 3, "bzip2-compressed", "unpack it" },
                  { "\xff\xfe", 2, "text in UTF-16", "convert it with iconv -f UTF-16 -t UTF-8" },
                  { "\xfe\xff", 2, "text in UTF-16", "convert it with iconv -f UTF-16 -t UTF-8" } };
    char head[8] = { 0 };
    TRY(format_pread(f, 0, head, f->bytes < sizeof head ? f->bytes : sizeof head));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (memcmp(head, known[i].magic, known[i].bytes) == 0)
            return status_set(STATUS_INVALID, "%s is %s; %s, or ask for its bytes with --data-kind bytes",
                              f->path, known[i].what, known[i].remedy);
    return STATUS_OK;
}

static status inspect(data_file *f, bool asked) {
    f->tokens = f->bytes;
    f->width = 1;
    f->ceiling = 256;
    return asked ? STATUS_OK : refuse_packed(f);
}

const data_format format_bytes = { .name = "bytes",
                                   .about = "text read as bytes",
                                   .suffixes = { ".txt" },
                                   .inspect = inspect,
                                   .read = format_read_items };
