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

/* What is no JSON of ours says nothing; a lack of memory is a failure. */
static status nothing_said(status result) { return result == STATUS_FAILED ? result : STATUS_OK; }

/* The first line of a run's history. */
static status of_history(const char *path, int64_t *context) {
    char line[LINE_BYTES];
    int file;
    uint64_t bytes;
    json_document d;
    TRY(io_open(path, &file, &bytes));
    if (bytes > sizeof line) bytes = sizeof line;
    status result = io_read_at(file, path, 0, line, bytes);
    close(file);
    TRY(result);
    const char *end = memchr(line, '\n', (size_t)bytes);
    if (!end) return STATUS_OK;
    result = json_parse(path, line, (size_t)(end - line), &d);
    if (result != STATUS_OK) return nothing_said(result);
    *context = context_in(d.root);
    json_close(&d);
    return STATUS_OK;
}

static status of_checkpoint(const char *path, int64_t *context) {
    json_document d;
    json_value options;
    status result = json_open(path, &d);
    if (result != STATUS_OK) return nothing_said(result);
    if (json_as_object(d.root) == STATUS_OK && json_get(d.root, "options", &options) == STATUS_OK)
        *context = context_in(options);
    json_close(&d);
    return STATUS_OK;
}

status trained_context(const char *folder, int64_t *context) {
    static const struct {
        const char *name;
        status (*read)(const char *path, int64_t *context);
    } records[] = { { "metrics.jsonl", of_history }, { "trainer_state.json", of_checkpoint } };
    char path[PATH_BYTES];
    *context = 0;
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        if (snprintf(path, sizeof path, "%s/%s", folder, records[i].name) < PATH_BYTES &&
            access(path, F_OK) == 0)
            return records[i].read(path, context);
    return STATUS_OK;
}
