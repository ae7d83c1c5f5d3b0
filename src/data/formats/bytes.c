/* Text as it is: every byte is a token, with ids 0 to 255. */
#include <string.h>
#include <strings.h>

#include "data/formats/format.h"

/* Texts that stand in something else: its braces, commas and quotes would be learned with them. */
static status refuse_wrapped(const data_file *f) {
    static const struct {
        const char *suffix, *what, *remedy;
    } known[] = {
        { ".csv", "a table of comma-separated values",
          "write its text column as JSON lines ({\"text\": ...}, one a line, in a .jsonl)" },
        { ".tsv", "a table of tab-separated values",
          "write its text column as JSON lines ({\"text\": ...}, one a line, in a .jsonl)" },
        { ".json", "JSON",
          "say --data-kind jsonl if each line is an object with a \"text\", or make such lines of a "
          "list (jq -c '.[]' FILE > FILE.jsonl)" }
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t length = strlen(f->path), end = strlen(known[i].suffix);
        if (length < end || strcasecmp(f->path + length - end, known[i].suffix) != 0) continue;
        return status_set(STATUS_INVALID,
                          "%s is %s by its name; %s, or ask for its bytes with --data-kind bytes", f->path,
                          known[i].what, known[i].remedy);
    }
    return STATUS_OK;
}

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
                  { "%PDF-", 5, "a PDF document", "extract its text (pdftotext)" },
                  { "\x89HDF", 4, "an HDF5 file", "write its texts as JSON lines" },
                  { "SQLite f", 8, "a SQLite database", "write its texts as JSON lines" },
                  { "\x89PNG", 4, "an image", "give it text" },
                  { "\xff\xd8\xff", 3, "an image", "give it text" },
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
    f->documents = 1;
    f->width = 1;
    f->ceiling = 256;
    if (asked) return STATUS_OK;
    TRY(refuse_wrapped(f));
    return refuse_packed(f);
}

const data_format format_bytes = { .name = "bytes",
                                   .about = "text read as bytes",
                                   .suffixes = { ".txt" },
                                   .is_text = true,
                                   .inspect = inspect,
                                   .read = format_read_items };
