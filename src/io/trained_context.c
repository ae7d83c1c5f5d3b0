#include "io/trained_context.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "io/json.h"

enum { PATH_BYTES = 4096, LINE_BYTES = 1024 };

static int64_t context_in(json_value v) {
    int64_t context = 0;
    bool found =
        json_as_object(v) == STATUS_OK && json_get_integer(v, "context", 1, INT32_MAX, &context) == STATUS_OK;
    return found ? context : 0;
}

/* The first line of a run's history. */
static int64_t of_history(const char *path) {
    char line[LINE_BYTES];
    int file;
    uint64_t bytes;
    json_document d;
    if (io_open(path, &file, &bytes) != STATUS_OK) return 0;
    if (bytes > sizeof line) bytes = sizeof line;
    const char *end = NULL;
    if (io_read_at(file, path, 0, line, bytes) == STATUS_OK) end = memchr(line, '\n', (size_t)bytes);
    close(file);
    if (!end || json_parse(path, line, (size_t)(end - line), &d) != STATUS_OK) return 0;
    int64_t context = context_in(d.root);
    json_close(&d);
    return context;
}

static int64_t of_checkpoint(const char *path) {
    json_document d;
    json_value options;
    int64_t context = 0;
    if (json_open(path, &d) != STATUS_OK) return 0;
    if (json_as_object(d.root) == STATUS_OK && json_get(d.root, "options", &options) == STATUS_OK)
        context = context_in(options);
    json_close(&d);
    return context;
}

int64_t trained_context(const char *folder) {
    static const struct {
        const char *name;
        int64_t (*read)(const char *path);
    } records[] = { { "metrics.jsonl", of_history }, { "trainer_state.json", of_checkpoint } };
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        if (snprintf(path, sizeof path, "%s/%s", folder, records[i].name) < PATH_BYTES &&
            access(path, F_OK) == 0)
            return records[i].read(path);
    return 0;
}
