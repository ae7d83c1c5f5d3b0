#include "language/members.h"

#include <stdio.h>
#include <unistd.h>

#include "base/memory.h"
#include "io/file.h"
#include "io/json_file.h"

status members_read(json_reader *r, members_each *each, void *context) {
    char key[JSON_READER_STRING];
    TRY(json_reader_expect(r, '{'));
    for (bool more = !json_reader_take(r, '}'); more;) {
        TRY(json_reader_string(r, key));
        TRY(json_reader_expect(r, ':'));
        TRY(each(context, r, key));
        TRY(json_reader_another(r, '}', &more));
    }
    return STATUS_OK;
}

static status read_all(json_reader *r, members_each *each, void *context) {
    TRY(members_read(r, each, context));
    return json_reader_end(r);
}

status members_of_file(const char *directory, const char *name, members_each *each, void *context,
                       bool *there) {
    char path[4096];
    json_reader r;
    int file;
    uint64_t bytes;
    int length = snprintf(path, sizeof path, "%s/%s", directory, name);
    *there = length < (int)sizeof path && access(path, F_OK) == 0;
    if (!*there) return STATUS_OK;
    TRY(io_open(path, &file, &bytes));
    json_source source = json_file_source(&file, path, "the file", 0, bytes);
    json_reader_begin(&r, &source);
    status result = read_all(&r, each, context);
    close(file);
    return result;
}

status members_text(json_reader *r, uint64_t most, char **text, size_t *length) {
    uint64_t place = json_reader_place(r), bytes, again;
    *text = NULL;
    TRY(json_reader_text(r, NULL, 0, &bytes));
    if (bytes > most) {
        char why[64];
        snprintf(why, sizeof why, "a text of more than %llu bytes", (unsigned long long)most);
        json_reader_go(r, place);
        return json_reader_wrong(r, why);
    }
    char *out = memory_room(1, (size_t)bytes + 1);
    if (!out) return status_set(STATUS_FAILED, "%s: no memory for a text of it", r->source.path);
    json_reader_go(r, place);
    status result = json_reader_text(r, out, bytes, &again);
    if (result == STATUS_OK && again != bytes)
        result = status_set(STATUS_INVALID, "%s changed while it was read", r->source.path);
    if (result != STATUS_OK) {
        memory_free(out);
        return result;
    }
    out[bytes] = 0;
    *text = out, *length = (size_t)bytes;
    return STATUS_OK;
}
